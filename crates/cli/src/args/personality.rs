//! Options of `packfs as`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::known::ProgramLine;

/// Take the command line of another program.
///
/// packfs does the same if it is started through a link with that program's name. The programs are mksquashfs, sqfstar,
/// unsquashfs, sqfscat, tar2sqfs, gensquashfs, rdsquashfs, sqfs2tar, sqfsdiff, mkfs.erofs, fsck.erofs and dump.erofs,
/// and, for mounting, squashfuse, squashfuse_ll and erofsfuse.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs as mksquashfs root/ root.sqfs -comp zstd -all-root -noappend
  packfs as --show mksquashfs root/ root.sqfs -comp zstd -e proc sys
  packfs as --list mksquashfs
  packfs as --install /usr/local/bin")]
pub(crate) struct AsProgramArgs {
    /// List how each option is handled: same, ignored or refused
    #[arg(long)]
    pub(crate) list: bool,

    /// Print the packfs command instead of running it
    #[arg(long, conflicts_with = "list")]
    pub(crate) show: bool,

    /// Make a link to packfs in DIR for each program
    #[arg(long, value_name = "DIR", conflicts_with_all = ["list", "show", "words"], value_hint = ValueHint::DirPath)]
    pub(crate) install: Option<PathBuf>,

    /// Program, and its arguments
    // One list: clap would take an argument such as --help, right after a program of its own, for itself.
    #[arg(value_name = "PROGRAM [ARGUMENT]", trailing_var_arg = true, value_parser = ProgramLine, hide_possible_values = true)]
    pub(crate) words: Vec<OsString>,
}
