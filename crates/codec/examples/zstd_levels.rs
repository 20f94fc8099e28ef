//! Compares the levels of zstd that packfs gives parameters or a parser of its own with the presets of the library.
//!
//!     cargo run --release -p packfs-codec --example zstd_levels -- 131072 9-22 FILE...
//!
//! Each block is encoded by both, one after the other, so that whatever else the machine does slows both down. At most
//! 32 blocks of each file are taken, spread over it; the least processor time of three rounds counts.

use std::time::Duration;

use packfs_codec::{Choice, Encoder};
use rustix::time::{ClockId, clock_gettime};
use zstd_safe::{CCtx, CParameter};

const BLOCKS: usize = 32;
const ROUNDS: usize = 3;

/// Returns the processor time of this thread.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Returns what `encode` returns, and its time.
fn timed(encode: impl FnOnce() -> usize) -> (usize, Duration) {
    let begin = now();
    (encode(), now() - begin)
}

fn compare(level: i32, block_len: usize, data: &[u8]) -> (f64, f64) {
    let choice: Choice = format!("zstd:{level}").parse().expect("a level of zstd");
    let mut ours: Box<dyn Encoder> = choice.encoder(block_len).expect("an encoder");
    let mut preset = CCtx::create();
    preset.set_parameter(CParameter::CompressionLevel(level)).expect("a level of zstd");
    let mut dst = vec![0; block_len + block_len / 128 + 1000];
    let (mut lens, mut times) = ([0; 2], [Duration::ZERO; 2]);
    let blocks: Vec<&[u8]> = data.chunks_exact(block_len).collect();
    for block in blocks.iter().step_by(blocks.len().div_ceil(BLOCKS).max(1)) {
        let mut least = [Duration::MAX; 2];
        for round in 0..ROUNDS {
            let new = timed(|| ours.encode(block, &mut dst).expect("a block").expect("room"));
            let old = timed(|| preset.compress2(&mut dst[..], block).expect("a block"));
            for (index, (len, time)) in [new, old].into_iter().enumerate() {
                least[index] = least[index].min(time);
                lens[index] += if round == 0 { len } else { 0 };
            }
        }
        (times[0], times[1]) = (times[0] + least[0], times[1] + least[1]);
    }
    (lens[0] as f64 / lens[1] as f64, times[0].as_secs_f64() / times[1].as_secs_f64())
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: zstd_levels BLOCK_LEN FIRST-LAST FILE...";
    let block_len = arguments.next().and_then(|len| len.parse().ok()).expect(usage);
    let levels = arguments.next().expect(usage);
    let (first, last) = levels.split_once('-').expect(usage);
    let levels: std::ops::RangeInclusive<i32> = first.parse().expect(usage)..=last.parse().expect(usage);
    println!("| file | level | size | time |\n|---|--:|--:|--:|");
    for file in arguments {
        let data = std::fs::read(&file).unwrap_or_else(|error| panic!("cannot read {file}: {error}"));
        for level in levels.clone() {
            let (size, time) = compare(level, block_len, &data);
            println!("| {file} | {level} | {size:.4} | {time:.2} |");
        }
    }
}
