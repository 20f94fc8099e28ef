//! Writes the metadata zone after the data: inodes, directories and shared xattrs. Everything gets
//! its position first, as directories need the nids of inodes; then the zone is written from front
//! to back.
//!
//! With a metabox, inodes, what follows them and shared xattrs are its data. Inodes refer to blocks of directories and
//! of long symlinks, so these lie before it, and its own inode after it: data, blocks, metabox, inodes of the metabox
//! and of the packed inode.

use packfs_blocks::Progress;

use super::dir::ListedDir;
use super::epoch::ImageEpoch;
use super::inode::{DirEntries, InodeRoom, InodeWriter};
use super::late_stream::LateStream;
use super::metadata_stream::MetadataStream;
use super::payload::UsedFeatures;
use super::prove::NamelessInodes;
use super::superblock::{ImageFacts, ImageHead};
use super::xattr::EncodedXattrs;
use super::{devices, dir, prove};
use crate::build::{BuildTools, TreeCensus};
use crate::erofs::format::{INODE_SLOT, Incompat};
use crate::erofs::kernel::Kernel;
use crate::erofs::writer::encode::lanes::LaneTable;
use crate::erofs::writer::encode::worker::PackWorker;
use crate::erofs::writer::options::{ErofsOptions, Features};
use crate::erofs::writer::place::metadata_zone::{MetadataLayout, PlacedDir, ZoneItem, nid};
use crate::erofs::writer::place::reach;
use crate::erofs::writer::place::space::MetadataSpace;
use crate::erofs::writer::stored::data::StoredData;
use crate::erofs::writer::stored::file::StoredFile;
use crate::tree::{Ino, Kind, ROOT, Time, Tree};
use crate::{Error, Result};

/// Result of writing the metadata.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetadataSummary {
    /// Length of the image in blocks.
    pub(crate) blocks: u64,
    /// Number of bytes of everything except file data: the first blocks and the zone.
    pub(crate) metadata_bytes: u64,
    pub(crate) uuid: [u8; 16],
    /// The oldest Linux that reads the image.
    pub(crate) kernel: Kernel,
}

/// Writes the metadata after the data, then the superblock.
pub(crate) fn write(
    tools: BuildTools<'_, '_, PackWorker>,
    lanes: &LaneTable,
    options: &ErofsOptions,
    tree: &Tree,
    census: &TreeCensus,
    data: &mut StoredData,
) -> Result<MetadataSummary> {
    let mut head = ImageHead::new(options)?;
    head.add_decoders(tree.devices.iter().flat_map(|device| &device.clusters))?;
    let devices = devices::devices(options, tree, data);
    let data_end = data.end;
    reach::check(options, data_end.saturating_mul(options.block_size.into()))?;
    let has_metabox = lanes.metabox().is_some();
    let far = reach::is_far(options, data_end + devices::blocks(options, &devices));
    // Shared attributes have to lie within the first 2^32 blocks.
    let share_above = if far && !has_metabox { Some(u32::MAX) } else { options.xattr_share };
    let xattrs = EncodedXattrs::encode(options, tree, share_above)?;
    // Directories come to the packed inode only below.
    let has_packed = data.packed.is_some() || options.features.contains(Features::COMPRESSED_DIRS);
    head.check(xattrs.uses_prefixes(), has_packed && !has_metabox)?;
    let epoch = epoch(options, tree, census);
    let uses = UsedFeatures::default();
    let mut parts = MetadataBuilder { tools, lanes, options, tree, xattrs: &xattrs, epoch, far, uses, serial: 0 };
    let mut placing = MetadataLayout::of(&parts.inodes(data), parts.first_nid(data_end))?;
    // After the places, because entries contain nids, and before the zone, because that follows everything
    // packed.
    parts.pack_dirs(&placing, data)?;
    let placed = match lanes.metabox() {
        None => parts.write_zone(&mut placing, &devices, data)?,
        Some(lane) => parts.write_metabox(lane, &placing, data)?,
    };
    let UsedFeatures { mut features, algorithms } = parts.uses;
    features
        .set(Incompat::FRAGMENTS_OR_DEDUPE, features.contains(Incompat::FRAGMENTS_OR_DEDUPE) || data.shares_clusters);
    let PlacedMetadata { zone, blocks, packed_nid, metabox_nid, digest } = placed;
    // Nids of such an image count from block 0, as the field for the zone has only 32 bits.
    let address = |block: u64| if far { Ok(0) } else { narrow(block) };
    // Positions in a metabox count from its own start.
    let block = |at: u64| narrow(if has_metabox { 0 } else { zone } + number(at, options.block_size));
    let facts = ImageFacts {
        inodes: census.inodes.into(),
        epoch,
        time: options.build.time.unwrap_or(census.newest),
        blocks,
        zone: address(zone)?,
        root_nid: placing.nid(ROOT),
        packed_nid,
        metabox_nid,
        shared_xattrs: placing.shared_xattrs.map(block).transpose()?,
        has_xattrs: xattrs.any(),
        uses_prefixes: xattrs.uses_prefixes(),
        uses: features,
        algorithms,
        devices: devices::slots(options, &devices, blocks)?,
    };
    let output = tools.output;
    // The UUID follows from all contents, so images have the same one only if they are equal.
    let (first, uuid) = head.encode(&facts, |first| uuid(&[first, digest.as_bytes(), data.content.as_bytes()]));
    output.write_all_at(&first, options.build.offset).map_err(Error::io("cannot write", output.target()))?;
    if options.build.verify {
        let special = NamelessInodes { packed: packed_nid, metabox: metabox_nid };
        prove::maps(tools, options, tree, &placing, special)?;
    }
    let after_data = (blocks - data_end) * u64::from(options.block_size);
    Ok(MetadataSummary { blocks, metadata_bytes: first.len() as u64 + after_data, uuid, kernel: head.kernel(&facts) })
}

/// Positions of what the superblock refers to.
struct PlacedMetadata {
    /// First block of the zone.
    zone: u64,
    /// Total number of blocks.
    blocks: u64,
    packed_nid: Option<u64>,
    metabox_nid: Option<u64>,
    /// Digest of the metadata.
    digest: blake3::Hash,
}

/// Parts of the metadata, written one after the other.
struct MetadataBuilder<'a, 'p, 'env> {
    tools: BuildTools<'p, 'env, PackWorker>,
    lanes: &'a LaneTable,
    options: &'a ErofsOptions,
    tree: &'a Tree,
    xattrs: &'a EncodedXattrs,
    epoch: ImageEpoch,
    /// True if addresses of blocks may need more than 32 bits.
    far: bool,
    /// Features that inodes use.
    uses: UsedFeatures,
    /// Number of inodes written.
    serial: u32,
}

impl<'a, 'p, 'env> MetadataBuilder<'a, 'p, 'env> {
    fn inodes<'d>(&'d self, data: &'d StoredData) -> InodeWriter<'d> {
        let MetadataBuilder { options, tree, xattrs, epoch, far, .. } = *self;
        InodeWriter { options, tree, data, xattrs, epoch, far }
    }

    /// Returns the nid of the start of `block`, if nids count from the start of the image.
    fn first_nid(&self, block: u64) -> u64 {
        if self.far { block * (u64::from(self.options.block_size) / INODE_SLOT) } else { 0 }
    }

    fn late(&self, data: &StoredData, lane: u8) -> LateStream<'p, 'env> {
        LateStream::new(self.tools, self.options.build.offset, data, self.lanes, lane)
    }

    /// Appends the entries of directories to the packed inode, if they belong there.
    fn pack_dirs(&self, placing: &MetadataLayout, data: &mut StoredData) -> Result<()> {
        if !self.options.features.contains(Features::COMPRESSED_DIRS) {
            return Ok(());
        }
        let mut late = self.late(data, self.lanes.packed());
        let dot = self.inodes(data).has_dot();
        for PlacedDir { ino, parent, .. } in placing.dirs.iter().copied() {
            let entries = dir::entries(self.tree, ListedDir { dir: ino, parent, dot });
            let block = self.options.block_size as usize;
            dir::write(entries, block, resolve(self.tree, placing), |block| late.put(block))?;
        }
        let dirs = late.finish(data)?;
        let packed = data.packed.get_or_insert_with(|| StoredFile::of_clusters(0, Vec::new()));
        packed.append(dirs)
    }

    /// Writes all inodes after the data. The devices follow the zone in the address space, so they, and clusters on
    /// them, get their addresses once the length of the zone is known.
    fn write_zone(
        &mut self,
        placing: &mut MetadataLayout,
        devices: &[(String, u64)],
        data: &mut StoredData,
    ) -> Result<PlacedMetadata> {
        // Its index is complete only now that the directories are in it.
        placing.place_packed_last(&self.inodes(data))?;
        let zone = data.end;
        let blocks = zone + number(placing.len(), self.options.block_size);
        self.check_end(blocks)?;
        let slots = devices::slots(self.options, devices, blocks)?;
        data.device_starts = slots.iter().map(|slot| slot.start).collect();
        let data = &*data;
        let mut out = self.image_stream(data);
        let tree = self.tree;
        self.write_items(placing.items(|ahead| data.touch(tree, ahead)), placing, zone, data, &mut out)?;
        let digest = out.finish(placing.len())?;
        Ok(PlacedMetadata { zone, blocks, packed_nid: placing.packed, metabox_nid: None, digest })
    }

    /// Writes the blocks that inodes refer to, the metabox with all inodes, then the inodes of the metabox and of the
    /// packed inode.
    fn write_metabox(&mut self, lane: u8, placing: &MetadataLayout, data: &mut StoredData) -> Result<PlacedMetadata> {
        let apart = placing.apart.as_ref().expect("made for a metabox");
        let zone = data.end;
        self.check_end(zone + number(apart.len(), self.options.block_size))?;
        let mut out = self.image_stream(data);
        self.write_items(apart.items.iter().copied(), placing, zone, data, &mut out)?;
        // The metabox follows these blocks.
        let blocks = out.finish(apart.len())?;
        data.end += apart.len() / u64::from(self.options.block_size);

        let mut late = self.late(data, lane);
        let mut out = MetadataStream::new(|bytes, _| late.put(bytes));
        let tree = self.tree;
        self.write_items(placing.items(|ahead| data.touch(tree, ahead)), placing, zone, data, &mut out)?;
        let inodes = out.finish(placing.len())?;
        let metabox = late.finish(data)?;

        let data = &*data;
        // From here on, `zone` is the room for both inodes that cannot be in the metabox.
        let zone = data.end;
        let first_nid = self.first_nid(data.end);
        let mut space = MetadataSpace::new(self.options.block_size.into());
        let mut place = |size: InodeRoom| space.place(size.len, size.together);
        let metabox_at = place(self.inodes(data).measure_special(&metabox));
        let packed_at = self.inodes(data).measure_packed().map(place);
        let mut out = self.image_stream(data);
        out.seek(metabox_at)?;
        let mut bytes = Vec::new();
        let of_metabox = self.inodes(data).write_special(&metabox, self.serial, &mut bytes)?;
        self.uses |= of_metabox;
        out.put(&bytes)?;
        if let Some(at) = packed_at {
            bytes.clear();
            out.seek(at)?;
            let of_packed = self.inodes(data).write_packed(self.serial + 1, &mut bytes)?;
            self.uses |= of_packed;
            out.put(&bytes)?;
        }
        let special = out.finish(space.len())?;
        Ok(PlacedMetadata {
            zone,
            blocks: data.end + space.len() / u64::from(self.options.block_size),
            packed_nid: packed_at.map(nid).transpose()?.map(|nid| first_nid + u64::from(nid)),
            metabox_nid: Some(first_nid + u64::from(nid(metabox_at)?)),
            digest: blake3::hash(&[blocks, inodes, special].map(|digest| *digest.as_bytes()).concat()),
        })
    }

    /// Fails if blocks before `end` have no address.
    fn check_end(&self, end: u64) -> Result<()> {
        if self.far { Ok(()) } else { narrow(end).map(drop) }
    }

    /// Makes a stream to the image, after the data.
    fn image_stream(&self, data: &StoredData) -> MetadataStream<impl FnMut(&[u8], u64) -> Result<()> + use<'env>> {
        let BuildTools { output, progress, .. } = self.tools;
        let start = self.options.build.offset + data.end * u64::from(self.options.block_size);
        MetadataStream::new(move |bytes: &[u8], at| {
            output.write_all_at(bytes, start + at).map_err(Error::io("cannot write", output.target()))?;
            Progress::add(&progress.written, bytes.len() as u64);
            Ok(())
        })
    }

    /// Writes items at their positions. Addresses of blocks count from the block `zone` on.
    fn write_items(
        &mut self,
        items: impl Iterator<Item = (u64, ZoneItem)>,
        placing: &MetadataLayout,
        zone: u64,
        data: &StoredData,
        out: &mut MetadataStream<impl FnMut(&[u8], u64) -> Result<()>>,
    ) -> Result<()> {
        let progress = self.tools.progress;
        let serial = self.serial;
        let inodes = &self.inodes(data);
        let mut writer = ZoneWriter { inodes, placing, zone, progress, out, serial, uses: self.uses };
        writer.items(items)?;
        let ZoneWriter { serial, uses, .. } = writer;
        self.serial = serial;
        self.uses = uses;
        Ok(())
    }
}

/// Returns the time of compact inodes.
fn epoch(options: &ErofsOptions, tree: &Tree, census: &TreeCensus) -> ImageEpoch {
    let otherwise = Time { secs: census.newest, nanos: 0 };
    ImageEpoch::choose(tree.times().collect(), options.features.contains(Features::BITS_48), otherwise)
}

/// Returns the number of the block at a position, or of the blocks before it.
fn number(len: u64, block: u32) -> u64 {
    len / u64::from(block)
}

/// Returns the address of a block in 32 bits.
fn narrow(block: u64) -> Result<u32> {
    // The address with all bits set means no block.
    let address = u32::try_from(block).ok().filter(|block| *block < u32::MAX);
    address.ok_or(Error::TooMany { what: "blocks; larger blocks hold more", max: u32::MAX.into() })
}

/// Makes a UUID of version 8 (custom) from all contents of the image.
fn uuid(parts: &[&[u8]]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let mut uuid = [0; 16];
    hasher.finalize_xof().fill(&mut uuid);
    // Version and variant are where RFC 9562 has them.
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// Writes the items of a zone.
struct ZoneWriter<'w, 'a, F> {
    inodes: &'w InodeWriter<'a>,
    placing: &'w MetadataLayout,
    /// Block from which the blocks of directories and symlinks count.
    zone: u64,
    progress: &'w Progress,
    out: &'w mut MetadataStream<F>,
    /// Number of inodes written.
    serial: u32,
    /// Format features that they use.
    uses: UsedFeatures,
}

impl<F: FnMut(&[u8], u64) -> Result<()>> ZoneWriter<'_, '_, F> {
    fn items(&mut self, items: impl Iterator<Item = (u64, ZoneItem)>) -> Result<()> {
        let inodes = self.inodes;
        let placing = self.placing;
        let mut bytes = Vec::new();
        for (at, item) in items {
            self.out.seek(at)?;
            bytes.clear();
            match item {
                ZoneItem::Dir(number) => {
                    let uses = self.dir(&placing.dirs[number as usize], &mut bytes)?;
                    self.uses |= uses;
                }
                ZoneItem::DirBlocks(number) => self.dir_blocks(&placing.dirs[number as usize])?,
                ZoneItem::Inode(ino) => {
                    let target = placing.targets.get(&ino).map(|at| self.block(*at));
                    self.uses |= inodes.write(ino, target, self.serial, &mut bytes)?;
                }
                ZoneItem::Target(ino) => {
                    if let Kind::Symlink(target) = &inodes.tree.inode(ino).kind {
                        self.out.put(target)?;
                    }
                }
                ZoneItem::SharedXattrs => self.out.put(inodes.xattrs.shared())?,
                ZoneItem::Packed => self.uses |= inodes.write_packed(self.serial, &mut bytes)?,
            }
            if !bytes.is_empty() {
                self.out.put(&bytes)?;
                // Linux numbers inodes by nid and ignores the serial, so it may repeat.
                self.serial = self.serial.wrapping_add(1);
                Progress::add(&self.progress.entries, 1);
                Error::unless_cancelled(self.progress)?;
            }
        }
        Ok(())
    }

    fn dir(&self, dir: &PlacedDir, bytes: &mut Vec<u8>) -> Result<UsedFeatures> {
        let mut tail = Vec::new();
        if dir.has_tail {
            // Entries of the last block only: they are encoded as those of a block, wherever the block lies.
            let last = self.entries(dir).skip(dir.listing.before_last as usize);
            dir::write(last, self.block_len(), self.resolve(), |block| {
                tail.extend_from_slice(block);
                Ok::<_, Error>(())
            })?;
        }
        let entries = match dir.fragment {
            Some(offset) => DirEntries::Fragment(offset),
            None => DirEntries::Blocks { block: dir.blocks.map(|at| self.block(at)), tail: &tail },
        };
        self.inodes.write_dir(dir.ino, &dir.listing, entries, self.serial, bytes)
    }

    fn dir_blocks(&mut self, dir: &PlacedDir) -> Result<()> {
        let placing = self.placing;
        let tree = self.inodes.tree;
        let block = self.block_len();
        let count = if dir.has_tail { dir.listing.before_last as usize } else { usize::MAX };
        let listed = self.listed(dir);
        let blocks = dir::entries(tree, listed).take(count);
        // The next item fills the rest of the last block.
        dir::write(blocks, block, resolve(tree, placing), |block| self.out.put(block))
    }

    fn entries(&self, dir: &PlacedDir) -> impl Iterator<Item = dir::NamedInode<'_>> {
        dir::entries(self.inodes.tree, self.listed(dir))
    }

    fn listed(&self, dir: &PlacedDir) -> ListedDir {
        ListedDir { dir: dir.ino, parent: dir.parent, dot: self.inodes.has_dot() }
    }

    fn resolve(&self) -> impl FnMut(Ino) -> (u64, u8) + '_ {
        resolve(self.inodes.tree, self.placing)
    }

    fn block(&self, at: u64) -> u64 {
        self.zone + number(at, self.inodes.options.block_size)
    }

    fn block_len(&self) -> usize {
        self.inodes.options.block_size as usize
    }
}

/// Returns the inode data for directory entries.
fn resolve<'w>(tree: &'w Tree, placing: &'w MetadataLayout) -> impl FnMut(Ino) -> (u64, u8) + 'w {
    |ino| (placing.nid(ino), dir::type_of(&tree.inode(ino).kind))
}
