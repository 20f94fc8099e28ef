//! Oracles, and sealing into files.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use packfs_blocks::{Output, Progress, ReadAt};
use packfs_seal::HashEffort;
use packfs_seal::verity::{VerityOptions, VeritySeal, seal};

/// Returns true if a program is installed; otherwise reports that, or fails if none may be missing.
pub(crate) fn have(test: &str, tool: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|dir| dir.join(tool).is_file());
    assert!(found || std::env::var_os("PACKFS_REQUIRE_ORACLES").is_none(), "{test}: {tool} is not installed");
    if !found {
        eprintln!("SKIPPED {test}: {tool} is not installed");
    }
    found
}

/// Runs a program in `dir`, which must succeed; returns its standard output.
pub(crate) fn run(dir: &Path, program: &str, args: &[&str]) -> String {
    let ran = Command::new(program).args(args).current_dir(dir).output().unwrap();
    assert!(ran.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// Returns `len` bytes that differ from block to block.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    packfs_blocks::testing::noise(len, 7)
}

/// Returns threads with counters of their own.
pub(crate) fn effort(threads: usize) -> HashEffort {
    HashEffort { threads, progress: Arc::new(Progress::default()) }
}

/// Seals data into a file of its own.
pub(crate) fn seal_into(file: &Path, data: &dyn ReadAt, options: &VerityOptions, threads: usize) -> VeritySeal {
    let output = Output::create(file, 0o666, true).unwrap();
    let sealed = seal(data, options, 0, Some(&output), &effort(threads)).unwrap();
    output.commit().unwrap();
    sealed
}
