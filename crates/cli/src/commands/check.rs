//! `packfs check`.

use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::Progress;
use packfs_image::diff::diff;
use packfs_image::tree::TreeImage;
use packfs_image::{Image, Warnings};
use serde::Serialize;

use super::{open, parts, sources};
use crate::args::Check;
use crate::output::failure::Outcome;
use crate::output::findings::Findings;
use crate::output::meter::Meter;
use crate::output::{json, say, units, warnings};

pub(super) fn run(args: &Check) -> Result<Outcome> {
    if let Some(paths) = parts::named(&args.image, &args.parts.rest)? {
        return parts::check(args, &paths);
    }
    let opened = open::with_cache(&args.image, args.effort.memory())?;
    let image = opened.image();
    let name = open::name(&args.image.path);
    let meter = Meter::start(args.talk.quiet);
    let checked = check(image, args, meter.progress());
    let spent = meter.finish();
    let (findings, warnings) = checked.with_context(|| format!("checking {name}"))?;
    if !args.talk.quiet {
        warnings::print(&warnings);
    }
    let sound = findings.count == 0;
    if args.json {
        json::print("check", &Report { image: name, sound, findings: &findings, warnings: &warnings })?;
    } else {
        findings.print(String::clone)?;
        if !args.talk.quiet {
            let verdict = match (sound, args.against.is_empty()) {
                (true, true) => "sound".into(),
                (true, false) => "sound, and the same as its source".into(),
                (false, _) => format!("{} findings", units::count(findings.count)),
            };
            let inodes = units::count(image.inode_count());
            say(format_args!("{name}: {verdict} ({inodes} inodes in {})", units::span(spent.time)));
        }
    }
    Ok(if sound { Outcome::Done } else { Outcome::Findings })
}

/// Verifies the image, then compares it with its sources if there are any. Warnings are about these.
fn check(image: &dyn Image, args: &Check, progress: &Arc<Progress>) -> Result<(Findings<String>, Warnings)> {
    let threads = args.effort.threads();
    let (mut findings, mut warnings) = (Findings::new(), Warnings::default());
    image.check(threads, progress, &mut |finding| findings.add(finding))?;
    if !args.against.is_empty() {
        let tree = sources::tree(&args.against, args.strict, threads, progress)?;
        diff(image, &TreeImage::new(&tree), threads, progress, &mut |difference| {
            findings.add(difference.describe(("the image", "the source")).to_string());
        })?;
        warnings = tree.warnings;
    }
    Ok((findings, warnings))
}

/// See `docs/guide/json.md`.
#[derive(Serialize)]
struct Report<'a> {
    image: String,
    sound: bool,
    findings: &'a Findings<String>,
    warnings: &'a Warnings,
}
