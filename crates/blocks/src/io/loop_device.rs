//! A block device for tests: a file behind a loop device.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A loop device, detached when dropped.
#[derive(Debug)]
pub struct LoopDevice(PathBuf);

impl LoopDevice {
    /// Attaches `file`; `None` where that is not allowed.
    pub fn attach(file: &Path) -> Option<LoopDevice> {
        let done = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let path = String::from_utf8(done.stdout).ok()?;
        done.status.success().then(|| LoopDevice(path.trim().into()))
    }

    /// The device.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}
