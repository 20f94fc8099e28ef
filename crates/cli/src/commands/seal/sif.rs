//! `packfs seal --for sif`: a file of Apptainer, which has the image and a signature of its digest, but no hash tree.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::ReadAt;
use packfs_image::FileAt;
use packfs_image::name::display;
use packfs_seal::sif::{IMAGE_START, SifArchitecture, UnsignedSif};
use packfs_seal::signature::{MessageSignature, SignerCertificate, SignerKey, SigningKey};
use packfs_seal::{HashAlgorithm, HashEffort};
use serde::Serialize;

use super::copy_image;
use super::minisign::MinisignOutput;
use super::signing::{read_certificates, read_signing_key, read_small};
use crate::args::{MinisignSubject, SealArgs};
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::json::JsonDocument;
use crate::output::meter::ProgressMeter;
use crate::output::{self, json, say, target};

/// Permissions of the file: it is a program that starts the container.
const PROGRAM: u32 = 0o777;
/// Default of the options for block sizes, in bytes: any other one was asked for.
const USUAL_BLOCK_SIZE: u64 = 4096;

pub(super) fn run(
    args: &SealArgs,
    image: &Arc<FileAt>,
    effort: &HashEffort,
    meter: ProgressMeter,
) -> Result<CommandOutcome> {
    check_options(args)?;
    let Some(architecture) = args.architecture.or_else(SifArchitecture::own) else {
        return Err(UsageError("SIF does not know this machine: choose one with --architecture".into()).into());
    };
    let bytes = Arc::clone(image) as Arc<dyn ReadAt>;
    let describe = || {
        let described = UnsignedSif::describe(&bytes, architecture, effort);
        described.with_context(|| display(&args.image).to_string())
    };
    if args.manifest_only {
        let message = describe()?.message();
        meter.finish();
        output::write_result(|out| Ok(out.write_all(&message)?))?;
        return Ok(CommandOutcome::Done);
    }
    let Some(path) = &args.output else {
        return Err(UsageError("a SIF file is a file of its own: name it with -o NAME.sif".into()).into());
    };
    let signature = SifSignature::read(args)?;
    let file = target::create(path, PROGRAM, args.force)?;
    let minisign = MinisignOutput::create(args, path)?;
    let unsigned = describe()?;
    copy_image(image, &file, IMAGE_START)?;
    let made = signature.map(|signature| signature.make(&unsigned.message())).transpose()?;
    unsigned.write(made.as_ref(), &file).with_context(|| display(file.target()).to_string())?;
    let mut files = vec![json::encode_path(file.target())];
    target::commit(file)?;
    files.extend(minisign.map(|minisign| minisign.complete(effort)).transpose()?);
    meter.finish();
    if args.json {
        json::print(&SifReport {
            image: json::encode_path(&args.image),
            image_offset: IMAGE_START,
            image_sha256: unsigned.image_digest(),
            architecture: architecture.name(),
            is_signed: made.is_some(),
            files: &files,
        })?;
    } else if !args.talk.quiet {
        let state = if made.is_some() { "signed" } else { "not signed" };
        say(format_args!("{}: SIF for {architecture}, {state}", display(path)));
    }
    Ok(CommandOutcome::Done)
}

/// Fails for options of hash trees, and of files that a SIF file does not have.
fn check_options(args: &SealArgs) -> Result<()> {
    let has_tree_option = args.append
        || args.root_hash_only
        || args.salt.is_some()
        || args.uuid.is_some()
        || args.algorithm != HashAlgorithm::Sha256
        || [args.data_block_size, args.hash_block_size] != [USUAL_BLOCK_SIZE; 2];
    let refused = [
        (args.partition_type.is_some(), "--partition-type is for --for ddi"),
        (has_tree_option, "a SIF file has no hash tree: leave out the options of trees, --append and --root-hash-only"),
        (
            args.minisign_of == MinisignSubject::RootHash,
            "a SIF file has no file with the root hash: leave out --minisign-of",
        ),
    ];
    match refused.into_iter().find(|(is_given, _)| *is_given) {
        Some((_, why)) => Err(UsageError(why.into()).into()),
        None => Ok(()),
    }
}

/// Where the signature comes from. Files are read before the image is.
enum SifSignature {
    Made { key: Box<SigningKey>, certificate: Option<Box<SignerCertificate>> },
    Attached { bytes: Vec<u8>, key: SignerKey, name: String },
}

impl SifSignature {
    /// Reads the files that options name; `None` if the file is not to be signed.
    fn read(args: &SealArgs) -> Result<Option<Self>> {
        let certificates = args.certificate.as_deref().map(read_certificates).transpose()?;
        let certificate = certificates.and_then(|all| all.into_iter().next());
        if let Some(path) = &args.key {
            let key = Box::new(read_signing_key(path)?);
            return Ok(Some(SifSignature::Made { key, certificate: certificate.map(Box::new) }));
        }
        match (&args.attach_signature, certificate) {
            (Some(path), Some(certificate)) => {
                let name = display(path).to_string();
                Ok(Some(SifSignature::Attached { bytes: read_small(path)?, key: certificate.key(), name }))
            }
            (None, Some(_)) => {
                let why = "--certificate alone does not sign: also give --key or --attach-signature";
                Err(UsageError(why.into()).into())
            }
            (_, None) => Ok(None),
        }
    }

    fn make(self, message: &[u8]) -> Result<MessageSignature> {
        match self {
            SifSignature::Made { key, certificate } => {
                Ok(MessageSignature::sign(message, &key, certificate.as_deref())?)
            }
            SifSignature::Attached { bytes, key, name } => {
                MessageSignature::made_elsewhere(bytes, message, &key).with_context(|| name)
            }
        }
    }
}

/// Reads the key by which signatures of SIF files are verified.
pub(in crate::commands) fn read_signer_key(path: &Path) -> Result<SignerKey> {
    SignerKey::parse(&read_small(path)?).with_context(|| display(path).to_string())
}

/// Result of putting an image into a SIF file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct SifReport<'a> {
    /// Path of the image.
    image: String,
    /// Byte offset of the image in the file.
    image_offset: u64,
    /// SHA-256 of the image in hexadecimal digits.
    image_sha256: &'a str,
    /// Machine whose programs are in the image, as Go names it.
    architecture: &'static str,
    /// True if a signature was written.
    is_signed: bool,
    /// Paths of the files that were written.
    files: &'a [String],
}

impl JsonDocument for SifReport<'_> {
    const KIND: &'static str = "sif";
}
