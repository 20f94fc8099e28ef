//! The body of the fuzz target `dump_part`, run over its corpus with random changes.

use std::path::Path;

use packfs_blocks::testing::Random;

use crate::zeros;

#[allow(unreachable_pub, reason = "public where the fuzz targets use it")]
#[path = "../../../../fuzz/src/dump_part.rs"]
mod dump_part;

#[test]
fn no_input_makes_a_reader_panic() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/dump_part");
    let mut seeds: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    assert!(!seeds.is_empty());
    let mut generator = Random::new(1);
    let mut random = |limit| generator.below(limit);
    for seed in seeds {
        let seed = std::fs::read(seed).unwrap();
        dump_part::look(&seed);
        let seed = zeros::unpack(&seed[1..]);
        assert!(zeros::unpack(&zeros::pack(&seed)) == seed, "packed and unpacked");
        if seed.is_empty() {
            continue;
        }
        for _ in 0..40 {
            let mut bytes = seed.clone();
            for _ in 0..1 + random(6) {
                // Most of the fields that are read are at the beginning of structures.
                let at =
                    if random(3) == 0 { random(bytes.len()) } else { random(bytes.len()) / 4096 * 4096 + random(200) };
                let value = [0, 1, 0x7F, 0xFF, bytes[at % seed.len()] ^ 1 << random(8)][random(5)];
                bytes[at % seed.len()] = value;
            }
            if random(8) == 0 {
                bytes.truncate(random(seed.len()));
            }
            dump_part::open(bytes.clone());
            dump_part::mend(&mut bytes);
            dump_part::open(bytes);
        }
    }
}
