//! `packfs bench report` as typed.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Make a page, tables for programs, or Markdown of what was measured.
///
/// The page has tables and charts, and needs no network. Of cells that several sessions measured the last one counts.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  packfs bench report packfs-bench.jsonl -o report.html --csv tables --md report.md")]
pub(crate) struct Report {
    /// Files of results
    #[arg(value_name = "RESULTS", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) results: Vec<PathBuf>,

    /// Page to write
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath,
        required_unless_present_any = ["csv", "md"])]
    pub(crate) output: Option<PathBuf>,

    /// Directory to write each table to as CSV
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) csv: Option<PathBuf>,

    /// Markdown to write
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) md: Option<PathBuf>,

    /// Replace files that exist
    #[arg(short, long)]
    pub(crate) force: bool,
}
