//! Entries as lines of a pack list, from which `packfs build` makes the same tree again.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use packfs_blocks::hex::to_hex;
use packfs_image::Image;
use packfs_image::image::{FileType, Nid, Stat};
use packfs_image::name::display;
use packfs_image::tree::{DeviceNumber, Time};

use super::ListEntry;
use crate::output::advice;

/// Writes lines.
pub(super) struct PackLines {
    /// Directory of the files' contents, as the list names it; `.` for that of the list.
    dir: PathBuf,
    /// The first name of each file that has several.
    first_names: HashMap<u64, Vec<u8>>,
}

impl PackLines {
    pub(super) fn new(dir: &Path) -> Self {
        PackLines { dir: dir.to_owned(), first_names: HashMap::new() }
    }

    /// Writes an entry with its time and its extended attributes; for a further name of a file, only the link.
    pub(super) fn entry(&mut self, out: &mut impl Write, image: &dyn Image, entry: &ListEntry<'_>) -> Result<()> {
        // Whole entries or nothing: half a line could be read as another one.
        let mut lines = Vec::new();
        self.append_entry(&mut lines, image, entry)?;
        out.write_all(&lines)?;
        Ok(())
    }

    fn append_entry(&mut self, out: &mut Vec<u8>, image: &dyn Image, entry: &ListEntry<'_>) -> Result<()> {
        let path = &entry.path[..];
        let stat = &entry.stat;
        if stat.nlink > 1 && stat.kind != FileType::Dir {
            if let Some(first) = self.first_names.get(&stat.ino) {
                out.write_all(b"link ")?;
                out.write_all(&quoted_word(path))?;
                out.write_all(b" 0 0 0 ")?;
                out.write_all(rest_of_line(path, "the path of its other name", first)?)?;
                out.write_all(b"\n")?;
                return Ok(());
            }
            self.first_names.insert(stat.ino, path.to_vec());
        }
        self.append_node(out, path, stat)?;
        let name = quoted_word(path);
        out.write_all(b"time ")?;
        out.write_all(&name)?;
        writeln!(out, " {}", format_time(stat.mtime))?;
        self.append_xattrs(out, image, path, entry.nid, stat)
    }

    fn append_node(&self, out: &mut Vec<u8>, path: &[u8], stat: &Stat) -> Result<()> {
        write!(out, "{} ", node_keyword(&stat.kind))?;
        out.write_all(&quoted_word(path))?;
        write!(out, " {:04o} {} {}", stat.mode, stat.uid, stat.gid)?;
        match &stat.kind {
            FileType::File { .. } if self.dir != Path::new(".") => {
                let file = self.dir.join(OsStr::from_bytes(path));
                out.write_all(b" ")?;
                out.write_all(rest_of_line(path, "the path of its contents", file.as_os_str().as_bytes())?)?;
            }
            FileType::Symlink { target } => {
                out.write_all(b" ")?;
                out.write_all(rest_of_line(path, "the target", target)?)?;
            }
            FileType::Char(DeviceNumber { major, minor }) => write!(out, " c {major} {minor}")?,
            FileType::Block(DeviceNumber { major, minor }) => write!(out, " b {major} {minor}")?,
            _ => {}
        }
        out.write_all(b"\n")?;
        Ok(())
    }

    fn append_xattrs(&self, out: &mut Vec<u8>, image: &dyn Image, path: &[u8], nid: Nid, stat: &Stat) -> Result<()> {
        if !stat.has_xattrs {
            return Ok(());
        }
        for (name, value) in image.xattrs(nid)? {
            if name.iter().any(|byte| *byte == b'=' || byte.is_ascii_whitespace()) {
                bail!(
                    "{}: the extended attribute `{}` has no place in a pack list",
                    display_path(path),
                    name.escape_ascii()
                );
            }
            out.write_all(b"xattr ")?;
            out.write_all(&quoted_word(path))?;
            out.write_all(b" ")?;
            out.write_all(&name)?;
            // In hexadecimal digits, as values hold any bytes and a line does not.
            writeln!(out, "=0x{}", to_hex(&value))?;
        }
        Ok(())
    }
}

/// Returns the keyword of a line for an entry of this type.
pub(crate) fn node_keyword(kind: &FileType) -> &'static str {
    match kind {
        FileType::Dir => "dir",
        FileType::File { .. } => "file",
        FileType::Symlink { .. } => "slink",
        FileType::Char(_) | FileType::Block(_) => "nod",
        FileType::Fifo => "pipe",
        FileType::Socket => "sock",
    }
}

/// Returns a path as a word of a pack list: quoted if it would not be read as it is.
fn quoted_word(path: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| !byte.is_ascii_whitespace() && !byte.is_ascii_control();
    if path.is_empty() {
        return b"/".to_vec();
    }
    if path.iter().all(plain) && path[0] != b'"' {
        return path.to_vec();
    }
    let mut quoted = vec![b'"'];
    for byte in path {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            byte if byte.is_ascii_control() => quoted.extend(format!("\\{byte:03o}").bytes()),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    quoted
}

/// Returns a text that is the rest of a line, unless a line cannot hold it.
fn rest_of_line<'t>(path: &[u8], what: &str, text: &'t [u8]) -> Result<&'t [u8]> {
    if text.contains(&b'\n') || text.ends_with(b"\r") || text.first().is_some_and(u8::is_ascii_whitespace) {
        let way_out = advice::for_user(": leave it out with --exclude").unwrap_or_default();
        bail!("{}: a pack list cannot hold {what}, `{}`{way_out}", display_path(path), text.escape_ascii());
    }
    Ok(text)
}

fn display_path(path: &[u8]) -> String {
    display(Path::new(OsStr::from_bytes(path))).to_string()
}

/// Formats a time as a pack list takes it.
fn format_time(time: Time) -> String {
    match time {
        Time { secs, nanos: 0 } => secs.to_string(),
        // The fraction counts away from zero.
        Time { secs, nanos } if secs < 0 => format!("-{}.{:09}", (secs + 1).unsigned_abs(), 1_000_000_000 - nanos),
        Time { secs, nanos } => format!("{secs}.{nanos:09}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_needed_and_times_are_read_back() {
        for (path, expected) in [
            (&b"usr/a\\x2db"[..], &b"usr/a\\x2db"[..]),
            (b"", b"/"),
            (b"a b\\", b"\"a b\\\\\""),
            (b"\"a", b"\"\\\"a\""),
            (b"a\"", b"a\""),
            (b"a\nb\xff", b"\"a\\012b\xff\""),
        ] {
            assert_eq!(quoted_word(path), expected, "{}", path.escape_ascii());
        }
        for (secs, nanos) in [(0, 0), (-1, 0), (-1, 5), (-2, 999_999_999), (1, 1), (1_700_000_000, 500_000_000)] {
            let time = Time { secs, nanos };
            assert_eq!(format_time(time).parse(), Ok(time), "{}", format_time(time));
        }
        assert_eq!(rest_of_line(b"l", "the target", b"a b\"").unwrap(), b"a b\"");
        for bad in [&b"a\nb"[..], b"a\r", b" a"] {
            assert!(rest_of_line(b"l", "the target", bad).is_err());
        }
    }
}
