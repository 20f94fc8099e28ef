//! `packfs list`.

mod json;
mod lines;
mod mode;
mod order;

use std::io::{self, Write};

use anyhow::Result;
use packfs_image::Image;
use packfs_image::image::{Nid, Stat};
use packfs_image::sink::{Visit, Walk};

use self::json::JsonEntry;
use self::lines::Lines;
use self::order::{branches, sort, totals};
use super::open;
use crate::args::List;
use crate::output;
use crate::output::failure::Outcome;
use crate::output::json::SCHEMA;

/// An entry of the listing.
#[derive(Debug)]
struct Entry {
    path: Vec<u8>,
    depth: usize,
    nid: Nid,
    stat: Stat,
}

impl Entry {
    fn new(visit: &Visit<'_>) -> Self {
        Entry { path: visit.path.to_vec(), depth: visit.depth, nid: visit.nid, stat: visit.stat.clone() }
    }
}

pub(super) fn run(args: &List) -> Result<Outcome> {
    let opened = open::image(&args.image)?;
    let image = opened.image();
    let exclude = args.select.exclude.resolve()?;
    let mut walk = Walk::new(image, &args.select.paths)?.excluding(&exclude);
    let mut out = output::stdout()?;
    let mut listing = if args.json { Listing::Json { first: true } } else { Listing::Text(Lines::new(args)) };
    listing.begin(&mut out)?;
    if args.du || args.tree || args.sort.is_some() {
        let (entries, totals, branches) = gather(args, &mut walk)?;
        for (n, entry) in entries.iter().enumerate() {
            let branch = branches.get(n).map(String::as_str);
            listing.entry(&mut out, image, entry, totals.get(n).copied().flatten(), branch)?;
        }
    } else {
        // As it is met: the listing of a large image needs no memory.
        while let Some(visit) = walk.step()? {
            if visit.selected {
                listing.entry(&mut out, image, &Entry::new(&visit), None, None)?;
            }
        }
    }
    listing.end(&mut out)?;
    out.flush()?;
    Ok(Outcome::Done)
}

/// All entries in the order in which they are shown, for each one its total and the branch of the tree that it hangs on.
fn gather(args: &List, walk: &mut Walk<'_>) -> Result<(Vec<Entry>, Vec<Option<u64>>, Vec<String>)> {
    let mut entries = Vec::new();
    while let Some(visit) = walk.step()? {
        // A tree also shows the directories on the way.
        if visit.selected || args.tree {
            entries.push(Entry::new(&visit));
        }
    }
    let totals = if args.du { totals(&entries) } else { vec![None; entries.len()] };
    let branches = if args.tree { branches(&entries) } else { Vec::new() };
    let (entries, totals) = sort(entries, totals, args.sort);
    Ok((entries, totals, branches))
}

enum Listing {
    Text(Lines),
    Json { first: bool },
}

impl Listing {
    fn begin(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Listing::Json { .. } => write!(out, "{{\"schema\":{SCHEMA},\"kind\":\"list\",\"entries\":["),
            Listing::Text(_) => Ok(()),
        }
    }

    fn end(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Listing::Json { .. } => out.write_all(b"\n]}\n"),
            Listing::Text(_) => Ok(()),
        }
    }

    fn entry(
        &mut self,
        out: &mut impl Write,
        image: &dyn Image,
        entry: &Entry,
        total: Option<u64>,
        branch: Option<&str>,
    ) -> Result<()> {
        match self {
            Listing::Text(lines) => lines.entry(out, entry, total, branch)?,
            Listing::Json { first } => {
                out.write_all(if std::mem::take(first) { b"\n" } else { b",\n" })?;
                serde_json::to_writer(out, &JsonEntry::new(image, entry, total)?).map_err(io::Error::from)?;
            }
        }
        Ok(())
    }
}
