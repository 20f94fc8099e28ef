//! Options of any format, for programs that let their users choose the format.

use std::path::Path;

use packfs_blocks::{Output, Progress};

use super::option::{self, BuildOption, COMPRESSION_OPTIONS, LAYOUT_OPTIONS, OptionDraft};
use super::{BuildSummary, Plan, SharedOptions};
use crate::source::Store;
use crate::{Result, Tree, erofs, squashfs};

/// Options of a build, with the format.
#[derive(Debug, Clone)]
pub enum AnyOptions {
    /// SquashFS.
    Squashfs(squashfs::SquashfsOptions),
    /// EROFS.
    Erofs(erofs::ErofsOptions),
}

impl AnyOptions {
    /// Builds an image: see [`squashfs::build`] and [`erofs::build`].
    pub fn build(
        &self,
        target: &Path,
        progress: &Progress,
        fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
    ) -> Result<BuildSummary> {
        match self {
            AnyOptions::Squashfs(options) => squashfs::build(target, options, progress, fill),
            AnyOptions::Erofs(options) => erofs::build(target, options, progress, fill),
        }
    }

    /// Checks a scanned tree as a build does before any data is packed: [`Error::Limit`](crate::Error::Limit) names the first
    /// entry that the format cannot hold. What the format leaves out is taken out of the tree, with warnings.
    pub fn check(&self, tree: &mut Tree) -> Result<()> {
        match self {
            AnyOptions::Squashfs(options) => squashfs::check(options, tree),
            AnyOptions::Erofs(options) => erofs::check(options, tree),
        }
    }

    /// Builds an image into `output`: see [`squashfs::build_to`] and [`erofs::build_to`].
    pub fn build_to(
        &self,
        output: Output,
        progress: &Progress,
        fill: impl FnOnce(&mut dyn Store) -> Result<Plan>,
    ) -> Result<BuildSummary> {
        match self {
            AnyOptions::Squashfs(options) => squashfs::build_to(output, options, progress, fill),
            AnyOptions::Erofs(options) => erofs::build_to(output, options, progress, fill),
        }
    }

    /// Name of the format: `squashfs` or `erofs`.
    pub fn format(&self) -> &'static str {
        match self {
            AnyOptions::Squashfs(_) => "squashfs",
            AnyOptions::Erofs(_) => "erofs",
        }
    }

    /// Returns the options that every format has.
    pub fn common(&self) -> &SharedOptions {
        match self {
            AnyOptions::Squashfs(options) => &options.build,
            AnyOptions::Erofs(options) => &options.build,
        }
    }

    /// Returns the options that every format has, for modification.
    pub fn common_mut(&mut self) -> &mut SharedOptions {
        match self {
            AnyOptions::Squashfs(options) => &mut options.build,
            AnyOptions::Erofs(options) => &mut options.build,
        }
    }

    /// Returns about the number of bytes that each worker needs for encoders, decoders and the data that it works on.
    /// Rules that choose other codecs for some files may add to it.
    pub fn worker_memory(&self) -> u64 {
        let choice = &self.common().codec;
        let bytes = match self {
            AnyOptions::Squashfs(options) => {
                let block = options.block_size as usize;
                // The block, its compressed form, its decoded form, and one that waits to be written.
                choice.encoder_memory(block) + 4 * block
            }
            AnyOptions::Erofs(options) => {
                // A piece and the clusters made of it, which are much longer than one cluster.
                choice.cluster_memory(options.cluster_size)
                    + 2 * erofs::piece_len(choice, options.cluster_size as usize)
            }
        };
        bytes as u64
    }

    /// Returns the size in bytes of a SquashFS block, or of the largest physical cluster of EROFS.
    pub fn block_size(&self) -> u32 {
        match self {
            AnyOptions::Squashfs(options) => options.block_size,
            AnyOptions::Erofs(options) => options.cluster_size,
        }
    }

    /// Sets what [`AnyOptions::block_size`] returns.
    pub(super) fn set_block_size(&mut self, bytes: u32) {
        match self {
            AnyOptions::Squashfs(options) => options.block_size = bytes,
            AnyOptions::Erofs(options) => options.cluster_size = bytes,
        }
    }

    /// Returns the word for the files whose tails are packed together, unless features say it.
    pub(super) fn fragments(&self) -> Option<&'static str> {
        match self {
            AnyOptions::Squashfs(options) => Some(options.fragments.word()),
            AnyOptions::Erofs(_) => None,
        }
    }

    /// Sets which tails of files are packed together, by a word. EROFS takes it for its features when all options are
    /// known.
    pub(super) fn set_fragments(&mut self, word: &str) -> std::result::Result<(), String> {
        let known = squashfs::Fragments::from_word(word).ok_or("expected none, small or tails")?;
        match self {
            AnyOptions::Squashfs(options) => options.fragments = known,
            AnyOptions::Erofs(_) if known == squashfs::Fragments::Small => {
                return Err("EROFS packs small files and the ends of larger ones alike; give none or tails".into());
            }
            AnyOptions::Erofs(_) => {}
        }
        Ok(())
    }

    /// Returns the tables of the options that this format has.
    pub fn option_tables(&self) -> [&'static [BuildOption]; 3] {
        let own = match self {
            AnyOptions::Squashfs(_) => squashfs::OPTIONS,
            AnyOptions::Erofs(_) => erofs::OPTIONS,
        };
        [COMPRESSION_OPTIONS, LAYOUT_OPTIONS, own]
    }

    /// Refuses options that a layer of a container image cannot have.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) names the first of them.
    pub fn check_layer(&self) -> Result<()> {
        option::refuse(self, |option| option.no_layers)
    }

    /// Turns off all features, for a list that names all that are on.
    pub(super) fn clear_features(&mut self) {
        if let AnyOptions::Erofs(options) = self {
            options.features = erofs::Features::empty();
        }
    }
}

impl OptionDraft {
    /// Decides the options that were left open: their defaults follow those that were given.
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) if options do not fit each other.
    pub fn resolve(self) -> Result<AnyOptions> {
        let resolved = match &self.target {
            AnyOptions::Squashfs(options) => squashfs::resolve(options.clone(), &self).map(AnyOptions::Squashfs),
            AnyOptions::Erofs(options) => erofs::resolve(options.clone(), &self).map(AnyOptions::Erofs),
        };
        resolved.map_err(|error| self.with_size_as_given(error))
    }
}
