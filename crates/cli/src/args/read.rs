//! Options of the commands that read an image: `extract`, `tar`, `list`, `cat`, `info`.

use std::ops::Range;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use packfs_image::Part;

use super::{AlterArgs, EffortArgs, ImageArg, OnError, PartsArg, SelectArgs, TalkArgs, value};

/// Unpack an image, or some of its paths, into a directory.
///
/// Owners, modes, times, extended attributes, hard links, holes and devices are restored as far as the user and the
/// file system allow; the rest is reported. Nothing is ever written outside DIR, whatever names and links the image
/// contains.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs extract root.sqfs -C /srv/root
  packfs extract root.sqfs etc usr/share/doc -C /tmp/some
  packfs extract root.sqfs usr/local -C /usr/local --strip-components 2
  packfs extract root.sqfs -C /srv/root --exclude usr/share/doc --dry-run
  packfs extract root.sqfs -C /srv/root --paths-from wanted.txt --owner root:root --mode go-w
  packfs extract data.sqfs -C /scratch/data --shard $SLURM_ARRAY_TASK_ID/16")]
pub(crate) struct ExtractArgs {
    #[command(flatten)]
    pub(crate) image: ImageArg,

    #[command(flatten)]
    pub(crate) select: SelectArgs,

    /// Directory to unpack into; created if missing
    ///
    /// Required, except with --dry-run, whose default is the current directory.
    #[arg(short = 'C', long = "directory", value_name = "DIR", value_hint = ValueHint::DirPath,
          required = false, required_unless_present = "dry_run", default_value_if("dry_run", "true", "."))]
    pub(crate) directory: PathBuf,

    /// Strip N leading components from each path
    ///
    /// Entries with no more than N components are left out.
    #[arg(long, value_name = "N", default_value = "0", value_parser = value::count::<usize>)]
    pub(crate) strip_components: usize,

    /// Print progress as numbers from 0 to 100 on standard output
    ///
    /// One per line, for programs that draw a bar, such as `dialog --gauge`.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) percentage: bool,

    /// List what would be extracted and what prevents it; write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Replace files that exist
    #[arg(short, long)]
    pub(crate) force: bool,

    /// Extract only part I of N, counted from 0
    ///
    /// Each entry except directories belongs to one part, and all parts together are the whole image. They can be
    /// extracted in any order or at once, also by several machines that share DIR. Existing directories get the
    /// attributes that they have in the image.
    #[arg(long, value_name = "I/N", value_parser = value::part, conflicts_with = "dry_run")]
    pub(crate) shard: Option<Part>,

    /// Give all files to the extracting user and drop privileges
    ///
    /// Set-user-ID and set-group-ID bits and file capabilities are left out, except for files that have this owner in
    /// the image. If root extracts, the default is to restore the owners in the image.
    #[arg(long, conflicts_with = "owner")]
    pub(crate) no_owner: bool,

    #[command(flatten)]
    pub(crate) alter: AlterArgs,

    /// Leave times as they are when entries are written
    #[arg(long, conflicts_with = "time")]
    pub(crate) no_times: bool,

    /// Write zeros where the image has holes
    #[arg(long)]
    pub(crate) no_sparse: bool,

    /// Action for an entry that cannot be read or created
    ///
    /// With `skip` the entry is left out and listed, and the exit status is 1.
    #[arg(long, value_enum, default_value_t = OnError::Stop)]
    pub(crate) on_error: OnError,

    #[command(flatten)]
    pub(crate) effort: EffortArgs,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

/// Write an image, or some of its paths, as a tar archive.
///
/// The archive is in pax format, with extended attributes and holes. With --format pseudo, packfs writes a pseudo file of
/// mksquashfs instead.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs tar root.sqfs -o root.tar.zst
  packfs tar root.sqfs --compress xz:9 | ssh host tar -xJ
  packfs tar root.sqfs etc -o etc.tar
  packfs tar root.sqfs usr/local --strip-components 2 --prefix local -o local.tar
  packfs tar root.sqfs --format pseudo -o root.pf")]
pub(crate) struct TarArgs {
    #[command(flatten)]
    pub(crate) image: ImageArg,

    #[command(flatten)]
    pub(crate) select: SelectArgs,

    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// Replace FILE if it exists
    #[arg(short, long)]
    pub(crate) force: bool,

    /// Format of the archive
    #[arg(long, value_enum, default_value_t = ArchiveFormat::Tar)]
    pub(crate) format: ArchiveFormat,

    /// Compress the archive: gzip, xz, zstd or bzip2, with or without :LEVEL
    ///
    /// The default follows from the ending of FILE, as in root.tar.zst; `none` does not compress. All cores compress;
    /// the archive does not depend on their number. Each core needs memory for its encoder and twice a piece of the
    /// archive: 3 MiB with gzip, 24 MiB with bzip2, 20 to 96 MiB with zstd (128 to 464 MiB above level 16), 142 MiB
    /// with xz:6 and 866 MiB with xz:9. If --memory does not suffice for all cores, fewer compress.
    #[arg(long, value_name = "FORMAT", value_parser = value::compression)]
    pub(crate) compress: Option<value::ArchiveCompression>,

    #[command(flatten)]
    pub(crate) alter: AlterArgs,

    /// Store each name of a hard-linked file as a file of its own
    #[arg(long)]
    pub(crate) no_hard_links: bool,

    /// Strip N leading components from each path
    ///
    /// Entries with no more than N components are left out.
    #[arg(long, value_name = "N", default_value = "0", value_parser = value::count::<usize>)]
    pub(crate) strip_components: usize,

    /// Put everything into the directory DIR of the archive
    ///
    /// DIR gets the attributes of the root. With `.`, each path begins with `./`.
    #[arg(long, value_name = "DIR", value_parser = value::inside)]
    pub(crate) prefix: Option<PathBuf>,

    /// Write only part I of N, counted from 0
    ///
    /// All parts, concatenated in order, are the whole archive, byte for byte. Each part that is not empty is an
    /// archive by itself, but only the last one has an end marker. Hard links may refer to files of earlier parts.
    #[arg(long, value_name = "I/N", value_parser = value::part)]
    pub(crate) shard: Option<Part>,

    /// Fail at a socket, which a tar archive cannot store
    ///
    /// The default is to leave it out with a warning.
    #[arg(long)]
    pub(crate) strict: bool,

    #[command(flatten)]
    pub(crate) effort: EffortArgs,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

/// Formats that `tar` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArchiveFormat {
    /// A tar archive
    Tar,
    /// Definitions and data, which `mksquashfs -pf` and `packfs build @FILE` read
    ///
    /// It contains sockets, but no fractions of seconds. Names with line feeds and times before 1970 or after 2106 are
    /// errors.
    Pseudo,
}

/// List the entries of an image.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs list root.sqfs
  packfs list -l root.sqfs etc
  packfs list --du --human --sort size root.sqfs 'usr/*'
  packfs list --tree root.sqfs --exclude '*.pyc'
  packfs list --json root.sqfs
  packfs list --pack-list=unpacked root.sqfs")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) image: ImageArg,

    #[command(flatten)]
    pub(crate) select: SelectArgs,

    /// Also show mode, owner, size or device, and time
    #[arg(short, long)]
    pub(crate) long: bool,

    /// With --long, show the names that this system has for owners
    #[arg(long, requires = "long")]
    pub(crate) names: bool,

    /// Show sizes with units, as 4.00 KiB
    #[arg(long)]
    pub(crate) human: bool,

    /// Show sizes; a directory's is that of all files below it
    ///
    /// Only listed files count; a file with several names counts once.
    #[arg(long)]
    pub(crate) du: bool,

    /// Show entries as a tree
    #[arg(long, conflicts_with = "sort")]
    pub(crate) tree: bool,

    /// Order of the entries: by path, largest first, or newest first
    #[arg(long, value_enum, value_name = "KEY")]
    pub(crate) sort: Option<SortKey>,

    /// Print the entries as JSON
    #[arg(long, conflicts_with_all = ["long", "human", "tree"])]
    pub(crate) json: bool,

    /// Print a pack list, whose files are in DIR [default: where the list is]
    ///
    /// `packfs extract` into DIR and `packfs build @LIST` then give the same tree again, without root. If a pack list
    /// cannot express an entry, packfs fails.
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = ".",
          conflicts_with_all = ["long", "human", "tree", "json", "du", "sort"])]
    pub(crate) pack_list: Option<PathBuf>,
}

/// Orders of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortKey {
    Path,
    Size,
    Time,
}

/// Write files of an image, or bytes of a dump, to standard output.
///
/// With --range, packfs reads only the blocks or chunks that contain the requested bytes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs cat root.sqfs etc/os-release
  packfs cat root.sqfs --regex '^etc/.*[.]conf$'
  packfs cat root.sqfs var/disk.img --range 0:512 --range 1G:64K
  packfs cat /mnt/a/core /mnt/b/core --range 16M:4K | xxd")]
pub(crate) struct CatArgs {
    #[command(flatten)]
    pub(crate) image: ImageArg,

    /// Files in the image, or globs such as 'etc/*.conf'
    ///
    /// Files are written one after the other; symbolic links are followed within the image. If IMAGE is a part of a
    /// dump: its further parts, in any order.
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Then write the files whose path matches the regular expression
    ///
    /// The syntax is that of `packfs list --exclude-regex`. All files below a directory that matches are written.
    #[arg(long, value_name = "REGEX")]
    pub(crate) regex: Vec<String>,

    /// Write only these bytes: OFFSET:LENGTH, as in 1G:64K (repeat for more)
    ///
    /// The range applies to each file, or to the dump.
    #[arg(long, value_name = "RANGE", value_parser = value::range)]
    pub(crate) range: Vec<Range<u64>>,
}

/// Show format, codec, sizes, counts and layout of an image.
///
/// For an EROFS image, also shows the oldest Linux that reads it. For the parts of a dump, shows their contents and
/// what is missing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs info root.erofs
  packfs info root.sqfs --json
  packfs info root.sqfs --stats
  packfs info root.sqfs --inode etc/passwd
  packfs info /mnt/a/core /mnt/b/core")]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) image: ImageArg,

    #[command(flatten)]
    pub(crate) parts: PartsArg,

    /// Also show what takes up space in an image
    ///
    /// Shows stored bytes of files by type, folder and ratio, duplicates, metadata, the folders that compress worst,
    /// and the largest files. Stored bytes that several files use are divided among them in proportion to the data of
    /// each, so that all shares add up to the size of the image.
    #[arg(long)]
    pub(crate) stats: bool,

    /// Show where and how the image stores the inode at PATH
    ///
    /// Shows its position, form and layout, and each extent with its position, stored length and codec. Symbolic links
    /// are not followed.
    #[arg(long, value_name = "PATH", conflicts_with = "stats")]
    pub(crate) inode: Option<PathBuf>,

    /// Print the information as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
