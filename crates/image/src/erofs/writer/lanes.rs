//! The ways in which the files of an image are packed: a codec with a cluster size each. The first is that of the image;
//! rules give others to single files.

use packfs_blocks::Buffers;
use packfs_codec::{Choice, Codec};

use super::pack::{self, Packing};
use super::{Features, Options, RAW_PIECE};
use crate::build::{BATCH_FILES, BATCH_LEN, Units};
use crate::erofs::kernel::Feature;
use crate::tree::{Recipe, Tree};
use crate::{Error, Result};

/// All ways of an image.
#[derive(Debug)]
pub(crate) struct Lanes {
    packings: Vec<Packing>,
    /// Number of the lane by the number of the codec, then of the cluster size.
    table: Vec<Vec<u8>>,
}

impl Options {
    /// Returns the codecs with their cluster sizes that files may have, that of the image first.
    pub(crate) fn ways(&self) -> Vec<(&Choice, u32)> {
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
        for row in options.ways().chunks(1 + options.build.recipes.clusters().len()) {
            let lane = |(choice, cluster): &(&Choice, u32)| {
                let same = |known: &Packing| (&known.choice, known.cluster) == (*choice, *cluster as usize);
                let lane = packings.iter().position(same).unwrap_or(packings.len());
                if lane == packings.len() {
                    packings.push(packing(options, choice, *cluster)?);
                }
                Ok(u8::try_from(lane).expect("at most 16 codecs with 16 sizes"))
            };
            table.push(row.iter().map(lane).collect::<Result<_>>()?);
        }
        let largest = |of: fn(&Packing) -> usize| packings.iter().map(of).max().unwrap_or(0);
        let (room, piece) = (largest(|packing| packing.cluster), largest(|packing| packing.piece));
        // Pieces of all files have one length, and go through the same buffers.
        let bound = packings[0].with(room, piece).bound(piece.max(BATCH_LEN), BATCH_FILES);
        let buffers = Buffers::new(bound);
        for packing in &mut packings {
            *packing = Packing { buffers: buffers.clone(), ..packing.with(room, piece) };
        }
        packings[0].units = units(options, &packings[0])?;
        Ok(Lanes { packings, table })
    }

    /// Returns how files are packed that have no way of their own.
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
        Codec::None => RAW_PIECE,
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
        raw: pack::longest_cluster(options, cluster_size) as usize,
        unaligned: options.features.contains(Features::UNALIGNED),
        share: options.build.dedup && options.target_kernel >= Feature::FragmentsOrDedupe.since(),
        verify: options.build.verify,
        buffers: Buffers::new(0),
        units: Units::default(),
    })
}

/// Opens the units of an older image, given all that the clusters of a piece depend on beside the codec.
fn units(options: &Options, packing: &Packing) -> Result<Units> {
    let Packing { choice, window, cluster, block, raw, unaligned, piece, .. } = packing;
    let how = format!("clusters of {cluster} in blocks of {block}, raw {raw}, window {window}, unaligned {unaligned}");
    Units::open(&options.build, "erofs", &how, *piece, || choice.cluster_encoder(*window))
}

/// Long enough that the loss at the ends of pieces does not matter, short enough for all workers to
/// have one. Fast codecs become limited by memory sooner than others.
fn piece_len(choice: &Choice, cluster: usize) -> usize {
    let least = if choice.gives_up_early() { 1 << 20 } else { 2 << 20 };
    (cluster * 8).next_power_of_two().max(least)
}
