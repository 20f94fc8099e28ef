//! Report of a build: the summary of either format, as JSON or as text.

use std::fmt;
use std::time::Duration;

use packfs_blocks::stages::{Stage, Stages};
use packfs_image::build::{BuildSummary, FormatDetails};
use packfs_image::request::OversizedFiles;
use packfs_image::{erofs, squashfs};
use serde::Serialize;

use crate::args::BuildPlan;
use crate::output::json::{self, JsonDocument};
use crate::output::meter::SpentResources;
use crate::output::units;

/// Lines that depend on the format.
struct FormatLines<'a>(&'a FormatDetails);

impl fmt::Display for FormatLines<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            FormatDetails::Squashfs(squashfs::SquashfsDetails { data, fragments, .. }) => {
                let blocks = units::count(data.blocks);
                let raw = units::count(data.raw_blocks);
                let fragments = units::count((*fragments).into());
                writeln!(out, "blocks      {blocks} ({raw} stored raw, {fragments} of fragments)")
            }
            FormatDetails::Erofs(erofs::ErofsDetails { data, kernel, uuid, referred_bytes, blob_bytes, .. }) => {
                let clusters = units::count(data.clusters);
                let raw = units::count(data.raw_clusters);
                let fragments = units::bytes(data.fragment_bytes);
                writeln!(out, "clusters    {clusters} ({raw} stored raw), {fragments} of fragments")?;
                if *referred_bytes > 0 {
                    writeln!(out, "referred    {} of files stay in the sources", units::bytes(*referred_bytes))?;
                }
                if *blob_bytes > 0 {
                    writeln!(out, "blob        {} of files", units::bytes(*blob_bytes))?;
                }
                writeln!(out, "uuid        {uuid}")?;
                writeln!(out, "needs       Linux {kernel}")
            }
            _ => Ok(()),
        }
    }
}

/// Line about files above `--max-file-size`.
pub(in crate::commands) struct OversizedLine<'a>(pub(in crate::commands) &'a OversizedFiles);

impl fmt::Display for OversizedLine<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OversizedFiles { files, bytes } = *self.0;
        write!(out, "oversized   {} with {} left out", units::of(files, "file"), units::bytes(bytes))
    }
}

/// Seconds of each stage. The conductor is the thread that hands out work and decides where data is placed; the other
/// threads are workers, whose seconds are summed. Without workers, one thread does the work of both.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StageTimes {
    /// Conductor: listing the source.
    scan: f64,
    /// Conductor: reading sources that can be read only once, such as compressed archives.
    stream: f64,
    /// Workers: reading files.
    read: f64,
    /// Workers: finding zeros and computing digests.
    hash: f64,
    /// Workers: compressing and verifying.
    compress: f64,
    /// Conductor: finding duplicates and placing data.
    order: f64,
    /// Conductor: waiting for workers.
    wait: f64,
    /// Workers: writing file data.
    write: f64,
    /// The same as `write`. Up to 0.2.0 it was only the workers' share, because the conductor wrote data, too.
    write_apart: f64,
    /// Conductor: inodes, directories and tables.
    metadata: f64,
    /// Conductor: waiting until everything is on disk.
    flush: f64,
}

impl StageTimes {
    fn of(stages: &Stages, threads: usize) -> Self {
        let seconds = |stage| stages.of(stage).as_secs_f64();
        let read = seconds(Stage::Read);
        let hash = seconds(Stage::Hash);
        let compress = seconds(Stage::Compress);
        let stream = seconds(Stage::Stream);
        let wait = seconds(Stage::Wait);
        let write = seconds(Stage::Write);
        // Without workers the conductor does their work.
        let apart = if threads == 0 { read + hash + compress + write } else { 0.0 };
        let conducting = seconds(Stage::Put) + seconds(Stage::Data);
        StageTimes {
            // Streams are packed while they are listed, so the time of the scan includes that.
            scan: (seconds(Stage::Scan) - seconds(Stage::Put)).max(0.0),
            stream,
            read,
            hash,
            compress,
            order: (conducting - stream - wait - apart).max(0.0),
            wait,
            write,
            write_apart: write,
            metadata: seconds(Stage::Metadata),
            flush: seconds(Stage::Flush),
        }
    }
}

/// Result of a build.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct BuildReport<'a> {
    /// Path of the image.
    image: String,
    /// `squashfs` or `erofs`.
    format: &'static str,
    /// The codec with all its options.
    codec: String,
    /// Size of a block, or of the largest EROFS pcluster, in bytes.
    block_size: u32,
    /// Duration of the build in seconds.
    seconds: f64,
    /// File bytes packed per second.
    bytes_per_second: u64,
    /// `file_bytes` divided by the length of the image.
    ratio: f64,
    /// Largest memory use of the process, in bytes.
    peak_memory: u64,
    /// Seconds of each stage.
    stages: StageTimes,
    /// Root hash of the hash tree in hexadecimal digits; null without `--seal`.
    pub(super) root_hash: Option<String>,
    #[serde(flatten)]
    summary: &'a BuildSummary,
}

impl JsonDocument for BuildReport<'_> {
    const KIND: &'static str = "build";
}

impl<'a> BuildReport<'a> {
    pub(super) fn new(plan: &BuildPlan, summary: &'a BuildSummary, spent: &SpentResources, stages: &Stages) -> Self {
        let size = summary.padded_bytes();
        let file_bytes = summary.file_bytes;
        BuildReport {
            image: json::encode_path(&plan.output),
            format: plan.request.target.format(),
            codec: plan.request.target.common().codec.to_string(),
            block_size: plan.request.target.block_size(),
            stages: StageTimes::of(stages, plan.request.scan.threads),
            seconds: spent.time.as_secs_f64(),
            bytes_per_second: units::per_second(file_bytes, spent.time),
            ratio: units::ratio(file_bytes, size),
            peak_memory: spent.peak_memory,
            root_hash: None,
            summary,
        }
    }
}

impl fmt::Display for BuildReport<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = self.summary;
        let of = |n: u32, what| units::of(n.into(), what);
        writeln!(
            out,
            "image       {} ({}, {} {})",
            self.image,
            units::bytes(summary.padded_bytes()),
            self.format,
            self.codec
        )?;
        let files = units::bytes(summary.file_bytes);
        writeln!(out, "packed      {files} of files, {}", units::smaller(self.ratio))?;
        let inodes = units::count(summary.inodes.into());
        let files = of(summary.files, "file");
        let directories = of(summary.directories, "directory");
        writeln!(out, "entries     {inodes} ({files}, {directories})")?;
        if let Some(oversized) = &summary.oversized {
            writeln!(out, "{}", OversizedLine(oversized))?;
        }
        write!(out, "{}", FormatLines(&summary.details))?;
        let twice = units::bytes(summary.duplicate_bytes());
        let holes = units::bytes(summary.hole_bytes());
        writeln!(out, "saved       {twice} of duplicates, {holes} of holes")?;
        if let Some(reused) = &summary.reused {
            let content = units::bytes(reused.content_bytes);
            let blocks = units::bytes(reused.image_bytes);
            writeln!(out, "reused      {content} of content ({blocks} of the old image)")?;
            let fetch = units::bytes(reused.update_bytes);
            let block = units::bytes(reused.update_block);
            writeln!(out, "update      {fetch} to fetch with the old image at hand (by blocks of {block})")?;
        }
        if let Some(root_hash) = &self.root_hash {
            writeln!(out, "root hash   {root_hash}")?;
        }
        let time = units::span(Duration::from_secs_f64(self.seconds));
        let speed = units::bytes(self.bytes_per_second);
        let memory = units::bytes(self.peak_memory);
        write!(out, "took        {time} ({speed}/s), {memory} of memory at most")
    }
}
