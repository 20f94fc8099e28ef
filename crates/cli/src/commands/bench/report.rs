//! `packfs bench report`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use packfs_bench::compare::{CompareRules, ResultsComparison};
use packfs_bench::record::ResultsFile;
use packfs_bench::report::{BenchReport as Findings, csv, html, markdown, text};
use packfs_bench::results::BenchResults;
use packfs_image::name::display;

use crate::args::BenchReportArgs;
use crate::commands::print;
use crate::output::failure::CommandOutcome;
use crate::output::{say, target};

pub(super) fn run(args: &BenchReportArgs) -> Result<CommandOutcome> {
    let new = read_results(&args.results, "")?;
    let mut report = Findings::of(&BenchResults::of(&new));
    let mut outcome = CommandOutcome::Done;
    let printed = args.output.is_none() && args.md.is_none() && args.csv.is_none();
    if !args.against.is_empty() {
        let rules =
            CompareRules::default().set(|all| (all.alpha, all.threshold) = (args.alpha, args.threshold / 100.0));
        let comparison = ResultsComparison::of(&new, &read_results(&args.against, "--against ")?, rules);
        let compared = Findings::of_comparison(&comparison);
        if printed {
            print(&text(&compared))?;
        }
        report.sections.splice(..0, compared.sections);
        if comparison.is_worse() {
            outcome = CommandOutcome::Findings;
        }
    }
    if printed && args.against.is_empty() {
        print(&text(&report))?;
    }
    if let Some(path) = &args.output {
        write_file(path, &html(&report), args.force)?;
    }
    if let Some(path) = &args.md {
        write_file(path, &markdown(&report), args.force)?;
    }
    if let Some(dir) = &args.csv {
        std::fs::create_dir_all(dir).with_context(|| display(dir).to_string())?;
        for table in report.tables() {
            write_file(&dir.join(format!("{}.csv", table.id)), &csv(table), args.force)?;
        }
    }
    Ok(outcome)
}

/// Reads results files; `option` comes before their names in errors.
fn read_results(paths: &[PathBuf], option: &str) -> Result<Vec<ResultsFile>> {
    let mut files = Vec::new();
    for path in paths {
        let contents = ResultsFile::read(path).with_context(|| format!("{option}{}", display(path)))?;
        if contents.has_torn_line {
            say(format_args!("packfs: {}: the last line is incomplete, and is ignored", display(path)));
        }
        files.push(contents);
    }
    Ok(files)
}

fn write_file(path: &Path, text: &str, force: bool) -> Result<()> {
    target::fill(target::create(path, target::READABLE, force)?, text)
}
