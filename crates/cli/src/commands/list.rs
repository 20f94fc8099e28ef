//! `packfs list`.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use packfs_image::Image;
use packfs_image::image::{FileType, Stat};
use packfs_image::name::{encode, show};
use packfs_image::sink::{Visit, Walk};
use packfs_image::tree::Device;
use serde::Serialize;

use super::open;
use crate::args::List;
use crate::output;
use crate::output::failure::Outcome;
use crate::output::{json, units};

pub(super) fn run(args: &List) -> Result<Outcome> {
    let opened = open::image(&args.image)?;
    let image = opened.image();
    let mut out = output::stdout()?;
    let mut walk = Walk::new(image, &args.paths)?;
    let mut lines = Lines::new(args);
    lines.begin(&mut out)?;
    while let Some(visit) = walk.step()? {
        if visit.selected {
            lines.entry(&mut out, image, &visit)?;
        }
    }
    lines.end(&mut out)?;
    out.flush()?;
    Ok(Outcome::Done)
}

/// Writes entries in one of three forms.
struct Lines {
    form: Form,
    /// Control characters in names must not reach a terminal.
    escape: bool,
    first: bool,
    /// The last time written, since neighbours often share it.
    time: (i64, String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Names,
    Long,
    Json,
}

impl Lines {
    fn new(args: &List) -> Self {
        let form = match (args.json, args.long) {
            (true, _) => Form::Json,
            (_, true) => Form::Long,
            _ => Form::Names,
        };
        let epoch = units::utc(packfs_image::tree::Time::default());
        Lines { form, escape: io::stdout().is_terminal(), first: true, time: (0, epoch) }
    }

    fn begin(&self, out: &mut impl Write) -> io::Result<()> {
        match self.form {
            Form::Json => write!(out, "{{\"schema\":{},\"kind\":\"list\",\"entries\":[", json::SCHEMA),
            _ => Ok(()),
        }
    }

    fn end(&self, out: &mut impl Write) -> io::Result<()> {
        match self.form {
            Form::Json => out.write_all(b"\n]}\n"),
            _ => Ok(()),
        }
    }

    fn entry(&mut self, out: &mut impl Write, image: &dyn Image, visit: &Visit<'_>) -> Result<()> {
        if self.form == Form::Json {
            out.write_all(if self.first { b"\n" } else { b",\n" })?;
            self.first = false;
            serde_json::to_writer(out, &JsonEntry::new(image, visit)?).map_err(io::Error::from)?;
            return Ok(());
        }
        if self.form == Form::Long {
            self.attributes(out, &visit.stat)?;
        }
        self.name(out, if visit.path.is_empty() { b"." } else { visit.path })?;
        if let (Form::Long, FileType::Symlink { target }) = (self.form, &visit.stat.kind) {
            out.write_all(b" -> ")?;
            self.name(out, target)?;
        }
        out.write_all(b"\n")?;
        Ok(())
    }

    fn attributes(&mut self, out: &mut impl Write, stat: &Stat) -> io::Result<()> {
        if self.time.0 != stat.mtime.secs {
            self.time = (stat.mtime.secs, units::utc(stat.mtime));
        }
        let mode = mode(&stat.kind, stat.mode);
        write!(out, "{} {:>3} {:>5} {:>5} ", mode.as_str(), stat.nlink, stat.uid, stat.gid)?;
        match &stat.kind {
            FileType::Char(Device { major, minor }) | FileType::Block(Device { major, minor }) => {
                write!(out, "{major:>5},{minor:>5}")?;
            }
            FileType::File { size } => write!(out, "{size:>11}")?,
            FileType::Symlink { target } => write!(out, "{:>11}", target.len())?,
            _ => write!(out, "{:>11}", "-")?,
        }
        write!(out, " {} ", self.time.1)
    }

    fn name(&self, out: &mut impl Write, name: &[u8]) -> io::Result<()> {
        if self.escape { out.write_all(&show(name)) } else { out.write_all(name) }
    }
}

/// `drwxr-sr-x` and so on.
fn mode(kind: &FileType, mode: u16) -> Mode {
    let mut text = *b"?rwxrwxrwx";
    text[0] = letter(kind);
    for (bit, slot) in text[1..].iter_mut().rev().enumerate() {
        if mode & (1 << bit) == 0 {
            *slot = b'-';
        }
    }
    for (bit, at, set) in [(0o4000, 3, b's'), (0o2000, 6, b's'), (0o1000, 9, b't')] {
        if mode & bit != 0 {
            text[at] = if text[at] == b'-' { set.to_ascii_uppercase() } else { set };
        }
    }
    Mode(text)
}

struct Mode([u8; 10]);

impl Mode {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

fn letter(kind: &FileType) -> u8 {
    match kind {
        FileType::Dir => b'd',
        FileType::File { .. } => b'-',
        FileType::Symlink { .. } => b'l',
        FileType::Char(_) => b'c',
        FileType::Block(_) => b'b',
        FileType::Fifo => b'p',
        FileType::Socket => b's',
    }
}

/// See `docs/guide/json.md`.
#[derive(Serialize)]
struct JsonEntry {
    path: String,
    #[serde(rename = "type")]
    kind: &'static str,
    mode: String,
    uid: u32,
    gid: u32,
    mtime: i64,
    #[serde(skip_serializing_if = "is_zero")]
    mtime_nanos: u32,
    inode: u64,
    nlink: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<[u32; 2]>,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    xattrs: serde_json::Map<String, serde_json::Value>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl JsonEntry {
    fn new(image: &dyn Image, visit: &Visit<'_>) -> Result<Self> {
        let stat = &visit.stat;
        let (mut size, mut target, mut device) = (None, None, None);
        let kind = match &stat.kind {
            FileType::Dir => "directory",
            FileType::File { size: len } => {
                size = Some(*len);
                "file"
            }
            FileType::Symlink { target: to } => {
                target = Some(encode(to).into_owned());
                "symlink"
            }
            FileType::Char(number) | FileType::Block(number) => {
                device = Some([number.major, number.minor]);
                if matches!(stat.kind, FileType::Char(_)) { "character device" } else { "block device" }
            }
            FileType::Fifo => "fifo",
            FileType::Socket => "socket",
        };
        let mut xattrs = serde_json::Map::new();
        if stat.has_xattrs {
            for (name, value) in image.xattrs(visit.nid)? {
                xattrs.insert(encode(&name).into_owned(), encode(&value).into());
            }
        }
        Ok(JsonEntry {
            path: encode(visit.path).into_owned(),
            kind,
            mode: format!("{:04o}", stat.mode),
            uid: stat.uid,
            gid: stat.gid,
            mtime: stat.mtime.secs,
            mtime_nanos: stat.mtime.nanos,
            inode: stat.ino,
            nlink: stat.nlink,
            size,
            target,
            device,
            xattrs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_look_as_ls_shows_them() {
        let cases = [
            (FileType::Dir, 0o755, "drwxr-xr-x"),
            (FileType::File { size: 0 }, 0, "----------"),
            (FileType::File { size: 0 }, 0o4755, "-rwsr-xr-x"),
            (FileType::File { size: 0 }, 0o6644, "-rwSr-Sr--"),
            (FileType::Dir, 0o1777, "drwxrwxrwt"),
            (FileType::Dir, 0o1776, "drwxrwxrwT"),
            (FileType::Fifo, 0o421, "pr---w---x"),
        ];
        for (kind, bits, text) in cases {
            assert_eq!(mode(&kind, bits).as_str(), text);
        }
    }
}
