//! Entries as lines of text: names, names with sizes, or with all attributes; a tree if asked for.

use std::fmt::Write as _;
use std::io::{self, Write};

use packfs_image::image::{FileType, Stat};
use packfs_image::tree::{Device, Time};

use super::Entry;
use super::mode::mode;
use crate::args::List;
use crate::output::{name, units};

/// Writes lines.
pub(super) struct Lines {
    long: bool,
    sizes: bool,
    human: bool,
    size: String,
    /// The last time written, since neighbours often share it.
    time: (i64, String),
}

impl Lines {
    pub(super) fn new(args: &List) -> Self {
        Lines {
            long: args.long,
            sizes: args.du || args.human,
            human: args.human,
            size: String::new(),
            time: (0, units::utc(Time::default())),
        }
    }

    /// Writes one entry: the whole path, or behind its branch of the tree the last component.
    pub(super) fn entry(&mut self, out: &mut impl Write, entry: &Entry<'_>) -> io::Result<()> {
        if self.long || self.sizes {
            self.size(&entry.stat, entry.total);
        }
        if self.long {
            self.attributes(out, &entry.stat)?;
        } else if self.sizes {
            write!(out, "{:>11} ", self.size)?;
        }
        let path = if entry.path.is_empty() { b"." } else { &entry.path[..] };
        match &entry.branch {
            Some(branch) => {
                out.write_all(branch.as_bytes())?;
                name(out, path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))?;
            }
            None => name(out, path)?,
        }
        if let (true, FileType::Symlink { target }) = (self.long, &entry.stat.kind) {
            out.write_all(b" -> ")?;
            name(out, target)?;
        }
        out.write_all(b"\n")
    }

    fn attributes(&mut self, out: &mut impl Write, stat: &Stat) -> io::Result<()> {
        if self.time.0 != stat.mtime.secs {
            self.time = (stat.mtime.secs, units::utc(stat.mtime));
        }
        let mode = mode(&stat.kind, stat.mode);
        let (mode, size, time) = (mode.as_str(), &self.size, &self.time.1);
        write!(out, "{mode} {:>3} {:>5} {:>5} {size:>11} {time} ", stat.nlink, stat.uid, stat.gid)
    }

    /// Sets the text of the size; a string that is used again, as listings are long.
    fn size(&mut self, stat: &Stat, total: Option<u64>) {
        self.size.clear();
        let number = match &stat.kind {
            FileType::Char(Device { major, minor }) | FileType::Block(Device { major, minor }) => {
                let _ = write!(self.size, "{major:>5},{minor:>5}");
                return;
            }
            FileType::File { size } => Some(*size),
            FileType::Symlink { target } => Some(target.len() as u64),
            _ => total,
        };
        // Writing to a string does not fail.
        let _ = match number {
            None => self.size.write_str("-"),
            Some(n) if self.human => self.size.write_str(&units::bytes(n)),
            Some(n) => write!(self.size, "{n}"),
        };
    }
}
