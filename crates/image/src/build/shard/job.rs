//! Plans: all that the later steps of a build in shards need to know, in one file.
//!
//! | section | content | read by |
//! |---|---|---|
//! | header | magic, version, numbers, places and digests of options, tree and table; a digest of all that | every step |
//! | options | who made the plan, the options, the directories of the sources | every step |
//! | shard, one each | path of each file, and its state when it was listed | the step that packs this shard |
//! | tree | all inodes, with the numbers of their data | assembly |
//! | table | place and digest of each shard, and its numbers | every step |
//!
//! The digest of the header stands for the whole plan: shards carry it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::system::OsStrExt;
use packfs_blocks::{Digest, Output, Progress};
use serde::Serialize;

use super::file::{LocatedSection, SectionWriter, SectionedFile};
use super::{AnyOptions, ShardLayout, Shards, cuts, options};
use crate::source::{Contents, FileFingerprint, dir};
use crate::tree::{FileData, Ino, Kind, Tree};
use crate::{Error, Result};
use packfs_tree::encoding::{FieldDecoder, FieldEncoder};

const MAGIC: [u8; 8] = *b"packfsPL";
const VERSION: u32 = 5;
const HEADER: usize = 8 + 4 * 4 + 3 * LocatedSection::LEN + 32;
/// Number of bytes of an entry of the table.
const ENTRY: usize = LocatedSection::LEN + 16;
const TOO_MANY: Error = Error::TooMany { what: "files", max: 1 << 32 };

/// Summary of a plan.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "PlannedImage"))]
#[non_exhaustive]
pub struct PlanSummary {
    /// Number of shards.
    pub shards: u32,
    /// Number of files that shards pack.
    pub files: u32,
    /// Bytes of these files.
    pub file_bytes: u64,
    /// Bytes of the largest shard's files.
    pub largest_bytes: u64,
    /// Number of files that equal a file of an earlier shard.
    pub equal_files: u32,
    /// Length of the plan in bytes.
    pub plan_bytes: u64,
}

/// A plan that was written.
#[derive(Debug)]
pub(crate) struct WrittenPlan {
    pub(crate) figures: PlanSummary,
    /// For each shard, the bytes of its files and its weight.
    pub(super) loads: Vec<(u64, u64)>,
}

/// Numbers of one shard.
#[derive(Debug, Clone, Copy)]
struct ShardNumbers {
    at: LocatedSection,
    files: u32,
    bytes: u64,
}

/// An open plan of a build in shards.
#[derive(Debug)]
pub struct Job {
    input: SectionedFile,
    id: Digest,
    options: AnyOptions,
    made_by: String,
    roots: Vec<PathBuf>,
    entries: Vec<ShardNumbers>,
    tree: LocatedSection,
    files: u32,
    /// True to join shards without reading their data.
    pub(super) trusting: bool,
}

/// A file of a shard.
pub(super) type ShardFile = (Arc<dyn Contents>, u64, u64);

impl Job {
    /// Opens a plan; of its shards only the list of them is read.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a plan of another version, [`Error::Damaged`] if it is no plan or damaged.
    pub fn open(path: &Path) -> Result<Job> {
        Job::at(SectionedFile::open(path)?, 0)
    }

    /// Lets [`Job::assemble`] leave the data of shards unread: it does not notice damage since they were packed, and takes next
    /// to no time if the file system shares blocks.
    pub fn trust_shards(&mut self) {
        self.trusting = true;
    }

    /// Opens the plan at byte `start` of a file.
    pub(super) fn at(input: SectionedFile, start: u64) -> Result<Job> {
        let path = &input.path;
        let head = input.read(start, HEADER as u64)?;
        let mut from = FieldDecoder::new("plan", &head);
        if from.array()? != MAGIC {
            return Err(input.damaged("not a plan of packfs".into()));
        }
        check_version(path, from.u32()?, VERSION)?;
        let shards = from.u32()?;
        let files = from.u32()?;
        // Reserved.
        from.u32()?;
        let [about, tree, table] =
            [LocatedSection::get(&mut from)?, LocatedSection::get(&mut from)?, LocatedSection::get(&mut from)?];
        let id = Digest::of(&head[..HEADER - 32]);
        if from.array()? != *id.as_bytes() {
            return Err(input.damaged("the header is damaged".into()));
        }
        let count = Shards::Count(shards.try_into().map_err(|_| from.wrong("there are no shards"))?);
        let about = input.section(&about, "the section of options")?;
        let mut from = FieldDecoder::new("options of a plan", &about);
        let made_by = from.text()?.to_owned();
        let options = options::decode(&mut from, count)?;
        let roots = from.list(8, |from| Ok(crate::tree::path_of(from.bytes()?)))?;
        from.end()?;
        let table = input.section(&table, "the table of shards")?;
        let mut from = FieldDecoder::new("shards of a plan", &table);
        let entry = |from: &mut FieldDecoder<'_>| {
            let at = LocatedSection::get(from)?;
            let files = from.u32()?;
            // Reserved.
            from.u32()?;
            Ok::<_, Error>(ShardNumbers { at, files, bytes: from.u64()? })
        };
        let entries = (0..shards).map(|_| entry(&mut from)).collect::<Result<Vec<_>>>()?;
        from.end()?;
        Ok(Job { input, id, options, made_by, roots, entries, tree, files, trusting: false })
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> u32 {
        u32::try_from(self.entries.len()).expect("counted in 32 bits")
    }

    /// Returns the options of the build.
    pub fn options(&self) -> &AnyOptions {
        &self.options
    }

    /// Returns the options of the build, to set those that its bytes do not depend on: threads, memory, force.
    pub fn options_mut(&mut self) -> &mut AnyOptions {
        &mut self.options
    }

    /// Returns the number of bytes of a shard's files.
    pub fn bytes(&self, shard: u32) -> u64 {
        self.entries.get(shard as usize).map_or(0, |entry| entry.bytes)
    }

    /// Returns the number of files that all shards pack.
    pub(super) fn packed_files(&self) -> usize {
        self.files as usize
    }

    pub(super) fn id(&self) -> Digest {
        self.id
    }

    /// Fails if the encoders here are not those of the plan.
    pub(super) fn check_made_by(&self, here: &str) -> Result<()> {
        if self.made_by == here {
            return Ok(());
        }
        let name = crate::name::display(&self.input.path);
        let why = format!("{name}: made by {}, and this is {here}: shards would not fit together", self.made_by);
        Err(Error::Unsupported(why))
    }

    /// Returns the files of a shard, in order.
    pub(super) fn files(&self, shard: u32) -> Result<Vec<ShardFile>> {
        let entry = self.entries.get(shard as usize).copied();
        let entry = entry.ok_or_else(|| Error::Misuse(format!("the plan has no shard {shard}")))?;
        let bytes = self.input.section(&entry.at, &format!("the list of shard {shard}"))?;
        let mut from = FieldDecoder::new("list of a shard", &bytes);
        let mut listed: Vec<Vec<(Vec<u8>, FileFingerprint)>> = vec![Vec::new(); self.roots.len()];
        let mut places = Vec::new();
        for _ in 0..entry.files {
            let root = from.u32()? as usize;
            let path = from.bytes()?;
            let seen = FileFingerprint(from.array()?);
            from.check(root < self.roots.len(), "a file has no directory")?;
            // Paths cannot lead out of the directory: nothing that is opened below it follows `..`.
            let is_below = path.split(|byte| *byte == b'/').all(|name| crate::tree::check_name(name).is_ok());
            from.check(is_below, "a path leads out of its directory")?;
            places.push((root, listed[root].len() as u64, seen.size()));
            listed[root].push((path.to_owned(), seen));
        }
        from.end()?;
        let reopen = |(root, files): (&PathBuf, Vec<_>)| {
            // A directory of which the shard has no files need not exist here.
            if files.is_empty() { Ok(None) } else { dir::reopen(root, &files).map(Some) }
        };
        let contents = self.roots.iter().zip(listed).map(reopen).collect::<Result<Vec<_>>>()?;
        let file = |(root, key, size): (usize, u64, u64)| Some((Arc::clone(contents[root].as_ref()?), key, size));
        // All have contents: only directories without files were not opened.
        Ok(places.into_iter().filter_map(file).collect())
    }

    /// Returns the tree.
    pub(super) fn tree(&self) -> Result<Tree> {
        Tree::decode(self.files, self.input.groups(&self.tree, "the tree")?)
    }
}

/// Fails if a plan has another version than the one that is known here.
pub(super) fn check_version(path: &Path, version: u32, known: u32) -> Result<()> {
    if version == known {
        return Ok(());
    }
    let name = crate::name::display(path);
    Err(Error::Unsupported(format!("{name}: plan of version {version}; this packfs knows {known}")))
}

/// Writes a plan for `tree`, whose files are cut as `layout` says, to byte `start` of the output and what follows.
pub(super) fn write(
    (output, start): (&Output, u64),
    options: &AnyOptions,
    made_by: &str,
    tree: &mut Tree,
    layout: &ShardLayout,
) -> Result<WrittenPlan> {
    let mut lists = ShardLists::new(output, start);
    for range in &layout.ranges {
        lists.write(tree, &layout.files[range.clone()])?;
    }
    // The tree of a plan has numbers instead of sources: by them, assembly finds what shards packed.
    for (ino, number) in layout.files.iter().copied().zip(0..).chain(layout.equal.iter().copied()) {
        tree.set_data(ino, FileData::Stored(number))?;
    }
    let mut section = SectionWriter::new(output, lists.at);
    tree.encode(&mut section);
    let tree = section.finish()?;
    lists.finish(options, made_by, &tree, layout.equal.len() as u64)
}

/// The lists of files being written, of one shard after the other.
pub(super) struct ShardLists<'o> {
    output: &'o Output,
    start: u64,
    /// Position after the lists.
    pub(super) at: u64,
    roots: Vec<PathBuf>,
    numbers: HashMap<PathBuf, u32>,
    entries: Vec<ShardNumbers>,
    list: Option<(SectionWriter<'o>, u32, u64)>,
}

impl<'o> ShardLists<'o> {
    /// Begins a plan at byte `start` of the output.
    pub(super) fn new(output: &'o Output, start: u64) -> Self {
        let roots = Vec::new();
        let numbers = HashMap::new();
        let entries = Vec::new();
        ShardLists { output, start, at: start + HEADER as u64, roots, numbers, entries, list: None }
    }

    fn write(&mut self, tree: &Tree, files: &[Ino]) -> Result<()> {
        for ino in files {
            let Kind::File { data: FileData::Source { from, key }, .. } = &tree.inode(*ino).kind else { continue };
            let Some((root, path, seen)) = from.origin(*key) else {
                let why = "only files of directories can be planned: extract archives and images first";
                return Err(Error::limit(from.path(*key), why));
            };
            self.add(root, &path, seen)?;
        }
        self.end_shard()
    }

    /// Adds a file to the list of the present shard.
    pub(super) fn add(&mut self, root: &Path, path: &[u8], seen: FileFingerprint) -> Result<()> {
        let number = self.number(root)?;
        let output = self.output;
        let at = self.at;
        let (section, files, bytes) = self.list.get_or_insert_with(|| (SectionWriter::new(output, at), 0, 0));
        section.u32(number);
        section.bytes(path);
        section.put(&seen.0);
        *files = files.checked_add(1).ok_or(TOO_MANY)?;
        *bytes += seen.size();
        Ok(())
    }

    /// Ends the list of a shard.
    pub(super) fn end_shard(&mut self) -> Result<()> {
        let list = self.list.take();
        let (section, files, bytes) = list.unwrap_or_else(|| (SectionWriter::new(self.output, self.at), 0, 0));
        let at = section.finish()?;
        self.at += at.len;
        self.entries.push(ShardNumbers { at, files, bytes });
        Ok(())
    }

    /// Writes what follows the tree, and the header.
    pub(super) fn finish(
        self,
        options: &AnyOptions,
        made_by: &str,
        tree: &LocatedSection,
        equal: u64,
    ) -> Result<WrittenPlan> {
        let ShardLists { output, start, roots, entries, .. } = self;
        let mut section = SectionWriter::new(output, tree.start + tree.len);
        section.bytes(made_by.as_bytes());
        options::encode(options, &mut section);
        section.count(roots.len());
        roots.iter().for_each(|root| section.bytes(root.as_os_str().as_bytes()));
        let about = section.finish()?;
        let mut section = SectionWriter::new(output, about.start + about.len);
        for ShardNumbers { at, files, bytes } in &entries {
            at.put(&mut section);
            section.u32(*files);
            section.u32(0);
            section.u64(*bytes);
        }
        let table = section.finish()?;
        let count = |len: u64| u32::try_from(len).map_err(|_| TOO_MANY);
        let files = entries.iter().map(|entry| u64::from(entry.files)).sum();
        let shards = count(entries.len() as u64)?;
        let files = count(files)?;
        let equal_files = count(equal)?;
        let mut head = MAGIC.to_vec();
        [VERSION, shards, files, 0].into_iter().for_each(|number| head.u32(number));
        [&about, tree, &table].iter().for_each(|at| at.put(&mut head));
        let id = Digest::of(&head);
        head.put(id.as_bytes());
        output.write_all_at(&head, start).map_err(Error::io("cannot write", output.target()))?;
        let bytes = || entries.iter().map(|entry| entry.bytes);
        let figures = PlanSummary {
            shards,
            files,
            file_bytes: bytes().sum(),
            largest_bytes: bytes().max().unwrap_or(0),
            equal_files,
            plan_bytes: table.start + (entries.len() * ENTRY) as u64 - start,
        };
        let load = |entry: &ShardNumbers| (entry.bytes, cuts::load(entry.bytes, entry.files));
        Ok(WrittenPlan { figures, loads: entries.iter().map(load).collect() })
    }

    fn number(&mut self, root: &Path) -> Result<u32> {
        if let Some(number) = self.numbers.get(root) {
            return Ok(*number);
        }
        let number = u32::try_from(self.roots.len()).expect("fewer sources than files");
        // Tasks may run in other directories.
        self.roots.push(std::path::absolute(root).map_err(Error::io("cannot find", root))?);
        self.numbers.insert(root.to_owned(), number);
        Ok(number)
    }
}

/// Refuses the data of streams, which later steps cannot read.
pub(super) struct NoStream {
    pub(super) own_files: Vec<(u64, u64)>,
}

impl crate::source::Store for NoStream {
    fn put(&mut self, _: &mut dyn std::io::Read, _: u64, _: &[(u64, u64)]) -> Result<u32> {
        let why = "an archive that can be read only once cannot be planned: extract it first";
        Err(Error::Unsupported(why.into()))
    }

    fn own_files(&self) -> &[(u64, u64)] {
        &self.own_files
    }
}

/// Sets the number of bytes to be read.
pub(super) fn expect(progress: &Progress, bytes: u64) {
    progress.total.store(bytes, std::sync::atomic::Ordering::Relaxed);
}
