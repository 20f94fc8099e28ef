//! SquashFS-specific options of `packfs build`, and how they are resolved.

use clap::Args;
use packfs_codec::Choice;
use packfs_image::squashfs::{self, flags};

use super::{Fragments, Shared};
use crate::args::as_size;
use crate::output::failure::Usage;

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "SquashFS only")]
pub(super) struct SquashfsArgs {
    /// Leave out the table that lets the image be exported over NFS
    #[arg(long)]
    no_export: bool,

    /// Store inodes, directories and tables without compression
    #[arg(long)]
    plain_metadata: bool,

    /// Store the blocks of files without compression
    ///
    /// Small files and tails of files lie in fragment blocks, which are still compressed.
    #[arg(long)]
    plain_data: bool,

    /// Store fragment blocks without compression
    #[arg(long)]
    plain_fragments: bool,

    /// Do not pad the image to a multiple of 4K
    ///
    /// Block devices and some readers need the padding.
    #[arg(long)]
    no_pad: bool,

    /// Write from front to back in one pass, with the superblock last
    ///
    /// With `-o -`, data leaves while it is packed, and nothing is kept on disk. Linux cannot mount such an image until
    /// `packfs check --complete` (or `mksquashfs -fix`) has put its superblock in front; packfs and unsquashfs 4.7.3 read
    /// it. Equal data is stored as often as it occurs.
    #[arg(long, conflicts_with_all = ["offset", "prefix", "index", "reuse"])]
    stream: bool,
}

impl SquashfsArgs {
    /// Returns the name of an option that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let options = [
            (self.no_export, "--no-export"),
            (self.plain_metadata, "--plain-metadata"),
            (self.plain_data, "--plain-data"),
            (self.plain_fragments, "--plain-fragments"),
            (self.no_pad, "--no-pad"),
            (self.stream, "--stream"),
        ];
        options.iter().find(|(given, _)| *given).map(|(_, name)| *name)
    }

    /// Takes what an image is without.
    pub(super) fn be_like(&mut self, superblock: &squashfs::Superblock) {
        self.no_export |= superblock.flags & flags::EXPORTABLE == 0;
        self.plain_metadata |= superblock.flags & flags::RAW_INODES != 0;
        let is = |flag| superblock.flags & flag != 0;
        // An image without any compression has codec `none`, which another codec may replace.
        if !(is(flags::RAW_DATA) && is(flags::RAW_FRAGMENTS) && is(flags::RAW_INODES)) {
            self.plain_data |= is(flags::RAW_DATA);
            self.plain_fragments |= is(flags::RAW_FRAGMENTS);
        }
    }

    /// Resolves the options that are left open.
    pub(super) fn resolve(self, shared: Shared) -> Result<squashfs::Options, Usage> {
        let defaults = squashfs::Options::default();
        let build = shared.build(defaults.build.clone(), codec(&shared, defaults.build.codec.clone())?);
        let block_size = block_size(shared.block_size, defaults.block_size)?;
        Ok(defaults.set(|all| {
            (all.build, all.block_size) = (build, block_size);
            all.fragments = match shared.fragments {
                Some(Fragments::None) => squashfs::Fragments::None,
                Some(Fragments::Small) => squashfs::Fragments::Small,
                Some(Fragments::Tails) => squashfs::Fragments::Tails,
                None => all.fragments,
            };
            (all.export, all.plain_metadata, all.pad) = (!self.no_export, self.plain_metadata, !self.no_pad);
            (all.plain_data, all.plain_fragments) = (self.plain_data, self.plain_fragments);
            all.stream = self.stream;
        }))
    }
}

fn codec(shared: &Shared, default: Choice) -> Result<Choice, Usage> {
    let Some(asked) = shared.codec.clone() else { return Ok(default) };
    asked.checked("SquashFS", |codec| codec.squashfs_id().is_some())
}

fn block_size(asked: Option<u64>, default: u32) -> Result<u32, Usage> {
    let Some(size) = asked else { return Ok(default) };
    match u32::try_from(size) {
        Ok(size) if size.is_power_of_two() && (4 << 10..=1 << 20).contains(&size) => Ok(size),
        _ => Err(Usage(format!("--block-size {}: a SquashFS block is a power of two from 4K to 1M", as_size(size)))),
    }
}
