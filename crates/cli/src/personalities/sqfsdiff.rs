//! sqfsdiff of squashfs-tools-ng: its command lines become those of `packfs diff`, whose differences are printed in its
//! lines.

mod superblock;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use packfs_image::AnyImage;
use packfs_image::diff::{Aspect, Difference};
use packfs_image::sink::Walk;

use super::command_line::CommandLine;
use super::options::OptionEffect::Same;
use super::options::{ForeignOption, ParsedWord, flag, parse_getopt, value};
use super::{NG_VERSION, ResultPrinter, TranslatedLine, version_text};
use crate::args::{DiffArgs, PackfsCommand};
use crate::commands::{diff, open};
use crate::output;
use crate::output::failure::UsageError;

/// Bytes of directories kept decoded.
const CACHE: u64 = 4 << 20;
/// Exit status if there are differences.
const DIFFERENT: u8 = 1;
/// Exit status if the images cannot be compared, or the differences not be printed.
pub(super) const PROBLEM: u8 = 2;

pub(super) static TABLE: &[ForeignOption] = &[
    value(&["--old", "-a"], Same("the first source")),
    value(&["--new", "-b"], Same("the second source")),
    flag(&["--no-contents", "-C"], Same("--ignore content")),
    flag(&["--no-owner", "-O"], Same("--ignore owner")),
    flag(&["--no-permissions", "-P"], Same("--ignore mode")),
    flag(&["--timestamps", "-T"], Same("no --ignore time")),
    flag(&["--inode-num", "-I"], Same("--inodes")),
    flag(&["--super", "-S"], Same("--superblocks")),
    value(&["--extract", "-e"], Same("--extract, with --force")),
    flag(&["--help", "-h"], Same("prints this table")),
    flag(&["--version", "-V"], Same("prints the version")),
];

/// Translates a command line.
pub(super) fn sqfsdiff(args: Vec<OsString>) -> Result<TranslatedLine, String> {
    // It does not look at them.
    let mut ignored = vec!["xattrs", "links"];
    let mut old = None;
    let mut new = None;
    let mut times = false;
    let mut more = CommandLine::default();
    for word in parse_getopt(TABLE, args)? {
        match word {
            ParsedWord::Option("--old", values) => old = values.into_iter().next(),
            ParsedWord::Option("--new", values) => new = values.into_iter().next(),
            ParsedWord::Option("--no-contents", _) => ignored.push("content"),
            ParsedWord::Option("--no-owner", _) => ignored.push("owner"),
            ParsedWord::Option("--no-permissions", _) => ignored.push("mode"),
            ParsedWord::Option("--timestamps", _) => times = true,
            ParsedWord::Option("--inode-num", _) => more.switch("--inodes"),
            ParsedWord::Option("--super", _) => more.switch("--superblocks"),
            ParsedWord::Option("--extract", values) => {
                // sqfsdiff writes into a directory that exists.
                more.switch("--force");
                values.into_iter().for_each(|dir| more.set("--extract", dir));
            }
            ParsedWord::Option("--version", _) => {
                return Ok(version_text("sqfsdiff (squashfs-tools-ng)", NG_VERSION));
            }
            ParsedWord::Option("--help", _) => return Ok(TranslatedLine::Help(TABLE)),
            _ => return Err("expected: sqfsdiff [OPTIONS] --old IMAGE --new IMAGE".into()),
        }
    }
    if !times {
        ignored.push("time");
    }
    let (Some(old), Some(new)) = (old, new) else {
        return Err("expected: sqfsdiff [OPTIONS] --old IMAGE --new IMAGE".into());
    };
    let mut line = CommandLine::new("diff");
    // The lines are printed here, in the order in which packfs finds the differences.
    line.switch("--quiet");
    line.set("--ignore", ignored.join(","));
    line.append(more);
    ["--".into(), old, new].into_iter().for_each(|word: OsString| line.operand(word));
    Ok(TranslatedLine::Show(line, Box::new(DifferencePrinter)))
}

/// Prints differences as sqfsdiff does.
#[derive(Debug)]
struct DifferencePrinter;

impl ResultPrinter for DifferencePrinter {
    fn print_results(&self, command: PackfsCommand) -> Result<u8> {
        let PackfsCommand::Diff(args) = command else { return Err(UsageError("another command".into()).into()) };
        output::write_result(|out| compare(&args, out))
    }
}

/// Prints the differences and returns the exit status.
fn compare(args: &DiffArgs, out: &mut impl Write) -> Result<u8> {
    let mut sides = ImagePair { first: ComparedImage::new(&args.a, args), second: ComparedImage::new(&args.b, args) };
    let mut status = 0;
    let mut last_line = Vec::new();
    let mut superblock_fields = Vec::new();
    let mut printed = Ok(());
    diff::each_difference(args, &mut |difference| {
        // These come in between, but are printed last, and only if all else is equal.
        if let Aspect::Superblock(_) = difference.aspect {
            return superblock_fields.push(difference);
        }
        status = DIFFERENT;
        // The callback cannot stop the comparison; after an error nothing more is written.
        if printed.is_ok() {
            printed = print(&difference, &mut last_line, &mut sides, out);
        }
    })?;
    printed?;
    // It compares superblocks only if nothing else differs.
    if status == 0 && !superblock_fields.is_empty() {
        status = DIFFERENT;
        superblock::print(&superblock_fields, out)?;
    }
    Ok(status)
}

/// Prints a difference, and everything below a directory that only one image has. For sqfsdiff, size and content are
/// one difference, so a line that equals `last_line` is left out.
fn print(
    difference: &Difference,
    last_line: &mut Vec<u8>,
    sides: &mut ImagePair<'_>,
    out: &mut impl Write,
) -> Result<()> {
    let line = difference_line(difference);
    // Equal lines follow each other, as differences of an entry come together.
    if line != *last_line {
        out.write_all(&line)?;
    }
    *last_line = line;
    match (&difference.aspect, &difference.second) {
        (Aspect::Entry, None) => sides.first.below(&difference.path, b"< ", out),
        (Aspect::Entry, Some(_)) => sides.second.below(&difference.path, b"> ", out),
        _ => Ok(()),
    }
}

/// Both images of a comparison.
struct ImagePair<'a> {
    first: ComparedImage<'a>,
    second: ComparedImage<'a>,
}

/// One of the two images, opened when entries of it that the other lacks are to be listed.
struct ComparedImage<'a> {
    path: &'a Path,
    args: &'a DiffArgs,
    opened: Option<AnyImage>,
}

impl<'a> ComparedImage<'a> {
    fn new(path: &'a Path, args: &'a DiffArgs) -> Self {
        ComparedImage { path, args, opened: None }
    }

    /// Prints what is in a directory that only this image has.
    fn below(&mut self, dir: &[u8], mark: &[u8], out: &mut impl Write) -> Result<()> {
        let opened = match &mut self.opened {
            Some(opened) => opened,
            // Only now, as most comparisons never need it.
            none => none.insert(open::path(self.path, CACHE, &self.args.remote)?),
        };
        let mut walk = Walk::new(opened.image(), &[PathBuf::from(OsStr::from_bytes(dir))])?;
        while let Some(visit) = walk.step()? {
            // The directory itself has its line already.
            if visit.path.len() > dir.len() {
                out.write_all(&[mark, visit.path, b"\n"].concat())?;
            }
        }
        Ok(())
    }
}

fn difference_line(difference: &Difference) -> Vec<u8> {
    let (before, after): (&[u8], &[u8]) = match difference.aspect {
        Aspect::Entry if difference.second.is_none() => (b"< ", b""),
        Aspect::Entry => (b"> ", b""),
        Aspect::Type => (b"/", b" has a different type"),
        Aspect::Mode => (b"/", b" has different permissions"),
        Aspect::Owner => (b"/", b" has different ownership"),
        Aspect::Time => (b"/", b" has a different timestamp"),
        Aspect::Target => (b"/", b" has a different link target"),
        Aspect::Device => (b"/", b" has different device number"),
        Aspect::Inode => (b"/", b" has a different inode number"),
        _ => (b"regular file /", b" differs"),
    };
    [before, &difference.path, after, b"\n"].concat()
}
