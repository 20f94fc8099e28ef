//! A simulated disk: a FIFO whose reader discards a fixed number of bytes per second.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use packfs_blocks::threads;
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat, open};
use rustix::io::{Errno, ioctl_fionread};
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, splice};

use super::DiskSpec;

/// Size of the disk's cache; by default, the largest pipe that users without privileges may have.
const CACHE_LEN: usize = 1 << 20;
/// Maximum bytes per read.
const READ_LEN: usize = 256 << 10;
const MB: u64 = 1_000_000;

/// Computes when a disk of constant speed has written its data. Times are relative to any moment.
#[derive(Debug)]
struct DiskPace {
    /// Bytes per second.
    speed: f64,
    /// Time when it has written everything so far; `None` at the beginning.
    idle_from: Option<Duration>,
}

impl DiskPace {
    fn new(disk: DiskSpec) -> Self {
        DiskPace { speed: f64::from(disk.speed) * 1e6, idle_from: None }
    }

    /// Takes bytes at `now`, and returns when they are written. A disk that had to wait for data loses that time; one
    /// that had data, but was polled late, does not.
    fn take(&mut self, bytes: usize, now: Duration, waited: bool) -> Duration {
        let begun = match self.idle_from {
            Some(idle_from) if !waited => idle_from,
            Some(idle_from) => idle_from.max(now),
            None => now,
        };
        let done = begun + Duration::from_secs_f64(bytes as f64 / self.speed);
        self.idle_from = Some(done);
        done
    }
}

/// A running simulated disk.
#[derive(Debug)]
pub(super) struct SimulatedDisk {
    path: PathBuf,
    /// Keeps the FIFO open until the program that writes to it has ended.
    keeper: Option<OwnedFd>,
    /// Set to discard the rest of the input at full speed.
    hurry: Arc<AtomicBool>,
    reader: Option<JoinHandle<io::Result<u64>>>,
}

impl SimulatedDisk {
    /// Creates the FIFO and starts to read it.
    pub(super) fn start(path: &Path, disk: DiskSpec) -> io::Result<Self> {
        mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
        // Nonblocking, because only the reader may open a FIFO without the other side.
        let pipe = open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
        let keeper = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        // From here on, the reader waits for data.
        fcntl_setfl(&pipe, OFlags::empty())?;
        // Larger pipes may not be permitted; then the cache is smaller.
        let _ = fcntl_setpipe_size(&pipe, CACHE_LEN);
        let hurry = Arc::new(AtomicBool::new(false));
        let hurry_of_reader = Arc::clone(&hurry);
        let reader = threads::named("packfs-disk").start(move || drain(&pipe, disk, &hurry_of_reader))?;
        Ok(SimulatedDisk { path: path.into(), keeper: Some(keeper), hurry, reader: Some(reader) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until the disk has written everything, and returns the number of bytes. The writer must have ended.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        self.end()
    }

    fn end(&mut self) -> io::Result<u64> {
        // The reader sees the end of the FIFO only when all writers have closed it.
        self.keeper = None;
        let Some(reader) = self.reader.take() else { return Ok(0) };
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// An abandoned disk discards the rest of its input at full speed.
impl Drop for SimulatedDisk {
    fn drop(&mut self) {
        // Relaxed, because nothing else is passed along with it.
        self.hurry.store(true, Relaxed);
        let _ = self.end();
    }
}

/// Reads everything, at the disk's speed unless `hurry` is set.
fn drain(pipe: &OwnedFd, disk: DiskSpec, hurry: &AtomicBool) -> io::Result<u64> {
    let null = File::options().write(true).open("/dev/null")?;
    let max_bytes = disk.fails_after.map_or(u64::MAX, |after| u64::from(after) * MB);
    let start = Instant::now();
    let mut pace = DiskPace::new(disk);
    let mut taken = 0;
    while taken < max_bytes {
        // Asked before the read, which waits: afterwards the answer is lost.
        let waited = ioctl_fionread(pipe)? == 0;
        let len = usize::try_from(max_bytes - taken).map_or(READ_LEN, |left| left.min(READ_LEN));
        // Without copying, to leave the processors to the measured program.
        let got = match splice(pipe, None, &null, None, len, SpliceFlags::MOVE) {
            Err(Errno::INTR) => continue,
            got => got?,
        };
        if got == 0 {
            break;
        }
        taken += got as u64;
        let done = pace.take(got, start.elapsed(), waited);
        if !hurry.load(Relaxed) {
            std::thread::sleep(done.saturating_sub(start.elapsed()));
        }
    }
    // If the disk failed, the reader ends here and closes the pipe, so the writer gets EPIPE.
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const FAST: DiskSpec = DiskSpec { speed: 10_000, fails_after: None };

    #[test]
    fn a_disk_keeps_its_speed_and_loses_what_it_waits() {
        let ms = Duration::from_millis;
        let mut pace = DiskPace::new(DiskSpec { speed: 100, fails_after: None });
        // A MB takes 10 ms. The disk waited for the writer.
        assert_eq!(pace.take(1_000_000, ms(500), true), ms(510));
        // There was data, but the thread was woken late: the disk had continued.
        assert_eq!(pace.take(1_000_000, ms(513), false), ms(520));
        assert_eq!(pace.take(500_000, ms(524), false), ms(525));
        // There was no data until 600 ms: that time is lost.
        assert_eq!(pace.take(1_000_000, ms(600), true), ms(610));
        // The data arrived while the disk was busy.
        assert_eq!(pace.take(1_000_000, ms(605), true), ms(620));
    }

    #[test]
    fn all_that_was_written_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let sink = SimulatedDisk::start(&dir.path().join("disk"), FAST).unwrap();
        let mut file = File::options().write(true).open(sink.path()).unwrap();
        file.write_all(&vec![7; 3_000_001]).unwrap();
        drop(file);
        assert_eq!(sink.finish().unwrap(), 3_000_001);
    }

    #[test]
    fn a_disk_that_fails_says_so_to_its_writer() {
        let dir = tempfile::tempdir().unwrap();
        let sink = SimulatedDisk::start(&dir.path().join("disk"), DiskSpec { fails_after: Some(2), ..FAST }).unwrap();
        let mut file = File::options().write(true).open(sink.path()).unwrap();
        let error = file.write_all(&vec![7; 20_000_000]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(sink.finish().unwrap(), 2_000_000);
    }

    /// Otherwise these would block forever.
    #[test]
    fn nobody_waits_for_a_writer_that_never_comes() {
        let dir = tempfile::tempdir().unwrap();
        let start = |name| SimulatedDisk::start(&dir.path().join(name), FAST).unwrap();
        assert_eq!(start("finished").finish().unwrap(), 0);
        drop(start("dropped"));
    }
}
