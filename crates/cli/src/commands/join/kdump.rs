//! `packfs join --as kdump`: the ELF core in a set of parts as a file that `crash` opens.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use packfs_blocks::Progress;
use packfs_codec::Choice;
use packfs_dump::kdump::{self, DumpForm, Flattener, KdumpReport, WriteAt};
use packfs_dump::{Error, Set, join};
use packfs_image::name::display;

use super::target::{JoinTarget, commit_dump};
use crate::output::{self, failure::UsageError};

/// Name of the joined parts in messages.
const DUMP: &str = "the dump";
/// Number of bytes of a flattened file written at once.
const WRITE: usize = 1 << 20;

/// Writes the core, with pages compressed by `codec`; flattened if `flat`. All of it must be available.
pub(super) fn write_core(
    set: &Set,
    target: JoinTarget,
    flat: bool,
    codec: Choice,
    options: &join::JoinOptions,
    progress: &Progress,
) -> Result<KdumpReport> {
    check_core(set)?;
    let memory = usize::try_from(options.memory).unwrap_or(usize::MAX);
    let options = kdump::KdumpOptions::default()
        .set(|all| (all.codec, all.threads, all.memory) = (codec, options.threads, memory));
    let plain = |out: &mut dyn WriteAt, name: &Path| {
        kdump::write((Path::new(DUMP), set), (name, out), &options, progress).map_err(anyhow::Error::from)
    };
    let flattened = |out: &mut dyn Write, name: &Path| -> Result<KdumpReport> {
        let failed = || format!("{}: cannot write", display(name));
        let mut flattener = Flattener::new(BufWriter::with_capacity(WRITE, out)).with_context(failed)?;
        let report = plain(&mut flattener, name)?;
        flattener.finish().with_context(failed)?;
        Ok(report)
    };
    match target {
        JoinTarget::File(file) => {
            let report = match flat {
                true => flattened(&mut file.appender(), file.target())?,
                false => plain(&mut &file, file.target())?,
            };
            commit_dump(file, progress)?;
            Ok(report)
        }
        _ if !flat => Err(UsageError("--as kdump cannot be written to a pipe; use --as kdump-flat".into()).into()),
        JoinTarget::Stdout => {
            let wrap = |error| anyhow::Error::new(error).context(format!("{}: cannot write", output::STDOUT));
            output::write_raw_result(wrap, |stdout| flattened(stdout, Path::new(output::STDOUT)))
        }
        JoinTarget::Stream(path) => {
            let mut file = OpenOptions::new().write(true).open(&path).with_context(|| display(&path).to_string())?;
            flattened(&mut file, &path)
        }
    }
}

/// Checks that there is a whole ELF core to write.
fn check_core(set: &Set) -> Result<()> {
    let lost = set.lost();
    let open_end = set.open_end();
    if !lost.is_empty() || open_end.is_some() {
        return Err(Error::Incomplete { lost, open_end }.into());
    }
    let what = match kdump::detect(Path::new(DUMP), set)? {
        DumpForm::Elf => return Ok(()),
        DumpForm::Kdump => "is already a kdump-compressed file",
        DumpForm::Flattened => "is already a flattened kdump file",
        DumpForm::Raw => "is not a 64-bit little-endian ELF core",
    };
    bail!("{DUMP} {what}; leave out --as to write it as it was split")
}
