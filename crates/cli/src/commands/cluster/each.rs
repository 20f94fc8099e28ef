//! `packfs plan --each`: one plan of many images.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::{Progress, system};
use packfs_image::build::{PlannedSet, Planner, Shards};
use packfs_image::name::display;
use packfs_image::request::RequestNotes;

use super::runner::{self, PlanTasks};
use super::{ClusterReport, PlanFigures, report_done};
use crate::args::{BuildArgs, BuildList, TaskEngine};
use crate::commands::build::{complete_request, fill_tree};
use crate::commands::sources;
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::meter::ProgressMeter;
use crate::output::{units, warnings};

impl PlanFigures for PlannedSet {
    const KIND: &'static str = "plan";
}

pub(super) fn plan(each: BuildList, list: &Path, engine: Option<TaskEngine>) -> Result<CommandOutcome> {
    let BuildList { ref output, json, quiet, .. } = each;
    if each.builds.is_empty() {
        return Err(UsageError(format!("{}: the list has no image", display(list))).into());
    }
    let meter = ProgressMeter::start(quiet);
    let progress = Arc::clone(meter.progress());
    let output = output.clone();
    let planned = plan_all(each, list, &progress);
    let spent = meter.finish();
    let planned = planned.with_context(|| format!("planning {}", display(&output)))?;
    if let Some(engine) = engine {
        let tasks = PlanTasks { tasks: planned.tasks, cut_images: Some(planned.cut_images) };
        return crate::commands::print(&runner::make_script(engine, &output, "", &tasks)?);
    }
    let done = ClusterReport { path: &output, seconds: spent.time.as_secs_f64(), figures: planned };
    let PlannedSet { images, cut_images, tasks, files, file_bytes, largest_bytes, plan_bytes, .. } = planned;
    let text = format_args!(
        "planned     {} of {} in {}; the longest has {}\nimages      {images}, {cut_images} cut in shards\n\
         plan        {} in {}",
        units::of(files, "file"),
        units::bytes(file_bytes),
        units::of(tasks.into(), "task"),
        units::bytes(largest_bytes),
        units::bytes(plan_bytes),
        units::span(spent.time),
    )
    .to_string();
    report_done(json, quiet, &done, &text)
}

/// Scans the sources of all images, one image after the other.
fn plan_all(each: BuildList, list: &Path, progress: &Arc<Progress>) -> Result<PlannedSet> {
    let mut planner = Planner::create(&each.output, each.force)?;
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let BuildList { builds, shards, effort, quiet, .. } = each;
    for (number, build) in builds {
        let place = || format!("{}:{number}", display(list));
        let settings = SharedSettings { shards: build.shards().unwrap_or(shards), threads: effort.threads(), quiet };
        plan_one(&mut planner, build, epoch.as_deref(), &settings, progress).with_context(place)?;
    }
    Ok(planner.finish(progress)?)
}

/// Settings of one image that its own options do not decide.
struct SharedSettings {
    /// Those of the image's own line, or else of the plan.
    shards: Shards,
    threads: usize,
    quiet: bool,
}

fn plan_one(
    planner: &mut Planner,
    build: BuildArgs,
    epoch: Option<&str>,
    settings: &SharedSettings,
    progress: &Arc<Progress>,
) -> Result<()> {
    let mut plan = build.resolve(epoch)?;
    super::refuse_build_options(&plan)?;
    if plan.json {
        return Err(UsageError("a line of --each cannot have --json".into()).into());
    }
    let common = plan.request.target.common_mut();
    common.shards = Some(settings.shards);
    common.threads = settings.threads;
    plan.request.scan.threads = settings.threads;
    plan.request.sources.iter().try_for_each(|source| sources::refuse_mistaken(source))?;
    // As in a build: an image that is replaced is not packed, even if it lies in its source.
    let replaced = fs::metadata(&plan.output).ok().map(|found| system::identity(&found));
    plan.request.scan.leave_out.extend(replaced);
    complete_request(&mut plan)?;
    let mut notes = RequestNotes::default();
    let scan = |store: &mut dyn packfs_image::source::Store| fill_tree(&plan, store, progress, &mut notes);
    let (_, warned) = planner.add(&plan.request.target, &plan.output, progress, scan)?;
    if !settings.quiet {
        warnings::print(&warned);
    }
    Ok(())
}
