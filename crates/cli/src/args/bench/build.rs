//! `packfs bench build` as typed.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use packfs_bench::build::ImageFeatures;
use packfs_bench::format::ImageFormat;
use packfs_codec::Choice;
use packfs_image::Part;

use super::super::known::{self, NamedValueParser};
use super::super::value::{self, ValueList};
use super::measuring::{MeasuringArgs, blocks, choices};

/// Measure building images: codecs, threads, other programs.
///
/// Measures every codec with one thread and with more. Prints times, speed-ups, throughput, sizes and memory, the gain
/// and cost of fragments and dedup, and a prediction for 64 threads. Images are built in --scratch and removed at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs bench build /srv/root
  packfs bench build /srv/root --formats squashfs -c gzip:9,zstd:15,lz4 -j 0,1,2,4,8 --peers
  packfs bench build /srv/root --formats erofs -c lz4hc:12 -b 4K..128K --features plain --runs 3")]
pub(crate) struct BenchBuildArgs {
    /// Directory to pack [default: 64M of generated files]
    #[arg(value_name = "SOURCE", value_hint = ValueHint::DirPath)]
    pub(crate) source: Option<PathBuf>,

    /// Numbers of threads; 0 does all work on one thread
    ///
    /// The default is 0, and 1 up to the number of processors.
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = value::jobs)]
    pub(crate) jobs: Vec<usize>,

    /// Codecs, as `build --codec` takes them, for formats that have them
    ///
    /// Options of one codec are joined by colons. The default for squashfs is gzip, xz, lzma, lzo, lz4, zstd and
    /// none; for erofs lz4, lz4hc:12, deflate, zstd, lzma and none.
    #[arg(short, long, value_name = "LIST", value_parser = NamedValueParser::new(choices, known::image_codecs),
        hide_possible_values = true)]
    pub(crate) codecs: Option<ValueList<Choice>>,

    /// Formats of images
    #[arg(long, value_name = "LIST", default_value = "squashfs,erofs", value_delimiter = ',',
        value_parser = NamedValueParser::<ImageFormat>::of(formats), hide_possible_values = true)]
    pub(crate) formats: Vec<ImageFormat>,

    /// Block sizes, for EROFS of the largest clusters, as 4K..128K
    ///
    /// A list, or a range of powers of two.
    #[arg(short, long, value_name = "LIST", default_value = "128K", value_parser = blocks)]
    pub(crate) blocks: ValueList<usize>,

    /// Features: fragments, dedupe, unverified, joined by +, or plain
    #[arg(long, value_name = "LIST", default_value = "fragments+dedupe,plain", value_delimiter = ',',
        value_parser = NamedValueParser::<ImageFeatures>::of(features), hide_possible_values = true)]
    pub(crate) features: Vec<ImageFeatures>,

    /// Measure mksquashfs, tar2sqfs and mkfs.erofs, too
    ///
    /// Programs in DIR come before those on PATH.
    #[arg(long, value_name = "DIR", num_args = 0..=1, value_hint = ValueHint::DirPath)]
    pub(crate) peers: Option<Option<PathBuf>>,

    /// Directory for images [default: /dev/shm or that of temporary files]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) scratch: Option<PathBuf>,

    /// Measure only part I of N of the cells, counted from 0
    ///
    /// Cells are dealt out one by one. Concatenate the results of all parts for `packfs bench report`. Sizes do not
    /// depend on the machine; compare speeds only between machines of one kind.
    #[arg(long, value_name = "I/N", value_parser = value::part)]
    pub(crate) shard: Option<Part>,

    #[command(flatten)]
    pub(crate) measuring: MeasuringArgs,
}

fn formats() -> Vec<&'static str> {
    ImageFormat::ALL.map(ImageFormat::name).to_vec()
}

fn features() -> Vec<&'static str> {
    vec!["plain", "fragments", "dedupe", "unverified", "fragments+dedupe"]
}
