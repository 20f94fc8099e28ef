//! Mounting images on the running kernel: the reader that counts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A mounted image, unmounted when dropped.
#[derive(Debug)]
pub struct Mount {
    dir: tempfile::TempDir,
}

impl Mount {
    /// Mounts `image`, read-only through a loop device; the kernel's refusal is the error's text.
    pub fn new(image: &Path, kind: &str) -> Result<Mount, String> {
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

/// Whether images can be mounted here; if not, says so for `test`.
pub fn can_mount(test: &str) -> bool {
    let can = super::is_root() && Command::new("mount").arg("--version").output().is_ok();
    if !can {
        super::skipped(test, "mount (as root)");
    }
    can
}
