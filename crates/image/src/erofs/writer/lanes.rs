//! The ways in which the files of an image are packed: a codec with a cluster size each. The first is that of the image;
//! rules give others to single files.

use packfs_blocks::Buffers;
use packfs_codec::{Choice, Codec};

use super::pack::{self, Packing};
use super::{Features, Options};
use crate::build::{BATCH_FILES, BATCH_LEN, Units};
use crate::erofs::format::EXTENT_MAX;
use crate::erofs::kernel::Feature;
use crate::tree::{Recipe, Tree};
use crate::{Error, Result};

/// All ways of an image.
#[derive(Debug)]
pub(crate) struct Lanes {
    packings: Vec<Packing>,
    /// Number of the lane by the number of the codec, then of the cluster size.
    table: Vec<Vec<u8>>,
    /// The lane of the packed inode.
    packed: u8,
    /// The lane of the metabox, if there is one.
    metabox: Option<u8>,
}

impl Options {
    /// Returns all codecs with their cluster sizes that an image may have, that of most files first.
    pub(crate) fn ways(&self) -> Vec<(&Choice, u32)> {
        let mut ways = self.ways_of_files();
        ways.push(self.way_of_packed());
        ways.extend(self.way_of_metabox());
        ways
    }

    fn way_of_packed(&self) -> (&Choice, u32) {
        (&self.build.codec, self.fragment_cluster.unwrap_or(self.cluster_size))
    }

    fn way_of_metabox(&self) -> Option<(&Choice, u32)> {
        self.features.contains(Features::METABOX).then(|| (self.metabox_codec(), self.metabox.cluster_size))
    }

    pub(super) fn metabox_codec(&self) -> &Choice {
        self.metabox.codec.as_ref().unwrap_or(&self.build.codec)
    }

    /// Returns those of files, in the order of their numbers.
    fn ways_of_files(&self) -> Vec<(&Choice, u32)> {
        let recipes = &self.build.recipes;
        let mut ways = Vec::new();
        for codec in std::iter::once(&self.build.codec).chain(recipes.codecs()) {
            for cluster in std::iter::once(self.cluster_size).chain(recipes.clusters().iter().copied()) {
                ways.push((codec, cluster));
            }
        }
        ways
    }
}

impl Lanes {
    /// Makes the lanes of checked options.
    pub(super) fn new(options: &Options) -> Result<Lanes> {
        let (mut packings, mut table) = (Vec::<Packing>::new(), Vec::new());
        let mut lane = |(choice, cluster): (&Choice, u32)| {
            let same = |known: &Packing| (&known.choice, known.cluster) == (choice, cluster as usize);
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
        let largest = |of: fn(&Packing) -> usize| packings.iter().map(of).max().unwrap_or(0);
        let (room, longest) = (largest(|packing| packing.cluster), largest(|packing| packing.piece));
        // All go through the same buffers. The pieces of all files have one length, too.
        let of_files = table
            .iter()
            .flatten()
            .chain([&packed])
            .map(|lane: &u8| packings[usize::from(*lane)].piece)
            .max()
            .unwrap_or(0);
        let buffers = Buffers::new(Packing { room, ..packings[0].clone() }.bound(longest.max(BATCH_LEN), BATCH_FILES));
        for packing in &mut packings {
            *packing = Packing { room, buffers: buffers.clone(), ..packing.clone() };
        }
        packings[0].piece = of_files;
        // The streams of the packed inode take their buffers from those of files.
        packings[usize::from(packed)].piece = of_files;
        packings[0].units = units(options, &packings[0])?;
        Ok(Lanes { packings, table, packed, metabox })
    }

    /// Returns the number of the lane of the packed inode.
    pub(crate) fn packed(&self) -> u8 {
        self.packed
    }

    /// Returns how the packed inode is packed.
    pub(super) fn of_packed(&self) -> &Packing {
        &self.packings[usize::from(self.packed)]
    }

    /// Returns the number of the lane of the metabox, if there is one.
    pub(super) fn metabox(&self) -> Option<u8> {
        self.metabox
    }

    /// Returns the length of the pieces of a stream that one lane packs.
    pub(crate) fn piece_len(&self, lane: u8) -> usize {
        self.packings[usize::from(lane)].piece
    }

    /// Returns how files are packed that have no way of their own; its pieces are as long as those of all files.
    pub(super) fn usual(&self) -> &Packing {
        &self.packings[0]
    }

    pub(super) fn all(&self) -> &[Packing] {
        &self.packings
    }

    /// Returns the number of the lane for a file.
    pub(crate) fn of(&self, recipe: Recipe) -> u8 {
        self.table[usize::from(recipe.codec)][usize::from(recipe.cluster)]
    }

    /// Returns the number of the algorithm that a lane's clusters have.
    pub(crate) fn algorithm(&self, lane: u8) -> u8 {
        self.packings[usize::from(lane)].algorithm()
    }

    /// Returns a way in which clusters of an algorithm are packed.
    pub(super) fn with_algorithm(&self, algorithm: u8) -> &Packing {
        self.packings.iter().find(|packing| packing.algorithm() == algorithm).unwrap_or_else(|| self.usual())
    }

    /// Refuses trees with recipes that the options do not have.
    pub(super) fn check(&self, tree: &Tree) -> Result<()> {
        let known = |ino| {
            let Recipe { codec, cluster } = tree.inode(ino).recipe;
            self.table.get(usize::from(codec)).is_some_and(|row| usize::from(cluster) < row.len())
        };
        if tree.inos().all(known) {
            return Ok(());
        }
        Err(Error::Misuse("a file has a codec or a cluster size that the options do not list".into()))
    }
}

/// Derives how workers pack files with this codec and largest cluster.
fn packing(options: &Options, choice: &Choice, cluster_size: u32) -> Result<Packing> {
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
    Ok(Packing {
        choice: choice.clone(),
        window,
        cluster,
        room: cluster,
        block: options.block_size as usize,
        piece,
        extent: longest_extent(options),
        raw: (pack::longest_cluster(options, cluster_size) as usize).min(whole_blocks(options)),
        unaligned: options.features.contains(Features::UNALIGNED),
        share: options.build.dedup && options.target_kernel >= Feature::FragmentsOrDedupe.since(),
        verify: options.build.verify,
        buffers: Buffers::new(0),
        units: Units::default(),
    })
}

/// Returns the greatest number of bytes that a compressed cluster decodes to.
fn longest_extent(options: &Options) -> usize {
    let max = options.extent_max.map_or(EXTENT_MAX, |max| u64::from(max).min(EXTENT_MAX));
    usize::try_from(max).expect("some MiB")
}

/// Returns the number of bytes of the whole blocks in the longest extent.
fn whole_blocks(options: &Options) -> usize {
    options.extent_max.map_or(usize::MAX, |max| (max - max % options.block_size) as usize)
}

/// Opens the units of an older image, given all that the clusters of a piece depend on beside the codec.
fn units(options: &Options, packing: &Packing) -> Result<Units> {
    let Packing { choice, window, cluster, block, raw, unaligned, piece, .. } = packing;
    let extent = options.extent_max.map_or(String::new(), |max| format!(", extents of {max}"));
    let how = format!(
        "clusters of {cluster} in blocks of {block}, raw at most {raw}, window {window}, unaligned {unaligned}{extent}"
    );
    Units::open(&options.build, "erofs", &how, *piece, || choice.cluster_encoder(*window))
}

/// Long enough that the loss at the ends of pieces does not matter, short enough for all workers to
/// have one. Fast codecs become limited by memory sooner than others; LZMA loses most where a cluster is cut short,
/// because each has to learn its models again.
pub(crate) fn piece_len(choice: &Choice, cluster: usize) -> usize {
    let least = if choice.gives_up_early() { 1 << 20 } else { 2 << 20 };
    let clusters = if choice.codec() == Codec::Lzma { 16 } else { 8 };
    (cluster * clusters).next_power_of_two().max(least)
}
