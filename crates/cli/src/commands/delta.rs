//! `packfs delta`: makes a patch from one image to the next.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::Output;
use packfs_delta::{DeltaOptions, Patch, PatchEffort, PatchSummary, make_patch, verify_patch};
use packfs_image::name::display;
use serde::Serialize;

use super::seal::open_image;
use crate::args::{DeltaArgs, EffortArgs};
use crate::output::failure::CommandOutcome;
use crate::output::json::JsonDocument;
use crate::output::meter::ProgressMeter;
use crate::output::{interrupt, json, say, target, units};

/// Memory of a worker in bytes: an encoder, and a block of EROFS that decodes to 12 MiB.
const WORKER_MEMORY: u64 = 32 << 20;
/// Bytes that are collected before they are written.
const BUFFER_LEN: usize = 1 << 20;

pub(super) fn run(args: &DeltaArgs) -> Result<CommandOutcome> {
    let old = open_image(&args.old)?;
    let new = open_image(&args.new)?;
    let output = target::create(&args.output, target::READABLE, args.force)?;
    let meter = ProgressMeter::start(args.talk.quiet);
    interrupt::cancel_on_signal(meter.progress());
    let effort = patch_effort(&args.effort, &meter);
    let make = |out: &mut dyn Write| make_patch(&old, &new, out, &DeltaOptions::default(), &effort);
    let summary = write_buffered(&args.new, &output, make)?;
    // Before the patch has its name: one that does not give the new image never appears.
    if !args.no_verify {
        let patch = output.reader(0).with_context(|| format!("{}: cannot read", display(&args.output)))?;
        let patch = Patch::open(patch).with_context(|| display(&args.output).to_string())?;
        verify_patch(&*old, &patch, &effort).with_context(|| display(&args.output).to_string())?;
    }
    target::commit(output)?;
    let spent = meter.finish();
    if args.json {
        json::print(&DeltaReport::new(args, &summary))?;
    }
    if !args.talk.quiet {
        if summary.unknown_bytes > 0 {
            say(format_args!(
                "packfs: note: {} of changed blocks are in the patch as they are, because no known settings give them",
                units::bytes(summary.unknown_bytes)
            ));
        }
        say(format_args!(
            "{}: {} for an image of {}, {} of it copied, in {}",
            display(&args.output),
            units::bytes(summary.patch_len),
            units::bytes(summary.new_len),
            units::bytes(summary.copied_bytes),
            units::span(spent.time)
        ));
    }
    Ok(CommandOutcome::Done)
}

/// Returns the threads to use, fewer if memory for so many is not to be used.
pub(super) fn patch_effort(effort: &EffortArgs, meter: &ProgressMeter) -> PatchEffort {
    let affordable = usize::try_from(effort.memory() / WORKER_MEMORY).unwrap_or(usize::MAX);
    PatchEffort { threads: effort.threads().min(affordable), progress: Arc::clone(meter.progress()) }
}

/// Has `work` write to an output, which is not yet committed. Errors name that file or, if it is not at fault, `input`.
pub(super) fn write_buffered<T>(
    input: &Path,
    output: &Output,
    work: impl FnOnce(&mut dyn Write) -> packfs_delta::Result<T>,
) -> Result<T> {
    let mut out = BufWriter::with_capacity(BUFFER_LEN, output.appender());
    let result = work(&mut out).map_err(|error| {
        let at_fault = if matches!(error, packfs_delta::Error::Write { .. }) { output.target() } else { input };
        anyhow::Error::new(error).context(display(at_fault).to_string())
    })?;
    out.flush().with_context(|| format!("{}: cannot write", display(output.target())))?;
    Ok(result)
}

/// Result of making a patch.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DeltaReport {
    /// Path of the patch.
    path: String,
    /// Length of the patch in bytes.
    patch_bytes: u64,
    /// Length of the old image in bytes.
    old_bytes: u64,
    /// Length of the new image in bytes.
    new_bytes: u64,
    /// Bytes of the new image that are copied from the old one as they are.
    copied_bytes: u64,
    /// Bytes of the new image that are compressed again when the patch is applied.
    encoded_bytes: u64,
    /// Bytes of changed blocks that are in the patch as they are, because no known settings give them.
    unknown_bytes: u64,
    /// Bytes of the new image that are neither copied nor compressed, such as metadata.
    plain_bytes: u64,
    /// Bytes of memory that applying the patch needs, without those of workers.
    memory_bytes: u64,
    /// Codecs, with their settings, that applying the patch needs.
    codecs: Vec<String>,
    /// True if the patch was applied, and gave the new image.
    is_verified: bool,
}

impl DeltaReport {
    fn new(args: &DeltaArgs, summary: &PatchSummary) -> Self {
        DeltaReport {
            path: json::encode_path(&args.output),
            patch_bytes: summary.patch_len,
            old_bytes: summary.old_len,
            new_bytes: summary.new_len,
            copied_bytes: summary.copied_bytes,
            encoded_bytes: summary.encoded_bytes,
            unknown_bytes: summary.unknown_bytes,
            plain_bytes: summary.plain_bytes,
            memory_bytes: summary.group_memory,
            codecs: summary.codecs.clone(),
            is_verified: !args.no_verify,
        }
    }
}

impl JsonDocument for DeltaReport {
    const KIND: &'static str = "delta";
}
