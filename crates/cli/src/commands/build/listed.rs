//! `--list`: the paths of all that is packed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use packfs_blocks::Output;
use packfs_image::name::display;
use packfs_image::sink::Walk;
use packfs_image::tree::TreeImage;
use packfs_image::{Error, Result, Tree};

use crate::args::BuildPlan;
use crate::output::failure::UsageError;
use crate::output::{self, target};

/// Fails if the list would replace the image, a source, or a file without `--force`.
pub(super) fn check_target(plan: &BuildPlan) -> anyhow::Result<()> {
    let Some(file) = regular_target(plan) else { return Ok(()) };
    let name = display(file);
    let place = path_of_entry(file);
    if place == path_of_entry(&plan.output) {
        return Err(UsageError(format!("--list: {name} is the image; give another file")).into());
    }
    if plan.request.sources.iter().any(|source| place == path_of_entry(source)) {
        return Err(UsageError(format!("--list: {name} is a source; give another file")).into());
    }
    if file.exists() && !plan.request.target.common().force {
        return Err(Error::Exists { path: file.to_owned() }.into());
    }
    Ok(())
}

/// Returns device and inode of the list that the build will replace: a source that contains it does not pack it.
pub(super) fn replaced_file(plan: &BuildPlan) -> Option<(u64, u64)> {
    let found = fs::metadata(regular_target(plan)?).ok()?;
    Some((found.dev(), found.ino()))
}

/// Returns the file that the list goes to, unless that is standard output, a device or a FIFO, which is not replaced.
fn regular_target(plan: &BuildPlan) -> Option<&Path> {
    plan.list.as_deref().filter(|file| *file != Path::new("-") && is_regular(file))
}

fn is_regular(file: &Path) -> bool {
    fs::metadata(file).map_or(true, |found| found.is_file() || found.is_dir())
}

/// Returns the absolute path of a file, which need not exist, without links; `None` if its directory does not exist.
fn path_of_entry(file: &Path) -> Option<PathBuf> {
    file.canonicalize().ok().or_else(|| {
        let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Some(dir.canonicalize().ok()?.join(file.file_name()?))
    })
}

/// Writes a line for each entry but the root to a file, or to standard output if that is `-`. There it is a remark: the
/// image is made whether or not anybody reads the list to its end.
pub(super) fn write_paths(tree: &Tree, file: &Path, force: bool) -> Result<()> {
    if file == Path::new("-") {
        let mut out = output::remarks();
        return each_path(tree, |path| {
            let _ = output::write_name(&mut out, path).and_then(|()| out.write_all(b"\n"));
            Ok(if out.has_reader() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        });
    }
    if !is_regular(file) {
        return write_lines(tree, File::create(file).map_err(Error::io("cannot create", file))?, file);
    }
    let output = Output::create(file, target::READABLE, force).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: file.to_owned() },
        _ => Error::io("cannot create", file)(error),
    })?;
    write_lines(tree, output.appender(), file)?;
    output.commit().map_err(Error::io("cannot finish", file))
}

fn write_lines(tree: &Tree, out: impl Write, file: &Path) -> Result<()> {
    let mut out = BufWriter::new(out);
    each_path(tree, |path| {
        let written = out.write_all(path).and_then(|()| out.write_all(b"\n"));
        written.map_err(Error::io("cannot write", file))?;
        Ok(ControlFlow::Continue(()))
    })?;
    out.flush().map_err(Error::io("cannot write", file))
}

/// Calls `visit` with the path of each entry but the root, until it breaks.
fn each_path(tree: &Tree, mut visit: impl FnMut(&[u8]) -> Result<ControlFlow<()>>) -> Result<()> {
    let image = TreeImage::new(tree);
    let mut walk = Walk::new(&image, &[])?;
    while let Some(entry) = walk.step()? {
        if entry.depth > 0 && visit(entry.path)?.is_break() {
            break;
        }
    }
    Ok(())
}
