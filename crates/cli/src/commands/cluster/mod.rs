//! `packfs plan`, `shard`, `assemble` and `status`: one image built on many machines.

mod runner;
mod status;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_image::build::{Job, Planned, Summary};
use packfs_image::name::{display, encode};
use packfs_image::source::Store;
use serde::Serialize;

pub(super) use self::status::status;
use super::build::{Lists, Notes, fill};
use crate::args::{self, Effort};
use crate::output::failure::{Outcome, Usage};
use crate::output::meter::Meter;
use crate::output::{json, say, units, warnings};

/// Variables from which a task knows its number, in the order in which they are tried.
const NUMBERS: [&str; 4] = ["SLURM_ARRAY_TASK_ID", "HQ_TASK_ID", "JOB_COMPLETION_INDEX", "PACKFS_SHARD"];

pub(super) fn plan(args: args::Plan) -> Result<Outcome> {
    let engine = args.engine;
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let mut plan = args.build.0.resolve(epoch.as_deref())?;
    if plan.target.common().shards.is_none() {
        return Err(Usage("a plan needs the number of shards: --shards N, or --shard-size SIZE".into()).into());
    }
    if plan.dry_run || plan.percentage || (engine.is_some() && plan.json) {
        return Err(Usage(
            "packfs plan takes neither --dry-run nor --percentage, nor --json together with --for".into(),
        )
        .into());
    }
    plan.sources.iter().try_for_each(|source| super::sources::refuse_mistaken(source))?;
    let lists = Lists::read(&mut plan)?;
    let meter = Meter::start(plan.quiet);
    let progress = Arc::clone(meter.progress());
    let mut notes = Notes::default();
    let fill = |store: &mut dyn Store| fill(&plan, lists, store, &progress, &mut notes);
    let planned = plan.target.plan(&plan.output, &progress, fill);
    let spent = meter.finish();
    let (planned, warned) = planned.with_context(|| format!("planning {}", display(&plan.output)))?;
    if !plan.quiet {
        warnings::print(&warned);
    }
    if let Some(engine) = engine {
        let script = runner::script(engine, &plan.output, plan.target.format(), planned.shards)?;
        return super::print(&script);
    }
    let Planned { shards, files, file_bytes, largest_bytes, equal_files, plan_bytes, .. } = planned;
    let done = Done { path: &plan.output, seconds: spent.time.as_secs_f64(), figures: planned };
    let text = format_args!(
        "planned     {} of {} in {}; the largest has {}\nequal       {} also in an earlier shard\nplan        {} in {}",
        units::of(files.into(), "file"),
        units::bytes(file_bytes),
        units::of(shards.into(), "shard"),
        units::bytes(largest_bytes),
        units::of(equal_files.into(), "file"),
        units::bytes(plan_bytes),
        units::span(spent.time),
    )
    .to_string();
    tell("plan", plan.json, plan.quiet, &done, &text)
}

pub(super) fn shard(args: &args::Shard) -> Result<Outcome> {
    let mut job = open(&args.plan, &args.effort)?;
    let shard = match args.shard {
        Some(shard) => shard,
        None => number()?,
    };
    if shard >= job.shards() {
        let last = job.shards() - 1;
        return Err(Usage(format!("shard {shard}: the plan has shards 0 to {last}")).into());
    }
    create(&args.output)?;
    let meter = Meter::start(args.talk.quiet);
    let progress = Arc::clone(meter.progress());
    job.options_mut().common_mut().force = true;
    let packed = job.pack(&args.output, shard, &progress);
    let spent = meter.finish();
    let packed = packed.with_context(|| format!("packing shard {shard} of {}", display(&args.plan)))?;
    let figures = Packed { shard, packed, file_bytes: job.bytes(shard) };
    let done = Done { path: &args.plan, seconds: spent.time.as_secs_f64(), figures };
    let text = if packed {
        let (bytes, time) = (units::bytes(job.bytes(shard)), units::span(spent.time));
        format!("packed      shard {shard} of {}, {bytes} in {time}", job.shards())
    } else {
        format!("packed      shard {shard} of {}, by an earlier run", job.shards())
    };
    tell("shard", args.json, args.talk.quiet, &done, &text)
}

pub(super) fn assemble(args: &args::Assemble) -> Result<Outcome> {
    let mut job = open(&args.plan, &args.effort)?;
    job.options_mut().common_mut().force = args.force;
    let meter = Meter::start(args.talk.quiet);
    let progress = Arc::clone(meter.progress());
    let built = job.assemble(&args.dir, &args.output, &progress);
    let spent = meter.finish();
    let summary = built.with_context(|| format!("assembling {}", display(&args.output)))?;
    let (image, files) = (units::bytes(summary.image_bytes), units::bytes(summary.file_bytes));
    let shards = units::of(job.shards().into(), "shard");
    let text = format!("assembled   {image} from {shards} with {files} of files in {}", units::span(spent.time));
    let figures = Assembled { shards: job.shards(), summary };
    tell(
        "assemble",
        args.json,
        args.talk.quiet,
        &Done { path: &args.output, seconds: spent.time.as_secs_f64(), figures },
        &text,
    )
}

/// Opens a plan, for work with the resources of this machine.
fn open(plan: &Path, effort: &Effort) -> Result<Job> {
    let mut job = Job::open(plan)?;
    let common = job.options_mut().common_mut();
    (common.threads, common.memory) = (effort.threads(), effort.memory());
    Ok(job)
}

/// Returns the number that the engine gave this task.
fn number() -> Result<u32> {
    let found = NUMBERS.iter().find_map(|name| Some((name, std::env::var(name).ok()?)));
    let Some((name, value)) = found else {
        let names = NUMBERS.join(", ");
        return Err(Usage(format!("give the number of the shard, or set one of {names}")).into());
    };
    value.parse().map_err(|_| Usage(format!("{name} is `{value}`: expected the number of a shard")).into())
}

/// Creates the directory of the shards, which only its owner may read.
fn create(dir: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    created.with_context(|| format!("{}: cannot create the directory", display(dir)))
}

/// A document about what was done.
#[derive(Serialize)]
struct Done<'a, T> {
    #[serde(serialize_with = "path")]
    path: &'a Path,
    seconds: f64,
    #[serde(flatten)]
    figures: T,
}

fn path<S: serde::Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    use std::os::unix::ffi::OsStrExt;
    to.serialize_str(&encode(path.as_os_str().as_bytes()))
}

#[derive(Serialize)]
struct Packed {
    shard: u32,
    packed: bool,
    file_bytes: u64,
}

#[derive(Serialize)]
struct Assembled {
    shards: u32,
    #[serde(flatten)]
    summary: Summary,
}

fn tell(kind: &str, as_json: bool, quiet: bool, done: &impl Serialize, text: &str) -> Result<Outcome> {
    if as_json {
        json::print(kind, done)?;
    } else if !quiet {
        say(text);
    }
    Ok(Outcome::Done)
}
