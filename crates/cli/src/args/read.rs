//! Options of the commands that read an image: `extract`, `tar`, `list`, `cat`, `info`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{Effort, ImageArg, OnError, Talk};

/// Unpack an image, or some of its paths, into a directory.
///
/// Owners, modes, times, extended attributes, hard links, holes and devices are restored as far as the
/// user and the file system allow; what could not be restored is reported. Nothing is ever written
/// outside DIR, whatever names and links the image holds.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs extract root.sqfs -C /srv/root
  packfs extract root.sqfs etc usr/share/doc -C /tmp/some")]
pub(crate) struct Extract {
    #[command(flatten)]
    pub(crate) image: ImageArg,

    /// Paths in the image, with everything below [default: all]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Directory to unpack into; made if it does not exist
    #[arg(short = 'C', long = "directory", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,

    /// Replace files that exist
    #[arg(short, long)]
    pub(crate) force: bool,

    /// Everything belongs to whoever extracts [default: to the owners in the image if that is root]
    #[arg(long)]
    pub(crate) no_owner: bool,

    /// Leave out extended attributes
    #[arg(long)]
    pub(crate) no_xattrs: bool,

    /// Write zeros where the image has holes
    #[arg(long)]
    pub(crate) no_sparse: bool,

    /// What to do with an entry that cannot be read or made: stop, or leave it out, list it and exit 1
    #[arg(long, value_enum, default_value_t = OnError::Stop)]
    pub(crate) on_error: OnError,

    #[command(flatten)]
    pub(crate) effort: Effort,

    #[command(flatten)]
    pub(crate) talk: Talk,
}

/// Write an image, or some of its paths, as a tar archive (pax, with extended attributes and holes).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs tar root.sqfs | zstd > root.tar.zst
  packfs tar root.sqfs etc -o etc.tar")]
pub(crate) struct Tar {
    #[command(flatten)]
    pub(crate) image: ImageArg,

    /// Paths in the image, with everything below [default: all]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// Replace FILE if it exists
    #[arg(short, long)]
    pub(crate) force: bool,

    /// Leave out extended attributes
    #[arg(long)]
    pub(crate) no_xattrs: bool,

    #[command(flatten)]
    pub(crate) effort: Effort,

    #[command(flatten)]
    pub(crate) talk: Talk,
}

/// List what is in an image.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs list root.sqfs
  packfs list -l root.sqfs etc
  packfs list --json root.sqfs")]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) image: ImageArg,

    /// Paths in the image, with everything below [default: all]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Show mode, owner, size or device, and time as well
    #[arg(short, long)]
    pub(crate) long: bool,

    /// Print the entries as JSON
    #[arg(long, conflicts_with = "long")]
    pub(crate) json: bool,
}

/// Write files of an image to standard output, one after the other.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  packfs cat root.sqfs etc/os-release")]
pub(crate) struct Cat {
    #[command(flatten)]
    pub(crate) image: ImageArg,

    /// Files in the image; symbolic links are followed within it
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
}

/// Show what an image is: its format, codec, sizes, counts and layout; of EROFS, which Linux it needs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs info root.erofs
  packfs info root.sqfs --json")]
pub(crate) struct Info {
    #[command(flatten)]
    pub(crate) image: ImageArg,

    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
