//! Lines that begin with a keyword: those of gensquashfs's pack file, and a few more.

use super::{Attrs, File, Item, Node, parse_time};
use crate::lex::{Line, Quoting, parse_number};
use crate::packlist::include::{Include, types};
use crate::tree::Device;
use crate::xattr_value;

/// Keywords, each with the syntax of its arguments.
const GRAMMAR: [(&str, &str); 15] = [
    ("dir", "PATH MODE UID GID"),
    ("file", "PATH MODE UID GID [FILE]"),
    ("content", "PATH MODE UID GID \"TEXT\""),
    ("slink", "PATH MODE UID GID TARGET"),
    ("link", "PATH 0 0 0 TARGET"),
    ("nod", "PATH MODE UID GID c|b MAJOR MINOR"),
    ("pipe", "PATH MODE UID GID"),
    ("sock", "PATH MODE UID GID"),
    ("glob", "PATH MODE|* UID|* GID|* [OPTION...] DIR"),
    ("tree", "PATH DIR"),
    ("dirlike", "PATH DIR"),
    ("mode", "PATH MODE"),
    ("owner", "PATH UID GID"),
    ("time", "PATH SECONDS"),
    ("xattr", "PATH NAME=VALUE"),
];

/// Parses a line; returns `None` if it does not begin with a keyword.
pub(super) fn parse(line: &[u8]) -> Option<Result<Item, String>> {
    let mut line = Line::new(line);
    let word = line.bare()?;
    let (keyword, grammar) = GRAMMAR.iter().find(|(keyword, _)| keyword.as_bytes() == word)?;
    let item = entry(keyword, line);
    Some(item.map_err(|why| format!("{why}; expected: {keyword} {grammar}")))
}

fn entry(keyword: &str, mut line: Line<'_>) -> Result<Item, String> {
    let path = line.word(Quoting::Keyword)?;
    if path.is_empty() {
        return Err("the path is missing".into());
    }
    let line = &mut line;
    match keyword {
        "tree" => return Ok(Item::Include { path, attrs: Attrs::default(), include: Include::whole(from(line)?) }),
        "dirlike" => return Ok(Item::DirLike { path, from: from(line)? }),
        "mode" => return done(line, |line| Ok(Attrs { mode: Some(mode(line)?), ..Attrs::default() }), path),
        "owner" => return done(line, owner, path),
        "time" => return done(line, time, path),
        "xattr" => return xattr(line, path),
        "glob" => {
            let attrs = attrs(line)?;
            return Ok(Item::Include { path, attrs, include: glob(line)? });
        }
        _ => {}
    }
    let attrs = attrs(line)?;
    if keyword != "file" && keyword != "link" && attrs.mode.is_none() | attrs.uid.is_none() | attrs.gid.is_none() {
        return Err("`*` is only valid where a file provides the value".into());
    }
    let node = match keyword {
        "dir" => Node::Dir,
        "pipe" => Node::Fifo,
        "sock" => Node::Socket,
        "nod" => nod(line)?,
        "file" if line.is_empty() => Node::File(File::AsInTree),
        "file" => Node::File(File::At(line.rest().to_vec())),
        "content" => {
            let text = line.word(Quoting::Keyword)?;
            line.end()?;
            return Ok(Item::Node { path, attrs, node: Node::File(File::Inline(text)) });
        }
        "slink" => Node::Symlink(required(line, "the target")?),
        _ => return Ok(Item::Link { path, target: required(line, "the target")? }),
    };
    if !matches!(node, Node::File(_) | Node::Symlink(_)) {
        line.end()?;
    }
    Ok(Item::Node { path, attrs, node })
}

fn done(
    line: &mut Line<'_>,
    attrs: impl FnOnce(&mut Line<'_>) -> Result<Attrs, String>,
    path: Vec<u8>,
) -> Result<Item, String> {
    let attrs = attrs(line)?;
    line.end()?;
    Ok(Item::Modify { path, attrs })
}

fn mode(line: &mut Line<'_>) -> Result<u16, String> {
    super::parse_mode(line.bare().ok_or("the mode is missing")?)
}

fn owner(line: &mut Line<'_>) -> Result<Attrs, String> {
    let mut next = |what: &str| id(line.bare().ok_or_else(|| format!("{what} is missing"))?, what);
    let (uid, gid) = (next("the uid")?, next("the gid")?);
    Ok(Attrs { uid, gid, ..Attrs::default() })
}

/// Parses the number of a user or group, or `*` for the one that is there.
fn id(word: &[u8], what: &str) -> Result<Option<u32>, String> {
    if word == b"*" { Ok(None) } else { parse_number(word, what, 10).map(Some) }
}

fn time(line: &mut Line<'_>) -> Result<Attrs, String> {
    let time = parse_time(line.bare().ok_or("the time is missing")?)?;
    Ok(Attrs { mtime: Some(time), ..Attrs::default() })
}

/// Parses mode, uid and gid, each a number or `*`.
fn attrs(line: &mut Line<'_>) -> Result<Attrs, String> {
    let mut next = |what: &str| line.bare().ok_or_else(|| format!("{what} is missing"));
    let mode = match next("the mode")? {
        b"*" => None,
        word => Some(super::parse_mode(word)?),
    };
    let (uid, gid) = (id(next("the uid")?, "the uid")?, id(next("the gid")?, "the gid")?);
    Ok(Attrs { mode, uid, gid, mtime: None })
}

fn nod(line: &mut Line<'_>) -> Result<Node, String> {
    let kind = line.bare();
    let device = Device { major: line.number("the major number", 10)?, minor: line.number("the minor number", 10)? };
    match kind {
        Some(b"c" | b"C") => Ok(Node::Char(device)),
        Some(b"b" | b"B") => Ok(Node::Block(device)),
        _ => Err("the type of a device must be `c` or `b`".into()),
    }
}

fn required(line: &mut Line<'_>, what: &str) -> Result<Vec<u8>, String> {
    if line.is_empty() { Err(format!("{what} is missing")) } else { Ok(line.rest().to_vec()) }
}

fn from(line: &mut Line<'_>) -> Result<Vec<u8>, String> {
    required(line, "the directory to take")
}

fn xattr(line: &mut Line<'_>, path: Vec<u8>) -> Result<Item, String> {
    let rest = line.rest();
    let equals = rest.iter().position(|byte| *byte == b'=').ok_or("there is no `=`")?;
    let (name, value) = (&rest[..equals], &rest[equals + 1..]);
    let value = if value.first() == Some(&b'"') {
        let mut quoted = Line::new(value);
        let value = quoted.word(Quoting::Keyword)?;
        quoted.end()?;
        value
    } else {
        xattr_value(value)?
    };
    Ok(Item::Xattr { path, name: name.to_vec(), value })
}

fn glob(line: &mut Line<'_>) -> Result<Include, String> {
    let mut include = Include::contents();
    while line.peek() == Some(b'-') {
        let option = line.bare().unwrap_or_default();
        match option {
            b"--" => break,
            b"-type" => include.types.push(types(line.bare().unwrap_or_default())?),
            b"-name" => include.add_name(&pattern(line)?)?,
            b"-path" => include.add_path(&pattern(line)?)?,
            b"-xdev" | b"-mount" => include.one_file_system = true,
            b"-keeptime" => include.keep_time = true,
            b"-nonrecursive" => include.recursive = false,
            _ => return Err(format!("glob has no option `{}`", option.escape_ascii())),
        }
    }
    include.from = from(line)?;
    Ok(include)
}

/// Parses a pattern in double quotes, in single quotes, or unquoted.
fn pattern(line: &mut Line<'_>) -> Result<String, String> {
    let bytes = if line.peek() == Some(b'\'') {
        let rest = line.rest();
        let end = rest[1..].iter().position(|byte| *byte == b'\'').ok_or("a quote is not closed")?;
        *line = Line::new(&rest[end + 2..]);
        rest[1..=end].to_vec()
    } else {
        line.word(Quoting::Keyword)?
    };
    String::from_utf8(bytes).map_err(|_| "a pattern must be UTF-8".into())
}
