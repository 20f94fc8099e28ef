//! `packfs bench build` as typed.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use packfs_bench::build::Features;
use packfs_bench::format::Format;

use super::super::known::{self, Known};
use super::super::value;
use super::measuring::{Choices, Measuring, Sizes, blocks, choices};

/// Measure building images of a directory: every codec, on one thread and on more, beside other programs.
///
/// Prints times, speed-ups, throughput, sizes and memory, what packing ends of files together and storing equal data
/// once gain and cost, and what would limit a machine of 64 threads. Images are made in --scratch and removed at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs bench build /srv/root
  packfs bench build /srv/root --formats squashfs --codecs gzip:9,zstd:15,lz4 --jobs 0,1,2,4,8 --peers
  packfs bench build /srv/root --formats erofs --codecs lz4hc:12 --blocks 4K..128K --features plain --runs 3")]
pub(crate) struct Build {
    /// Directory to pack [default: 64M of files made for it]
    #[arg(value_name = "SOURCE", value_hint = ValueHint::DirPath)]
    pub(crate) source: Option<PathBuf>,

    /// Numbers of threads; 0 is one that does everything [default: 0 and 1 up to the number of processors]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = value::jobs)]
    pub(crate) jobs: Vec<usize>,

    /// Codecs as --codec of `packfs build` takes them, with colons between options; each for the formats that have it
    /// [default: squashfs: gzip, xz, lzma, lzo, lz4, zstd and none; erofs: lz4, lz4hc:12, deflate, zstd, lzma and none]
    #[arg(short, long, value_name = "LIST", value_parser = Known::new(choices, known::image_codecs),
        hide_possible_values = true)]
    pub(crate) codecs: Option<Choices>,

    /// Formats of images
    #[arg(long, value_name = "LIST", default_value = "squashfs,erofs", value_delimiter = ',',
        value_parser = Known::<Format>::of(formats), hide_possible_values = true)]
    pub(crate) formats: Vec<Format>,

    /// Sizes of blocks, for EROFS of the largest clusters: a list, or a range of powers of two such as 4K..128K
    #[arg(short, long, value_name = "LIST", default_value = "128K", value_parser = blocks)]
    pub(crate) blocks: Sizes,

    /// What is on besides: fragments, dedupe and unverified, joined by +, or plain for none of them
    #[arg(long, value_name = "LIST", default_value = "fragments+dedupe,plain", value_delimiter = ',',
        value_parser = Known::<Features>::of(features), hide_possible_values = true)]
    pub(crate) features: Vec<Features>,

    /// Let mksquashfs, tar2sqfs and mkfs.erofs do the same, those in DIR before those on PATH
    #[arg(long, value_name = "DIR", num_args = 0..=1, value_hint = ValueHint::DirPath)]
    pub(crate) peers: Option<Option<PathBuf>>,

    /// Directory for images while they are measured [default: /dev/shm, or where temporary files go]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) scratch: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

fn formats() -> Vec<&'static str> {
    Format::ALL.map(Format::name).to_vec()
}

fn features() -> Vec<&'static str> {
    vec!["plain", "fragments", "dedupe", "unverified", "fragments+dedupe"]
}
