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

use super::options::Does::Same;
use super::options::{Opt, Word, flag, getopt, value};
use super::{NG_VERSION, Show, Todo, version};
use crate::args::{Command, Diff};
use crate::commands::{diff, open};
use crate::output::failure::Usage;
use crate::output::{self, say};

/// Bytes of directories kept decoded.
const CACHE: u64 = 4 << 20;
/// Exit status if there are differences.
const DIFFERENT: u8 = 1;
/// Exit status if the images cannot be compared.
pub(super) const PROBLEM: u8 = 2;

pub(super) static TABLE: &[Opt] = &[
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
pub(super) fn sqfsdiff(args: Vec<OsString>) -> Result<Todo, String> {
    // It does not look at them.
    let mut ignored = vec!["xattrs", "links"];
    let (mut old, mut new, mut times, mut more) = (None, None, false, Vec::<OsString>::new());
    for word in getopt(TABLE, args)? {
        match word {
            Word::Option("--old", values) => old = values.into_iter().next(),
            Word::Option("--new", values) => new = values.into_iter().next(),
            Word::Option("--no-contents", _) => ignored.push("content"),
            Word::Option("--no-owner", _) => ignored.push("owner"),
            Word::Option("--no-permissions", _) => ignored.push("mode"),
            Word::Option("--timestamps", _) => times = true,
            Word::Option("--inode-num", _) => more.push("--inodes".into()),
            Word::Option("--super", _) => more.push("--superblocks".into()),
            Word::Option("--extract", values) => {
                more.extend(["--force".into(), "--extract".into()]);
                more.extend(values);
            }
            Word::Option("--version", _) => {
                return Ok(version("sqfsdiff (squashfs-tools-ng)", NG_VERSION));
            }
            Word::Option("--help", _) => return Ok(Todo::Help(TABLE)),
            _ => return Err("expected: sqfsdiff [OPTIONS] --old IMAGE --new IMAGE".into()),
        }
    }
    if !times {
        ignored.push("time");
    }
    let (Some(old), Some(new)) = (old, new) else {
        return Err("expected: sqfsdiff [OPTIONS] --old IMAGE --new IMAGE".into());
    };
    let mut line = vec!["diff".into(), "--quiet".into(), format!("--ignore={}", ignored.join(",")).into()];
    line.append(&mut more);
    line.extend(["--".into(), old, new]);
    Ok(Todo::Show(line, Box::new(Lines)))
}

/// Prints differences as sqfsdiff does.
#[derive(Debug)]
struct Lines;

impl Show for Lines {
    fn show(&self, command: Command) -> Result<u8> {
        let Command::Diff(args) = command else { return Err(Usage("another command".into()).into()) };
        let mut out = output::stdout()?;
        let (mut status, mut last) = (0, Vec::new());
        let (mut first, mut second) = (Side::new(&args.a, &args), Side::new(&args.b, &args));
        let (mut below, mut fields) = (Ok(()), Vec::new());
        let compared = diff::each(&args, &mut |difference| {
            if let Aspect::Superblock(_) = difference.aspect {
                return fields.push(difference);
            }
            let line = line(&difference);
            // A size and the content are one difference to it.
            if line != last {
                status = DIFFERENT;
                let _ = out.write_all(&line);
            }
            last = line;
            if difference.aspect == Aspect::Entry && below.is_ok() {
                let (side, mark) = if difference.second.is_none() { (&mut first, b"< ") } else { (&mut second, b"> ") };
                below = side.below(&difference.path, mark, &mut out);
            }
        });
        // It compares superblocks only if nothing else differs.
        if status == 0 && !fields.is_empty() {
            status = DIFFERENT;
            superblock::print(&fields, &mut out)?;
        }
        out.flush()?;
        Ok(match compared.and(below) {
            Ok(()) => status,
            Err(error) => {
                say(format_args!("sqfsdiff: {error:#}"));
                PROBLEM
            }
        })
    }
}

/// One of the two images, opened when entries of it that the other lacks are to be listed.
struct Side<'a> {
    path: &'a Path,
    args: &'a Diff,
    opened: Option<AnyImage>,
}

impl<'a> Side<'a> {
    fn new(path: &'a Path, args: &'a Diff) -> Self {
        Side { path, args, opened: None }
    }

    /// Prints what is in a directory that only this image has.
    fn below(&mut self, dir: &[u8], mark: &[u8], out: &mut impl Write) -> Result<()> {
        let opened = match &mut self.opened {
            Some(opened) => opened,
            none => none.insert(open::path(self.path, CACHE, &self.args.remote)?),
        };
        let mut walk = Walk::new(opened.image(), &[PathBuf::from(OsStr::from_bytes(dir))])?;
        while let Some(visit) = walk.step()? {
            if visit.path.len() > dir.len() {
                out.write_all(&[mark, visit.path, b"\n"].concat())?;
            }
        }
        Ok(())
    }
}

fn line(difference: &Difference) -> Vec<u8> {
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
