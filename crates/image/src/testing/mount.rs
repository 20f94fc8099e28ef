//! Mounting images on the running kernel: the reader that counts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::{Snapshot, differences, findings, snapshot, snapshot_image};
use crate::{Image, Result};

/// A mounted image, unmounted when dropped.
#[derive(Debug)]
pub struct Mount {
    dir: tempfile::TempDir,
}

impl Mount {
    /// Mounts `image`, read-only through a loop device; the kernel's refusal is the error's text.
    pub fn new(image: &Path, kind: &str) -> std::result::Result<Mount, String> {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mounted = Command::new("mount")
            .args(["-t", kind, "-o", "loop,ro"])
            .args([image, dir.path()])
            .stdin(Stdio::null())
            .output()
            .map_err(|e| e.to_string())?;
        if mounted.status.success() {
            Ok(Mount { dir })
        } else {
            Err(String::from_utf8_lossy(&mounted.stderr).trim().to_string())
        }
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a snapshot's last descriptor may be on its way out, and a test that fails holds some.
        let _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
    }
}

/// The file `f` of an image as the kernel reads it, if it can. `kind` is `squashfs` or `erofs`.
#[cfg(test)]
pub fn kernel_reads(kind: &str, image: &[u8]) -> Option<Vec<u8>> {
    let dir = tempfile::tempdir().ok()?;
    let path = dir.path().join("image");
    std::fs::write(&path, image).ok()?;
    let mount = Mount::new(&path, kind).ok()?;
    std::fs::read(mount.path().join("f")).ok()
}

/// Whether images can be mounted here; if not, says so for `test`.
pub fn can_mount(test: &str) -> bool {
    let can = super::is_root() && Command::new("mount").arg("--version").output().is_ok();
    if !can {
        super::skipped(test, "mount (as root)");
    }
    can
}

/// Asks the reader, its check and the kernel about an image that should hold `want`. Says what is wrong.
pub fn disagreements(want: &Snapshot, image: &Path, opened: Result<Arc<dyn Image>>, kind: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut say = |who: &str, found: Vec<String>| wrong.extend(found.iter().map(|line| format!("{who}: {line}")));
    match opened.and_then(|image| Ok((snapshot_image(&*image)?, findings(&*image, 2)))) {
        Ok((got, findings)) => {
            say("reader", differences(want, &got));
            say("check", findings);
        }
        Err(error) => say("reader", vec![error.to_string()]),
    }
    match Mount::new(image, kind).map(|mount| snapshot(&mount.path())) {
        Ok(Ok(got)) => say("kernel", differences(want, &got)),
        Ok(Err(error)) => say("kernel", vec![error.to_string()]),
        Err(error) => say("kernel", vec![error]),
    }
    wrong
}
