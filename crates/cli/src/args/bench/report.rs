//! `packfs bench report` as typed.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Make a page, CSV tables or Markdown from measured results.
///
/// The page has tables and charts, and needs no network. Without --output, --csv and --md, the tables are printed. If
/// several sessions measured a cell, the last one counts.
///
/// With --against, compares results with earlier ones: shows what got faster, slower, smaller or larger, and tests
/// whether the difference is more than noise. The exit status is then 1 if anything got worse.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs bench report packfs-bench.jsonl -o report.html --csv tables --md report.md
  packfs bench report new.jsonl --against old.jsonl
  packfs bench report new.jsonl --against old.jsonl --md changes.md || echo slower or larger")]
pub(crate) struct BenchReportArgs {
    /// Files of results
    #[arg(value_name = "RESULTS", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) results: Vec<PathBuf>,

    /// Earlier results to compare with
    #[arg(long, value_name = "OLD", value_hint = ValueHint::FilePath)]
    pub(crate) against: Vec<PathBuf>,

    /// P-value below which a difference counts
    #[arg(long, value_name = "P", default_value = "0.05", requires = "against", value_parser = probability)]
    pub(crate) alpha: f64,

    /// Smallest difference that counts, in percent
    ///
    /// Differences of sizes that never vary always count.
    #[arg(long, value_name = "PERCENT", default_value = "1", requires = "against", value_parser = percent)]
    pub(crate) threshold: f64,

    /// Page to write
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
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

fn probability(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| *value > 0.0 && *value < 1.0);
    value.ok_or_else(|| "expected a number between 0 and 1".into())
}

fn percent(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.0..=1000.0).contains(value));
    value.ok_or_else(|| "expected a number from 0 to 1000".into())
}
