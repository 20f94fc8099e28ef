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
        let failed = Error::io("cannot write", "standard output");
        return output::stdout().map_err(Error::io("cannot write", "standard output")).and_then(|mut out| {
            paths(tree, &mut |path| output::name(&mut out, path).and_then(|()| out.write_all(b"\n")))?;
            out.flush().map_err(failed)
        });
    }
    let mut out = BufWriter::new(File::create(file).map_err(Error::io("cannot create", file))?);
    paths(tree, &mut |path| out.write_all(path).and_then(|()| out.write_all(b"\n")))?;
    out.flush().map_err(Error::io("cannot write", file))
}

fn paths(tree: &Tree, line: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<()> {
    let image = TreeImage::new(tree);
    let mut walk = Walk::new(&image, &[])?;
    while let Some(visit) = walk.step()? {
        if visit.depth > 0 {
            line(visit.path).map_err(Error::io("cannot write", "the list of entries"))?;
        }
    }
    Ok(())
}
