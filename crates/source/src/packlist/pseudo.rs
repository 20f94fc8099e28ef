//! Lines that begin with a path: the pseudo file definitions of mksquashfs.

use super::{Attrs, File, Item, Node, parse_time};
use crate::dir::Links;
use crate::lex::{Line, Quoting};
use crate::tree::Device;
use crate::xattr_value;

/// Parses a line.
pub(super) fn parse(line: &[u8]) -> Result<Item, String> {
    let mut line = Line::new(line);
    let path = line.word(Quoting::Pseudo)?;
    let kind = match line.bare() {
        Some([kind]) if b"dmfbcsixhlLDMFBCSIR".contains(kind) => *kind,
        Some(other) => return Err(format!("unknown type `{}`; expected {EXPECTED}", other.escape_ascii())),
        None => return Err(format!("the type is missing; expected {EXPECTED}")),
    };
    let grammar = grammar(kind);
    definition(path, kind, &mut line).map_err(|why| format!("{why}; expected: PATH {} {grammar}", char::from(kind)))
}

const EXPECTED: &str = "a keyword (dir, file, content, slink, link, nod, pipe, sock, glob, tree, dirlike, mode, \
    owner, time, xattr) or a path and one of the types d m b c s i x h l L D M B C S I R";

fn grammar(kind: u8) -> &'static str {
    match kind {
        b'd' | b'm' => "MODE UID GID",
        b'D' | b'M' => "SECONDS MODE UID GID",
        b'b' | b'c' => "MODE UID GID MAJOR MINOR",
        b'B' | b'C' => "SECONDS MODE UID GID MAJOR MINOR",
        b's' => "MODE UID GID TARGET",
        b'S' => "SECONDS MODE UID GID TARGET",
        b'i' => "MODE UID GID f|s",
        b'I' => "SECONDS MODE UID GID f|s",
        b'x' => "NAME=VALUE",
        b'L' => "PATH",
        b'R' => "SECONDS MODE UID GID LENGTH OFFSET SPARSE [FILE]",
        _ => "FILE",
    }
}

fn definition(path: Vec<u8>, kind: u8, line: &mut Line<'_>) -> Result<Item, String> {
    match kind {
        b'f' | b'F' => {
            return Err(
                "a pack list never runs commands: write the output to a file and name it in a `file` line".into()
            );
        }
        b'x' => return xattr(path, line.rest()),
        b'l' | b'h' => {
            let links = if kind == b'h' { Links::Follow } else { Links::Keep };
            return Ok(Item::HostLink { path, target: name(line)?, links });
        }
        b'L' => return Ok(Item::Link { path, target: name(line)? }),
        _ => {}
    }
    let mtime = match kind.is_ascii_uppercase() {
        true => Some(parse_time(line.bare().ok_or("the time is missing")?)?),
        false => None,
    };
    let mode = Some(super::parse_mode(line.bare().ok_or("the mode is missing")?)?);
    let (uid, gid) = (Some(line.number("the uid", 10)?), Some(line.number("the gid", 10)?));
    let attrs = Attrs { mode, uid, gid, mtime };
    let node = match kind.to_ascii_lowercase() {
        b's' if line.is_empty() => return Err("the target is missing".into()),
        b's' => return Ok(Item::Node { path, attrs, node: Node::Symlink(line.rest().to_vec()) }),
        b'd' => Node::Dir,
        b'r' => Node::File(within(line)?),
        b'b' => Node::Block(device(line)?),
        b'c' => Node::Char(device(line)?),
        b'i' => match line.bare() {
            Some(b"f") => Node::Fifo,
            Some(b"s") => Node::Socket,
            _ => return Err("the type must be `f` (pipe) or `s` (socket)".into()),
        },
        _ => {
            line.end()?;
            return Ok(Item::Modify { path, attrs });
        }
    };
    line.end()?;
    Ok(Item::Node { path, attrs, node })
}

fn name(line: &mut Line<'_>) -> Result<Vec<u8>, String> {
    let name = line.word(Quoting::Pseudo)?;
    line.end()?;
    if name.is_empty() { Err("the name of the other file is missing".into()) } else { Ok(name) }
}

fn device(line: &mut Line<'_>) -> Result<Device, String> {
    Ok(Device { major: line.number("the major number", 10)?, minor: line.number("the minor number", 10)? })
}

/// Parses the place of a file's bytes. Holes are found by the build, so the flag for them does not matter.
fn within(line: &mut Line<'_>) -> Result<File, String> {
    let (len, offset) = (line.number("the length", 10)?, line.number("the offset", 10)?);
    let _: u8 = line.number("the flag of sparse files", 10)?;
    let of = line.word(Quoting::Pseudo)?;
    Ok(File::Within { offset, len, of: (!of.is_empty()).then_some(of) })
}

fn xattr(path: Vec<u8>, rest: &[u8]) -> Result<Item, String> {
    let equals = rest.iter().position(|byte| *byte == b'=').ok_or("there is no `=`")?;
    Ok(Item::Xattr { path, name: rest[..equals].to_vec(), value: xattr_value(&rest[equals + 1..])? })
}
