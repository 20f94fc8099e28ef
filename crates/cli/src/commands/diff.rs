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

use self::changed::Changed;
use super::{open, sources};
use crate::args::Diff;
use crate::output::failure::{Outcome, Usage};
use crate::output::findings::Findings;
use crate::output::json::JsonDocument;
use crate::output::meter::Meter;
use crate::output::{json, units, warnings};

pub(super) fn run(args: &Diff) -> Result<Outcome> {
    let meter = Meter::start(args.talk.quiet);
    let compared = compare(args, meter.progress());
    meter.finish();
    let Compared { differences, warnings } = compared?;
    if !args.talk.quiet {
        warnings.iter().for_each(warnings::print);
    }
    let same = differences.count == 0;
    let (a, b) = (open::name(&args.a), open::name(&args.b));
    if args.json {
        let [of_a, of_b] = &warnings;
        let warnings = SideWarnings { a: of_a, b: of_b };
        json::print(&DiffReport { a, b, same, differences: &differences, warnings })?;
    } else {
        differences.print(|difference| line(difference, (&a, &b)))?;
    }
    Ok(if same { Outcome::Done } else { Outcome::Findings })
}

/// Formats a difference as one line, with times as `list` prints them.
pub(super) fn line(difference: &Difference, names: (&str, &str)) -> String {
    let mut shown = difference.clone();
    if difference.aspect == Aspect::Time {
        for time in [&mut shown.first, &mut shown.second].into_iter().flatten() {
            *time = date(time).unwrap_or_else(|| time.clone());
        }
    }
    shown.describe(names).to_string()
}

/// Formats seconds since 1970, with or without a fraction, as a date in UTC.
fn date(time: &str) -> Option<String> {
    let (secs, fraction) = time.split_at(time.find('.').unwrap_or(time.len()));
    Some(units::utc(Time { secs: secs.parse().ok()?, nanos: 0 }) + fraction)
}

/// The differences, and the warnings about either side.
struct Compared {
    differences: Findings<Difference>,
    warnings: [Warnings; 2],
}

/// Calls `found` for each difference.
pub(crate) fn each(args: &Diff, found: &mut dyn FnMut(Difference)) -> Result<[Warnings; 2]> {
    differences(args, &Arc::new(Progress::default()), found)
}

fn compare(args: &Diff, progress: &Arc<Progress>) -> Result<Compared> {
    let mut differences = Findings::new();
    let warnings = self::differences(args, progress, &mut |difference| differences.add(difference))?;
    Ok(Compared { differences, warnings })
}

fn differences(args: &Diff, progress: &Arc<Progress>, found: &mut dyn FnMut(Difference)) -> Result<[Warnings; 2]> {
    let options = DiffOptions::default().set(|all| {
        (all.threads, all.ignore) =
            (args.effort.threads(), args.ignore.iter().map(|aspect| Aspect::from(*aspect)).collect());
        all.inodes = args.inodes;
    });
    let read = |path: &Path, devices: &[PathBuf]| {
        Side::read(path, devices, args, progress).with_context(|| format!("reading {}", open::name(path)))
    };
    let sides = [read(&args.a, &args.device)?, read(&args.b, &args.device_b)?];
    let [first, second] = &sides;
    let opened = args.superblocks.then(|| Ok::<_, Usage>((first.opened(&args.a)?, second.opened(&args.b)?)));
    let opened = opened.transpose()?;
    let mut changed = Changed::default();
    let mut tell = |difference: Difference| {
        changed.note(&difference);
        found(difference);
    };
    first.look(|first| second.look(|second| diff(first, second, &options, progress, &mut tell)))?;
    if let Some((first, second)) = opened {
        superblocks(first, second).into_iter().for_each(&mut tell);
    }
    if let Some(to) = &args.extract {
        for (n, side) in sides.iter().enumerate() {
            side.look(|image| changed.extract(n, image, to, (args.force, options.threads), progress))?;
        }
    }
    Ok(sides.map(Side::warnings))
}

/// One side of the comparison. An image is used directly, since it knows the resolution of its times.
enum Side {
    Image(AnyImage),
    Tree(Box<Tree>),
}

impl Side {
    fn read(path: &Path, devices: &[PathBuf], args: &Diff, progress: &Arc<Progress>) -> Result<Self> {
        if sources::is_image(path) {
            return Ok(Side::Image(open::over(path, devices, args.effort.memory() / 2, &args.remote)?));
        }
        if !devices.is_empty() {
            return Err(Usage(
                "only an EROFS image has additional devices (--device is for A, --device-b for B)".into(),
            )
            .into());
        }
        let tree = sources::tree(&[path], args.strict, &args.remote, args.effort.threads(), progress)?;
        Ok(Side::Tree(Box::new(tree)))
    }

    /// Returns the image; fails for anything else.
    fn opened(&self, path: &Path) -> Result<&AnyImage, Usage> {
        match self {
            Side::Image(opened) => Ok(opened),
            Side::Tree(_) => Err(Usage(format!("--superblocks: {} is not an image", open::name(path)))),
        }
    }

    fn warnings(self) -> Warnings {
        match self {
            Side::Image(_) => Warnings::default(),
            Side::Tree(tree) => tree.warnings,
        }
    }

    fn look<R>(&self, with: impl FnOnce(&dyn Image) -> R) -> R {
        match self {
            Side::Image(opened) => with(opened.image()),
            Side::Tree(tree) => with(&TreeImage::new(tree)),
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
