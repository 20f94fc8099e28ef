//! Measures the conductor, the one thread that makes all decisions of a build, apart from everything that it waits for:
//! `conductor squashfs|erofs CODEC THREADS COUNT LENGTH`, or `... THREADS DIRECTORY`.
//!
//! COUNT files of LENGTH bytes cost next to nothing to read, compress and write: they are copied from memory, seven
//! eighths of them are zeros, nothing is verified, and the output is dropped. A DIRECTORY is scanned and read, and only its
//! output is dropped. The figures are processor time of the thread itself, so they hold on a busy machine, too.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use packfs_blocks::testing::Random;
use packfs_blocks::{Output, Storage};
use packfs_image::build::{BuildSummary, Plan, SharedOptions};
use packfs_image::source::{Contents, Dir, FileReader, Source, Store, dir};
use packfs_image::tree::{ConflictPolicy, FileData, InodeAttributes, Kind, ROOT};
use packfs_image::{Error, Progress, Result, Tree, erofs, squashfs};

const USAGE: &str = "usage: conductor squashfs|erofs CODEC THREADS (COUNT LENGTH | DIRECTORY)";
/// Number of synthetic files in a directory.
const FOLDER: u64 = 1000;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [format, codec, threads, source @ ..] = &args[..] else { return Err(USAGE.into()) };
    let (codec, threads) = (codec.parse()?, threads.parse()?);
    let set = |all: &mut SharedOptions| (all.codec, all.threads, all.verify) = (codec, threads, false);
    let progress = Progress::default();
    let mut scanned = Spent::now()?;
    let fill = |store: &mut dyn Store| {
        let tree = match source {
            [count, len] => synthetic(number(count)?, number(len)?)?,
            [directory] => scan(directory, threads, store)?,
            _ => return Err(Error::Misuse(USAGE.into())),
        };
        scanned = Spent::now()?;
        Ok(Plan { tree, order: Vec::new() })
    };
    let (output, begun, clock) = (Output::over(Dropped::default(), "nowhere"), Spent::now()?, Instant::now());
    let summary = match format.as_str() {
        "squashfs" => squashfs::build_to(output, &squashfs::SquashfsOptions::default().with(set), &progress, fill)?,
        "erofs" => erofs::build_to(output, &erofs::ErofsOptions::default().with(set), &progress, fill)?,
        _ => return Err(USAGE.into()),
    };
    report(&summary, clock.elapsed().as_secs_f64(), &begun, &scanned, &Spent::now()?);
    Ok(())
}

fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::Misuse(USAGE.into()))
}

fn report(summary: &BuildSummary, wall: f64, begun: &Spent, scanned: &Spent, ended: &Spent) {
    let (files, gb) = (f64::from(summary.files).max(1.0), summary.file_bytes as f64 / 1e9);
    let (scan, rest) = (scanned.since(begun), ended.since(scanned));
    println!("{} files, {gb:.3} GB, {} bytes of image, {wall:.3} s", summary.files, summary.image_bytes);
    println!("scan: {:.4} s of the conductor, {:.3} us a file", scan.seconds, scan.seconds / files * 1e6);
    println!("data and metadata: {:.4} s, {:.3} us a file", rest.seconds, rest.seconds / files * 1e6);
    println!("per GB: {:.4} s, so that it feeds {:.1} GB/s", rest.seconds / gb, gb / rest.seconds);
    println!("the conductor slept {} times, and was interrupted {} times", rest.slept, rest.interrupted);
}

/// Processor time and context switches of this thread.
struct Spent {
    seconds: f64,
    slept: u64,
    interrupted: u64,
}

impl Spent {
    fn now() -> Result<Spent> {
        let read = |path: &str| std::fs::read_to_string(path).map_err(|e| Error::Misuse(format!("{path}: {e}")));
        let (times, status) = (read("/proc/thread-self/schedstat")?, read("/proc/thread-self/status")?);
        let nanos: f64 = times.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN);
        let count = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
        };
        let (slept, interrupted) = (count("voluntary_ctxt_switches:"), count("nonvoluntary_ctxt_switches:"));
        Ok(Spent { seconds: nanos / 1e9, slept, interrupted })
    }

    fn since(&self, earlier: &Spent) -> Spent {
        Spent {
            seconds: self.seconds - earlier.seconds,
            slept: self.slept - earlier.slept,
            interrupted: self.interrupted - earlier.interrupted,
        }
    }
}

fn scan(directory: &str, threads: usize, store: &mut dyn Store) -> Result<Tree> {
    let mut options = dir::Options::default();
    options.threads = threads;
    let mut tree = Tree::default();
    Dir::new(directory, options).scan(&mut tree, store)?;
    Ok(tree)
}

fn synthetic(count: u64, len: u64) -> Result<Tree> {
    let (mut tree, meta) = (Tree::default(), InodeAttributes::IMPLICIT_DIR);
    let from: Arc<dyn Contents> = Arc::new(Made::new(len));
    let mut folder = ROOT;
    for key in 0..count {
        if key % FOLDER == 0 {
            let name = format!("d{:06}", key / FOLDER);
            folder = tree.add(ROOT, name.as_bytes(), meta, Kind::Dir, ConflictPolicy::Refuse)?;
        }
        let kind = Kind::File { size: len, data: FileData::Source { from: Arc::clone(&from), key } };
        tree.add(folder, format!("f{key:08}.txt").as_bytes(), meta, kind, ConflictPolicy::Refuse)?;
    }
    Ok(tree)
}

/// Files of which every read differs from every other one, but only in its first bytes.
struct Made {
    bytes: Vec<u8>,
    /// Length of each file.
    len: u64,
}

impl Made {
    fn new(len: u64) -> Made {
        let mut random = Random::new(1);
        let noise = |at: usize| {
            if at % 4096 < 512 { random.number().to_be_bytes()[0] } else { 0 }
        };
        Made { bytes: (0..1 << 20).map(noise).collect(), len }
    }
}

impl Contents for Made {
    fn open(&self, key: u64) -> Result<Box<dyn FileReader + '_>> {
        Ok(Box::new(Reading(self, key)))
    }

    fn path(&self, key: u64) -> PathBuf {
        format!("made/{key}").into()
    }
}

struct Reading<'m>(&'m Made, u64);

impl FileReader for Reading<'_> {
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let bytes = &self.0.bytes;
        for part in buf.chunks_mut(bytes.len()) {
            part.copy_from_slice(&bytes[..part.len()]);
        }
        let stamp = [self.1.to_le_bytes(), offset.to_le_bytes()].concat();
        let len = stamp.len().min(buf.len());
        buf[..len].copy_from_slice(&stamp[..len]);
        Ok(())
    }

    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        Ok((offset < self.0.len).then_some((offset, self.0.len)))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A storage that keeps nothing.
#[derive(Debug, Default)]
struct Dropped(AtomicU64);

impl Storage for Dropped {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.fetch_max(offset + bytes.len() as u64, Relaxed);
        Ok(())
    }

    fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.load(Relaxed))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.store(len, Relaxed);
        Ok(())
    }
}
