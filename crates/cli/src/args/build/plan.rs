//! Options of `packfs build`, resolved: what is left open is decided, and what does not go together is refused.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use packfs_codec::Choice;
use packfs_image::build::{self, AnyOptions};
use packfs_image::name::display;
use packfs_image::source::Exclude;
use packfs_image::tree::{ExcludeXattrs, Meta, Time, TimeChange, Transform, Whiteouts};

use super::full::GivenOptions;
use super::{Build, CodecArg, Format, Fragments, Order};
use crate::args::RemoteArgs;
use crate::output::failure::Usage;
use crate::resources;

/// Input for each format's options besides its own arguments. Values whose default depends on the format are as
/// typed.
#[derive(Debug)]
pub(super) struct Shared {
    /// Number of sources.
    pub(super) sources: u16,
    pub(super) codec: Option<CodecArg>,
    pub(super) block_size: Option<u64>,
    pub(super) fragments: Option<Fragments>,
    pub(super) order: Option<Order>,
    pub(super) dedup: bool,
    pub(super) shards: Option<build::Shards>,
    pub(super) sparse: bool,
    pub(super) verify: bool,
    pub(super) offset: u64,
    pub(super) prefix: Option<PathBuf>,
    pub(super) time: Option<i64>,
    pub(super) force: bool,
    pub(super) reuse: Option<build::Reuse>,
    pub(super) index: Option<PathBuf>,
    pub(super) on_error: packfs_image::OnError,
    pub(super) threads: usize,
    pub(super) memory: u64,
}

impl Shared {
    /// Returns the format-independent library options, from a format's defaults and the codec.
    pub(super) fn build(&self, mut options: build::Options, codec: Choice) -> build::Options {
        options.codec = codec;
        options.order = self.order.map(build::Order::from);
        options.dedup = self.dedup;
        options.shards = self.shards;
        options.sparse = self.sparse;
        options.verify = self.verify;
        options.offset = self.offset;
        options.prefix = self.prefix.clone();
        options.time = self.time;
        options.force = self.force;
        options.reuse = self.reuse.clone();
        options.index = self.index.clone();
        options.on_error = self.on_error;
        options.threads = self.threads;
        options.memory = self.memory;
        options
    }
}

/// A list of the paths of files.
#[derive(Debug)]
pub(crate) struct FilesFrom {
    pub(crate) file: PathBuf,
    /// Byte between paths.
    pub(crate) separator: u8,
}

/// Rules for single entries, as given.
#[derive(Debug)]
pub(crate) struct RulesFrom {
    pub(crate) files: Vec<PathBuf>,
    /// Lines of rules, applied after the files.
    pub(crate) lines: Vec<OsString>,
}

/// A build, decided in every point.
#[derive(Debug)]
pub(crate) struct BuildPlan {
    /// Options that are repeated in the complete command line.
    pub(crate) given: GivenOptions,
    pub(crate) sources: Vec<PathBuf>,
    /// A list of files, packed after the sources.
    pub(crate) files: Option<FilesFrom>,
    /// Lines of a pack list, applied after the sources.
    pub(crate) add: Vec<OsString>,
    /// An image to keep, and the directory for what is in it.
    pub(crate) append: Option<(PathBuf, Option<OsString>)>,
    pub(crate) remote: RemoteArgs,
    pub(crate) output: PathBuf,
    pub(crate) target: AnyOptions,
    pub(crate) exclude: Exclude,
    /// The directory of the sources that becomes the root.
    pub(crate) subdir: Option<PathBuf>,
    /// True to change targets of symbolic links with it.
    pub(crate) retarget: bool,
    pub(crate) one_file_system: bool,
    pub(crate) no_mount_points: bool,
    pub(crate) keep_existing: bool,
    pub(crate) clip_times: bool,
    /// Attributes of directories that no source describes.
    pub(crate) implied: Option<Meta>,
    /// File for the paths of the entries; `-` is standard output.
    pub(crate) list: Option<PathBuf>,
    pub(crate) sort: Option<PathBuf>,
    pub(crate) hot: Option<PathBuf>,
    pub(crate) spool: bool,
    pub(crate) whiteouts: Whiteouts,
    /// File with owners, modes and capabilities, and the mount point with which its paths begin.
    pub(crate) fs_config: Option<(PathBuf, PathBuf)>,
    /// True if an opaque directory hides entries of earlier sources.
    pub(crate) layers: bool,
    pub(crate) hard_links: bool,
    pub(crate) rules: RulesFrom,
    pub(crate) transform: Transform,
    /// The image's own time; without, the newest in the tree.
    pub(crate) image_time: Option<i64>,
    pub(crate) threads: usize,
    pub(crate) on_error: packfs_image::OnError,
    pub(crate) strict: bool,
    pub(crate) dry_run: bool,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) percentage: bool,
}

impl BuildPlan {
    /// Returns true if times that SquashFS cannot hold move to the nearest that it can.
    pub(crate) fn clips_times(&self) -> bool {
        self.clip_times && matches!(self.target, AnyOptions::Squashfs(_))
    }

    /// Returns the time of entries whose source has none for them.
    pub(crate) fn entry_time(&self) -> Time {
        Time { secs: self.image_time.unwrap_or(0), nanos: 0 }
    }
}

impl Build {
    /// Resolves the options that are left open. `epoch` is the value of `SOURCE_DATE_EPOCH`.
    pub(crate) fn resolve(mut self, epoch: Option<&str>) -> Result<BuildPlan, Usage> {
        self.refuse_other_words_on_stdout()?;
        let from_stdin = self.sources.iter().chain(&self.files_from).filter(|source| source.as_os_str() == "-");
        if from_stdin.count() > 1 {
            return Err(Usage("standard input (`-`) can be read only once".into()));
        }
        self.refuse_options_of_the_other_format()?;
        let format = self.format();
        if let Some(preset) = self.preset {
            preset.fill(&mut self, format);
        }
        let usage = |error: packfs_image::Error| Usage(error.to_string());
        let time = time_change(self.time, epoch)?;
        let image_time = image_time(self.image_time.map_or(time, TimeChange::Set), format)?;
        let (uid, gid) = self.owner.unwrap_or_default();
        let transform = Transform {
            uid,
            gid,
            uid_offset: self.uid_offset,
            gid_offset: self.gid_offset,
            mode: self.mode.unwrap_or_default(),
            time,
            drop_xattrs: self.no_xattrs,
            exclude_xattrs: ExcludeXattrs::new(&self.exclude_xattr).map_err(usage)?,
        };
        if self.json && self.around.list.as_deref() == Some(Path::new("-")) {
            return Err(Usage("--list and --json both write to standard output: give --list=FILE".into()));
        }
        let offset = if self.offset > 0 { self.offset } else { self.around.offset()?.unwrap_or(0) };
        let (reuse, index) = self.reuse.resolve(&self.output)?;
        let shared = Shared {
            sources: u16::try_from(self.sources.len()).unwrap_or(u16::MAX),
            reuse,
            index,
            codec: self.codec,
            block_size: self.block_size,
            fragments: self.fragments,
            order: self.order,
            dedup: !self.no_dedup,
            shards: self.shards.resolve(),
            sparse: !self.no_sparse,
            verify: !self.no_verify,
            offset,
            prefix: self.around.prefix.clone(),
            time: image_time,
            force: self.force,
            on_error: self.on_error.into(),
            threads: self.effort.threads(),
            memory: self.effort.memory(),
        };
        let mut target = match format {
            Format::Squashfs => AnyOptions::Squashfs(self.squashfs.resolve(shared)?),
            Format::Erofs => AnyOptions::Erofs(self.erofs.resolve(shared)?),
        };
        let threads = resources::threads_within_limits(target.common().threads, target.worker_memory());
        target.common_mut().threads = threads;
        Ok(BuildPlan {
            exclude: self.around.below(self.exclude.resolve()?.with_max_depth(self.max_depth)),
            given: self.given,
            transform,
            image_time,
            threads,
            on_error: self.on_error.into(),
            target,
            sources: self.sources,
            files: self.files_from.map(|file| FilesFrom { file, separator: if self.null { 0 } else { b'\n' } }),
            add: self.add,
            append: self.append.map(|image| (image, self.append_below)),
            remote: self.remote,
            output: self.output,
            one_file_system: self.one_file_system,
            no_mount_points: self.around.no_mount_points,
            keep_existing: self.around.keep_existing,
            clip_times: self.around.clip_times,
            implied: self.around.implied(image_time.unwrap_or(0)),
            fs_config: self.around.fs_config.map(|file| (file, self.around.fs_config_below.unwrap_or_default())),
            subdir: self.around.subdir,
            retarget: self.around.retarget,
            list: self.around.list,
            whiteouts: self.whiteouts.into(),
            layers: self.layers,
            hard_links: !self.no_hard_links,
            rules: RulesFrom { files: self.rules, lines: self.rule },
            sort: self.sort,
            hot: self.hot,
            spool: self.spool,
            strict: self.strict,
            dry_run: self.dry_run,
            json: self.json,
            quiet: self.talk.quiet,
            percentage: self.percentage,
        })
    }

    /// Fails if something else goes to standard output than the image.
    fn refuse_other_words_on_stdout(&self) -> Result<(), Usage> {
        let list = self.around.list.as_deref() == Some(Path::new("-"));
        let others = [
            (self.json, "--json"),
            (self.percentage, "--percentage"),
            (list, "--list without a file"),
            (self.shards.resolve().is_some(), "--shards"),
            (self.append.is_some(), "--append"),
            (self.reuse.is_given(), "--reuse and --index"),
        ];
        match others.iter().find(|(given, _)| *given && self.output.as_os_str() == "-") {
            Some((_, option)) => {
                Err(Usage(format!("--output -: standard output is for the image alone, without {option}")))
            }
            None => Ok(()),
        }
    }

    fn refuse_options_of_the_other_format(&self) -> Result<(), Usage> {
        let format = self.format();
        let (given, other) = match format {
            Format::Squashfs => (self.erofs.given(), Format::Erofs),
            Format::Erofs => (self.squashfs.given(), Format::Squashfs),
        };
        let Some(option) = given else { return Ok(()) };
        let (image, other) = (display(&self.output), other.name());
        let text = format!("{option} is for {other} images, and {image} becomes {}: leave one out", format.name());
        Err(Usage(format!("{text}, or give --format {other}")))
    }
}

pub(super) fn time_change(set: Option<Time>, epoch: Option<&str>) -> Result<TimeChange, Usage> {
    match (set, epoch) {
        (Some(time), _) => Ok(TimeChange::Set(time)),
        (None, None | Some("")) => Ok(TimeChange::Keep),
        (None, Some(text)) => match text.parse() {
            Ok(secs) => Ok(TimeChange::Clamp(Time { secs, nanos: 0 })),
            Err(_) => Err(Usage(format!("SOURCE_DATE_EPOCH is `{text}`: expected seconds since 1970"))),
        },
    }
}

pub(super) fn image_time(change: TimeChange, format: Format) -> Result<Option<i64>, Usage> {
    let (TimeChange::Clamp(Time { secs, .. }) | TimeChange::Set(Time { secs, .. })) = change else { return Ok(None) };
    if format == Format::Squashfs && u32::try_from(secs).is_err() {
        return Err(Usage(format!("time {secs}: SquashFS holds 1970 to 2106-02-07T06:28:15Z; EROFS holds any time")));
    }
    Ok(Some(secs))
}
