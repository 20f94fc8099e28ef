//! `packfs bench split`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use packfs_bench::program;
use packfs_bench::record::BenchSession;
use packfs_bench::results::TrialRow;
use packfs_bench::split::{
    DiskProfile, SplitCell, SplitKey, SplitMachine, SplitMatrix, SplitProgram, SplitSource, SplitTool, SplitWork,
};
use packfs_dump::fastest_form;
use packfs_image::name::display;
use serde::Serialize;

use crate::args::BenchSplitArgs;
use crate::output::failure::{CommandOutcome, UsageError};
use crate::resources;

use super::estimate::{self, ExpectedCost, START};
use super::peers;
use super::session::{self, usage_error};

/// Maximum number of outputs by default.
const OUTPUTS: usize = 8;
/// Disks by default, with their speeds: equal ones, and different ones.
const DISKS: [&str; 2] = ["50", "50,50,50,200"];

pub(super) fn run(args: &BenchSplitArgs) -> Result<CommandOutcome> {
    // From here on there is something to clean up.
    let stop = session::stop_flag()?;
    session::check_output(&args.measuring)?;
    let parent = args.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = session::create_scratch(Some(&parent), None)?;
    let tools = find_tools(args)?;
    let profiles = disk_profiles(args)?;
    let matrix = SplitMatrix {
        sources: open_sources(args, scratch.path())?,
        codecs: args.codecs.0.clone(),
        outputs: output_counts(args),
        profiles,
        tools,
    };
    session::fail_if_stopped(&stop)?;
    let cells = matrix.cells();
    let about = BenchSession {
        libraries: list_libraries(&matrix),
        settings: list_settings(args, &parent),
        ..BenchSession::default()
    };
    let mut machine = SplitMachine::new(scratch.path(), &args.dirs);
    let expected = expected_cost(&cells, &parent);
    let measured = session::measure_cells(cells, &mut machine, about, Duration::ZERO, expected, &args.measuring)?;
    measured.show(|results| &results.splits, entry, &args.measuring)
}

/// A split takes what the codec on all processors takes, or the disks if that is longer. Sources that were made, parts and
/// what was joined from them lie side by side.
fn expected_cost(cells: &[SplitCell], scratch: &Path) -> ExpectedCost {
    let names = cells.iter().map(|cell| fastest_form(&cell.codec));
    let sample = cells.first().map(|cell| cell.source.path.as_path());
    let rates = sample.map(|path| estimate::measure_rates(path, names)).unwrap_or_default();
    let seconds = |cell: &SplitCell| {
        let rate = rates.get(fastest_form(&cell.codec));
        let bytes = cell.source.bytes as f64;
        let disks = cell.profile.disks(cell.outputs).filter(|_| cell.work == SplitWork::Split);
        let speed: u32 = disks.iter().flatten().map(|disk| disk.speed).sum();
        let disks = if speed > 0 { bytes * rate.ratio.min(1.0) / (1e6 * f64::from(speed)) } else { 0.0 };
        START + disks.max(bytes * (rate.encode + rate.decode) / resources::cores() as f64)
    };
    let largest = cells.iter().map(|cell| cell.source.bytes).max().unwrap_or(0);
    let made = cells.iter().filter(|cell| cell.source.path.starts_with(scratch));
    let made: BTreeMap<_, u64> = made.map(|cell| (&cell.source.path, cell.source.bytes)).collect();
    ExpectedCost::of(cells, seconds).with_scratch(made.values().sum::<u64>() + 2 * largest, scratch)
}

fn open_sources(args: &BenchSplitArgs, scratch: &Path) -> Result<Vec<Arc<SplitSource>>> {
    let seed = args.measuring.seed;
    let sources = if args.data.is_empty() {
        if args.size == 0 {
            return Err(UsageError("--size 0 leaves no data to split; accepted: 1 or more".into()).into());
        }
        vec![
            SplitSource::memory(scratch.join("memory"), args.size, seed, args.shares).map_err(usage_error)?,
            SplitSource::incompressible(scratch.join("incompressible"), args.size, seed).map_err(usage_error)?,
        ]
    } else {
        args.data
            .iter()
            .map(|path| {
                SplitSource::open(path).map_err(usage_error).with_context(|| format!("--data {}", display(path)))
            })
            .collect::<Result<_>>()?
    };
    Ok(sources.into_iter().map(Arc::new).collect())
}

fn disk_profiles(args: &BenchSplitArgs) -> Result<Vec<DiskProfile>> {
    if !args.dirs.is_empty() {
        return Ok(vec![DiskProfile::Directories]);
    }
    if !args.disks.is_empty() {
        return Ok(args.disks.clone());
    }
    DISKS.iter().map(|disks| disks.parse().map_err(usage_error)).collect()
}

fn output_counts(args: &BenchSplitArgs) -> Vec<usize> {
    let most = if args.dirs.is_empty() { OUTPUTS } else { args.dirs.len() };
    args.outputs.as_ref().map_or_else(|| (1..=most).collect(), |outputs| outputs.0.clone())
}

/// Returns this program, and the requested peers.
fn find_tools(args: &BenchSplitArgs) -> Result<Vec<SplitTool>> {
    let path = peers::own_path()?;
    let mut tools = vec![SplitTool { program: SplitProgram::Packfs, path }];
    let peers = [(SplitProgram::Nsplit, &args.nsplit), (SplitProgram::Makedumpfile, &args.makedumpfile)];
    for (program, path) in peers.into_iter().filter_map(|(program, path)| Some((program, path.clone()?))) {
        let named = SplitTool { program, path };
        let missing =
            || UsageError(format!("--{} {}: no such program that can be run", named.name(), display(&named.path)));
        let path = find_program(&named.path).ok_or_else(missing)?;
        tools.push(SplitTool { path, ..named });
    }
    Ok(tools)
}

/// Finds a program by its path, or by its name on `PATH`.
fn find_program(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|parent| *parent != Path::new(""));
    let name = path.file_name();
    let there = program::find(name?.to_str()?, folder);
    // If a folder was given, a program of the same name elsewhere does not count.
    there.filter(|there| folder.is_none() || there == path)
}

/// Returns the library of each codec, and the version of each program.
fn list_libraries(matrix: &SplitMatrix) -> BTreeMap<String, String> {
    let codec = |codec: &String| {
        let choice = fastest_form(codec).parse::<packfs_codec::Choice>().ok()?;
        Some((codec.clone(), choice.codec().library()))
    };
    let version = |tool: &SplitTool| (tool.name().to_owned(), tool.version());
    matrix.codecs.iter().filter_map(codec).chain(matrix.tools.iter().map(version)).collect()
}

/// Returns other settings that affect the results.
fn list_settings(args: &BenchSplitArgs, scratch: &Path) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::from([("scratch directory".to_owned(), display(scratch).to_string())]);
    if !args.dirs.is_empty() {
        let dirs: Vec<String> = args.dirs.iter().map(|dir| display(dir).to_string()).collect();
        settings.insert("directories".into(), dirs.join(", "));
    }
    settings
}

/// Results of a cell: splits, joins or checks of a dump.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct SplitResult<'a> {
    #[serde(flatten)]
    key: &'a SplitKey,
    /// Length of the data in bytes.
    bytes: u64,
    /// Bytes of all parts; 0 unless `work` is `split`.
    made: u64,
    /// Median elapsed time in seconds.
    seconds: f64,
    /// Spread of the elapsed times, relative to their median; null after a single run.
    spread: Option<f64>,
    /// Millions of bytes of data per second; null if the time was too short to measure.
    speed: Option<f64>,
    /// Median processor time in seconds.
    cpu_seconds: f64,
    /// Largest memory use of any run in bytes; null if unknown.
    peak_memory: Option<u64>,
    /// Median seconds of each of the `times` of `packfs split --json`; empty for other work and other programs.
    stages: &'a BTreeMap<String, f64>,
    /// Number of samples.
    runs: usize,
}

fn entry(row: &TrialRow<SplitKey>) -> SplitResult<'_> {
    SplitResult {
        key: &row.key,
        bytes: row.bytes,
        made: row.made,
        seconds: row.time.median,
        spread: row.time.spread(),
        speed: row.speed(),
        cpu_seconds: row.cpu,
        peak_memory: row.peak_memory,
        stages: &row.stages,
        runs: row.time.count,
    }
}
