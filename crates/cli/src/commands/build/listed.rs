//! `--list`: the paths of all that is packed.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;

use packfs_image::sink::Walk;
use packfs_image::tree::TreeImage;
use packfs_image::{Error, Result, Tree};

use crate::output;

/// Writes a line for each entry but the root to a file, or to standard output if that is `-`. There it is a remark: the
/// image is made whether or not anybody reads the list to its end.
pub(super) fn write_paths(tree: &Tree, file: &Path) -> Result<()> {
    if file == Path::new("-") {
        let mut out = output::remarks();
        return each_path(tree, |path| {
            let _ = output::write_name(&mut out, path).and_then(|()| out.write_all(b"\n"));
            Ok(if out.has_reader() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        });
    }
    let mut out = BufWriter::new(File::create(file).map_err(Error::io("cannot create", file))?);
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
