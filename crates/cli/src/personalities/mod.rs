//! Other programs' names that packfs answers to: started by one of them, it takes that program's options and keeps the
//! contracts of its callers. A personality turns them into a command of packfs and runs that.

mod fuse;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

/// Runs a personality with its name and its arguments.
type Run = fn(&str, Vec<OsString>) -> ExitCode;

/// The names, and what runs for each.
const NAMES: [(&str, Run); 3] = [("squashfuse", fuse::run), ("squashfuse_ll", fuse::run), ("erofsfuse", fuse::run)];

/// Runs the personality that the program was started as, if it was.
pub(crate) fn run() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let started = args.next()?;
    let name = Path::new(&started).file_name().and_then(OsStr::to_str)?;
    let (name, run) = NAMES.iter().find(|(known, _)| *known == name)?;
    Some(run(name, args.collect()))
}
