//! Size and speed of codecs on a file cut in blocks, in memory, on one thread. The time is what that
//! thread spent on a processor, so that other work on the machine disturbs it little.
//!
//! `cargo run --release -p packfs-codec --example codec_speed -- FILE [BLOCK] [CODEC...]`, where BLOCK is a
//! number of bytes or ends in K or M, and each CODEC is a choice such as `zstd:19` or `xz:6:bcj=auto`.

use std::time::Duration;

use packfs_codec::{Choice, table};
use rustix::time::{ClockId, clock_gettime};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1).peekable();
    let file = args.next().ok_or("usage: codec_speed FILE [BLOCK] [CODEC...]")?;
    let block = match args.peek().and_then(|arg| size(arg)) {
        Some(block) => args.next().map_or(block, |_| block),
        None => 128 << 10,
    };
    let mut choices = args.map(|text| text.parse()).collect::<Result<Vec<Choice>, _>>()?;
    if choices.is_empty() {
        choices = table::CODECS.iter().map(|info| Choice::new(info.codec)).collect();
    }

    let data = std::fs::read(&file)?;
    println!("{file}: {} bytes in blocks of {block}", data.len());
    println!("{:<40} {:>12} {:>7} {:>10} {:>10}", "codec", "bytes", "ratio", "MB/s in", "MB/s out");
    for choice in &choices {
        match measure(choice, &data, block) {
            Ok(run) => {
                let ratio = data.len() as f64 / run.packed as f64;
                let speed = |time: Duration| data.len() as f64 / 1e6 / time.as_secs_f64();
                let name = choice.to_string();
                println!(
                    "{name:<40} {:>12} {ratio:>7.3} {:>10.1} {:>10.1}",
                    run.packed,
                    speed(run.encoding),
                    speed(run.decoding)
                );
            }
            Err(error) => println!("{choice}: {error}"),
        }
    }
    Ok(())
}

fn size(text: &str) -> Option<usize> {
    let shift = if text.ends_with('M') { 20 } else { u32::from(text.ends_with('K')) * 10 };
    text.trim_end_matches(['K', 'M']).parse::<usize>().ok().map(|n| n << shift)
}

/// What this thread has spent on a processor.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

struct Run {
    packed: usize,
    encoding: Duration,
    decoding: Duration,
}

/// Encodes and decodes each block in turn, as a builder that verifies does; raw blocks are not decoded.
fn measure(choice: &Choice, data: &[u8], block: usize) -> Result<Run, Failure> {
    let mut encoder = choice.encoder(block)?;
    let mut decoder = choice.codec().decoder()?;
    let (mut packed, mut back) = (vec![0; block], vec![0; block]);
    let mut run = Run { packed: 0, encoding: Duration::ZERO, decoding: Duration::ZERO };
    for src in data.chunks(block) {
        let start = processor_time();
        let len = encoder.encode(src, &mut packed[..src.len() - 1])?;
        run.encoding += processor_time().saturating_sub(start);
        run.packed += len.unwrap_or(src.len());
        if let Some(len) = len {
            let start = processor_time();
            let got = decoder.decode(&packed[..len], &mut back[..src.len()])?;
            run.decoding += processor_time().saturating_sub(start);
            if back[..got] != *src {
                return Err(format!("{choice}: a block did not come back").into());
            }
        }
    }
    Ok(run)
}
