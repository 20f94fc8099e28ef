//! Inodes in little memory are those that were put in.

use super::*;
use crate::FileReader;

#[derive(Debug)]
struct NoContents;

impl Contents for NoContents {
    fn open(&self, _: u64) -> Result<Box<dyn FileReader + '_>> {
        Err(Error::Misuse(String::new()))
    }

    fn path(&self, _: u64) -> std::path::PathBuf {
        std::path::PathBuf::new()
    }
}

type Source<'s> = &'s dyn Fn(u64) -> FileData;

fn meta(n: u32) -> InodeAttributes {
    InodeAttributes { mode: 0o640, uid: n, gid: 1, mtime: Time { secs: -1, nanos: n }, xattrs: XattrId(n) }
}

#[test]
fn whatever_is_put_in_comes_out() {
    let from: Arc<dyn Contents> = Arc::new(NoContents);
    let source = |key| FileData::Source { from: Arc::clone(&from), key };
    let device = DeviceNumber { major: u32::MAX, minor: 7 };
    let kinds: [fn(Source<'_>, DeviceNumber) -> Kind; 11] = [
        |_, _| Kind::Dir,
        |_, _| Kind::File { size: 0, data: FileData::Empty },
        |_, _| Kind::File { size: u64::MAX, data: FileData::Stored(u32::MAX) },
        |source, _| Kind::File { size: 1 << 40, data: source(u32::MAX.into()) },
        |source, _| Kind::File { size: 5, data: source(1 << 63) },
        |_, _| Kind::Symlink(b"target"[..].into()),
        |_, _| Kind::Symlink(b""[..].into()),
        |_, device| Kind::Char(device),
        |_, device| Kind::Block(device),
        |_, _| Kind::Fifo,
        |_, _| Kind::Socket,
    ];
    let mut inodes = InodeStore::default();
    for (n, kind) in (0..).zip(kinds) {
        assert_eq!(inodes.push(meta(n), kind(&source, device)).unwrap(), Ino(n));
    }
    // Every inode takes the form of every other one and keeps its attributes.
    for shift in 0..kinds.len() {
        for (n, _) in (0u32..).zip(kinds) {
            let kind = kinds[(n as usize + shift) % kinds.len()](&source, device);
            let shown = format!("{kind:?}");
            if shift > 0 {
                inodes.set_kind(Ino(n), kind).unwrap();
            }
            let inode = inodes.get(Ino(n));
            assert_eq!(format!("{:?}", inode.kind), shown);
            assert_eq!((inodes.meta(Ino(n)), inode.links), (meta(n), 1));
        }
    }
}

#[test]
fn values_in_common_are_held_once_and_go_with_their_last_inode() {
    let from: Arc<dyn Contents> = Arc::new(NoContents);
    let file = |key| Kind::File { size: 9, data: FileData::Source { from: Arc::clone(&from), key } };
    let mut inodes = InodeStore::default();
    for n in 0..1000 {
        inodes.push(meta(n % 2), file(n.into())).unwrap();
    }
    assert_eq!((inodes.common.all().count(), Arc::strong_count(&from)), (2, 2));
    for n in 0..1000 {
        inodes.set_kind(Ino(n), Kind::File { size: 9, data: FileData::Stored(n) }).unwrap();
    }
    assert_eq!((inodes.common.all().count(), Arc::strong_count(&from)), (2, 1));
    // However often all are changed, no more is held than there are inodes.
    for round in 0..5 {
        for n in 0..1000 {
            inodes.set_meta(Ino(n), meta(n + 1000 * round));
            inodes.set_links(Ino(n), round);
            assert_eq!((inodes.meta(Ino(n)), inodes.links(Ino(n))), (meta(n + 1000 * round), round));
        }
    }
    assert!(inodes.common.all().count() <= 1000 && inodes.common.all().count() > 900);
    inodes.set_storing(Ino(3), DataHandling::STORE, FileRecipe { codec: 2, cluster: 1 });
    let Inode { handling, recipe, .. } = inodes.get(Ino(3));
    assert_eq!((handling, recipe), (DataHandling::STORE, FileRecipe { codec: 2, cluster: 1 }));
}
