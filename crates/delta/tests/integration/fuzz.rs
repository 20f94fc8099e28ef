//! The bodies of the fuzz targets `delta_patch` and `zsync_index`, run over their corpora with random changes.

use std::path::Path;

use packfs_blocks::testing::Random;

#[path = "../../../../fuzz/src/delta_patch.rs"]
#[allow(unreachable_pub, reason = "public where the fuzz targets use it")]
mod delta_patch;
#[path = "../../../../fuzz/src/zsync_index.rs"]
#[allow(unreachable_pub, reason = "public where the fuzz targets use it")]
mod zsync_index;

#[test]
fn no_input_makes_a_patch_panic() {
    change_corpus("delta_patch", delta_patch::look);
}

#[test]
fn no_input_makes_an_update_by_an_index_panic() {
    change_corpus("zsync_index", zsync_index::look);
}

/// Calls `look` with each input of a corpus, and with changes of it.
fn change_corpus(target: &str, look: impl Fn(&[u8])) {
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
