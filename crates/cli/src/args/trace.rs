//! Options of `packfs trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::TalkArgs;

/// Run a command and list the files it opens, for `build --hot`.
///
/// LIST gets the path of each file and directory below DIR that any process opens while COMMAND runs, in order of first
/// use. `packfs build --hot LIST` then stores them next to each other. This needs root (CAP_SYS_ADMIN). COMMAND may use
/// `chroot`, but not a mount namespace of its own. LIST is written even if COMMAND fails or is interrupted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs trace -o boot.list --mount /srv/root -- chroot /srv/root /usr/bin/app --version
  packfs build /srv/root -o root.sqfs --hot boot.list")]
pub(crate) struct TraceArgs {
    /// List to write: paths in DIR in order of first use, one per line
    #[arg(short, long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Directory to watch, usually a mount point
    ///
    /// All files that COMMAND uses must be in the mount of DIR.
    #[arg(long, value_name = "DIR", default_value = "/", value_hint = ValueHint::DirPath)]
    pub(crate) mount: PathBuf,

    /// Replace LIST if it exists
    #[arg(short, long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,

    /// Command to run, with its arguments
    #[arg(value_name = "COMMAND", last = true, required = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}
