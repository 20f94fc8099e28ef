//! A place for tests that mount: a tree, images of it and a mount point.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use super::{FORMATS, have, packfs, sample, skip, succeed};

/// Time after which something that should happen soon has not.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with the tree `root`, images of it called as their formats, and the mount point `m`, unmounted at the end
/// however the test ends.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    /// Makes the place; `None` where there is no FUSE, which is reported for `test`.
    pub(crate) fn new(test: &str) -> Option<Place> {
        if File::options().read(true).write(true).open("/dev/fuse").is_err() {
            skip(test, "/dev/fuse cannot be opened");
            return None;
        }
        if !have(test, "fusermount3") {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        sample(dir.path());
        std::fs::create_dir(dir.path().join("m")).unwrap();
        for format in FORMATS {
            succeed(dir.path(), &["build", "-q", "root", "-o", format, "--format", format]);
        }
        Some(Place(dir))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }

    /// Returns true if something is mounted, whether or not it answers.
    pub(crate) fn is_mounted(&self) -> bool {
        let place = self.path().canonicalize().unwrap().join("m");
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.lines().any(|line| line.split(' ').nth(4) == place.to_str())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_mounted() {
            let _ = packfs(["umount", "--lazy"]).arg(self.at("m")).status();
        }
    }
}

/// Waits until something is so.
pub(crate) fn soon(what: &str, happens: impl Fn() -> bool) {
    let begun = Instant::now();
    while !happens() {
        assert!(begun.elapsed() < PATIENCE, "not {what} after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the end of a program; returns its exit status, or -1 if a signal ended it.
pub(crate) fn ends(child: &mut Child) -> i32 {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        assert!(begun.elapsed() < PATIENCE, "the program does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}
