//! Lines that begin with a keyword: those of gensquashfs's pack file, and a few more.

use super::{ContentLocation, LineAttrs, ListItem, NodeType, parse_time};
use crate::lex::{LineLexer, QuotingRules, parse_number};
use crate::packlist::include::{DirInclude, type_letter};
use crate::tree::DeviceNumber;
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
pub(super) fn parse(line: &[u8]) -> Option<Result<ListItem, String>> {
    let mut line = LineLexer::new(line);
    let word = line.bare()?;
    let (keyword, grammar) = GRAMMAR.iter().find(|(keyword, _)| keyword.as_bytes() == word)?;
    let item = entry(keyword, line);
    Some(item.map_err(|why| format!("{why}; expected: {keyword} {grammar}")))
}

fn entry(keyword: &str, mut line: LineLexer<'_>) -> Result<ListItem, String> {
    let path = line.word(QuotingRules::Keyword)?;
    if path.is_empty() {
        return Err("the path is missing".into());
    }
    let line = &mut line;
    match keyword {
        "tree" => {
            return Ok(ListItem::Include {
                path,
                attrs: LineAttrs::default(),
                include: DirInclude::whole(from(line)?),
            });
        }
        "dirlike" => return Ok(ListItem::DirLike { path, from: from(line)? }),
        "mode" => return done(line, |line| Ok(LineAttrs { mode: Some(mode(line)?), ..LineAttrs::default() }), path),
        "owner" => return done(line, owner, path),
        "time" => return done(line, time, path),
        "xattr" => return xattr(line, path),
        "glob" => {
            let attrs = attrs(line)?;
            return Ok(ListItem::Include { path, attrs, include: glob(line)? });
        }
        _ => {}
    }
    let attrs = attrs(line)?;
    // `|` binds more tightly than `&&`: all other keywords need the mode and both owners.
    if keyword != "file" && keyword != "link" && attrs.mode.is_none() | attrs.uid.is_none() | attrs.gid.is_none() {
        return Err("`*` is only valid where a file provides the value".into());
    }
    let node = match keyword {
        "dir" => NodeType::Dir,
        "pipe" => NodeType::Fifo,
        "sock" => NodeType::Socket,
        "nod" => nod(line)?,
        "file" if line.is_empty() => NodeType::File(ContentLocation::AsInTree),
        "file" => NodeType::File(ContentLocation::At(line.rest().to_vec())),
        "content" => {
            let text = line.word(QuotingRules::Keyword)?;
            line.end()?;
            return Ok(ListItem::Node { path, attrs, node: NodeType::File(ContentLocation::Inline(text)) });
        }
        "slink" => NodeType::Symlink(required(line, "the target")?),
        _ => return Ok(ListItem::Link { path, target: required(line, "the target")? }),
    };
    if !matches!(node, NodeType::File(_) | NodeType::Symlink(_)) {
        line.end()?;
    }
    Ok(ListItem::Node { path, attrs, node })
}

fn done(
    line: &mut LineLexer<'_>,
    attrs: impl FnOnce(&mut LineLexer<'_>) -> Result<LineAttrs, String>,
    path: Vec<u8>,
) -> Result<ListItem, String> {
    let attrs = attrs(line)?;
    line.end()?;
    Ok(ListItem::Modify { path, attrs })
}

fn mode(line: &mut LineLexer<'_>) -> Result<u16, String> {
    super::parse_mode(line.bare().ok_or("the mode is missing")?)
}

fn owner(line: &mut LineLexer<'_>) -> Result<LineAttrs, String> {
    let mut next = |what: &str| id(line.bare().ok_or_else(|| format!("{what} is missing"))?, what);
    let uid = next("the uid")?;
    let gid = next("the gid")?;
    Ok(LineAttrs { uid, gid, ..LineAttrs::default() })
}

/// Parses the number of a user or group, or `*` for the one that is there.
fn id(word: &[u8], what: &str) -> Result<Option<u32>, String> {
    if word == b"*" { Ok(None) } else { parse_number(word, what, 10).map(Some) }
}

fn time(line: &mut LineLexer<'_>) -> Result<LineAttrs, String> {
    let time = parse_time(line.bare().ok_or("the time is missing")?)?;
    Ok(LineAttrs { mtime: Some(time), ..LineAttrs::default() })
}

/// Parses mode, uid and gid, each a number or `*`.
fn attrs(line: &mut LineLexer<'_>) -> Result<LineAttrs, String> {
    let mut next = |what: &str| line.bare().ok_or_else(|| format!("{what} is missing"));
    let mode = match next("the mode")? {
        b"*" => None,
        word => Some(super::parse_mode(word)?),
    };
    let uid = id(next("the uid")?, "the uid")?;
    let gid = id(next("the gid")?, "the gid")?;
    Ok(LineAttrs { mode, uid, gid, mtime: None })
}

fn nod(line: &mut LineLexer<'_>) -> Result<NodeType, String> {
    let kind = line.bare();
    let device =
        DeviceNumber { major: line.number("the major number", 10)?, minor: line.number("the minor number", 10)? };
    match kind {
        Some(b"c" | b"C") => Ok(NodeType::Char(device)),
        Some(b"b" | b"B") => Ok(NodeType::Block(device)),
        _ => Err("the type of a device must be `c` or `b`".into()),
    }
}

fn required(line: &mut LineLexer<'_>, what: &str) -> Result<Vec<u8>, String> {
    if line.is_empty() { Err(format!("{what} is missing")) } else { Ok(line.rest().to_vec()) }
}

fn from(line: &mut LineLexer<'_>) -> Result<Vec<u8>, String> {
    required(line, "the directory to take")
}

fn xattr(line: &mut LineLexer<'_>, path: Vec<u8>) -> Result<ListItem, String> {
    let rest = line.rest();
    let equals = rest.iter().position(|byte| *byte == b'=').ok_or("there is no `=`")?;
    let name = &rest[..equals];
    let value = &rest[equals + 1..];
    let value = if value.first() == Some(&b'"') {
        let mut quoted = LineLexer::new(value);
        let value = quoted.word(QuotingRules::Keyword)?;
        quoted.end()?;
        value
    } else {
        xattr_value(value)?
    };
    Ok(ListItem::Xattr { path, name: name.to_vec(), value })
}

fn glob(line: &mut LineLexer<'_>) -> Result<DirInclude, String> {
    let mut include = DirInclude::contents();
    while line.peek() == Some(b'-') {
        let option = line.bare().unwrap_or_default();
        match option {
            b"--" => break,
            b"-type" => include.types.push(type_letter(line.bare().unwrap_or_default())?),
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
fn pattern(line: &mut LineLexer<'_>) -> Result<String, String> {
    let bytes = if line.peek() == Some(b'\'') {
        let rest = line.rest();
        let end = rest[1..].iter().position(|byte| *byte == b'\'').ok_or("a quote is not closed")?;
        *line = LineLexer::new(&rest[end + 2..]);
        rest[1..=end].to_vec()
    } else {
        line.word(QuotingRules::Keyword)?
    };
    String::from_utf8(bytes).map_err(|_| "a pattern must be UTF-8".into())
}
