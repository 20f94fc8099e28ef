//! mkfs.erofs: its command lines become one of `packfs build`.
//!
//! Defaults are its own (no compression, clusters of 4K, no fragments and no dedupe, the time of the run as that of the
//! image), unless `PACKFS_AS=fast` in the environment asks for those of packfs.

mod compressor;
mod extended;
mod hints;
mod images;
mod table;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;

use packfs_image::name::display;
use packfs_image::tree::parse_c_number;

use self::compressor::ImageCodec;
use self::extended::ExtendedOptions;
use self::hints::CompressHints;
pub(super) use self::table::TABLE;
use super::command_line::CommandLine;
use super::options::{ParsedWord, parse_getopt};
use super::paths::{glob_of, safe_path};
use super::refusals;
use super::regex::{MatchSubject, translate_regex};
use super::rules;
use super::{TranslatedLine, wants_packfs_defaults};
use crate::args::value;
use crate::output::failure::ExitPolicy;

/// Version whose options these are.
const VERSION: &str = "1.9.4";
/// Cluster size without `-C`.
const CLUSTER: &str = "4K";
/// Block size of an index over an archive.
const INDEX_BLOCK: &str = "512";
/// Block size without `-b`.
const BLOCK: &str = "4K";

/// Scope of the time of `-T`, or of the time of the run without it.
#[derive(Debug, Default, PartialEq, Eq)]
enum TimeScope {
    /// The image, and with `-T` all entries.
    #[default]
    Unspecified,
    /// The image alone.
    Image,
    /// The image and all entries.
    All,
}

/// A command line, read.
#[derive(Debug, Default)]
struct MkfsOptions {
    plain: Vec<OsString>,
    /// Options of `packfs build`.
    out: CommandLine,
    /// Codecs in the order of `-z`.
    codecs: Vec<ImageCodec>,
    /// Block size of the file system.
    block: Option<String>,
    cluster: Option<String>,
    extended: ExtendedOptions,
    /// Of uncompressed files.
    chunk_size: Option<String>,
    /// Cluster size and codec of the metabox.
    metabox: Option<(u64, Option<ImageCodec>)>,
    /// Seconds of `-T`.
    time: Option<i64>,
    timed: TimeScope,
    ignore_mtime: bool,
    owner: (Option<u32>, Option<u32>),
    tar: bool,
    /// Block size of an image that refers to its sources.
    refer: Option<String>,
    max_extent: Option<String>,
    /// Number of blocks to whose multiples data is aligned.
    stripe: u32,
    /// File for the data of files.
    blob: Option<String>,
    /// True if whiteouts of archives become those of overlayfs.
    aufs: bool,
    /// True if whiteouts and attributes of overlayfs are left out.
    strip: bool,
    /// Way to take the data of sources that are not directories.
    clean: Option<String>,
    hints: CompressHints,
    /// True if files have digests.
    digest: bool,
    /// File of SELinux contexts.
    contexts: Option<String>,
    /// File with owners, modes and capabilities, and the directory where the device will have the image.
    fs_config: Option<String>,
    mount_point: String,
    /// True if `--product-out` is given: the directory of Android's build, from which owners come without `fs_config`.
    product_out: bool,
    labels: Vec<String>,
    print: Option<&'static str>,
}

/// Translates a command line of mkfs.erofs.
pub(super) fn mkfs_erofs(args: Vec<OsString>) -> Result<TranslatedLine, String> {
    let mut options = MkfsOptions::default();
    for word in parse_getopt(TABLE, args)? {
        match word {
            ParsedWord::Plain(word) => options.plain.push(word),
            ParsedWord::Becomes(made) => options.out.append(made),
            ParsedWord::Option(name, values) => {
                let value = values.into_iter().next();
                let text =
                    value.map(|value| value.into_string().map_err(|value| not_utf8(name, &value))).transpose()?;
                options.take(name, text)?;
            }
        }
    }
    match options.print {
        // Tests and scripts search the second line for the compressors that they may use.
        Some("-V") => Ok(TranslatedLine::Print(format!(
            "mkfs.erofs (erofs-utils) {VERSION} (packfs {})\n\
             available compressors: lz4, lz4hc, lzma, deflate, libdeflate, zstd\n",
            env!("CARGO_PKG_VERSION")
        ))),
        Some(_) => Ok(TranslatedLine::Help(TABLE)),
        None => options.translate(),
    }
}

/// Reads a number as C does, since build systems write hexadecimal. It may be negative.
fn parse_signed(text: &str) -> Option<i64> {
    let positive = |digits| i64::try_from(parse_c_number(digits)?).ok();
    text.strip_prefix('-').map_or_else(|| positive(text), |digits| positive(digits).map(i64::wrapping_neg))
}

fn is_power_of_two(text: &str) -> bool {
    text.parse().is_ok_and(u64::is_power_of_two)
}

/// Returns a number that C would read in decimal, and any other text as it is.
fn in_decimal(text: String) -> String {
    parse_c_number(&text).map_or(text, |number| number.to_string())
}

fn not_utf8(name: &str, value: &OsString) -> String {
    format!("{name} {}: not UTF-8", display(Path::new(value)))
}

impl MkfsOptions {
    /// Takes an option that needs more than other words. Options without their value have an empty one.
    fn take(&mut self, name: &'static str, value: Option<String>) -> Result<(), String> {
        let text = value.clone().unwrap_or_default();
        let refused = |why: &str| Err(format!("{name} {text}: {why}"));
        match (name, text.as_str()) {
            ("-m", _) => self.metabox = Some(compressor::parse_metabox(&text)?),
            ("--zD", "" | "0" | "1") => self.extended.set("compressed-dirs", text != "0"),
            ("--zD", _) => return refused("expected 0 or 1"),
            ("--MZ", "" | "0") => {}
            ("--MZ", parts) if parts.contains('i') && parts.trim_matches(['i', 'd']).is_empty() => {}
            ("--MZ", _) => return refused("expected 0, i or id"),
            ("--async-queue-limit", _) if is_power_of_two(&text) || text == "0" => {}
            // Told even where it has no effect.
            ("--chunksize", _) if is_power_of_two(&text) => self.chunk_size = Some(text),
            ("--async-queue-limit" | "--chunksize", _) => return refused("expected a power of two"),
            ("-x", _) => match parse_signed(&text) {
                // Any negative number turns attributes off; the others say from how many files on they are
                // shared.
                Some(tolerance) if tolerance < 0 => self.out.switch("--no-xattrs"),
                // packfs's default, too.
                Some(2) => {}
                Some(more) => self.out.set("--xattr-share", more.min(u32::MAX.into()).to_string()),
                None => return refused("expected a number"),
            },
            ("-b", _) => {
                if text.parse::<u64>().is_ok_and(|bytes| bytes > u64::from(images::BLOCK_MAX)) {
                    return Err(refusals::LARGE_BLOCKS.error(format_args!("{name} {text}")));
                }
                self.out.set("--fs-block", &text);
                self.block = Some(text);
            }
            ("-z", _) => self.codecs = compressor::parse_codecs(&text)?,
            ("-C", _) => self.cluster = Some(text),
            ("-E", _) => {
                self.extended.take(&text)?;
                // Taken out, as only the last of `-E force-inode-compact` and `--preserve-mtime` counts.
                self.ignore_mtime |= std::mem::take(&mut self.extended.ignore_mtime);
            }
            ("-T", _) => match parse_signed(&text) {
                Some(secs) => self.time = Some(secs),
                None => return refused("expected seconds since 1970"),
            },
            ("--all-time", _) => self.timed = TimeScope::All,
            ("--mkfs-time", _) => self.timed = TimeScope::Image,
            ("--preserve-mtime", _) => self.ignore_mtime = false,
            ("-U", "clear") => self.out.set("--uuid", "00000000-0000-0000-0000-000000000000"),
            ("-U", _) => self.out.set("--uuid", text),
            ("--all-root", _) => self.owner = (Some(0), Some(0)),
            ("--force-uid", _) => self.owner.0 = Some(value::user(&in_decimal(text))?),
            ("--force-gid", _) => self.owner.1 = Some(value::group(&in_decimal(text))?),
            ("--ignore-mtime", _) => self.ignore_mtime = true,
            ("--compress-hints", _) => self.hints = CompressHints::read(&text)?,
            ("--file-contexts", _) => self.contexts = Some(text),
            ("--mount-point", _) => self.mount_point = text,
            ("--fs-config-file", _) => self.fs_config = Some(text),
            ("--exclude-path", _) => {
                let glob = glob_of(Path::new(&text)).map_err(|why| format!("{name} {text}: {why}"))?;
                self.out.set("--exclude", glob);
            }
            ("--exclude-regex", _) => {
                let regex =
                    translate_regex(&text, MatchSubject::Path).map_err(|why| format!("{name} {text}: {why}"))?;
                self.out.set("--exclude-regex", regex);
            }
            ("--tar", "" | "f") => self.tar = true,
            // Blocks are those of archives, whatever -b says, and nothing is compressed.
            ("--tar", "i") => (self.tar, self.refer) = (true, Some(INDEX_BLOCK.into())),
            ("--tar", "headerball") => return Err(refusals::ARCHIVE_WITHOUT_DATA.error("--tar=headerball")),
            ("--tar", _) => return refused("expected f or i"),
            ("--clean", "" | "data" | "rvsp" | "0") => self.clean = value.or_else(|| Some("data".into())),
            ("--clean", _) => return refused("expected data, rvsp or 0"),
            ("--aufs", _) => self.aufs = true,
            ("--ovlfs-strip", "" | "0" | "1") => self.strip = text != "0",
            ("--ovlfs-strip", _) => return refused("expected 0 or 1"),
            ("--blobdev", _) => self.blob = value,
            ("--xattr-inode-digest", "") => {
                self.digest = true;
                self.out.switch("--inode-digest");
            }
            ("--xattr-inode-digest", _) => {
                self.digest = true;
                self.out.set("--inode-digest", text);
            }
            ("--max-extent-bytes", _) => self.max_extent = value.filter(|bytes| bytes != "0"),
            ("--dsunit", _) => match text.parse() {
                Ok(blocks) => self.stripe = blocks,
                Err(_) => return refused("expected a number of blocks"),
            },
            ("--ungzip" | "--unxz", "") => {}
            ("--ungzip" | "--unxz", _) => return Err(refusals::WRITTEN_ARCHIVE.error(format_args!("{name}={text}"))),
            ("--zfeature-bits", _) => self.extended.take_bits(&text)?,
            // Android's build always gives it; alone it would ask for a table that packfs lacks.
            ("--product-out", _) => self.product_out = true,
            _ => self.print = Some(name),
        }
        Ok(())
    }

    fn translate(mut self) -> Result<TranslatedLine, String> {
        let fast = wants_packfs_defaults();
        let mut plain = std::mem::take(&mut self.plain).into_iter();
        let image = plain.next().ok_or("expected: mkfs.erofs [OPTIONS] IMAGE SOURCE")?;
        // As paths that packfs cannot take for anything else.
        let sources = self.check_sources(plain.map(|source| safe_path(&source)).collect())?;
        self.refuse_reserved_data(&sources)?;
        self.check_clusters()?;
        // Before all that looks at codecs and chunks: an image that refers to its sources has neither.
        if let Some(block) = self.refer.take() {
            self.refer_in(block);
        }
        self.use_blob()?;
        let hints = self.hints.rules(&self.codecs)?;
        self.read_labels_and_owners()?;
        if self.codecs.is_empty() && self.metabox.as_ref().is_some_and(|(_, codec)| codec.is_none()) {
            // Inodes that are not compressed need no metabox, and the image no Linux 6.17.
            self.metabox = None;
        }
        let mut line = CommandLine::new("build");
        line.set("--output", image);
        line.set("--format", "erofs");
        // mkfs.erofs overwrites its image without asking.
        line.switch("--force");
        self.add_compression(fast, &mut line);
        let time_rule = self.add_time(fast, &mut line);
        self.add_layout(fast, &mut line)?;
        // The labels are attributes too.
        if self.out.has("--no-xattrs") {
            self.labels.clear();
        }
        if self.tar {
            // Hard links and labels of archives stay; directories that it lacks have attributes of their own.
            self.out.remove("--no-hard-links");
            self.labels.clear();
            line.set("--implied-dirs", "0777,0:0");
        }
        if let Some(way) = self.whiteouts() {
            line.set("--whiteouts", way);
        }
        // After the options made here, so that what the command line gives by itself counts last.
        line.append(self.out);
        line.set_owner(self.owner);
        // Hints stop at the first that matches.
        // Labels and times first: a hint that matches stops before any later rule.
        let rules = time_rule.iter().chain(&self.labels).chain(&hints);
        rules.for_each(|rule| line.set("--rule", rule));
        sources.into_iter().for_each(|source| line.operand(source));
        Ok(TranslatedLine::Run(line, ExitPolicy { usage: Some(1), ..ExitPolicy::default() }))
    }

    /// Returns the sources: one directory, archives, or EROFS images, to whose data the image then refers.
    fn check_sources(&mut self, mut sources: Vec<OsString>) -> Result<Vec<OsString>, String> {
        match sources.as_slice() {
            // mkfs.erofs reads an archive from standard input then.
            [] if self.tar => sources.push("-".into()),
            [] => return Err("the source is missing: mkfs.erofs [OPTIONS] IMAGE SOURCE".into()),
            [..] if self.tar => {}
            // One file or more: images. A directory comes alone.
            [first, ..] if Path::new(first).is_file() => {
                let block = images::smallest_block_size(&sources)?;
                self.out.switch("--layers");
                if self.clean.is_none() {
                    self.refer = Some(block.to_string());
                }
            }
            [_] => {}
            [..] => return Err("several sources have to be EROFS images: the first is none".into()),
        }
        Ok(sources)
    }

    /// Fails if room is to be reserved for data that another program writes.
    fn refuse_reserved_data(&self, sources: &[OsString]) -> Result<(), String> {
        let Some(way @ ("rvsp" | "0")) = self.clean.as_deref() else { return Ok(()) };
        // Directories and, for 0, archives are packed with their data in any case.
        let is_dir = !self.tar && sources.first().is_some_and(|source| Path::new(source).is_dir());
        let is_whole_archive = self.tar && way == "0";
        if is_dir || is_whole_archive {
            return Ok(());
        }
        Err(refusals::RESERVED_DATA.error(format_args!("--clean={way}")))
    }

    /// Fails for clusters that are no number of blocks: packfs does not see them where nothing is compressed.
    fn check_clusters(&self) -> Result<(), String> {
        let Some(block) = self.block_len() else { return Ok(()) };
        let cluster = self.cluster.as_ref().and_then(|size| size.parse().ok());
        let metabox = self.metabox.as_ref().map(|(size, _)| *size);
        for (option, size) in [("-C", cluster), ("-m", metabox)] {
            match size {
                Some(size) if size == 0 || !size.is_multiple_of(block.into()) => {
                    return Err(format!("{option} {size}: expected a multiple of the block size, {block}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the file of labels, and passes that of owners on.
    fn read_labels_and_owners(&mut self) -> Result<(), String> {
        if let Some(file) = &self.contexts {
            self.labels = rules::read_contexts("--file-contexts", file, None, &self.mount_point)?;
        }
        match self.fs_config.take() {
            Some(file) => {
                self.out.set("--fs-config", file);
                if !self.mount_point.is_empty() {
                    self.out.set("--fs-config-below", &self.mount_point);
                }
                Ok(())
            }
            None if self.product_out => Err(refusals::ANDROIDS_OWNERS.error("--product-out")),
            None => Ok(()),
        }
    }

    /// Adds features, sizes of extents and chunks, alignment and the metabox.
    fn add_layout(&mut self, fast: bool, line: &mut CommandLine) -> Result<(), String> {
        let compressed = fast || !self.codecs.is_empty();
        if let (Some(size), true) = (&self.extended.fragment_cluster, compressed) {
            line.set("--fragment-cluster", size);
        }
        if !compressed && self.extended.has("dedupe") {
            // Without a compressor chunks are shared, which then are as long as a block.
            self.extended.set("dedupe", false);
            self.chunk_size = Some(self.block.clone().unwrap_or_else(|| BLOCK.into()));
        }
        if let (Some(size), false) = (&self.chunk_size, compressed) {
            line.set("--chunk-size", size);
            self.extended.set("chunks", true);
        }
        // Last, when all that adds features has done so.
        let features = std::mem::take(&mut self.extended).features(fast, compressed, self.metabox.is_some());
        if let Some(features) = features {
            line.set("--features", features);
        }
        if let (Some(size), true) = (&self.max_extent, compressed) {
            line.set("--max-extent", size);
        }
        if self.stripe > 1 {
            if compressed {
                return Err(refusals::COMPRESSED_ALIGNMENT.error("--dsunit with -z"));
            }
            line.set("--data-align", self.stripe_len()?.to_string());
        }
        if let Some((size, codec)) = &self.metabox {
            let codec = codec.as_ref().map_or(String::new(), |(codec, _)| format!(",{codec}"));
            line.set("--metabox", format!("{size}{codec}"));
        }
        Ok(())
    }

    /// Returns the block size, or nothing if it is wrong, which packfs reports later.
    fn block_len(&self) -> Option<u32> {
        self.block.as_ref().map_or(Some(4096), |block| block.parse().ok())
    }

    /// Returns the length in bytes to whose multiples data is aligned.
    fn stripe_len(&self) -> Result<u32, String> {
        let bytes = self.block_len().and_then(|block| block.checked_mul(self.stripe));
        bytes.ok_or_else(|| format!("--dsunit {}: expected fewer blocks", self.stripe))
    }

    /// Returns the value of `--whiteouts`. mkfs.erofs marks directories that have whiteouts of overlayfs, except in
    /// archives, and looks for other whiteouts only there.
    fn whiteouts(&self) -> Option<&'static str> {
        match (self.tar && self.aufs, self.strip) {
            // Whiteouts of archives would become whiteouts of overlayfs, which are left out.
            (true, true) => Some("strip"),
            (true, false) => Some("overlay"),
            (false, true) => Some("strip-overlay"),
            (false, false) => (!self.tar).then_some("mark-overlay"),
        }
    }

    /// Checks and adds the file for the data of files.
    fn use_blob(&mut self) -> Result<(), String> {
        let Some(blob) = self.blob.take() else { return Ok(()) };
        if self.chunk_size.is_none() {
            return Err("--blobdev must be used together with --chunksize".into());
        }
        if !self.codecs.is_empty() {
            return Err(refusals::COMPRESSED_BLOB.error("--blobdev with -z"));
        }
        self.out.set("--blob", blob);
        Ok(())
    }

    /// Makes the image refer to its sources, in blocks of a size.
    fn refer_in(&mut self, block: String) {
        // Given once only: `-b` may have set another.
        self.out.remove("--fs-block");
        self.out.switch("--refer");
        self.out.set("--fs-block", &block);
        // Data of other files cannot be compressed, cut or shared.
        self.codecs = Vec::new();
        self.cluster = None;
        self.chunk_size = None;
        self.extended.set("dedupe", false);
        self.block = Some(block);
    }

    /// Adds codec, cluster size and the Linux that has both.
    fn add_compression(&self, fast: bool, line: &mut CommandLine) {
        // mkfs.erofs does not ask which Linux is to read the image, so the oldest that can is meant.
        let wide = (self.extended.has("48bit") || self.extended.has("dot-omitted")).then_some((6, 15));
        let wide = wide.max(self.metabox.is_some().then_some((6, 17)));
        let prefixes = self.digest || self.out.has("--xattr-prefix");
        let has_packed = ["fragments", "all-fragments", "compressed-dirs"].iter().any(|word| self.extended.has(word));
        let beside = if has_packed && !self.codecs.is_empty() { (6, 17) } else { (6, 4) };
        let wide = wide.max(prefixes.then_some(beside));
        // Blocks that are smaller than a page of most machines.
        let small = self.block.as_ref().is_some_and(|block| block.parse::<u32>().is_ok_and(|bytes| bytes < 4096));
        let kernel = if let Some((codec, kernel)) = self.codecs.first() {
            line.set("--codec", codec);
            if let Some(size) = self.cluster.as_deref().or((!fast).then_some(CLUSTER)) {
                line.set("--block-size", size);
            }
            [*kernel, self.hints.kernel(&self.codecs), small.then_some((6, 8)), wide].into_iter().flatten().max()
        } else {
            // packfs compresses by default.
            if !fast {
                line.set("--codec", "none");
            }
            // Blocks of less than a page.
            wide.max(small.then_some((6, 4)))
        };
        if let Some((major, minor)) = kernel {
            line.set("--target-kernel", format!("{major}.{minor}"));
        }
    }

    /// Adds the option for times; returns the rule for the times of single entries.
    fn add_time(&self, fast: bool, line: &mut CommandLine) -> Option<String> {
        // The variable wins over -T and --all-time, as in mkfs.erofs. packfs reports a wrong value.
        let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
        let secs = epoch.as_ref().map_or(self.time, |text| text.parse().ok());
        let of_all = self.timed == TimeScope::All || self.time.is_some() && self.timed == TimeScope::Unspecified;
        let of_all = of_all && epoch.is_none();
        let time = secs.map_or("now".to_owned(), |secs| secs.to_string());
        // Where all inodes are compact, all have one time.
        if of_all || self.ignore_mtime && self.extended.has("compact-inodes") {
            line.set("--time", time);
            return None;
        }
        // Compact inodes have room for no time: those that need it for nothing else get that of the image.
        if self.ignore_mtime && !self.keeps_times() {
            let now = || value::time("now").map_or(0, |now| now.secs);
            let time = secs.unwrap_or_else(now);
            line.set("--image-time", time.to_string());
            return self.compact_times(time);
        }
        // packfs has no time of its own unless it is asked: the same sources make the same image.
        if epoch.is_none() && (self.time.is_some() || !fast) {
            line.set("--image-time", time);
        }
        None
    }

    /// Returns true if no inode is longer for its time: all are extended, or compact ones have times of their own.
    fn keeps_times(&self) -> bool {
        ["48bit", "dot-omitted", "extended-inodes"].iter().any(|feature| self.extended.has(feature))
    }

    /// Returns the rule that gives a time to all entries that are extended for nothing but their time; `None` if there are
    /// none. Tests of rules see the owners of the sources.
    fn compact_times(&self, time: i64) -> Option<String> {
        // What makes an inode extended: a size of more than 32 bits, and owners of more than 16.
        let mut tests = vec![format!("!size={}..", u64::from(u32::MAX) + 1)];
        for (test, forced, option) in [("owner", self.owner.0, "--uid-offset"), ("group", self.owner.1, "--gid-offset")]
        {
            let mut offsets = self.out.values(option).filter_map(|offset| offset.to_str()?.parse::<u32>().ok());
            let offset = offsets.next_back().unwrap_or(0);
            // Owners after the offset are stored, but rules see them before.
            let most = u32::from(u16::MAX).checked_sub(offset)?;
            match forced {
                // All entries are extended for their owner then.
                Some(id) if id > most => return None,
                Some(_) => {}
                None => tests.push(format!("{test}=..{most}")),
            }
        }
        Some(format!("{} -> time={time}", tests.join(" ")))
    }
}
