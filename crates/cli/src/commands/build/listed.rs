//! `--list`: the paths of all that is packed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use packfs_image::sink::Walk;
use packfs_image::tree::TreeImage;
use packfs_image::{Error, Result, Tree};

use crate::output;

/// Writes a line for each entry but the root to a file, or to standard output if that is `-`.
pub(super) fn write(tree: &Tree, file: &Path) -> Result<()> {
    if file == Path::new("-") {
        let name = Path::new(output::STDOUT);
        let mut out = BufWriter::new(output::unnamed_stdout().map_err(Error::io("cannot write", name))?);
        return paths(tree, name, &mut out, output::name);
    }
    let mut out = BufWriter::new(File::create(file).map_err(Error::io("cannot create", file))?);
    paths(tree, file, &mut out, |out, path| out.write_all(path))
}

/// Writes the paths to a file of a name, and flushes it.
fn paths<W: Write>(tree: &Tree, name: &Path, out: &mut W, one: fn(&mut W, &[u8]) -> io::Result<()>) -> Result<()> {
    let image = TreeImage::new(tree);
    let mut walk = Walk::new(&image, &[])?;
    while let Some(visit) = walk.step()? {
        if visit.depth > 0 {
            one(out, visit.path).and_then(|()| out.write_all(b"\n")).map_err(Error::io("cannot write", name))?;
        }
    }
    out.flush().map_err(Error::io("cannot write", name))
}
