//! `packfs check`.

use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::Progress;
use packfs_image::diff::{self, diff};
use packfs_image::tree::TreeImage;
use packfs_image::{Image, Severity, Warnings, squashfs};
use serde::Serialize;

use super::diff::line;
use super::{open, parts, sources};
use crate::args::Check;
use crate::output::failure::{Outcome, Usage};
use crate::output::findings::Findings;
use crate::output::meter::Meter;
use crate::output::{json, say, units, warnings};

pub(super) fn run(args: &Check) -> Result<Outcome> {
    if let Some(paths) = parts::named(&args.image, &args.parts.rest)? {
        if args.shard.is_some() {
            return Err(Usage("--shard is for images; a dump is checked as a whole".into()).into());
        }
        return parts::check(args, &paths);
    }
    if args.complete {
        squashfs::complete(&args.image.path)?;
    }
    let opened = open::with_cache(&args.image, args.effort.memory())?;
    let image = opened.image();
    let name = open::name(&args.image.path);
    let meter = Meter::start(args.talk.quiet);
    let checked = check(image, args, meter.progress());
    let spent = meter.finish();
    let Checked { findings, notes, warnings } = checked.with_context(|| format!("checking {name}"))?;
    if !args.talk.quiet {
        warnings::print(&warnings);
    }
    let sound = findings.count == 0;
    if args.json {
        json::print("check", &Report { image: name, sound, findings: &findings, notes: &notes, warnings: &warnings })?;
    } else {
        findings.print(String::clone)?;
        notes.print(|note| format!("note: {note}"))?;
        if !args.talk.quiet {
            let mut verdict = match (sound, args.against.is_empty()) {
                (true, true) => "sound".into(),
                (true, false) => "sound, and the same as its source".into(),
                (false, _) => units::of(findings.count, "finding"),
            };
            if notes.count > 0 {
                verdict = format!("{verdict}; {}", units::of(notes.count, "note"));
            }
            let inodes = units::of(image.inode_count(), "inode");
            let part = args.shard.map_or_else(String::new, |part| format!("part {part}: "));
            say(format_args!("{name}: {part}{verdict} ({inodes} in {})", units::span(spent.time)));
        }
    }
    Ok(if sound { Outcome::Done } else { Outcome::Findings })
}

/// Result of a check: damage, and unusual properties.
struct Checked {
    findings: Findings<String>,
    notes: Findings<String>,
    /// Warnings about the source of the comparison.
    warnings: Warnings,
}

/// Verifies the image, then compares it with its sources if there are any.
fn check(image: &dyn Image, args: &Check, progress: &Arc<Progress>) -> Result<Checked> {
    let threads = args.effort.threads();
    let (mut findings, mut notes, mut warnings) = (Findings::new(), Findings::new(), Warnings::default());
    image.check_part(args.shard.unwrap_or_default(), threads, progress, &mut |finding| match finding.severity {
        Severity::Note => notes.add(finding.to_string()),
        _ => findings.add(finding.to_string()),
    })?;
    if !args.against.is_empty() {
        let tree = sources::tree(&args.against, args.strict, &args.image.remote, threads, progress)?;
        let options = diff::Options::default().set(|all| all.threads = threads);
        let compared = diff(image, &TreeImage::new(&tree), &options, progress, &mut |difference| {
            findings.add(line(&difference, ("the image", "the source")));
        });
        match compared {
            // Damage that prevents the comparison has already been reported.
            Err(packfs_image::Error::Corrupt { .. }) if findings.count > 0 => {
                findings.add("the damage prevents comparing the rest with the source".into());
            }
            other => drop(other?),
        }
        warnings = tree.warnings;
    }
    Ok(Checked { findings, notes, warnings })
}

/// See `docs/guide/json.md`.
#[derive(Serialize)]
struct Report<'a> {
    image: String,
    sound: bool,
    findings: &'a Findings<String>,
    notes: &'a Findings<String>,
    warnings: &'a Warnings,
}
