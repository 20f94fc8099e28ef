//! The builder that measures: packfs's own writers and readers, on parts of the source in temporary files.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use packfs_blocks::Progress;
use packfs_blocks::io::FileAt;
use packfs_image::build::AnyOptions;
use packfs_image::image::{FileType, Nid};
use packfs_image::sink::Walk;
use packfs_image::{AnyImage, Image, OpenOptions, Tree};

use super::sample::SampleUnit;
use super::{BuiltImage, ImageReading, SourcePart, TrialBuilder, TuneCandidate, sample};
use crate::clock::{process_time, thread_time};
use crate::rng::SeededRng;
use crate::sample::PassTiming;
use crate::scratch::ScratchDir;
use crate::{Error, Result};

/// Bytes of decoded blocks that are kept when an image is read in order.
const IN_ORDER_CACHE: u64 = 8 << 20;
/// Bytes read at once.
const READ_LEN: usize = 256 << 10;
/// Minimum time of reading in order, for which all files are read repeatedly.
const MIN_READ_TIME: Duration = Duration::from_millis(30);
/// Number of reads at random places.
const RANDOM_READS: usize = 32;

/// Builds parts of a source.
#[derive(Debug)]
pub struct TuneMachine<'s> {
    source: &'s Tree,
    seed: u64,
    stop: Arc<AtomicBool>,
    dir: ScratchDir,
    left_out: HashMap<String, String>,
    /// Units of the source by their length, cut when first needed.
    units: HashMap<u64, Vec<SampleUnit>>,
}

impl<'s> TuneMachine<'s> {
    /// Builds images of `source` in a directory of its own in `dir`, and fails soon after `stop` is set.
    pub fn new(source: &'s Tree, seed: u64, dir: &Path, stop: Arc<AtomicBool>) -> Result<Self> {
        let dir = ScratchDir::within(dir, "packfs-tune-")?;
        Ok(TuneMachine { source, seed, stop, dir, left_out: HashMap::new(), units: HashMap::new() })
    }

    /// Returns messages about files that could not be read.
    pub fn left_out(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.left_out.values().map(String::as_str).collect();
        all.sort_unstable();
        all
    }

    fn copy_tree(&mut self, candidate: &TuneCandidate, part: SourcePart) -> packfs_image::Result<Tree> {
        match part {
            SourcePart::Whole => sample::whole(self.source, &self.stop),
            SourcePart::Sample(bytes) => {
                let units = match self.units.entry(unit_len(candidate)) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => {
                        let units = sample::sorted_units(self.source, *new.key(), self.seed)?;
                        new.insert(units)
                    }
                };
                sample::part(self.source, units, bytes, self.seed, &self.stop)
            }
        }
    }

    fn build_image(&mut self, candidate: &TuneCandidate, tree: Tree, target: &Path) -> Result<BuiltImage> {
        let progress = Progress::default();
        let begun = Instant::now();
        let cpu = process_time();
        let plan = packfs_image::Plan { tree, order: Vec::new() };
        let summary = candidate.options.build(target, &progress, |_| Ok(plan))?;
        let wall = begun.elapsed();
        let cpu = process_time().saturating_sub(cpu);
        let built = BuiltImage {
            bytes: summary.file_bytes,
            inodes: summary.inodes.into(),
            data: summary.data_bytes,
            metadata: summary.metadata_bytes,
            packed: summary.packed_bytes(),
            time: PassTiming::of(wall, cpu),
            read: None,
        };
        self.left_out.extend(summary.left_out);
        Ok(built)
    }
}

impl TrialBuilder for TuneMachine<'_> {
    fn build(&mut self, candidate: &TuneCandidate, part: SourcePart, read: bool) -> Result<BuiltImage> {
        let target: PathBuf = self.dir.path().join("image");
        let tree = self.copy_tree(candidate, part)?;
        let mut built = self.build_image(candidate, tree, &target)?;
        if read {
            built.read = Some(measure_reads(&target, self.seed)?);
        }
        std::fs::remove_file(&target).map_err(Error::io(&target))?;
        Ok(built)
    }
}

/// Returns the length of units, which is enough for blocks and clusters to be cut as in a whole file.
fn unit_len(candidate: &TuneCandidate) -> u64 {
    match &candidate.options {
        AnyOptions::Squashfs(options) => u64::from(options.block_size).max(128 << 10),
        // What does not fill a cluster joins others in the packed inode, and is compressed with them.
        AnyOptions::Erofs(_) => 512 << 10,
    }
}

/// Reads all files of an image one after the other, then a few bytes here and there.
fn measure_reads(path: &Path, seed: u64) -> Result<ImageReading> {
    let open = |cache_bytes| {
        let bytes = FileAt::open(path, 0).map_err(Error::io(path))?;
        let options = OpenOptions::default().set(|all| all.cache_bytes = cache_bytes);
        Ok::<_, Error>(AnyImage::open(Arc::new(bytes), options)?)
    };
    let image = open(IN_ORDER_CACHE)?;
    let files = list_files(image.image())?;
    let mut read = 0u64;
    let mut buf = vec![0; READ_LEN];
    let begun = Instant::now();
    // One thread reads; its own clock excludes everything else in the process.
    let cpu_at_start = thread_time();
    while read == 0 || begun.elapsed() < MIN_READ_TIME {
        // Opened again for each pass: blocks in the cache of the last one would not be decoded.
        let image = open(IN_ORDER_CACHE)?;
        let before = read;
        for (nid, _) in &files {
            let mut at = 0;
            loop {
                match image.image().read_at(*nid, &mut buf, at)? {
                    0 => break,
                    got => at += got as u64,
                }
            }
            read += at;
        }
        // The files have no data, and another pass would find none either.
        if read == before {
            break;
        }
    }
    let seconds = thread_time().saturating_sub(cpu_at_start).as_secs_f64();
    let speed = read as f64 / 1e6 / seconds.max(1e-9);
    // Without a cache, each read pays for a whole block, which is the cost of large blocks.
    let image = open(0)?;
    Ok(ImageReading { speed, random: random_read_seconds(image.image(), &files, seed)? })
}

/// Returns the seconds to read 4 KiB at a random place.
fn random_read_seconds(image: &dyn Image, files: &[(Nid, u64)], seed: u64) -> Result<f64> {
    let total: u64 = files.iter().map(|(_, size)| size).sum();
    // `below` counts in `usize`; on 32-bit machines there is no figure for larger images.
    let Ok(total) = usize::try_from(total) else { return Ok(0.0) };
    if total == 0 {
        return Ok(0.0);
    }
    let mut rng = SeededRng::new(seed);
    let mut buf = vec![0; 4096];
    let cpu = thread_time();
    for _ in 0..RANDOM_READS {
        let mut at = rng.below(total) as u64;
        let file = files.iter().find(|(_, size)| {
            let here = at < *size;
            at -= if here { 0 } else { *size };
            here
        });
        if let Some((nid, _)) = file {
            image.read_at(*nid, &mut buf, at / 4096 * 4096)?;
        }
    }
    Ok(thread_time().saturating_sub(cpu).as_secs_f64() / RANDOM_READS as f64)
}

/// Returns all regular files with their sizes.
fn list_files(image: &dyn Image) -> Result<Vec<(Nid, u64)>> {
    let mut files = Vec::new();
    let mut walk = Walk::new(image, &[])?;
    while let Some(visit) = walk.step()? {
        if let FileType::File { size } = visit.stat.kind {
            files.push((visit.nid, size));
        }
    }
    Ok(files)
}
