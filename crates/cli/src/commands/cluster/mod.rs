//! `packfs plan`, `shard`, `assemble` and `status`: images built on many machines.

mod each;
mod runner;
pub(super) mod scan;
mod status;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use packfs_blocks::Progress;
use packfs_image::build::{AnyOptions, BuildSummary, Job, Jobs, PlanSummary};
use packfs_image::name::{display, encode};
use packfs_image::request::RequestNotes;
use packfs_image::source::Store;
use serde::Serialize;

pub(super) use self::status::status;
use super::build::{OversizedLine, complete_request, fill_tree};
use crate::args::{self, EffortArgs};
use crate::output::failure::{self, CommandOutcome, UsageError};
use crate::output::json::JsonDocument;
use crate::output::meter::ProgressMeter;
use crate::output::{json, quote_words, say, units, warnings};

/// Variables from which a task knows its number, in the order in which they are tried.
const NUMBERS: [&str; 4] = ["SLURM_ARRAY_TASK_ID", "HQ_TASK_ID", "JOB_COMPLETION_INDEX", "PACKFS_SHARD"];

pub(super) fn plan(args: args::PlanArgs) -> Result<CommandOutcome> {
    match &args.each {
        Some(list) => {
            let each = args.build.each(list)?;
            refuse_script_as_json(args.engine, each.json)?;
            each::plan(each, list, args.engine)
        }
        None => plan_image(args),
    }
}

/// Plans one image, or scans a part of its sources.
fn plan_image(args: args::PlanArgs) -> Result<CommandOutcome> {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let mut plan = args.build.0.resolve(epoch.as_deref())?;
    if plan.output.as_os_str() == "-" || matches!(&plan.request.target, AnyOptions::Squashfs(options) if options.stream)
    {
        return Err(UsageError("the image of a plan cannot be streamed or written to standard output".into()).into());
    }
    refuse_build_options(&plan)?;
    if let Some(part) = args.scan {
        return scan::write_scan_part(&plan, part);
    }
    if plan.request.target.common().shards.is_none() {
        return Err(UsageError("a plan needs the number of shards: --shards N, or --shard-size SIZE".into()).into());
    }
    refuse_script_as_json(args.engine, plan.json)?;
    plan.request.sources.iter().try_for_each(|source| super::sources::refuse_mistaken(source))?;
    complete_request(&mut plan)?;
    let meter = ProgressMeter::start(plan.quiet);
    let progress = Arc::clone(meter.progress());
    plan.request.scan.parts = scan::open_parts(&plan, &args.merge, &progress)?;
    let planned = write_plan(&plan, &progress);
    let spent = meter.finish();
    let (planned, warned) = planned.with_context(|| format!("planning {}", display(&plan.output)))?;
    if !plan.quiet {
        warnings::print(&warned);
    }
    if let Some(engine) = args.engine {
        let tasks = runner::PlanTasks { tasks: planned.shards, cut_images: None };
        let script = runner::make_script(engine, &plan.output, plan.request.target.format(), &tasks)?;
        return super::print(&script);
    }
    let text = describe_plan(&planned, spent.time);
    let done = ClusterReport { path: &plan.output, seconds: spent.time.as_secs_f64(), figures: planned };
    report_done(plan.json, plan.quiet, &done, &text)
}

/// Both the script for an engine and the JSON would go to standard output.
fn refuse_script_as_json(engine: Option<args::TaskEngine>, json: bool) -> Result<(), UsageError> {
    if engine.is_some() && json {
        return Err(UsageError("packfs plan cannot combine --json with --for".into()));
    }
    Ok(())
}

fn describe_plan(planned: &PlanSummary, time: Duration) -> String {
    let PlanSummary { shards, files, file_bytes, largest_bytes, equal_files, plan_bytes, .. } = *planned;
    format!(
        "planned     {} of {} in {}; the largest has {}\nequal       {} also in an earlier shard\nplan        {} in {}",
        units::of(files.into(), "file"),
        units::bytes(file_bytes),
        units::of(shards.into(), "shard"),
        units::bytes(largest_bytes),
        units::of(equal_files.into(), "file"),
        units::bytes(plan_bytes),
        units::span(time),
    )
}

/// Writes a plan; from parts of a scan without the tree in memory if the options allow that.
fn write_plan(
    plan: &args::BuildPlan,
    progress: &Arc<Progress>,
) -> packfs_image::Result<(PlanSummary, packfs_image::Warnings)> {
    let target = &plan.request.target;
    // A list of all paths needs the tree.
    if plan.list.is_none()
        && let Some(merged) = plan.request.merged(plan.output_file(), progress)?
    {
        return target.plan_merged(&plan.output, progress, &merged);
    }
    let mut notes = RequestNotes::default();
    let planned =
        target.plan(&plan.output, progress, |store: &mut dyn Store| fill_tree(plan, store, progress, &mut notes))?;
    if let Some(oversized) = notes.oversized.filter(|_| !plan.quiet) {
        say(OversizedLine(&oversized));
    }
    Ok(planned)
}

/// Refuses options of a build that a plan cannot have.
fn refuse_build_options(plan: &args::BuildPlan) -> Result<(), UsageError> {
    const NO_OLDER: &str = "an image in shards can neither reuse another one nor have an index";
    let common = plan.request.target.common();
    let refused = [
        (plan.dry_run, "--dry-run", "use it with `packfs build`, which has the same options"),
        (plan.composefs.is_some(), "--composefs", "an image of metadata alone has nothing to divide"),
        (plan.delta_index.is_some(), "--delta-index", "there is no image yet of which it could list the blocks"),
        (plan.seal.is_some(), "--seal", "there is no image yet: seal the one that `packfs assemble` makes"),
        (plan.percentage, "--percentage", "there is no build to follow; `packfs status` shows the shards"),
        (
            plan.request.append.is_some(),
            "--append",
            "shards read files of directories, not of OLD_IMAGE: extract it and give its directory as the first source",
        ),
        (common.prefix.is_some(), "--prefix", "an image in shards cannot have a prefix"),
        (common.reuse.is_some(), "--reuse", NO_OLDER),
        (common.index.is_some(), "--index", NO_OLDER),
        (
            plan.request.scan.on_error == packfs_image::OnError::Skip,
            "--on-error skip",
            "an image in shards cannot leave out files that cannot be read",
        ),
        (plan.request.spool, "--spool", "a plan reads no archives, and there is nothing to copy"),
    ];
    match refused.iter().find(|(given, ..)| *given) {
        Some((_, option, why)) => Err(UsageError(format!("{option}: {why}"))),
        None => Ok(()),
    }
}

pub(super) fn shard(args: &args::ShardArgs) -> Result<CommandOutcome> {
    let jobs = Jobs::open(&args.plan)?;
    let number = match args.shard {
        Some(number) => number,
        None => task_number()?,
    };
    let count = jobs.tasks().len();
    let Some(task) = jobs.tasks().get(number as usize) else {
        let last = count.saturating_sub(1);
        return Err(UsageError(format!("shard {number}: the plan has shards 0 to {last}")).into());
    };
    create_shard_dir(&args.output)?;
    // Whether an image may be replaced was decided when it was planned.
    let job = open_job(&jobs, task.image, &args.running.effort, true)?;
    let meter = ProgressMeter::start(args.running.talk.quiet);
    let progress = Arc::clone(meter.progress());
    let packed = jobs.run(task, &job, &args.output, &progress);
    let spent = meter.finish();
    let image = jobs.path(task.image);
    let of = image.map_or_else(String::new, |image| format!(" ({})", display(image)));
    let packed = packed.with_context(|| format!("packing shard {number} of {}{of}", display(&args.plan)))?;
    let figures = PackedShard { shard: number, packed, file_bytes: task.bytes, image };
    let done = ClusterReport { path: &args.plan, seconds: spent.time.as_secs_f64(), figures };
    let text = if packed {
        let bytes = units::bytes(task.bytes);
        let time = units::span(spent.time);
        format!("packed      shard {number} of {count}{of}, {bytes} in {time}")
    } else {
        format!("packed      shard {number} of {count}{of}, by an earlier run")
    };
    report_done(args.running.json, args.running.talk.quiet, &done, &text)
}

pub(super) fn assemble(args: &args::AssembleArgs) -> Result<CommandOutcome> {
    let jobs = Jobs::open(&args.plan)?;
    let is_set = jobs.path(0).is_some();
    match &args.output {
        None if !is_set => Err(UsageError("a plan of one image needs its path: -o IMAGE".into()).into()),
        Some(_) if is_set => {
            let why = "a plan of many images contains their paths: leave out -o";
            Err(UsageError(format!("{}: {why}", display(&args.plan))).into())
        }
        None => assemble_all(args, &jobs),
        Some(_) if args.shard.is_some() => Err(UsageError("only many images can be assembled in parts".into()).into()),
        Some(output) => {
            let job = open_job_to_join(args, &jobs, 0, args.force)?;
            assemble_one(args, output, &job).map_err(|error| with_command(error, args, &jobs, 0))
        }
    }
}

fn assemble_one(args: &args::AssembleArgs, output: &Path, job: &Job) -> Result<CommandOutcome> {
    let meter = ProgressMeter::start(args.talk.quiet);
    let progress = Arc::clone(meter.progress());
    let built = job.assemble(&args.dir, output, &progress);
    let spent = meter.finish();
    let summary = built.with_context(|| format!("assembling {}", display(output)))?;
    let image = units::bytes(summary.image_bytes);
    let files = units::bytes(summary.file_bytes);
    let shards = units::of(job.shards().into(), "shard");
    let text = format!("assembled   {image} from {shards} with {files} of files in {}", units::span(spent.time));
    let figures = AssembledImage { shards: job.shards(), summary };
    let done = ClusterReport { path: output, seconds: spent.time.as_secs_f64(), figures };
    report_done(args.json, args.talk.quiet, &done, &text)
}

/// Assembles the images of a plan of many; one that cannot be assembled leaves the others alone.
fn assemble_all(args: &args::AssembleArgs, jobs: &Jobs) -> Result<CommandOutcome> {
    let part = args.shard.unwrap_or_default();
    let mut figures = AssembledSet::default();
    let mut failed = None;
    let meter = ProgressMeter::start(args.talk.quiet);
    let progress = Arc::clone(meter.progress());
    for (_, image) in (0..).zip(jobs.cut()).filter(|(number, _)| part.holds(*number)) {
        let assembled = open_job_to_join(args, jobs, image, true)
            .and_then(|mut job| Ok(jobs.assemble(image, &mut job, &args.dir, &progress)?));
        let name = || jobs.path(image).map_or_else(String::new, |path| display(path).to_string());
        let assembled = assembled.with_context(|| format!("assembling {}", name()));
        match assembled.map_err(|error| with_command(error, args, jobs, image)) {
            Ok(true) => figures.assembled += 1,
            Ok(false) => figures.earlier += 1,
            Err(error) if progress.is_cancelled() => return Err(error),
            Err(error) => {
                figures.failed += 1;
                // The last error becomes that of the command; those before it are told here.
                failed.replace(error).into_iter().for_each(|error| say(format_args!("packfs: {error:#}")));
            }
        }
    }
    let spent = meter.finish();
    let AssembledSet { assembled, earlier, .. } = figures;
    let time = units::span(spent.time);
    let text = format!("assembled   {} in {time}, {earlier} by an earlier run", units::of(assembled.into(), "image"));
    let done = ClusterReport { path: &args.plan, seconds: spent.time.as_secs_f64(), figures };
    let told = report_done(args.json, args.talk.quiet, &done, &text);
    failed.map_or(told, Err)
}

/// Adds the command that packs a missing or damaged shard.
fn with_command(error: anyhow::Error, args: &args::AssembleArgs, jobs: &Jobs, image: u32) -> anyhow::Error {
    let Some(packfs_image::Error::Shard { shard, .. }) = error.downcast_ref() else { return error };
    let Some(task) = jobs.number_of(image, *shard) else { return error };
    let task = task.to_string();
    let words = ["shard".as_ref(), args.plan.as_os_str(), task.as_ref(), "-o".as_ref(), args.dir.as_os_str()];
    let command = quote_words(&words.map(OsStr::to_owned));
    anyhow::anyhow!("{}; pack it, then assemble again: packfs {command}", failure::full_text(&error))
}

/// Opens the plan of an image, for work with the resources of this machine.
fn open_job(jobs: &Jobs, image: u32, effort: &EffortArgs, force: bool) -> Result<Job> {
    let mut job = jobs.job(image)?;
    let common = job.options_mut().common_mut();
    common.threads = effort.threads();
    common.memory = effort.memory();
    common.force = force;
    Ok(job)
}

fn open_job_to_join(args: &args::AssembleArgs, jobs: &Jobs, image: u32, force: bool) -> Result<Job> {
    let mut job = open_job(jobs, image, &args.effort, force)?;
    if args.no_verify {
        job.trust_shards();
    }
    Ok(job)
}

/// Returns the number that the engine gave this task.
fn task_number() -> Result<u32> {
    let found = NUMBERS.iter().find_map(|name| Some((name, std::env::var(name).ok()?)));
    let Some((name, value)) = found else {
        let names = NUMBERS.join(", ");
        return Err(UsageError(format!("give the number of the shard, or set one of {names}")).into());
    };
    value.parse().map_err(|_| UsageError(format!("{name} is `{value}`: expected the number of a shard")).into())
}

/// Creates the directory of the shards, which only its owner may read, as they contain files that others may not read.
fn create_shard_dir(dir: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    created.with_context(|| format!("{}: cannot create the directory", display(dir)))
}

/// Figures of a command that works on a plan.
pub(super) trait PlanFigures: Serialize {
    /// Value of the field `kind`, which names the command.
    const KIND: &'static str;
}

impl PlanFigures for PlanSummary {
    const KIND: &'static str = "plan";
}

impl PlanFigures for PackedShard<'_> {
    const KIND: &'static str = "shard";
}

impl PlanFigures for AssembledSet {
    const KIND: &'static str = "assemble";
}

impl PlanFigures for AssembledImage {
    const KIND: &'static str = "assemble";
}

/// Result of a command that works on a plan.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ClusterReport<'a, T> {
    /// Path of the file that was made; of the plan if the command made several.
    #[serde(serialize_with = "path")]
    #[cfg_attr(test, schemars(with = "String"))]
    path: &'a Path,
    /// Duration in seconds.
    seconds: f64,
    #[serde(flatten)]
    figures: T,
}

impl<T: PlanFigures> JsonDocument for ClusterReport<'_, T> {
    const KIND: &'static str = T::KIND;
}

fn path<S: serde::Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    use std::os::unix::ffi::OsStrExt;
    to.serialize_str(&encode(path.as_os_str().as_bytes()))
}

/// A shard that was packed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PackedShard<'a> {
    /// Number of the shard, counted from 0.
    shard: u32,
    /// False if the shard had been packed before and its data is sound.
    packed: bool,
    /// Bytes of its files.
    file_bytes: u64,
    /// Path of its image; absent for a plan of one image.
    #[serde(serialize_with = "image", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    image: Option<&'a Path>,
}

fn image<S: serde::Serializer>(image: &Option<&Path>, to: S) -> Result<S::Ok, S::Error> {
    path(image.unwrap_or(Path::new("")), to)
}

/// Numbers of images of a plan of many.
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct AssembledSet {
    /// Number of images that this run assembled.
    assembled: u32,
    /// Number of images that an earlier run assembled.
    earlier: u32,
    /// Number of images that could not be assembled.
    failed: u32,
}

/// An image that was assembled.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct AssembledImage {
    /// Number of shards.
    shards: u32,
    #[serde(flatten)]
    summary: BuildSummary,
}

fn report_done(as_json: bool, quiet: bool, report: &impl JsonDocument, text: &str) -> Result<CommandOutcome> {
    if as_json {
        json::print(report)?;
    } else if !quiet {
        say(text);
    }
    Ok(CommandOutcome::Done)
}
