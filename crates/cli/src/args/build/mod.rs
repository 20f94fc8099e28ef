//! Options of `packfs build`, and how they are resolved: those of every format here, the others in
//! a file per format.

mod around;
mod choices;
mod codec;
mod composefs;
mod delta_index;
mod full;
mod layer;
mod plan;
mod preset;
mod reuse;
mod seal;
mod shards;
mod table;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use packfs_image::AnyImage;
use packfs_image::build;
use packfs_image::squashfs::SuperblockFlags;
use packfs_image::tree::{ModeChange, Time};

use self::around::AroundArgs;
pub(crate) use self::choices::FormatChoice;
use self::choices::WhiteoutChoice;
pub(super) use self::codec::{CodecArg, CodecParser};
use self::composefs::ComposefsArgs;
pub(crate) use self::delta_index::DeltaIndex;
use self::delta_index::DeltaIndexArgs;
pub(crate) use self::full::GivenOptions;
pub(super) use self::layer::{AnyLayer, ErofsLayer};
pub(crate) use self::plan::{BuildPlan, FsConfigFrom, ListPaths, RulesFrom};
pub(crate) use self::preset::BuildPreset;
use self::reuse::ReuseArgs;
pub(crate) use self::seal::BuildSeal;
use self::seal::BuildSealArgs;
use self::shards::ShardCountArgs;
use self::table::{CompressionTable, ErofsTable, LayoutTable, SquashfsTable, TableArgs};
pub(crate) use self::table::{ids_without_shards, name_option};
use super::{EffortArgs, ExcludeArgs, OnError, RemoteArgs, TalkArgs, value};

/// Pack directories, archives, images and pack lists into one image.
///
/// A SOURCE is a directory, a single file, a tar or cpio archive (plain or compressed with gzip, xz, zstd or bzip2; `-`
/// reads one from standard input), a zip archive, an image (whose contents are packed again), `@FILE` (a pack list), or
/// `file:FILE` (a file that is packed unchanged even if it is an archive). Several sources are merged in order: later
/// entries replace earlier ones of the same name.
///
/// The image appears under its name only when it is complete; until then an old file stays unchanged.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs build /srv/root -o root.sqfs
  packfs build root.tar.zst overlay/ @devices.list -o root.sqfs --codec xz:9:bcj=auto -b 1M
  packfs build /srv/root -o root.erofs --codec zstd --target-kernel 6.12 --features dedupe
  packfs build root.sqfs -o root.erofs
  packfs build /srv/root -o new.sqfs --reuse old.sqfs --index
  packfs build /srv/root -o root.erofs --hot boot.list
  packfs build /srv/root -o root.cfs --composefs --objects objects")]
pub(crate) struct BuildArgs {
    #[command(flatten)]
    given: GivenOptions,

    /// Directory, file, archive, `-`, image, @packlist or file:FILE
    #[arg(value_name = "SOURCE", required_unless_present_any = ["add", "files_from"], value_hint = ValueHint::AnyPath)]
    sources: Vec<PathBuf>,

    /// Image to write: a file, a block device, or `-` for standard output
    ///
    /// packfs writes to standard output only when the image is complete, and keeps it in an unnamed file in TMPDIR or
    /// /var/tmp until then. With --stream, it writes while it packs.
    #[arg(short, long, value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub(super) output: PathBuf,

    /// Choose codec, block size and order by name
    ///
    /// SquashFS: zstd:1, zstd:12, zstd:19 in blocks of 1M, xz:9:bcj=auto in 1M with --order similar. EROFS: lz4,
    /// lz4hc:9, lzma:6 in clusters of 256K, lzma:9 in 1M with --order similar and all-fragments. Explicit options take
    /// precedence.
    #[arg(long, value_enum)]
    preset: Option<BuildPreset>,

    #[command(flatten)]
    compression: TableArgs<CompressionTable>,

    /// Image format [default: erofs if IMAGE ends in .erofs, else squashfs]
    #[arg(long, value_enum)]
    format: Option<FormatChoice>,

    #[command(flatten)]
    exclude: ExcludeArgs,

    /// Replace IMAGE if it exists
    #[arg(short, long)]
    pub(super) force: bool,

    /// Scan and estimate size and time of the image; write nothing
    ///
    /// Counts the entries that would be packed and left out, lists warnings, and estimates size and time from a sample.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    pub(super) effort: EffortArgs,

    #[command(flatten)]
    remote: RemoteArgs,

    /// Print the summary as JSON on standard output
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) talk: TalkArgs,

    /// Print progress as numbers from 0 to 100 on standard output
    ///
    /// One per line, for programs that draw a bar, such as `dialog --gauge`.
    #[arg(long, conflicts_with_all = ["json", "dry_run"])]
    percentage: bool,

    /// Keep everything in OLD_IMAGE and add the sources to it
    ///
    /// OLD_IMAGE may be the output, with --force.
    ///
    /// If the root of OLD_IMAGE already has an entry of a name, the entry of a source is renamed to NAME_1. Options
    /// such as --owner, --exclude and --rules apply to the sources, not to OLD_IMAGE; --uid-offset and --gid-offset
    /// apply to both. Format, and for SquashFS codec, block size and layout, are those of OLD_IMAGE unless given.
    #[arg(help_heading = "Contents", long, value_name = "OLD_IMAGE", value_hint = ValueHint::FilePath)]
    append: Option<PathBuf>,

    /// Put the contents of OLD_IMAGE (--append) into the directory NAME
    #[arg(help_heading = "Contents", long, value_name = "NAME", requires = "append")]
    append_below: Option<OsString>,

    /// Add or change an entry as a line of a pack list does
    ///
    /// For example 'nod /dev/null 0666 0 0 c 1 3' or 'mode / 0755'. These lines apply after all sources, in their
    /// order. docs/guide/packlist.md describes the syntax.
    #[arg(help_heading = "Contents", long, value_name = "LINE")]
    add: Vec<OsString>,

    /// Pack the files that FILE names, one path per line; `-` reads stdin
    ///
    /// A file has the same path in the image as in the list, without leading `/`, `.` and `..`. A directory stands for
    /// itself, not for its entries. The parent directories of a file are packed, too; the directory in which all paths
    /// begin becomes the root.
    #[arg(help_heading = "Contents", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files_from: Option<PathBuf>,

    /// Paths of --files-from end with a NUL, as `find -print0` writes them
    #[arg(help_heading = "Contents", long, requires = "files_from")]
    null: bool,

    /// Leave out entries more than N levels below the root
    #[arg(help_heading = "Contents", long, value_name = "N", value_parser = value::count::<usize>)]
    max_depth: Option<usize>,

    /// Leave out files larger than SIZE
    ///
    /// The summary counts them. A file with holes counts with its full length. Files of OLD_IMAGE (--append) stay.
    #[arg(help_heading = "Contents", long, value_name = "SIZE", value_parser = value::size)]
    max_file_size: Option<u64>,

    /// Do not descend into other file systems
    #[arg(help_heading = "Contents", short = 'x', long)]
    one_file_system: bool,

    /// Leave out extended attributes
    #[arg(help_heading = "Contents", long)]
    no_xattrs: bool,

    /// Leave out extended attributes that match GLOB
    ///
    /// For example 'system.posix_acl_*'.
    #[arg(help_heading = "Contents", long, value_name = "GLOB")]
    exclude_xattr: Vec<String>,

    /// Merge sources as overlayfs merges layers
    ///
    /// A directory with the attribute trusted.overlay.opaque hides the entries that earlier sources have in it.
    #[arg(help_heading = "Contents", long)]
    layers: bool,

    /// Convert whiteouts of OCI layers, which mark deleted files (.wh.NAME)
    ///
    /// With `overlay`, `.wh.NAME` becomes a character device NAME with numbers 0 and 0, and `.wh..wh..opq` the
    /// attribute trusted.overlay.opaque of its directory. Every directory with such devices gets the attribute
    /// trusted.overlay.origin, without which overlayfs may list deleted names. `mark-overlay` only adds this attribute.
    /// `strip-overlay` leaves out the devices and attributes of overlayfs.
    #[arg(help_heading = "Contents", long, value_enum, value_name = "WAY", default_value_t = WhiteoutChoice::Keep)]
    whiteouts: WhiteoutChoice,

    /// Time of the image and of every entry: seconds, UTC date or `now`
    ///
    /// Seconds count from 1970. SquashFS stores 1970 to 2106, EROFS any time. The default is the times of the source,
    /// none later than SOURCE_DATE_EPOCH if that is set.
    #[arg(help_heading = "Contents", long, value_name = "T", value_parser = value::time, allow_hyphen_values = true)]
    time: Option<Time>,

    /// Time of the image only
    ///
    /// The default is the newest time of its entries.
    #[arg(help_heading = "Contents", long, value_name = "T", value_parser = value::time, allow_hyphen_values = true)]
    image_time: Option<Time>,

    /// Owner and group of every entry, as USER:GROUP
    ///
    /// Each is a number or a name that this system knows. `USER:` or `:GROUP` changes only one of them.
    #[arg(help_heading = "Contents", long, value_name = "OWNER", value_parser = value::owner)]
    owner: Option<(Option<u32>, Option<u32>)>,

    /// Number to add to every owner, after --owner; may be negative
    #[arg(help_heading = "Contents", long, value_name = "N", default_value = "0", allow_hyphen_values = true,
          value_parser = value::id_offset)]
    uid_offset: i64,

    /// Number to add to every group
    #[arg(help_heading = "Contents", long, value_name = "N", default_value = "0", allow_hyphen_values = true,
          value_parser = value::id_offset)]
    gid_offset: i64,

    /// Give each name of a hard-linked file an inode of its own
    ///
    /// The data is still stored once, unless --no-dedup is given.
    #[arg(help_heading = "Contents", long)]
    no_hard_links: bool,

    /// Change permissions as chmod does, as in go-w or D0755,F0644
    ///
    /// The mode is octal or symbolic. D or F in front restricts it to directories or to everything else.
    #[arg(help_heading = "Contents", long, value_name = "MODE", allow_hyphen_values = true)]
    mode: Option<ModeChange>,

    /// Apply the rules in FILE to single entries
    ///
    /// Each line has tests, an arrow and effects, as in `glob=*.jpg size=1M.. -> store`. docs/guide/rules.md describes
    /// them. Rules take precedence over options for all entries, such as --owner.
    #[arg(help_heading = "Contents", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    rules: Vec<PathBuf>,

    /// Apply one rule to single entries
    ///
    /// LINE has the syntax of a rules file. It applies after the lines of --rules.
    #[arg(help_heading = "Contents", long, value_name = "LINE", allow_hyphen_values = true)]
    rule: Vec<OsString>,

    /// Action if a file cannot be read or changes during the build
    ///
    /// With `skip` the file is left out and listed, and the exit status is 1.
    #[arg(help_heading = "Contents", long, value_enum, default_value_t = OnError::Stop)]
    on_error: OnError,

    /// Fail at the first warning
    ///
    /// For example, a tar archive without an end marker.
    #[arg(help_heading = "Contents", long)]
    strict: bool,

    #[command(flatten)]
    layout: TableArgs<LayoutTable>,

    #[command(flatten)]
    shards: ShardCountArgs,

    /// Order file data by the priorities in FILE
    ///
    /// Each line is `PATH PRIORITY`; higher priorities come first.
    #[arg(help_heading = "Layout of the image", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    sort: Option<PathBuf>,

    /// Leave SIZE bytes free before the image
    ///
    /// To mount the image, SIZE must be a multiple of 4K.
    #[arg(help_heading = "Layout of the image", long, value_name = "SIZE", default_value = "0", value_parser = value::size)]
    offset: u64,

    #[command(flatten)]
    around: AroundArgs,

    #[command(flatten)]
    reuse: ReuseArgs,

    /// Place the files named in LIST first and next to each other
    ///
    /// Their inodes and directories are next to each other, too. LIST has paths in the image in order of first use, one
    /// per line, as `packfs trace` and `packfs mount --trace` write them.
    #[arg(help_heading = "Layout of the image", long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    hot: Option<PathBuf>,

    /// Copy archives from a pipe to a temporary file first
    ///
    /// This also applies to compressed archives. The image is then the same as from the plain archive. Implied by
    /// --sort, --hot, --shards, --order other than path, and rules that need file data.
    #[arg(help_heading = "Layout of the image", long)]
    spool: bool,

    /// Check the image while it is made: data and metadata (the default)
    ///
    /// Each block is decoded after encoding and compared. The metadata is read back, and the extents of each file must
    /// satisfy the rules of `packfs check`.
    #[arg(help_heading = "Verification", long, overrides_with = "no_verify")]
    #[allow(dead_code, reason = "it only takes back an earlier --no-verify")]
    verify: bool,

    /// Do not decode each block after encoding, nor read the metadata back
    #[arg(help_heading = "Verification", long, overrides_with = "verify")]
    no_verify: bool,

    #[command(flatten)]
    seal: BuildSealArgs,

    #[command(flatten)]
    delta_index: DeltaIndexArgs,

    #[command(flatten)]
    composefs: ComposefsArgs,

    #[command(flatten)]
    squashfs: TableArgs<SquashfsTable>,

    #[command(flatten)]
    erofs: TableArgs<ErofsTable>,
}

impl BuildArgs {
    /// Returns the sources as typed.
    pub(crate) fn sources(&self) -> &[PathBuf] {
        &self.sources
    }

    /// Returns the image to append to.
    pub(crate) fn appended(&self) -> Option<&Path> {
        self.append.as_deref()
    }

    /// Takes the options that are left open from an image.
    pub(crate) fn be_like(&mut self, image: &AnyImage) {
        let AnyImage::Squashfs(image) = image else {
            self.format = self.format.or(Some(FormatChoice::Erofs));
            return;
        };
        if self.format.is_some_and(|format| format != FormatChoice::Squashfs) {
            return;
        }
        self.format = Some(FormatChoice::Squashfs);
        let superblock = image.superblock();
        let has = |flag| superblock.flags.contains(flag);
        // An image without any compression has codec `none`, which another codec may replace.
        let all_plain =
            has(SuperblockFlags::RAW_DATA) && has(SuperblockFlags::RAW_FRAGMENTS) && has(SuperblockFlags::RAW_INODES);
        if self.preset.is_none() {
            // At least the metadata has a codec unless all is plain.
            let codec = if all_plain { superblock.data_codec() } else { superblock.full_codec() };
            // Levels that other writers do not store, because they are their defaults.
            let codec = match codec {
                codec if codec == "gzip" => "gzip:9".into(),
                codec if codec == "zstd" => "zstd:15".into(),
                codec => codec,
            };
            self.compression.add_unless_given("codec", codec);
            self.compression.add_unless_given("block-size", superblock.block_size.to_string());
        }
        let fragments = if has(SuperblockFlags::NO_FRAGMENTS) {
            "none"
        } else if has(SuperblockFlags::ALWAYS_FRAGMENTS) {
            "tails"
        } else {
            "small"
        };
        self.layout.add_unless_given("fragments", fragments);
        let switches = [
            (!has(SuperblockFlags::EXPORTABLE), "no-export"),
            (has(SuperblockFlags::RAW_INODES), "plain-metadata"),
            (has(SuperblockFlags::RAW_DATA) && !all_plain, "plain-data"),
            (has(SuperblockFlags::RAW_FRAGMENTS) && !all_plain, "plain-fragments"),
        ];
        for (_, switch) in switches.into_iter().filter(|(is_on, _)| *is_on) {
            self.squashfs.add_unless_given(switch, "");
        }
    }

    /// Returns the number or size of shards, if one was given.
    pub(crate) fn shards(&self) -> Option<build::Shards> {
        self.shards.resolve()
    }

    /// Returns the format, by the name of the image unless it was given.
    fn format(&self) -> FormatChoice {
        self.format.unwrap_or_else(|| match self.output.extension() {
            _ if self.composefs.composefs.is_some() => FormatChoice::Erofs,
            Some(erofs) if erofs.eq_ignore_ascii_case("erofs") => FormatChoice::Erofs,
            _ => FormatChoice::Squashfs,
        })
    }
}

#[cfg(test)]
mod tests;
