//! Lines that begin with a path: the pseudo file definitions of mksquashfs.

use super::{ContentLocation, LineAttrs, ListItem, NodeType, parse_time};
use crate::dir::LinkPolicy;
use crate::lex::{LineLexer, QuotingRules};
use crate::tree::DeviceNumber;
use crate::xattr_value;

/// Parses a line.
pub(super) fn parse(line: &[u8]) -> Result<ListItem, String> {
    let mut line = LineLexer::new(line);
    let path = line.word(QuotingRules::Pseudo)?;
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

fn definition(path: Vec<u8>, kind: u8, line: &mut LineLexer<'_>) -> Result<ListItem, String> {
    match kind {
        b'f' | b'F' => {
            return Err(
                "a pack list never runs commands: write the output to a file and name it in a `file` line".into()
            );
        }
        b'x' => return xattr(path, line.rest()),
        b'l' | b'h' => {
            let links = if kind == b'h' { LinkPolicy::Follow } else { LinkPolicy::Keep };
            return Ok(ListItem::HostLink { path, target: name(line)?, links });
        }
        b'L' => return Ok(ListItem::Link { path, target: name(line)? }),
        _ => {}
    }
    let mtime = match kind.is_ascii_uppercase() {
        true => Some(parse_time(line.bare().ok_or("the time is missing")?)?),
        false => None,
    };
    let mode = Some(super::parse_mode(line.bare().ok_or("the mode is missing")?)?);
    let uid = Some(line.number("the uid", 10)?);
    let gid = Some(line.number("the gid", 10)?);
    let attrs = LineAttrs { mode, uid, gid, mtime };
    let node = match kind.to_ascii_lowercase() {
        b's' if line.is_empty() => return Err("the target is missing".into()),
        b's' => return Ok(ListItem::Node { path, attrs, node: NodeType::Symlink(line.rest().to_vec()) }),
        b'd' => NodeType::Dir,
        b'r' => NodeType::File(within(line)?),
        b'b' => NodeType::Block(device(line)?),
        b'c' => NodeType::Char(device(line)?),
        b'i' => match line.bare() {
            Some(b"f") => NodeType::Fifo,
            Some(b"s") => NodeType::Socket,
            _ => return Err("the type must be `f` (pipe) or `s` (socket)".into()),
        },
        _ => {
            line.end()?;
            return Ok(ListItem::Modify { path, attrs });
        }
    };
    line.end()?;
    Ok(ListItem::Node { path, attrs, node })
}

fn name(line: &mut LineLexer<'_>) -> Result<Vec<u8>, String> {
    let name = line.word(QuotingRules::Pseudo)?;
    line.end()?;
    if name.is_empty() { Err("the name of the other file is missing".into()) } else { Ok(name) }
}

fn device(line: &mut LineLexer<'_>) -> Result<DeviceNumber, String> {
    Ok(DeviceNumber { major: line.number("the major number", 10)?, minor: line.number("the minor number", 10)? })
}

/// Parses the place of a file's bytes. Holes are found by the build, so the flag for them does not matter.
fn within(line: &mut LineLexer<'_>) -> Result<ContentLocation, String> {
    let len = line.number("the length", 10)?;
    let offset = line.number("the offset", 10)?;
    let _: u8 = line.number("the flag of sparse files", 10)?;
    let of = line.word(QuotingRules::Pseudo)?;
    Ok(ContentLocation::Within { offset, len, of: (!of.is_empty()).then_some(of) })
}

fn xattr(path: Vec<u8>, rest: &[u8]) -> Result<ListItem, String> {
    let equals = rest.iter().position(|byte| *byte == b'=').ok_or("there is no `=`")?;
    Ok(ListItem::Xattr { path, name: rest[..equals].to_vec(), value: xattr_value(&rest[equals + 1..])? })
}
