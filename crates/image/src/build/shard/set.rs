//! Plans of many images: the plan of each, one after the other, and the tasks of all, longest first.
//!
//! | section | content |
//! |---|---|
//! | header | magic, version, numbers, places and digests of the two tables; a digest of all that |
//! | plan, one each | a plan as for one image |
//! | images | place of each plan, its number of shards, and the path of the image |
//! | tasks | image, shard and length of each task |
//!
//! A task packs a shard, or makes a whole image if its plan has one shard. A plan of one image is a set of one, whose
//! tasks are its shards in order.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use packfs_blocks::{Digest, Output, Progress};
use serde::Serialize;

use super::AnyOptions;
use super::file::{LocatedSection, SectionWriter, SectionedFile};
use super::job::{self, Job, PlanSummary, WrittenPlan};
use super::mark::{self, MarkEvidence};
use super::state;
use super::steps::{self, PRIVATE};
use crate::build::{Plan, output_error};
use crate::source::Store;
use crate::{Error, Result, Warnings};
use packfs_tree::encoding::{FieldDecoder, FieldEncoder};

const MAGIC: [u8; 8] = *b"packfsPM";
const VERSION: u32 = 1;
const HEADER: usize = 8 + 4 * 4 + 2 * LocatedSection::LEN + 32;

/// A step of a job that runs on one machine: packs a shard, or makes a whole image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Task {
    /// Number of the image.
    pub image: u32,
    /// Number of the shard in the image.
    pub shard: u32,
    /// Bytes of the files that it packs.
    pub bytes: u64,
}

/// An image of a set.
#[derive(Debug)]
struct PlannedImage {
    /// Byte at which its plan begins.
    plan: u64,
    shards: u32,
    path: PathBuf,
}

/// An open plan of one image or of many.
#[derive(Debug)]
pub struct Jobs {
    input: SectionedFile,
    /// `None` for the plan of one image, which does not know its path.
    images: Option<Vec<PlannedImage>>,
    tasks: Vec<Task>,
}

impl Jobs {
    /// Opens a plan; of the plans of its images, nothing is read.
    ///
    /// # Errors
    /// As [`Job::open`].
    pub fn open(path: &Path) -> Result<Jobs> {
        let input = SectionedFile::open(path)?;
        if input.read(0, MAGIC.len() as u64)? != MAGIC {
            let job = Job::at(input.again()?, 0)?;
            let tasks = (0..job.shards()).map(|shard| Task { image: 0, shard, bytes: job.bytes(shard) }).collect();
            return Ok(Jobs { input, images: None, tasks });
        }
        let head = input.read(0, HEADER as u64)?;
        if *Digest::of(&head[..HEADER - 32]).as_bytes() != head[HEADER - 32..] {
            return Err(input.damaged("the header is damaged".into()));
        }
        let mut from = FieldDecoder::new("plan of many images", &head[MAGIC.len()..]);
        job::check_version(path, from.u32()?, VERSION)?;
        let images = from.u32()?;
        let tasks = from.u32()?;
        // Reserved.
        let _ = from.u32()?;
        let [image_table, task_table] = [LocatedSection::get(&mut from)?, LocatedSection::get(&mut from)?];
        let images = read_images(&input.section(&image_table, "the table of images")?, images)?;
        let tasks = read_tasks(&input.section(&task_table, "the table of tasks")?, tasks, &images)?;
        Ok(Jobs { input, images: Some(images), tasks })
    }

    /// Returns the tasks, the longest first if there are many images.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Returns the number of images.
    pub fn images(&self) -> u32 {
        self.images.as_ref().map_or(1, |images| u32::try_from(images.len()).expect("counted in 32 bits"))
    }

    /// Returns the path of an image; `None` if the plan has none, because it is of one image only.
    pub fn path(&self, image: u32) -> Option<&Path> {
        self.images.as_ref()?.get(image as usize).map(|image| &*image.path)
    }

    /// Returns the images that have to be assembled, because several tasks pack them. The plan of one image has one.
    pub fn cut(&self) -> Vec<u32> {
        match &self.images {
            Some(images) => (0..).zip(images).filter(|(_, image)| image.shards > 1).map(|(n, _)| n).collect(),
            None => vec![0],
        }
    }

    /// Returns the number of the task that packs a shard of an image.
    pub fn number_of(&self, image: u32, shard: u32) -> Option<usize> {
        self.tasks.iter().position(|task| (task.image, task.shard) == (image, shard))
    }

    /// Opens the plan of an image.
    pub fn job(&self, image: u32) -> Result<Job> {
        let start = match &self.images {
            Some(images) => images.get(image as usize).map(|image| image.plan),
            None => (image == 0).then_some(0),
        };
        let start = start.ok_or_else(|| Error::Misuse(format!("the plan has no image {image}")))?;
        Job::at(self.input.again()?, start)
    }

    /// Returns the directory for the shards of an image, where `dir` is that of all.
    pub fn dir(&self, dir: &Path, image: u32) -> PathBuf {
        if self.images.is_some() { dir.join(format!("{image:07}")) } else { dir.to_owned() }
    }

    /// Does a task, of which `job` is the plan of the image: packs a shard into a file below `dir`, which has to exist,
    /// or makes a whole image. Returns false if that was done before; of a shard, all data is read then, and a damaged
    /// one is packed again.
    ///
    /// # Errors
    /// As [`Job::pack`].
    pub fn run(&self, task: &Task, job: &Job, dir: &Path, progress: &Progress) -> Result<bool> {
        let Some(path) = self.path(task.image) else { return job.pack(dir, task.shard, progress) };
        let dir = self.dir(dir, task.image);
        create(&dir)?;
        if job.shards() > 1 {
            return job.pack(&dir, task.shard, progress);
        }
        let mark = mark::of_image(&dir);
        if mark::evidence(&mark, job.id(), path) == MarkEvidence::Unchanged {
            return Ok(false);
        }
        state::told(&dir, job, 0, progress, || {
            job.whole(path, progress)?;
            // After the image has its name: if the task is killed in between, the image is made again.
            mark::write(&mark, job.id(), path).map(|()| true)
        })
    }

    /// Makes an image of many from its shards below `dir`; replaces an older one. Returns false if that was done before.
    ///
    /// # Errors
    /// As [`Job::assemble`].
    pub fn assemble(&self, image: u32, job: &mut Job, dir: &Path, progress: &Progress) -> Result<bool> {
        let path = self.path(image).ok_or_else(|| Error::Misuse("the plan of one image has no path".into()))?;
        let dir = self.dir(dir, image);
        let mark = mark::of_image(&dir);
        if mark::evidence(&mark, job.id(), path) == MarkEvidence::Unchanged {
            return Ok(false);
        }
        // Whether an older image may be replaced was decided when it was planned.
        job.options_mut().common_mut().force = true;
        job.assemble(&dir, path, progress)?;
        mark::write(&mark, job.id(), path).map(|()| true)
    }
}

/// Creates a directory that only its owner may read, unless it exists.
fn create(dir: &Path) -> Result<()> {
    packfs_blocks::system::create_private_dir(dir).map_err(Error::io("cannot create the directory", dir))
}

fn read_images(bytes: &[u8], count: u32) -> Result<Vec<PlannedImage>> {
    let mut from = FieldDecoder::new("images of a plan", bytes);
    let image = |from: &mut FieldDecoder<'_>| {
        let plan = from.u64()?;
        let shards = from.u32()?;
        Ok::<_, Error>(PlannedImage { plan, shards, path: crate::tree::path_of(from.bytes()?) })
    };
    let images = (0..count).map(|_| image(&mut from)).collect::<Result<Vec<_>>>()?;
    from.end().map(|()| images)
}

fn read_tasks(bytes: &[u8], count: u32, images: &[PlannedImage]) -> Result<Vec<Task>> {
    let mut from = FieldDecoder::new("tasks of a plan", bytes);
    let task = |from: &mut FieldDecoder<'_>| {
        let task = Task { image: from.u32()?, shard: from.u32()?, bytes: from.u64()? };
        let is_known = images.get(task.image as usize).is_some_and(|image| task.shard < image.shards);
        from.check(is_known, "a task has no shard").map(|()| task)
    };
    let tasks = (0..count).map(|_| task(&mut from)).collect::<Result<Vec<_>>>()?;
    from.end().map(|()| tasks)
}

/// Summary of a plan of many images.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PlannedSet {
    /// Number of images.
    pub images: u32,
    /// Number of images that several tasks pack.
    pub cut_images: u32,
    /// Number of tasks.
    pub tasks: u32,
    /// Number of files that tasks pack.
    pub files: u64,
    /// Bytes of these files.
    pub file_bytes: u64,
    /// Bytes of the longest task's files.
    pub largest_bytes: u64,
    /// Length of the plan in bytes.
    pub plan_bytes: u64,
}

/// A plan of many images being written.
#[derive(Debug)]
pub struct Planner {
    output: Output,
    at: u64,
    images: Vec<PlannedImage>,
    paths: HashSet<PathBuf>,
    /// Tasks with their weights.
    tasks: Vec<(u64, Task)>,
    files: u64,
}

impl Planner {
    /// Begins a plan at `target`, which appears when it is complete.
    pub fn create(target: &Path, force: bool) -> Result<Planner> {
        let output = Output::create(target, PRIVATE, force).map_err(output_error("cannot create", target))?;
        let images = Vec::new();
        let paths = HashSet::new();
        let tasks = Vec::new();
        Ok(Planner { output, at: HEADER as u64, images, paths, tasks, files: 0 })
    }

    /// Adds a build of the image at `target`; otherwise as [`AnyOptions::plan`].
    ///
    /// # Errors
    /// [`Error::Exists`] if there is a file that [`force`](crate::build::SharedOptions::force) does not let it replace,
    /// or if an earlier image has this path.
    pub fn add(
        &mut self,
        options: &AnyOptions,
        target: &Path,
        progress: &Progress,
        fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
    ) -> Result<(PlanSummary, Warnings)> {
        // Tasks may run in other directories.
        let path = std::path::absolute(target).map_err(Error::io("cannot find", target))?;
        // A link that leads nowhere counts as well.
        let is_there = !options.common().force && path.symlink_metadata().is_ok();
        if is_there || !self.paths.insert(path.clone()) {
            return Err(Error::Exists { path: target.to_owned() });
        }
        let (WrittenPlan { figures, loads }, warned) = options.plan_at((&self.output, self.at), progress, fill)?;
        Error::unless_cancelled(progress)?;
        let image = u32::try_from(self.images.len()).map_err(|_| Error::TooMany { what: "images", max: 1 << 32 })?;
        self.tasks.extend((0..).zip(loads).map(|(shard, (bytes, weight))| (weight, Task { image, shard, bytes })));
        self.images.push(PlannedImage { plan: self.at, shards: figures.shards, path });
        self.at += figures.plan_bytes;
        self.files += u64::from(figures.files);
        Ok((figures, warned))
    }

    /// Writes the tables and gives the plan its name.
    pub fn finish(mut self, progress: &Progress) -> Result<PlannedSet> {
        // The longest first, so that none is left at the end. The number decides among equals.
        self.tasks.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        let Planner { output, at, images, tasks, files, .. } = self;
        let count = |len: usize, what| u32::try_from(len).map_err(|_| Error::TooMany { what, max: 1 << 32 });
        let counts = (count(images.len(), "images")?, count(tasks.len(), "tasks")?);
        let mut section = SectionWriter::new(&output, at);
        for PlannedImage { plan, shards, path } in &images {
            section.u64(*plan);
            section.u32(*shards);
            section.bytes(packfs_blocks::system::OsStrExt::as_bytes(path.as_os_str()));
        }
        let image_table = section.finish()?;
        let mut section = SectionWriter::new(&output, image_table.start + image_table.len);
        for (_, Task { image, shard, bytes }) in &tasks {
            section.u32(*image);
            section.u32(*shard);
            section.u64(*bytes);
        }
        let task_table = section.finish()?;
        let mut head = MAGIC.to_vec();
        [VERSION, counts.0, counts.1, 0].into_iter().for_each(|number| head.u32(number));
        [image_table, task_table].iter().for_each(|at| at.put(&mut head));
        let digest = Digest::of(&head);
        head.put(digest.as_bytes());
        output.write_all_at(&head, 0).map_err(Error::io("cannot write", output.target()))?;
        steps::end(output, progress)?;
        let bytes = || tasks.iter().map(|(_, task)| task.bytes);
        Ok(PlannedSet {
            images: counts.0,
            cut_images: count(images.iter().filter(|image| image.shards > 1).count(), "images")?,
            tasks: counts.1,
            files,
            file_bytes: bytes().sum(),
            largest_bytes: bytes().max().unwrap_or(0),
            plan_bytes: task_table.start + task_table.len,
        })
    }
}
