//! `packfs bench codecs`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use packfs_bench::codecs::CodecMethod;
use packfs_bench::corpus::{self, DataSet};
use packfs_bench::estimate::CodecRates;
use packfs_bench::matrix::{CodecCell, CodecKey, CodecMatrix};
use packfs_bench::memory::PageShares;
use packfs_bench::real;
use packfs_bench::record::BenchSession;
use packfs_bench::results::CodecRow;
use packfs_image::name::display;
use serde::Serialize;

use crate::args::BenchCodecsArgs;
use crate::output::failure::CommandOutcome;
use crate::output::meter::ProgressMeter;
use crate::output::say;

use super::estimate::ExpectedCost;
use super::session::{self, usage_error};

pub(super) fn run(args: &BenchCodecsArgs) -> Result<CommandOutcome> {
    session::check_output(&args.measuring)?;
    let methods = args.codecs.clone().map_or_else(CodecMethod::defaults, |methods| Ok(methods.0))?;
    let matrix = CodecMatrix {
        data: read_data(args)?,
        blocks: args.blocks.0.clone(),
        sector: args.sector,
        policy: args.policy,
        threads: args.jobs.clone(),
        methods,
    };
    let cells = session::cells_of_part(args.shard, matrix.cells().map_err(usage_error)?);
    let libraries = matrix.methods.iter().map(|method| (method.to_string(), method.library())).collect();
    let about = BenchSession { session: session::name_ending(args.shard), libraries, ..BenchSession::default() };
    let least = Duration::from_millis(args.least);
    let expected = expected_cost(&cells, least);
    let measured =
        session::measure_cells(cells, &mut real::CodecMachine::new(), about, least, expected, &args.measuring)?;
    measured.show(|results| &results.codecs, entry, &args.measuring)
}

/// Each direction passes over the data at least once, and until `least` has gone by.
fn expected_cost(cells: &[CodecCell], least: Duration) -> ExpectedCost {
    let names: Vec<String> = cells.iter().map(|cell| cell.method.to_string()).collect();
    let sample = cells.first().map_or(&[][..], |cell| cell.data.files[0].as_slice());
    let rates = CodecRates::of(&sample[..sample.len().min(1 << 20)], names.iter().map(String::as_str));
    ExpectedCost::of(cells, |cell| {
        let rate = rates.get(&cell.method.to_string());
        let bytes = cell.data.bytes() as f64;
        [rate.encode, rate.decode].map(|each| (each * bytes).max(least.as_secs_f64())).iter().sum()
    })
}

fn read_data(args: &BenchCodecsArgs) -> Result<Vec<Arc<DataSet>>> {
    let mut sets = Vec::new();
    for path in &args.data {
        let meter = ProgressMeter::start(args.measuring.talk.quiet);
        let set = DataSet::read(path, args.sample, meter.progress());
        drop(meter);
        let set = set.with_context(|| format!("--data {}", display(path)))?;
        for reason in &set.left_out {
            say(format_args!("packfs: left out: {reason}"));
        }
        sets.push(set);
    }
    let most = usize::try_from(args.sample).unwrap_or(usize::MAX);
    if sets.is_empty() {
        sets.push(DataSet::memory(most, args.measuring.seed, PageShares::default()));
    }
    sets.push(DataSet::incompressible(most, args.measuring.seed));
    Ok(corpus::number_same_names(sets))
}

/// Results of a cell: a codec on blocks of data. MB are millions of bytes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct CodecResult<'a> {
    #[serde(flatten)]
    key: &'a CodecKey,
    /// Sizes of the data and of the result.
    sizes: &'a packfs_bench::metrics::PassSizes,
    /// Stored bytes divided by raw bytes.
    ratio: f64,
    /// Median speed of encoding all blocks, in MB/s.
    encode_speed: Option<f64>,
    /// Median speed of decoding the blocks kept compressed, in MB/s; null if there are none.
    decode_speed: Option<f64>,
    /// Bytes saved per second of encoding, in MB/s.
    encode_savings: Option<f64>,
    /// Bytes saved per second of decoding, in MB/s; null if nothing was decoded.
    decode_savings: Option<f64>,
    /// Spread of the times of encoding, relative to their median; null after a single run.
    encode_spread: Option<f64>,
    /// Spread of the times of decoding, relative to their median; null after a single run and if nothing was decoded.
    decode_spread: Option<f64>,
    /// Number of samples.
    runs: usize,
}

fn entry(row: &CodecRow) -> CodecResult<'_> {
    CodecResult {
        key: &row.key,
        sizes: &row.sizes,
        ratio: row.sizes.ratio(),
        encode_speed: row.encode_speed(),
        decode_speed: row.decode_speed(),
        encode_savings: row.encode_savings(),
        decode_savings: row.decode_savings(),
        encode_spread: row.encode.spread(),
        decode_spread: row.decode.and_then(|decode| decode.spread()),
        runs: row.encode.count,
    }
}
