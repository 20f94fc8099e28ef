//! The bodies of the fuzz targets `rauc_bundle` and `sif_file`, run over their corpora with random changes.

use std::path::Path;

use packfs_blocks::testing::Random;

#[path = "../../../../fuzz/src/rauc_bundle.rs"]
#[allow(unreachable_pub, reason = "public where the fuzz targets use it")]
mod rauc_bundle;
#[path = "../../../../fuzz/src/sif_file.rs"]
#[allow(unreachable_pub, reason = "public where the fuzz targets use it")]
mod sif_file;

#[test]
fn no_input_makes_a_bundle_panic() {
    run_corpus("rauc_bundle", rauc_bundle::look);
}

#[test]
fn no_input_makes_a_sif_file_panic_or_pass_for_another() {
    run_corpus("sif_file", sif_file::look);
}

fn run_corpus(target: &str, look: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut seeds: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    assert!(!seeds.is_empty());
    let mut random = Random::new(1);
    for seed in seeds {
        let seed = std::fs::read(seed).unwrap();
        look(&seed);
        for _ in 0..100 {
            let mut bytes = seed.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                bytes[at] = [0, 1, 0x7f, 0xff, bytes[at] ^ 1 << random.below(8)][random.below(5)];
            }
            look(&bytes);
        }
    }
}
