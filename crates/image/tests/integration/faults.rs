//! Builds on file systems that fail: whichever operation fails, and however, the target is whole or
//! unchanged, and nothing is left beside it.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use packfs_blocks::io::faults::{FaultKind, FaultyFiles};
use packfs_blocks::io::loop_device::LoopDevice;
use packfs_blocks::io::{FileSystem, Memory, SystemFiles};
use packfs_blocks::testing::noise;
use packfs_blocks::{Output, Progress};
use packfs_image::source::{Dir, Source, Store, archive, dir};
use packfs_image::{Error, Plan, Result, Tree, erofs, squashfs};

const OLD: &[u8] = b"the old image";

/// A build of any kind into an output.
type Build = Box<dyn Fn(Output) -> Result<()>>;

/// Makes a directory with files of all kinds: small ones, large compressible and incompressible
/// ones, equal ones, and holes.
fn source() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    (0..20).for_each(|n| write(&format!("sub/{n}"), format!("small file {n}\n").repeat(n).as_bytes()));
    write("text", "a line that shrinks\n".repeat(30_000).as_bytes());
    write("noise", &noise(700_000, 1));
    write("again", &noise(700_000, 1));
    write("noise with an end", &noise(300_001, 2));
    std::fs::File::create(dir.path().join("hole")).unwrap().set_len(1 << 20).unwrap();
    std::os::unix::fs::symlink("text", dir.path().join("link")).unwrap();
    dir
}

fn scan(dir: &Path, store: &mut dyn Store) -> Result<Plan> {
    let mut tree = Tree::default();
    Dir::new(dir, dir::Options::default()).scan(&mut tree, store)?;
    Ok(Plan { tree, order: Vec::new() })
}

/// Makes an archive of the same files.
fn archive(source: &Path) -> Vec<u8> {
    let mut archive = ::tar::Builder::new(Vec::new());
    archive.follow_symlinks(false);
    archive.append_dir_all(".", source).unwrap();
    archive.into_inner().unwrap()
}

/// Adds builds of both formats from the sources that `fill` reads.
fn add(
    builds: &mut Vec<(&'static str, Build)>,
    codec: &str,
    threads: usize,
    fill: impl Fn(&mut dyn Store) -> Result<Plan> + Clone + 'static,
) {
    let mut squash = squashfs::SquashfsOptions::default();
    let mut erofs = erofs::ErofsOptions::default();
    for options in [&mut squash.build, &mut erofs.build] {
        options.codec = codec.parse().unwrap();
        options.threads = threads;
    }
    let again = fill.clone();
    builds.push((
        "squashfs",
        Box::new(move |out| squashfs::build_to(out, &squash, &Progress::default(), &again).map(drop)),
    ));
    builds.push(("erofs", Box::new(move |out| erofs::build_to(out, &erofs, &Progress::default(), &fill).map(drop))));
}

/// Returns builds of both formats from a directory, compressed and not, without and with threads.
fn builds(source: &Path) -> Vec<(&'static str, Build)> {
    let mut builds = Vec::new();
    for (codec, threads) in [("lz4", 0), ("lz4", 2), ("none", 0), ("none", 2)] {
        let source = source.to_owned();
        add(&mut builds, codec, threads, move |store| scan(&source, store));
    }
    builds
}

/// Returns builds from a stream, whose data is stored while it is read.
fn stream_builds(source: &Path) -> Vec<(&'static str, Build)> {
    let (mut builds, archive) = (Vec::new(), archive(source));
    add(&mut builds, "lz4", 2, move |store| {
        let from = Box::new(Cursor::new(archive.clone()));
        let mut tree = Tree::default();
        archive::from_stream(from, Path::new("stream"), Default::default())?.scan(&mut tree, store)?;
        Ok(Plan { tree, order: Vec::new() })
    });
    builds
}

fn names(dir: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

/// Builds with operation `number` failing. Returns false if there were fewer operations.
fn fails_safely(build: &Build, number: u64, fault: FaultKind, unnamed: bool, old: bool) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("image");
    if old {
        std::fs::write(&target, OLD).unwrap();
    }
    let faults = FaultyFiles::failing(number, fault);
    let faults = if unnamed { faults } else { faults.without_unnamed() };
    let output = Output::create_on(Arc::new(faults.clone()), &target, 0o644, old);
    let built = output.map_err(Error::io("cannot create", &target)).and_then(build);
    let what = format!("{fault:?} in operation {number}, {:?}", faults.failed());
    let Some(failed) = faults.failed() else {
        built.unwrap();
        return false;
    };
    assert!(matches!(built, Err(Error::Io { .. })), "{what}: {built:?}");
    // The file already has its name when its directory is flushed.
    let whole = failed == "flush the directory";
    assert_eq!(names(dir.path()), if old || whole { vec![target.clone()] } else { Vec::new() }, "{what}");
    assert!(!old || whole || std::fs::read(&target).unwrap() == OLD, "{what}");
    true
}

#[test]
fn whichever_operation_fails_the_target_is_whole_or_unchanged() {
    let source = source();
    for (at, (format, build)) in builds(source.path()).into_iter().chain(stream_builds(source.path())).enumerate() {
        // Every kind of fault, name and target is combined with every build, but not all with all.
        for (turn, fault) in FaultKind::ALL.into_iter().enumerate() {
            let (unnamed, old) = ((at + turn) % 2 == 0, turn % 2 == 0);
            let failed = (0..).take_while(|number| fails_safely(&build, *number, fault, unnamed, old)).count();
            assert!(failed >= 6, "{format}: {failed} operations");
        }
    }
}

/// Returns true if there is the magic number of a superblock.
fn looks_like_an_image(bytes: &[u8]) -> bool {
    bytes.starts_with(b"hsqs") || bytes[1024..1028] == 0xe0f5_e1e2_u32.to_le_bytes()
}

#[test]
fn after_any_failure_a_device_holds_no_broken_image() {
    const TEST: &str = "after_any_failure_a_device_holds_no_broken_image";
    let (source, other, dir) = (source(), source(), tempfile::tempdir().unwrap());
    std::fs::write(other.path().join("another"), noise(500_000, 9)).unwrap();
    let file = dir.path().join("device");
    std::fs::File::create(&file).unwrap().set_len(3 << 20).unwrap();
    let Some(device) = LoopDevice::attach(&file) else {
        assert!(std::env::var_os("PACKFS_REQUIRE_ORACLES").is_none(), "{TEST}: no loop device is to be had");
        return eprintln!("SKIPPED {TEST}: no loop device is to be had");
    };
    let on_device = || std::fs::read(device.path()).unwrap();
    let before = builds(other.path()).into_iter().chain(stream_builds(other.path()));
    let builds = builds(source.path()).into_iter().chain(stream_builds(source.path()));
    for ((format, build), (_, before)) in builds.zip(before) {
        let target = dir.path().join("image");
        build(Output::create(&target, 0o644, true).unwrap()).unwrap();
        let new = std::fs::read(&target).unwrap();
        before(Output::create(device.path(), 0o644, true).unwrap()).unwrap();
        let old = on_device();
        for fault in FaultKind::ALL {
            for number in 0.. {
                std::fs::OpenOptions::new().write(true).open(device.path()).unwrap().write_all(&old).unwrap();
                let faults = FaultyFiles::failing(number, fault);
                let output = Output::create_on(Arc::new(faults.clone()), device.path(), 0o644, true);
                let built = output.map_err(Error::io("cannot create", device.path())).and_then(&build);
                let what = format!("{format}: {fault:?} in operation {number}, {:?}", faults.failed());
                let found = on_device();
                if faults.failed().is_none() {
                    built.unwrap();
                    assert!(number >= 4 && found[..new.len()] == new, "{what}: not what a file would be");
                    break;
                }
                assert!(matches!(built, Err(Error::Io { .. })), "{what}: {built:?}");
                if found != old && found[..new.len()] != new && looks_like_an_image(&found) {
                    // A torn superblock has its beginning.
                    let opened = packfs_image::AnyImage::open(Arc::new(found), Default::default());
                    assert!(fault == FaultKind::Torn && opened.is_err(), "{what}: an image that is neither");
                }
            }
        }
    }
}

#[test]
fn an_image_is_the_same_in_a_file_in_memory_and_on_a_slow_disk() {
    let source = source();
    let dir = tempfile::tempdir().unwrap();
    for (format, builds) in ["squashfs", "erofs"].map(|format| {
        let all = builds(source.path()).into_iter().filter(move |build| build.0 == format);
        (format, all.map(|build| build.1).collect::<Vec<_>>())
    }) {
        // With lz4, without and with threads.
        let images: Vec<_> = [&builds[0], &builds[1]]
            .into_iter()
            .flat_map(|build| {
                let slow = FaultyFiles::new().slow(Duration::from_millis(1));
                let files: [Arc<dyn FileSystem>; 3] =
                    [Arc::new(SystemFiles), Arc::new(slow), Arc::new(FaultyFiles::new().without_unnamed())];
                let in_files = files.map(|files| {
                    let target = dir.path().join("image");
                    build(Output::create_on(files, &target, 0o644, true).unwrap()).unwrap();
                    std::fs::read(&target).unwrap()
                });
                let memory = Arc::new(Memory::new(Cursor::default()));
                build(Output::over(Arc::clone(&memory), "memory")).unwrap();
                let in_memory = Arc::into_inner(memory).unwrap().into_inner().unwrap().into_inner();
                in_files.into_iter().chain([in_memory])
            })
            .collect();
        assert!(images.iter().all(|image| *image == images[0]), "{format}");
        assert_eq!(names(dir.path()), [dir.path().join("image")]);
    }
}

#[test]
fn an_output_in_its_source_is_not_packed_whatever_its_name() {
    let source = source();
    let target = source.path().join("sub/image");
    for (format, build) in builds(source.path()) {
        // A directory's time is that of its newest name: keep it out of the comparison.
        let images = [true, false].map(|unnamed| {
            std::fs::write(&target, OLD).unwrap();
            let files = FaultyFiles::new();
            let files = if unnamed { files } else { files.without_unnamed() };
            let output = Output::create_on(Arc::new(files), &target, 0o644, true).unwrap();
            let sub = std::fs::File::open(source.path().join("sub")).unwrap();
            sub.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            build(output).unwrap();
            std::fs::read(&target).unwrap()
        });
        assert!(images[0] == images[1], "{format}: the image depends on its temporary name");
        let image = packfs_image::AnyImage::open(Arc::new(images[1].clone()), Default::default()).unwrap();
        let found = |path: &[u8]| packfs_image::sink::lookup(image.image(), path).unwrap().is_some();
        assert!(found(b"sub/1") && !found(b"sub/image"), "{format}");
    }
}
