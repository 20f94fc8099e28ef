//! `packfs bench --quick`: a first look, whose duration is bounded by measuring less on slower machines.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use packfs_bench::codecs::CodecMethod;
use packfs_bench::corpus::DataSet;
use packfs_bench::executor::CellExecutor;
use packfs_bench::matrix::{CodecCell, CodecMatrix};
use packfs_bench::policy::StoragePolicy;
use packfs_bench::real::CodecMachine;
use packfs_bench::record::BenchSession;
use packfs_bench::report::{BenchReport, html, text};
use packfs_blocks::Progress;
use packfs_image::name::display;

use super::estimate::ExpectedCost;
use super::session::{self, usage_error};
use crate::args::{BenchQuickArgs, MeasuringArgs, PackfsCli, PackfsCommand, TalkArgs, TrialBuild};
use crate::commands::tune::{self, TrialEffort};
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::{self, say, target, units};

/// Codecs that show the range of choices, each on blocks of both sizes.
const CODECS: &str = "memcpy,lz4,gzip:6,zstd:3,zstd:15,xz:6";
const BLOCKS: [usize; 2] = [128 << 10, 1 << 20];
/// Images to build: format, codecs, blocks.
const BUILDS: [[&str; 3]; 2] =
    [["squashfs", "lz4,gzip:6,zstd:3,zstd:15,xz:6", "128K,1M"], ["erofs", "lz4,lz4hc:12,lzma:6", "64K"]];
const RUNS: u32 = 3;
/// Minimum duration of a measurement.
const LEAST: Duration = Duration::from_millis(20);

/// Number of bytes on which codecs, and the slowest builds, are measured if a core has the
/// [`USUAL`] speed: together well below a minute.
const SAMPLE: f64 = 3e6;
/// Bytes per second that a typical core compresses with the codec used for calibration.
const USUAL: f64 = 90e6;
const TRIED_BEFOREHAND: &str = "zstd:3";
/// Number of bytes used for calibration, and the least worth measuring.
const LITTLE: u64 = 512 << 10;

pub(super) fn run(args: &BenchQuickArgs, dir: &Path) -> Result<CommandOutcome> {
    let samples = args.output.with_extension("jsonl");
    if samples == args.output {
        let why = "samples go to this file; name a page that ends in .html, and they go to a file beside it";
        return Err(UsageError(format!("-o {}: {why}", display(&args.output))).into());
    }
    output::require_stdout()?;
    let page = target::create(&args.output, target::READABLE, args.force)?;
    let sample = affordable_sample(dir)?;
    let cells = list_cells(dir, sample)?;
    let ways = list_ways(dir)?;
    if !args.quiet {
        let sample = units::bytes(sample);
        let codecs = cells.len();
        say(format_args!(
            "packfs: measuring {codecs} cells of codecs and blocks on {sample} of {}, then {} ways to build an image; less \
             than two minutes in all",
            display(dir),
            ways.len()
        ));
    }
    let about = BenchSession {
        libraries: cells.iter().map(|cell| (cell.method.to_string(), cell.method.library())).collect(),
        ..BenchSession::default()
    };
    let how = MeasuringArgs {
        runs: RUNS,
        seed: 1,
        output: samples,
        resume: false,
        resumable: false,
        json: false,
        talk: TalkArgs { quiet: args.quiet },
    };
    let measured =
        session::measure_cells(cells, &mut CodecMachine::new(), about, LEAST, ExpectedCost::default(), &how)?;
    let candidates = ways.into_iter().map(|way| way.candidate).collect();
    let effort = TrialEffort { sample, seed: 1, quiet: args.quiet, refused: Vec::new() };
    let tried = tune::try_candidates(dir, candidates, &effort, None)?;
    let report = BenchReport::of_quick(&measured.results, &tried.predictions);
    target::fill(page, &html(&report))?;
    super::super::print(&text(&report.brief()))?;
    if !args.quiet {
        let page = display(&args.output);
        let samples = display(&how.output);
        say(format_args!("packfs: {page} has charts and all tables; the samples are in {samples}"));
        say(format_args!("packfs: packfs tune {} finds the best settings for a goal", display(dir)));
    }
    Ok(if measured.failed > 0 || !tried.left_out.is_empty() { CommandOutcome::Findings } else { CommandOutcome::Done })
}

/// Returns the size of a sample that this machine can measure in the available time.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few megabytes")]
fn affordable_sample(dir: &Path) -> Result<u64> {
    let data = vec![Arc::new(DataSet::read(dir, LITTLE, &Progress::default())?)];
    let matrix = make_matrix(data, CodecMethod::list(TRIED_BEFOREHAND)?, &BLOCKS[..1]);
    let mut speed = USUAL;
    for cell in matrix.cells().map_err(usage_error)? {
        let sample = CodecMachine::new().run(&cell, LEAST)?;
        speed = sample.sizes.raw as f64 / sample.encode.seconds().max(1e-9);
    }
    // Never more than on a usual machine: the bound is for slow ones.
    Ok((SAMPLE * (speed / USUAL).min(1.0)).max(LITTLE as f64) as u64)
}

fn list_cells(dir: &Path, sample: u64) -> Result<Vec<CodecCell>> {
    let data = DataSet::read(dir, sample, &Progress::default())?;
    for reason in &data.left_out {
        say(format_args!("packfs: left out: {reason}"));
    }
    make_matrix(vec![Arc::new(data)], CodecMethod::list(CODECS)?, &BLOCKS).cells().map_err(usage_error)
}

fn make_matrix(data: Vec<Arc<DataSet>>, methods: Vec<CodecMethod>, blocks: &[usize]) -> CodecMatrix {
    CodecMatrix {
        data,
        methods,
        blocks: blocks.to_vec(),
        sector: 4096,
        policy: StoragePolicy::Squashfs,
        threads: vec![1],
    }
}

/// Returns the builds, as `packfs tune` would try them.
fn list_ways(dir: &Path) -> Result<Vec<TrialBuild>> {
    use clap::Parser;
    let mut ways = Vec::new();
    for [format, codecs, blocks] in BUILDS {
        let words: [OsString; 8] =
            ["packfs", "tune", "--format", format, "--codecs", codecs, "--blocks", blocks].map(Into::into);
        let source = PathBuf::from(".").join(dir);
        let cli = PackfsCli::try_parse_from(words.into_iter().chain([source.into()]))?;
        if let PackfsCommand::Tune(tune) = cli.command {
            ways.extend(tune.trial_builds()?.all);
        }
    }
    Ok(ways)
}
