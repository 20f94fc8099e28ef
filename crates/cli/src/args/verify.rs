//! Options of `packfs verify`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{Effort, SealConsumer, Talk};

/// Say what will be enforced for a sealed image.
///
/// IMAGE and the files beside it are read as a consumer reads them, and all data is compared with the hash tree. The exit
/// status is 0 only if everything is found and right. Each mistake has a name, such as `root-hash-name` for a root hash that
/// nobody looks for.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs verify app.raw --as systemd
  packfs verify app.raw --as systemd --certificate cert.pem
  packfs verify layer.erofs --as containerd --json")]
pub(crate) struct Verify {
    /// Sealed image
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    pub(crate) image: PathBuf,

    /// Consumer that uses the image
    #[arg(long = "as", value_enum, value_name = "CONSUMER")]
    pub(crate) consumer: SealConsumer,

    /// Certificate that the consumer trusts, in PEM or DER
    ///
    /// With it, an image without a signature by its key is a mistake.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) certificate: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) effort: Effort,

    /// Print the findings as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) talk: Talk,
}
