//! `packfs plan --each`: one plan of many images.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::Progress;
use packfs_image::build::{PlannedSet, Planner};
use packfs_image::name::display;

use super::runner::{self, Tasks};
use super::{ClusterReport, PlanFigures, tell};
use crate::args::{Build, Each, Engine};
use crate::commands::build::{complete, fill};
use crate::commands::sources;
use crate::output::failure::{Outcome, Usage};
use crate::output::meter::Meter;
use crate::output::{units, warnings};
use packfs_image::request::RequestNotes;

impl PlanFigures for PlannedSet {
    const KIND: &'static str = "plan";
}

pub(super) fn plan(each: Each, list: &Path, engine: Option<Engine>) -> Result<Outcome> {
    let Each { ref output, json, quiet, .. } = each;
    if each.builds.is_empty() {
        return Err(Usage(format!("{}: the list has no image", display(list))).into());
    }
    let meter = Meter::start(quiet);
    let progress = Arc::clone(meter.progress());
    let output = output.clone();
    let planned = plan_all(each, list, &progress);
    let spent = meter.finish();
    let planned = planned.with_context(|| format!("planning {}", display(&output)))?;
    if let Some(engine) = engine {
        let tasks = Tasks { tasks: planned.tasks, cut_images: Some(planned.cut_images) };
        return crate::commands::print(&runner::script(engine, &output, "", &tasks)?);
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
    tell(json, quiet, &done, &text)
}

/// Scans the sources of all images, one image after the other.
fn plan_all(each: Each, list: &Path, progress: &Arc<Progress>) -> Result<PlannedSet> {
    let mut planner = Planner::create(&each.output, each.force)?;
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let Each { builds, shards, effort, quiet, .. } = each;
    for (number, build) in builds {
        let place = || format!("{}:{number}", display(list));
        let own = build.shards().unwrap_or(shards);
        plan_one(&mut planner, build, epoch.as_deref(), (own, effort.threads(), quiet), progress)
            .with_context(place)?;
    }
    Ok(planner.finish(progress)?)
}

fn plan_one(
    planner: &mut Planner,
    build: Build,
    epoch: Option<&str>,
    (shards, threads, quiet): (packfs_image::build::Shards, usize, bool),
    progress: &Arc<Progress>,
) -> Result<()> {
    let mut plan = build.resolve(epoch)?;
    super::refuse(&plan)?;
    if plan.json {
        return Err(Usage("a line of --each cannot have --json".into()).into());
    }
    let common = plan.request.target.common_mut();
    common.shards = Some(shards);
    common.threads = threads;
    plan.request.scan.threads = threads;
    plan.request.sources.iter().try_for_each(|source| sources::refuse_mistaken(source))?;
    complete(&mut plan)?;
    let mut notes = RequestNotes::default();
    let scan = |store: &mut dyn packfs_image::source::Store| fill(&plan, store, progress, &mut notes);
    let (_, warned) = planner.add(&plan.request.target, &plan.output, progress, scan)?;
    if !quiet {
        warnings::print(&warned);
    }
    Ok(())
}
