//! Options of `packfs verify`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::{EffortArgs, TalkArgs};

/// Show what the kernel will enforce for a sealed image.
///
/// packfs reads IMAGE and the files beside it as a consumer does, and compares all data with the hash tree. The exit
/// status is 0 only if all files are found and correct. Each mistake has a name, such as `root-hash-name` for a file
/// with a root hash that the consumer does not look for.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs verify app.raw --as systemd
  packfs verify app.raw --as systemd --certificate cert.pem
  packfs verify disk.raw --as ddi --certificate cert.pem
  packfs verify update.raucb --as rauc --certificate cert.pem
  packfs verify layer.erofs --as containerd --json
  packfs verify app.sif --as sif --key public.pem
  packfs verify root.erofs --as minisign --key minisign.pub")]
pub(crate) struct VerifyArgs {
    /// Sealed image
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub(crate) image: PathBuf,

    /// Consumer that uses the image
    #[arg(long = "as", value_enum, value_name = "CONSUMER")]
    pub(crate) consumer: VerifyConsumer,

    /// Certificate that the consumer trusts, in PEM or DER
    ///
    /// With this option, the image must have a signature by the key of the certificate. FILE may have several
    /// certificates in PEM: each signer must have one of them.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) certificate: Option<PathBuf>,

    /// Public key for --as minisign, or for --as sif in PEM
    #[arg(long, value_name = "FILE", conflicts_with = "certificate", value_hint = ValueHint::FilePath)]
    pub(crate) key: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) effort: EffortArgs,

    /// Print the findings as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

/// Programs that verify an image, or have Linux verify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerifyConsumer {
    /// NAME.raw with NAME.verity, NAME.roothash and NAME.roothash.p7s
    Systemd,
    /// The tree is appended; IMAGE.dmverity names it, IMAGE.sig is the signature
    Containerd,
    /// A disk image with partitions for image, tree and signature (DDI)
    Ddi,
    /// A bundle with image, tree and signed manifest (format verity)
    Rauc,
    /// Any file with a signature in FILE.minisig
    Minisign,
    /// A file of Apptainer or Singularity, signed with a key in PEM
    Sif,
}
