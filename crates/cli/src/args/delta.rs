//! Options of the commands about updates: `delta`, `apply` and `update`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{EffortArgs, RemoteArgs, TalkArgs};

/// Make a small patch from one image to the next.
///
/// `packfs apply` makes NEW from OLD and the patch, bit for bit. Blocks that changed are in the patch as plain bytes, and
/// `apply` compresses them again, so it is smaller than a patch between the compressed bytes. That needs a packfs that
/// compresses them as this one does. Blocks that no known settings give, as in images of other programs, are in the
/// patch as they are.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs delta root-1.erofs root-2.erofs -o 1-to-2.patch
  packfs delta root-1.sqfs root-2.sqfs -o 1-to-2.patch --json")]
pub(crate) struct DeltaArgs {
    /// Image that the device has
    #[arg(value_name = "OLD", value_hint = ValueHint::FilePath)]
    pub(crate) old: PathBuf,

    /// Image that the device shall have
    #[arg(value_name = "NEW", value_hint = ValueHint::FilePath)]
    pub(crate) new: PathBuf,

    /// Patch to write
    #[arg(short, long, value_name = "PATCH", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Leave out applying the patch to see that it gives NEW
    #[arg(long)]
    pub(crate) no_verify: bool,

    /// Replace PATCH if it exists
    #[arg(short, long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) effort: EffortArgs,

    /// Print figures as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

/// Make the next image from the old one and a patch.
///
/// OLD must be the very image that the patch was made from; it may be mounted, and a device may go on after it. NEW appears
/// once it is complete, and its digest is the right one. A patch needs up to 128 MiB of memory, and a few MiB for each
/// worker.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs apply root-1.erofs 1-to-2.patch -o root-2.erofs
  packfs apply /dev/mmcblk0p2 1-to-2.patch -o /dev/mmcblk0p3 --force")]
pub(crate) struct ApplyArgs {
    /// Image that the patch was made from: a file or a block device
    #[arg(value_name = "OLD", value_hint = ValueHint::FilePath)]
    pub(crate) old: PathBuf,

    /// Patch that `packfs delta` made
    #[arg(value_name = "PATCH", value_hint = ValueHint::FilePath)]
    pub(crate) patch: PathBuf,

    /// Image to write: a file or a block device
    #[arg(short, long, value_name = "NEW", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Replace NEW if it exists
    #[arg(short, long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) effort: EffortArgs,

    /// Print figures as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

/// Make the next image from an old one, and fetch only what that lacks.
///
/// INDEX lists sums of the blocks of the new image: `packfs build --delta-index` and zsyncmake write one. Blocks that OLD
/// has at any offset are copied, the others are fetched by ranges. OLD is any image, best the one before; it may be mounted.
/// NEW appears once it has the digest that INDEX says. Until then it is NEW.part, with which the same command goes on after
/// a failure.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs update https://example.com/root.erofs.zsync --from root-1.erofs -o root-2.erofs
  packfs update https://example.com/root.erofs.zsync --from /dev/mmcblk0p2 -o /dev/mmcblk0p3 --force")]
pub(crate) struct UpdateArgs {
    /// Index of the new image: an address (https://...) or a file
    #[arg(value_name = "INDEX", value_hint = ValueHint::FilePath)]
    pub(crate) index: PathBuf,

    /// Old image: a file or a block device
    #[arg(long, value_name = "OLD", value_hint = ValueHint::FilePath)]
    pub(crate) from: PathBuf,

    /// Image to write: a file or a block device
    #[arg(short, long, value_name = "NEW", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Fetch the new image from URL instead of the address in INDEX
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) image_url: Option<String>,

    /// Replace NEW if it exists
    #[arg(short, long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteArgs,

    #[command(flatten)]
    pub(crate) effort: EffortArgs,

    /// Print figures as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}
