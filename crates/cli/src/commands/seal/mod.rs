//! `packfs seal`: hash trees of dm-verity, signatures, and the files beside an image or around it.

mod built;
mod bundle;
mod layout;
mod minisign;
mod sif;
mod signing;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::{Output, ReadAt};
use packfs_image::FileAt;
use packfs_image::name::display;
use packfs_seal::ddi::{DdiPlan, DdiSignature};
use packfs_seal::verity::{self, VerityOptions};
use packfs_seal::{FsVerityOptions, HashEffort, ImageContents, LayerMetadata, fsverity_digest, rauc};
use serde::Serialize;

pub(super) use self::built::PendingSeal;
use self::layout::SealLayout;
use self::minisign::MinisignOutput;
pub(super) use self::minisign::read_public_key;
#[cfg(test)]
pub(super) use self::sif::SifReport;
pub(super) use self::sif::read_signer_key;
pub(super) use self::signing::read_certificates;
use self::signing::{MadeSignature, RootSignature};
use super::{open, print};
use crate::args::{SealArgs, SealConsumer};
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::json::JsonDocument;
use crate::output::meter::ProgressMeter;
use crate::output::{json, say, target, units};

/// Memory of a worker in bytes: two chunks of data being read and hashed.
const WORKER_MEMORY: u64 = 2 << 20;

pub(super) fn run(args: &SealArgs) -> Result<CommandOutcome> {
    let file = Arc::new(open::file(&args.image, 0)?);
    let image: Arc<dyn ReadAt> = Arc::clone(&file) as Arc<dyn ReadAt>;
    let meter = ProgressMeter::start(args.talk.quiet);
    let effort = HashEffort { threads: usable_threads(&args.effort), progress: Arc::clone(meter.progress()) };
    let name = || display(&args.image).to_string();
    if args.fs_verity {
        let options = FsVerityOptions::default().set(|all| all.algorithm = args.algorithm);
        let digest = fsverity_digest(&*image, &options, &effort).with_context(name)?;
        meter.finish();
        return print(&format!("{}:{digest}\n", args.algorithm));
    }
    // Only now: fs-verity covers a file as it is, with a tree at its end or without.
    refuse_sealed(&image, args)?;
    if args.consumer == Some(SealConsumer::Sif) {
        return sif::run(args, &file, &effort, meter);
    }
    if args.architecture.is_some() {
        return Err(UsageError("--architecture is for --for sif".into()).into());
    }
    let options = verity_options(args)?;
    if args.consumer == Some(SealConsumer::Rauc) {
        return bundle::run(args, &file, &options, &effort, meter);
    }
    if args.manifest_only {
        return Err(UsageError("--manifest-only is for --for rauc and --for sif".into()).into());
    }
    if args.root_hash_only {
        let sealed = verity::seal(&*image, &options, 0, None, &effort).with_context(name)?;
        meter.finish();
        return print(&format!("{}\n", sealed.root_hash));
    }
    let signature = RootSignature::read(args.signature_files())?;
    let outputs = SealOutputs::create(SealLayout::of(args, signature.is_some())?, args.force)?;
    let minisign = MinisignOutput::create(args, outputs.layout.minisign_subject(args))?;
    let disk = outputs.layout.disk.map(|kind| DdiPlan::new(kind, image.len(), &options)).transpose()?;
    let sealed = outputs.fill(&file, &args.image, disk.as_ref(), &options, &effort)?;
    let signature = signature.map(|signature| signature.make(&sealed.root_hash)).transpose()?;
    if let Some(plan) = disk {
        outputs.complete_disk(&plan, &sealed, signature.as_ref())?;
    }
    let mut files = outputs.commit(&sealed, signature.as_ref())?;
    // After all others, because it is the signature of one of them as it is.
    files.extend(minisign.map(|minisign| minisign.complete(&effort)).transpose()?);
    meter.finish();
    report_seal(args, &sealed, &files)
}

/// Returns the number of workers, fewer if memory for so many is not to be used.
pub(super) fn usable_threads(effort: &crate::args::EffortArgs) -> usize {
    let affordable = usize::try_from(effort.memory() / WORKER_MEMORY).unwrap_or(usize::MAX);
    effort.threads().min(affordable)
}

/// Opens an image that is read as it is.
pub(super) fn open_image(path: &Path) -> Result<Arc<dyn ReadAt>> {
    Ok(Arc::new(open::file(path, 0)?))
}

/// Fails for an image that has a tree at its end: sealed again, the old tree would count as data.
fn refuse_sealed(image: &Arc<dyn ReadAt>, args: &SealArgs) -> Result<()> {
    // A size that is too large is refused by `verity_options`, which comes later.
    let block_size = u32::try_from(args.hash_block_size).unwrap_or(u32::MAX);
    let tree = ImageContents::of(image).and_then(|contents| contents.appended_tree(image, block_size));
    tree.map_or(Ok(()), |offset| {
        let name = display(&args.image);
        anyhow::bail!(
            "{name}: it is sealed already, by a tree at byte {offset}; remove that first (truncate -s {offset})"
        )
    })
}

fn verity_options(args: &SealArgs) -> Result<VerityOptions> {
    let size = |bytes: u64| u32::try_from(bytes).map_err(|_| UsageError(format!("block size {bytes} is not possible")));
    let usual = match args.consumer {
        Some(SealConsumer::Containerd) => LayerMetadata::usual_options(),
        Some(SealConsumer::Rauc) => rauc::usual_options(),
        Some(SealConsumer::Systemd | SealConsumer::Ddi | SealConsumer::Sif) | None => VerityOptions::default(),
    };
    let data_block_size = size(args.data_block_size)?;
    let hash_block_size = size(args.hash_block_size)?;
    let options = usual.set(|all| {
        all.algorithm = args.algorithm;
        all.data_block_size = data_block_size;
        all.hash_block_size = hash_block_size;
        if let Some(salt) = &args.salt {
            all.salt = Some(salt.0.clone());
        }
        all.uuid = args.uuid;
        all.has_superblock &= !args.no_superblock;
    });
    // Before the image is copied.
    options.check()?;
    Ok(options)
}

/// Files being written. None of them appears before all are complete.
struct SealOutputs {
    layout: SealLayout,
    /// A copy of the image, with the tree at its end if that is appended, or a disk image with both.
    image: Option<Output>,
    hash_tree: Option<Output>,
    signature: Option<Output>,
    /// The root hash, or what names it: it appears last.
    root_hash: Output,
}

impl SealOutputs {
    fn create(layout: SealLayout, force: bool) -> Result<Self> {
        let create = |path: &Path| target::create(path, target::READABLE, force);
        Ok(SealOutputs {
            image: layout.copy.as_deref().map(create).transpose()?,
            hash_tree: layout.hash_tree.as_deref().map(create).transpose()?,
            signature: layout.signature.as_deref().map(create).transpose()?,
            root_hash: create(&layout.root_hash)?,
            layout,
        })
    }

    /// Copies the image, and makes its tree. A disk image has both in their partitions.
    fn fill(
        &self,
        image: &FileAt,
        path: &Path,
        disk: Option<&DdiPlan>,
        options: &VerityOptions,
        effort: &HashEffort,
    ) -> Result<verity::VeritySeal> {
        if let Some(copy) = &self.image {
            let start = disk.map_or(0, |plan| plan.data_start);
            copy_image(image, copy, start)?;
        }
        let hash_offset = match (disk, &self.hash_tree) {
            (Some(plan), _) => plan.hash_start,
            (None, Some(_)) => 0,
            (None, None) => image.len().next_multiple_of(options.hash_block_size.into()),
        };
        let output = self.hash_tree.as_ref().or(self.image.as_ref());
        let sealed = verity::seal(image, options, hash_offset, output, effort);
        sealed.map_err(|error| name_file(error, path, output))
    }

    /// Writes the signature and the partition tables of a disk image.
    fn complete_disk(
        &self,
        plan: &DdiPlan,
        sealed: &verity::VeritySeal,
        signature: Option<&MadeSignature>,
    ) -> Result<()> {
        let Some(disk) = &self.image else { return Ok(()) };
        let signature = match signature {
            Some(made) => Some(DdiSignature::new(&sealed.root_hash, &made.certificate, &made.der)?),
            None => None,
        };
        plan.write_table(sealed, signature.as_ref(), disk).with_context(|| display(disk.target()).to_string())
    }

    /// Completes all files; returns their names.
    fn commit(self, sealed: &verity::VeritySeal, signature: Option<&MadeSignature>) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for output in [self.image, self.hash_tree].into_iter().flatten() {
            names.push(json::encode_path(output.target()));
            target::commit(output)?;
        }
        if let (Some(output), Some(made)) = (self.signature, signature) {
            names.push(json::encode_path(output.target()));
            target::fill_bytes(output, &made.der)?;
        }
        // The root hash comes last: whoever finds it finds all that it needs.
        names.push(json::encode_path(self.root_hash.target()));
        target::fill(self.root_hash, &self.layout.root_hash_text(sealed))?;
        Ok(names)
    }
}

fn report_seal(args: &SealArgs, sealed: &verity::VeritySeal, files: &[String]) -> Result<CommandOutcome> {
    let superblock = &sealed.area.superblock;
    let hash_bytes = sealed.area.end().unwrap_or_default() - sealed.hash_offset;
    let has_superblock = sealed.area.tree_offset > sealed.hash_offset;
    if args.json {
        json::print(&SealReport {
            image: json::encode_path(&args.image),
            root_hash: sealed.root_hash.to_string(),
            algorithm: superblock.algorithm.name(),
            salt: packfs_seal::to_hex(&superblock.salt),
            uuid: has_superblock.then(|| superblock.uuid.to_string()),
            data_block_size: superblock.data_block_size,
            data_blocks: superblock.data_blocks,
            hash_block_size: superblock.hash_block_size,
            hash_offset: sealed.hash_offset,
            hash_bytes,
            is_signed: args.is_signed(),
            files,
        })?;
    }
    if !args.talk.quiet {
        let name = display(&args.image);
        say(format_args!("{name}: root hash {}; {} of hashes", sealed.root_hash, units::bytes(hash_bytes)));
        if !args.is_signed() {
            say("packfs: note: without a signature, anyone who can replace the image can also replace its root hash");
        }
    }
    Ok(CommandOutcome::Done)
}

/// Result of sealing an image.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SealReport<'a> {
    /// Path of the image.
    image: String,
    /// Root hash in hexadecimal digits.
    root_hash: String,
    /// Hash algorithm: `sha256` or `sha512`.
    algorithm: &'static str,
    /// Salt in hexadecimal digits; may be empty.
    salt: String,
    /// UUID of the hash tree; null without a superblock.
    uuid: Option<String>,
    /// Size of a data block in bytes.
    data_block_size: u32,
    /// Number of data blocks.
    data_blocks: u64,
    /// Size of a hash block in bytes.
    hash_block_size: u32,
    /// Byte offset of the hash area in its file.
    hash_offset: u64,
    /// Length of the hash area in bytes.
    hash_bytes: u64,
    /// True if a signature was written.
    is_signed: bool,
    /// Paths of the files that were written.
    files: &'a [String],
}

impl JsonDocument for SealReport<'_> {
    const KIND: &'static str = "seal";
}

/// Names the file that an error is about: the output if that cannot be written, else the image.
fn name_file(error: packfs_seal::Error, image: &Path, output: Option<&Output>) -> anyhow::Error {
    let unwritten = output.filter(|_| matches!(error, packfs_seal::Error::Write { .. }));
    let at_fault = unwritten.map_or(image, Output::target);
    anyhow::Error::new(error).context(display(at_fault).to_string())
}

/// Copies an image to byte `start` of an output, sharing blocks where the file system can.
fn copy_image(image: &FileAt, output: &Output, start: u64) -> Result<()> {
    // The file that is open, because its name may be another one's by now. The copy itself does not notice changes.
    let copied = output.copy_from(image.file(), 0, image.len(), start).and_then(|()| image.check_unchanged());
    copied.with_context(|| format!("{}: cannot copy", display(output.target())))
}
