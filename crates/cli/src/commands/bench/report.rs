//! `packfs bench report`.

use std::path::Path;

use anyhow::{Context, Result};
use packfs_bench::record::Contents;
use packfs_bench::report::{Report as Findings, csv, html, markdown};
use packfs_bench::results::Results;

use crate::args::Report;
use crate::output::failure::Outcome;
use crate::output::say;

pub(super) fn run(args: &Report) -> Result<Outcome> {
    let mut files = Vec::new();
    for path in &args.results {
        let contents = Contents::read(path)?;
        if contents.torn {
            say(format_args!("packfs: {}: the last line was torn off, and is ignored", path.display()));
        }
        files.push(contents);
    }
    let report = Findings::of(&Results::of(&files));
    if let Some(path) = &args.output {
        write(path, &html(&report), args.force)?;
    }
    if let Some(path) = &args.md {
        write(path, &markdown(&report), args.force)?;
    }
    if let Some(dir) = &args.csv {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        for table in report.tables() {
            write(&dir.join(format!("{}.csv", table.id)), &csv(table), args.force)?;
        }
    }
    Ok(Outcome::Done)
}

fn write(path: &Path, text: &str, force: bool) -> Result<()> {
    super::fill(super::create(path, force)?, text)
}
