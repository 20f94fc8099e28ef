//! Compares two images of any formats, entry by entry, attribute by attribute, byte by byte.
//!
//! Either image may be a [`TreeImage`](crate::tree::TreeImage): that is how an image is compared
//! with its source. Two walks run side by side in name order. Workers compare contents, in batches
//! and in pieces, and all differences are reported in the order of the walk.

mod content;
mod difference;
mod superblock;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_blocks::pipeline::{self, Pool, Window};
use packfs_blocks::progress::Phase;

use self::content::{CompareBuffers, CompareStep, CompareTask, OtherName, StepOutcome};
pub use self::difference::{Aspect, Difference};
pub use self::superblock::superblocks;
use crate::Result;
use crate::image::{FileType, Image, Stat};
use crate::sink::{Visit, Walk};
use crate::tree::{DeviceNumber, Time, XattrSet};

/// Options of a comparison.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DiffOptions {
    /// Number of worker threads; 0 compares on the calling thread.
    pub threads: usize,
    /// Aspects not to compare; an [`Aspect::Xattr`] stands for the attributes of all names.
    pub ignore: Vec<Aspect>,
    /// True to compare the numbers of inodes, too.
    pub inodes: bool,
}

impl Default for DiffOptions {
    fn default() -> Self {
        DiffOptions { threads: pipeline::cores(), ignore: Vec::new(), inodes: false }
    }
}

/// Compares `first` with `second` and calls `found` for every difference in name order, with the same calls for
/// any number of threads.
///
/// If only one image has a directory, only the directory itself is reported. A file with several names is reported
/// under each of them. Fractions of seconds count if both images store them; modes of symbolic links never count. Fails
/// if something cannot be read.
pub fn diff(
    first: &dyn Image,
    second: &dyn Image,
    options: &DiffOptions,
    progress: &Progress,
    found: &mut dyn FnMut(Difference),
) -> Result<()> {
    progress.enter(Phase::Read);
    let threads = options.threads;
    pipeline::scope(threads, CompareBuffers::default, |pool| {
        let mut comparer = ImageComparer {
            first,
            second,
            ignore: options.ignore.iter().map(Aspect::word).collect(),
            inodes: options.inodes,
            progress,
            pool,
            // A few batches for each worker, so that none waits for the walk. Not measured.
            window: Window::new(4 * threads + 4),
            batch: Vec::new(),
            batch_bytes: 0,
            links: [HashMap::new(), HashMap::new()],
            nanoseconds: first.holds_nanoseconds() && second.holds_nanoseconds(),
            last_content: None,
            differing_links: HashMap::new(),
            found,
        };
        comparer.walk()
    })?;
    progress.enter(Phase::Done);
    Ok(())
}

/// A batch of comparisons goes to a worker when it holds this many steps or bytes. So small files need no job each; the
/// values were not measured.
const BATCH_STEPS: usize = 64;
const BATCH_BYTES: u64 = 512 << 10;

struct ImageComparer<'c, 'p> {
    first: &'c dyn Image,
    second: &'c dyn Image,
    /// Aspects that are not compared, by their words.
    ignore: Vec<&'static str>,
    inodes: bool,
    progress: &'c Progress,
    pool: &'p Pool<'c, CompareBuffers>,
    window: Window<Result<Vec<StepOutcome>>>,
    batch: Vec<CompareStep>,
    batch_bytes: u64,
    /// For each image, the first common path of each inode with several names.
    links: [HashMap<u64, Arc<[u8]>>; 2],
    nanoseconds: bool,
    /// The file whose contents were last reported as different: differences in later pieces are not reported again.
    last_content: Option<Box<[u8]>>,
    /// First names of files with several names whose contents differ: they are compared once, and reported for each
    /// name.
    differing_links: HashMap<Box<[u8]>, Difference>,
    found: &'p mut dyn FnMut(Difference),
}

impl ImageComparer<'_, '_> {
    fn walk(&mut self) -> Result<()> {
        let mut one = Walk::new(self.first, &[])?;
        let mut two = Walk::new(self.second, &[])?;
        let mut a = one.step()?;
        let mut b = two.step()?;
        loop {
            let order = match (&a, &b) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => order(a.path, b.path),
            };
            match (order, a.take(), b.take()) {
                (Ordering::Equal, Some(in_one), Some(in_two)) => {
                    let dirs = is_dir(&in_one);
                    let same = is_dir(&in_one) == is_dir(&in_two);
                    self.both(in_one, in_two)?;
                    // A directory against anything else is one difference, not one for each of its entries.
                    if !same {
                        if dirs { one.leave() } else { two.leave() }
                    }
                    (a, b) = (one.step()?, two.step()?);
                }
                (Ordering::Less, Some(only), kept) => {
                    self.tell(&only, Aspect::Entry, Some(kind(&only.stat)), None)?;
                    b = kept;
                    if is_dir(&only) {
                        one.leave();
                    }
                    a = one.step()?;
                }
                (_, kept, Some(only)) => {
                    self.tell(&only, Aspect::Entry, None, Some(kind(&only.stat)))?;
                    a = kept;
                    if is_dir(&only) {
                        two.leave();
                    }
                    b = two.step()?;
                }
                (_, _, None) => break,
            }
        }
        self.submit()?;
        while let Some(done) = self.window.pop() {
            self.deliver(done?);
        }
        Ok(())
    }

    /// Compares an entry that both images have.
    fn both(&mut self, a: Visit<'_>, b: Visit<'_>) -> Result<()> {
        Progress::add(&self.progress.entries, 1);
        let path = a.path;
        let one = &a.stat;
        let two = &b.stat;
        if kind(one) != kind(two) {
            return self.tell(&a, Aspect::Type, Some(kind(one)), Some(kind(two)));
        }
        if self.inodes {
            self.field(&a, Aspect::Inode, Some((one.ino, two.ino)), |ino| ino.to_string())?;
        }
        if !is_dir(&a) && (one.nlink > 1 || two.nlink > 1) {
            // Images number inodes differently, so links are compared by the first path that leads to the same inode.
            let [in_one, in_two] = &mut self.links;
            let linked_one = link(in_one, one.ino, path);
            let linked_two = link(in_two, two.ino, path);
            if linked_one != linked_two {
                let text = |to: Option<Arc<[u8]>>| {
                    Some(to.map_or("no link".into(), |to| format!("link to {}", difference::shown(&to))))
                };
                self.tell(&a, Aspect::Links, text(linked_one), text(linked_two))?;
            } else if let Some(first_path) = linked_one {
                self.attributes(&a, &b)?;
                // The bytes were compared under the first name, and that result counts for this one, too.
                return match (&one.kind, &two.kind) {
                    (FileType::File { size }, FileType::File { size: other }) if size == other => {
                        self.step(CompareStep::Again(OtherName { path: path.into(), first_path }))
                    }
                    _ => Ok(()),
                };
            }
        }
        self.attributes(&a, &b)?;
        match (&one.kind, &two.kind) {
            (FileType::File { size }, FileType::File { size: other }) if size == other => {
                // Files of different lengths are not read: their bytes differ anyway.
                let has_other_names = one.nlink > 1 && two.nlink > 1;
                self.contents(CompareTask {
                    path: path.into(),
                    first: a.nid,
                    second: b.nid,
                    from: 0,
                    to: *size,
                    has_other_names,
                })
            }
            _ => Ok(()),
        }
    }

    fn attributes(&mut self, a: &Visit<'_>, b: &Visit<'_>) -> Result<()> {
        let one = &a.stat;
        let two = &b.stat;
        let is_link = matches!(one.kind, FileType::Symlink { .. });
        // Linux ignores the mode of a symbolic link.
        self.field(a, Aspect::Mode, (!is_link).then_some((one.mode, two.mode)), |mode| format!("{mode:04o}"))?;
        let owners = ((one.uid, one.gid), (two.uid, two.gid));
        self.field(a, Aspect::Owner, Some(owners), |(uid, gid)| format!("{uid}:{gid}"))?;
        let precise = |time: Time| if self.nanoseconds { time } else { Time { nanos: 0, ..time } };
        let times = (precise(one.mtime), precise(two.mtime));
        self.field(a, Aspect::Time, Some(times), |time| match time.nanos {
            0 => format!("{}", time.secs),
            nanos => format!("{}.{nanos:09}", time.secs),
        })?;
        match (&one.kind, &two.kind) {
            (FileType::File { size: a_size }, FileType::File { size: b_size }) => {
                // Files of different sizes have different bytes, also for who does not care about sizes.
                let is_told = !self.ignore.contains(&Aspect::Size.word());
                let aspect = if is_told { Aspect::Size } else { Aspect::Content };
                self.field(a, aspect, Some((*a_size, *b_size)), |size| {
                    if is_told { size.to_string() } else { format!("{size} bytes") }
                })?;
            }
            (FileType::Symlink { target: to }, FileType::Symlink { target: other }) => {
                self.field(a, Aspect::Target, Some((to, other)), |to| difference::shown(to))?;
            }
            (FileType::Char(x), FileType::Char(y)) | (FileType::Block(x), FileType::Block(y)) => {
                self.field(a, Aspect::Device, Some((*x, *y)), |DeviceNumber { major, minor }| {
                    format!("{major}:{minor}")
                })?;
            }
            _ => {}
        }
        if one.has_xattrs || two.has_xattrs {
            self.xattrs(a, &self.first.xattrs(a.nid)?, &self.second.xattrs(b.nid)?)?;
        }
        Ok(())
    }

    fn field<T: PartialEq>(
        &mut self,
        at: &Visit<'_>,
        aspect: Aspect,
        values: Option<(T, T)>,
        text: impl Fn(T) -> String,
    ) -> Result<()> {
        match values {
            Some((one, two)) if one != two => self.tell(at, aspect, Some(text(one)), Some(text(two))),
            _ => Ok(()),
        }
    }

    /// Both sets are sorted by name.
    fn xattrs(&mut self, at: &Visit<'_>, one: &XattrSet, two: &XattrSet) -> Result<()> {
        let value = |set: &XattrSet, name: &[u8]| {
            let found = set.binary_search_by(|(other, _)| (**other).cmp(name)).ok().and_then(|at| set.get(at));
            found.map(|(_, value)| value.clone())
        };
        let mut names: Vec<&[u8]> = one.iter().chain(two).map(|(name, _)| &**name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let first = value(one, name);
            let second = value(two, name);
            if first != second {
                let text = |value: Option<Box<[u8]>>| value.map(|value| difference::excerpt(&value));
                self.tell(at, Aspect::Xattr(name.into()), text(first), text(second))?;
            }
        }
        Ok(())
    }

    /// Has all bytes of a file compared.
    fn contents(&mut self, whole: CompareTask) -> Result<()> {
        let size = whole.to;
        if size == 0 || self.ignore.contains(&Aspect::Content.word()) {
            return Ok(());
        }
        if size <= content::PIECE {
            self.batch_bytes += size;
            return self.step(CompareStep::Compare(whole));
        }
        for (from, to) in content::pieces(self.first, whole.first, self.second, whole.second, size)? {
            self.batch_bytes += to - from;
            self.step(CompareStep::Compare(CompareTask { path: whole.path.clone(), from, to, ..whole }))?;
        }
        Ok(())
    }

    fn tell(&mut self, at: &Visit<'_>, aspect: Aspect, first: Option<String>, second: Option<String>) -> Result<()> {
        if self.ignore.contains(&aspect.word()) {
            return Ok(());
        }
        // As a step among the comparisons of contents, which fixes the order of reports.
        self.step(CompareStep::Found(Difference { path: at.path.into(), aspect, first, second }))
    }

    fn step(&mut self, step: CompareStep) -> Result<()> {
        self.batch.push(step);
        if self.batch.len() >= BATCH_STEPS || self.batch_bytes >= BATCH_BYTES {
            self.submit()?;
        }
        Ok(())
    }

    fn submit(&mut self) -> Result<()> {
        while self.window.is_full() {
            let Some(done) = self.window.pop() else { break };
            self.deliver(done?);
        }
        let (steps, (first, second, progress)) =
            (std::mem::take(&mut self.batch), (self.first, self.second, self.progress));
        self.batch_bytes = 0;
        self.window.push(self.pool.submit(move |buffers| content::run(steps, first, second, buffers, progress)), 1);
        Ok(())
    }

    fn deliver(&mut self, outcomes: Vec<StepOutcome>) {
        for outcome in outcomes {
            let difference = match outcome {
                StepOutcome::Differs(difference) => difference,
                StepOutcome::DiffersUnderAllNames(difference) => {
                    self.differing_links.entry(difference.path.clone()).or_insert_with(|| difference.clone());
                    difference
                }
                // Batches are delivered in order, so the result for the first name is known.
                StepOutcome::AsFirst(OtherName { path, first_path }) => match self.differing_links.get(&*first_path) {
                    Some(first) => Difference { path, ..first.clone() },
                    None => continue,
                },
            };
            if matches!(difference.aspect, Aspect::Content) {
                // A long file differs once, not once for each piece.
                if self.last_content.as_ref() == Some(&difference.path) {
                    continue;
                }
                self.last_content = Some(difference.path.clone());
            }
            (self.found)(difference);
        }
    }
}

/// Returns the first common path of the inode if it was met before; otherwise remembers it.
fn link(known: &mut HashMap<u64, Arc<[u8]>>, ino: u64, path: &[u8]) -> Option<Arc<[u8]>> {
    match known.entry(ino) {
        std::collections::hash_map::Entry::Occupied(first) => Some(first.get().clone()),
        std::collections::hash_map::Entry::Vacant(slot) => {
            slot.insert(path.into());
            None
        }
    }
}

/// Compares paths in the order of a walk: by components, so that the entries of `a` come before `a.b`.
fn order(a: &[u8], b: &[u8]) -> Ordering {
    // No name contains a NUL, so NUL can stand for the separator, which sorts before everything.
    let sortable = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    if a == b { Ordering::Equal } else { a.iter().map(sortable).cmp(b.iter().map(sortable)) }
}

fn is_dir(visit: &Visit<'_>) -> bool {
    visit.stat.kind == FileType::Dir
}

fn kind(stat: &Stat) -> String {
    let name = match stat.kind {
        FileType::Dir => "directory",
        FileType::File { .. } => "file",
        FileType::Symlink { .. } => "symbolic link",
        FileType::Char(_) => "character device",
        FileType::Block(_) => "block device",
        FileType::Fifo => "named pipe",
        FileType::Socket => "socket",
    };
    name.into()
}
