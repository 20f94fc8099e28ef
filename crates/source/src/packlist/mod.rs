//! A pack list as a source: a text that describes entries, so that device nodes, owners and modes
//! need neither a prepared directory nor root. docs/guide/packlist.md describes the format.
//!
//! Two kinds of lines are understood, recognised by their first word: those of gensquashfs's pack
//! file begin with a keyword, those of mksquashfs's pseudo files with a path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::dir::{LinkPolicy, Options};
use super::lex::parse_number;
use super::{Source, Store};
use crate::tree::{DeviceNumber, InodeAttributes, Time};
use crate::{Error, Result, Tree};

mod apply;
mod data;
mod include;
mod keyword;
mod pseudo;
#[cfg(test)]
mod tests;

use data::DataBytes;
pub use data::{DATA_MARK, read_lines};
use include::DirInclude;

/// A parsed line.
#[derive(Debug)]
enum ListItem {
    Node {
        path: Vec<u8>,
        attrs: LineAttrs,
        node: NodeType,
    },
    /// Another name for an entry of the tree.
    Link {
        path: Vec<u8>,
        target: Vec<u8>,
    },
    /// A file of the running system with its own attributes.
    HostLink {
        path: Vec<u8>,
        target: Vec<u8>,
        links: LinkPolicy,
    },
    /// A directory with all attributes of one of the running system.
    DirLike {
        path: Vec<u8>,
        from: Vec<u8>,
    },
    Modify {
        path: Vec<u8>,
        attrs: LineAttrs,
    },
    Xattr {
        path: Vec<u8>,
        name: Vec<u8>,
        value: Vec<u8>,
    },
    Include {
        path: Vec<u8>,
        attrs: LineAttrs,
        include: DirInclude,
    },
}

/// Type of an entry.
#[derive(Debug)]
enum NodeType {
    Dir,
    File(ContentLocation),
    Symlink(Vec<u8>),
    Char(DeviceNumber),
    Block(DeviceNumber),
    Fifo,
    Socket,
}

/// Location of a file's bytes.
#[derive(Debug)]
enum ContentLocation {
    /// The file of this name, relative to the list.
    At(Vec<u8>),
    /// The file at the entry's own path, relative to the list.
    AsInTree,
    /// The list itself.
    Inline(Vec<u8>),
    /// Bytes of the data that follows the lines, or of the file of this name.
    Within { offset: u64, len: u64, of: Option<Vec<u8>> },
}

/// Attributes given by a line.
#[derive(Debug, Clone, Copy, Default)]
struct LineAttrs {
    mode: Option<u16>,
    uid: Option<u32>,
    gid: Option<u32>,
    mtime: Option<Time>,
}

impl LineAttrs {
    /// Returns these attributes, with those of `meta` where none are given.
    fn over(&self, meta: InodeAttributes) -> InodeAttributes {
        InodeAttributes {
            mode: self.mode.unwrap_or(meta.mode),
            uid: self.uid.unwrap_or(meta.uid),
            gid: self.gid.unwrap_or(meta.gid),
            mtime: self.mtime.unwrap_or(meta.mtime),
            xattrs: meta.xattrs,
        }
    }
}

fn parse_mode(word: &[u8]) -> std::result::Result<u16, String> {
    let mode = parse_number(word, "the mode", 8)?;
    match mode {
        0..=0o7777 => Ok(mode),
        _ => Err(format!("the mode must be an octal number up to 07777, not `{}`", word.escape_ascii())),
    }
}

/// Parses seconds since 1970, possibly negative, possibly with a fraction.
fn parse_time(word: &[u8]) -> std::result::Result<Time, String> {
    let time = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    time.ok_or_else(|| format!("the time must be in seconds since 1970, not `{}`", word.escape_ascii()))
}

/// A pack list.
#[derive(Debug)]
pub struct PackList {
    path: PathBuf,
    text: Option<Vec<u8>>,
    options: Options,
    time: Time,
    left_out: Vec<Error>,
}

impl PackList {
    /// Makes a source of the pack list in the file `path`. Directories it names are scanned with
    /// `options`; entries without a time of their own get `time`.
    pub fn new(path: impl Into<PathBuf>, options: Options, time: Time) -> Self {
        PackList { path: path.into(), text: None, options, time, left_out: Vec::new() }
    }

    /// Makes a source of a pack list with this text, as if it were in the file `path`: file names
    /// in it are relative to the directory of `path`.
    pub fn from_bytes(path: impl Into<PathBuf>, text: Vec<u8>, options: Options, time: Time) -> Self {
        PackList { text: Some(text), ..PackList::new(path, options, time) }
    }

    /// As [`Source::scan`], with the given text of the list. File names in it are relative to the
    /// directory of the path this was made with.
    fn scan_text(&mut self, tree: &mut Tree, text: &[u8], data: Option<Arc<DataBytes>>) -> Result<()> {
        let dir = self.path.parent().unwrap_or(Path::new("")).to_owned();
        // A list with data comes from a program that writes no keywords, but perhaps a path that equals one.
        let keywords = data.is_none();
        let mut apply = apply::ListApplier::new(tree, &self.options, self.time, dir, data)?;
        for (number, line) in (1u32..).zip(text.split(|byte| *byte == b'\n')) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let item = parse(line, keywords).map_err(|why| self.at(number, why))?;
            if let Some(item) = item {
                apply.item(item, number).map_err(|error| self.locate(number, error))?;
            }
        }
        self.left_out = apply.finish().map_err(|(number, error)| self.locate(number, error))?;
        Ok(())
    }

    fn at(&self, number: u32, why: impl std::fmt::Display) -> Error {
        Error::Syntax { path: self.path.clone(), line: number, why: why.to_string() }
    }

    /// Adds the line number to an error that the list's author can fix.
    fn locate(&self, number: u32, error: Error) -> Error {
        match error {
            Error::Limit { .. }
            | Error::Io { .. }
            | Error::NotFound { .. }
            | Error::WrongType { .. }
            | Error::BadName { .. }
            | Error::BadPattern { .. }
            | Error::InvalidOption { .. }
            | Error::TooMany { .. }
            | Error::Duplicate { .. } => self.at(number, error),
            error => error,
        }
    }
}

impl Source for PackList {
    fn scan(&mut self, tree: &mut Tree, store: &mut dyn Store) -> Result<()> {
        self.options.leave_out.extend(store.own_files());
        let (text, data) = match &self.text {
            Some(text) => (text.clone(), None),
            None => data::read(&self.path)?,
        };
        self.scan_text(tree, &text, data)
    }

    fn left_out(&self) -> &[Error] {
        &self.left_out
    }
}

/// Parses a line; returns `None` if it is empty.
fn parse(line: &[u8], keywords: bool) -> std::result::Result<Option<ListItem>, String> {
    let text = line.trim_ascii_start();
    if text.is_empty() || text[0] == b'#' {
        return Ok(None);
    }
    let keyword = if keywords { keyword::parse(text) } else { None };
    keyword.unwrap_or_else(|| pseudo::parse(text)).map(Some)
}

/// Returns a file name of the list as a path of the running system.
fn host_path(dir: &Path, name: &[u8]) -> PathBuf {
    dir.join(packfs_blocks::system::os_str(name))
}

/// Line on which each path was described, to find duplicates and entries below others.
type DescribedLines = BTreeMap<Vec<u8>, u32>;
