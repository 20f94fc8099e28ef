//! `packfs cat`.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use packfs_image::Image;
use packfs_image::image::FileType;
use packfs_image::sink;

use super::{open, parts, sources};
use crate::args::Cat;
use crate::output;
use crate::output::failure::{Outcome, Usage};

const PIECE_LEN: usize = 1 << 20;

pub(super) fn run(args: &Cat) -> Result<Outcome> {
    // Behind an image come paths in it, whatever files of these names there are here.
    if !sources::is_image(&args.image.path)
        && let Some(paths) = parts::of_dump(&args.image, &args.paths)?
    {
        return parts::cat(args, &paths);
    }
    if args.range.is_some() {
        return Err(Usage("--range is for the parts of a dump".into()).into());
    }
    if args.paths.is_empty() {
        return Err(Usage("which files of the image? Give their paths behind it".into()).into());
    }
    let opened = open::image(&args.image)?;
    let mut out = output::stdout()?;
    for path in &args.paths {
        file(opened.image(), path, &mut out).with_context(|| path.display().to_string())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn file(image: &dyn Image, path: &Path, out: &mut impl Write) -> Result<()> {
    let Some(nid) = sink::resolve(image, path.as_os_str().as_bytes())? else { bail!("no such file in the image") };
    if !matches!(image.stat(nid)?.kind, FileType::File { .. }) {
        bail!("not a regular file");
    }
    let mut piece = vec![0; PIECE_LEN];
    let mut offset = 0;
    loop {
        let len = image.read_at(nid, &mut piece, offset)?;
        out.write_all(&piece[..len])?;
        if len < piece.len() {
            return Ok(());
        }
        offset += len as u64;
    }
}
