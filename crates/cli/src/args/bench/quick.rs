//! `packfs bench --quick` as typed.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// A first look at one's own data.
#[derive(Debug, Args)]
#[command(next_help_heading = "Quick look")]
pub(crate) struct BenchQuickArgs {
    /// Measure DIR in less than two minutes [default: current directory]
    ///
    /// Measures a few codecs, and a few ways to build an image of DIR.
    #[arg(long = "quick", value_name = "DIR", num_args = 0..=1, default_missing_value = ".",
        value_hint = ValueHint::AnyPath)]
    pub(crate) dir: Option<PathBuf>,

    /// Page to write; samples go to a file beside it in .jsonl
    #[arg(short, long, value_name = "PAGE", default_value = "packfs-bench.html", value_hint = ValueHint::FilePath,
        requires = "dir")]
    pub(crate) output: PathBuf,

    /// Replace PAGE if it exists
    #[arg(short, long, requires = "dir")]
    pub(crate) force: bool,

    /// Print nothing but findings and errors
    #[arg(short, long, requires = "dir")]
    pub(crate) quiet: bool,
}
