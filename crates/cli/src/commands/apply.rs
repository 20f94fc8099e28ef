//! `packfs apply`: makes the next image from the old one and a patch.

use anyhow::{Context, Result};
use packfs_blocks::hex::to_hex;
use packfs_delta::{Patch, apply_patch};
use packfs_image::name::display;
use serde::Serialize;

use super::delta::{patch_effort, write_buffered};
use super::seal::open_image;
use crate::args::ApplyArgs;
use crate::output::failure::CommandOutcome;
use crate::output::json::JsonDocument;
use crate::output::meter::ProgressMeter;
use crate::output::{interrupt, json, say, target, units};

pub(super) fn run(args: &ApplyArgs) -> Result<CommandOutcome> {
    let old = open_image(&args.old)?;
    let patch = Patch::open(open_image(&args.patch)?).with_context(|| display(&args.patch).to_string())?;
    target::refuse_old_device(&args.old, &args.output, "until the end")?;
    let output = target::create(&args.output, target::READABLE, args.force)?;
    let meter = ProgressMeter::start(args.talk.quiet);
    interrupt::cancel_on_signal(meter.progress());
    let effort = patch_effort(&args.effort, &meter);
    let applied = write_buffered(&args.patch, &output, |out| apply_patch(&*old, &patch, out, &effort))?;
    target::commit(output)?;
    let spent = meter.finish();
    if args.json {
        json::print(&ApplyReport {
            path: json::encode_path(&args.output),
            patch_bytes: patch.patch_len(),
            new_bytes: applied.new_file.len,
            copied_bytes: applied.copied_bytes,
            encoded_bytes: applied.encoded_bytes,
            plain_bytes: applied.plain_bytes,
            blake3: to_hex(&applied.new_file.digest),
        })?;
    }
    if !args.talk.quiet {
        say(format_args!(
            "{}: {}, {} of it copied, {} compressed again, in {}",
            display(&args.output),
            units::bytes(applied.new_file.len),
            units::bytes(applied.copied_bytes),
            units::bytes(applied.encoded_bytes),
            units::span(spent.time)
        ));
    }
    Ok(CommandOutcome::Done)
}

/// Result of applying a patch.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ApplyReport {
    /// Path of the new image.
    path: String,
    /// Length of the patch in bytes.
    patch_bytes: u64,
    /// Length of the new image in bytes.
    new_bytes: u64,
    /// Bytes of the new image that were copied from the old one as they are.
    copied_bytes: u64,
    /// Bytes of the new image that were compressed again.
    encoded_bytes: u64,
    /// All other bytes of the new image.
    plain_bytes: u64,
    /// BLAKE3 digest of the new image in hexadecimal digits.
    blake3: String,
}

impl JsonDocument for ApplyReport {
    const KIND: &'static str = "apply";
}
