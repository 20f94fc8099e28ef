//! Images as the kernel shows them: the judge of images that packfs and other programs write.

use std::path::Path;
use std::process::Command;

use super::{skip, stderr};

/// Mounts the image and runs a script in the directory that holds the mount point `m`; returns the lines it prints, or
/// `None` where images cannot be mounted, which is reported for `test`.
pub(crate) fn inside(test: &str, image: &Path, script: &str) -> Option<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("m");
    std::fs::create_dir(&at).unwrap();
    if !rustix::process::geteuid().is_root() {
        skip(test, "mounting needs root");
        return None;
    }
    let mounted = Command::new("mount").args(["-o", "loop,ro"]).args([image, &at]).output().unwrap();
    assert!(mounted.status.success(), "{image:?}: {}", stderr(&mounted));
    let ran = Command::new("sh").args(["-ec", script]).env("LC_ALL", "C").current_dir(dir.path()).output();
    let _ = Command::new("umount").arg("-l").arg(&at).status();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{script}: {}", stderr(&ran));
    Some(String::from_utf8_lossy(&ran.stdout).lines().map(str::to_owned).collect())
}
