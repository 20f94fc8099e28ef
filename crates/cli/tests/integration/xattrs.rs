//! Extended attributes of extracted entries, on file systems with little room for them.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::common::{FORMATS, have, run_in, skip, stderr, succeed};
use rustix::fs::{XattrFlags, lsetxattr};

/// A small ext4 in a file, mounted at `place`.
struct Ext4Mount<'d> {
    place: &'d Path,
}

impl<'d> Ext4Mount<'d> {
    fn mount(test: &str, image: &Path, place: &'d Path) -> Option<Ext4Mount<'d>> {
        if !have(test, "mkfs.ext4") {
            return None;
        }
        std::fs::File::create(image).unwrap().set_len(16 << 20).unwrap();
        std::fs::create_dir(place).unwrap();
        // 256 bytes for an inode leave some 90 for attributes.
        let made = Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096", "-I", "256"]).arg(image).status().unwrap();
        assert!(made.success());
        let mounted = Command::new("mount").args(["-o", "loop"]).arg(image).arg(place).output().unwrap();
        if !mounted.status.success() {
            skip(test, "ext4 cannot be mounted here");
            return None;
        }
        Some(Ext4Mount { place })
    }
}

impl Drop for Ext4Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.place).status();
    }
}

#[test]
fn attributes_that_fit_in_one_order_only_are_restored() {
    let test = "attributes_that_fit_in_one_order_only_are_restored";
    let workplace = tempfile::tempdir().unwrap();
    let dir = workplace.path();
    let place = dir.join("ext4");
    let Some(_mounted) = Ext4Mount::mount(test, &dir.join("disk"), &place) else { return };
    // By name, the first one takes the room in the inode, and the others do not fit into the block together.
    std::fs::create_dir_all(place.join("root/dir")).unwrap();
    std::fs::write(place.join("root/file"), "content").unwrap();
    for name in ["file", "dir"] {
        for (attribute, len) in [("user.b", 60), ("user.c", 3980), ("user.a", 20)] {
            lsetxattr(place.join("root").join(name), attribute, &vec![b'x'; len], XattrFlags::empty()).unwrap();
        }
    }
    for format in FORMATS {
        succeed(dir, &["build", "ext4/root", "-o", "image", "--format", format, "-q", "-f"]);
        let to = format!("ext4/{format}");
        let extracted = run_in(dir, &["extract", "image", "-C", &to]);
        assert!(extracted.status.success(), "{format}: {}", stderr(&extracted));
        succeed(dir, &["diff", "image", &to]);
    }
    // More than there is room for in any order is reported, and the rest is restored.
    let value = "x".repeat(3000);
    std::fs::write(
        dir.join("large.list"),
        format!("dir /d 0755 0 0\nxattr /d user.a={value}\nxattr /d user.b={value}\n"),
    )
    .unwrap();
    succeed(dir, &["build", "@large.list", "-o", "image", "-q", "-f"]);
    let extracted = run_in(dir, &["extract", "image", "-C", "ext4/large"]);
    assert!(!extracted.status.success() && stderr(&extracted).contains("xattr user.b"), "{}", stderr(&extracted));
    let mut names = [0_u8; 256];
    let len = rustix::fs::llistxattr(place.join("large/d"), &mut names).unwrap();
    assert_eq!(std::ffi::OsStr::from_bytes(&names[..len]), "user.a\0");
}
