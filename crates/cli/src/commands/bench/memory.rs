//! `packfs bench memory`.

use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, Result};
use packfs_bench::memory::MemoryReader as Pages;
use packfs_image::name::display;

use crate::args::BenchMemoryArgs;
use crate::output;
use crate::output::failure::CommandOutcome;
use crate::output::target;

/// Number of bytes generated and written at once.
const PIECE: usize = 1 << 20;

pub(super) fn run(args: &BenchMemoryArgs) -> Result<CommandOutcome> {
    let target = args.output.as_deref().filter(|path| *path != Path::new("-"));
    match target {
        None => {
            output::require_pipe_or_file("memory contents")?;
            output::write_result(|out| Ok(make_pages(args, |piece, _| out.write_all(piece))?))?;
        }
        Some(path) => {
            let file = target::create_or_redirect(path, target::READABLE, args.force)?;
            make_pages(args, |piece, at| file.write_all_at(piece, at)).with_context(|| display(path).to_string())?;
            target::commit(file)?;
        }
    }
    Ok(CommandOutcome::Done)
}

fn make_pages(args: &BenchMemoryArgs, mut put: impl FnMut(&[u8], u64) -> io::Result<()>) -> io::Result<()> {
    let mut pages = Pages::new(args.seed, args.shares);
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < args.size {
        let len = usize::try_from(args.size - at).map_or(PIECE, |left| left.min(PIECE));
        pages.read_exact(&mut piece[..len])?;
        put(&piece[..len], at)?;
        at += len as u64;
    }
    Ok(())
}
