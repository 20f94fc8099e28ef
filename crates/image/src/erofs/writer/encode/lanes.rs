//! The ways in which the files of an image are packed: a codec with a cluster size each. The first is that of the image;
//! rules give others to single files.

use packfs_blocks::Buffers;
use packfs_codec::{Choice, Codec};

use crate::build::{BATCH_FILES, BATCH_LEN, ReusableUnits};
use crate::erofs::format::EXTENT_MAX;
use crate::erofs::kernel::Feature;
use crate::erofs::writer::options::{ErofsOptions, Features, longest_cluster};
use crate::tree::{FileRecipe, Tree};
use crate::{Error, Result};

/// Options for packing pieces; shared by all workers.
#[derive(Debug, Clone)]
pub(crate) struct PackingOptions {
    pub(crate) choice: Choice,
    /// Maximum distance in bytes that an encoder may refer back.
    pub(crate) window: u32,
    /// Size of the largest cluster in bytes.
    pub(crate) cluster: usize,
    /// Size of the largest cluster of any file in bytes.
    pub(crate) room: usize,
    pub(crate) block: usize,
    /// Maximum length of a piece in bytes.
    pub(crate) piece: usize,
    /// Maximum number of bytes that a compressed cluster decodes to.
    pub(crate) extent: usize,
    /// Size of the largest uncompressed cluster in bytes.
    pub(crate) raw: usize,
    /// True if clusters end anywhere, not only at the ends of blocks.
    pub(crate) unaligned: bool,
    /// True to find equal clusters by digests.
    pub(crate) share: bool,
    pub(crate) verify: bool,
    /// Buffers for packed pieces.
    pub(crate) buffers: Buffers,
    pub(crate) units: ReusableUnits,
}

impl PackingOptions {
    /// Returns the maximum length of tails that go to the packed inode without a try: they would
    /// hardly fill a cluster.
    pub(crate) fn fragment_max(&self) -> usize {
        self.cluster + self.cluster / 2
    }

    /// Returns the number of bytes that a cluster of `len` bytes takes in the image.
    pub(crate) fn physical(&self, len: usize) -> usize {
        if self.unaligned { len } else { len.next_multiple_of(self.block) }
    }

    /// Returns an upper bound of the packed size of `pieces` pieces with `bytes` bytes together.
    pub(crate) fn bound(&self, bytes: usize, pieces: usize) -> usize {
        bytes + (pieces + 1) * self.block + self.room
    }

    /// Returns the number of the algorithm that clusters are compressed with.
    pub(crate) fn algorithm(&self) -> u8 {
        self.choice.codec().erofs_id().unwrap_or(0)
    }
}

/// All ways of an image.
#[derive(Debug)]
pub(crate) struct LaneTable {
    packings: Vec<PackingOptions>,
    /// Number of the lane by the number of the codec, then of the cluster size.
    table: Vec<Vec<u8>>,
    /// The lane of the packed inode.
    packed: u8,
    /// The lane of the metabox, if there is one.
    metabox: Option<u8>,
}

impl LaneTable {
    /// Makes the lanes of checked options.
    pub(crate) fn new(options: &ErofsOptions) -> Result<LaneTable> {
        let mut packings = Vec::<PackingOptions>::new();
        let mut table = Vec::new();
        let mut lane = |(choice, cluster): (&Choice, u32)| {
            let same = |known: &PackingOptions| (&known.choice, known.cluster) == (choice, cluster as usize);
            let lane = packings.iter().position(same).unwrap_or(packings.len());
            if lane == packings.len() {
                packings.push(packing(options, choice, cluster)?);
            }
            // Files have 16 codecs in 16 sizes at most; the packed inode and the metabox may need more.
            u8::try_from(lane).map_err(|_| Error::TooMany { what: "codecs with a cluster size each", max: 1 << 8 })
        };
        for row in options.ways_of_files().chunks(1 + options.build.recipes.clusters().len()) {
            table.push(row.iter().map(|way| lane(*way)).collect::<Result<_>>()?);
        }
        let packed = lane(options.way_of_packed())?;
        let metabox = options.way_of_metabox().map(lane).transpose()?;
        let largest = |of: fn(&PackingOptions) -> usize| packings.iter().map(of).max().unwrap_or(0);
        let room = largest(|packing| packing.cluster);
        let longest = largest(|packing| packing.piece);
        // All go through the same buffers. The pieces of all files have one length, too.
        let of_files = table
            .iter()
            .flatten()
            .chain([&packed])
            .map(|lane: &u8| packings[usize::from(*lane)].piece)
            .max()
            .unwrap_or(0);
        let buffers =
            Buffers::new(PackingOptions { room, ..packings[0].clone() }.bound(longest.max(BATCH_LEN), BATCH_FILES));
        for packing in &mut packings {
            *packing = PackingOptions { room, buffers: buffers.clone(), ..packing.clone() };
        }
        packings[0].piece = of_files;
        // The streams of the packed inode take their buffers from those of files.
        packings[usize::from(packed)].piece = of_files;
        packings[0].units = units(options, &packings[0])?;
        Ok(LaneTable { packings, table, packed, metabox })
    }

    /// Returns the number of the lane of the packed inode.
    pub(crate) fn packed(&self) -> u8 {
        self.packed
    }

    /// Returns how the packed inode is packed.
    pub(crate) fn of_packed(&self) -> &PackingOptions {
        &self.packings[usize::from(self.packed)]
    }

    /// Returns the number of the lane of the metabox, if there is one.
    pub(crate) fn metabox(&self) -> Option<u8> {
        self.metabox
    }

    /// Returns the length of the pieces of a stream that one lane packs.
    pub(crate) fn piece_len(&self, lane: u8) -> usize {
        self.packings[usize::from(lane)].piece
    }

    /// Returns how files are packed that have no way of their own; its pieces are as long as those of all files.
    pub(crate) fn usual(&self) -> &PackingOptions {
        &self.packings[0]
    }

    pub(crate) fn all(&self) -> &[PackingOptions] {
        &self.packings
    }

    /// Returns the number of the lane for a file.
    pub(crate) fn of(&self, recipe: FileRecipe) -> u8 {
        self.table[usize::from(recipe.codec)][usize::from(recipe.cluster)]
    }

    /// Returns the number of the algorithm that a lane's clusters have.
    pub(crate) fn algorithm(&self, lane: u8) -> u8 {
        self.packings[usize::from(lane)].algorithm()
    }

    /// Returns a way in which clusters of an algorithm are packed.
    pub(crate) fn with_algorithm(&self, algorithm: u8) -> &PackingOptions {
        self.packings.iter().find(|packing| packing.algorithm() == algorithm).unwrap_or_else(|| self.usual())
    }

    /// Refuses trees with recipes that the options do not have.
    pub(crate) fn check(&self, tree: &Tree) -> Result<()> {
        let known = |ino| {
            let FileRecipe { codec, cluster } = tree.inode(ino).recipe;
            self.table.get(usize::from(codec)).is_some_and(|row| usize::from(cluster) < row.len())
        };
        if tree.inos().all(known) {
            return Ok(());
        }
        Err(Error::Misuse("a file has a codec or a cluster size that the options do not list".into()))
    }
}

/// Derives how workers pack files with this codec and largest cluster.
fn packing(options: &ErofsOptions, choice: &Choice, cluster_size: u32) -> Result<PackingOptions> {
    let window = choice.cluster_window(cluster_size);
    let cluster = cluster_size as usize;
    let piece = match choice.codec() {
        Codec::None => options.chunk_size as usize,
        _ => {
            // Fails here, before any work, if the codec is not available.
            choice.cluster_encoder(window)?;
            piece_len(choice, cluster)
        }
    };
    Ok(PackingOptions {
        choice: choice.clone(),
        window,
        cluster,
        room: cluster,
        block: options.block_size as usize,
        piece,
        extent: longest_extent(options),
        raw: (longest_cluster(options, cluster_size) as usize).min(whole_blocks(options)),
        unaligned: options.features.contains(Features::UNALIGNED),
        share: options.build.dedup && options.target_kernel >= Feature::FragmentsOrDedupe.since(),
        verify: options.build.verify,
        // Both are set once all lanes are known.
        buffers: Buffers::new(0),
        units: ReusableUnits::default(),
    })
}

/// Returns the greatest number of bytes that a compressed cluster decodes to.
fn longest_extent(options: &ErofsOptions) -> usize {
    let max = options.extent_max.map_or(EXTENT_MAX, |max| u64::from(max).min(EXTENT_MAX));
    usize::try_from(max).expect("some MiB")
}

/// Returns the number of bytes of the whole blocks in the longest extent.
fn whole_blocks(options: &ErofsOptions) -> usize {
    options.extent_max.map_or(usize::MAX, |max| (max - max % options.block_size) as usize)
}

/// Opens the units of an older image, given all that the clusters of a piece depend on beside the codec.
fn units(options: &ErofsOptions, packing: &PackingOptions) -> Result<ReusableUnits> {
    let PackingOptions { choice, window, cluster, block, raw, unaligned, piece, .. } = packing;
    let extent = options.extent_max.map_or(String::new(), |max| format!(", extents of {max}"));
    let how = format!(
        "clusters of {cluster} in blocks of {block}, raw at most {raw}, window {window}, unaligned {unaligned}{extent}"
    );
    ReusableUnits::open(&options.build, "erofs", &how, *piece, || choice.cluster_encoder(*window))
}

/// Long enough that the loss at the ends of pieces does not matter, short enough for all workers to
/// have one. Fast codecs become limited by memory sooner than others; LZMA loses most where a cluster is cut short,
/// because each has to learn its models again.
pub(crate) fn piece_len(choice: &Choice, cluster: usize) -> usize {
    let least = if choice.gives_up_early() { 1 << 20 } else { 2 << 20 };
    let clusters = if choice.codec() == Codec::Lzma { 16 } else { 8 };
    (cluster * clusters).next_power_of_two().max(least)
}
