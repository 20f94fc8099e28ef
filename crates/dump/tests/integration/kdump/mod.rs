//! Kdump-compressed dumps and ELF cores: written dumps read back, makedumpfile and crash read and
//! write the same, and other files do no harm.
#![allow(clippy::cast_possible_truncation, reason = "the machines of these tests are small")]

mod faults;
mod hostile;
mod machine;
mod oracles;
mod real;
mod round_trip;

use std::path::Path;
use std::sync::Arc;

use packfs_blocks::{Progress, ReadAt};
use packfs_dump::Result;
use packfs_dump::kdump::{self, CoreView, Flattener, KdumpOptions, KdumpReport, WriteAt};

/// All codecs of pages, at their fastest.
const CODECS: [&str; 5] = ["gzip:1", "lzo:algorithm=lzo1x_1", "snappy", "zstd:1", "none"];

fn options(codec: &str, threads: usize) -> KdumpOptions {
    KdumpOptions::default().set(|all| {
        all.codec = codec.parse().unwrap();
        (all.threads, all.memory) = (threads, 1 << 20);
    })
}

/// Writes a kdump-compressed dump of an ELF core.
fn write_to(core: &dyn ReadAt, output: &mut dyn WriteAt, options: &KdumpOptions) -> Result<KdumpReport> {
    kdump::write((Path::new("core"), core), (Path::new("output"), output), options, &Progress::default())
}

fn written(core: &dyn ReadAt, options: &KdumpOptions) -> Vec<u8> {
    let mut output = Vec::new();
    let report = write_to(core, &mut output, options).unwrap();
    assert_eq!(report.len, output.len() as u64);
    output
}

fn flattened(core: &dyn ReadAt, options: &KdumpOptions) -> Vec<u8> {
    let mut flattener = Flattener::new(Vec::new()).unwrap();
    write_to(core, &mut flattener, options).unwrap();
    flattener.finish().unwrap()
}

fn view(files: &[&[u8]]) -> Result<CoreView> {
    let named = |n: usize| Path::new("dump").with_extension(n.to_string());
    CoreView::open(files.iter().enumerate().map(|(n, file)| (named(n), Arc::new(file.to_vec()) as _)).collect())
}
