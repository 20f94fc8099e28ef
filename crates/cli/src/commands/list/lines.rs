//! Entries as lines of text: names, names with sizes, or with all attributes; optionally as a tree.

use std::io::{self, Write};

use packfs_image::image::{FileType, Stat};
use packfs_image::tree::{DeviceNumber, Time};

use super::ListEntry;
use super::mode::mode_text;
use super::owners::OwnerNames;
use crate::args::ListArgs;
use crate::output::{units, write_name};

/// Writes lines.
pub(super) struct TextLines {
    long: bool,
    /// Names of owners, if they are shown.
    owners: Option<OwnerNames>,
    sizes: bool,
    human: bool,
    /// The last formatted time, since neighbours often share it.
    time: (i64, String),
}

impl TextLines {
    pub(super) fn new(args: &ListArgs) -> Self {
        TextLines {
            long: args.long,
            owners: args.names.then(OwnerNames::default),
            sizes: args.du || args.human,
            human: args.human,
            time: (0, units::utc(Time::default())),
        }
    }

    /// Writes one entry: the whole path, or in a tree the last component after its branch.
    pub(super) fn entry(&mut self, out: &mut impl Write, entry: &ListEntry<'_>) -> io::Result<()> {
        if self.long {
            self.write_attributes(out, &entry.stat, entry.total)?;
        } else if self.sizes {
            self.write_size(out, &entry.stat, entry.total)?;
            out.write_all(b" ")?;
        }
        let path = if entry.path.is_empty() { b"." } else { &entry.path[..] };
        match &entry.branch {
            Some(branch) => {
                out.write_all(branch.as_bytes())?;
                write_name(out, path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))?;
            }
            None => write_name(out, path)?,
        }
        if let (true, FileType::Symlink { target }) = (self.long, &entry.stat.kind) {
            out.write_all(b" -> ")?;
            write_name(out, target)?;
        }
        out.write_all(b"\n")
    }

    fn write_attributes(&mut self, out: &mut impl Write, stat: &Stat, total: Option<u64>) -> io::Result<()> {
        if self.time.0 != stat.mtime.secs {
            self.time = (stat.mtime.secs, units::utc(stat.mtime));
        }
        let mode = mode_text(&stat.kind, stat.mode);
        write!(out, "{} {:>3} ", mode.as_str(), stat.nlink)?;
        match &mut self.owners {
            None => write!(out, "{:>5} {:>5} ", stat.uid, stat.gid)?,
            Some(names) => {
                write!(out, "{:<8} ", names.user(stat.uid))?;
                write!(out, "{:<8} ", names.group(stat.gid))?;
            }
        }
        self.write_size(out, stat, total)?;
        write!(out, " {} ", self.time.1)
    }

    /// Formats a size in eleven columns.
    fn write_size(&self, out: &mut impl Write, stat: &Stat, total: Option<u64>) -> io::Result<()> {
        let number = match &stat.kind {
            FileType::Char(DeviceNumber { major, minor }) | FileType::Block(DeviceNumber { major, minor }) => {
                return write!(out, "{major:>5},{minor:>5}");
            }
            FileType::File { size } => Some(*size),
            FileType::Symlink { target } => Some(target.len() as u64),
            _ => total,
        };
        match number {
            None => write!(out, "{:>11}", "-"),
            Some(n) if self.human => write!(out, "{:>11}", units::bytes(n)),
            Some(n) => write!(out, "{n:>11}"),
        }
    }
}
