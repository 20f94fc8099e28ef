//! Mounts images on the running kernel, the reader that counts.

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
    /// Mounts `image`, read-only through a loop device; the error is the kernel's message.
    pub fn new(image: &Path, kind: &str) -> std::result::Result<Mount, String> {
        Mount::with(image, kind, "loop,ro")
    }

    /// Mounts the file itself, without a loop device. The kernel reads it in its own way, which needs Linux 6.12 and
    /// EROFS.
    pub fn of_file(image: &Path, kind: &str) -> std::result::Result<Mount, String> {
        use rustix::io::Errno;
        use rustix::mount::{MountFlags, mount};

        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mount_file = |image: &Path| mount(image, dir.path(), kind, MountFlags::RDONLY, None);
        match mount_file(image) {
            // Linux does not read images on tmpfs itself. Once a copy is mounted, it needs no name.
            Err(Errno::NOTBLK) => {
                let copy = tempfile::NamedTempFile::new_in("/var/tmp").map_err(|e| e.to_string())?;
                std::fs::copy(image, copy.path()).map_err(|e| e.to_string())?;
                mount_file(copy.path())
            }
            mounted => mounted,
        }
        .map_err(|e| e.to_string())?;
        Ok(Mount { dir })
    }

    /// Mounts an EROFS image with its additional devices.
    pub fn with_devices(image: &Path, devices: &[LoopDevice]) -> std::result::Result<Mount, String> {
        let devices: String = devices.iter().map(|device| format!(",device={}", device.0)).collect();
        Mount::with(image, "erofs", &format!("loop,ro{devices}"))
    }

    fn with(image: &Path, kind: &str, options: &str) -> std::result::Result<Mount, String> {
        let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mounted = Command::new("mount")
            .args(["-t", kind, "-o", options])
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

    /// Returns the mount point.
    pub fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a snapshot's last descriptor may still be open, and a failing test holds some.
        let _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
    }
}

/// A file as a block device, detached when dropped.
#[derive(Debug)]
pub struct LoopDevice(String);

impl LoopDevice {
    /// Attaches `file`, read-only.
    pub fn new(file: &Path) -> std::result::Result<LoopDevice, String> {
        let attached = Command::new("losetup").args(["-f", "-r", "--show"]).arg(file).output();
        let attached = attached.map_err(|e| e.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
        if attached.status.success() { Ok(LoopDevice(text(&attached.stdout))) } else { Err(text(&attached.stderr)) }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// Returns the file `f` of an image as read by the kernel, if it can. `kind` is `squashfs` or `erofs`.
pub fn kernel_reads(kind: &str, image: &[u8]) -> Option<Vec<u8>> {
    let dir = tempfile::tempdir().ok()?;
    let path = dir.path().join("image");
    std::fs::write(&path, image).ok()?;
    let mount = Mount::new(&path, kind).ok()?;
    std::fs::read(mount.path().join("f")).ok()
}

/// Returns true if images can be mounted here; otherwise reports `test` as skipped.
pub fn can_mount(test: &str) -> bool {
    let can = super::is_root() && Command::new("mount").arg("--version").output().is_ok();
    if !can {
        super::skipped(test, "mount (as root)");
    }
    can
}

/// Compares the reader, its check and the kernel on an image that should contain `want`. Returns the discrepancies.
pub fn disagreements(want: &Snapshot, image: &Path, opened: Result<Arc<dyn Image>>, kind: &str) -> Vec<String> {
    let mut wrong = reader_disagreements(want, opened);
    wrong.extend(kernel_disagreements(want, image, kind));
    wrong
}

/// Compares the reader and its check on an image that should contain `want`. Returns the discrepancies.
pub fn reader_disagreements(want: &Snapshot, opened: Result<Arc<dyn Image>>) -> Vec<String> {
    match opened.and_then(|image| Ok((snapshot_image(&*image)?, findings(&*image, 2)))) {
        Ok((got, findings)) => {
            let mut wrong = said_by("reader", differences(want, &got));
            wrong.extend(said_by("check", findings));
            wrong
        }
        Err(error) => said_by("reader", vec![error.to_string()]),
    }
}

/// Compares the kernel's view of an image that should contain `want`. Returns the discrepancies.
pub fn kernel_disagreements(want: &Snapshot, image: &Path, kind: &str) -> Vec<String> {
    let found = match Mount::new(image, kind).map(|mount| snapshot(&mount.path())) {
        Ok(Ok(got)) => differences(want, &got),
        Ok(Err(error)) => vec![error.to_string()],
        Err(error) => vec![error],
    };
    said_by("kernel", found)
}

/// Puts the name of a reader before each of its discrepancies.
pub fn said_by(who: &str, found: Vec<String>) -> Vec<String> {
    found.into_iter().map(|line| format!("{who}: {line}")).collect()
}
