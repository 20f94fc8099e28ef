//! State of a job: which shards are packed, which are being packed, and what went wrong.

use std::path::Path;

use super::blob::{self, ShardBlob};
use super::job::Job;
use super::mark::{self, MarkEvidence};
use super::set::Jobs;
use super::state::{self, FailedShard, RunningShard, TaskState};
use crate::{Error, Result};

/// State of the shards of a job in a directory. Of a plan of many images, shards are its tasks.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "JobStatus"))]
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
    /// Bytes of data of packed shards; whole images count with their metadata.
    pub packed_bytes: u64,
    /// Images of a plan of many; absent for a plan of one image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<Images>,
    /// Tasks that pack a shard, or were killed while they did.
    pub running: Vec<RunningShard>,
    /// Tasks that could not pack their shards.
    pub failed: Vec<FailedShard>,
    /// Numbers of the shards that are not there, and of which no task is known.
    pub missing: Vec<u32>,
    /// Shards whose file cannot be used, or was changed since it was packed: pairs of number and reason.
    pub damaged: Vec<(u32, String)>,
}

/// Numbers of images.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "ImageCounts"))]
#[non_exhaustive]
pub struct Images {
    /// Number of all images.
    pub all: u32,
    /// Number of complete images.
    pub done: u32,
}

/// Description of a shard that differs from its mark. Its bytes may still be right, if it was copied or touched.
const DOUBTFUL: &str = "changed since it was packed, or found damaged: pack the shard again, which verifies it and \
                        keeps it if it is sound";

/// Returns true if the file of a shard is not known to be the one that was packed.
fn is_doubtful(job: &Job, dir: &Path, shard: u32) -> bool {
    let file = blob::path(dir, shard);
    mark::evidence(&mark::of_shard(dir, shard), job.id(), &file) == MarkEvidence::Changed
}

impl Status {
    /// Returns true if nothing is left to do, except the assembly of the only image.
    pub fn is_complete(&self) -> bool {
        self.done == self.shards && self.images.is_none_or(|images| images.done == images.all)
    }

    /// Adds shard `shard` of a job, which counts as number `number`.
    fn look(&mut self, job: &Job, dir: &Path, shard: u32, number: u32) {
        match ShardBlob::open(dir, job, shard) {
            Ok(_) if is_doubtful(job, dir, shard) => self.damaged.push((number, DOUBTFUL.to_owned())),
            Ok(blob) => self.packed(job.bytes(shard), blob.data_len),
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                self.on_its_way(job, dir, shard, number);
            }
            Err(error) => self.damaged.push((number, error.to_string())),
        }
    }

    fn packed(&mut self, file_bytes: u64, packed_bytes: u64) {
        self.done += 1;
        self.done_bytes += file_bytes;
        self.packed_bytes += packed_bytes;
    }

    fn on_its_way(&mut self, job: &Job, dir: &Path, shard: u32, number: u32) {
        match state::read(dir, job, shard) {
            Some(TaskState::Running(task)) => self.running.push(RunningShard { shard: number, ..task }),
            Some(TaskState::Failed(task)) => self.failed.push(FailedShard { shard: number, ..task }),
            None => self.missing.push(number),
        }
    }

    /// Counts the image at `path` if it is complete; returns whether it is.
    fn image(&mut self, job: &Job, dir: &Path, path: &Path) -> bool {
        let is_done = mark::evidence(&mark::of_image(dir), job.id(), path) == MarkEvidence::Unchanged;
        if let Some(images) = &mut self.images {
            images.all += 1;
            images.done += u32::from(is_done);
        }
        is_done
    }
}

impl Job {
    /// Tells which shards are in `dir`, and which are on their way. The ends of their files are read and their
    /// attributes compared, but not their data.
    pub fn status(&self, dir: &Path) -> Status {
        let mut status = Status { shards: self.shards(), ..Status::default() };
        for shard in 0..self.shards() {
            status.file_bytes += self.bytes(shard);
            status.look(self, dir, shard, shard);
        }
        status
    }
}

impl Jobs {
    /// Tells which tasks are done, where `dir` is the directory of all shards: see [`Job::status`].
    ///
    /// # Errors
    /// The plan of an image is damaged, or cannot be read.
    pub fn status(&self, dir: &Path) -> Result<Status> {
        if self.path(0).is_none() && self.images() == 1 {
            return Ok(self.job(0)?.status(dir));
        }
        // The tasks of an image together, so that each plan is opened once.
        let mut tasks: Vec<_> =
            (0..).zip(self.tasks()).map(|(number, task)| (task.image, task.shard, number)).collect();
        tasks.sort_unstable();
        let mut status = Status { shards: 0, images: Some(Images::default()), ..Status::default() };
        for tasks in tasks.chunk_by(|one, other| one.0 == other.0) {
            let (image, ..) = tasks[0];
            let job = self.job(image)?;
            let below = self.dir(dir, image);
            let path = self.path(image).unwrap_or(Path::new(""));
            let is_done = status.image(&job, &below, path);
            for (_, shard, number) in tasks {
                status.shards += 1;
                status.file_bytes += job.bytes(*shard);
                match job.shards() {
                    1 if is_done => status.packed(job.bytes(0), path.metadata().map_or(0, |image| image.len())),
                    1 => status.on_its_way(&job, &below, 0, *number),
                    _ => status.look(&job, &below, *shard, *number),
                }
            }
        }
        // Tasks were visited by image, but are listed by number.
        status.missing.sort_unstable();
        status.running.sort_by_key(|task| task.shard);
        status.failed.sort_by_key(|task| task.shard);
        status.damaged.sort();
        Ok(status)
    }
}
