//! File handles, by which NFS servers name files: those of one mount open the same files in the next one.
#![allow(unsafe_code, reason = "handles are made and opened by two calls of libc")]

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use packfs_image::build::AnyOptions;
use packfs_image::testing::{Node, Piece, Spec};
use packfs_image::{erofs, squashfs};
use packfs_mount::MountOptions;

use crate::served::{Served, build, can_mount, open};

/// A handle with room for the longest one, as the kernel takes it.
#[repr(C)]
#[derive(Debug, Clone)]
struct Handle {
    len: u32,
    kind: i32,
    bytes: [u8; 128],
}

impl Handle {
    fn of(path: &Path) -> Handle {
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        let (mut handle, mut mount) = (Handle { len: 128, kind: 0, bytes: [0; 128] }, 0);
        // SAFETY: the handle has `len` bytes after its head, and the name ends with a zero.
        let done = unsafe {
            libc::name_to_handle_at(libc::AT_FDCWD, name.as_ptr(), (&raw mut handle).cast(), &raw mut mount, 0)
        };
        assert_eq!(done, 0, "{path:?}: {}", io::Error::last_os_error());
        handle
    }

    /// Opens what it names in the mount of which `within` is any file.
    fn open(&self, within: &File) -> io::Result<File> {
        let mut handle = self.clone();
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        // SAFETY: as above.
        let number = unsafe { libc::open_by_handle_at(within.as_raw_fd(), (&raw mut handle).cast(), flags) };
        // SAFETY: the kernel has just opened it for nobody else.
        if number < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { File::from_raw_fd(number) }) }
    }
}

fn spec() -> Spec {
    let file = |seed| Node::file(vec![Piece::Text { seed, len: 200_000 }]);
    let inner = Node::dir((0..300).map(|n| (format!("f{n:03}").into_bytes(), file(n))));
    let middle = Node::dir([(b"inner".to_vec(), inner), (b"x".to_vec(), file(1000))]);
    Spec::of([(b"middle".to_vec(), middle), (b"a".to_vec(), file(1001)), (b"empty".to_vec(), Node::dir([]))])
}

#[test]
fn handles_of_one_mount_open_the_same_files_in_the_next() {
    if !can_mount("handles_of_one_mount_open_the_same_files_in_the_next") {
        return;
    }
    let squashfs = squashfs::SquashfsOptions::default().with(|all| all.codec = "zstd:1".parse().unwrap());
    let erofs = erofs::ErofsOptions::default().with(|all| all.codec = "lz4".parse().unwrap());
    for options in [AnyOptions::Squashfs(squashfs), AnyOptions::Erofs(erofs)] {
        let image = build(&spec(), &options);
        let mounted = || Served::new(open(image.clone(), 1 << 20).unwrap(), MountOptions::default());
        let paths = ["", "a", "empty", "middle", "middle/x", "middle/inner", "middle/inner/f000", "middle/inner/f299"];
        let before = mounted();
        let handles = paths.map(|path| {
            let path = before.path().join(path);
            (Handle::of(&path), path.metadata().unwrap().ino())
        });
        drop(before);
        let after = mounted();
        let root = File::open(after.path()).unwrap();
        // The last ones first: nothing is known yet of the directories above them.
        for (path, (handle, number)) in paths.iter().zip(&handles).rev() {
            let mut opened = handle.open(&root).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(opened.metadata().unwrap().ino(), *number, "{path}");
            let place = after.path().join(path);
            if place.is_dir() {
                // It is found again below the root, by way of what is above it.
                let link = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).unwrap();
                assert_eq!(link, place.canonicalize().unwrap(), "{path}");
            } else {
                let mut bytes = Vec::new();
                opened.read_to_end(&mut bytes).unwrap();
                assert!(bytes == std::fs::read(&place).unwrap() && bytes.len() == 200_000, "{path}");
            }
        }
        // Handles that nobody got: most numbers belong to no inode.
        let mut refused = 0;
        for nodeid in [2u64, 3, 77, 1 << 20, 1 << 40, u64::MAX] {
            let mut handle = handles[1].0.clone();
            // FUSE puts the high half first.
            handle.bytes[..8].copy_from_slice(&nodeid.rotate_left(32).to_ne_bytes());
            match handle.open(&root) {
                Err(error) => {
                    let known = [libc::ESTALE, libc::EIO, libc::EACCES, libc::ENXIO, libc::ELOOP].map(Some);
                    assert!(known.contains(&error.raw_os_error()), "{nodeid}: {error}");
                    refused += 1;
                }
                Ok(file) => assert!(file.metadata().is_ok(), "{nodeid}"),
            }
        }
        assert!(refused > 2);
        assert_eq!(std::fs::read(after.path().join("a")).unwrap().len(), 200_000);
    }
}
