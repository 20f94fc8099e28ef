//! `packfs list`.

pub(crate) mod json;
mod lines;
pub(crate) mod mode;
mod order;
pub(crate) mod owners;
pub(crate) mod packlist;

use std::borrow::Cow;
use std::io::{self, Write};

use anyhow::Result;
use packfs_image::Image;
use packfs_image::image::{Nid, Stat};
use packfs_image::sink::{Visit, Walk};

use self::json::{EntryList, JsonEntry};
use self::lines::TextLines;
use self::order::{add_totals, draw_branches, sort_entries};
use self::packlist::PackLines;
use super::open;
use crate::args::ListArgs;
use crate::output;
use crate::output::failure::CommandOutcome;
use crate::output::json::{JsonDocument, SCHEMA};

/// An entry of the listing.
#[derive(Debug)]
struct ListEntry<'v> {
    path: Cow<'v, [u8]>,
    depth: usize,
    nid: Nid,
    stat: Cow<'v, Stat>,
    /// Bytes of all files listed below a directory, on request.
    total: Option<u64>,
    /// Its branch, if a tree is drawn.
    branch: Option<String>,
}

impl<'v> ListEntry<'v> {
    /// Borrows an entry during the walk.
    fn new(visit: &'v Visit<'_>) -> Self {
        let Visit { path, depth, nid, stat, .. } = visit;
        let path = Cow::Borrowed(*path);
        let stat = Cow::Borrowed(stat);
        ListEntry { path, depth: *depth, nid: *nid, stat, total: None, branch: None }
    }

    /// Copies an entry to keep it while the walk continues.
    fn into_owned(self) -> ListEntry<'static> {
        let path = Cow::Owned(self.path.into_owned());
        let stat = Cow::Owned(self.stat.into_owned());
        ListEntry { path, stat, depth: self.depth, nid: self.nid, total: self.total, branch: self.branch }
    }
}

pub(super) fn run(args: &ListArgs) -> Result<CommandOutcome> {
    let opened = open::image(&args.image)?;
    let image = opened.image();
    let mut walk = Walk::over(image, &args.select.resolve()?)?;
    output::write_result(|out| print_entries(args, image, &mut walk, out))?;
    Ok(CommandOutcome::Done)
}

fn print_entries(args: &ListArgs, image: &dyn Image, walk: &mut Walk<'_>, out: &mut impl Write) -> Result<()> {
    let mut listing = match &args.pack_list {
        Some(dir) => ListWriter::PackList(PackLines::new(dir)),
        None if args.json => ListWriter::Json { first: true },
        None => ListWriter::Text(TextLines::new(args)),
    };
    listing.begin(out)?;
    if args.du || args.tree || args.sort.is_some() {
        for entry in gather_entries(args, walk)? {
            listing.entry(out, image, &entry)?;
        }
    } else {
        // Printed during the walk: listing a large image needs no memory.
        while let Some(visit) = walk.step()? {
            // Directories on the way belong to a pack list: it would give missing ones other attributes.
            if visit.selected || args.pack_list.is_some() {
                listing.entry(out, image, &ListEntry::new(&visit))?;
            }
        }
    }
    Ok(listing.end(out)?)
}

/// Collects all entries in the order of output.
fn gather_entries(args: &ListArgs, walk: &mut Walk<'_>) -> Result<Vec<ListEntry<'static>>> {
    let mut entries = Vec::new();
    while let Some(visit) = walk.step()? {
        // A tree also shows parent directories.
        if visit.selected || args.tree {
            entries.push(ListEntry::new(&visit).into_owned());
        }
    }
    if args.du {
        add_totals(&mut entries);
    }
    if args.tree {
        draw_branches(&mut entries);
    }
    sort_entries(&mut entries, args.sort);
    Ok(entries)
}

enum ListWriter {
    Text(TextLines),
    Json { first: bool },
    PackList(PackLines),
}

impl ListWriter {
    fn begin(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            ListWriter::Json { .. } => {
                write!(out, "{{\"schema\":{SCHEMA},\"kind\":\"{}\",\"entries\":[", EntryList::KIND)
            }
            ListWriter::Text(_) | ListWriter::PackList(_) => Ok(()),
        }
    }

    fn end(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            ListWriter::Json { .. } => out.write_all(b"\n]}\n"),
            ListWriter::Text(_) | ListWriter::PackList(_) => Ok(()),
        }
    }

    fn entry(&mut self, out: &mut impl Write, image: &dyn Image, entry: &ListEntry<'_>) -> Result<()> {
        match self {
            ListWriter::Text(lines) => lines.entry(out, entry)?,
            ListWriter::PackList(lines) => lines.entry(out, image, entry)?,
            ListWriter::Json { first } => {
                out.write_all(if std::mem::take(first) { b"\n" } else { b",\n" })?;
                let ListEntry { path, nid, stat, total, .. } = entry;
                let json = JsonEntry::new(image, path, *nid, stat, *total)?;
                serde_json::to_writer(out, &json).map_err(io::Error::from)?;
            }
        }
        Ok(())
    }
}
