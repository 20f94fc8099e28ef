//! Measures the size and speed of codecs on files cut into blocks, in memory, on one thread. Times
//! are CPU time of that thread, so other load on the machine disturbs them little.
//!
//! `cargo run --release -p packfs-codec --example codec_speed -- PATH [--cluster] [BLOCK]
//! [CODEC...]`, where PATH is a file or a directory, BLOCK is a number of bytes or ends in K or M,
//! and each CODEC is a choice such as `zstd:19` or `xz:6:bcj=auto`. With `--cluster`, BLOCK is the
//! size of an EROFS physical cluster: codecs that can fill clusters do so, the others encode four
//! times as much input.

use std::path::Path;
use std::time::Duration;

use packfs_codec::{Choice, Decoder, Encoder, table};
use rustix::time::{ClockId, clock_gettime};

type Failure = Box<dyn std::error::Error>;

/// Bytes of a file offered to the encoder at once in cluster mode.
const SEGMENT: usize = 16 << 20;

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1).peekable();
    let path = args.next().ok_or("usage: codec_speed PATH [--cluster] [BLOCK] [CODEC...]")?;
    let cluster = args.next_if(|arg| arg == "--cluster").is_some();
    let block = match args.peek().and_then(|arg| size(arg)) {
        Some(block) => args.next().map_or(block, |_| block),
        None => 128 << 10,
    };
    let mut choices = args.map(|text| text.parse()).collect::<Result<Vec<Choice>, _>>()?;
    if choices.is_empty() {
        let rows = table::CODECS.iter().filter(|info| !cluster || info.erofs_id.is_some());
        choices = rows.map(|info| Choice::new(info.codec)).collect();
    }

    let mut files = Vec::new();
    read(Path::new(&path), &mut files)?;
    let total: usize = files.iter().map(Vec::len).sum();
    println!("{path}: {total} bytes in {} of {block}", if cluster { "clusters" } else { "blocks" });
    println!("{:<40} {:>12} {:>7} {:>10} {:>10}", "codec", "bytes", "ratio", "MB/s in", "MB/s out");
    for choice in &choices {
        match if cluster { fill(choice, &files, block) } else { measure(choice, &files, block) } {
            Ok(run) => {
                let ratio = total as f64 / run.packed as f64;
                let speed = |time: Duration| total as f64 / 1e6 / time.as_secs_f64();
                let name = choice.to_string();
                let (encoding, decoding) = (speed(run.encoding), speed(run.decoding));
                println!("{name:<40} {:>12} {ratio:>7.3} {encoding:>10.1} {decoding:>10.1}", run.packed);
            }
            Err(error) => println!("{choice}: {error}"),
        }
    }
    Ok(())
}

/// Reads a file, or all files below a directory in the order of their names.
fn read(path: &Path, files: &mut Vec<Vec<u8>>) -> Result<(), Failure> {
    let metadata = path.symlink_metadata()?;
    if metadata.is_dir() {
        let mut paths = path.read_dir()?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
        paths.sort();
        paths.iter().try_for_each(|path| read(path, files))?;
    } else if metadata.is_file() {
        files.push(std::fs::read(path)?);
    }
    Ok(())
}

fn size(text: &str) -> Option<usize> {
    let shift = if text.ends_with('M') { 20 } else { u32::from(text.ends_with('K')) * 10 };
    text.trim_end_matches(['K', 'M']).parse::<usize>().ok().map(|n| n << shift)
}

/// CPU time used by this thread.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[derive(Default)]
struct Run {
    packed: usize,
    encoding: Duration,
    decoding: Duration,
}

impl Run {
    fn encode<T>(&mut self, call: impl FnOnce() -> packfs_codec::Result<T>) -> Result<T, Failure> {
        let start = processor_time();
        let result = call()?;
        self.encoding += processor_time().saturating_sub(start);
        Ok(result)
    }

    fn decode(&mut self, decoder: &mut dyn Decoder, src: &[u8], plain: &[u8], back: &mut [u8]) -> Result<(), Failure> {
        let start = processor_time();
        let len = decoder.decode(src, &mut back[..plain.len()])?;
        self.decoding += processor_time().saturating_sub(start);
        if back[..len] == *plain { Ok(()) } else { Err("a block did not decode to its original bytes".into()) }
    }
}

/// Encodes and decodes each block in turn, as a builder that verifies does. Raw blocks are not decoded.
fn measure(choice: &Choice, files: &[Vec<u8>], block: usize) -> Result<Run, Failure> {
    let mut encoder = choice.encoder(block)?;
    let mut decoder = choice.codec().decoder()?;
    let (mut packed, mut back) = (vec![0; block], vec![0; block]);
    let mut run = Run::default();
    for src in files.iter().flat_map(|file| file.chunks(block)) {
        let len = run.encode(|| encoder.encode(src, &mut packed[..src.len() - 1]))?;
        run.packed += len.unwrap_or(src.len());
        if let Some(len) = len {
            run.decode(decoder.as_mut(), &packed[..len], src, &mut back)?;
        }
    }
    Ok(run)
}

/// Encodes and decodes cluster by cluster. Data that does not shrink is stored, one cluster at a time.
fn fill(choice: &Choice, files: &[Vec<u8>], cluster: usize) -> Result<Run, Failure> {
    let mut encoder = choice.cluster_encoder(choice.cluster_window(u32::try_from(cluster)?))?;
    let mut decoder = choice.codec().cluster_decoder()?;
    let (mut packed, mut back) = (vec![0; 4 * cluster], vec![0; SEGMENT]);
    let mut run = Run::default();
    for mut src in files.iter().flat_map(|file| file.chunks(SEGMENT)) {
        while !src.is_empty() {
            let (taken, len) = match run.encode(|| next(choice, encoder.as_mut(), src, &mut packed, cluster))? {
                Some((taken, len)) => {
                    run.decode(decoder.as_mut(), &packed[..len], &src[..taken], &mut back)?;
                    (taken, len)
                }
                None => (src.len().min(cluster), src.len().min(cluster)),
            };
            run.packed += len;
            src = &src[taken..];
        }
    }
    Ok(run)
}

/// Encodes the next stream; returns the bytes of source it took and its length.
fn next(
    choice: &Choice,
    encoder: &mut dyn Encoder,
    src: &[u8],
    dst: &mut [u8],
    cluster: usize,
) -> packfs_codec::Result<Option<(usize, usize)>> {
    if choice.fills() {
        let prefix = encoder.encode_prefix(src, &mut dst[..cluster])?;
        return Ok(prefix.map(|prefix| (prefix.taken, prefix.len)));
    }
    let part = &src[..src.len().min(4 * cluster)];
    let len = encoder.encode(part, &mut dst[..part.len() - 1])?;
    Ok(len.map(|len| (part.len(), len)))
}
