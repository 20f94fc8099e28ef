//! Facts of an image in the lines of rdsquashfs.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

use anyhow::Result;
use jiff::tz::TimeZone;
use packfs_blocks::hex::to_hex;
use packfs_image::image::{FileType, Image, Nid, Stat};
use packfs_image::sink::{Selection, Walk};
use packfs_image::squashfs::{BodyFacts, InodeFacts, SquashfsReader};
use packfs_image::tree::DeviceNumber;

use crate::commands::list::mode::mode_text;
use crate::commands::list::packlist::node_keyword;
use crate::output;
use crate::personalities::unsquashfs::rows::format_time;

/// Names of the types of inodes, from 1 on; those of extended inodes follow in the same order.
const TYPES: [&str; 7] =
    ["directory", "file", "symbolic link", "block device", "character device", "named pipe", "socket"];
/// Number of a fragment, or of a set of attributes, where there is none.
const NONE: u32 = u32::MAX;

/// Prints the entries of a directory, or one entry of another type.
pub(super) fn list(image: &SquashfsReader, nid: Nid, name: &[u8], out: &mut impl Write) -> Result<()> {
    let stat = image.stat(nid)?;
    let rows = match stat.kind {
        FileType::Dir => {
            let entries = image.read_dir(nid)?;
            entries
                .into_iter()
                .map(|entry| Ok((image.stat(entry.nid)?, entry.nid, entry.name)))
                .collect::<Result<_>>()?
        }
        _ => vec![(stat, nid, name.into())],
    };
    // Before anything is printed, as columns are as wide as their longest entry.
    let sizes = rows.iter().map(|(stat, nid, _)| size(image, *nid, stat)).collect::<Result<Vec<_>>>()?;
    let uid_width = rows.iter().map(|(stat, ..)| id_width(stat.uid)).max().unwrap_or_default();
    let gid_width = rows.iter().map(|(stat, ..)| id_width(stat.gid)).max().unwrap_or_default();
    let width = sizes.iter().map(String::len).max().unwrap_or_default();
    for ((stat, _, name), size) in rows.iter().zip(&sizes) {
        let shown = mode_text(&stat.kind, stat.mode);
        write!(out, "{} {:>uid_width$}/{:<gid_width$} {size:>width$} ", shown.as_str(), stat.uid, stat.gid)?;
        output::write_name(out, name)?;
        if let FileType::Symlink { target } = &stat.kind {
            out.write_all(b" -> ")?;
            output::write_name(out, target)?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Returns the width of the column that rdsquashfs makes for an owner: one less than its digits for 10, 100, and so on.
fn id_width(mut id: u32) -> usize {
    let mut width = 1;
    while id > 10 {
        id /= 10;
        width += 1;
    }
    width
}

/// Formats the size of an entry, or its device number.
fn size(image: &SquashfsReader, nid: Nid, stat: &Stat) -> Result<String> {
    Ok(match &stat.kind {
        FileType::Char(DeviceNumber { major, minor }) | FileType::Block(DeviceNumber { major, minor }) => {
            format!("{major}:{minor}")
        }
        FileType::File { size } => rounded(*size),
        FileType::Symlink { target } => rounded(target.len() as u64),
        FileType::Dir => rounded(image.listing_size(nid)?.into()),
        FileType::Fifo | FileType::Socket => "0".into(),
    })
}

/// Formats a size in whole units of 1024, rounded by the last division.
fn rounded(mut size: u64) -> String {
    let mut suffix = "";
    let mut rest = 0;
    let mut units = ["k", "M", "G", "T", "P", "E"].iter();
    // rdsquashfs compares with `>`, so 1024 itself stays as it is.
    while size > 1024 {
        rest = size % 1024;
        size /= 1024;
        suffix = units.next().copied().unwrap_or_default();
    }
    format!("{}{suffix}", size + u64::from(rest >= 512))
}

/// Prints the extended attributes of an inode.
pub(super) fn xattrs(image: &SquashfsReader, nid: Nid, out: &mut impl Write) -> Result<()> {
    for (name, value) in image.xattrs(nid)? {
        // A name that could break the line is printed in hexadecimal, without an `=`.
        if printable(&name) {
            out.write_all(&name)?;
            out.write_all(b"=")?;
        } else {
            out.write_all(hex(&name).as_bytes())?;
        }
        match printable(&value) {
            // A NUL ends a text.
            true => out.write_all(value.split(|byte| *byte == 0).next().unwrap_or_default())?,
            false => out.write_all(hex(&value).as_bytes())?,
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Returns true for text, which may have line breaks and NUL.
fn printable(value: &[u8]) -> bool {
    let control = |letter: char| (letter < ' ' && !matches!(letter, '\0' | '\x07'..='\r')) || letter == '\x7f';
    std::str::from_utf8(value).is_ok_and(|text| !text.chars().any(control))
}

fn hex(value: &[u8]) -> String {
    format!("0x{}", to_hex(value).to_uppercase())
}

/// Prints all facts of an inode.
pub(super) fn stat(image: &SquashfsReader, nid: Nid, name: &[u8], out: &mut impl Write) -> Result<()> {
    let stat = image.stat(nid)?;
    let facts = image.facts(nid)?;
    let kind = usize::from(facts.kind);
    let name_of = |kind: usize| TYPES.get(kind.wrapping_sub(1)).copied().unwrap_or("UNKNOWN");
    out.write_all(b"Name: ")?;
    output::write_name(out, name)?;
    match facts.extended() {
        true => writeln!(out, "\nInode type: extended {}", name_of(kind - TYPES.len()))?,
        false => writeln!(out, "\nInode type: {}", name_of(kind))?,
    }
    writeln!(out, "Inode number: {}", stat.ino)?;
    writeln!(out, "Access: 0{:o}", stat.mode)?;
    writeln!(out, "UID: {} (index = {})", stat.uid, facts.uid_index)?;
    writeln!(out, "GID: {} (index = {})", stat.gid, facts.gid_index)?;
    let time = format_time(stat.mtime.secs, &TimeZone::UTC, "%a, %d %b %Y %H:%M:%S")?;
    writeln!(out, "Last modified: {time} +0000 ({})", stat.mtime.secs)?;
    // Basic files have no count of links.
    if facts.extended() || !matches!(stat.kind, FileType::File { .. }) {
        writeln!(out, "Hard link count: {}", stat.nlink)?;
    }
    if facts.extended() {
        writeln!(out, "Xattr index: 0x{:X}", facts.xattr_set.unwrap_or(NONE))?;
    }
    write_body(image, nid, &stat.kind, &facts, out)
}

/// Prints the facts that depend on the type of an inode.
fn write_body(
    image: &SquashfsReader,
    nid: Nid,
    kind: &FileType,
    facts: &InodeFacts,
    out: &mut impl Write,
) -> Result<()> {
    match (kind, facts.body) {
        (FileType::Symlink { target }, _) => {
            out.write_all(b"Link target: ")?;
            output::write_name(out, target)?;
            out.write_all(b"\n")?;
        }
        (FileType::Char(device) | FileType::Block(device), _) => {
            let DeviceNumber { major, minor } = device;
            // As `new_encode_dev` of Linux has it, in 32 bits.
            let number = (major & 0xfff) << 8 | minor & 0xff | (minor & !0xff) << 12;
            writeln!(out, "Device number: {major}:{minor} ({number})")?;
        }
        (FileType::File { size }, BodyFacts::File { start, sparse, fragment }) => {
            let (index, offset) = fragment.unwrap_or((NONE, 0));
            writeln!(out, "Fragment index: 0x{index:X}\nFragment offset: {offset}\nFile size: {size}")?;
            if facts.extended() {
                writeln!(out, "Sparse: {sparse}")?;
            }
            writeln!(out, "Blocks start: {start}")?;
            blocks(image, nid, out)?;
        }
        (_, BodyFacts::Dir { start, offset, size, parent, index }) => {
            writeln!(out, "Start block: {start}\nOffset: {offset}\nListing size: {size}\nParent inode: {parent}")?;
            if facts.extended() {
                writeln!(out, "Directory index entries: {index}")?;
                for run in image.dir_index(nid)? {
                    out.write_all(b"\t'")?;
                    output::write_name(out, &run.name)?;
                    writeln!(out, "' -> block {}, header offset {}", run.block, run.offset)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Prints the stored length of each block of a file, without its tail.
fn blocks(image: &SquashfsReader, nid: Nid, out: &mut impl Write) -> Result<()> {
    // The count comes first, so the blocks are visited twice: a list of them could be long.
    let mut count = 0;
    each_block(image, nid, &mut |_, _| {
        count += 1;
        Ok(())
    })?;
    writeln!(out, "Block count: {count}")?;
    let mut number = 0;
    each_block(image, nid, &mut |len, compressed| {
        let form = if compressed { "compressed" } else { "uncompressed" };
        writeln!(out, "\tBlock #{number} size: {len} ({form})")?;
        number += 1;
        Ok(())
    })
}

/// Calls `block` with the stored length of each block and whether it is compressed. A hole has no bytes and is no
/// uncompressed block.
fn each_block(image: &SquashfsReader, nid: Nid, block: &mut dyn FnMut(u64, bool) -> io::Result<()>) -> Result<()> {
    let mut done = Ok(());
    let block_len = u64::from(image.superblock().block_size);
    image.placement(nid, &mut |placed| {
        if placed.fragment.is_none() {
            done = match placed.stored {
                Some(stored) => block(stored.len, stored.codec.is_some()),
                // A hole of several blocks is one piece.
                None => (0..placed.len.div_ceil(block_len)).try_for_each(|_| block(0, true)),
            };
        }
        if done.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(done?)
}

/// Prints what is selected as a list for gensquashfs.
pub(super) fn describe(
    image: &SquashfsReader,
    select: &Selection,
    root: Option<&OsStr>,
    out: &mut impl Write,
) -> Result<()> {
    let mut walk = Walk::over(image, select)?;
    while let Some(visit) = walk.step()? {
        // The root needs no line.
        if visit.depth == 0 {
            continue;
        }
        let stat = &visit.stat;
        write!(out, "{} ", node_keyword(&stat.kind))?;
        out.write_all(&quoted(visit.path))?;
        write!(out, " 0{:o} {} {}", stat.mode, stat.uid, stat.gid)?;
        match (&stat.kind, root) {
            (FileType::Symlink { target }, _) => {
                out.write_all(b" ")?;
                out.write_all(target)?;
            }
            (FileType::Char(DeviceNumber { major, minor }), _) => write!(out, " c {major} {minor}")?,
            (FileType::Block(DeviceNumber { major, minor }), _) => write!(out, " b {major} {minor}")?,
            // Without `-p` gensquashfs finds files by their own paths.
            (FileType::File { .. }, Some(root)) => {
                out.write_all(b" ")?;
                out.write_all(root.as_bytes())?;
                out.write_all(b"/")?;
                out.write_all(visit.path)?;
            }
            _ => {}
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Puts a path with spaces or quotes in quotes.
fn quoted(path: &[u8]) -> Cow<'_, [u8]> {
    // Anything else stands for itself in its lists.
    if !path.iter().any(|byte| matches!(byte, b' ' | b'"')) {
        return path.into();
    }
    let mut word = vec![b'"'];
    for byte in path {
        if *byte == b'"' {
            word.push(b'\\');
        }
        word.push(*byte);
    }
    word.push(b'"');
    word.into()
}
