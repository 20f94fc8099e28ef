//! Compares the levels of zstd that packfs gives parameters of its own with the presets of the library.
//!
//!     cargo run --release -p packfs-codec --example zstd_levels -- 131072 FILE...
//!
//! Each block is encoded by both, one after the other, so that whatever else the machine does slows both down. At most
//! 64 blocks of each file are taken, spread over it.

use std::time::{Duration, Instant};

use packfs_codec::{Choice, Encoder};
use zstd_safe::{CCtx, CParameter};

const BLOCKS: usize = 64;

struct Tally {
    len: usize,
    time: Duration,
}

impl Tally {
    fn add(&mut self, encode: impl FnOnce() -> usize) {
        let begin = Instant::now();
        self.len += encode();
        self.time += begin.elapsed();
    }
}

fn compare(level: i32, block_len: usize, data: &[u8]) -> (f64, f64) {
    let choice: Choice = format!("zstd:{level}").parse().expect("a level of zstd");
    let mut ours: Box<dyn Encoder> = choice.encoder(block_len).expect("an encoder");
    let mut preset = CCtx::create();
    preset.set_parameter(CParameter::CompressionLevel(level)).expect("a level of zstd");
    let mut dst = vec![0; block_len + block_len / 128 + 1000];
    let [mut new, mut old] = [const { Tally { len: 0, time: Duration::ZERO } }; 2];
    let blocks: Vec<&[u8]> = data.chunks_exact(block_len).collect();
    for block in blocks.iter().step_by(blocks.len().div_ceil(BLOCKS).max(1)) {
        new.add(|| ours.encode(block, &mut dst).expect("a block").expect("room"));
        old.add(|| preset.compress2(&mut dst[..], block).expect("a block"));
    }
    (new.len as f64 / old.len as f64, new.time.as_secs_f64() / old.time.as_secs_f64())
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let block_len = arguments.next().and_then(|len| len.parse().ok()).expect("usage: zstd_levels BLOCK_LEN FILE...");
    println!("| file | level | size | time |\n|---|--:|--:|--:|");
    for file in arguments {
        let data = std::fs::read(&file).unwrap_or_else(|error| panic!("cannot read {file}: {error}"));
        for level in 9..=18 {
            let (size, time) = compare(level, block_len, &data);
            println!("| {file} | {level} | {size:.4} | {time:.2} |");
        }
    }
}
