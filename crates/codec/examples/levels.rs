//! Compares levels of packfs with those of libraries: levels of zstd, lz4 and lz4hc that have parameters or an encoder of
//! their own, and those of gzip with zopfli, the densest encoder for its format.
//!
//!     cargo run --release -p packfs-codec --example levels -- zstd 131072 9-22 FILE...
//!     cargo run --release -p packfs-codec --example levels -- lz4hc --fill 65536 9-12 FILE...
//!     cargo run --release -p packfs-codec --example levels -- lz4 131072 1-1 FILE...
//!     cargo run --release -p packfs-codec --example levels -- gzip 131072 9-12 FILE...
//!
//! Each block is encoded by both, one after the other, so that whatever else the machine does slows both down. At most
//! 32 blocks of each file are taken, spread over it; the least processor time of three rounds counts. With `--fill`,
//! lengths are those of clusters that are filled, and sizes and times are those of a byte of input.

use std::time::Duration;

use lzzzz::{lz4, lz4_hc};
use packfs_codec::{Choice, Encoder};
use rustix::time::{ClockId, clock_gettime};
use zstd_safe::{CCtx, CParameter};

const BLOCKS: usize = 32;
const ROUNDS: usize = 3;
/// Input that is offered for each byte of a cluster.
const OFFERED: usize = 16;

/// Returns the processor time of this thread.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Encodes some or all of a block; returns the input taken and the length.
type Encode = Box<dyn FnMut(&[u8], &mut [u8]) -> (usize, usize)>;

fn of_library(codec: &str, level: i32, fill: bool) -> Encode {
    match (codec, fill) {
        ("zstd", false) => {
            let mut preset = CCtx::create();
            preset.set_parameter(CParameter::CompressionLevel(level)).expect("a level of zstd");
            Box::new(move |src, dst| (src.len(), preset.compress2(dst, src).expect("a block")))
        }
        ("gzip", false) => Box::new(move |src, dst| {
            let options = zopfli::Options::default();
            let mut rest = &mut dst[..];
            zopfli::compress(options, zopfli::Format::Zlib, src, &mut rest).expect("a block");
            let left = rest.len();
            (src.len(), dst.len() - left)
        }),
        ("lz4", false) => Box::new(move |src, dst| (src.len(), lz4::compress(src, dst, level).expect("a block"))),
        ("lz4hc", false) => Box::new(move |src, dst| (src.len(), lz4_hc::compress(src, dst, level).expect("a block"))),
        ("lz4hc", true) => Box::new(move |src, dst| {
            let (taken, len) = lz4_hc::compress_fill(src, dst, level).expect("a cluster");
            if taken > len { (taken, len) } else { (dst.len(), dst.len()) }
        }),
        _ => panic!("codecs are zstd, gzip, lz4 and lz4hc, and only lz4hc fills"),
    }
}

fn of_packfs(codec: &str, level: i32, fill: bool, len: usize) -> Encode {
    let option = if codec == "lz4" { "acceleration=" } else { "" };
    let choice: Choice = format!("{codec}:{option}{level}").parse().expect("a level of the codec");
    let mut encoder: Box<dyn Encoder> = choice.encoder(len).expect("an encoder");
    Box::new(move |src, dst| match fill {
        // Input that does not shrink is stored.
        true => encoder
            .encode_prefix(src, dst)
            .expect("a cluster")
            .map_or((dst.len(), dst.len()), |prefix| (prefix.taken, prefix.len)),
        false => (src.len(), encoder.encode(src, dst).expect("a block").expect("room")),
    })
}

/// Returns how our size and our time for a byte of input compare with those of the library.
fn compare(codec: &str, level: i32, fill: bool, len: usize, data: &[u8]) -> (f64, f64) {
    let mut encoders = [of_packfs(codec, level, fill, len), of_library(codec, level, fill)];
    let mut dst = vec![0; if fill { len } else { len + len / 128 + 1000 }];
    let (mut taken, mut lens, mut times) = ([0; 2], [0; 2], [Duration::ZERO; 2]);
    let blocks: Vec<&[u8]> = data.chunks_exact(if fill { len * OFFERED } else { len }).collect();
    for block in blocks.iter().step_by(blocks.len().div_ceil(BLOCKS).max(1)) {
        let mut least = [Duration::MAX; 2];
        for round in 0..ROUNDS {
            for (index, encode) in encoders.iter_mut().enumerate() {
                let begin = now();
                let (took, made) = encode(block, &mut dst);
                least[index] = least[index].min(now() - begin);
                if round == 0 {
                    (taken[index], lens[index]) = (taken[index] + took, lens[index] + made);
                }
            }
        }
        (times[0], times[1]) = (times[0] + least[0], times[1] + least[1]);
    }
    let [ours, theirs] = [0, 1].map(|index| {
        let taken = taken[index] as f64;
        (lens[index] as f64 / taken, times[index].as_secs_f64() / taken)
    });
    (ours.0 / theirs.0, ours.1 / theirs.1)
}

fn main() {
    let usage = "usage: levels zstd|gzip|lz4|lz4hc [--fill] LEN FIRST-LAST FILE...";
    let mut arguments = std::env::args().skip(1).peekable();
    let codec = arguments.next().expect(usage);
    let fill = arguments.next_if_eq("--fill").is_some();
    let len = arguments.next().and_then(|len| len.parse().ok()).expect(usage);
    let levels = arguments.next().expect(usage);
    let (first, last) = levels.split_once('-').expect(usage);
    let levels: std::ops::RangeInclusive<i32> = first.parse().expect(usage)..=last.parse().expect(usage);
    println!("| file | level | size | time |\n|---|--:|--:|--:|");
    for file in arguments {
        let data = std::fs::read(&file).unwrap_or_else(|error| panic!("cannot read {file}: {error}"));
        for level in levels.clone() {
            let (size, time) = compare(&codec, level, fill, len, &data);
            println!("| {file} | {level} | {size:.5} | {time:.2} |");
        }
    }
}
