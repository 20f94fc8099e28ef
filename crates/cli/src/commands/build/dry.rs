//! `build --dry-run`: scans, checks, and estimates the image from a sample. The estimate is that of `packfs tune`, for one
//! way to build.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use packfs_bench::sample::PassTiming;
use packfs_bench::tune::predict::ImagePrediction;
use packfs_bench::tune::{self, TuneCandidate, sample};
use packfs_blocks::Progress;
use packfs_image::build::AnyOptions;
use packfs_image::name::{display, encode};
use packfs_image::request::{OversizedFiles, RequestNotes};
use packfs_image::rules::RuleMatchCount;
use packfs_image::source::LazySpool;
use packfs_image::tree::{FileData, Kind};
use packfs_image::{OnError, Tree, Warnings};
use rustix::fs::{Access, access};
use serde::Serialize;

use super::report::OversizedLine;
use super::{entry_path, fill_tree};
use crate::args::BuildPlan;
use crate::commands::tune::{TrialEffort, predict_images};
use crate::commands::{bench, sources};
use crate::output::failure::{CommandOutcome, option_hint};
use crate::output::json::JsonDocument;
use crate::output::meter::ProgressMeter;
use crate::output::{self, json, target, units, warnings};

/// Bytes that slow codecs are tried on; see `packfs tune --sample`.
const SAMPLE: u64 = 16 << 20;
/// Largest difference between an image and its estimate, in percent. docs/guide/build.md has what was measured.
const SIZE_ERROR: u32 = 5;
/// The same of the time on a machine that has nothing else to do. Opening, flushing and the like vary more than work does.
fn time_error(cpu_seconds: f64) -> u32 {
    if cpu_seconds < 5.0 { 50 } else { 25 }
}

pub(super) fn run(mut plan: BuildPlan) -> Result<CommandOutcome> {
    let strict = plan.request.strict;
    let on_error = plan.request.scan.on_error;
    // Everything that is in the way is to be told, not the first of it.
    plan.request.strict = false;
    plan.request.scan.on_error = OnError::Skip;
    plan.request.spool = true;
    let meter = ProgressMeter::start(plan.quiet);
    let scanned = scan_sources(&plan, meter.progress());
    meter.finish();
    let ScannedSources { mut tree, timing, mut left_out, oversized, matches } = scanned?;
    let mut obstacles: Vec<String> = find_obstacle(&plan).into_iter().collect();
    let checked = plan.request.target.check(&mut tree);
    let fits = checked.is_ok();
    if let Err(error) = checked {
        let error = error.into();
        let hint = option_hint(&error, None).map(|hint| format!("; {hint}")).unwrap_or_default();
        obstacles.push(format!("{error}{hint}"));
    }
    let counts = EntryCounts::of(&tree, &mut left_out)?;
    if strict && tree.warnings.kinds().next().is_some() {
        obstacles.push("--strict stops at the first warning".into());
    }
    if on_error == OnError::Stop && !left_out.is_empty() {
        obstacles
            .push("the first file that cannot be read stops the build; --on-error skip leaves such files out".into());
    }
    let (bytes, inodes) = sample::measure(&tree);
    let estimate = if fits { estimate_image(&tree, &plan, (bytes, inodes), timing, &mut left_out)? } else { None };
    let report = DryRunReport {
        image: json::encode_path(&plan.output),
        options: plan.in_full(),
        counts,
        data_bytes: bytes,
        estimate,
        rules: matches.iter().map(RuleMatches::of).collect(),
        left_out,
        oversized,
        obstacles,
        warnings: &tree.warnings,
    };
    if !plan.quiet {
        warnings::print(&tree.warnings);
    }
    report.print(&plan)?;
    Ok(if report.obstacles.is_empty() && report.left_out.is_empty() {
        CommandOutcome::Done
    } else {
        CommandOutcome::Findings
    })
}

/// The sources, read.
struct ScannedSources {
    tree: Tree,
    timing: PassTiming,
    left_out: Vec<(String, String)>,
    oversized: Option<OversizedFiles>,
    matches: Vec<RuleMatchCount>,
}

fn scan_sources(plan: &BuildPlan, progress: &Arc<Progress>) -> Result<ScannedSources> {
    let mut notes = RequestNotes::default();
    let begun = Instant::now();
    // Nothing is put there, as what can be read only once is copied to a temporary file.
    let mut no_store = LazySpool::new(&plan.request.temporary_dir);
    let filled = fill_tree(plan, &mut no_store, progress, &mut notes);
    let took = begun.elapsed();
    let plan = filled.with_context(|| match &notes.reading {
        Some(source) => sources::name(source),
        None => display(&plan.output).to_string(),
    })?;
    let RequestNotes { left_out, oversized, matches, .. } = notes;
    Ok(ScannedSources { tree: plan.tree, timing: PassTiming::of(took, took), left_out, oversized, matches })
}

/// Builds a sample of the tree.
fn estimate_image(
    tree: &Tree,
    plan: &BuildPlan,
    (bytes, inodes): (u64, u64),
    scan: PassTiming,
    left_out: &mut Vec<(String, String)>,
) -> Result<Option<ImageEstimate>> {
    let stop = bench::session::stop_flag()?;
    let mut target = plan.request.target.clone();
    target.common_mut().offset = 0;
    target.common_mut().on_error = OnError::Skip;
    // An old image says nothing of a sample, and no index of it is to be left behind.
    target.common_mut().reuse = None;
    target.common_mut().index = None;
    let candidates = vec![TuneCandidate::new(target)];
    let way = tune::TunePlan { candidates, sample: SAMPLE, bytes, inodes, scan, stop: Arc::clone(&stop) };
    let effort = TrialEffort { sample: SAMPLE, seed: 1, quiet: plan.quiet, refused: Vec::new() };
    let mut unread = Vec::new();
    let made = predict_images(tree, &way, &effort, stop, &mut unread)?.pop();
    unread.retain(|why| !left_out.iter().any(|(_, known)| known == why));
    left_out.extend(unread.into_iter().map(|why| (String::new(), why)));
    Ok(made.map(|made| ImageEstimate::new(&made, bytes)))
}

/// Returns the reason why the image could not be written to its place.
fn find_obstacle(plan: &BuildPlan) -> Option<String> {
    if plan.writes_to_stdout() {
        return None;
    }
    let path = &plan.output;
    let image = display(path);
    if let Err(error) = target::refuse_stream(path) {
        return Some(error.to_string());
    }
    let common = plan.request.target.common();
    let blob = match &plan.request.target {
        AnyOptions::Erofs(options) => options.blob.as_ref(),
        AnyOptions::Squashfs(_) => None,
    };
    for file in std::iter::once(path).chain(&common.index).chain(blob).filter(|_| !common.force) {
        if let Ok(found) = file.symlink_metadata() {
            let kind = if found.is_dir() { "is a directory" } else { "exists; --force replaces it" };
            return Some(format!("{} {kind}", display(file)));
        }
    }
    // What cannot be replaced is overwritten.
    if path.exists() && access(path, Access::WRITE_OK).is_ok() {
        return None;
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let refused = access(dir, Access::WRITE_OK | Access::EXEC_OK).err()?;
    Some(format!("{image}: cannot create: {}", io::Error::from(refused)))
}

/// Numbers of entries by type.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EntryCounts {
    /// Number of inodes.
    inodes: u64,
    /// Number of regular files.
    files: u64,
    /// Number of directories.
    directories: u64,
    /// Number of symbolic links.
    symlinks: u64,
    /// Number of character and block devices.
    devices: u64,
    /// Number of FIFOs.
    fifos: u64,
    /// Number of sockets.
    sockets: u64,
    /// Sum of the lengths of all files, each hard-linked file once.
    file_bytes: u64,
}

impl EntryCounts {
    /// Counts the entries of a tree; files that cannot be opened are added to `left_out`.
    fn of(tree: &Tree, left_out: &mut Vec<(String, String)>) -> Result<Self> {
        let mut counts = EntryCounts::default();
        tree.walk(|ino, _| {
            counts.inodes += 1;
            match &tree.inode(ino).kind {
                Kind::File { size, data } => {
                    if let FileData::Source { from, key } = data
                        && let Err(error) = from.open(*key)
                    {
                        left_out.push((entry_path(&error), error.to_string()));
                    }
                    counts.files += 1;
                    counts.file_bytes += size;
                }
                Kind::Dir => counts.directories += 1,
                Kind::Symlink(_) => counts.symlinks += 1,
                Kind::Char(_) | Kind::Block(_) => counts.devices += 1,
                Kind::Fifo => counts.fifos += 1,
                Kind::Socket => counts.sockets += 1,
            }
            Ok(())
        })?;
        Ok(counts)
    }

    fn in_words(&self) -> String {
        let kinds = [
            (self.files, "file"),
            (self.directories, "directory"),
            (self.symlinks, "symlink"),
            (self.devices, "device"),
            (self.fifos, "FIFO"),
            (self.sockets, "socket"),
        ];
        let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
        let kinds: Vec<String> = kinds.map(|(count, kind)| units::of(count, kind)).collect();
        format!("{} ({})", units::count(self.inodes), kinds.join(", "))
    }
}

/// Expected size and time of a build.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ImageEstimate {
    /// Length of the image in bytes.
    image_bytes: u64,
    /// Build time in seconds on an idle machine.
    seconds: f64,
    /// Processor time in seconds, summed over all threads.
    cpu_seconds: f64,
    /// `data_bytes` divided by `image_bytes`.
    ratio: f64,
    /// Bytes of the sample.
    tried: u64,
    /// True if the sample was everything, so that the size is exact.
    measured: bool,
    /// Largest expected error of `image_bytes`, in percent.
    size_error_percent: u32,
    /// Largest expected error of `seconds`, in percent.
    time_error_percent: u32,
}

impl ImageEstimate {
    fn new(made: &ImagePrediction, bytes: u64) -> Self {
        ImageEstimate {
            image_bytes: made.size,
            seconds: made.seconds,
            cpu_seconds: made.cpu_seconds,
            ratio: units::ratio(bytes, made.size),
            tried: made.tried,
            measured: made.measured,
            size_error_percent: if made.measured { 0 } else { SIZE_ERROR },
            time_error_percent: time_error(made.cpu_seconds),
        }
    }

    fn in_words(&self, threads: usize) -> String {
        let size = units::bytes(self.image_bytes);
        let size = if self.measured { size } else { format!("{size} (within {SIZE_ERROR} %)") };
        let time = units::span(Duration::try_from_secs_f64(self.seconds).unwrap_or_default());
        let time_error = self.time_error_percent;
        let sample = match self.measured {
            true => "all of it was built".to_owned(),
            false => format!("from a sample of {}", units::bytes(self.tried)),
        };
        let threads = units::of(threads.max(1) as u64, "thread");
        format!("{size}, in {time} on {threads} (within {time_error} %); {sample}")
    }
}

/// A rule, and the number of entries that it matches.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RuleMatches {
    /// File of the rule.
    file: String,
    /// Number of its line, counted from 1.
    line: u32,
    /// Text of the rule.
    rule: String,
    /// Number of names that it matches.
    entries: u64,
}

impl RuleMatches {
    fn of(matches: &RuleMatchCount) -> Self {
        let RuleMatchCount { line, entries, .. } = *matches;
        let text = encode(matches.rule.as_bytes()).into_owned();
        RuleMatches { file: display(&matches.file).to_string(), line, rule: text, entries }
    }
}

/// Result of a dry run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct DryRunReport<'a> {
    /// Path that the image would have.
    image: String,
    /// All options of the build, defaults included, without sources and output. Options for which packfs chooses a value
    /// come first, the others as they were given; `now` and `random` are replaced by their values.
    options: Vec<String>,
    #[serde(flatten)]
    counts: EntryCounts,
    /// Part of `file_bytes` outside holes.
    data_bytes: u64,
    /// Expected size and time; null if the format cannot hold the source or no sample could be built.
    estimate: Option<ImageEstimate>,
    /// Number of entries that each rule matches.
    rules: Vec<RuleMatches>,
    /// Entries that cannot be packed: pairs of path and reason.
    left_out: Vec<(String, String)>,
    /// Files left out because of their length; null without `--max-file-size`.
    oversized: Option<OversizedFiles>,
    /// Reasons why the build would fail.
    obstacles: Vec<String>,
    /// Warnings about sources and entries.
    warnings: &'a Warnings,
}

impl JsonDocument for DryRunReport<'_> {
    const KIND: &'static str = "build-dry-run";
}

impl DryRunReport<'_> {
    fn print(&self, plan: &BuildPlan) -> Result<()> {
        if plan.json {
            return json::print(self);
        }
        for (_, why) in &self.left_out {
            output::say(format_args!("packfs: cannot be packed: {why}"));
        }
        for why in &self.obstacles {
            output::say(format_args!("packfs: the build would fail: {why}"));
        }
        output::write_result(|out| self.write(plan, out))
    }

    fn write(&self, plan: &BuildPlan, out: &mut impl Write) -> Result<()> {
        writeln!(out, "image       {} ({})", self.image, plan.request.target.format())?;
        let options: Vec<OsString> = self.options.iter().map(OsString::from).collect();
        writeln!(out, "options     {}", output::quote_words(&options))?;
        writeln!(out, "entries     {}", self.counts.in_words())?;
        if let Some(oversized) = &self.oversized {
            writeln!(out, "{}", OversizedLine(oversized))?;
        }
        let holes = self.counts.file_bytes.saturating_sub(self.data_bytes);
        writeln!(out, "data        {}, and {} of holes", units::bytes(self.data_bytes), units::bytes(holes))?;
        for RuleMatches { file, line, rule, entries } in &self.rules {
            writeln!(out, "rule        {file}:{line} matches {}: {rule}", units::of(*entries, "entry"))?;
        }
        if let Some(estimate) = &self.estimate {
            writeln!(out, "estimate    {}", estimate.in_words(plan.request.scan.threads))?;
        }
        Ok(writeln!(out, "nothing was written")?)
    }
}
