//! Writes an image as a pseudo file of mksquashfs: a definition for each entry, then the data of all files.
//!
//! `mksquashfs -pf` and a pack list of packfs (`@FILE`) make the same tree of it. The definitions need only attributes, so
//! the image is walked twice: once for them, once for the data.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use packfs_blocks::io::WriteTurns;
use packfs_blocks::pipeline::{self, Pool};
use packfs_blocks::progress::{Phase, Progress};

use super::Walk;
use super::batch::{ArchiveBatcher, ArchiveOutput, ArchiveTarget, WAITING};
use super::names::NameCounts;
use super::tar::{TarOptions, TarSummary, extents, placed};
use crate::image::{FileType, Image, Nid, Stat, mode_without_acl};
use crate::source::packlist::DATA_MARK;
use crate::tree::{DeviceNumber, path_of};
use crate::{Error, Part, Result, Warnings};

/// Writes `image`, or the part selected by [`TarOptions::select`], to `out`. Parent directories of selected entries and
/// the root are written, too. Fractions of seconds are left out.
///
/// The bytes do not depend on the number of threads.
///
/// # Errors
/// [`Error::Limit`] for a name, a target, a time or an extended attribute that a pseudo file cannot hold, and
/// [`Error::InvalidOption`] if [`TarOptions::part`] is not the whole.
pub fn write_pseudo(
    image: &dyn Image,
    out: &mut dyn Write,
    options: &TarOptions,
    progress: &Progress,
) -> Result<TarSummary> {
    write(image, ArchiveTarget::Stream(out), options, progress)
}

/// As [`write_pseudo`], to a file, which the threads write themselves. Does not commit it.
///
/// # Errors
/// As [`write_pseudo`].
pub fn write_pseudo_to(
    image: &dyn Image,
    out: &packfs_blocks::Output,
    options: &TarOptions,
    progress: &Progress,
) -> Result<TarSummary> {
    write(image, ArchiveTarget::File(&WriteTurns::new(out, progress, WAITING)), options, progress)
}

fn write<'env>(
    image: &'env dyn Image,
    to: ArchiveTarget<'env>,
    options: &'env TarOptions,
    progress: &'env Progress,
) -> Result<TarSummary> {
    if options.part != Part::WHOLE {
        return Err(Error::option("the part", "of a pseudo file", "only the whole can be written"));
    }
    progress.enter(Phase::Read);
    pipeline::scope(
        options.threads,
        || (),
        |pool: &Pool<'env, ()>| {
            let output = ArchiveOutput { to, name: &options.name, progress };
            let mut batches = ArchiveBatcher::new(image, pool, output, options.memory);
            let mut lines = PseudoFormatter { image, options, names: HashMap::new(), data: 0, text: Vec::new() };
            let mut entries = 0;
            each(image, options, progress, |path, nid, stat| {
                entries += 1;
                lines.entry(path, nid, stat)?;
                batches.add_bytes(&lines.text)
            })?;
            batches.add_bytes(b"#\n")?;
            batches.add_bytes(DATA_MARK)?;
            batches.add_bytes(b"#\n")?;
            let mut written = HashSet::new();
            each(image, options, progress, |path, nid, stat| {
                let FileType::File { size } = stat.kind else { return Ok(()) };
                // The first walk gave data to the first name alone. Both have to agree, or all later offsets are wrong.
                if options.hard_links && stat.nlink > 1 && !written.insert(nid) {
                    return Ok(());
                }
                super::tar::announce(image, nid, size);
                for extent in extents(image, nid, size)? {
                    batches.add_data(nid, path, extent.offset, extent.len)?;
                }
                Ok(())
            })?;
            Ok(TarSummary { entries, bytes: batches.finish()?, warnings: Warnings::new(options.strict) })
        },
    )
}

/// Calls `take` with the path in the pseudo file, the inode and the attributes of each entry.
fn each(
    image: &dyn Image,
    options: &TarOptions,
    progress: &Progress,
    mut take: impl FnMut(&[u8], Nid, &Stat) -> Result<()>,
) -> Result<()> {
    let mut walk = Walk::over(image, &options.select)?;
    let mut names = NameCounts::default();
    let mut is_first = true;
    while let Some(visit) = walk.step()? {
        Error::unless_cancelled(progress)?;
        names.add(visit.path, &visit.stat)?;
        let Some(visit) = visit.strip(options.strip) else { continue };
        // Several directories can become the root; its attributes are those of the first.
        if visit.depth > 0 || options.prefix.is_some() || std::mem::take(&mut is_first) {
            take(&placed(options.prefix.as_deref(), visit.path), visit.nid, &visit.stat)?;
        }
    }
    Ok(())
}

/// Formats definitions.
struct PseudoFormatter<'i> {
    image: &'i dyn Image,
    options: &'i TarOptions,
    /// The first name of each inode that has several.
    names: HashMap<Nid, Box<[u8]>>,
    /// Length of the data of all files so far.
    data: u64,
    /// The lines of the last entry.
    text: Vec<u8>,
}

impl PseudoFormatter<'_> {
    fn entry(&mut self, path: &[u8], nid: Nid, stat: &Stat) -> Result<()> {
        self.text.clear();
        self.path(path)?;
        if self.options.hard_links && stat.nlink > 1 && stat.kind != FileType::Dir {
            if let Some(first) = self.names.get(&nid) {
                self.text.extend_from_slice(b" L ");
                escape(&mut self.text, first);
                self.text.push(b'\n');
                return Ok(());
            }
            self.names.insert(nid, path.into());
        }
        self.node(path, nid, stat)?;
        self.text.push(b'\n');
        match stat.has_xattrs && self.options.xattrs {
            true => self.xattrs(path, nid),
            false => Ok(()),
        }
    }

    fn path(&mut self, path: &[u8]) -> Result<()> {
        if path.contains(&b'\n') {
            return Err(cannot(path, "a name with a line feed"));
        }
        if path.is_empty() {
            self.text.push(b'/');
        }
        escape(&mut self.text, path);
        Ok(())
    }

    fn node(&mut self, path: &[u8], nid: Nid, stat: &Stat) -> Result<()> {
        let time = u32::try_from(stat.mtime.secs);
        let time = time.map_err(|_| cannot(path, &format!("the time {}", stat.mtime.secs)))?;
        let letter = match stat.kind {
            FileType::Dir => 'D',
            FileType::File { .. } => 'R',
            FileType::Symlink { .. } => 'S',
            FileType::Char(_) => 'C',
            FileType::Block(_) => 'B',
            FileType::Fifo | FileType::Socket => 'I',
        };
        let mode = if self.options.xattrs { stat.mode } else { mode_without_acl(self.image, nid, stat)? };
        self.add(format_args!(" {letter} {time} {mode:o} {} {}", stat.uid, stat.gid));
        match &stat.kind {
            FileType::Dir => {}
            FileType::File { size } => {
                let sparse = extents(self.image, nid, *size)?.iter().any(|extent| extent.hole);
                let offset = self.data;
                self.add(format_args!(" {size} {offset} {}", u8::from(sparse)));
                self.data += size;
            }
            FileType::Symlink { target } => {
                // A target goes to the end of the line: a backslash there would join the next line to it, and
                // readers strip a carriage return and blanks in front.
                let is_line = !target.contains(&b'\n') && !target.ends_with(b"\\") && !target.ends_with(b"\r");
                if !is_line || target.first().is_some_and(u8::is_ascii_whitespace) {
                    return Err(cannot(path, &format!("the target `{}`", target.escape_ascii())));
                }
                self.text.push(b' ');
                self.text.extend_from_slice(target);
            }
            FileType::Char(DeviceNumber { major, minor }) | FileType::Block(DeviceNumber { major, minor }) => {
                self.add(format_args!(" {major} {minor}"));
            }
            FileType::Fifo => self.text.extend_from_slice(b" f"),
            FileType::Socket => self.text.extend_from_slice(b" s"),
        }
        Ok(())
    }

    fn xattrs(&mut self, path: &[u8], nid: Nid) -> Result<()> {
        for (name, value) in self.image.xattrs(nid)? {
            if name.iter().any(|byte| matches!(byte, b'=' | b'\n')) {
                return Err(cannot(path, &format!("the extended attribute `{}`", name.escape_ascii())));
            }
            self.path(path)?;
            self.text.extend_from_slice(b" x ");
            self.text.extend_from_slice(&name);
            self.text.push(b'=');
            self.value(&value);
            self.text.push(b'\n');
        }
        Ok(())
    }

    /// Adds a value as it is if it is text that is not taken for an encoded one, and with octal escapes otherwise.
    fn value(&mut self, value: &[u8]) {
        let is_text = value.iter().all(|byte| matches!(byte, b' '..=b'~'));
        // mksquashfs decodes what begins with 0x (hexadecimal), 0s (base64) or 0t (text with escapes).
        let ambiguous = value.len() > 1 && value[0] == b'0' && b"xXsStT".contains(&value[1]);
        if is_text && !ambiguous && !value.ends_with(b"\\") {
            return self.text.extend_from_slice(value);
        }
        self.text.extend_from_slice(b"0t");
        for byte in value {
            match byte {
                b'\\' => self.text.extend_from_slice(b"\\134"),
                b' '..=b'~' => self.text.push(*byte),
                byte => self.add(format_args!("\\{byte:03o}")),
            }
        }
    }

    fn add(&mut self, text: std::fmt::Arguments<'_>) {
        // A vector takes everything.
        let _ = self.text.write_fmt(text);
    }
}

/// Adds a path with a backslash before each character that would end or change it.
fn escape(out: &mut Vec<u8>, path: &[u8]) {
    for (at, byte) in path.iter().enumerate() {
        let is_blank = byte.is_ascii_whitespace() || *byte == 0x0b;
        // A line that begins with # is a comment.
        if is_blank || matches!(byte, b'"' | b'\\') || (at == 0 && *byte == b'#') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
}

fn cannot(path: &[u8], what: &str) -> Error {
    Error::limit(path_of(path), format!("a pseudo file cannot hold {what}: leave the entry out"))
}

#[cfg(test)]
mod tests;
