//! Compares xz levels of packfs with the presets of liblzma, both without filters for machine code.
//!
//!     cargo run --release -p packfs-codec --example xz_presets -- 131072 FILE...
//!
//! Each block is encoded by both, one after the other, so that whatever else the machine does slows both down. At most
//! 64 blocks of each file are taken, spread over it. Times are those of the processor.

use liblzma::stream::{Action, Check, Filters, LzmaOptions, Stream};
use packfs_codec::{Choice, Encoder};
use rustix::time::{ClockId, clock_gettime};

const BLOCKS: usize = 64;

struct Tally {
    len: usize,
    seconds: f64,
}

fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

impl Tally {
    fn add(&mut self, encode: impl FnOnce() -> usize) {
        let begin = processor_seconds();
        self.len += encode();
        self.seconds += processor_seconds() - begin;
    }
}

/// Encodes a block as other users of liblzma do, with a dictionary of the block's size.
fn by_library(level: u32, block: &[u8], dst: &mut Vec<u8>) -> usize {
    let mut options = LzmaOptions::new_preset(level).expect("a preset");
    options.dict_size(u32::try_from(block.len().max(4096)).expect("a block"));
    let mut filters = Filters::new();
    filters.lzma2(&options);
    let mut stream = Stream::new_stream_encoder(&filters, Check::Crc32).expect("an encoder");
    dst.clear();
    stream.process_vec(block, dst, Action::Finish).expect("a block");
    dst.len()
}

fn compare(level: u32, block_len: usize, data: &[u8]) -> (f64, f64, f64) {
    let encoder = |text: String| -> Box<dyn Encoder> {
        text.parse::<Choice>().expect("a level").encoder(block_len).expect("an encoder")
    };
    let (mut usual, mut fixed) = (encoder(format!("xz:{level}")), encoder(format!("xz:{level}:bits=fixed")));
    let mut dst = vec![0; block_len * 2 + 1000];
    let mut stream = Vec::with_capacity(dst.len());
    let [mut new, mut of_fixed, mut old] = [const { Tally { len: 0, seconds: 0.0 } }; 3];
    let blocks: Vec<&[u8]> = data.chunks_exact(block_len).collect();
    for block in blocks.iter().step_by(blocks.len().div_ceil(BLOCKS).max(1)) {
        new.add(|| usual.encode(block, &mut dst).expect("a block").expect("room"));
        of_fixed.add(|| fixed.encode(block, &mut dst).expect("a block").expect("room"));
        old.add(|| by_library(level, block, &mut stream));
    }
    let size = |tally: &Tally| tally.len as f64 / old.len as f64;
    (size(&new), size(&of_fixed), new.seconds / old.seconds)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let block_len = arguments.next().and_then(|len| len.parse().ok()).expect("usage: xz_presets BLOCK_LEN FILE...");
    println!("| file | level | size | with bits=fixed | time |\n|---|--:|--:|--:|--:|");
    for file in arguments {
        let data = std::fs::read(&file).unwrap_or_else(|error| panic!("cannot read {file}: {error}"));
        for level in 4..=9 {
            let (size, fixed, time) = compare(level, block_len, &data);
            println!("| {file} | {level} | {size:.4} | {fixed:.4} | {time:.2} |");
        }
    }
}
