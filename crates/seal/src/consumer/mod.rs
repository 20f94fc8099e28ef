//! What a consumer makes of a sealed image: it is read as the consumer reads it, and everything that keeps the seal from
//! being enforced has a name.

mod containerd;
mod ddi;
mod minisign;
mod mistake;
mod parts;
mod rauc;
mod sif;
mod systemd;

use std::path::Path;
use std::sync::Arc;

use packfs_blocks::ReadAt;

pub use mistake::SealMistake;

use crate::error::Result;
use crate::minisign::MinisignPublicKey;
use crate::signature::{SignerCertificate, SignerKey};
use crate::tree::{HashEffort, RootHash};

/// Programs whose way of reading a seal is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsumerProgram {
    /// systemd: sysext, portable services, `RootImage=`, nspawn.
    Systemd,
    /// The EROFS snapshotter of containerd, with dm-verity.
    Containerd,
    /// systemd, for a disk image with partitions.
    Ddi,
    /// RAUC, for a bundle in its format verity.
    Rauc,
    /// minisign, for any file with a signature beside it. It verifies the file once, and Linux does not when it is read.
    Minisign,
    /// Apptainer or Singularity, for a SIF file. They verify it when they are asked to, and Linux does not when it is read.
    Apptainer,
}

/// What the kernel will enforce for an image in the end, from the worst to the best. `Refused` is better than
/// `Unverified`: an image that does not start is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum KernelEnforcement {
    /// The image is used without any verification, and nobody is told.
    Unverified,
    /// The image is not used, or reading from it fails.
    Refused,
    /// Each block is verified, by a root hash that whoever may replace the image may replace, too.
    Unsigned,
    /// Each block is verified, by a root hash that the key of the certificate signed. For minisign and Apptainer, a key
    /// signed the file.
    Signed,
}

/// A sealed image, and what is known besides.
#[derive(Debug, Clone, Copy)]
pub struct SealedImage<'i> {
    /// Path of the image, beside which other files are looked for.
    pub path: &'i Path,
    /// Bytes of the image.
    pub data: &'i Arc<dyn ReadAt>,
    /// The certificates that the consumer trusts. With any, a signature is demanded.
    pub certificates: &'i [SignerCertificate],
    /// The key by which minisign verifies the signature.
    pub minisign_key: Option<&'i MinisignPublicKey>,
    /// The key by which Apptainer verifies the signature, besides those of the certificates.
    pub signer_key: Option<&'i SignerKey>,
}

/// Result of an examination.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SealExamination {
    /// What will be enforced.
    pub enforcement: KernelEnforcement,
    /// The root hash that the consumer finds.
    pub root_hash: Option<RootHash>,
    /// True if a signature is there, even if no certificate was given to verify it by.
    pub has_signature: bool,
    /// The comment of a signature of minisign that was verified.
    pub trusted_comment: Option<String>,
    /// Everything that is wrong, in the order in which a consumer meets it.
    pub mistakes: Vec<SealMistake>,
}

/// Reads a seal as a consumer does, and all data.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if a file that exists cannot be read; [`Error::Interrupted`](crate::Error::Interrupted).
/// Anything else that is wrong is a mistake in the result.
pub fn examine(consumer: ConsumerProgram, image: SealedImage<'_>, effort: &HashEffort) -> Result<SealExamination> {
    match consumer {
        ConsumerProgram::Systemd => systemd::examine(image, effort),
        ConsumerProgram::Containerd => containerd::examine(image, effort),
        ConsumerProgram::Ddi => ddi::examine(image, effort),
        ConsumerProgram::Rauc => rauc::examine(image, effort),
        ConsumerProgram::Minisign => minisign::examine(image, effort),
        ConsumerProgram::Apptainer => sif::examine(image, effort),
    }
}

/// An examination under way.
#[derive(Debug, Default)]
struct OpenExamination {
    mistakes: Vec<SealMistake>,
    has_signature: bool,
    is_signed: bool,
    trusted_comment: Option<String>,
}

impl OpenExamination {
    fn add(&mut self, mistake: SealMistake) {
        self.mistakes.push(mistake);
    }

    /// Decides what will be enforced: the worst effect of all mistakes.
    fn conclude(self, root_hash: Option<RootHash>) -> SealExamination {
        let best = if self.is_signed { KernelEnforcement::Signed } else { KernelEnforcement::Unsigned };
        let effects = self.mistakes.iter().map(SealMistake::effect);
        // The order of the enum is the order of severity, so the least one decides.
        let enforcement = effects.min().map_or(best, |worst| worst.min(best));
        let OpenExamination { mistakes, has_signature, trusted_comment, .. } = self;
        SealExamination { enforcement, root_hash, has_signature, trusted_comment, mistakes }
    }
}
