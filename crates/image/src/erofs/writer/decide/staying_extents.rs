//! Compressed files whose clusters stay on an additional device, and the packed inodes of several devices as one.
//!
//! Addresses on a device stay relative to it until the metadata is written: only then the length of the image is known,
//! after which the devices follow in the address space.

use packfs_blocks::{Digest, Progress};

use super::layout::{PendingLocation, RareLocation, StorageLayout};
use super::referred::cut_referred;
use super::rules::FilePolicy;
use super::writer::DataWriter;
use crate::erofs::format::{CLUSTER_MAX, Compat, EXTENT_MAX, Incompat, LZ4_BLOCKS_MAX, algorithm};
use crate::erofs::kernel::{Feature, Kernel};
use crate::erofs::raw_sharing::{PAGE_LEN, page_offset};
use crate::erofs::writer::encode::piece::PackedCluster;
use crate::erofs::writer::place::data_zone::ClustersOfPiece;
use crate::erofs::writer::stored::cluster::{ClusterRange, StoredCluster, StoredLen, cluster_number};
use crate::erofs::writer::stored::data::IndexForm;
use crate::erofs::writer::stored::file::{FileTail, StoredFile};
use crate::erofs::writer::stored::tails::tail_max;
use crate::source::{ClusteredImage, DataRun, ExtentStorage, PackedStream, SourceDevice, StayingData, StoredExtent};
use crate::{Error, Result};

/// Number of algorithms that the entries of one index can tell apart.
const ALGORITHMS_OF_ENTRIES: u32 = 2;

/// Data on additional devices that the files of an image refer to.
#[derive(Debug, Default)]
pub(super) struct ReferredData {
    /// Devices in their order.
    devices: Vec<ReferredDevice>,
    /// Clusters on devices, which follow all others in the list of the image.
    clusters: Vec<StoredCluster>,
    joined: JoinedStream,
    /// Positions of files on devices: other files arrive at any time.
    positions: blake3::Hasher,
    /// Bytes of files that stay on devices.
    pub(super) bytes: u64,
    /// True if files of a device share clusters in part.
    pub(super) shares_clusters: bool,
}

/// A device that files refer to.
#[derive(Debug, Clone, Copy)]
struct ReferredDevice {
    /// True if its clusters are used where they are.
    clusters_stay: bool,
    /// Place of its packed inode in that of the image, if the image uses it.
    packed: Option<PackedPlace>,
}

#[derive(Debug, Clone, Copy)]
struct PackedPlace {
    start: u64,
    len: u64,
}

/// The packed inodes of devices, one after the other.
#[derive(Debug, Default)]
struct JoinedStream {
    len: u64,
    clusters: Vec<StoredCluster>,
    /// A bit for each algorithm.
    algorithms: u32,
    /// The last bytes.
    end: Box<[u8]>,
}

/// Whether an image can have the clusters of another one, by its options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StayingRules {
    pub(crate) target_kernel: Kernel,
    /// True if inodes are compressed before the address of a device is known.
    pub(crate) has_metabox: bool,
}

impl StayingRules {
    /// Returns true if an image with these blocks can use the clusters of a device where they are, and every kernel
    /// that is to read it can, too.
    fn allow(&self, image: &ClusteredImage, block_bits: u8) -> bool {
        let algorithms = image.decoders.iter().fold(0, |bits, decoder| bits | 1 << decoder.algorithm);
        // Inodes of the other image are not used, so it does not matter whether they are compressed.
        let features = Incompat::from_bits_retain(image.features) & !Incompat::METABOX;
        let needed = Kernel::needed(&Feature::used(Compat::empty(), features, algorithms, block_bits));
        let lz4 = image.decoders.iter().find(|decoder| decoder.algorithm == algorithm::LZ4);
        let has_long_lz4 = lz4.is_some_and(|lz4| lz4.cluster_len >> block_bits > LZ4_BLOCKS_MAX);
        let has_same_blocks = image.block_size == 1 << block_bits;
        has_same_blocks && !self.has_metabox && needed <= self.target_kernel && !has_long_lz4
    }
}

/// Clusters of devices for the list of all clusters.
pub(super) struct ReferredClusters {
    /// Number of the first cluster of files.
    pub(super) first: u32,
    /// The joined packed inode.
    pub(super) packed: Option<StoredFile>,
}

impl ReferredData {
    /// Returns the digest of positions, if there are any.
    pub(super) fn positions(&self) -> Option<blake3::Hash> {
        (self.positions.count() > 0).then(|| self.positions.finalize())
    }

    /// Appends all clusters to those of the image.
    pub(super) fn append_clusters(&mut self, clusters: &mut Vec<StoredCluster>) -> Result<ReferredClusters> {
        let first = cluster_number(clusters.len())?;
        clusters.append(&mut self.clusters);
        let first_packed = cluster_number(clusters.len())?;
        clusters.append(&mut self.joined.clusters);
        let count = cluster_number(clusters.len())? - first_packed;
        let range = ClusterRange { first: first_packed, count };
        let packed = (count > 0).then(|| StoredFile::of_clusters(self.joined.len, vec![range]));
        Ok(ReferredClusters { first, packed })
    }
}

impl DataWriter<'_, '_> {
    /// Adds the next additional device.
    pub(super) fn place_device(&mut self, device: &SourceDevice) -> Result<()> {
        let allowed = |image: &&ClusteredImage| self.rules.staying.allow(image, self.rules.form.block_bits);
        let mut placed = ReferredDevice { clusters_stay: false, packed: None };
        if let Some(image) = device.clusters.as_ref().filter(allowed) {
            placed.clusters_stay = true;
            let features = Incompat::from_bits_retain(image.features);
            // One bit stands for both features: if it is set, shared clusters must be expected.
            self.referred.shares_clusters |= features.contains(Incompat::FRAGMENTS_OR_DEDUPE);
            if let Some(stream) = &image.packed {
                placed.packed = self.join_stream(stream)?;
            }
        }
        // Devices are known by their number, so one whose clusters cannot stay is added, too.
        self.referred.devices.push(placed);
        Ok(())
    }

    /// Returns the number of a new file whose data stays on a device; `None` if it has to be copied.
    pub(super) fn refer_to(&mut self, size: u64, device: u16, staying: &StayingData) -> Result<Option<u32>> {
        let location = match staying {
            StayingData::Runs(runs) => self.refer_to_runs(size, device, runs),
            StayingData::Tailed { start, tail } => self.refer_to_row(size, device, *start, tail)?,
            StayingData::Extents(extents) => self.refer_to_extents(size, device, extents)?,
        };
        let Some(location) = location else { return Ok(None) };
        // Nothing of the file is left to read.
        Progress::add(&self.progress.done, size);
        let file = self.files.add(size, StorageLayout::Raw, FilePolicy::default())?;
        self.files.put(file, location);
        Ok(Some(file))
    }

    fn refer_to_runs(&mut self, size: u64, device: u16, runs: &[DataRun]) -> Option<PendingLocation> {
        let chunks = cut_referred(size, runs, self.rules.form.block_bits)?;
        let held: u64 = runs.iter().map(|run| run.len).sum();
        // Data that is not read cannot be hashed. Its positions take its place in the digest of the content.
        self.note_position(runs.iter().flat_map(|run| [run.offset, run.len, run.at]).chain([size, device.into()]));
        self.referred.bytes += held;
        Some(if held > 0 { RareLocation::Elsewhere(device, chunks).into() } else { PendingLocation::Hole })
    }

    fn refer_to_row(
        &mut self,
        size: u64,
        device: u16,
        start: Option<u64>,
        tail: &[u8],
    ) -> Result<Option<PendingLocation>> {
        let block = self.rules.block() as u64;
        let row_len = size - tail.len() as u64;
        let is_aligned = (start.unwrap_or(0) | row_len).is_multiple_of(block);
        let follows = self.rules.inline_tails && tail.len() <= tail_max(self.rules.block());
        if !is_aligned || !follows || self.rules.staying.has_metabox || start.is_none() != (row_len == 0) {
            return Ok(None);
        }
        self.note_position([size, start.unwrap_or(u64::MAX), device.into()]);
        self.referred.positions.update(Digest::of(tail).as_bytes());
        self.referred.bytes += row_len;
        let tail = self.keep.put(tail).map_err(Error::io("cannot write", "a temporary file"))?;
        Ok(Some(match start {
            Some(start) => RareLocation::RowElsewhere { device, start, tail }.into(),
            None => PendingLocation::Tail(tail),
        }))
    }

    fn refer_to_extents(
        &mut self,
        size: u64,
        device: u16,
        extents: &[StoredExtent],
    ) -> Result<Option<PendingLocation>> {
        let ReferredDevice { clusters_stay, packed } = self.device(device);
        if !clusters_stay || !can_describe(self.rules.form, extents, size) {
            return Ok(None);
        }
        // Only the last extent can be something other than a cluster: a part of the packed inode, or bytes
        // after the inode.
        let (own, last) = match extents.split_last() {
            Some((last, before)) if !last.storage.is_cluster() => (before, Some(last)),
            _ => (extents, None),
        };
        let tail = match last.map(|last| (&last.storage, last.len)) {
            Some((ExtentStorage::Packed(at), len)) => {
                // The offset is from an image, which may be damaged.
                let held = packed.filter(|packed| at.checked_add(len).is_some_and(|end| end <= packed.len));
                let Some(packed) = held else { return Ok(None) };
                Some(FileTail::Fragment(packed.start + at))
            }
            Some((ExtentStorage::Inline { bytes, algorithm }, _)) => {
                let kept = self.keep.put(bytes).map_err(Error::io("cannot write", "a temporary file"))?;
                self.referred.positions.update(Digest::of(bytes).as_bytes());
                Some(FileTail::Inline { kept, raw: algorithm.is_none(), algorithm: algorithm.unwrap_or(0) })
            }
            _ => None,
        };
        self.note_position([size, device.into(), extents.len() as u64]);
        for extent in extents {
            if let ExtentStorage::Packed(at) = extent.storage {
                self.note_position([extent.len, at]);
            }
        }
        let is_inline = matches!(tail, Some(FileTail::Inline { .. }));
        // Bytes after the inode are copied, all others stay on the device.
        self.referred.bytes += size - last.filter(|_| is_inline).map_or(0, |last| last.len);
        if let (true, Some(FileTail::Fragment(offset))) = (own.is_empty(), tail) {
            return Ok(Some(PendingLocation::Fragment(offset)));
        }
        let ClusterRange { first, count } = self.refer_to_clusters(device, own)?;
        Ok(Some(RareLocation::Referred { first, count, tail }.into()))
    }

    /// Adds the clusters of extents to those that stay in sources.
    fn refer_to_clusters(&mut self, device: u16, extents: &[StoredExtent]) -> Result<ClusterRange> {
        let first = cluster_number(self.referred.clusters.len())?;
        let count = cluster_number(extents.len())?;
        let mut at = 0;
        for extent in extents {
            let cluster = referred_cluster(device, extent, at);
            at += extent.len;
            let StoredCluster { start, physical, logical, raw, algorithm, partial, .. } = cluster;
            let coding = u64::from(raw) | u64::from(partial) << 1 | u64::from(algorithm) << 2;
            self.note_position([start, physical.into(), logical.into(), coding]);
            self.referred.clusters.push(cluster);
        }
        Ok(ClusterRange { first, count })
    }

    fn device(&self, number: u16) -> ReferredDevice {
        let none = ReferredDevice { clusters_stay: false, packed: None };
        // Number 0 is the image itself.
        usize::from(number).checked_sub(1).and_then(|n| self.referred.devices.get(n)).copied().unwrap_or(none)
    }

    /// Adds numbers that say where a file lies to the digest of positions.
    fn note_position(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.referred.positions.update(&number.to_le_bytes());
        }
    }

    /// Appends the packed inode of the next device; `None` if the index of the joined one could not describe it.
    fn join_stream(&mut self, stream: &PackedStream) -> Result<Option<PackedPlace>> {
        let form = self.rules.form;
        let algorithms = stream.extents.iter().fold(self.referred.joined.algorithms, |bits, extent| {
            extent.storage.algorithm().map_or(bits, |algorithm| bits | 1 << algorithm)
        });
        let has_few_algorithms = form.encoded || algorithms.count_ones() <= ALGORITHMS_OF_ENTRIES;
        let is_of_clusters = stream.extents.iter().all(|extent| extent.storage.is_cluster());
        if !has_few_algorithms || !is_of_clusters || !can_describe(form, &stream.extents, stream.len) {
            return Ok(None);
        }
        self.end_stream_with_page()?;
        // The caller adds this device to the list afterwards.
        let device = u16::try_from(self.referred.devices.len() + 1).expect("fewer devices than numbers");
        let start = self.referred.joined.len;
        let mut at = start;
        for extent in &stream.extents {
            self.referred.joined.clusters.push(referred_cluster(device, extent, at));
            at += extent.len;
        }
        let joined = &mut self.referred.joined;
        joined.len = at;
        joined.algorithms = algorithms;
        joined.end = stream.end.clone();
        Ok(Some(PackedPlace { start, len: stream.len }))
    }

    /// Extends the joined packed inode to the end of a page, with which the next part begins: an uncompressed cluster has
    /// to keep its offset in a page. What is added lies in the image. An index has one entry for a block, so a cluster
    /// that begins in the last block is copied with it.
    fn end_stream_with_page(&mut self) -> Result<()> {
        let block = self.rules.block() as u64;
        let joined = &mut self.referred.joined;
        let end = joined.len.next_multiple_of(PAGE_LEN);
        if end == joined.len {
            return Ok(());
        }
        let last_block = joined.len - joined.len % block;
        let last_len = joined.clusters.last().map_or(0, |last| u64::from(last.logical));
        let start = if joined.len - last_len >= last_block && !joined.len.is_multiple_of(block) {
            joined.clusters.pop();
            joined.len - last_len
        } else {
            joined.len
        };
        let small = |n: u64| usize::try_from(n).expect("less than two pages");
        let kept = small(joined.len - start);
        let bytes = &joined.end[joined.end.len() - kept..];
        let len = small(end - start);
        let mut buffer = self.buffers.take(len.next_multiple_of(small(block)));
        buffer.fill(0);
        buffer[..kept].copy_from_slice(bytes);
        let cluster = PackedCluster {
            physical: StoredLen::of_cut(buffer.len()),
            logical: u32::try_from(len).expect("less than two pages"),
            raw: true,
            digest: None,
            reused: None,
            older: None,
        };
        let piece = ClustersOfPiece { count: 1, algorithm: 0 };
        let parts = self.zone.write_pieces(buffer, &[cluster], std::iter::once(piece))?;
        let added = self.zone.clusters(parts[0])[0];
        let joined = &mut self.referred.joined;
        // As a piece of its own, the cluster seemed to begin with a page. In the joined stream it begins at
        // `start`.
        joined.clusters.push(StoredCluster { page_offset: page_offset(start), ..added });
        joined.len = end;
        Ok(())
    }
}

/// Returns an extent of a device as a cluster that is used from byte `at` of a file on.
fn referred_cluster(device: u16, extent: &StoredExtent, at: u64) -> StoredCluster {
    let logical = u32::try_from(extent.len).expect("checked before");
    match extent.storage {
        ExtentStorage::Cluster { start, len, algorithm, is_partial } => StoredCluster {
            device,
            start,
            physical: StoredLen::new(len.into()).expect("checked before"),
            logical,
            raw: algorithm.is_none(),
            algorithm: algorithm.unwrap_or(0),
            partial: is_partial,
            page_offset: page_offset(at),
        },
        _ => StoredCluster::hole(logical),
    }
}

/// Returns true if an index can describe the extents of a file of `size` bytes.
fn can_describe(form: IndexForm, extents: &[StoredExtent], size: u64) -> bool {
    let len: u64 = extents.iter().map(|extent| extent.len).sum();
    len == size && if form.encoded { encodes(extents) } else { has_entries(form.block_bits, extents) }
}

/// Returns true if there is an encoded form of each extent.
fn encodes(extents: &[StoredExtent]) -> bool {
    extents.iter().enumerate().all(|(n, extent)| match extent.storage {
        ExtentStorage::Hole => u32::try_from(extent.len).is_ok(),
        ExtentStorage::Cluster { .. } => fits_cluster(extent),
        ExtentStorage::Packed(_) => n + 1 == extents.len(),
        ExtentStorage::Inline { .. } => false,
    })
}

/// Returns true if an index with an entry for each block has room for all extents: one may begin in a block, and a
/// compressed cluster of several blocks takes two entries.
fn has_entries(block_bits: u8, extents: &[StoredExtent]) -> bool {
    let block = 1u64 << block_bits;
    let algorithms = extents.iter().filter_map(|extent| extent.storage.algorithm());
    let size: u64 = extents.iter().map(|extent| extent.len).sum();
    if algorithms.fold(0u32, |bits, algorithm| bits | 1 << algorithm).count_ones() > ALGORITHMS_OF_ENTRIES {
        return false;
    }
    let mut at = 0;
    // Number of the first block that no extent has an entry in.
    let mut free = 0;
    for (n, extent) in extents.iter().enumerate() {
        let is_last = n + 1 == extents.len();
        let head = at >> block_bits;
        let fits = match &extent.storage {
            ExtentStorage::Hole => false,
            ExtentStorage::Packed(_) => is_last,
            ExtentStorage::Inline { bytes, .. } => is_last && bytes.len() <= tail_max(1 << block_bits),
            ExtentStorage::Cluster { start, len, .. } => {
                (start | u64::from(*len)).is_multiple_of(block) && fits_cluster(extent)
            }
        };
        if !fits || head < free {
            return false;
        }
        let is_raw = extent.storage.is_cluster() && extent.storage.algorithm().is_none();
        let heads = if is_raw { extent.len.div_ceil(block) } else { 1 };
        at += extent.len;
        free = head + heads;
        if let ExtentStorage::Cluster { len, algorithm: Some(_), .. } = extent.storage
            && u64::from(len) > block
        {
            // The entry after its head has the number of its blocks (`Z_EROFS_LI_D0_CBLKCNT` in Linux).
            free += 1;
            // A partial block at the end has an entry of its own.
            let entries = if is_last { size >> block_bits } else { at >> block_bits };
            if free > entries {
                return false;
            }
        }
    }
    true
}

/// Returns true if the cluster of an extent keeps the limits of the format.
fn fits_cluster(extent: &StoredExtent) -> bool {
    let ExtentStorage::Cluster { len, algorithm, .. } = extent.storage else { return false };
    let has_data = len > 0 && extent.len > 0;
    let is_long_enough = algorithm.is_some() || extent.len <= len.into();
    has_data && is_long_enough && u64::from(len) <= CLUSTER_MAX && extent.len <= EXTENT_MAX
}
