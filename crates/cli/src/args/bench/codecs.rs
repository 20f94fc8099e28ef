//! `packfs bench codecs` as typed.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use packfs_bench::codecs::CodecMethod;
use packfs_bench::policy::StoragePolicy;
use packfs_image::Part;

use super::super::known::{self, NamedValueParser};
use super::super::value::{self, ValueList};
use super::measuring::{MeasuringArgs, block, blocks};

/// Measure codecs on your own data, in blocks as file systems use them.
///
/// Prints for each codec the size, the speed of compression and decompression, and the bytes saved per second:
/// compression pays on devices slower than that. Prints the same relative to zlib -9, the speed on incompressible data,
/// and the Pareto front. Every sample is appended to RESULTS; `packfs bench report` makes a page from them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs bench codecs --data /usr/share
  packfs bench codecs --data root.tar -c zstd:3,zstd:19,lz4hc:12 -b 4K..1M --policy squashfs
  packfs bench codecs --data /usr -j 1,2,4 --runs 9 --resume
  packfs bench codecs --data /usr --shard 0/4 -o part0.jsonl")]
pub(crate) struct BenchCodecsArgs {
    /// Files and directories, each a data set of its own
    ///
    /// The default is data like the memory of a machine.
    #[arg(long, value_name = "PATH", num_args = 1.., value_hint = ValueHint::AnyPath)]
    pub(crate) data: Vec<PathBuf>,

    /// Codecs, as `build --codec` takes them [default: a selection of all]
    ///
    /// Options of one codec are joined by colons. Also accepted: memcpy, lzjb, quicklz, zlib:1 to zlib:9 and
    /// zlib-rs:1 to zlib-rs:9.
    #[arg(short, long, value_name = "LIST", value_parser = NamedValueParser::new(methods, known::measured_codecs),
        hide_possible_values = true)]
    pub(crate) codecs: Option<ValueList<CodecMethod>>,

    /// Block sizes: a list, or a range as 4K..1M
    ///
    /// A range stands for the powers of two in it.
    #[arg(short, long, value_name = "LIST", default_value = "8K,128K", value_parser = blocks)]
    pub(crate) blocks: ValueList<usize>,

    /// Sector size of the device
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = block)]
    pub(crate) sector: usize,

    /// Storage policy: sector, squashfs, zfs, btrfs, f2fs, erofs or raw
    ///
    /// `sector` stores whole sectors if at least one is saved, `erofs` fills clusters, `raw` counts the output of the
    /// codec.
    #[arg(long, value_name = "NAME", default_value = "sector", value_parser = NamedValueParser::<StoragePolicy>::of(policies),
        hide_possible_values = true)]
    pub(crate) policy: StoragePolicy,

    /// Numbers of threads
    #[arg(short = 'j', long = "jobs", value_name = "LIST", default_value = "1", value_delimiter = ',',
        value_parser = value::jobs)]
    pub(crate) jobs: Vec<usize>,

    /// Amount of each data set to measure, taken evenly
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = value::size)]
    pub(crate) sample: u64,

    /// Minimum time of a measurement per direction, in milliseconds
    #[arg(long, value_name = "MS", default_value = "50", value_parser = value::count::<u64>)]
    pub(crate) least: u64,

    /// Measure only part I of N of the cells, counted from 0
    ///
    /// Cells are dealt out one by one. Concatenate the results of all parts for `packfs bench report`. Sizes do not
    /// depend on the machine; compare speeds only between machines of one kind.
    #[arg(long, value_name = "I/N", value_parser = value::part)]
    pub(crate) shard: Option<Part>,

    #[command(flatten)]
    pub(crate) measuring: MeasuringArgs,
}

fn policies() -> Vec<&'static str> {
    StoragePolicy::ALL.map(StoragePolicy::name).to_vec()
}

fn methods(text: &str) -> Result<ValueList<CodecMethod>, String> {
    CodecMethod::list(text).map(ValueList).map_err(|error| error.to_string())
}
