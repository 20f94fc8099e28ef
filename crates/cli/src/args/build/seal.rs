//! Options of `packfs build` that seal the image.

use std::path::PathBuf;

use clap::{Args, ValueHint};

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Verification")]
pub(crate) struct BuildSealArgs {
    /// Write the hash tree of dm-verity beside the image
    ///
    /// IMAGE gets NAME.verity and NAME.roothash, as by `packfs seal IMAGE`; NAME is the name of IMAGE without `.raw`.
    #[arg(
        long,
        conflicts_with_all = ["dry_run", "composefs", "offset", "prefix", "no_pad", "stream", "blob", "refer"]
    )]
    seal: bool,

    /// Sign the root hash with the private key in FILE
    ///
    /// The signature is in NAME.roothash.p7s. `packfs help seal` says which keys there are.
    #[arg(long, value_name = "FILE", requires_all = ["seal", "seal_certificate"], value_hint = ValueHint::FilePath)]
    seal_key: Option<PathBuf>,

    /// Certificate of the key, in PEM or DER
    #[arg(long, value_name = "FILE", requires = "seal_key", value_hint = ValueHint::FilePath)]
    seal_certificate: Option<PathBuf>,
}

/// A seal to make of the image.
#[derive(Debug, Clone)]
pub(crate) struct BuildSeal {
    /// Private key to sign with.
    pub(crate) key: Option<PathBuf>,
    /// Certificate of that key.
    pub(crate) certificate: Option<PathBuf>,
}

impl BuildSealArgs {
    /// Returns true if the image is to be sealed.
    pub(super) fn is_given(&self) -> bool {
        self.seal
    }

    /// Returns the seal to make.
    pub(super) fn resolve(self) -> Option<BuildSeal> {
        self.seal.then_some(BuildSeal { key: self.seal_key, certificate: self.seal_certificate })
    }
}
