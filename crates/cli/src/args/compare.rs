//! Options of the commands that verify: `check` and `diff`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use packfs_image::Part;
use packfs_image::diff::Aspect;

use super::{EffortArgs, ImageArg, PartsArg, RemoteArgs, TalkArgs, value};

/// Verify every structure and block of an image or dump.
///
/// The exit status is 1 if anything is wrong. A check is stricter than mounting: it also finds defects that the kernel
/// notices only when it reads the file, or never. Each finding names its structure and byte offset. For the parts of a
/// dump, it says which bytes of the dump are affected, and whether they can be repaired.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs check root.sqfs
  packfs check root.sqfs --against /srv/root
  packfs check data.sqfs --shard $SLURM_ARRAY_TASK_ID/16
  packfs check /mnt/a/core /mnt/b/core")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) image: ImageArg,

    #[command(flatten)]
    pub(crate) parts: PartsArg,

    /// Also compare every entry, attribute and byte with SOURCE
    ///
    /// Repeat it for an image merged from several sources.
    #[arg(long, value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    pub(crate) against: Vec<PathBuf>,

    /// First put the superblock of a streamed SquashFS image in its place
    ///
    /// `packfs build --stream` and `mksquashfs -stream` write it at the end, where Linux does not find it. This changes
    /// IMAGE.
    #[arg(long, conflicts_with_all = ["against", "shard"])]
    pub(crate) complete: bool,

    /// Check only part I of N, counted from 0
    ///
    /// Each part checks other blocks of data. The first part also checks all metadata; the others read it only to find
    /// the data. For images only.
    #[arg(long, value_name = "I/N", value_parser = value::part, conflicts_with = "against")]
    pub(crate) shard: Option<Part>,

    /// Fail at the first warning about a source
    ///
    /// For example, a tar archive without an end marker.
    #[arg(long, requires = "against")]
    pub(crate) strict: bool,

    #[command(flatten)]
    pub(crate) effort: EffortArgs,

    /// Print the findings as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

/// List the differences between two sources.
///
/// The exit status is 1 if there are any.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs diff old.sqfs new.erofs
  packfs diff root.sqfs /srv/root --json
  packfs diff old.sqfs new.sqfs --ignore time,owner
  packfs diff old.sqfs new.sqfs --extract changed && diff -ru changed/old changed/new")]
pub(crate) struct DiffArgs {
    /// Image, directory or archive
    #[arg(value_name = "A", value_hint = ValueHint::AnyPath)]
    pub(crate) a: PathBuf,

    /// Image, directory or archive to compare with
    #[arg(value_name = "B", value_hint = ValueHint::AnyPath)]
    pub(crate) b: PathBuf,

    /// Aspects not to compare, separated by commas
    #[arg(long, value_enum, value_name = "ASPECT", value_delimiter = ',')]
    pub(crate) ignore: Vec<IgnoredAspect>,

    /// Also compare inode numbers
    #[arg(long)]
    pub(crate) inodes: bool,

    /// Also compare the fields of the superblocks of two images
    #[arg(long)]
    pub(crate) superblocks: bool,

    /// Also predict what `packfs update` fetches to make B from A
    ///
    /// Both must be images. `packfs build --delta-index` writes the index that an update needs.
    #[arg(long)]
    pub(crate) update_size: bool,

    /// Extract the files that differ into DIR/old and DIR/new
    ///
    /// These are regular files whose contents differ, or that only one side has. Files of A go to DIR/old, those of B
    /// to DIR/new.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) extract: Option<PathBuf>,

    /// Replace files that exist in DIR
    #[arg(short, long, requires = "extract")]
    pub(crate) force: bool,

    /// Additional device of the EROFS image A (repeat in their order)
    #[arg(help_heading = "Image", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) device: Vec<PathBuf>,

    /// Additional device of the EROFS image B (repeat in their order)
    #[arg(help_heading = "Image", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) device_b: Vec<PathBuf>,

    /// Fail at the first warning about a source
    ///
    /// For example, a tar archive without an end marker.
    #[arg(long)]
    pub(crate) strict: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteArgs,

    #[command(flatten)]
    pub(crate) effort: EffortArgs,

    /// Print the differences as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

/// Aspects that a comparison can leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IgnoredAspect {
    Mode,
    Owner,
    Time,
    /// Bytes of files; sizes are compared
    Content,
    Size,
    /// Targets of symbolic links
    Target,
    /// Device numbers
    Device,
    /// Extended attributes
    Xattrs,
    /// Hard links
    Links,
    /// Entries that only one side has
    Entry,
}

impl From<IgnoredAspect> for Aspect {
    fn from(ignored: IgnoredAspect) -> Self {
        match ignored {
            IgnoredAspect::Mode => Aspect::Mode,
            IgnoredAspect::Owner => Aspect::Owner,
            IgnoredAspect::Time => Aspect::Time,
            IgnoredAspect::Content => Aspect::Content,
            IgnoredAspect::Size => Aspect::Size,
            IgnoredAspect::Target => Aspect::Target,
            IgnoredAspect::Device => Aspect::Device,
            IgnoredAspect::Xattrs => Aspect::Xattr(Box::default()),
            IgnoredAspect::Links => Aspect::Links,
            IgnoredAspect::Entry => Aspect::Entry,
        }
    }
}
