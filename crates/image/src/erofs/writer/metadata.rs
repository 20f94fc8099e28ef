//! Writes the metadata zone after the data: inodes, directories and shared xattrs. Everything gets
//! its position first, as directories need the nids of inodes; then the zone is written from front
//! to back.

use packfs_blocks::{Output, Progress};

use super::data::DataDone;
use super::dir;
use super::epoch::Epoch;
use super::inode::{Inodes, Uses};
use super::layout::{Dir, Layout, What};
use super::pack::Worker;
use super::superblock::{Facts, Head};
use super::xattr::Xattrs;
use super::{Features, Options};
use crate::build::{Census, Tools};
use crate::erofs::format::Incompat;
use crate::erofs::kernel::Kernel;
use crate::tree::{Ino, Kind, ROOT, Time, Tree};
use crate::{Error, Result};

/// Number of bytes written at a time.
const WRITE_LEN: usize = 1 << 20;

/// Result of writing the metadata.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    /// Length of the image in blocks.
    pub(super) blocks: u64,
    /// Number of bytes of everything except file data: the first blocks and the zone.
    pub(super) metadata_bytes: u64,
    pub(super) uuid: [u8; 16],
    /// The oldest Linux that reads the image.
    pub(super) kernel: Kernel,
}

/// Writes the zone after the data, then the superblock.
pub(super) fn write(
    tools: Tools<'_, '_, Worker>,
    options: &Options,
    tree: &Tree,
    census: &Census,
    data: &DataDone,
) -> Result<Written> {
    let Tools { output, progress, .. } = tools;
    let head = Head::new(options)?;
    let zone = u32::try_from(data.end).ok().filter(|zone| *zone < u32::MAX);
    let zone =
        zone.ok_or_else(|| Error::TooMany { what: "blocks of data; larger blocks hold more", max: u32::MAX.into() })?;
    let xattrs = Xattrs::encode(options, tree)?;
    head.check(xattrs.uses_prefixes(), data.packed.is_some())?;
    let epoch = epoch(options, tree, census)?;
    let inodes = Inodes { options, tree, data, xattrs: &xattrs, epoch };
    let layout = Layout::of(&inodes)?;
    let start = data.end * u64::from(options.block_size);
    let out = Stream::new(output, progress, options.build.offset + start);
    let mut writer = Writer { inodes: &inodes, layout: &layout, zone, out, serial: 0, uses: Uses::default() };
    writer.items()?;
    let (Uses { mut features, algorithms }, digest) = (writer.uses, writer.out.finish(layout.len)?);
    features.set(Incompat::FRAGMENTS_OR_DEDUPE, features.contains(Incompat::FRAGMENTS_OR_DEDUPE) || data.shares_clusters);
    let block = |at: u64| zone + blocks(at, options.block_size);
    let facts = Facts {
        inodes: census.inodes.into(),
        epoch,
        time: options.build.time.unwrap_or(census.newest),
        blocks: data.end + layout.len / u64::from(options.block_size),
        zone,
        root_nid: u16::try_from(layout.nid(ROOT)).expect("the root is placed first"),
        packed_nid: layout.packed,
        shared_xattrs: layout.shared_xattrs.map(block),
        has_xattrs: xattrs.any(),
        uses_prefixes: xattrs.uses_prefixes(),
        uses: features,
        algorithms,
    };
    let (first, uuid) = head.encode(&facts, |first| uuid(&[first, digest.as_bytes(), data.content.as_bytes()]));
    output.write_all_at(&first, options.build.offset).map_err(Error::io("cannot write", output.target()))?;
    Ok(Written {
        blocks: facts.blocks,
        metadata_bytes: first.len() as u64 + layout.len,
        uuid,
        kernel: head.kernel(&facts),
    })
}

/// Returns the time of compact inodes.
fn epoch(options: &Options, tree: &Tree, census: &Census) -> Result<Epoch> {
    let mut times = Vec::new();
    tree.walk(|ino, _| {
        times.push(tree.inode(ino).mtime);
        Ok(())
    })?;
    let otherwise = Time { secs: census.newest, nanos: 0 };
    Ok(Epoch::choose(times, options.features.contains(Features::BITS_48), otherwise))
}

fn blocks(len: u64, block: u32) -> u32 {
    u32::try_from(len / u64::from(block)).expect("the zone is shorter than 2^32 blocks")
}

/// Makes a UUID of version 8 (custom) from all contents of the image.
fn uuid(parts: &[&[u8]]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let mut uuid = [0; 16];
    hasher.finalize_xof().fill(&mut uuid);
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// Writes everything that has its position.
struct Writer<'w, 'a> {
    inodes: &'w Inodes<'a>,
    layout: &'w Layout,
    /// First block of the zone.
    zone: u32,
    out: Stream<'a>,
    /// Number of inodes written.
    serial: u32,
    /// Format features that they use.
    uses: Uses,
}

impl Writer<'_, '_> {
    fn items(&mut self) -> Result<()> {
        let (inodes, layout) = (self.inodes, self.layout);
        let mut bytes = Vec::new();
        for (at, what) in &layout.items {
            self.out.seek(*at)?;
            bytes.clear();
            match *what {
                What::Dir(number) => self.dir(&layout.dirs[number as usize], &mut bytes)?,
                What::DirBlocks(number) => self.dir_blocks(&layout.dirs[number as usize])?,
                What::Inode(ino) => {
                    let target = layout.targets.get(&ino).map(|at| self.block(*at));
                    self.uses |= inodes.write(ino, target, self.serial, &mut bytes)?;
                }
                What::Target(ino) => {
                    if let Kind::Symlink(target) = &inodes.tree.inode(ino).kind {
                        self.out.put(target)?;
                    }
                }
                What::SharedXattrs => self.out.put(inodes.xattrs.shared())?,
                What::Packed => self.uses |= inodes.write_packed(self.serial, &mut bytes)?,
            }
            if !bytes.is_empty() {
                self.out.put(&bytes)?;
                self.serial = self.serial.wrapping_add(1);
                Progress::add(&self.out.progress.entries, 1);
                Error::unless_cancelled(self.out.progress)?;
            }
        }
        Ok(())
    }

    fn dir(&self, dir: &Dir, bytes: &mut Vec<u8>) -> Result<()> {
        let mut tail = Vec::new();
        if dir.has_tail {
            let last = self.entries(dir).skip(dir.listing.before_last as usize);
            dir::write(last, self.block_len(), self.resolve(), |block| {
                tail.extend_from_slice(block);
                Ok::<_, Error>(())
            })?;
        }
        let block = dir.blocks.map(|at| self.block(at));
        self.inodes.write_dir((dir.ino, &dir.listing), block, &tail, self.serial, bytes)
    }

    fn dir_blocks(&mut self, dir: &Dir) -> Result<()> {
        let (layout, tree, block) = (self.layout, self.inodes.tree, self.block_len());
        let count = if dir.has_tail { dir.listing.before_last as usize } else { usize::MAX };
        let blocks = dir::entries(tree, dir.ino, dir.parent).take(count);
        // The next item fills the rest of the last block.
        dir::write(blocks, block, resolve(tree, layout), |block| self.out.put(block))
    }

    fn entries(&self, dir: &Dir) -> impl Iterator<Item = dir::Entry<'_>> {
        dir::entries(self.inodes.tree, dir.ino, dir.parent)
    }

    fn resolve(&self) -> impl FnMut(Ino) -> (u64, u8) + '_ {
        resolve(self.inodes.tree, self.layout)
    }

    fn block(&self, at: u64) -> u32 {
        self.zone + blocks(at, self.inodes.options.block_size)
    }

    fn block_len(&self) -> usize {
        self.inodes.options.block_size as usize
    }
}

/// Returns the inode data for directory entries.
fn resolve<'w>(tree: &'w Tree, layout: &'w Layout) -> impl FnMut(Ino) -> (u64, u8) + 'w {
    |ino| (layout.nid(ino), dir::type_of(&tree.inode(ino).kind))
}

/// Collects the zone's bytes into large writes.
struct Stream<'a> {
    output: &'a Output,
    progress: &'a Progress,
    /// Offset of the zone in the output file.
    start: u64,
    /// Number of bytes written.
    written: u64,
    pending: Vec<u8>,
    hasher: blake3::Hasher,
}

impl<'a> Stream<'a> {
    fn new(output: &'a Output, progress: &'a Progress, start: u64) -> Self {
        let hasher = blake3::Hasher::new();
        Stream { output, progress, start, written: 0, pending: Vec::with_capacity(WRITE_LEN), hasher }
    }

    /// Pads with zeros to `at` bytes after the zone's start.
    fn seek(&mut self, at: u64) -> Result<()> {
        let zeros = at - self.written - self.pending.len() as u64;
        self.pending.resize(self.pending.len() + usize::try_from(zeros).expect("gaps are short"), 0);
        self.flush(WRITE_LEN)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.pending.extend_from_slice(bytes);
        self.flush(WRITE_LEN)
    }

    /// Writes the pending bytes if there are at least `least`.
    fn flush(&mut self, least: usize) -> Result<()> {
        if self.pending.len() < least {
            return Ok(());
        }
        let at = self.start + self.written;
        self.output.write_all_at(&self.pending, at).map_err(Error::io("cannot write", self.output.target()))?;
        self.hasher.update(&self.pending);
        self.written += self.pending.len() as u64;
        Progress::add(&self.progress.written, self.pending.len() as u64);
        self.pending.clear();
        Ok(())
    }

    /// Pads to the zone's length and writes everything; returns the zone's hash.
    fn finish(mut self, len: u64) -> Result<blake3::Hash> {
        self.seek(len)?;
        self.flush(0)?;
        Ok(self.hasher.finalize())
    }
}
