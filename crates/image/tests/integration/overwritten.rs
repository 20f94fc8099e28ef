//! An image file that is overwritten in place while it is read: every reader fails, and none mixes two images.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use packfs_blocks::io::FileAt;
use packfs_image::source::{Dir, ExcludeRules, FromImage, Source, Store, dir};
use packfs_image::{
    AnyImage, Choice, Error, Image, OpenOptions, Plan, Progress, ReadAt, Result, Tree, erofs, sink, squashfs,
};

/// Number of files in the tree.
const FILES: u32 = 40;

/// An image file that is overwritten before its next `left`th read.
#[derive(Debug)]
struct OverwrittenFile {
    file: FileAt,
    path: PathBuf,
    /// The other image, of the same length.
    other: Vec<u8>,
    left: AtomicUsize,
}

impl ReadAt for OverwrittenFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            File::options().write(true).open(&self.path)?.write_all_at(&self.other, 0)?;
        }
        self.file.read_at(buf, offset)
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn check_unchanged(&self) -> io::Result<()> {
        self.file.check_unchanged()
    }
}

/// Returns the contents of a file of a tree. Those of two trees differ, and have the same lengths.
fn content(tree: u8, number: u32) -> Vec<u8> {
    let len = 3000 * (number as usize % 13) + number as usize;
    (0..len).map(|at| tree ^ u8::try_from(at * (number as usize + 7) % 251).unwrap()).collect()
}

fn fill(root: &Path, tree: u8) {
    for number in 0..FILES {
        let dir = root.join(format!("d{}", number % 4));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(number.to_string()), content(tree, number)).unwrap();
    }
}

fn scan(mut source: impl Source, store: &mut dyn Store) -> Result<Plan> {
    let mut tree = Tree::default();
    source.scan(&mut tree, store)?;
    Ok(Plan { tree, order: Vec::new() })
}

/// Builds uncompressed images of both formats: trees with files of the same lengths make images of the same length.
fn build(place: &Path, scan: impl Fn(&mut dyn Store) -> Result<Plan>) -> [Result<PathBuf>; 2] {
    let uncompressed = |all: &mut packfs_image::build::SharedOptions| {
        all.codec = "none".parse::<Choice>().unwrap();
        all.threads = 2;
    };
    let squashfs = squashfs::SquashfsOptions::default().set(|all| all.block_size = 4096).with(uncompressed);
    let erofs = erofs::ErofsOptions::default().with(uncompressed);
    let progress = Progress::default();
    let paths = ["image.squashfs", "image.erofs"].map(|name| place.join(name));
    [
        squashfs::build(&paths[0], &squashfs, &progress, &scan).map(|_| paths[0].clone()),
        erofs::build(&paths[1], &erofs, &progress, &scan).map(|_| paths[1].clone()),
    ]
}

/// The bytes of the images of two trees, by format.
fn two_images() -> Vec<[Vec<u8>; 2]> {
    let of_tree = |tree: u8| {
        let root = tempfile::tempdir().unwrap();
        fill(root.path(), tree);
        let place = tempfile::tempdir().unwrap();
        let built = build(place.path(), |store| scan(Dir::new(root.path(), dir::Options::default()), store));
        built.map(|path| std::fs::read(path.unwrap()).unwrap())
    };
    of_tree(0).into_iter().zip(of_tree(0x55)).map(|(one, other)| [one, other]).collect()
}

/// Runs `work` on images that are overwritten at later and later reads. `work` returns an error, or has checked that it
/// saw the first tree alone.
fn at_every_read(work: impl Fn(&Arc<dyn Image>) -> Result<()>) {
    let dir = tempfile::tempdir().unwrap();
    for [image, other] in two_images() {
        assert_eq!(image.len(), other.len());
        let mut stopped = 0;
        for reads in (0..20).chain((20..10_000).step_by(31)) {
            let path = dir.path().join("image");
            std::fs::write(&path, &image).unwrap();
            let hour_ago = SystemTime::now() - Duration::from_secs(3600);
            File::options().write(true).open(&path).unwrap().set_modified(hour_ago).unwrap();
            let file = FileAt::open(&path, 0).unwrap();
            let left = AtomicUsize::new(usize::MAX);
            let source = Arc::new(OverwrittenFile { file, path: path.clone(), other: other.clone(), left });
            let options = OpenOptions::default().set(|all| all.cache_bytes = 1 << 16);
            let opened = AnyImage::open(Arc::clone(&source) as Arc<dyn ReadAt>, options).unwrap();
            source.left.store(reads, Ordering::Relaxed);
            match work(&opened.into_image()) {
                Ok(()) if source.check_unchanged().is_ok() => break,
                // All remaining data was decoded before.
                Ok(()) => {}
                Err(Error::Changed { why, .. }) => {
                    assert!(why.contains("was written to after it was opened"), "{why}");
                    stopped += 1;
                }
                Err(error) => panic!("read {reads}: {error}"),
            }
        }
        assert!(stopped > 5, "{stopped} were stopped");
    }
}

fn assert_first_tree(root: &Path, all: bool) {
    for number in 0..FILES {
        match std::fs::read(root.join(format!("d{}/{number}", number % 4))) {
            Ok(bytes) => assert!(bytes == content(0, number), "file {number} has bytes of the other image"),
            Err(error) => assert!(!all, "{error}"),
        }
    }
}

#[test]
fn extraction_stops() {
    at_every_read(|image| {
        let out = tempfile::tempdir().unwrap();
        let done = sink::dir::extract(&**image, out.path(), &Default::default(), &Progress::default());
        assert_first_tree(out.path(), done.is_ok());
        done.map(|_| ())
    });
}

#[test]
fn an_archive_stops() {
    at_every_read(|image| {
        let mut archive = Vec::new();
        sink::tar::write_tar(&**image, &mut archive, &Default::default(), &Progress::default())?;
        for number in 0..FILES {
            let bytes = content(0, number);
            assert!(bytes.is_empty() || archive.windows(bytes.len()).any(|window| window == bytes), "{number}");
        }
        Ok(())
    });
}

#[test]
fn a_conversion_stops() {
    at_every_read(|image| {
        let out = tempfile::tempdir().unwrap();
        let convert = |store: &mut dyn Store| {
            scan(FromImage::new(Arc::clone(image), "source", ExcludeRules::default(), true), store)
        };
        for built in build(out.path(), convert) {
            let converted = AnyImage::open(Arc::new(FileAt::open(&built?, 0).unwrap()), OpenOptions::default())?;
            let extracted = tempfile::tempdir().unwrap();
            sink::dir::extract(converted.image(), extracted.path(), &Default::default(), &Progress::default())?;
            assert_first_tree(extracted.path(), true);
        }
        Ok(())
    });
}

#[test]
fn a_check_never_calls_the_mixture_sound() {
    at_every_read(|image| {
        let mut findings = Vec::new();
        image.check(2, &Progress::default(), &mut |finding| findings.push(finding))?;
        match findings.first() {
            // Reported as a finding, it is the same verdict.
            Some(_) => Err(Error::Changed { path: "image".into(), why: "was written to after it was opened".into() }),
            None => Ok(()),
        }
    });
}

#[test]
fn single_reads_fail() {
    at_every_read(|image| {
        for number in 0..FILES {
            let dir = image.lookup(image.root(), format!("d{}", number % 4).as_bytes())?.unwrap();
            let file = image.lookup(dir, number.to_string().as_bytes())?.unwrap();
            let mut bytes = vec![0; content(0, number).len()];
            image.read_at(file, &mut bytes, 0)?;
            assert!(bytes == content(0, number), "file {number} has bytes of the other image");
        }
        Ok(())
    });
}
