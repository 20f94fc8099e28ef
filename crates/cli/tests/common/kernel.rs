//! The contents of an image as the kernel shows them: the judge of images that packfs and other programs write.

use std::path::Path;
use std::process::Command;

use super::{skip, stderr};

/// Attributes that images can be compared by: path, type, mode, owner, group, links, size, target.
const ATTRIBUTES: &str = "%P %y %m %U:%G %n %s %l\n";

/// Returns a line for each entry of the image that the kernel shows, in byte order; `None` where images cannot be mounted,
/// which is reported for `test`. Sizes and link counts of directories are left out, as formats count them differently.
pub(crate) fn entries(test: &str, image: &Path) -> Option<Vec<String>> {
    let script = format!(
        "find m -type d -printf '%P d %m %U:%G\\n' -o -printf '{}' | sort; cd m; find . -type f | sort | xargs -r -d '\\n' sha256sum; \
         getfattr -hRd -m - --absolute-names . 2>/dev/null || :",
        ATTRIBUTES.replace('\n', "\\n")
    );
    inside(test, image, &script)
}

/// Mounts the image and runs a script in the directory that holds the mount point `m`; returns the lines it prints.
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
