//! Overhead of measuring: compares times reported by the executor with a bare loop over the same blocks.
//!
//! `cargo run --release -p packfs-bench --example overhead [CODEC...]`. The two alternate; medians of processor time
//! are compared, because other work on the machine affects it less.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use packfs_bench::Result;
use packfs_bench::codecs::CodecMethod;
use packfs_bench::corpus::DataSet;
use packfs_bench::executor::CellExecutor;
use packfs_bench::matrix::CodecCell;
use packfs_bench::memory::PageShares;
use packfs_bench::policy::StoragePolicy;
use packfs_bench::real::CodecMachine;
use packfs_bench::stats::SampleSummary;
use rustix::time::{ClockId, clock_gettime};

/// Number of measurements by each, of which the median counts.
const ROUNDS: usize = 15;
/// Minimum time of a measurement.
const MIN_TIME: Duration = Duration::from_millis(100);

fn main() -> Result<()> {
    let mut codecs: Vec<String> = std::env::args().skip(1).collect();
    if codecs.is_empty() {
        codecs = ["memcpy", "lz4", "snappy", "zstd:1", "zlib:9"].map(str::to_owned).into();
    }
    println!("{:<10} {:>6} {:>12} {:>12} {:>8}", "codec", "block", "bare MB/s", "bench MB/s", "differ");
    let data = Arc::new(DataSet::memory(8 << 20, 1, PageShares::default()));
    for codec in &codecs {
        for block in [4 << 10, 128 << 10] {
            let method: CodecMethod = codec.parse()?;
            let cell = CodecCell {
                data: Arc::clone(&data),
                method,
                block,
                sector: 4096,
                policy: StoragePolicy::Raw,
                threads: 1,
            };
            let mut bare = Vec::new();
            let mut bench = Vec::new();
            for _ in 0..ROUNDS {
                bare.push(bare_loop(&cell)?);
                bench.push(CodecMachine::new().run(&cell, MIN_TIME)?.encode.cpu_seconds());
            }
            if let (Some(bare), Some(bench)) = (SampleSummary::of(&bare), SampleSummary::of(&bench)) {
                let speed = |summary: SampleSummary| data.bytes() as f64 / 1e6 / summary.median;
                let differ = 100.0 * (bench.median / bare.median - 1.0);
                println!("{codec:<10} {block:>6} {:>12.1} {:>12.1} {differ:>7.2}%", speed(bare), speed(bench));
            }
        }
    }
    Ok(())
}

/// Seconds of a pass in which each block has its own buffers, as in the executor.
fn bare_loop(cell: &CodecCell) -> Result<f64> {
    let blocks: Vec<&[u8]> = cell.data.files.iter().flat_map(|file| file.chunks(cell.block)).collect();
    let room = |raw: &&[u8]| match cell.method {
        CodecMethod::Memcpy => raw.len(),
        _ => cell.policy.encoder_room(raw, cell.block, cell.sector).unwrap_or(0),
    };
    let mut packed: Vec<Vec<u8>> = blocks.iter().map(|raw| vec![0xA5; room(raw)]).collect();
    let mut encoder = cell.method.encoder(cell.block)?;
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let start = now();
    let mut passes = 0;
    while passes == 0 || now() - start < MIN_TIME {
        for (raw, packed) in blocks.iter().zip(&mut packed) {
            black_box(encoder.encode(raw, packed)?);
        }
        passes += 1;
    }
    Ok((now() - start).as_secs_f64() / f64::from(passes))
}
