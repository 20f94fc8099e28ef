//! Options of `packfs trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::Talk;

/// Run a command and list the files it opens, for `build --hot`.
///
/// LIST gets the path of each file and directory below DIR that is opened while COMMAND runs, by whatever process, in order
/// of first use. Packing the same tree with `packfs build --hot LIST` then lays these out side by side. It takes root
/// (CAP_SYS_ADMIN). COMMAND's processes have to see DIR where this one sees it: those in a mount namespace of their own do
/// not, those after `chroot` do. The list is written even if COMMAND fails or is interrupted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs trace -o boot.list --mount /srv/root -- chroot /srv/root /usr/bin/app --version
  packfs build /srv/root -o root.sqfs --hot boot.list")]
pub(crate) struct Trace {
    /// List to write: paths in DIR in order of first use, one a line
    #[arg(short, long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Directory to watch, in general a mount point
    ///
    /// The mount it is in has to show all files that COMMAND uses.
    #[arg(long, value_name = "DIR", default_value = "/", value_hint = ValueHint::DirPath)]
    pub(crate) mount: PathBuf,

    /// Replace LIST if it exists
    #[arg(short, long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) talk: Talk,

    /// Command to run, with its arguments
    #[arg(value_name = "COMMAND", last = true, required = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}
