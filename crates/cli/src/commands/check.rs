//! `packfs check`.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use packfs_blocks::io::ObservedReads;
use packfs_blocks::progress::Phase;
use packfs_blocks::stages::Stage;
use packfs_blocks::{Progress, ReadAt};
use packfs_image::diff::{self, diff};
use packfs_image::tree::TreeImage;
use packfs_image::{AnyImage, Error, Image, Severity, Warnings, squashfs};
use serde::Serialize;

use super::diff::difference_line;
use super::{open, parts, sources};
use crate::args::{CheckArgs, ImageArg};
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::findings::Findings;
use crate::output::json::JsonDocument;
use crate::output::meter::ProgressMeter;
use crate::output::{json, say, units, warnings};

pub(super) fn run(args: &CheckArgs) -> Result<CommandOutcome> {
    if let Some(paths) = parts::named(&args.image, &args.parts.rest)? {
        if args.shard.is_some() {
            return Err(UsageError("--shard is for images; a dump is checked as a whole".into()).into());
        }
        return parts::check(args, &paths);
    }
    if args.complete {
        squashfs::complete(&args.image.path)?;
    }
    let name = open::name(&args.image.path);
    let meter = ProgressMeter::start(args.talk.quiet);
    let reads = Arc::new(ReadCounts::new(meter.progress()));
    let begun = Instant::now();
    let opened = open::observed(&args.image, args.effort.memory(), |bytes| reads.observe(bytes))?;
    let opening = begun.elapsed();
    let image = opened.image();
    let missing = MissingDevice::find_all(&opened, &args.image)?;
    let checked = check_image(image, missing, args, meter.progress(), &reads, opening);
    let spent = meter.finish();
    let CheckOutcome { findings, notes, warnings, phases } = checked.with_context(|| format!("checking {name}"))?;
    if !args.talk.quiet {
        warnings::print(&warnings);
    }
    let sound = findings.count == 0;
    if args.json {
        json::print(&CheckReport {
            image: name,
            sound,
            findings: &findings,
            notes: &notes,
            warnings: &warnings,
            phases,
        })?;
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
    Ok(if sound { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// Result of a check: damage, and unusual properties.
struct CheckOutcome {
    findings: Findings<String>,
    notes: Findings<String>,
    /// Warnings about the source of the comparison.
    warnings: Warnings,
    phases: Vec<PhaseReport>,
}

/// An additional device of an image that was not named, and is not in the file of the image.
struct MissingDevice {
    /// Its bytes, as findings number them.
    range: Range<u64>,
    /// Its finding, which stands for those of all files on it; `None` once it is reported.
    finding: Option<String>,
}

impl MissingDevice {
    /// Returns the missing devices of an image. If any was named, all were.
    fn find_all(opened: &AnyImage, arg: &ImageArg) -> Result<Vec<Self>> {
        let AnyImage::Erofs(image) = opened else { return Ok(Vec::new()) };
        let superblock = image.superblock();
        if superblock.devices.is_empty() || !arg.device.is_empty() {
            return Ok(Vec::new());
        }
        let image_len = open::bytes(&arg.path, arg.offset, &arg.remote)?.len();
        let block_size = u64::from(superblock.block_size);
        let count = superblock.devices.len();
        let missing = (1..).zip(&superblock.devices).map(|(number, device)| {
            let start = device.start.saturating_mul(block_size);
            let end = device.start.saturating_add(device.blocks).saturating_mul(block_size);
            // Its name, which may be empty.
            let tag = device.tag.escape_ascii().to_string();
            let name = if tag.is_empty() { tag } else { format!(", `{tag}`") };
            let why = "not given; name the files of all with --device, in order";
            MissingDevice {
                range: start..end,
                finding: Some(format!("additional device {number} of {count}{name}: {why}")),
            }
        });
        Ok(missing.filter(|device| device.range.start >= image_len).collect())
    }
}

/// Verifies the image, which took `opening` to open, then compares it with its sources if there are any.
fn check_image(
    image: &dyn Image,
    mut missing: Vec<MissingDevice>,
    args: &CheckArgs,
    progress: &Arc<Progress>,
    reads: &ReadCounts,
    opening: Duration,
) -> Result<CheckOutcome> {
    let threads = args.effort.threads();
    let mut findings = Findings::new();
    let mut notes = Findings::new();
    let mut warnings = Warnings::default();
    image.check_part(args.shard.unwrap_or_default(), threads, progress, &mut |finding| match finding.severity {
        Severity::Note => notes.add(finding.to_string()),
        _ => {
            let is_on = |device: &&mut MissingDevice| finding.offset.is_some_and(|at| device.range.contains(&at));
            match missing.iter_mut().find(is_on) {
                Some(device) => {
                    if let Some(text) = device.finding.take() {
                        findings.add(text);
                    }
                }
                None => findings.add(finding.to_string()),
            }
        }
    })?;
    let checked_bytes = reads.total();
    let data_bytes = reads.data_bytes.load(Relaxed);
    // Opening reads the superblock and tables.
    let metadata_time = opening + progress.stages.of(Stage::Metadata);
    let mut phases = vec![
        PhaseReport::new(PhaseName::Metadata, metadata_time, checked_bytes - data_bytes),
        PhaseReport::new(PhaseName::Data, progress.stages.of(Stage::Data), data_bytes),
    ];
    if !args.against.is_empty() {
        let begun = Instant::now();
        let tree = sources::read_tree(&args.against, args.strict, &args.image.remote, threads, progress)?;
        let options = diff::DiffOptions::default().set(|all| all.threads = threads);
        let compared = diff(image, &TreeImage::new(&tree), &options, progress, &mut |difference| {
            findings.add(difference_line(&difference, ("the image", "the source")));
        });
        match compared {
            // What the check has found is not lost because the comparison cannot go on.
            Err(error) if findings.count > 0 && !matches!(error, Error::Cancelled) => {
                findings.add(format!("this prevents comparing the rest with the source: {error}"));
            }
            other => drop(other?),
        }
        warnings = tree.warnings;
        phases.push(PhaseReport::new(PhaseName::Compare, begun.elapsed(), reads.total() - checked_bytes));
    }
    Ok(CheckOutcome { findings, notes, warnings, phases })
}

/// Number of bytes that a check reads from an image and its devices; those read twice count twice.
#[derive(Debug)]
struct ReadCounts {
    /// Tells when the check comes to the data.
    progress: Arc<Progress>,
    data_bytes: AtomicU64,
    other_bytes: AtomicU64,
}

impl ReadCounts {
    fn new(progress: &Arc<Progress>) -> Self {
        ReadCounts { progress: Arc::clone(progress), data_bytes: AtomicU64::new(0), other_bytes: AtomicU64::new(0) }
    }

    /// Returns the same bytes; reads of them are counted here.
    fn observe(self: &Arc<Self>, bytes: Arc<dyn ReadAt>) -> Arc<dyn ReadAt> {
        let counts = Arc::clone(self);
        Arc::new(ObservedReads::new(bytes, move |len| counts.add(len)))
    }

    fn add(&self, len: u64) {
        // A check enters this phase when it comes to the data.
        let counter = if self.progress.phase() == Phase::Read { &self.data_bytes } else { &self.other_bytes };
        counter.fetch_add(len, Relaxed);
    }

    fn total(&self) -> u64 {
        self.data_bytes.load(Relaxed) + self.other_bytes.load(Relaxed)
    }
}

/// Time and bytes of a phase of a check.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PhaseReport {
    /// Name of the phase.
    phase: PhaseName,
    /// Duration in seconds.
    seconds: f64,
    /// Bytes read of the image and its devices; bytes read twice count twice.
    read_bytes: u64,
}

/// Name of a phase of a check.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum PhaseName {
    /// Opening the image; its superblock, inodes and directories.
    Metadata,
    /// Blocks and digests of files.
    Data,
    /// With `--against`: listing the source and comparing. Blocks that are still in memory are not read again.
    Compare,
}

impl PhaseReport {
    fn new(phase: PhaseName, time: Duration, read_bytes: u64) -> Self {
        PhaseReport { phase, seconds: time.as_secs_f64(), read_bytes }
    }
}

/// Result of checking an image.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CheckReport<'a> {
    /// Path of the image.
    image: String,
    /// True if there are no findings; notes do not count.
    sound: bool,
    /// Defects.
    findings: &'a Findings<String>,
    /// Oddities that are not defects.
    notes: &'a Findings<String>,
    /// Warnings about the source of `--against`.
    warnings: &'a Warnings,
    /// Phases of the check in their order.
    phases: Vec<PhaseReport>,
}

impl JsonDocument for CheckReport<'_> {
    const KIND: &'static str = "check";
}
