//! The executor of reads: on a fresh mount with caches dropped, or by a program.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::ReadTool;
use super::cells::{MeasuredImage, ReadCell, ReadOrder, ReadWork};
use super::fio::{self, FioPattern};
use super::mount::MountedImage;
use super::protocol::{TimedReader, files_in_random_order};
use crate::clock::thread_time;
use crate::executor::CellExecutor;
use crate::format::ImageFormat;
use crate::program;
use crate::sample::{PassTiming, TrialSample};
use crate::scratch::{MEMORY_DIR, ScratchDir};
use crate::{Error, Result};

/// File that drops the kernel's caches when written to.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Reads on this machine.
#[derive(Debug)]
pub struct ReadMachine {
    /// Seed that selects files.
    pub seed: u64,
    /// Path of fio, if any cell needs it.
    pub fio: Option<PathBuf>,
    /// Directory for extracted images that do not fit into memory.
    pub scratch: PathBuf,
}

impl CellExecutor<ReadCell> for ReadMachine {
    /// Reads once only: a second read would come from the caches.
    fn run(&mut self, cell: &ReadCell, _: Duration) -> Result<TrialSample> {
        let image = &*cell.image;
        let ReadOutcome { time, bytes, peak_memory } = match &cell.work {
            ReadWork::Data(order) => read_mounted(image, true, *order, self.seed)?,
            ReadWork::Metadata(order) => read_mounted(image, false, *order, self.seed)?,
            ReadWork::Fio(pattern) => self.read_by_fio(image, *pattern)?,
            ReadWork::Tar(tool) => {
                let ran = program::run(&mut tool.archive(&image.path), false)?;
                ReadOutcome { time: ran.time, bytes: image.tree.bytes(), peak_memory: ran.peak_memory }
            }
            ReadWork::Extract(tool) => self.extract(image, tool)?,
        };
        Ok(TrialSample { time, bytes, made: image.len, peak_memory, stages: Default::default() })
    }
}

/// Result of a read.
struct ReadOutcome {
    time: PassTiming,
    /// Bytes read from files.
    bytes: u64,
    /// Peak memory of the program that read; `None` for reads by this process and by fio.
    peak_memory: Option<u64>,
}

/// Reads files or attributes on a fresh mount.
fn read_mounted(image: &MeasuredImage, data: bool, order: ReadOrder, seed: u64) -> Result<ReadOutcome> {
    // Chosen before the mount, so that the choice does not warm any cache.
    let paths = files_in_random_order(&image.tree, order, seed);
    let mut reader = TimedReader::new(data);
    let mount = MountedImage::new(&image.path, image.format)?;
    let root = mount.root()?;
    // After the mount, which reads the superblock, and before the time.
    drop_caches()?;
    let begun = Instant::now();
    let cpu_at_start = thread_time();
    let read = match order {
        ReadOrder::Sequential => reader.read_tree(root),
        ReadOrder::Small | ReadOrder::Full => reader.read_files(root, &paths),
    };
    let wall = begun.elapsed();
    let cpu = thread_time().saturating_sub(cpu_at_start);
    let bytes = read.map_err(Error::io(&image.path))?;
    Ok(ReadOutcome { time: PassTiming::of(wall, cpu), bytes, peak_memory: None })
}

impl ReadMachine {
    fn read_by_fio(&self, image: &MeasuredImage, pattern: FioPattern) -> Result<ReadOutcome> {
        let missing = |why: &str| Error::Program { program: "fio".into(), why: why.into() };
        let fio = self.fio.as_deref().ok_or_else(|| missing("it is not installed"))?;
        let file = image.tree.largest().ok_or_else(|| missing("there is no file that is large enough"))?;
        let mount = MountedImage::new(&image.path, image.format)?;
        let path = mount.path().join(&file.path);
        drop_caches()?;
        let ran = program::run(&mut fio::read_command(fio, &path, file.len, pattern), true)?;
        let (time, bytes) = fio::parse_answer(&ran.output)?;
        Ok(ReadOutcome { time, bytes, peak_memory: None })
    }

    fn extract(&self, image: &MeasuredImage, tool: &ReadTool) -> Result<ReadOutcome> {
        let bytes = image.tree.bytes();
        // In memory, if it has room for twice as much: otherwise the disk is measured, too.
        let memory = Path::new(MEMORY_DIR);
        let parent = if has_room(memory, 2 * bytes) { memory } else { &self.scratch };
        let dir = ScratchDir::new(Some(parent), None)?;
        let ran = program::run(&mut tool.extract(&image.path, &dir.path().join("root")), false)?;
        Ok(ReadOutcome { time: ran.time, bytes, peak_memory: ran.peak_memory })
    }
}

fn has_room(dir: &Path, bytes: u64) -> bool {
    let room = rustix::fs::statvfs(dir).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    room > bytes && rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Drops the page cache and the kernel's caches of attributes.
fn drop_caches() -> Result<()> {
    // Dirty pages are not dropped.
    rustix::fs::sync();
    std::fs::write(DROP_CACHES, "3").map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::Program {
            program: "drop_caches".into(),
            why: format!("caches cannot be dropped without the permission to write {DROP_CACHES}"),
        },
        _ => Error::io(DROP_CACHES)(error),
    })
}

/// Fails unless an image can be mounted and caches can be dropped. Returns the mount options of its file system.
pub fn try_mount(image: &Path, format: ImageFormat) -> Result<String> {
    let mount = MountedImage::new(image, format)?;
    drop_caches()?;
    Ok(mount.options().to_owned())
}
