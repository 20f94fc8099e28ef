//! `packfs info --stats`: what takes up space in an image.

use std::collections::BTreeMap;
use std::io::{self, Write};

use packfs_image::name::encode;
use packfs_image::stats::{Group, Stats};
use serde::Serialize;

use crate::output::{self, units};

/// Number of rows in each table of text.
const ROWS: usize = 12;
/// Number of the largest files, and of the least compressed folders, in the JSON.
const JSON_ROWS: usize = 100;

/// Use of the space in an image. Files, metadata and unused bytes add up to the length of the image.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SpaceReport {
    /// Length of the image in bytes, with its additional devices and padding.
    image_bytes: u64,
    /// Bytes of stored file data.
    file_bytes: u64,
    /// Bytes of metadata.
    metadata_bytes: u64,
    /// Bytes of everything else.
    unused_bytes: u64,
    /// Part of `file_bytes` in fragment blocks or the packed inode.
    fragment_bytes: u64,
    /// Bytes of each kind of metadata.
    metadata: BTreeMap<&'static str, u64>,
    /// All files.
    all: SpaceRow,
    /// Files of each type; `name` is an extension.
    types: Vec<SpaceRow>,
    /// Files of each top-level folder.
    folders: Vec<SpaceRow>,
    /// Files of each range of ratios; a ratio is `stored` divided by `data`.
    ratios: Vec<SpaceRow>,
    /// Up to 100 folders whose files compress worst; `name` is the path (`.`: the root).
    least_compressed: Vec<SpaceRow>,
    /// The 100 files with most stored bytes; `name` is the path.
    largest: Vec<SpaceRow>,
}

/// Files that have something in common, or one file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SpaceRow {
    /// Extension in lower case, without versions (empty: none); folder (`.`: the root); range of ratios; or path.
    name: String,
    /// Number of files.
    files: u64,
    /// Sum of their lengths in bytes.
    size: u64,
    /// Bytes of the files outside holes.
    data: u64,
    /// Share of the files in the image's bytes.
    stored: u64,
    /// Bytes of the files that are stored once for several files or places.
    duplicate: u64,
}

impl SpaceReport {
    pub(super) fn new(stats: &Stats) -> Self {
        let rows = |groups: Vec<Group>| groups.iter().map(SpaceRow::new).collect();
        SpaceReport {
            image_bytes: stats.image_bytes,
            file_bytes: stats.file_bytes(),
            metadata_bytes: stats.metadata_bytes(),
            unused_bytes: stats.unused_bytes,
            fragment_bytes: stats.fragment_bytes,
            metadata: stats.metadata.iter().copied().collect(),
            all: SpaceRow::new(&stats.all()),
            types: rows(stats.by_type()),
            folders: rows(stats.by_folder()),
            ratios: rows(stats.by_ratio()),
            least_compressed: rows(stats.least_compressed(JSON_ROWS)),
            largest: rows(stats.largest(JSON_ROWS)),
        }
    }
}

impl SpaceRow {
    fn new(group: &Group) -> Self {
        let Group { name, files, size, data, stored, duplicate, .. } = group;
        let files = *files;
        let size = *size;
        let data = *data;
        SpaceRow { name: encode(name).into_owned(), files, size, data, stored: *stored, duplicate: *duplicate }
    }
}

/// Prints the statistics as tables.
pub(super) fn print(stats: &Stats, out: &mut impl Write) -> io::Result<()> {
    let all = stats.all();
    let whole = stats.image_bytes;
    let part = |bytes: u64| format!("{:>10} {:>7}", units::bytes(bytes), percent(bytes, whole));
    writeln!(out, "\n{:>10} {:>7}", "STORED", "SHARE")?;
    writeln!(out, "{}  files", part(stats.file_bytes()))?;
    for (name, bytes) in &stats.metadata {
        writeln!(out, "{}  {name}", part(*bytes))?;
    }
    writeln!(out, "{}  unused or padding", part(stats.unused_bytes))?;
    let exact = units::count(whole);
    writeln!(out, "{}  image ({exact} bytes)\n", part(whole))?;
    let files = units::of(all.files, "file");
    let size = units::bytes(all.size);
    let data = units::bytes(all.data);
    writeln!(out, "{files} of {size}, {data} of it outside holes")?;
    writeln!(out, "duplicates   {}, stored once each", units::bytes(all.duplicate))?;
    writeln!(out, "fragments    {} of the stored bytes", units::bytes(stats.fragment_bytes))?;
    write_table(out, "TYPE", &stats.by_type(), whole)?;
    write_table(out, "FOLDER", &stats.by_folder(), whole)?;
    write_table(out, "STORED OF DATA", &stats.by_ratio(), whole)?;
    write_table(out, "LEAST COMPRESSED FOLDERS", &stats.least_compressed(ROWS), whole)?;
    write_table(out, "LARGEST FILES", &stats.largest(ROWS), whole)
}

fn write_table(out: &mut impl Write, title: &str, groups: &[Group], whole: u64) -> io::Result<()> {
    writeln!(out, "\n{:>10} {:>7} {:>8} {:>10} {:>9}  {title}", "STORED", "SHARE", "OF DATA", "DUPLICATE", "FILES")?;
    let mut line = |group: &Group, name: &[u8]| {
        let stored = units::bytes(group.stored);
        let share = percent(group.stored, whole);
        let ratio = percent(group.stored, group.data);
        let duplicate = units::bytes(group.duplicate);
        write!(out, "{stored:>10} {share:>7} {ratio:>8} {duplicate:>10} {:>9}  ", units::count(group.files))?;
        output::write_name(out, name)?;
        writeln!(out)
    };
    // One row more, rather than a row that stands for a single other one.
    let shown = if groups.len() <= ROWS + 1 { groups.len() } else { ROWS };
    for group in &groups[..shown] {
        line(group, if group.name.is_empty() { b"(none)" } else { &group.name })?;
    }
    match Group::sum(&groups[shown..]) {
        Some(others) => line(&others, format!("({} others)", units::count((groups.len() - shown) as u64)).as_bytes()),
        None => Ok(()),
    }
}

/// Formats a part of a whole.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    let tenths = u128::from(part) * 1000 / u128::from(whole);
    format!("{}.{} %", tenths / 10, tenths % 10)
}
