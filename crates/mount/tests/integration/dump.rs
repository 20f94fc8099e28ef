//! The parts of a dump as one file.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_dump::{Input, Set, SplitOptions, set, split};
use packfs_image::tree::Time;
use packfs_mount::{DumpImage, MountOptions};
use rustix::fs::{SeekFrom, seek};

use crate::served::{Served, can_mount};

#[test]
fn parts_are_one_file_with_holes_where_zeros_are() {
    if !can_mount("parts_are_one_file_with_holes_where_zeros_are") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (input, parts) = (dir.path().join("core"), ["a", "b"].map(|name| dir.path().join(name)));
    let mut bytes: Vec<u8> = (0..3u32 << 18).flat_map(|n| (n % 100_003).to_le_bytes()).collect();
    bytes.resize(bytes.len() + (8 << 20), 0);
    bytes.extend_from_slice(b"the end");
    std::fs::write(&input, &bytes).unwrap();
    split(Input::open(&input).unwrap(), &parts, &SplitOptions::default(), &Progress::default()).unwrap();
    let set = Arc::new(Set::open(&parts, &set::SetOptions::default()).unwrap());
    let image = DumpImage::new(set, b"dump", Time { secs: 5, nanos: 0 });
    let mount = Served::new(Arc::new(image), MountOptions::default());
    let mut file = File::open(mount.path().join("dump")).unwrap();
    let mut got = Vec::new();
    file.read_to_end(&mut got).unwrap();
    assert!(got == bytes);
    let mut some = [0; 7];
    file.read_exact_at(&mut some, bytes.len() as u64 - 7).unwrap();
    assert_eq!(&some, b"the end");
    let hole = seek(&file, SeekFrom::Hole(0)).unwrap();
    let data = seek(&file, SeekFrom::Data(hole)).unwrap();
    assert!(data - hole > 7 << 20, "{hole} {data}");
    assert_eq!(std::fs::read_dir(mount.path()).unwrap().count(), 1);
}
