//! State of a job: which shards are packed, which are being packed, and what went wrong.

use std::path::Path;

use super::blob::Blob;
use super::job::Job;
use super::state::{self, FailedShard, RunningShard, State};
use crate::Error;

/// State of the shards of a job in a directory.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[non_exhaustive]
pub struct Status {
    /// Number of shards.
    pub shards: u32,
    /// Number of shards that are packed.
    pub done: u32,
    /// Bytes of the files of all shards.
    pub file_bytes: u64,
    /// Bytes of the files of packed shards.
    pub done_bytes: u64,
    /// Bytes of data of packed shards.
    pub packed_bytes: u64,
    /// Tasks that pack a shard, or were killed while they did.
    pub running: Vec<RunningShard>,
    /// Tasks that could not pack their shards.
    pub failed: Vec<FailedShard>,
    /// Shards that are not there, and of which no task is known.
    pub missing: Vec<u32>,
    /// Shards whose file cannot be used, with the reasons.
    pub damaged: Vec<(u32, String)>,
}

impl Job {
    /// Tells which shards are in `dir`, and which are on their way. The ends of their files are read, not their data.
    pub fn status(&self, dir: &Path) -> Status {
        let mut status = Status { shards: self.shards(), ..Status::default() };
        for shard in 0..self.shards() {
            status.file_bytes += self.bytes(shard);
            match Blob::open(dir, self, shard) {
                Ok(blob) => {
                    status.done += 1;
                    status.done_bytes += self.bytes(shard);
                    status.packed_bytes += blob.data_len;
                }
                Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    match state::read(dir, self, shard) {
                        Some(State::Running(task)) => status.running.push(task),
                        Some(State::Failed(task)) => status.failed.push(task),
                        None => status.missing.push(shard),
                    }
                }
                Err(error) => status.damaged.push((shard, error.to_string())),
            }
        }
        status
    }
}
