//! Differences of superblocks, in the lines of sqfsdiff.

use std::io::{self, Write};

use packfs_image::diff::{Aspect, Difference};

/// Fields that are numbers, by the names that sqfsdiff gives them.
const NUMBERS: [(&str, &str); 6] = [
    ("inodes", "inode count"),
    ("created", "modification time"),
    ("block_size", "block size"),
    ("fragments", "fragment table entries"),
    ("ids", "ID table entries"),
    ("bytes_used", "total bytes used"),
];
/// Fields that are positions.
const POSITIONS: [(&str, &str); 7] = [
    ("root", "root inode"),
    ("id_table", "ID table"),
    ("xattr_table", "xattr ID table"),
    ("inode_table", "inode table"),
    ("directory_table", "directory table"),
    ("fragment_table", "fragment table"),
    ("export_table", "export table"),
];
const FLAGS: [(&str, &str); 11] = [
    ("raw-inodes", "uncompressed inodes"),
    ("raw-data", "uncompressed data"),
    ("raw-fragments", "uncompressed fragments"),
    ("no-fragments", "no fragments"),
    ("always-fragments", "always fragments"),
    ("duplicates-shared", "no duplicates"),
    ("exportable", "exportable"),
    ("raw-xattrs", "uncompressed xattrs"),
    ("no-xattrs", "no xattrs"),
    ("compressor-options", "compressor options"),
    ("raw-ids", "uncompressed ids"),
];

/// Prints the fields that differ.
pub(super) fn print(fields: &[Difference], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "======== super blocks are different ========")?;
    for difference in fields {
        let Aspect::Superblock(field) = difference.aspect else { continue };
        let first = difference.first.as_deref();
        let second = difference.second.as_deref();
        let one = first.unwrap_or_default();
        let two = second.unwrap_or_default();
        let named =
            |names: &[(&str, &'static str)]| names.iter().find(|(name, _)| *name == field).map(|(_, name)| *name);
        if let Some(name) = named(&NUMBERS) {
            number(name, one, two, out)?;
        } else if let Some(name) = named(&POSITIONS) {
            writeln!(out, "Location of {name} differs")?;
        } else if field == "codec" {
            writeln!(out, "compressor: {one} vs {two}")?;
        } else if field == "flags" {
            flags(one, two, out)?;
        }
    }
    Ok(())
}

/// Prints by how much a number is larger in the second image.
fn number(name: &str, one: &str, two: &str, out: &mut impl Write) -> io::Result<()> {
    let value = |text: &str| text.parse::<i128>().unwrap_or_default();
    let one = value(one);
    let two = value(two);
    writeln!(out, "{name}: {:+}", two - one)?;
    if name == "block size" && one > 0 && two > 0 {
        writeln!(out, "block log: {:+}", i64::from(two.ilog2()) - i64::from(one.ilog2()))?;
    }
    Ok(())
}

/// Prints the flags that only one image has.
fn flags(one: &str, two: &str, out: &mut impl Write) -> io::Result<()> {
    // The list is text by the time it comes here, as `packfs diff` shows it.
    let has = |list: &str, flag: &str| list.split(", ").any(|known| known == flag);
    writeln!(out, "flags:")?;
    for (flag, name) in FLAGS {
        match (has(one, flag), has(two, flag)) {
            (true, false) => writeln!(out, "\t<{name}")?,
            (false, true) => writeln!(out, "\t>{name}")?,
            _ => {}
        }
    }
    Ok(())
}
