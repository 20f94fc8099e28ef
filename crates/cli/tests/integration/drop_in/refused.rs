//! The table of refused options of other programs in docs/guide/drop-in.md is the one that the program prints.

use std::fmt::Write;
use std::path::Path;

use crate::common::{fail, succeed};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/drop-in.md");
/// Heading of the section with the table.
const HEADING: &str = "## What is refused\n";

/// A row of the table: the refused options, the reason, and the programs.
struct TableRow {
    what: String,
    why: String,
    programs: Vec<String>,
}

/// Reads the rows from `packfs as --list`; programs that refuse the same share one.
fn rows() -> Vec<TableRow> {
    let mut rows: Vec<TableRow> = Vec::new();
    for line in succeed(Path::new("."), &["as", "--list"]).lines() {
        let Some((left, why)) = line.split_once(" refused   ") else { continue };
        let (program, what) = left.trim_end().split_once(' ').unwrap();
        match rows.iter_mut().find(|row| row.what == what && row.why == why) {
            Some(row) => row.programs.push(program.to_owned()),
            None => {
                rows.push(TableRow { what: what.to_owned(), why: why.to_owned(), programs: vec![program.to_owned()] })
            }
        }
    }
    rows
}

#[test]
fn the_guide_has_every_refusal_with_its_reason() {
    let rows = rows();
    assert!(rows.len() > 25, "{} rows", rows.len());
    let mut table = String::from("| program | refused | reason |\n|---|---|---|\n");
    for TableRow { what, why, programs } in &rows {
        let programs = programs.join(", ");
        let what = what.replace('|', "\\|");
        let what = if what.starts_with('-') { format!("`{what}`") } else { what };
        let _ = writeln!(table, "| {programs} | {what} | {} |", why.replace('|', "\\|"));
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    let section = page.split_once(HEADING).unwrap_or_else(|| panic!("{HEADING} is missing")).1;
    let section = section.split("\n## ").next().unwrap();
    let told: String = section.lines().filter(|line| line.starts_with('|')).flat_map(|line| [line, "\n"]).collect();
    assert!(told == table, "the table of {PAGE} is not that of the program, which is:\n{table}");
}

#[test]
fn a_refused_option_is_told_with_its_reason() {
    // The rest of the command line does not matter.
    let told = fail(Path::new("."), 1, &["as", "mkfs.erofs", "--vmdk-desc=x", "image", "nosuch"]);
    assert!(told.contains("mkfs.erofs: --vmdk-desc: packfs describes no disks"), "{told}");
    let told = fail(Path::new("."), 1, &["as", "mksquashfs", ".", "image", "-recover", "x"]);
    assert!(told.contains("mksquashfs: -recover: there is nothing to recover"), "{told}");
}
