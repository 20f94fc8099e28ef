//! The conductor of an extraction: follows the walk, makes the directories, passes everything else
//! to the workers, and finishes with the steps that must wait for them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use packfs_blocks::pipeline::{Pool, Window};
use packfs_blocks::{Progress, descriptors};
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;

use super::ExtractSummary;
use super::place::TargetDir;
use super::restore::CreatedEntry;
use super::work::{ExtractContext, ExtractItem, ExtractWorker, JobOutcome, LargeExtraction, PIECE};
use crate::image::{FileType, Nid, Stat};
use crate::name;
use crate::sink::names::NameCounts;
use crate::sink::{PartDealer, Visit, Walk};
use crate::tree::path_of;
use crate::{Error, Result};

/// A batch of small files is submitted when it holds this many entries or bytes, or as many directories as
/// [`OpenFiles`] allows.
const BATCH_ENTRIES: usize = 64;
const BATCH_BYTES: u64 = 512 << 10;

/// Weight of a job in addition to the directories it keeps open: limits the number of waiting jobs.
const JOB_COST: usize = 8;

/// Numbers of directories that are kept open, and of jobs that keep some open.
#[derive(Debug, Clone, Copy)]
struct OpenFiles {
    /// Directories on the way down; those above are reopened when needed. Most trees have fewer than 16 levels.
    levels: usize,
    /// Directories of one batch. 16 keep files of small directories together.
    batch_dirs: usize,
    /// Directories of all jobs in flight, with [`JOB_COST`] for each job.
    jobs: usize,
}

impl OpenFiles {
    /// Divides the `free` descriptors of the process. With ten it can still extract: two levels, a batch that is
    /// filled, a job with one directory and the file that it writes, and two on the way to a directory that is
    /// reopened.
    fn within(free: usize, threads: usize) -> Self {
        let few = (free / 6).clamp(1, 16);
        OpenFiles { levels: few, batch_dirs: few, jobs: (64 * threads + 64).min(free / 2) }
    }
}

pub(super) struct ExtractConductor<'c, 'p> {
    context: &'c ExtractContext<'c>,
    pool: &'p Pool<'c, ExtractWorker>,
    /// Weighed in open files, not bytes: jobs hold no data while they wait.
    window: Window<JobOutcome>,
    /// True if the destination itself receives the attributes of the image's root.
    restore_top: bool,
    /// Number of leading components to remove from each path.
    strip: usize,
    deal: PartDealer,
    /// The directories from the root down to the current one.
    levels: Vec<DirLevel>,
    /// Directories of other parts below those, down to the current one: made as soon as something in them is ours.
    pending: Vec<(Nid, Stat, bool)>,
    batch: ItemBatch,
    open_files: OpenFiles,
    /// All directories made, in the order of the walk.
    made: Vec<MadeDir>,
    /// The first name of each inode that has several; `None` if it, and so all of them, belong to another part.
    first_names: HashMap<u64, Option<MadeName>>,
    names: NameCounts,
    links: Vec<PendingLink>,
    summary: ExtractSummary,
}

#[derive(Default)]
struct ItemBatch {
    items: Vec<ExtractItem>,
    bytes: u64,
    dirs: usize,
}

struct DirLevel {
    state: OpenDirState,
    /// Its index in `made`.
    made: usize,
}

enum OpenDirState {
    Open(Arc<TargetDir>),
    /// It exists but is not held open.
    Closed,
    /// It could not be created: its entries are left out with it.
    Failed,
}

/// A created directory, stored without its path because paths of deep trees are long.
struct MadeDir {
    /// Index of its parent; the root's is its own.
    parent: usize,
    name: Box<[u8]>,
    nid: Nid,
    stat: Stat,
    /// True if it receives the image's attributes.
    restore: bool,
}

/// An entry, given by its directory (an index in `made`) and its name there.
#[derive(Clone)]
struct MadeName {
    dir: usize,
    name: Box<[u8]>,
}

/// An additional name of a file, to be made once the file has its first one.
struct PendingLink {
    ino: u64,
    first: MadeName,
    name: MadeName,
}

impl<'c, 'p> ExtractConductor<'c, 'p> {
    pub(super) fn new(
        context: &'c ExtractContext<'c>,
        pool: &'p Pool<'c, ExtractWorker>,
        restore_top: bool,
        (strip, deal): (usize, PartDealer),
    ) -> Self {
        let open_files = OpenFiles::within(descriptors::free(), pool.threads());
        ExtractConductor {
            context,
            pool,
            window: Window::new(open_files.jobs),
            open_files,
            restore_top,
            strip,
            deal,
            levels: Vec::new(),
            pending: Vec::new(),
            batch: ItemBatch::default(),
            made: Vec::new(),
            first_names: HashMap::new(),
            names: NameCounts::default(),
            links: Vec::new(),
            summary: ExtractSummary::default(),
        }
    }

    /// Takes the root as selected, whatever the walk visits.
    pub(super) fn root(&mut self) -> Result<()> {
        let nid = self.context.image().root();
        let stat = self.context.image().stat(nid)?;
        self.directory(Visit { path: b"", name: b"", depth: 0, nid, stat, selected: true })
    }

    /// Extracts everything that `walk` visits.
    pub(super) fn run(mut self, walk: &mut Walk<'_>) -> Result<ExtractSummary> {
        loop {
            Error::unless_cancelled(self.context.progress)?;
            let done = match walk.step() {
                Ok(None) => break,
                Ok(Some(visit)) => {
                    // Before anything is stripped, as every entry counts for the total.
                    let is_ours = self.deal.next(&visit.stat);
                    self.names
                        .add(visit.path, &visit.stat)
                        .and_then(|()| visit.strip(self.strip).map_or(Ok(()), |visit| self.visit(visit, is_ours)))
                }
                Err(error) => Err(error),
            };
            done.or_else(|error| self.skip(error))?;
        }
        self.submit_batch()?;
        while let Some(outcome) = self.window.pop() {
            self.take(outcome)?;
        }
        self.link_all()?;
        self.finish_dirs()?;
        Ok(self.summary)
    }

    /// Continues after an error if the options say so.
    fn skip(&mut self, error: Error) -> Result<()> {
        self.summary.skipped.push(self.context.skippable(error)?);
        Ok(())
    }

    fn take(&mut self, (summary, result): JobOutcome) -> Result<()> {
        Progress::add(&self.context.progress.entries, summary.entries());
        self.summary.add(summary);
        result
    }

    fn visit(&mut self, visit: Visit<'_>, is_ours: bool) -> Result<()> {
        self.pending.truncate(visit.depth.saturating_sub(self.levels.len()));
        self.levels.truncate(visit.depth);
        if visit.stat.kind == FileType::Dir {
            if is_ours {
                self.make_pending(&visit)?;
                return self.directory(visit);
            }
            self.pending.push((visit.nid, visit.stat, visit.selected));
            return Ok(());
        }
        // A further name belongs to the part that has the first one, which it is linked to.
        let has_names = visit.stat.nlink > 1;
        let is_ours = match self.first_names.get(&visit.stat.ino) {
            Some(first) if has_names => first.is_some(),
            _ => is_ours,
        };
        if !is_ours {
            if has_names {
                self.first_names.insert(visit.stat.ino, None);
            }
            return Ok(());
        }
        self.make_pending(&visit)?;
        let Some((dir, made)) = self.parent(&visit)? else { return Ok(()) };
        let Visit { name, nid, stat, .. } = visit;
        if stat.nlink > 1 {
            let name = MadeName { dir: made, name: name.into() };
            if let Some(Some(first)) = self.first_names.get(&stat.ino) {
                self.links.push(PendingLink { ino: stat.ino, first: first.clone(), name });
                return Ok(());
            }
            self.first_names.insert(stat.ino, Some(name));
        }
        let item = ExtractItem { dir, name: name.into(), nid, stat };
        match item.stat.kind {
            FileType::File { size } if size > PIECE => self.large(item, size),
            FileType::File { size } => self.small(item, size),
            _ => self.small(item, 0),
        }
    }

    /// Makes the directories of other parts that lead to `visit`.
    fn make_pending(&mut self, visit: &Visit<'_>) -> Result<()> {
        let mut made = Ok(());
        for (nid, stat, selected) in std::mem::take(&mut self.pending) {
            let depth = self.levels.len();
            let slashes = visit.path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            let ends = slashes.map(|(at, _)| at).chain([visit.path.len()]);
            let end = if depth == 0 { 0 } else { ends.take(depth).last().unwrap_or(0) };
            let path = &visit.path[..end];
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            // `and` calls it even after a failure: every directory on the way needs its level.
            made = made.and(self.directory(Visit { path, name, depth, nid, stat, selected }));
        }
        made
    }

    fn directory(&mut self, visit: Visit<'_>) -> Result<()> {
        let opened = self.open(&visit);
        let state = match &opened {
            Ok(Some((dir, _))) => OpenDirState::Open(dir.clone()),
            Ok(None) | Err(_) => OpenDirState::Failed,
        };
        let parent = self.levels.last().map_or(0, |level| level.made);
        // If components are removed, several directories may map to the destination.
        let is_known = visit.depth == 0 && !self.made.is_empty();
        // Even if it could not be opened: entries below look for it here, and are left out.
        self.levels.push(DirLevel { state, made: if is_known { 0 } else { self.made.len() } });
        if let Some(far) =
            self.levels.len().checked_sub(self.open_files.levels + 1).and_then(|at| self.levels.get_mut(at))
            && matches!(far.state, OpenDirState::Open(_))
        {
            far.state = OpenDirState::Closed;
        }
        if let Some((_, restore)) = opened?
            && !is_known
        {
            let Visit { name, nid, stat, .. } = visit;
            self.made.push(MadeDir { parent, name: name.into(), nid, stat, restore });
            self.summary.directories += 1;
            Progress::add(&self.context.progress.entries, 1);
        }
        Ok(())
    }

    /// Makes a directory; also returns whether it receives the image's attributes. `None` if its parent failed.
    fn open(&mut self, visit: &Visit<'_>) -> Result<Option<(Arc<TargetDir>, bool)>> {
        let place = self.context.place();
        if visit.depth == 0 {
            return Ok(Some((Arc::new(place.open_dir(b"")?), visit.selected && self.restore_top)));
        }
        let Some((parent, _)) = self.parent(visit)? else { return Ok(None) };
        let (dir, new) = place.make_dir(&parent, visit.name)?;
        Ok(Some((Arc::new(dir), new || place.fills())))
    }

    /// Returns the parent directory of `visit`, and its index in `made`. `None` if it failed.
    fn parent(&mut self, visit: &Visit<'_>) -> Result<Option<(Arc<TargetDir>, usize)>> {
        let Some(level) = self.levels.last_mut() else {
            return Err(Error::Damaged { path: "/".into(), why: "the root is not a directory".into() });
        };
        let dir = match &level.state {
            OpenDirState::Failed => return Ok(None),
            OpenDirState::Open(dir) => dir.clone(),
            OpenDirState::Closed => {
                let path_len = visit.path.len().saturating_sub(visit.name.len() + 1);
                let path = visit.path.get(..path_len).unwrap_or_default();
                let dir = Arc::new(self.context.place().open_dir(path)?);
                level.state = OpenDirState::Open(dir.clone());
                dir
            }
        };
        Ok(Some((dir, level.made)))
    }

    fn small(&mut self, item: ExtractItem, size: u64) -> Result<()> {
        let ItemBatch { items, bytes, dirs } = &mut self.batch;
        if items.last().is_none_or(|last| !Arc::ptr_eq(&last.dir, &item.dir)) {
            *dirs += 1;
        }
        *bytes += size;
        items.push(item);
        if items.len() >= BATCH_ENTRIES || *bytes >= BATCH_BYTES || *dirs >= self.open_files.batch_dirs {
            self.submit_batch()?;
        }
        Ok(())
    }

    fn submit_batch(&mut self) -> Result<()> {
        let ItemBatch { items, dirs, .. } = std::mem::take(&mut self.batch);
        if items.is_empty() {
            return Ok(());
        }
        let context = self.context;
        self.submit(JOB_COST + dirs, move |worker| worker.batch(context, &items))
    }

    fn large(&mut self, item: ExtractItem, size: u64) -> Result<()> {
        let context = self.context;
        context.image().will_read(item.nid, 0..size);
        let ino = item.stat.ino;
        let created = LargeExtraction::create(context, item, size);
        let (large, pieces) = created.inspect_err(|_| self.summary.lost_inodes.push(ino))?;
        let large = Arc::new(large);
        for piece in pieces {
            let large = large.clone();
            self.submit(JOB_COST, move |worker| worker.piece(context, &large, piece))?;
        }
        Ok(())
    }

    fn submit(&mut self, cost: usize, job: impl FnOnce(&mut ExtractWorker) -> JobOutcome + Send + 'c) -> Result<()> {
        Error::unless_cancelled(self.context.progress)?;
        while self.window.is_full() {
            let Some(outcome) = self.window.pop() else { break };
            self.take(outcome)?;
        }
        self.window.push(self.pool.submit(job), cost);
        Ok(())
    }

    /// Creates the additional names of files, now that all files exist.
    fn link_all(&mut self) -> Result<()> {
        let links = std::mem::take(&mut self.links);
        let mut from = None;
        let mut to = None;
        let lost: HashSet<u64> = self.summary.lost_inodes.iter().copied().collect();
        for pending in &links {
            let done = self.link(pending, lost.contains(&pending.ino), &mut from, &mut to);
            done.or_else(|error| self.skip(error))?;
        }
        Ok(())
    }

    fn link(
        &mut self,
        PendingLink { first, name, .. }: &PendingLink,
        is_lost: bool,
        from: &mut OpenDir,
        to: &mut OpenDir,
    ) -> Result<()> {
        let from = self.reopen(first.dir, from)?;
        let to = self.reopen(name.dir, to)?;
        let link = || match is_lost {
            // Under the first name there may be another file, which was there before.
            true => Err(Errno::NOENT),
            false => fs::linkat(from.fd(), &*first.name, to.fd(), &*name.name, AtFlags::empty()),
        };
        let place = self.context.place();
        match place.new_entry(to, &name.name, link) {
            Ok(()) => {
                self.summary.hard_links += 1;
                Progress::add(&self.context.progress.entries, 1);
                Ok(())
            }
            // The first name could not be restored, which was already reported.
            Err(errno @ Errno::NOENT) => {
                let what = format!("hard link to {}", name::display(&path_of(&from.join(&first.name))));
                let link = CreatedEntry { dir: to, name: &name.name, fd: None, ours: false, mode: None };
                self.summary.not_restored.push(self.context.restore.not_restored(link, what, errno));
                Ok(())
            }
            Err(errno) => Err(place.failed("cannot create hard link", &to.join(&name.name))(errno)),
        }
    }

    /// Opens a created directory, unless it is the one opened last.
    fn reopen<'d>(&self, made: usize, last: &'d mut OpenDir) -> Result<&'d TargetDir> {
        let dir = match last.take() {
            Some((at, dir)) if at == made => dir,
            _ => self.context.place().open_dir(&self.path_of(made))?,
        };
        Ok(&last.insert((made, dir)).1)
    }

    /// Sets the attributes of directories, the deepest first: once a directory cannot be entered
    /// any more, its entries are finished.
    fn finish_dirs(&mut self) -> Result<()> {
        let mut summary = ExtractSummary::default();
        for (at, made) in self.made.iter().enumerate().rev().filter(|(_, made)| made.restore) {
            let done = self.context.place().open_dir(&self.path_of(at)).and_then(|dir| {
                let target = CreatedEntry { dir: &dir, name: b"", fd: Some(dir.fd()), ours: false, mode: None };
                self.context.restore.all(target, made.nid, &made.stat, &mut summary)
            });
            if let Err(error) = done {
                summary.skipped.push(self.context.skippable(error)?);
            }
        }
        self.summary.add(summary);
        Ok(())
    }

    fn path_of(&self, made: usize) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = made;
        while let Some(dir) = self.made.get(at).filter(|_| at != 0) {
            names.push(&*dir.name);
            at = dir.parent;
        }
        names.reverse();
        names.join(&b'/')
    }
}

/// A created directory, by its index, and open.
type OpenDir = Option<(usize, TargetDir)>;
