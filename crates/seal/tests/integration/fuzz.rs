//! The body of the fuzz target `rauc_bundle`, run over its corpus with random changes.

use std::path::Path;

use packfs_blocks::testing::Random;

#[path = "../../../../fuzz/src/rauc_bundle.rs"]
#[allow(unreachable_pub, reason = "public where the fuzz targets use it")]
mod rauc_bundle;

#[test]
fn no_input_makes_a_bundle_panic() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/rauc_bundle");
    let mut seeds: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    assert!(!seeds.is_empty());
    let mut random = Random::new(1);
    for seed in seeds {
        let seed = std::fs::read(seed).unwrap();
        rauc_bundle::look(&seed);
        for _ in 0..100 {
            let mut bytes = seed.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                bytes[at] = [0, 1, 0x7f, 0xff, bytes[at] ^ 1 << random.below(8)][random.below(5)];
            }
            rauc_bundle::look(&bytes);
        }
    }
}
