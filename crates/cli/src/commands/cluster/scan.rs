//! `packfs plan --scan` and `--merge`: many machines list the sources of a plan.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::Progress;
use packfs_image::Part;
use packfs_image::name::display;
use packfs_image::source::dir::{Parts, Scanned, scan_part};
use serde::Serialize;

use super::{ClusterReport, PlanFigures, report_done};
use crate::args::BuildPlan;
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::meter::ProgressMeter;
use crate::output::units;

/// Result of scanning a part of the sources.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct ScannedPart {
    /// Number of the part, counted from 0.
    part: u32,
    /// Number of all parts.
    parts: u32,
    #[serde(flatten)]
    scanned: Scanned,
}

impl PlanFigures for ScannedPart {
    const KIND: &'static str = "scan";
}

/// Writes a part of a scan of the sources.
pub(super) fn write_scan_part(plan: &BuildPlan, part: Part) -> Result<CommandOutcome> {
    require_directories(plan)?;
    let meter = ProgressMeter::start(plan.quiet);
    let options = plan.request.scan_options(meter.progress());
    let force = plan.request.target.common().force;
    let scanned = scan_part(&plan.request.sources, &options, part, (&plan.output, force));
    let spent = meter.finish();
    let scanned = scanned.with_context(|| format!("scanning part {part} of the sources"))?;
    let entries = units::of(scanned.entries, "entry");
    let len = units::bytes(scanned.part_bytes);
    let figures = ScannedPart { part: part.index(), parts: part.count(), scanned };
    let done = ClusterReport { path: &plan.output, seconds: spent.time.as_secs_f64(), figures };
    let text = format!("scanned     part {part}: {entries}, {len} in {}", units::span(spent.time));
    report_done(plan.json, plan.quiet, &done, &text)
}

/// Opens the parts of a scan of the sources of a plan.
pub(super) fn open_parts(plan: &BuildPlan, paths: &[PathBuf], progress: &Arc<Progress>) -> Result<Option<Arc<Parts>>> {
    if paths.is_empty() {
        return Ok(None);
    }
    require_directories(plan)?;
    Ok(Some(Parts::open(paths, &plan.request.sources, &plan.request.scan_options(progress))?))
}

fn require_directories(plan: &BuildPlan) -> Result<(), UsageError> {
    match plan.request.sources.iter().find(|source| !source.is_dir()) {
        Some(source) => Err(UsageError(format!("{}: only directories can be scanned in parts", display(source)))),
        None => Ok(()),
    }
}
