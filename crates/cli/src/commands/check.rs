//! `packfs check`.

use std::io::Write;

use anyhow::{Context, Result};
use packfs_image::Image;
use serde::Serialize;

use super::open;
use crate::args::Check;
use crate::output::failure::Outcome;
use crate::output::meter::Meter;
use crate::output::{self, json, units};

/// Findings kept and shown; of more only the number is told.
const SHOWN: usize = 10_000;

pub(super) fn run(args: &Check) -> Result<Outcome> {
    let image = open::with_cache(&args.image, args.effort.memory())?;
    let meter = Meter::start(args.talk.quiet);
    let mut findings = Findings::default();
    let checked = image.check(args.effort.threads(), meter.progress(), &mut |finding| findings.add(finding));
    let spent = meter.finish();
    checked.with_context(|| format!("checking {}", open::name(&args.image.path)))?;
    let sound = findings.count == 0;
    if args.json {
        json::print("check", &Report { image: open::name(&args.image.path), sound, findings: &findings })?;
    } else {
        let mut out = output::stdout()?;
        findings.print(&mut out)?;
        out.flush()?;
        if !args.talk.quiet {
            let verdict = if sound { "sound".into() } else { format!("{} findings", units::count(findings.count)) };
            let inodes = units::count(image.inode_count());
            eprintln!("{}: {verdict}, {inodes} inodes in {}", open::name(&args.image.path), units::span(spent.time));
        }
    }
    Ok(if sound { Outcome::Done } else { Outcome::Findings })
}

/// What was found, the first of it in words.
#[derive(Debug, Default, Serialize)]
pub(super) struct Findings {
    pub(super) count: u64,
    shown: Vec<String>,
}

impl Findings {
    pub(super) fn add(&mut self, finding: String) {
        self.count += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(finding);
        }
    }

    pub(super) fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        for finding in &self.shown {
            writeln!(out, "{finding}")?;
        }
        match self.count - self.shown.len() as u64 {
            0 => Ok(()),
            more => writeln!(out, "and {} more", units::count(more)),
        }
    }
}

/// See `docs/guide/json.md`.
#[derive(Serialize)]
struct Report<'a> {
    image: String,
    sound: bool,
    findings: &'a Findings,
}
