//! The readers of erofs-utils, which are the kernel's code in a program: fsck.erofs and erofsfuse need no privilege.
//! They accept some images that the kernel refuses, and vice versa.

use crate::name::display;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Stdio};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::*;
use crate::erofs::Incompat;
use crate::testing::{
    FuseMount, Shape, Snapshot, can_mount, can_mount_by_fuse, deep, differences, kernel_disagreements, misreadings,
    reader_disagreements, said_by, skipped, snapshot, snapshot_tree, specs, whole_seconds, wide,
};

/// Available readers of images besides our own.
pub(super) struct PeerReaders {
    kernel: bool,
    fsck: bool,
    fuse: bool,
}

impl PeerReaders {
    /// Finds the kernel, or else erofsfuse, and fsck.erofs: enough where there are hundreds of images. `None` if `test`
    /// has to be skipped because there is none.
    pub(super) fn few(test: &str) -> Option<PeerReaders> {
        let fsck = has_utils(test, "fsck.erofs");
        let kernel = can_mount(test);
        let fuse = !kernel && has_fuse(test);
        (kernel || fsck || fuse).then_some(PeerReaders { kernel, fsck, fuse })
    }

    /// Finds all of them.
    pub(super) fn all(test: &str) -> Option<PeerReaders> {
        let judges = PeerReaders::few(test)?;
        Some(PeerReaders { fuse: judges.fuse || (judges.kernel && has_fuse(test)), ..judges })
    }

    /// Has an image read by all of them, and our reader and check; returns the discrepancies.
    pub(super) fn wrong(&self, want: &Snapshot, image: &Path) -> Vec<String> {
        let mut wrong = reader_disagreements(want, open(image));
        if self.kernel {
            wrong.extend(kernel_disagreements(want, image, "erofs"));
        }
        if self.fsck {
            wrong.extend(said_by("fsck.erofs", extracted_wrong(want, image)));
        }
        if self.fuse {
            wrong.extend(said_by("erofsfuse", fuse_wrong(want, image)));
        }
        wrong
    }

    /// As [`PeerReaders::wrong`], and the kernel reads the files in all its ways.
    pub(super) fn wrong_in_any_way(&self, tree: &Tree, want: &Snapshot, image: &Path) -> Vec<String> {
        let mut wrong = self.wrong(want, image);
        if self.kernel {
            wrong.extend(misreadings(tree, image, "erofs"));
        }
        wrong
    }
}

fn has_fuse(test: &str) -> bool {
    has_utils(test, "erofsfuse") && can_mount_by_fuse(test, "erofsfuse")
}

/// Returns true if a program of erofs-utils knows the whole format; otherwise reports `test` as skipped.
fn has_utils(test: &str, program: &str) -> bool {
    let version = Command::new(program).arg("-V").output();
    let version = version.map_or(Vec::new(), |ran| [ran.stdout, ran.stderr].concat());
    let text = String::from_utf8_lossy(&version).into_owned();
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
    let is_new = numbers.take(2).collect::<Vec<u32>>() >= vec![1, 9];
    if !is_new {
        skipped(test, &format!("{program} 1.9"));
    }
    is_new
}

/// Extracts an image with fsck.erofs and returns the differences.
fn extracted_wrong(want: &Snapshot, image: &Path) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let ran = Command::new("fsck.erofs")
        .arg(format!("--extract={}", display(&out)))
        .arg("--preserve")
        .arg(image)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if !ran.status.success() {
        return vec![String::from_utf8_lossy(&ran.stderr).trim().to_owned()];
    }
    lengthen(want, &out);
    // Version 1.9.4 leaves out some xattrs.
    let without_xattrs = |mut snapshot: Snapshot| {
        snapshot.values_mut().for_each(|entry| entry.xattrs.clear());
        snapshot
    };
    compared(&without_xattrs(want.clone()), &without_xattrs(snapshot(&out).unwrap()), image)
}

/// Mounts an image with erofsfuse, whose version 1.9.4 drops fractions of seconds, and returns the differences.
fn fuse_wrong(want: &Snapshot, image: &Path) -> Vec<String> {
    match FuseMount::new("erofsfuse", image).map(|mount| snapshot(&mount.path())) {
        Ok(Ok(got)) => compared(&whole_seconds(want.clone()), &whole_seconds(got), image),
        Ok(Err(error)) => vec![error.to_string()],
        Err(error) => vec![error],
    }
}

/// Compares what erofs-utils read: version 1.9.4 takes the tails of files in a metabox from elsewhere, also in images
/// of mkfs.erofs; the kernel and our reader are compared on them.
fn compared(want: &Snapshot, got: &Snapshot, image: &Path) -> Vec<String> {
    if !open_reader(image).unwrap().superblock().incompat.contains(Incompat::METABOX) {
        return differences(want, got);
    }
    let without_data = |snapshot: &Snapshot| {
        let mut snapshot = snapshot.clone();
        snapshot.values_mut().for_each(|entry| entry.hash.clear());
        snapshot
    };
    differences(&without_data(want), &without_data(got))
}

/// Lengthens files that are too short by a hole: version 1.9.4 ends them before their last hole if their chunks have
/// entries of 8 bytes, also in images of mkfs.erofs. Their bytes are compared nevertheless, and the times are kept.
fn lengthen(want: &Snapshot, out: &Path) {
    for (path, entry) in want.iter().filter(|(_, entry)| entry.kind == '-') {
        let Ok(file) = std::fs::File::options().write(true).open(out.join(unescaped(path))) else { continue };
        let meta = file.metadata().unwrap();
        if meta.len() < entry.size {
            file.set_len(entry.size).unwrap();
            file.set_modified(meta.modified().unwrap()).unwrap();
        }
    }
}

/// Returns the bytes of a path of a snapshot.
fn unescaped(path: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let escaped = if byte == b'\\' { rest.next() } else { None };
        bytes.push(match escaped {
            None => byte,
            Some(b'x') => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&digits, 16).expect("two digits follow")
            }
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(other) => other,
        });
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[test]
fn random_trees_are_read_by_programs() {
    const TEST: &str = "random_trees_are_read_by_programs";
    let judges = PeerReaders { kernel: false, fsck: has_utils(TEST, "fsck.erofs"), fuse: has_fuse(TEST) };
    let mut runner = TestRunner::deterministic();
    let mut specs: Vec<_> = (0..9).map(|_| specs(Shape::default()).new_tree(&mut runner).unwrap().current()).collect();
    specs.extend([wide(300), wide(3000), deep(20, 50)]);
    let cases: Vec<_> = matrix::all(4096, 16 << 10);
    for (n, spec) in specs.iter().enumerate() {
        let want = snapshot_tree(&spec.tree().unwrap()).unwrap();
        for options in cases.iter().skip(n % 7).step_by(7) {
            let found = judges.wrong(&want, &built(spec, options).image);
            assert_eq!(found, Vec::<String>::new(), "tree {n}, {}", matrix::say(options));
        }
    }
}
