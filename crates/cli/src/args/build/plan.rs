//! Options of `packfs build`, resolved: what is left open is decided, and what does not go together is refused.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use packfs_image::build::{AnyOptions, OptionDraft};
use packfs_image::name::display;
use packfs_image::request::{AppendedImage, FieldNames, NewRoot};
use packfs_image::source::dir;
use packfs_image::tree::{ExcludeXattrs, Time, TimeChange, TreeTransform};
use packfs_image::{BuildRequest, erofs, squashfs};
use packfs_seal::HashAlgorithm;

use super::full::GivenOptions;
use super::{BuildArgs, BuildSeal, DeltaIndex, FormatChoice, table};
use crate::args::RemoteArgs;
use crate::output::failure::UsageError;

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

/// A list of owners, modes and capabilities.
#[derive(Debug)]
pub(crate) struct FsConfigFrom {
    pub(crate) file: PathBuf,
    /// Path with which its paths begin.
    pub(crate) mount_point: PathBuf,
}

/// Files that options name. Their contents become part of the request before the work begins.
#[derive(Debug)]
pub(crate) struct ListPaths {
    pub(crate) paths: Option<FilesFrom>,
    pub(crate) sort: Option<PathBuf>,
    pub(crate) hot: Option<PathBuf>,
    pub(crate) rules: RulesFrom,
    pub(crate) fs_config: Option<FsConfigFrom>,
}

/// A build, decided in every point.
#[derive(Debug)]
pub(crate) struct BuildPlan {
    /// Options that are repeated in the complete command line.
    pub(crate) given: GivenOptions,
    /// All that the library is told.
    pub(crate) request: BuildRequest,
    pub(crate) lists: ListPaths,
    pub(crate) remote: RemoteArgs,
    pub(crate) output: PathBuf,
    /// File for the paths of the entries; `-` is standard output.
    pub(crate) list: Option<PathBuf>,
    /// The image's own time; without, the newest in the tree.
    pub(crate) image_time: Option<i64>,
    /// Hash function of an image of composefs.
    pub(crate) composefs: Option<HashAlgorithm>,
    /// Directory for the objects of such an image.
    pub(crate) objects: Option<PathBuf>,
    /// Seal to make beside the image.
    pub(crate) seal: Option<BuildSeal>,
    /// Index for updates to write beside the image.
    pub(crate) delta_index: Option<DeltaIndex>,
    pub(crate) dry_run: bool,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) percentage: bool,
}

impl BuildPlan {
    /// Returns true if the image goes to standard output.
    pub(crate) fn writes_to_stdout(&self) -> bool {
        self.output.as_os_str() == "-"
    }

    /// Returns the file that the image becomes, if it is one.
    pub(crate) fn output_file(&self) -> Option<&Path> {
        (!self.writes_to_stdout()).then_some(&self.output)
    }
}

impl BuildArgs {
    /// Resolves the options that are left open. `epoch` is the value of `SOURCE_DATE_EPOCH`.
    pub(crate) fn resolve(mut self, epoch: Option<&str>) -> Result<BuildPlan, UsageError> {
        self.refuse_other_words_on_stdout()?;
        self.refuse_what_composefs_decides()?;
        self.refuse_to_read_stdin_twice()?;
        let format = self.format();
        table::refuse_other_format(format, display(&self.output), &self.squashfs, &self.erofs)?;
        // After the refusal, which is about what was given: a preset fills in the rest.
        if let Some(preset) = self.preset {
            preset.fill(&mut self, format);
        }
        let time = time_change(self.time, epoch)?;
        let image_time = image_time(self.image_time.map_or(time, TimeChange::Set), format)?;
        let transform = self.transform(time)?;
        self.refuse_list_and_json()?;
        let target = self.target(format, image_time)?;
        let scan = self.scan_options(target.common().threads)?;
        let mut request = BuildRequest::new(target);
        request.implied_dirs = self.around.implied(image_time.unwrap_or(0));
        request.sources = self.sources;
        request.layers = self.layers;
        request.new_root = self.around.subdir.map(|dir| NewRoot { dir, retarget: self.around.retarget });
        request.additions = self.add;
        request.append = self.append.map(|image| AppendedImage { image, below: self.append_below });
        request.scan = scan;
        request.max_file_size = self.max_file_size;
        request.entry_time = Time { secs: image_time.unwrap_or(0), nanos: 0 };
        request.hard_links = !self.no_hard_links;
        request.whiteouts = self.whiteouts.into();
        request.transform = transform;
        request.clip_times = self.around.clip_times;
        request.spool = self.spool;
        request.strict = self.strict;
        request.names = FieldNames { new_root: "--subdir", additions: "--add", exclude: "--exclude" };
        let mount_point = self.around.fs_config_below.unwrap_or_default();
        let lists = ListPaths {
            paths: self.files_from.map(|file| FilesFrom { file, separator: if self.null { 0 } else { b'\n' } }),
            sort: self.sort,
            hot: self.hot,
            rules: RulesFrom { files: self.rules, lines: self.rule },
            fs_config: self.around.fs_config.map(|file| FsConfigFrom { file, mount_point }),
        };
        Ok(BuildPlan {
            given: self.given,
            request,
            lists,
            remote: self.remote,
            output: self.output,
            list: self.around.list,
            image_time,
            composefs: self.composefs.composefs,
            objects: self.composefs.objects,
            seal: self.seal.resolve(),
            delta_index: self.delta_index.resolve(),
            dry_run: self.dry_run,
            json: self.json,
            quiet: self.talk.quiet,
            percentage: self.percentage,
        })
    }

    fn refuse_list_and_json(&self) -> Result<(), UsageError> {
        if self.json && self.around.list.as_deref() == Some(Path::new("-")) {
            return Err(UsageError("--list and --json both write to standard output: give --list=FILE".into()));
        }
        Ok(())
    }

    fn refuse_to_read_stdin_twice(&self) -> Result<(), UsageError> {
        let lists = [&self.files_from, &self.sort, &self.hot, &self.around.fs_config];
        let files = self.sources.iter().chain(lists.into_iter().flatten()).chain(&self.rules);
        if files.filter(|file| file.as_os_str() == "-").count() > 1 {
            return Err(UsageError("standard input (`-`) can be read only once".into()));
        }
        Ok(())
    }

    /// Returns the changes to the attributes of all entries.
    fn transform(&self, time: TimeChange) -> Result<TreeTransform, UsageError> {
        let (uid, gid) = self.owner.unwrap_or_default();
        let exclude_xattrs = ExcludeXattrs::new(&self.exclude_xattr).map_err(|error| UsageError(error.to_string()))?;
        Ok(TreeTransform {
            uid,
            gid,
            uid_offset: self.uid_offset,
            gid_offset: self.gid_offset,
            mode: self.mode.clone().unwrap_or_default(),
            time,
            drop_xattrs: self.no_xattrs,
            exclude_xattrs,
        })
    }

    /// Returns the options of the format, with defaults for those that were not given.
    fn target(&self, format: FormatChoice, image_time: Option<i64>) -> Result<AnyOptions, UsageError> {
        let offset = if self.offset > 0 { self.offset } else { self.around.offset()?.unwrap_or(0) };
        let (reuse, index) = self.reuse.resolve(&self.output)?;
        let mut defaults = match format {
            FormatChoice::Squashfs => AnyOptions::Squashfs(squashfs::SquashfsOptions::default()),
            FormatChoice::Erofs => AnyOptions::Erofs(erofs::ErofsOptions::default()),
        };
        let common = defaults.common_mut();
        common.shards = self.shards.resolve();
        common.verify = !self.no_verify;
        common.offset = offset;
        common.prefix = self.around.prefix.clone();
        common.time = image_time;
        common.force = self.force;
        common.reuse = reuse;
        common.index = index;
        common.on_error = self.on_error.into();
        common.threads = self.effort.threads();
        common.memory = self.effort.memory();
        let sources = u16::try_from(self.sources.len()).unwrap_or(u16::MAX);
        let mut draft = OptionDraft::new(defaults, sources);
        self.compression.apply(&mut draft)?;
        self.layout.apply(&mut draft)?;
        self.squashfs.apply(&mut draft)?;
        self.erofs.apply(&mut draft)?;
        table::resolve(draft)
    }

    fn scan_options(&self, threads: usize) -> Result<dir::Options, UsageError> {
        let exclude = self.around.below(self.exclude.resolve()?.with_max_depth(self.max_depth));
        Ok(dir::Options::default().set(|scan| {
            scan.threads = threads;
            scan.on_error = self.on_error.into();
            scan.one_file_system = self.one_file_system;
            scan.no_mount_points = self.around.no_mount_points;
            scan.keep_existing = self.around.keep_existing;
            scan.exclude = exclude;
        }))
    }

    /// Fails if something else goes to standard output than the image.
    fn refuse_other_words_on_stdout(&self) -> Result<(), UsageError> {
        let list = self.around.list.as_deref() == Some(Path::new("-"));
        let others = [
            (self.json, "--json"),
            (self.percentage, "--percentage"),
            (list, "--list without a file"),
            (self.shards.resolve().is_some(), "--shards"),
            (self.append.is_some(), "--append"),
            (self.reuse.is_given(), "--reuse and --index"),
            (self.seal.is_given(), "--seal"),
            (self.delta_index.is_given(), "--delta-index"),
        ];
        match others.iter().find(|(given, _)| *given && self.output.as_os_str() == "-") {
            Some((_, option)) => {
                Err(UsageError(format!("--output -: standard output is for the image alone, without {option}")))
            }
            None => Ok(()),
        }
    }
}

pub(super) fn time_change(set: Option<Time>, epoch: Option<&str>) -> Result<TimeChange, UsageError> {
    match (set, epoch) {
        (Some(time), _) => Ok(TimeChange::Set(time)),
        (None, None | Some("")) => Ok(TimeChange::Keep),
        (None, Some(text)) => match text.parse() {
            // As its specification has it: later times are moved to it, earlier ones stay.
            Ok(secs) => Ok(TimeChange::Clamp(Time { secs, nanos: 0 })),
            Err(_) => Err(UsageError(format!("SOURCE_DATE_EPOCH is `{text}`: expected seconds since 1970"))),
        },
    }
}

pub(super) fn image_time(change: TimeChange, format: FormatChoice) -> Result<Option<i64>, UsageError> {
    let (TimeChange::Clamp(Time { secs, .. }) | TimeChange::Set(Time { secs, .. })) = change else { return Ok(None) };
    if format == FormatChoice::Squashfs && u32::try_from(secs).is_err() {
        return Err(UsageError(format!(
            "time {secs}: SquashFS holds 1970 to 2106-02-07T06:28:15Z; EROFS holds any time"
        )));
    }
    Ok(Some(secs))
}
