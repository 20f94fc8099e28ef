//! Small programs against the library, as a user would write them: each does one thing with what the crate root offers.

use std::fs::{self, File};
use std::io::{self, Cursor};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use packfs_image::diff::Aspect;
use packfs_image::erofs::Kernel;
use packfs_image::image::FileType;
use packfs_image::sink::{EntryDecision, dir};
use packfs_image::source::Entry;
use packfs_image::tree::Time;
use packfs_image::{Builder, Choice, Codec, Error, FileAt, Fs, Progress, ReadAt, Result};

/// Makes a directory with a few files.
fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("usr/share/doc")).unwrap();
    for (name, text) in [("usr/a.o", "object"), ("usr/share/doc/readme", "text"), ("motd", "Welcome.")] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

/// Opens an image of entries in memory.
fn image_of<const N: usize>(entries: [Entry<'static>; N]) -> Fs {
    let (image, _) = Builder::erofs().entries(entries).write_to(Cursor::new(Vec::new())).unwrap();
    Fs::from_reader(image).unwrap()
}

/// Returns the paths of everything in an image.
fn paths(fs: &Fs) -> Vec<String> {
    let mut paths = Vec::new();
    let walked = fs.walk::<()>(|entry| {
        paths.push(entry.path.into_os_string().into_string().unwrap());
        std::ops::ControlFlow::Continue(())
    });
    assert!(walked.unwrap().is_continue());
    paths
}

#[test]
fn pack_a_directory_with_a_codec_for_a_kernel() {
    let root = directory();
    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("image");
    let codec = Choice::new(Codec::Zstd).with_level(3).unwrap();
    let builder = || Builder::erofs().codec(codec.clone()).block_size(16 << 10).threads(1).dir(root.path());
    let refused = builder().build(&target).unwrap_err();
    assert!(matches!(refused, Error::InvalidOption { .. }) && refused.kind() == io::ErrorKind::InvalidInput);
    let mut calls = 0;
    let newer = builder().target_kernel(Kernel::new(6, 10)).on_progress(|_| calls += 1);
    assert_eq!(newer.build(&target).unwrap().files, 3);
    assert_ne!(calls, 0);
    assert_eq!(builder().build(&target).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    let again = builder().target_kernel(Kernel::new(6, 10));
    assert_eq!(again.build(&target).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    builder().target_kernel(Kernel::new(6, 10)).force(true).build(&target).unwrap();
}

#[test]
fn pack_archives_from_files_and_readers() {
    let out = tempfile::tempdir().unwrap();
    let archive = out.path().join("a.tar");
    let written = image_of([Entry::file("of the archive", "1"), Entry::file("both", "archive")]);
    // The root is a member, too.
    assert_eq!(written.write_tar(File::create(&archive).unwrap()).unwrap().entries, 3);
    let mut stream = Vec::new();
    image_of([Entry::file("of the stream", "2"), Entry::file("both", "stream")]).write_tar(&mut stream).unwrap();
    let builder = Builder::squashfs().archive(&archive).tar(Cursor::new(stream));
    let (image, summary) = builder.write_to(Cursor::new(Vec::new())).unwrap();
    assert_eq!(summary.files, 3);
    let fs = Fs::from_reader(image).unwrap();
    assert_eq!(fs.read("both").unwrap(), b"stream");
    assert_eq!(paths(&fs), ["", "both", "of the archive", "of the stream"]);
    let gone = Builder::squashfs().archive(out.path().join("gone")).write_to(Cursor::new(Vec::new()));
    assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::NotFound);
    // What `archive::open` returns is a source like any other.
    let opened = packfs_image::source::archive::open(Some(&archive), Default::default()).unwrap();
    assert_eq!(Builder::erofs().source(opened).write_to(Cursor::new(Vec::new())).unwrap().1.files, 2);
}

#[test]
fn list_and_read() {
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1500);
    let file = Entry::file("d/file", "content").mode(0o100_640).mtime(time).xattr("user.kind", "text");
    let fs = image_of([file, Entry::symlink("link", "d/file"), Entry::dir("empty")]);
    let entries = fs.read_dir("d").unwrap();
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((entry.path.as_path(), entry.name()), (Path::new("d/file"), "file".as_ref()));
    assert_eq!((entry.stat.mode, entry.stat.mtime), (0o640, Time { secs: 1, nanos: 500_000_000 }));
    assert_eq!(io::read_to_string(fs.open_inode(entry.nid).unwrap()).unwrap(), "content");
    assert_eq!(fs.read("link").unwrap(), b"content");
    assert_eq!(fs.read_link("link").unwrap(), Path::new("d/file"));
    assert_eq!(fs.xattrs("link").unwrap(), [(b"user.kind"[..].into(), b"text"[..].into())]);
    assert!(fs.exists("empty").unwrap() && !fs.exists("gone").unwrap());
    let root = fs.metadata("/").unwrap();
    assert_eq!(root.kind, FileType::Dir);
    for (refused, kind) in [
        (fs.read("gone").unwrap_err(), io::ErrorKind::NotFound),
        (fs.read_link("d/file").unwrap_err(), io::ErrorKind::Other),
        (Fs::from_reader(Cursor::new("no image")).unwrap_err(), io::ErrorKind::InvalidData),
    ] {
        assert_eq!(refused.kind(), kind, "{refused}");
    }
}

#[test]
fn extract_with_a_filter_and_other_names() {
    let root = directory();
    let out = tempfile::tempdir().unwrap();
    let image = out.path().join("image");
    Builder::squashfs().dir(root.path()).build(&image).unwrap();
    let fs = Fs::open(&image).unwrap();
    let extract = |name: &str, decide: EntryDecision| {
        let target = out.path().join(name);
        let mut options = dir::ExtractOptions::default();
        options.select.decide = decide;
        dir::extract(fs.image(), &target, &options, &Progress::default()).map(|summary| (target, summary))
    };
    let (target, summary) = extract("kept", EntryDecision::filter(|path, _| path != Path::new("usr/share"))).unwrap();
    assert_eq!((summary.files, summary.directories), (2, 2));
    assert!(!target.join("usr/share").exists());
    let (target, summary) = extract(
        "renamed",
        EntryDecision::rename(|path, _| {
            let name = path.file_name()?.to_str()?;
            (!name.ends_with(".o")).then(|| format!("my {name}").into())
        }),
    )
    .unwrap();
    assert_eq!((summary.files, summary.directories), (2, 4));
    assert_eq!(fs::read(target.join("my usr/my share/my doc/my readme")).unwrap(), b"text");
    let outside = extract("outside", EntryDecision::rename(|_, _| Some("../motd".into())));
    assert!(matches!(outside, Err(Error::BadName { .. })));
    let two = extract("two", EntryDecision::rename(|_, _| Some("same".into())));
    assert!(two.is_err(), "two entries of one name");
    let mut options = packfs_image::sink::tar::TarOptions::default();
    options.select.regexes.push("^nothing$".into());
    let none = packfs_image::sink::tar::write_tar(fs.image(), &mut io::sink(), &options, &Progress::default());
    assert!(matches!(none, Err(Error::NoMatch { regex }) if regex == "^nothing$"));
}

#[test]
fn compare_and_check_images() {
    let old = image_of([Entry::file("same", "1"), Entry::file("changed", "old"), Entry::file("gone", "")]);
    let new = image_of([Entry::file("same", "1"), Entry::file("changed", "new")]);
    let mut found = Vec::new();
    old.diff(&new, |difference| found.push((difference.path, difference.aspect))).unwrap();
    assert_eq!(found, [(b"changed"[..].into(), Aspect::Content), (b"gone"[..].into(), Aspect::Entry)]);
    new.check(|finding| panic!("{finding}")).unwrap();
}

/// Storage that counts its reads.
#[derive(Debug)]
struct CountingStorage {
    bytes: Arc<[u8]>,
    reads: Arc<AtomicU64>,
}

impl ReadAt for CountingStorage {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.reads.fetch_add(1, Relaxed);
        self.bytes.read_at(buf, offset)
    }

    fn len(&self) -> u64 {
        ReadAt::len(&self.bytes)
    }
}

#[test]
fn serve_from_storage_of_any_kind() -> Result<()> {
    let (image, _) = Builder::squashfs().entries([Entry::file("f", "served")]).write_to(Cursor::new(Vec::new()))?;
    let bytes: Arc<[u8]> = image.into_inner().into();
    let reads = Arc::new(AtomicU64::new(0));
    let storage = CountingStorage { bytes: bytes.clone(), reads: reads.clone() };
    assert_eq!(Fs::from_reader(storage)?.read("f")?, b"served");
    assert_ne!(reads.load(Relaxed), 0);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &bytes).unwrap();
    let file = FileAt::new(file.into_file(), 0).unwrap();
    for fs in [Fs::from_reader(bytes.to_vec())?, Fs::from_reader(bytes)?, Fs::from_reader(file)?] {
        assert_eq!(fs.read("f")?, b"served");
    }
    Ok(())
}
