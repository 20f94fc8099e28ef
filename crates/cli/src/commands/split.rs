//! `packfs split`.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use packfs_blocks::units::ByteSpan;
use packfs_dump::{Error, Input, PartReport, SplitOptions, SplitReport, kdump, shared_disks};
use packfs_image::name::display;
use serde::Serialize;

use crate::args::SplitArgs;
use crate::input;
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::json::JsonDocument;
use crate::output::meter::{ProgressMeter, SpentResources};
use crate::output::{interrupt, json, say, units};

pub(super) fn run(args: &SplitArgs) -> Result<CommandOutcome> {
    if args.parts.iter().any(|part| part == Path::new("-")) {
        let why = "-: a part needs a name, also for `--resume`: give a file, a block device or a FIFO (`./-` for a file of this name)";
        return Err(UsageError(why.into()).into());
    }
    if args.input == Path::new("-") {
        input::require_stdin()?;
    }
    let options = args.options();
    let note = |note: &String| say(format_args!("packfs: note: {note}"));
    let core = open_core(args)?;
    let decoded = core.is_some();
    let input = core.map_or_else(|| Input::open(&args.input), Ok);
    let checked = input.and_then(|input| packfs_dump::check(&input, &args.parts, &options).map(|()| input));
    let input = checked.with_context(|| format!("splitting {}", display(&args.input)))?;
    let shared = shared_disks(&args.parts);
    if !args.talk.quiet {
        // Now, while there is still time to choose other disks.
        shared.iter().for_each(note);
    }
    if decoded && !args.talk.quiet {
        let input = display(&args.input);
        note(&format!("{input}: stored as the ELF core that this crash dump was made from; --as-is stores its bytes"));
    }
    // A split is not undone: its parts can be continued, or joined as far as they go.
    let is_stream = input.size().is_none();
    interrupt::explain_end(if is_stream {
        "packfs join --partial restores what the parts contain".into()
    } else if options.force {
        "continue with the same command, with --resume instead of --force".into()
    } else {
        "continue with the same command and --resume".into()
    });
    let meter = ProgressMeter::start(args.talk.quiet);
    let done = packfs_dump::split(input, &args.parts, &options, meter.progress());
    let spent = meter.finish();
    let done = done.map_err(|error| if decoded { explain_other_input(error) } else { error });
    let report = done.with_context(|| format!("splitting {}", display(&args.input)))?;
    if !args.talk.quiet {
        report.notes.iter().filter(|note| !shared.contains(note)).for_each(note);
    }
    list_problems(&report, is_stream).iter().for_each(|line| say(format_args!("packfs: {line}")));
    let summary = SplitSummary::new(args, decoded, &options, &report, &spent);
    if args.json {
        json::print(&summary)?;
    } else if !args.talk.quiet {
        say(&summary);
    }
    Ok(if report.is_clean() { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// Returns the ELF core of an input that makedumpfile compressed or flattened, unless its bytes are to be split.
fn open_core(args: &SplitArgs) -> Result<Option<Input>> {
    if args.as_is || args.input == Path::new("-") {
        return Ok(None);
    }
    let core = kdump::input(&args.input).map_err(|error| match error {
        Error::Corrupt { .. } | Error::Unsupported(_) => {
            anyhow::Error::msg(format!("{error}\n--as-is splits the bytes of the file"))
        }
        // One file of `makedumpfile --split`.
        Error::Lost { .. } => anyhow::Error::msg(format!(
            "{error}\nmakedumpfile --reassemble combines the files of a dump, --as-is splits the bytes of this one"
        )),
        error => error.into(),
    });
    core.with_context(|| format!("splitting {}", display(&args.input)))
}

/// Adds to the error of resuming with another input why the ELF core of a crash dump may be another one.
fn explain_other_input(error: Error) -> Error {
    match error {
        Error::NotResumable(why) if why.starts_with("the input") => Error::NotResumable(format!(
            "{why}; give --as-is if the split was begun with it; begin anew what packfs 0.3 or older began"
        )),
        error => error,
    }
}

/// Returns the problems that did not stop the split, one per line.
fn list_problems(report: &SplitReport, is_stream: bool) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(report.input_error.as_ref().map(|why| format!("the input: {why}")));
    for part in &report.parts {
        lines.extend(part.error.as_ref().map(|why| format!("{}: abandoned: {why}", display(&part.path))));
    }
    // With --dedup, a chunk may be stored as a reference to one that was lost later.
    let equal = if report.chunks.same_bytes > 0 { ", and chunks equal to it," } else { "" };
    for (start, end) in &report.suspect {
        let range = ByteSpan(*start..*end);
        lines.push(format!(
            "{range} of the dump{equal} may be lost: the part that had it failed, and a stream cannot be read again"
        ));
    }
    if report.weak_stripes > 0 {
        let stripes = units::of(report.weak_stripes, "stripe");
        let advice = if is_stream { "" } else { "; once they are replaced, --resume restores the protection" };
        lines.push(format!("{stripes} may lose fewer parts than requested, because parts failed{advice}"));
    }
    lines
}

/// Result of a split.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SplitSummary<'a> {
    /// Path of the input; `-` for standard input.
    input: String,
    /// True if the ELF core of a crash dump was stored instead of the bytes of the file.
    decoded: bool,
    /// The codec with all its options.
    codec: String,
    /// Maximum bytes of a chunk before compression.
    chunk: u32,
    /// Number of parts that may be lost.
    parity: u16,
    /// Seconds until everything was on disk.
    seconds: f64,
    /// Bytes of the dump per second, without those found by `--resume`.
    bytes_per_second: u64,
    /// `bytes` divided by the length of all parts.
    ratio: f64,
    /// Largest memory use of the process, in bytes.
    peak_memory: u64,
    #[serde(flatten)]
    report: &'a SplitReport,
    /// The parts, by number.
    parts: Vec<SplitPart<'a>>,
}

impl JsonDocument for SplitSummary<'_> {
    const KIND: &'static str = "split";
}

/// A part that the split wrote.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SplitPart<'a> {
    /// Path of the part.
    path: String,
    /// Bytes written to the part per second, without those found by `--resume`.
    bytes_per_second: u64,
    #[serde(flatten)]
    report: &'a PartReport,
}

impl<'a> SplitSummary<'a> {
    fn new(
        args: &SplitArgs,
        decoded: bool,
        options: &SplitOptions,
        report: &'a SplitReport,
        spent: &SpentResources,
    ) -> Self {
        let seconds = report.times.to_disk;
        let stored = report.parts.iter().map(|part| part.bytes).sum();
        let parts = report.parts.iter().map(|part| SplitPart {
            path: json::encode_path(&part.path),
            bytes_per_second: speed(part.bytes - part.resumed_bytes, part.busy_seconds + part.sync_seconds),
            report: part,
        });
        SplitSummary {
            input: json::encode_path(&args.input),
            decoded,
            codec: options.codec.to_string(),
            chunk: options.chunk,
            parity: options.parity,
            seconds,
            bytes_per_second: speed(report.bytes.saturating_sub(report.resumed_bytes), seconds),
            ratio: units::ratio(report.bytes, stored),
            peak_memory: spent.peak_memory,
            report,
            parts: parts.collect(),
        }
    }
}

fn speed(bytes: u64, seconds: f64) -> u64 {
    units::per_second(bytes, Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

impl fmt::Display for SplitSummary<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report;
        let bytes = units::bytes;
        let span = |seconds| units::span(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        writeln!(out, "set         {} ({}, chunks of {})", report.set, self.codec, bytes(self.chunk.into()))?;
        let state = if report.complete { "complete" } else { "incomplete" };
        writeln!(out, "split       {}, {state}, {}", bytes(report.bytes), units::smaller(self.ratio))?;
        if report.resumed_bytes > 0 {
            writeln!(out, "resumed     {} of it had been written before", bytes(report.resumed_bytes))?;
        }
        let chunks = &report.chunks;
        let saved = chunks.fill_bytes + chunks.squeezed_bytes;
        write!(out, "saved       {} of zeros and patterns", bytes(saved))?;
        if chunks.same_bytes > 0 {
            write!(out, ", {} of equal chunks", bytes(chunks.same_bytes))?;
        }
        if chunks.parity_bytes > 0 {
            write!(out, "; parity takes {}", bytes(chunks.parity_bytes))?;
        }
        writeln!(out)?;
        for part in &self.parts {
            let state = if part.report.error.is_some() { ", abandoned" } else { "" };
            let size = bytes(part.report.bytes);
            let speed = bytes(part.bytes_per_second);
            writeln!(out, "part        {} ({size}, {speed}/s{state})", part.path)?;
        }
        let cache = span(report.times.to_cache);
        let disk = span(self.seconds);
        let memory = bytes(self.peak_memory);
        let speed = bytes(self.bytes_per_second);
        write!(out, "took        {cache} until written, {disk} until on disk ({speed}/s), {memory} of memory at most")
    }
}
