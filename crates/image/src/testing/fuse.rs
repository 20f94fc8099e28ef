//! Mounts images by FUSE with other programs: readers that need no privilege.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time that a program has until its mount appears: more than any needs, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// An image mounted by a program, unmounted when dropped.
#[derive(Debug)]
pub struct FuseMount {
    program: Child,
    /// Messages of the program. Not a pipe, which would block the program after many errors of a damaged image.
    said: File,
    dir: tempfile::TempDir,
}

impl FuseMount {
    /// Mounts `image` with `program`, which takes `-f`, the image and the directory; the error is what it says.
    pub fn new(program: &str, image: &Path) -> Result<FuseMount, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        let said = tempfile::tempfile().map_err(|error| error.to_string())?;
        let stderr = said.try_clone().map_err(|error| error.to_string())?;
        command.arg("-f").args([image, dir.path()]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let before = device(dir.path())?;
        let program = command.spawn().map_err(|error| error.to_string())?;
        // From here on, dropping it ends the program.
        let mut mount = FuseMount { program, said, dir };
        let begun = Instant::now();
        while device(mount.dir.path())? == before {
            if mount.program.try_wait().map_err(|error| error.to_string())?.is_some() {
                return Err(mount.said());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("not mounted after {PATIENCE:?}"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(mount)
    }

    /// Returns the mount point.
    pub fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// Returns the messages of the program, which has ended.
    fn said(&mut self) -> String {
        let mut said = Vec::new();
        let read = self.said.rewind().and_then(|()| self.said.read_to_end(&mut said));
        read.map_or_else(|error| error.to_string(), |_| String::from_utf8_lossy(&said).trim().to_owned())
    }
}

/// Returns the number of the file system that a directory is on.
fn device(dir: &Path) -> Result<u64, String> {
    // The one below answers until the mount appears, and a dead one never does.
    std::fs::metadata(dir).map(|meta| meta.dev()).map_err(|error| error.to_string())
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        let _ = Command::new("fusermount3").args(["-q", "-u", "-z"]).arg(self.dir.path()).status();
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Returns true if `program` can mount images here; otherwise reports `test` as skipped.
pub fn can_mount_by_fuse(test: &str, program: &str) -> bool {
    let has_device = File::options().read(true).write(true).open("/dev/fuse").is_ok();
    let can = has_device && ["fusermount3", program].iter().all(|tool| super::have(tool));
    if !can {
        super::skipped(test, &format!("{program} or /dev/fuse"));
    }
    can
}
