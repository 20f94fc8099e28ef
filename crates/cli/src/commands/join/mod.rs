//! `packfs join`.

mod kdump;
mod target;

use std::fs::{File, OpenOptions};
use std::path::Path;

use anyhow::{Context, Result};
use packfs_blocks::units::Size;
use packfs_blocks::{Progress, ReadAt};
use packfs_dump::join::{JoinOptions, JoinReport, to_output, to_stream};
use packfs_dump::kdump::KdumpReport;
use packfs_dump::set::{LostRange, RestoredSegments};
use packfs_dump::{Error, Set};
use packfs_image::name::display;
use serde::Serialize;

use self::target::{JoinTarget, commit_dump};
use super::parts;
use crate::args::{JoinArgs, JoinForm};
use crate::output::failure::CommandOutcome;
use crate::output::json::JsonDocument;
use crate::output::meter::{ProgressMeter, SpentResources};
use crate::output::{self, json, say, units};

pub(super) fn run(args: &JoinArgs) -> Result<CommandOutcome> {
    let codec = args.page_codec()?;
    let target = JoinTarget::new(args)?;
    let to_stdout = matches!(target, JoinTarget::Stdout);
    let memory = args.effort.memory();
    // A quarter of the memory is for what is read of the parts.
    let set = parts::open(&args.parts, memory / 4)?;
    let options = JoinOptions::default().set(|all| {
        all.threads = args.effort.threads();
        all.memory = memory / 4 * 3;
        all.partial = args.partial;
    });
    let meter = ProgressMeter::start(args.talk.quiet);
    let joined = match codec {
        None => join_raw(&set, target, &options, meter.progress()).map(|report| (report, None)),
        Some(codec) => {
            let flat = args.form == JoinForm::KdumpFlat;
            let written = kdump::write_core(&set, target, flat, codec, &options, meter.progress());
            written.map(|written| (whole_report(&set), Some(written)))
        }
    };
    let spent = meter.finish();
    let (report, kdump) = joined.map_err(|error| explain_error(error, &set, args))?;
    let repairs = set.repairs();
    if !args.talk.quiet {
        repairs.iter().for_each(|repair| say(format_args!("packfs: {}", describe_repair(repair, &set))));
        note_missing(&set, &repairs).iter().for_each(|note| say(format_args!("packfs: note: {note}")));
        report.lost.iter().for_each(|lost| say(format_args!("packfs: lost: {lost}")));
        set.open_end().iter().for_each(|why| say(format_args!("packfs: the end of the dump is missing: {why}")));
    }
    let whole = report.lost.is_empty() && set.open_end().is_none();
    let summary = JoinSummary::new(args, &report, &repairs, kdump, whole, &spent);
    if args.json {
        json::print(&summary)?;
    } else if !args.talk.quiet && !to_stdout {
        summary.say(&spent);
    }
    Ok(if whole { CommandOutcome::Done } else { CommandOutcome::Findings })
}

fn join_raw(set: &Set, target: JoinTarget, options: &JoinOptions, progress: &Progress) -> Result<JoinReport> {
    let stream = |out: &mut File, name: &Path| {
        let options = options.clone().set(|all| all.name = name.to_owned());
        to_stream(set, out, &options, progress)
    };
    match target {
        JoinTarget::Stdout => {
            let name = Path::new(output::STDOUT);
            output::write_raw_result(Error::io("cannot write", name), |stdout| Ok(stream(stdout, name)?))
        }
        JoinTarget::Stream(path) => {
            let mut file = OpenOptions::new().write(true).open(&path).with_context(|| display(&path).to_string())?;
            Ok(stream(&mut file, &path)?)
        }
        JoinTarget::File(file) => {
            let report = to_output(set, &file, options, progress)?;
            commit_dump(file, progress)?;
            Ok(report)
        }
    }
}

/// Report of a dump that had to be complete.
fn whole_report(set: &Set) -> JoinReport {
    let mut report = JoinReport::default();
    report.size = set.len();
    report
}

/// Adds to an error how the user can go on: with the missing parts, with the rest of the split, or without what is lost.
fn explain_error(error: anyhow::Error, set: &Set, args: &JoinArgs) -> anyhow::Error {
    match error.downcast::<Error>() {
        Ok(error @ Error::Incomplete { .. }) => {
            let how = if args.form == JoinForm::Raw { "--partial" } else { "--partial, without --as," };
            let missing: Vec<_> = set.missing().iter().map(|number| (number + 1).to_string()).collect();
            let info = set.info();
            let also = match &missing[..] {
                [] if !info.finished && info.seekable => {
                    "continue the split (packfs info of the parts shows the command), or ".to_owned()
                }
                [] => String::new(),
                [one] => format!("name part {one}, too, or "),
                several => format!("name parts {}, too, or ", several.join(" and ")),
            };
            let text = error.to_string();
            let (first, ranges) =
                text.split_once('\n').map_or((&*text, String::new()), |(first, ranges)| (first, format!("\n{ranges}")));
            let go_on = format!("{also}write the rest to {} with {how}", display(&args.output));
            anyhow::Error::msg(format!("{first}; {}{ranges}", go_on.trim_end_matches(',')))
        }
        Ok(error) => error.into(),
        Err(error) => error,
    }
}

/// Names missing parts, unless the repairs tell of them.
fn note_missing(set: &Set, repairs: &[RestoredSegments]) -> Option<String> {
    let numbers: Vec<_> = set.missing().iter().map(|number| (number + 1).to_string()).collect();
    let (parts, are) = if numbers.len() == 1 { ("part", "is") } else { ("parts", "are") };
    let is_told = numbers.is_empty() || repairs.iter().any(|repair| repair.part.is_none());
    (!is_told).then(|| format!("{parts} {} {are} missing", numbers.join(" and ")))
}

/// Describes a repair.
fn describe_repair(repair: &RestoredSegments, set: &Set) -> String {
    let RestoredSegments { part, segments, bytes, start } = repair;
    let whose = match (part, &set.missing()[..]) {
        (Some(path), _) => format!("damaged in {}", display(path)),
        (None, [number]) => format!("of part {}, which is missing", number + 1),
        (None, []) => "that no part has".into(),
        (None, _) => "of missing parts".into(),
    };
    let segments = units::of(*segments, "segment");
    let bytes = units::bytes(*bytes);
    format!("restored from parity: {segments} {whose} ({bytes} of the dump, the first at {})", Size(*start))
}

/// Data that was restored from parity.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RepairedPart {
    /// Path of the damaged part; null for all missing parts.
    part: Option<String>,
    /// Number of restored segments.
    segments: u64,
    /// Bytes of the dump in these segments.
    bytes: u64,
    /// Position of the first of these bytes in the dump.
    start: u64,
}

impl RepairedPart {
    fn new(repair: &RestoredSegments) -> Self {
        let RestoredSegments { part, segments, bytes, start } = repair;
        RepairedPart { part: part.as_deref().map(json::encode_path), segments: *segments, bytes: *bytes, start: *start }
    }
}

/// Result of joining parts.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct JoinSummary<'a> {
    /// Path of the output; `-` for standard output.
    output: String,
    /// True if nothing is lost.
    whole: bool,
    /// Bytes of the dump.
    size: u64,
    /// Zeros of the dump that became holes, in bytes.
    hole_bytes: u64,
    /// Number of lost bytes; 0 without `--partial`.
    lost_bytes: u64,
    /// Ranges of the dump that are lost; empty without `--partial`.
    lost: &'a [LostRange],
    /// Data restored from parity: one entry for each damaged part, and one for all missing parts.
    repaired: Vec<RepairedPart>,
    /// The crash dump that was written instead of the dump's own bytes; null without `--as kdump` and `--as kdump-flat`.
    kdump: Option<KdumpReport>,
    /// Duration in seconds.
    seconds: f64,
    /// Bytes of the dump per second.
    bytes_per_second: u64,
    /// Largest memory use of the process, in bytes.
    peak_memory: u64,
}

impl JsonDocument for JoinSummary<'_> {
    const KIND: &'static str = "join";
}

impl<'a> JoinSummary<'a> {
    fn new(
        args: &JoinArgs,
        report: &'a JoinReport,
        repairs: &[RestoredSegments],
        kdump: Option<KdumpReport>,
        whole: bool,
        spent: &SpentResources,
    ) -> Self {
        JoinSummary {
            output: json::encode_path(&args.output),
            whole,
            size: report.size,
            hole_bytes: report.hole_bytes,
            lost_bytes: report.lost.iter().map(|lost| lost.end - lost.start).sum(),
            lost: &report.lost,
            repaired: repairs.iter().map(RepairedPart::new).collect(),
            kdump,
            seconds: spent.time.as_secs_f64(),
            bytes_per_second: units::per_second(report.size, spent.time),
            peak_memory: spent.peak_memory,
        }
    }

    fn say(&self, spent: &SpentResources) {
        let lost = match self.lost_bytes {
            0 => String::new(),
            lost => format!(", {} lost", units::bytes(lost)),
        };
        let what = match &self.kdump {
            None => format!("{} ({} of holes{lost})", units::bytes(self.size), units::bytes(self.hole_bytes)),
            Some(kdump) => {
                let pages = units::of(kdump.pages, "page");
                let zeros = units::count(kdump.zero_pages);
                format!("{} with {pages} ({zeros} of zeros)", units::bytes(kdump.len))
            }
        };
        say(format_args!(
            "{}: {what} in {} ({})",
            self.output,
            units::span(spent.time),
            units::speed(self.size, spent.time)
        ));
    }
}
