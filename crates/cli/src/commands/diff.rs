//! `packfs diff`.

mod changed;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::Progress;
use packfs_image::diff::{Aspect, DiffOptions, Difference, diff, superblocks};
use packfs_image::tree::{Time, TreeImage};
use packfs_image::{AnyImage, Image, Tree, Warnings};
use serde::Serialize;

use self::changed::ChangedFiles;
use super::delta::patch_effort;
use super::update::UpdateSize;
use super::{open, print, sources};
use crate::args::DiffArgs;
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::findings::Findings;
use crate::output::json::JsonDocument;
use crate::output::meter::ProgressMeter;
use crate::output::{json, units, warnings};

pub(super) fn run(args: &DiffArgs) -> Result<CommandOutcome> {
    let meter = ProgressMeter::start(args.talk.quiet);
    refuse_size_without_images(args)?;
    let compared = collect_differences(args, meter.progress());
    let update = args.update_size.then(|| predict_update(args, &meter)).transpose();
    meter.finish();
    let DiffOutcome { differences, warnings } = compared?;
    let update = update?;
    if !args.talk.quiet {
        warnings.iter().for_each(warnings::print);
    }
    let same = differences.count == 0;
    let a = open::name(&args.a);
    let b = open::name(&args.b);
    if args.json {
        let [of_a, of_b] = &warnings;
        let warnings = SideWarnings { a: of_a, b: of_b };
        json::print(&DiffReport { a, b, same, differences: &differences, update: update.as_ref(), warnings })?;
    } else {
        differences.print(|difference| difference_line(difference, (&a, &b)))?;
        update.map_or(Ok(CommandOutcome::Done), |update| print(&update_line(&update)))?;
    }
    Ok(if same { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// Fails if an update is to be predicted between anything else than images.
fn refuse_size_without_images(args: &DiffArgs) -> Result<(), UsageError> {
    match [&args.a, &args.b].into_iter().find(|path| args.update_size && !sources::is_image(path)) {
        Some(path) => Err(UsageError(format!("--update-size: {} is not an image", open::name(path)))),
        None => Ok(()),
    }
}

fn predict_update(args: &DiffArgs, meter: &ProgressMeter) -> Result<UpdateSize> {
    let old = open::bytes(&args.a, 0, &args.remote)?;
    let new = open::bytes(&args.b, 0, &args.remote)?;
    let predicted = UpdateSize::predict(&*old, &*new, &args.b, &patch_effort(&args.effort, meter));
    predicted.with_context(|| format!("{}: predicting its update", open::name(&args.b)))
}

/// Formats a prediction as the last line of the result.
fn update_line(update: &UpdateSize) -> String {
    format!(
        "update: {} of {} to fetch in {}, and an index of {}\n",
        units::bytes(update.fetched_bytes),
        units::bytes(update.new_bytes),
        units::of(update.requests, "request"),
        units::bytes(update.index_bytes)
    )
}

/// Formats a difference as one line, with times as `list` prints them.
pub(super) fn difference_line(difference: &Difference, names: (&str, &str)) -> String {
    let mut shown = difference.clone();
    if difference.aspect == Aspect::Time {
        for time in [&mut shown.first, &mut shown.second].into_iter().flatten() {
            *time = format_date(time).unwrap_or_else(|| time.clone());
        }
    }
    shown.describe(names).to_string()
}

/// Formats seconds since 1970, with or without a fraction, as a date in UTC.
fn format_date(time: &str) -> Option<String> {
    let (secs, fraction) = time.split_at(time.find('.').unwrap_or(time.len()));
    Some(units::utc(Time { secs: secs.parse().ok()?, nanos: 0 }) + fraction)
}

/// The differences, and the warnings about either side.
struct DiffOutcome {
    differences: Findings<Difference>,
    warnings: [Warnings; 2],
}

/// Calls `found` for each difference.
pub(crate) fn each_difference(args: &DiffArgs, found: &mut dyn FnMut(Difference)) -> Result<[Warnings; 2]> {
    compare_sides(args, &Arc::new(Progress::default()), found)
}

fn collect_differences(args: &DiffArgs, progress: &Arc<Progress>) -> Result<DiffOutcome> {
    let mut differences = Findings::new();
    let warnings = self::compare_sides(args, progress, &mut |difference| differences.add(difference))?;
    Ok(DiffOutcome { differences, warnings })
}

fn compare_sides(
    args: &DiffArgs,
    progress: &Arc<Progress>,
    found: &mut dyn FnMut(Difference),
) -> Result<[Warnings; 2]> {
    let options = DiffOptions::default().set(|all| {
        all.threads = args.effort.threads();
        all.ignore = args.ignore.iter().map(|aspect| Aspect::from(*aspect)).collect();
        all.inodes = args.inodes;
    });
    let read = |path: &Path, devices: &[PathBuf]| {
        ComparedSource::read(path, devices, args, progress).with_context(|| format!("reading {}", open::name(path)))
    };
    let sides = [read(&args.a, &args.device)?, read(&args.b, &args.device_b)?];
    let [first, second] = &sides;
    // Before the comparison, which may take long: what is not an image is refused now.
    let opened = args.superblocks.then(|| Ok::<_, UsageError>((first.opened(&args.a)?, second.opened(&args.b)?)));
    let opened = opened.transpose()?;
    let mut changed = ChangedFiles::default();
    let mut tell = |difference: Difference| {
        changed.note(&difference);
        found(difference);
    };
    first.with_image(|first| second.with_image(|second| diff(first, second, &options, progress, &mut tell)))?;
    if let Some((first, second)) = opened {
        superblocks(first, second).into_iter().for_each(&mut tell);
    }
    if let Some(to) = &args.extract {
        for (n, side) in sides.iter().enumerate() {
            side.with_image(|image| changed.extract(n, image, to, (args.force, options.threads), progress))?;
        }
    }
    Ok(sides.map(ComparedSource::warnings))
}

/// One side of the comparison. An image is used directly, since it knows the resolution of its times.
enum ComparedSource {
    Image(AnyImage),
    Tree(Box<Tree>),
}

impl ComparedSource {
    fn read(path: &Path, devices: &[PathBuf], args: &DiffArgs, progress: &Arc<Progress>) -> Result<Self> {
        if sources::is_image(path) {
            // Half of the memory for each side.
            return Ok(ComparedSource::Image(open::with_devices(
                path,
                devices,
                args.effort.memory() / 2,
                &args.remote,
            )?));
        }
        if !devices.is_empty() {
            return Err(UsageError(
                "only an EROFS image has additional devices (--device is for A, --device-b for B)".into(),
            )
            .into());
        }
        let tree = sources::read_tree(&[path], args.strict, &args.remote, args.effort.threads(), progress)?;
        Ok(ComparedSource::Tree(Box::new(tree)))
    }

    /// Returns the image; fails for anything else.
    fn opened(&self, path: &Path) -> Result<&AnyImage, UsageError> {
        match self {
            ComparedSource::Image(opened) => Ok(opened),
            ComparedSource::Tree(_) => Err(UsageError(format!("--superblocks: {} is not an image", open::name(path)))),
        }
    }

    fn warnings(self) -> Warnings {
        match self {
            ComparedSource::Image(_) => Warnings::default(),
            ComparedSource::Tree(tree) => tree.warnings,
        }
    }

    fn with_image<R>(&self, with: impl FnOnce(&dyn Image) -> R) -> R {
        match self {
            ComparedSource::Image(opened) => with(opened.image()),
            ComparedSource::Tree(tree) => with(&TreeImage::new(tree)),
        }
    }
}

/// Result of a comparison.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DiffReport<'a> {
    /// Path of the first side.
    a: String,
    /// Path of the second side.
    b: String,
    /// True if nothing differs.
    same: bool,
    /// Differences between the two sides.
    differences: &'a Findings<Difference>,
    /// Prediction of an update from the first side to the second; only with `--update-size`.
    #[serde(skip_serializing_if = "Option::is_none")]
    update: Option<&'a UpdateSize>,
    /// Warnings about the two sides.
    warnings: SideWarnings<'a>,
}

impl JsonDocument for DiffReport<'_> {
    const KIND: &'static str = "diff";
}

/// Warnings about each side.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SideWarnings<'a> {
    /// Warnings about the first side.
    a: &'a Warnings,
    /// Warnings about the second side.
    b: &'a Warnings,
}
