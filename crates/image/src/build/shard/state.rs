//! The state that a task reports while it packs a shard: a small file beside the shards, written again every few seconds,
//! which remains if the task fails or is killed. Only [`Status`](super::Status) reads it; no result depends on it.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use packfs_blocks::{Digest, Output, Progress, threads};
use serde::Serialize;

use super::file::SectionedFile;
use super::job::Job;
use super::steps::PRIVATE;
use crate::Result;
use packfs_tree::encoding::{FieldDecoder, FieldEncoder};

const MAGIC: [u8; 8] = *b"packfsST";
/// Length of the longest state that is read: its texts are a host's name and an error.
const LONGEST: u64 = 1 << 16;
/// Time until a task speaks first. Most tasks of small jobs have ended by then.
const FIRST: Duration = Duration::from_secs(1);
/// Time between states: each is a file that a shared file system has to write. A person who looks at `status` sees what
/// is at most this old.
const EVERY: Duration = Duration::from_secs(5);

/// A task that packs a shard, or was killed while it did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RunningShard {
    /// Number of the shard.
    pub shard: u32,
    /// Name of the machine.
    pub host: String,
    /// Number of the process there.
    pub pid: u32,
    /// Seconds from its start until it was last heard of.
    pub seconds: f64,
    /// Seconds since it was last heard of, by the clock of this machine. A task is heard of every five seconds.
    pub silent_seconds: f64,
    /// Bytes of files that were packed.
    pub done_bytes: u64,
    /// Bytes of all files of the shard.
    pub file_bytes: u64,
}

/// A task that could not pack its shard.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct FailedShard {
    /// Number of the shard.
    pub shard: u32,
    /// Name of the machine.
    pub host: String,
    /// The error.
    pub error: String,
}

/// Last known state of a task.
#[derive(Debug)]
pub(super) enum TaskState {
    Running(RunningShard),
    Failed(FailedShard),
}

/// Does the work of a task and says meanwhile, in `dir`, how far it is.
pub(super) fn told<T>(
    dir: &Path,
    job: &Job,
    shard: u32,
    progress: &Progress,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let teller = StateTeller { path: path(dir, shard), job, shard, begun: Instant::now() };
    let done = std::thread::scope(|scope| {
        let (end, ended) = mpsc::channel::<()>();
        let speak = || {
            let ended = ended;
            let mut wait = FIRST;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                teller.tell(progress.done.load(Relaxed), "");
                wait = EVERY;
            }
        };
        // Without a thread for it, the state is not updated until the task ends. The result is the same.
        let _ = threads::named("packfs-state").start_in(scope, speak);
        let done = work();
        drop(end);
        done
    });
    match &done {
        // There is none if the task was quick.
        Ok(_) => drop(std::fs::remove_file(&teller.path)),
        Err(error) => teller.tell(progress.done.load(Relaxed), &error.to_string()),
    }
    done
}

/// Returns the last known state of the task that packs a shard; `None` if nothing is known.
pub(super) fn read(dir: &Path, job: &Job, shard: u32) -> Option<TaskState> {
    let input = SectionedFile::open(&path(dir, shard)).ok()?;
    let written = input.file.metadata().ok()?.modified().ok()?;
    let bytes = input.read(0, input.len().ok().filter(|len| *len <= LONGEST)?).ok()?;
    // The clocks of machines differ. A time to come means that the task was heard of right now.
    let silent = SystemTime::now().duration_since(written).unwrap_or_default();
    decode(&bytes, job, shard, silent).ok()
}

fn path(dir: &Path, shard: u32) -> PathBuf {
    dir.join(format!("{shard:07}.state"))
}

fn decode(bytes: &[u8], job: &Job, shard: u32, silent: Duration) -> Result<TaskState> {
    let mut from = FieldDecoder::new("state of a shard", bytes);
    let magic = from.array()?;
    let id = Digest::from(from.array()?);
    from.check(magic == MAGIC && id == job.id(), "belongs to another plan")?;
    let pid = from.u32()?;
    let millis = from.u64()?;
    let done_bytes = from.u64()?;
    let host = from.text()?.to_owned();
    let error = from.text()?.to_owned();
    from.end()?;
    if !error.is_empty() {
        return Ok(TaskState::Failed(FailedShard { shard, host, error }));
    }
    let seconds = Duration::from_millis(millis).as_secs_f64();
    let silent_seconds = silent.as_secs_f64();
    let file_bytes = job.bytes(shard);
    Ok(TaskState::Running(RunningShard { shard, host, pid, seconds, silent_seconds, done_bytes, file_bytes }))
}

/// A task that says how far it is.
struct StateTeller<'a> {
    path: PathBuf,
    job: &'a Job,
    shard: u32,
    begun: Instant,
}

impl StateTeller<'_> {
    /// Writes the state of now, with the error that ended the work. A state that cannot be written is left out: the work is
    /// what counts.
    fn tell(&self, done: u64, error: &str) {
        let mut state = MAGIC.to_vec();
        state.put(self.job.id().as_bytes());
        state.u32(std::process::id());
        state.u64(u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX));
        state.u64(done.min(self.job.bytes(self.shard)));
        state.bytes(packfs_blocks::system::host_name().as_bytes());
        state.bytes(error.as_bytes());
        let write = || {
            let output = Output::create(&self.path, PRIVATE, true)?;
            output.write_all_at(&state, 0)?;
            output.commit()
        };
        let _ = write();
    }
}
