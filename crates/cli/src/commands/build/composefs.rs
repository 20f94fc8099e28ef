//! `build --composefs`.

use std::fmt;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use packfs_blocks::Progress;
use packfs_image::erofs::{self, ErofsReader, ReadOptions};
use packfs_image::name::display;
use packfs_image::request::RequestNotes;
use packfs_image::source::LazySpool;
use packfs_image::{Image, Severity};
use packfs_seal::composefs::{StoredContents, store_contents};
use packfs_seal::{FsVerityOptions, HashAlgorithm, HashEffort, fsverity_digest};
use serde::Serialize;

use super::fill_tree;
use crate::args::BuildPlan;
use crate::commands::sources;
use crate::output::failure::CommandOutcome;
use crate::output::json::JsonDocument;
use crate::output::meter::{ProgressMeter, SpentResources};
use crate::output::{json, say, target, units, warnings};

pub(super) fn run(plan: &mut BuildPlan, algorithm: HashAlgorithm) -> Result<CommandOutcome> {
    // Contents are read when all files are known.
    plan.request.spool = true;
    let output = target::create(&plan.output, target::READABLE, plan.request.target.common().force)?;
    let meter = ProgressMeter::start(plan.quiet);
    let mut notes = RequestNotes::default();
    let built = build(plan, algorithm, meter.progress(), &mut notes);
    let spent = meter.finish();
    let built = built.with_context(|| match &notes.reading {
        Some(source) => format!("building {} from {}", display(&plan.output), sources::name(source)),
        None => format!("building {}", display(&plan.output)),
    })?;
    target::fill_bytes(output, &built.image)?;
    if !plan.quiet {
        warnings::print(&built.warnings);
    }
    for (_, why) in &notes.left_out {
        say(format_args!("packfs: left out: {why}"));
    }
    let report = ComposefsReport::new(plan, algorithm, &built, &spent, notes.left_out.len());
    if plan.json {
        json::print(&report)?;
    } else if !plan.quiet {
        say(&report);
    }
    Ok(if notes.left_out.is_empty() { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// An image that is not written yet.
struct BuiltImage {
    image: Vec<u8>,
    digest: String,
    inodes: u64,
    contents: StoredContents,
    warnings: packfs_image::Warnings,
}

fn build(
    plan: &BuildPlan,
    algorithm: HashAlgorithm,
    progress: &Arc<Progress>,
    notes: &mut RequestNotes,
) -> Result<BuiltImage> {
    let mut no_store = LazySpool::new(&plan.request.temporary_dir);
    let mut tree = fill_tree(plan, &mut no_store, progress, notes)?.tree;
    let effort = HashEffort { threads: plan.request.target.common().threads, progress: Arc::clone(progress) };
    let contents = store_contents(&tree, algorithm, plan.objects.as_deref(), &effort)?;
    let mut image = Vec::new();
    let written = erofs::composefs::write(&mut tree, &contents.files, &plan.output, &mut image)?;
    if plan.request.target.common().verify {
        image = checked(image)?;
    }
    let options = FsVerityOptions::default().set(|all| all.algorithm = algorithm);
    let digest = fsverity_digest(&image, &options, &HashEffort::default())?.to_string();
    let warnings = std::mem::take(&mut tree.warnings);
    Ok(BuiltImage { image, digest, inodes: written.inodes, contents, warnings })
}

/// Returns an image if this program can read it.
fn checked(image: Vec<u8>) -> Result<Vec<u8>> {
    let image = Arc::new(image);
    let mut errors = Vec::new();
    let reader = ErofsReader::open(Arc::clone(&image) as _, ReadOptions::default())?;
    reader.check(0, &Progress::default(), &mut |finding| {
        if finding.severity == Severity::Damage {
            errors.push(finding.to_string());
        }
    })?;
    drop(reader);
    ensure!(errors.is_empty(), "the image is wrong, which is a mistake of packfs: {}", errors.join("; "));
    Arc::into_inner(image).context("the image is still being read")
}

/// Result of building an image of composefs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct ComposefsReport {
    /// Path of the image.
    image: String,
    /// `composefs`.
    format: &'static str,
    /// Algorithm of the digests: `sha256` or `sha512`.
    algorithm: &'static str,
    /// fs-verity digest of the image, in hexadecimal digits.
    digest: String,
    /// Length of the image in bytes.
    image_bytes: usize,
    /// Number of inodes, with the 256 whiteouts of the format.
    inodes: u64,
    /// Number of files that are not empty.
    files: usize,
    /// Number of different files of more than 64 bytes.
    objects: u64,
    /// Bytes of these files.
    object_bytes: u64,
    /// Number of objects that `--objects` stored and that were not there before.
    new_objects: u64,
    /// True if Linux verifies all of them.
    fs_verity: bool,
    /// Number of files that `--on-error skip` left out.
    left_out: usize,
    /// Duration in seconds.
    seconds: f64,
    /// Largest memory use of the process in bytes.
    peak_memory: u64,
    #[serde(skip)]
    stores: bool,
}

impl JsonDocument for ComposefsReport {
    const KIND: &'static str = "build-composefs";
}

impl ComposefsReport {
    fn new(
        plan: &BuildPlan,
        algorithm: HashAlgorithm,
        built: &BuiltImage,
        spent: &SpentResources,
        left_out: usize,
    ) -> Self {
        let contents = &built.contents;
        ComposefsReport {
            image: json::encode_path(&plan.output),
            format: "composefs",
            algorithm: algorithm.name(),
            digest: built.digest.clone(),
            image_bytes: built.image.len(),
            inodes: built.inodes,
            files: contents.files.len(),
            objects: contents.objects,
            object_bytes: contents.object_bytes,
            new_objects: contents.new_objects,
            fs_verity: contents.protected,
            left_out,
            seconds: spent.time.as_secs_f64(),
            peak_memory: spent.peak_memory,
            stores: plan.objects.is_some(),
        }
    }
}

impl fmt::Display for ComposefsReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "image       {} ({}, composefs)", self.image, units::bytes(self.image_bytes as u64))?;
        writeln!(out, "digest      {}:{}", self.algorithm, self.digest)?;
        let files = units::of(self.files as u64, "file");
        writeln!(out, "entries     {} ({files} that are not empty)", units::count(self.inodes))?;
        write!(out, "objects     {}, {}", units::count(self.objects), units::bytes(self.object_bytes))?;
        if self.stores {
            let verity = if self.fs_verity { "" } else { "; without fs-verity" };
            write!(out, "; {} new{verity}", units::count(self.new_objects))?;
        }
        Ok(())
    }
}
