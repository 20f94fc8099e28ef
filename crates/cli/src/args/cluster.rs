//! Options of the commands that build images on many machines: `plan`, `shard`, `assemble`, `status`.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum, ValueHint};
use packfs_image::Part;
use packfs_image::build::Shards;

use super::build::ids_without_shards;
use super::{BuildArgs, EffortArgs, RunArgs, TalkArgs, value};
use crate::output::failure::UsageError;

/// Plan a build in shards that many machines can pack.
///
/// Scans the SOURCE directories and writes a plan for `packfs shard` and `packfs assemble`. The options are those of
/// `packfs build`, and the image has the same bytes. If a file changes after the plan was made, its shard cannot be
/// packed. With --each, one plan has many images.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs plan /data/set -o set.plan --shards 64 --format erofs
  packfs plan /data/set -o part7 --scan 7/16
  packfs plan /data/set -o set.plan --shards 64 --merge part*
  packfs plan /data/set -o set.plan --shard-size 100G --codec zstd:15 --for slurm > set.sh
  packfs plan --each nightly.list -o nightly.plan --shard-size 50G --for slurm > nightly.sh")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) build: PlannedBuild,

    /// Plan an image for each line of LIST: SOURCE... -o IMAGE and options
    ///
    /// A line has the syntax of a shell's command line and the options of `packfs build`; `#` begins a comment. A task
    /// makes one image, or packs a shard of one that --shard-size or --shards cuts. The longest tasks come first. `-`
    /// reads standard input.
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    pub(crate) each: Option<PathBuf>,

    /// Print a script that runs the job
    ///
    /// The script contains paths of this machine, which must be the same on all nodes. Change it as needed.
    #[arg(long = "for", value_enum, value_name = "ENGINE", help_heading = None, display_order = 0)]
    pub(crate) engine: Option<TaskEngine>,

    /// Scan only part I of N of the sources, and write a PART for --merge
    ///
    /// The parts can be scanned at the same time on many machines. Each reads the attributes of about the same number of
    /// entries; sources must be directories. Give the same sources, and the same options that leave entries out.
    #[arg(long, value_name = "I/N", value_parser = value::part, conflicts_with_all = ["each", "engine", "merge"],
          display_order = 0)]
    pub(crate) scan: Option<Part>,

    /// Take the entries of the sources from all parts of a scan
    ///
    /// The plan has the same bytes as one that scans the sources itself. Give the sources first. Memory does not grow
    /// with the number of entries: half of --memory, at most 128 MiB, and 0.3 MiB for each part. The rest is in
    /// temporary files beside PLAN, some 300 bytes for each file. Several sources, and options that add, remove or
    /// select entries, need the whole tree in memory.
    #[arg(long, value_name = "PART", num_args = 1.., conflicts_with = "each", value_hint = ValueHint::FilePath,
          display_order = 0)]
    pub(crate) merge: Vec<PathBuf>,
}

/// A program that runs tasks on many machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskEngine {
    /// Slurm: an array of tasks, and the assembly after it
    Slurm,
    /// HyperQueue
    Hq,
    /// Kubernetes: an indexed job (never tried on a cluster)
    K8s,
    /// GNU parallel
    Parallel,
}

/// The options of a build, of which the output is a plan.
#[derive(Debug)]
pub(crate) struct PlannedBuild(pub(crate) BuildArgs);

impl Args for PlannedBuild {
    fn augment_args(command: Command) -> Command {
        let command = BuildArgs::augment_args(command);
        let help = |text: &'static str| move |arg: clap::Arg| arg.help(text);
        let command = command.mut_arg("output", |arg| {
            let help = "Plan to write";
            arg.value_name("PLAN").help(help).long_help(help).display_order(0)
        });
        let command = command.mut_arg("sources", help("Directories to pack"));
        let command = command.mut_arg("force", help("Replace PLAN if it exists"));
        let command = command.mut_arg("format", help("Image format [default: squashfs]"));
        let command = command.mut_arg("strict", |arg| arg.long_help("Fail at the first warning about the sources"));
        // One of the two is required, so they are not among the details.
        let command = command.mut_arg("shards", |arg| {
            let help = "Number of shards";
            arg.help(help).long_help(help).help_heading(None::<&str>).display_order(0)
        });
        let command = command.mut_arg("shard_size", |arg| {
            arg.help("Approximate size of a shard, instead of their number").help_heading(None::<&str>).display_order(0)
        });
        // Options of single images belong into their lines.
        let command = command.mut_arg("sources", |arg| arg.required_unless_present("each"));
        let command = command.mut_args(|arg| match arg.get_id().as_str() {
            "output" | "force" | "shards" | "shard_size" | "jobs" | "memory" | "json" | "quiet" => arg,
            _ => arg.conflicts_with("each"),
        });
        // Options that shards exclude, and those of archives, images and addresses.
        let excluded = [
            "append",
            "append_below",
            "composefs",
            "delta_index",
            "dry_run",
            "index",
            "objects",
            "on_error",
            "percentage",
            "prefix",
            "reuse",
            "reuse_index",
            "seal",
            "seal_certificate",
            "seal_key",
            "spool",
        ];
        let remote = if cfg!(feature = "remote") { &["remote_cache", "remote_unversioned"][..] } else { &[] };
        let excluded = excluded.iter().chain(remote).map(|id| (*id).to_owned()).chain(ids_without_shards());
        excluded.fold(command, |command, id| command.mut_arg(id, |arg| arg.hide(true)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl PlannedBuild {
    /// Returns the builds of a list, with the numbers of their lines; `shards` are those of images whose line has none.
    pub(crate) fn each(self, list: &Path) -> Result<BuildList, UsageError> {
        let shards = self.0.shards().unwrap_or(Shards::Count(NonZeroU32::MIN));
        let builds = super::each::builds(list, &super::read("--each", list)?)?;
        let BuildArgs { output, force, effort, json, talk, .. } = self.0;
        Ok(BuildList { builds, shards, output, force, effort, json, quiet: talk.quiet })
    }
}

/// A list of builds, and the plan of them to write.
#[derive(Debug)]
pub(crate) struct BuildList {
    /// Builds, with the numbers of their lines.
    pub(crate) builds: Vec<(usize, BuildArgs)>,
    /// Cut of images whose line has none.
    pub(crate) shards: Shards,
    pub(crate) output: PathBuf,
    pub(crate) force: bool,
    pub(crate) effort: EffortArgs,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
}

impl FromArgMatches for PlannedBuild {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        BuildArgs::from_arg_matches(matches).map(PlannedBuild)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// Pack one shard of a plan, or make one image of a plan of many.
///
/// The shard appears in DIR when it is complete, so this command can be killed and repeated at any time. A shard that is
/// already there is read and compared with its checksums: a sound one is left alone, a damaged one is packed again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs shard set.plan 7 -o /scratch/set
  SLURM_ARRAY_TASK_ID=7 packfs shard set.plan -o /scratch/set")]
pub(crate) struct ShardArgs {
    /// Plan written by `packfs plan`
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath)]
    pub(crate) plan: PathBuf,

    /// Number of the shard or task, counted from 0
    ///
    /// The default is that of SLURM_ARRAY_TASK_ID, HQ_TASK_ID, JOB_COMPLETION_INDEX or PACKFS_SHARD.
    #[arg(value_name = "I", value_parser = value::count::<u32>)]
    pub(crate) shard: Option<u32>,

    /// Directory for shards; it is created if missing
    ///
    /// If the plan has many images, each image has its own directory in DIR.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) running: RunArgs,
}

/// Build the image from all shards of a plan.
///
/// Every byte is verified with the checksums of its shard before the image appears under its name. The image has the same
/// bytes as one of `packfs build` with the same options. If the plan has many images, all those that were cut into shards
/// and do not exist yet are assembled, at the paths in the plan.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs assemble set.plan /scratch/set -o set.erofs
  packfs assemble nightly.plan /scratch/nightly
  packfs assemble nightly.plan /scratch/nightly --shard 0/4")]
pub(crate) struct AssembleArgs {
    /// Plan written by `packfs plan`
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath)]
    pub(crate) plan: PathBuf,

    /// Directory of the shards
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,

    /// Image to write: a file or a block device
    ///
    /// A plan of many images contains their paths, so -o is not allowed.
    #[arg(short, long, value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// Replace IMAGE if it exists
    #[arg(short, long)]
    pub(crate) force: bool,

    /// Do not read the data of shards
    ///
    /// Damage since they were packed goes unnoticed until `packfs check`. Where the file system shares blocks between
    /// files (Btrfs, XFS), assembly then takes almost no time.
    #[arg(long)]
    pub(crate) no_verify: bool,

    /// If the plan has many images, assemble only part I of N of them
    #[arg(long, value_name = "I/N", value_parser = value::part, conflicts_with = "output")]
    pub(crate) shard: Option<Part>,

    #[command(flatten)]
    pub(crate) effort: EffortArgs,

    /// Print the summary as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

/// Show which shards of a plan are packed, running or failed.
///
/// Running tasks report their progress every five seconds; failed ones leave their error in DIR. The exit status is 1 if
/// any shard is not packed, or has changed since. The data of shards is not read; `packfs assemble` does that.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs status set.plan /scratch/set
  packfs status set.plan /scratch/set --watch
  packfs status set.plan /scratch/set --json")]
pub(crate) struct StatusArgs {
    /// Plan written by `packfs plan`
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath)]
    pub(crate) plan: PathBuf,

    /// Directory of the shards
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,

    /// Print the state again every SECONDS until all shards are packed
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "5",
          value_parser = value::number_in::<u32>(1..=u32::MAX.into()))]
    pub(crate) watch: Option<u32>,

    /// Print the state as JSON on standard output
    #[arg(long, conflicts_with = "watch")]
    pub(crate) json: bool,
}
