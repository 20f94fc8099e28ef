//! The builder and the caller's own entries: everything they can describe arrives in both formats.

use std::io::{self, Cursor, Read};
use std::sync::Arc;

use packfs_image::image::FileType;
use packfs_image::source::{Entries, Entry};
use packfs_image::tree::{DeviceNumber, Time};
use packfs_image::{Builder, Codec, Error, Fs};

fn builders() -> [Builder<'static>; 2] {
    [Builder::squashfs(), Builder::erofs()].map(|builder| builder.codec(Codec::Lz4))
}

fn read(fs: &Fs, path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    fs.open_file(path).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn entries_of_all_kinds_arrive() {
    let long: Vec<u8> = (0..700_000u32).flat_map(|n| n.to_le_bytes()).collect();
    for builder in builders() {
        let stored: Arc<Vec<u8>> = Arc::new(long.clone());
        let entries = [
            Entry::dir("/").mode(0o700).owner(1, 2).mtime(Time { secs: 5, nanos: 0 }),
            Entry::file("a/deep/file", "old"),
            Entry::file("a/deep/file", "new").mode(0o4755).owner(3, 4).xattr("user.kind", "text"),
            Entry::hard_link("again", "/a/deep/file"),
            Entry::file("empty", ""),
            Entry::stream("streamed", long.len() as u64, Cursor::new(long.clone())),
            Entry::stored("stored", stored),
            Entry::symlink("link", "a/deep/file"),
            Entry::char_device("null", DeviceNumber { major: 1, minor: 3 }),
            Entry::block_device("loop", DeviceNumber { major: 7, minor: 0 }),
            Entry::fifo("fifo"),
            Entry::socket("socket"),
        ];
        let fs = Fs::from_reader(builder.entries(entries).write_to(Cursor::new(Vec::new())).unwrap().0.into_inner());
        let fs = fs.unwrap();
        assert_eq!(read(&fs, "link"), b"new");
        assert!(read(&fs, "streamed") == long && read(&fs, "stored") == long && read(&fs, "empty").is_empty());
        let file = fs.metadata("again").unwrap();
        assert_eq!((file.mode, file.uid, file.gid, file.nlink, file.has_xattrs), (0o4755, 3, 4, 2, true));
        assert_eq!(file.ino, fs.metadata("a/deep/file").unwrap().ino);
        let root = fs.metadata("/").unwrap();
        assert_eq!((root.mode, root.uid, root.gid, root.mtime.secs), (0o700, 1, 2, 5));
        assert_eq!(fs.metadata("a/deep").unwrap().mode, 0o755);
        let kind = |path: &str| fs.symlink_metadata(path).unwrap().kind;
        assert_eq!(kind("null"), FileType::Char(DeviceNumber { major: 1, minor: 3 }));
        assert_eq!(kind("loop"), FileType::Block(DeviceNumber { major: 7, minor: 0 }));
        assert_eq!((kind("fifo"), kind("socket")), (FileType::Fifo, FileType::Socket));
        assert_eq!(kind("link"), FileType::Symlink { target: (*b"a/deep/file").into() });
    }
}

/// Entries, a directory and an image with the same paths; later sources are kept.
#[test]
fn later_sources_replace_earlier_ones() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("root")).unwrap();
    std::fs::write(place.path().join("root/file"), "of the directory").unwrap();
    std::fs::write(place.path().join("root/other"), "stays").unwrap();
    for builder in builders() {
        let target = place.path().join("image");
        let over = [Entry::file("file", "of the program")];
        builder.force(true).dir(place.path().join("root")).entries(over).build(&target).unwrap();
        let fs = Fs::open(&target).unwrap();
        for builder in builders() {
            let image = builder.image(&fs).write_to(Cursor::new(Vec::new())).unwrap().0.into_inner();
            let fs = Fs::from_reader(image).unwrap();
            assert_eq!((&read(&fs, "file")[..], &read(&fs, "other")[..]), (&b"of the program"[..], &b"stays"[..]));
        }
    }
}

/// The data of an entry is read before the next one is requested.
#[test]
fn entries_are_never_all_in_memory() {
    use std::cell::Cell;
    struct Counted<'c>(&'c Cell<u32>, Cursor<Vec<u8>>);
    impl Read for Counted<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.1.read(buf)
        }
    }
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }
    let (alive, most) = (Cell::new(0), Cell::new(0));
    let entries = (0..100u8).map(|n| {
        alive.set(alive.get() + 1);
        most.set(most.get().max(alive.get()));
        Entry::stream(format!("{n}"), 5000, Counted(&alive, Cursor::new(vec![n; 5000])))
    });
    Builder::squashfs().entries(entries).write_to(Cursor::new(Vec::new())).unwrap();
    assert_eq!((alive.get(), most.get()), (0, 1));
}

#[test]
fn errors_name_the_entry() {
    let build = |entry: Entry<'static>| {
        let entries = [Entry::file("file", "text"), entry];
        Builder::squashfs().entries(entries).write_to(Cursor::new(Vec::new())).unwrap_err().to_string()
    };
    assert_eq!(build(Entry::stream("short", 9, &b"four"[..])), "short: cannot read: unexpected end of file");
    assert_eq!(build(Entry::hard_link("link", "gone")), "gone: not found in the image");
    assert_eq!(build(Entry::file("/", "")), "/: not a directory");
    assert_eq!(build(Entry::file("file/below", "")), "file/below: `file` on the way is not a directory");
    assert_eq!(build(Entry::file("a/..", "")), "`..` cannot be a file name");
    let mut used = Entries::new(Vec::new());
    let scan = |source: &mut Entries<_>| Builder::squashfs().source(source).write_to(Cursor::new(Vec::new()));
    scan(&mut used).unwrap();
    assert!(matches!(scan(&mut used), Err(Error::Misuse(_))));
}

#[test]
fn directories_are_scanned_with_options_and_progress_that_come_later() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    for builder in builders() {
        let progress = Arc::new(packfs_image::Progress::default());
        // Cancelling ends the scan, so everything counted was counted there.
        progress.cancel();
        let built = builder.dir(dir.path()).progress(Arc::clone(&progress)).write_to(Cursor::new(Vec::new()));
        assert!(matches!(built, Err(Error::Cancelled)), "{built:?}");
        assert_ne!(progress.entries.load(std::sync::atomic::Ordering::Relaxed), 0);
    }
}
