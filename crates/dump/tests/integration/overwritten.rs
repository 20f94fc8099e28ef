//! A part of a dump that is overwritten in place after it was opened gives an error, or its bytes come from parity; two
//! versions are never mixed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use packfs_blocks::testing::noise;
use packfs_blocks::{Progress, ReadAt};
use packfs_dump::{Input, Set, SplitOptions, join, set, split};

/// Length of the dumps.
const LEN: usize = 4_000_000;

/// Splits noise and returns the paths of the parts, as if they had been written an hour ago.
fn parts(dir: &std::path::Path, seed: u32, parity: u16) -> Vec<PathBuf> {
    let input = dir.join(format!("input{seed}"));
    std::fs::write(&input, noise(LEN, seed.into())).unwrap();
    let paths: Vec<PathBuf> = (0..3).map(|n| dir.join(format!("part{seed}-{n}"))).collect();
    let options = SplitOptions::default().set(|all| (all.chunk, all.threads, all.parity) = (1 << 16, 1, parity));
    split(Input::open(&input).unwrap(), &paths, &options, &Progress::default()).unwrap();
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    for path in &paths {
        File::options().write(true).open(path).unwrap().set_modified(hour_ago).unwrap();
    }
    paths
}

#[test]
fn a_part_that_is_overwritten_is_not_read_any_more() {
    for parity in [0, 1] {
        let dir = tempfile::tempdir().unwrap();
        let paths = parts(dir.path(), 1, parity);
        let set = Set::open(&paths, &set::SetOptions::default().set(|all| all.cache_bytes = 1 << 20)).unwrap();
        set.check_unchanged().unwrap();
        let other = std::fs::read(&parts(dir.path(), 2, parity)[1]).unwrap();
        File::options().write(true).open(&paths[1]).unwrap().write_all_at(&other, 0).unwrap();
        assert!(set.check_unchanged().is_err());
        let mut joined = Vec::new();
        match join::to_stream(&set, &mut joined, &join::JoinOptions::default(), &Progress::default()) {
            Ok(_) => assert!(joined == noise(LEN, 1), "parity {parity}: the dump has bytes of another one"),
            Err(error) => {
                assert!(
                    error.to_string().contains("after it was opened") || error.to_string().contains("now"),
                    "{error}"
                );
            }
        }
        let mut all = vec![0; LEN];
        if set.read_exact_at(&mut all, 0).is_ok() {
            assert!(all == noise(LEN, 1), "parity {parity}: the dump has bytes of another one");
        }
    }
}
