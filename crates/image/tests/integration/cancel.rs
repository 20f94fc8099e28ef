//! Cancellation at every possible moment: the operation fails with a distinct error or has already
//! finished, and leaves no incomplete file behind.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use packfs_image::source::{Dir, ExcludeRules, FromImage, Source, Store, dir};
use packfs_image::{Choice, Error, Fs, OnError, Plan, Progress, ReadAt, Result, Tree, erofs, sink, squashfs};

/// An image that cancels the operation that reads it, at a given read.
#[derive(Debug)]
struct Alarm {
    bytes: Vec<u8>,
    left: AtomicUsize,
    progress: Arc<Progress>,
}

impl ReadAt for Alarm {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.progress.cancel();
        }
        self.bytes.read_at(buf, offset)
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Returns an image, and the progress that it cancels at the `n`th read after it was opened.
fn alarmed(image: &Path, n: usize) -> (Fs, Arc<Progress>) {
    let progress = Arc::new(Progress::default());
    let bytes = std::fs::read(image).unwrap();
    let alarm = Arc::new(Alarm { bytes, left: AtomicUsize::new(usize::MAX), progress: progress.clone() });
    let fs = Fs::from_reader(alarm.clone()).unwrap();
    alarm.left.store(n, Ordering::Relaxed);
    (fs, progress)
}

fn source() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..30u32 {
        std::fs::create_dir_all(dir.path().join(format!("d{}", n % 5))).unwrap();
        let text = format!("line {n} of a file\n").repeat(1 + n as usize * 40);
        std::fs::write(dir.path().join(format!("d{}/{n}", n % 5)), text).unwrap();
    }
    let long: Vec<u8> = (0..900_000u32).flat_map(|n| (n.wrapping_mul(n) >> 13).to_le_bytes()).collect();
    std::fs::write(dir.path().join("long"), &long).unwrap();
    dir
}

/// Builds one image of each format; `fill` is called for each.
fn build(place: &Path, progress: &Progress, fill: impl Fn(&mut dyn Store) -> Result<Plan>) -> [Result<()>; 2] {
    let codec = |build: &mut packfs_image::build::SharedOptions| {
        build.codec = "lz4".parse::<Choice>().unwrap();
        build.threads = 2;
    };
    let squashfs = squashfs::SquashfsOptions::default().set(|all| all.block_size = 4096).with(codec);
    let erofs = erofs::ErofsOptions::default().set(|all| all.cluster_size = 4096).with(codec);
    [
        squashfs::build(&place.join("a.sqfs"), &squashfs, progress, &fill).map(|_| ()),
        erofs::build(&place.join("a.erofs"), &erofs, progress, &fill).map(|_| ()),
    ]
}

fn scan(mut source: impl Source, store: &mut dyn Store) -> Result<Plan> {
    let mut tree = Tree::default();
    source.scan(&mut tree, store)?;
    Ok(Plan { tree, order: Vec::new() })
}

fn images(root: &Path) -> (tempfile::TempDir, [std::path::PathBuf; 2]) {
    let place = tempfile::tempdir().unwrap();
    for done in build(place.path(), &Progress::default(), |store| scan(Dir::new(root, dir::Options::default()), store))
    {
        done.unwrap();
    }
    let images = ["a.sqfs", "a.erofs"].map(|name| place.path().join(name));
    (place, images)
}

/// Calls `work` with alarms at later and later reads until the first that comes too late; returns their number.
fn at_every_read(image: &Path, mut work: impl FnMut(Fs, &Progress) -> Result<()>) {
    let mut stopped = 0;
    for n in (0..40).chain((40..100_000).step_by(23)) {
        let (fs, progress) = alarmed(image, n);
        match work(fs, &progress) {
            Err(Error::Cancelled) => stopped += 1,
            Ok(()) if !progress.is_cancelled() => break,
            // The last block was already being processed.
            Ok(()) => {}
            Err(error) => panic!("read {n}: {error}"),
        }
    }
    assert!(stopped > 10, "{stopped} were stopped");
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn a_check_ends() {
    let root = source();
    for image in images(root.path()).1.iter().map(|image| (image, [0, 2])) {
        for threads in image.1 {
            at_every_read(image.0, |fs, progress| fs.image().check(threads, progress, &mut |_| {}));
        }
    }
}

#[test]
fn a_conversion_leaves_nothing() {
    let root = source();
    let (_place, images) = images(root.path());
    let out = tempfile::tempdir().unwrap();
    for image in &images {
        at_every_read(image, |fs, progress| {
            let convert = |store: &mut dyn Store| {
                scan(FromImage::new(fs.clone().into_image(), "source", ExcludeRules::default(), true), store)
            };
            for result in build(out.path(), progress, convert) {
                if let Err(error) = result {
                    let left = std::fs::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().file_name());
                    assert!(left.collect::<Vec<_>>().iter().all(|name| name == "a.sqfs"));
                    let _ = std::fs::remove_file(out.path().join("a.sqfs"));
                    return Err(error);
                }
            }
            std::fs::remove_file(out.path().join("a.sqfs")).unwrap();
            std::fs::remove_file(out.path().join("a.erofs")).unwrap();
            Ok(())
        });
        assert!(is_empty(out.path()));
    }
}

/// Also if failing entries are skipped: cancelling is not an error of an entry.
#[test]
fn an_extraction_leaves_whole_files_only() {
    let root = source();
    let (_place, images) = images(root.path());
    for (image, on_error, threads) in
        images.iter().flat_map(|image| [(image, OnError::Stop, 0), (image, OnError::Skip, 2)])
    {
        at_every_read(image, |fs, progress| {
            let out = tempfile::tempdir().unwrap();
            let options =
                sink::dir::ExtractOptions::default().set(|all| (all.on_error, all.threads) = (on_error, threads));
            let done = sink::dir::extract(fs.image(), out.path(), &options, progress).map(|summary| {
                assert!(summary.skipped.is_empty());
            });
            for name in (0..30).map(|n| format!("d{}/{n}", n % 5)).chain(["long".to_owned()]) {
                if let Ok(got) = std::fs::read(out.path().join(&name)) {
                    assert!(got == std::fs::read(root.path().join(&name)).unwrap(), "{name}");
                }
            }
            done
        });
    }
}

#[test]
fn an_archive_ends() {
    let root = source();
    for image in images(root.path()).1 {
        at_every_read(&image, |fs, progress| {
            sink::tar::write_tar(fs.image(), &mut io::sink(), &Default::default(), progress).map(|_| ())
        });
    }
}

/// A build of a directory, cancelled by another thread after delays of all lengths.
#[test]
fn a_cancelled_build_leaves_the_target_unchanged() {
    let root = source();
    let out = tempfile::tempdir().unwrap();
    let mut stopped = 0;
    for n in 0..60 {
        let progress = Arc::new(Progress::default());
        let results = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_micros(n * n * 20));
                progress.cancel();
            });
            build(out.path(), &progress, |store| {
                let options = dir::Options::default().set(|all| all.progress = Some(progress.clone()));
                scan(Dir::new(root.path(), options), store)
            })
        });
        for (result, name) in results.into_iter().zip(["a.sqfs", "a.erofs"]) {
            match result {
                Ok(()) => std::fs::remove_file(out.path().join(name)).unwrap(),
                Err(Error::Cancelled) => stopped += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(is_empty(out.path()), "{n}");
    }
    assert!(stopped > 0);
}

/// An operation that is cancelled before it begins does not begin.
#[test]
fn cancelled_operations_do_not_begin() {
    let (root, out) = (source(), tempfile::tempdir().unwrap());
    let progress = Progress::default();
    progress.cancel();
    for result in build(out.path(), &progress, |store| scan(Dir::new(root.path(), dir::Options::default()), store)) {
        assert!(matches!(result, Err(Error::Cancelled)));
    }
    assert!(is_empty(out.path()));
}
