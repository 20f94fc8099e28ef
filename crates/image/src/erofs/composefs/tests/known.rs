//! Trees with all that a format can hold: the reader and the check understand them, and misuse is refused.

use super::*;
use crate::image::FileType;
use crate::testing::{Node, Piece, Spec, everything};
use crate::tree::{ConflictPolicy, DeviceNumber, InodeAttributes, ROOT};
use crate::{Error, Image};

#[test]
fn the_reader_and_the_check_find_nothing_wrong() {
    let mut tree = everything(4096, 60_000).tree().unwrap();
    let files = contents(&tree, Hash::Sha256);
    let image = ours(&mut tree, &files).unwrap();
    // The superblock does not say that there are chunks, and need not.
    let notes = findings(image.clone());
    assert!(notes.iter().all(|note| note.starts_with("note: ") && note.contains("files in chunks")), "{notes:?}");
    let reader = erofs::ErofsReader::open(std::sync::Arc::new(image), erofs::ReadOptions::default()).unwrap();
    // All 256 directories of objects are hidden.
    let hidden = reader.read_dir(reader.root()).unwrap().into_iter().filter(|entry| {
        let kind = reader.stat(entry.nid).unwrap().kind;
        matches!(kind, FileType::Char(DeviceNumber { major: 0, minor: 0 }))
    });
    assert_eq!(hidden.count(), 256);
}

#[test]
fn each_name_of_a_whiteout_is_a_file_with_marks() {
    let mut tree = Spec::of([(b"dir".to_vec(), Node::dir([]))]).tree().unwrap();
    let dir = tree.lookup(b"dir").unwrap();
    let whiteout = Kind::Char(DeviceNumber { major: 0, minor: 0 });
    let gone = tree.add(dir, b"gone", InodeAttributes::IMPLICIT_DIR, whiteout, ConflictPolicy::Refuse).unwrap();
    tree.link(dir, b"gone too", gone, ConflictPolicy::Refuse).unwrap();
    let image = ours(&mut tree, &HashMap::new()).unwrap();
    assert_eq!(findings(image.clone()), Vec::<String>::new());
    let reader = erofs::ErofsReader::open(std::sync::Arc::new(image), erofs::ReadOptions::default()).unwrap();
    let names = |nid| reader.xattrs(nid).unwrap().into_iter().map(|(name, _)| String::from_utf8(name.into()).unwrap());
    let find =
        |dir, name: &[u8]| reader.read_dir(dir).unwrap().into_iter().find(|entry| *entry.name == *name).unwrap().nid;
    let dir = find(reader.root(), b"dir");
    assert_eq!(names(dir).filter(|name| name.contains("whiteouts")).count(), 2);
    let both = [&b"gone"[..], b"gone too"].map(|name| find(dir, name));
    assert_ne!(both[0], both[1]);
    for nid in both {
        assert!(matches!(reader.stat(nid).unwrap().kind, FileType::File { size: 0 }));
        assert_eq!(names(nid).filter(|name| name.ends_with(".whiteout")).count(), 2);
    }
}

#[test]
fn contents_that_are_missing_or_too_long_are_refused() {
    let spec = Spec::of([(b"file".to_vec(), Node::file(vec![Piece::Zeros(65)]))]);
    let mut tree = spec.tree().unwrap();
    let file = tree.lookup(b"file").unwrap();
    let inline = HashMap::from([(file, FileContent::Inline(vec![0; 65].into()))]);
    for files in [HashMap::new(), inline] {
        assert!(matches!(ours(&mut tree, &files), Err(Error::Misuse(_))));
    }
    let meta = tree.meta(ROOT);
    let odd = tree.xattrs.intern(vec![(b"lustre.lov"[..].into(), b"x"[..].into())]);
    tree.set_meta(ROOT, InodeAttributes { xattrs: odd, ..meta });
    let files = contents(&tree, Hash::Sha512);
    assert!(matches!(ours(&mut tree, &files), Err(Error::Limit { .. })));
}
