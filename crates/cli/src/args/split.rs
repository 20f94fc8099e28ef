//! Options of `split`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use packfs_dump::SplitOptions;

use super::build::{CodecArg, CodecParser};
use super::{EffortArgs, TalkArgs, value};
use crate::resources;

/// Compress one large stream onto several disks at once.
///
/// The stream is a crash dump, a disk image or the memory of a machine. Each PART should be on its own disk. Whichever
/// disk is free takes the next segment, so a fast disk takes more and a slow one delays nothing. If a part fails,
/// packfs abandons it and continues with the others. `packfs join` restores the stream.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs split /proc/vmcore -o /mnt/a/core -o /mnt/b/core
  packfs split /dev/vdb -o /mnt/a/disk -o /mnt/b/disk -o /mnt/c/disk --parity 1 --codec zstd:3
  packfs split core -o /mnt/a/core -o /mnt/b/core --resume
  packfs split dump.kdump -o /mnt/a/core -o /mnt/b/core")]
pub(crate) struct SplitArgs {
    /// File, block device or FIFO to read; `-` is standard input
    ///
    /// A file that makedumpfile compressed or flattened is stored as the ELF core it was made from.
    #[arg(value_name = "INPUT", value_hint = ValueHint::FilePath)]
    pub(crate) input: PathBuf,

    /// File, block device or FIFO to write (repeat for each part)
    ///
    /// Files are private to their owner.
    #[arg(short = 'o', long = "output", value_name = "PART", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) parts: Vec<PathBuf>,

    /// Store the bytes of a makedumpfile file, not the ELF core in it
    #[arg(long)]
    pub(crate) as_is: bool,

    /// Codec with level and options, as in zstd:3; `help` lists all
    ///
    /// `raw` stands for none. Without a level a codec uses its fastest one.
    #[arg(short, long, value_name = "CODEC", default_value = "lz4", value_parser = CodecParser::FASTEST,
        hide_possible_values = true)]
    codec: CodecArg,

    /// Size of the chunks: a power of two from 4K to 16M
    ///
    /// Larger chunks compress slightly better; smaller ones make random reads faster.
    #[arg(long, value_name = "SIZE", default_value = "256K", value_parser = chunk)]
    chunk: u32,

    /// Number of parts that may be lost without losing data
    #[arg(long, value_name = "K", default_value = "0", value_parser = value::count::<u16>)]
    parity: u16,

    /// Store equal chunks once
    #[arg(long)]
    dedup: bool,

    /// Bypass the page cache (O_DIRECT) if the file system allows it
    #[arg(long)]
    direct: bool,

    /// Continue an interrupted split
    ///
    /// Give the same input, parts and options as before.
    #[arg(long)]
    resume: bool,

    /// Flush each part to disk every SIZE bytes, for --resume
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = value::size)]
    checkpoint: u64,

    /// Trust the encoder: do not decode and compare each chunk
    #[arg(long)]
    no_verify: bool,

    /// Replace parts that exist
    #[arg(short, long, conflicts_with = "resume")]
    force: bool,

    #[command(flatten)]
    effort: EffortArgs,

    /// Print the summary as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

impl SplitArgs {
    /// Returns the library options.
    pub(crate) fn options(&self) -> SplitOptions {
        let threads = self.effort.threads();
        SplitOptions::default().set(|all| {
            all.codec = self.codec.choice().clone();
            all.chunk = self.chunk;
            all.parity = self.parity;
            all.threads = threads;
            all.memory = self.effort.memory_or(|| default_memory(threads, self.parts.len()));
            all.direct = self.direct;
            all.resume = self.resume;
            all.force = self.force;
            all.dedup = self.dedup;
            all.verify = !self.no_verify;
            all.checkpoint = self.checkpoint;
        })
    }
}

/// Returns enough for long segments on each disk and to keep every thread busy, but at most a
/// quarter of the available memory.
fn default_memory(threads: usize, parts: usize) -> u64 {
    let wanted = (64 + 16 * threads as u64 + 24 * parts as u64) << 20;
    // Never less than what is enough for eight parts.
    wanted.min(resources::memory_limit() / 4).max(64 << 20)
}

fn chunk(text: &str) -> Result<u32, String> {
    match u32::try_from(value::size(text)?) {
        Ok(size) if packfs_dump::format::CHUNK.contains(&size) && size.is_power_of_two() => Ok(size),
        _ => Err("expected a power of two from 4K to 16M".into()),
    }
}
