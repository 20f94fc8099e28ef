//! Options of `explore`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{EffortArgs, ImageArg, TalkArgs, value};

/// Write a page for the browser that shows what takes up space.
///
/// The page is one file that needs no server and loads nothing from the network. It has a treemap of stored bytes, a
/// tree, a search, tables by type and ratio, and the space that each entry takes up. `packfs serve` shows the same page
/// with the contents of all files.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs explore root.sqfs -o root.html
  packfs explore new.erofs --against old.erofs -o changes.html
  packfs explore root.sqfs --contents 4M -o - | ssh desk 'cat > root.html'")]
pub(crate) struct ExploreArgs {
    #[command(flatten)]
    pub(crate) image: ImageArg,

    /// Page to write; `-` is standard output [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// Show what was added, removed and changed since OLD, an image
    #[arg(long, value_name = "OLD", value_hint = ValueHint::FilePath)]
    pub(crate) against: Option<PathBuf>,

    /// Include the contents of files, up to SIZE (256M at most) in all
    ///
    /// packfs includes whole files, the smallest first. The page has previews and downloads of them, and grows by four
    /// thirds of SIZE.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = contents)]
    pub(crate) contents: u64,

    /// Replace FILE if it exists
    #[arg(short, long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) effort: EffortArgs,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

/// Browsers refuse longer texts, and the contents are one.
const CONTENTS_MAX: u64 = 256 << 20;

fn contents(text: &str) -> Result<u64, String> {
    let size = value::size(text)?;
    if size > CONTENTS_MAX {
        return Err("a page can contain at most 256M of files; packfs serve shows all of any image".into());
    }
    Ok(size)
}
