//! The command line: one file per command, each a clap struct with checks of single values.
//!
//! Everything that depends on several options or on the machine (formats, defaults, limits) is
//! decided in a second step by each command's `resolve`, before any work begins; errors there are
//! usage errors.

mod alter;
mod bench;
mod build;
mod cluster;
mod compare;
mod delta;
mod each;
#[cfg(feature = "serve")]
mod explore;
mod extra;
pub(crate) mod help;
mod join;
mod known;
#[cfg(feature = "mount")]
mod mount;
mod oci;
mod personality;
mod read;
pub(crate) mod refused;
mod remote;
mod seal;
mod select;
#[cfg(feature = "serve")]
mod serve;
mod split;
mod trace;
mod tune;
pub(crate) mod value;
mod verify;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

pub(crate) use alter::AlterArgs;
pub(crate) use bench::{
    BenchArgs, BenchBuildArgs, BenchCodecsArgs, BenchCommand, BenchMemoryArgs, BenchQuickArgs, BenchReadArgs,
    BenchReportArgs, BenchSplitArgs, MeasuringArgs,
};
pub(crate) use build::{
    BuildArgs, BuildPlan, BuildPreset, BuildSeal, DeltaIndex, FormatChoice, FsConfigFrom, ListPaths, RulesFrom,
    name_option,
};
pub(crate) use cluster::{AssembleArgs, BuildList, PlanArgs, ShardArgs, StatusArgs, TaskEngine};
pub(crate) use compare::{CheckArgs, DiffArgs};
pub(crate) use delta::{ApplyArgs, DeltaArgs, UpdateArgs};
#[cfg(feature = "serve")]
pub(crate) use explore::ExploreArgs;
pub(crate) use extra::{CompletionsArgs, ManArgs};
pub(crate) use join::{JoinArgs, JoinForm};
#[cfg(feature = "mount")]
pub(crate) use mount::{MountArgs, MountOffset, MountOptionList, UmountArgs};
pub(crate) use oci::{OciArgs, OciCacheArgs, OciCommand, OciConvertArgs, OciExportArgs, OciMergeArgs};
pub(crate) use personality::AsProgramArgs;
pub(crate) use read::{ArchiveFormat, CatArgs, ExtractArgs, InfoArgs, ListArgs, SortKey, TarArgs};
pub(crate) use remote::RemoteArgs;
pub(crate) use seal::{MinisignSubject, SealArgs, SealConsumer};
pub(crate) use select::{ExcludeArgs, SelectArgs, read};
#[cfg(feature = "serve")]
pub(crate) use serve::ServeArgs;
pub(crate) use split::SplitArgs;
pub(crate) use trace::TraceArgs;
pub(crate) use tune::{TrialBuild, TrialBuilds, TuneArgs};
pub(crate) use value::as_size;
#[cfg(feature = "remote")]
pub(crate) use value::size;
#[cfg(test)]
pub(crate) use value::time as parse_time;
pub(crate) use verify::{VerifyArgs, VerifyConsumer};

use crate::resources;

/// Pack file trees into compressed images, read, check and compare them.
///
/// The formats are SquashFS and EROFS. `split` stores one large stream, such as a crash dump, on several disks; `join`
/// restores it.
///
/// Exit status: 0 success; 1 failure, or damage or differences found; 2 wrong usage.
#[derive(Debug, Parser)]
#[command(name = "packfs", version, propagate_version = true, disable_help_subcommand = true)]
#[command(after_help = "\
Examples:
  packfs build /srv/root -o root.sqfs
  packfs list --long root.sqfs
  packfs extract root.sqfs -C /tmp/root
  packfs split /proc/vmcore -o /mnt/a/core -o /mnt/b/core

packfs build -h lists the most common options, packfs build --help all, and packfs help build explains them.")]
pub(crate) struct PackfsCli {
    #[command(subcommand)]
    pub(crate) command: PackfsCommand,
}

/// One variant a command.
#[derive(Debug, Subcommand)]
pub(crate) enum PackfsCommand {
    Build(Box<BuildArgs>),
    Extract(ExtractArgs),
    Tar(TarArgs),
    List(ListArgs),
    Cat(CatArgs),
    Info(InfoArgs),
    Check(CheckArgs),
    Diff(DiffArgs),
    Delta(DeltaArgs),
    Apply(ApplyArgs),
    Update(UpdateArgs),
    Seal(Box<SealArgs>),
    Verify(VerifyArgs),
    Oci(Box<OciArgs>),
    Split(Box<SplitArgs>),
    Join(JoinArgs),
    #[cfg(feature = "mount")]
    Mount(Box<MountArgs>),
    #[cfg(feature = "mount")]
    Umount(UmountArgs),
    #[cfg(feature = "serve")]
    Serve(Box<ServeArgs>),
    #[cfg(feature = "serve")]
    Explore(Box<ExploreArgs>),
    Bench(BenchArgs),
    Tune(Box<TuneArgs>),
    Trace(TraceArgs),
    As(AsProgramArgs),
    Plan(Box<PlanArgs>),
    Shard(ShardArgs),
    Assemble(AssembleArgs),
    Status(StatusArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    Help(help::HelpArgs),
}

impl PackfsCommand {
    /// Returns the sources whose unreadable entries can be left out; `None` if the command cannot leave out any.
    pub(crate) fn may_leave_out(&self) -> Option<Vec<PathBuf>> {
        match self {
            PackfsCommand::Build(build) => Some(build.sources().to_vec()),
            _ => None,
        }
    }
}

/// Resources of the machine to use.
#[derive(Debug, Args)]
pub(crate) struct EffortArgs {
    /// Number of worker threads; 0 does all work on one thread [default: all cores]
    ///
    /// The result does not depend on N. The default is all cores that the process may use, or fewer if limits of the
    /// process (ulimit) do not allow as many threads.
    #[arg(short = 'j', long = "jobs", value_name = "N", value_parser = value::jobs, allow_negative_numbers = true)]
    jobs: Option<usize>,

    /// Keep at most about SIZE of file data in memory
    ///
    /// The file tree takes memory in addition. The default is a share of what the process may use, within its cgroup
    /// limits.
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    memory: Option<u64>,
}

impl EffortArgs {
    /// Returns the number of worker threads for an operation that reads.
    pub(crate) fn threads(&self) -> usize {
        /// Memory of a worker that decodes: the window of EROFS's LZMA, 8 MiB, and a few blocks.
        const READER: u64 = 12 << 20;
        resources::threads_within_limits(self.jobs.unwrap_or_else(resources::cores), READER)
    }

    /// Returns the number of bytes of file data that may be held in memory.
    pub(crate) fn memory(&self) -> u64 {
        self.memory_or(|| resources::default_budget(self.threads()))
    }

    /// As [`EffortArgs::memory`], for operations with a default of their own.
    pub(crate) fn memory_or(&self, default: impl FnOnce() -> u64) -> u64 {
        self.memory.unwrap_or_else(default)
    }
}

/// Amount of messages during the work.
#[derive(Debug, Clone, Args)]
pub(crate) struct TalkArgs {
    /// Print only errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// The last options of commands that work on all cores and report a result.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) effort: EffortArgs,

    /// Print the result as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

/// Action for an entry that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    /// The command fails
    Stop,
    /// The entry is left out and reported
    Skip,
}

impl From<OnError> for packfs_image::OnError {
    fn from(on_error: OnError) -> Self {
        match on_error {
            OnError::Stop => packfs_image::OnError::Stop,
            OnError::Skip => packfs_image::OnError::Skip,
        }
    }
}

/// An image to read.
#[derive(Debug, Args)]
pub(crate) struct ImageArg {
    /// Image to read: a file, a block device or an address (https://...)
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub(crate) path: PathBuf,

    /// Byte offset of the image in the file
    #[arg(help_heading = "Image", long, value_name = "SIZE", default_value = "0", value_parser = value::size)]
    pub(crate) offset: u64,

    /// Additional device of an EROFS image (repeat in their order)
    #[arg(help_heading = "Image", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) device: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// The parts of a dump after the first, where parts may stand for an image.
#[derive(Debug, Args)]
pub(crate) struct PartsArg {
    /// Further parts if IMAGE is a part of a dump, in any order
    #[arg(value_name = "PART", value_hint = ValueHint::FilePath)]
    pub(crate) rest: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        PackfsCli::command().debug_assert();
    }

    #[test]
    fn every_command_and_option_is_explained_and_every_command_has_an_example() {
        explained(&PackfsCli::command(), "packfs");
    }

    /// A heading of flattened options that leaked would take the options after it along.
    #[test]
    fn headings_stay_with_their_options() {
        let mut packfs = PackfsCli::command();
        packfs.build();
        let heading = |command: &str, id: &str| {
            let command = packfs.find_subcommand(command).unwrap();
            let arg = command.get_arguments().find(|arg| arg.get_id() == id).unwrap();
            arg.get_help_heading().map(str::to_owned)
        };
        for (command, id) in [("extract", "directory"), ("tar", "output"), ("list", "long"), ("plan", "engine")] {
            assert_eq!(heading(command, id), None, "{command} {id}");
        }
        assert_eq!(heading("extract", "offset").as_deref(), Some("Image"));
    }

    /// Letters, and the only options that each stands for, in every command. `--codecs` is a list of what `--codec` takes,
    /// `--blocks` one of what `--block-size` takes; `-o` is `--options` where mount(8) has it.
    const SHORT: [(char, &[&str]); 11] = [
        ('b', &["block-size", "blocks"]),
        ('C', &["directory"]),
        ('c', &["codec", "codecs"]),
        ('f', &["force"]),
        ('h', &["help"]),
        ('j', &["jobs"]),
        ('l', &["long"]),
        ('o', &["output", "options"]),
        ('q', &["quiet"]),
        ('V', &["version"]),
        ('x', &["one-file-system"]),
    ];

    #[test]
    fn a_short_letter_means_the_same_in_every_command() {
        let mut packfs = PackfsCli::command();
        packfs.build();
        let mut commands = vec![&packfs];
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands());
            for arg in command.get_arguments() {
                let Some(long) = arg.get_long() else {
                    assert_eq!(arg.get_short(), None, "{}: {}", command.get_name(), arg.get_id());
                    continue;
                };
                // Checked both ways: a letter has one meaning, and an option with a letter has it everywhere.
                let letter = SHORT.iter().find(|(_, options)| options.contains(&long)).map(|(letter, _)| *letter);
                assert_eq!(arg.get_short(), letter, "{}: --{long}", command.get_name());
            }
        }
    }

    /// Length limit of the first line of help, which `-h` shows. A default in brackets may follow.
    const HELP_MAX: usize = 70;
    /// Beginnings of help that name neither a thing nor an action.
    const RIDDLES: [&str; 6] = ["What ", "Where ", "How ", "Whether ", "Which ", "Nothing "];

    /// Checks the first line of help of a command or option.
    fn assert_short(help: Option<&clap::builder::StyledStr>, of: &str) {
        let help = help.map(ToString::to_string).unwrap_or_default();
        let line = help.split(" [default").next().unwrap_or_default();
        assert!(!line.is_empty() && line.chars().count() <= HELP_MAX, "{of}: {} characters: {line}", line.len());
        assert!(!line.contains('\n') && !RIDDLES.iter().any(|word| line.starts_with(word)), "{of}: {line}");
    }

    /// Checks the options of a command, and of its subcommands.
    fn explained(parent: &clap::Command, prefix: &str) {
        for command in parent.get_subcommands() {
            let name = format!("{prefix} {}", command.get_name());
            assert_short(command.get_about(), &name);
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains(&name), "{name}: no example");
            for arg in command.get_arguments() {
                assert_short(arg.get_help(), &format!("{name}: {}", arg.get_id()));
            }
            explained(command, &name);
        }
    }
}
