//! `packfs diff`.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::Progress;
use packfs_image::diff::{Difference, diff};
use packfs_image::tree::TreeImage;
use packfs_image::{AnyImage, Image, Tree};
use serde::Serialize;

use super::{open, sources};
use crate::args::Diff;
use crate::output::failure::Outcome;
use crate::output::findings::Findings;
use crate::output::json;
use crate::output::meter::Meter;

pub(super) fn run(args: &Diff) -> Result<Outcome> {
    let meter = Meter::start(args.talk.quiet);
    let compared = compare(args, meter.progress());
    meter.finish();
    let differences = compared?;
    let same = differences.count == 0;
    let (a, b) = (open::name(&args.a), open::name(&args.b));
    if args.json {
        json::print("diff", &Report { a, b, same, differences: &differences })?;
    } else {
        differences.print(|difference| difference.describe((&a, &b)).to_string())?;
    }
    Ok(if same { Outcome::Done } else { Outcome::Findings })
}

fn compare(args: &Diff, progress: &Arc<Progress>) -> Result<Findings<Difference>> {
    let threads = args.effort.threads();
    let read = |path: &Path| Side::read(path, args, progress).with_context(|| format!("reading {}", path.display()));
    let (first, second) = (read(&args.a)?, read(&args.b)?);
    let mut differences = Findings::new();
    let mut found = |difference| differences.add(difference);
    first.look(|first| second.look(|second| diff(first, second, threads, progress, &mut found)))?;
    Ok(differences)
}

/// One of the two things compared. An image is looked at as it is, since it knows how exact its times are.
enum Side {
    Image(AnyImage),
    Tree(Tree),
}

impl Side {
    fn read(path: &Path, args: &Diff, progress: &Arc<Progress>) -> Result<Self> {
        if sources::is_image(path) {
            return Ok(Side::Image(open::path(path, args.effort.memory() / 2)?));
        }
        Ok(Side::Tree(sources::tree(&[path], args.effort.threads(), progress)?))
    }

    fn look<R>(&self, with: impl FnOnce(&dyn Image) -> R) -> R {
        match self {
            Side::Image(opened) => with(opened.image()),
            Side::Tree(tree) => with(&TreeImage::new(tree)),
        }
    }
}

/// See `docs/guide/json.md`.
#[derive(Serialize)]
struct Report<'a> {
    a: String,
    b: String,
    same: bool,
    differences: &'a Findings<Difference>,
}
