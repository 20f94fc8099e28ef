//! `-p`, `-pf` and `-pd`: pseudo definitions, as lines of a pack list. Owners may be names there, and a file may have the data
//! of the files that it defines.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use packfs_image::source::packlist::read_lines;

use super::attributes::OwnerShift;
use crate::args::value;
use crate::commands::sources::temporary_file;
use crate::personalities::date;
use crate::personalities::rules::rule_word;

/// A definition that gives an entry attributes: `PATH TYPE [TIME] MODE USER GROUP ...`.
#[derive(Debug)]
struct AttributeDefinition<'d> {
    path: &'d [u8],
    kind: &'d [u8],
    /// Seconds since 1970, if the definition has a time.
    time: Option<i64>,
    mode: &'d [u8],
    user: u32,
    group: u32,
    /// All that follows the group: the target of a link may have blanks.
    rest: &'d [u8],
}

impl<'d> AttributeDefinition<'d> {
    /// Reads a definition; `None` if it has another form.
    fn read(text: &'d [u8]) -> Result<Option<Self>, String> {
        let (path, rest) = first_word(text);
        let (kind, rest) = first_word(rest);
        // Capital letters are the forms with a time.
        let has_time = match kind {
            b"d" | b"m" | b"b" | b"c" | b"s" | b"i" => false,
            b"D" | b"M" | b"B" | b"C" | b"S" | b"I" | b"R" => true,
            _ => return Ok(None),
        };
        let (time, rest) = if has_time { first_word(rest) } else { (&[][..], rest) };
        let (mode, rest) = first_word(rest);
        let (user, rest) = first_word(rest);
        let (group, rest) = first_word(rest);
        if group.is_empty() {
            return Ok(None); // The pack list tells what is missing.
        }
        let time = has_time.then(|| {
            let date = text_of(&plain(time));
            date::seconds(&date).map_err(|why| format!("{date}: {why}"))
        });
        let user = value::user(&text_of(user))?;
        let group = value::group(&text_of(group))?;
        Ok(Some(AttributeDefinition { path, kind, time: time.transpose()?, mode, user, group, rest }))
    }
}

/// Replaces dates and names of owners in a definition by numbers. Definitions of other forms stay unchanged.
pub(super) fn translate_definition(text: &[u8]) -> Result<Vec<u8>, String> {
    let text = text.trim_ascii_start();
    // Without the slash, some paths are keywords of pack lists.
    let slash: &[u8] = if text.starts_with(b"/") { b"" } else { b"/" };
    let Some(AttributeDefinition { path, kind, time, mode, user, group, rest }) = AttributeDefinition::read(text)?
    else {
        return Ok([slash, text].concat());
    };
    let mut made = [slash, path, b" ", kind].concat();
    if let Some(time) = time {
        // In the place where the capital letters have it.
        made.extend(format!(" {time}").into_bytes());
    }
    made.extend([&b" "[..], mode].concat());
    made.extend(format!(" {user} {group}").into_bytes());
    made.extend(rest);
    Ok(made)
}

/// Returns the rule that gives the entry of a definition its owner, shifted, and with `modes` its mode; `None` if the
/// definition has none.
pub(super) fn own_rule(line: &[u8], modes: bool, shift: OwnerShift) -> Result<Option<String>, String> {
    let Some(AttributeDefinition { path, mode, user, group, .. }) = AttributeDefinition::read(line)? else {
        return Ok(None);
    };
    let path = String::from_utf8(plain(path)).map_err(|_| format!("{}: not UTF-8", text_of(path)))?;
    let test = rule_word("path", &path)?;
    let user = shift.apply(user)?;
    let group = shift.apply(group)?;
    let mode = if modes { format!(" mode={}", text_of(mode)) } else { String::new() };
    Ok(Some(format!("{test} -> owner={user} group={group}{mode}")))
}

/// Returns a path without quotes and backslashes.
fn plain(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = path.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            // A backslash stands before any byte that is meant itself.
            b'\\' => out.extend(bytes.next()),
            b'"' => {}
            byte => out.push(*byte),
        }
    }
    out
}

/// Returns true if a definition makes or changes the root.
pub(super) fn is_root(line: &[u8]) -> bool {
    let (path, rest) = first_word(line);
    let has_attributes = matches!(first_word(rest).0, b"d" | b"D" | b"m" | b"M");
    // A path of slashes only, perhaps in quotes.
    has_attributes && path.iter().all(|byte| b"/\"".contains(byte))
}

/// Returns true if a definition makes the root.
pub(super) fn is_root_dir(line: &[u8]) -> bool {
    is_root(line) && matches!(first_word(first_word(line).1).0, b"d" | b"D")
}

fn fields(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty())
}

fn text_of(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

/// Returns the definitions of a file, in which a backslash at the end of a line continues it; `-` is standard input.
pub(super) fn read_definitions(name: &str) -> Result<Vec<OsString>, String> {
    let (text, data) = read_file(name).map_err(|error| format!("-pf {name}: cannot read: {error}"))?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    let mut made = Vec::new();
    let mut begun = Vec::new();
    for (number, line) in (1u32..).zip(text.split(|byte| *byte == b'\n')) {
        let line =
            // Files from other systems end lines with a carriage return too.
            [&begun[..], line.trim_ascii_start().strip_suffix(b"\r").unwrap_or(line.trim_ascii_start())].concat();
        if let Some(more) = line.strip_suffix(b"\\") {
            begun = more.to_owned();
            continue;
        }
        begun.clear();
        if !line.is_empty() && line[0] != b'#' {
            let line = translate_definition(&line).and_then(|line| add_data_place(line, data.as_ref()));
            made.push(OsString::from_vec(line.map_err(|why| format!("-pf {name}:{number}: {why}"))?));
        }
    }
    // What was begun would be lost without a word.
    match begun.is_empty() {
        true => Ok(made),
        false => Err(format!("-pf {name}: the last line ends with a backslash")),
    }
}

/// Data that follows the definitions of a file.
struct DefinitionData {
    /// File that has it.
    file: PathBuf,
    /// Offset of its first byte there.
    begin: u64,
}

/// Reads the lines of a file, and finds the data after them. Data that comes through a pipe is kept in an unlinked file.
fn read_file(name: &str) -> io::Result<(Vec<u8>, Option<DefinitionData>)> {
    // Opened by a name, so that packfs can open it again for the data.
    let path = PathBuf::from(if name == "-" { "/dev/stdin" } else { name });
    let file = File::open(&path)?;
    let is_file = file.metadata()?.is_file();
    let mut from = BufReader::new(file);
    let (text, has_data) = read_lines(&mut from)?;
    let data = match (has_data, is_file) {
        (false, _) => None,
        (true, true) => Some(DefinitionData { file: path, begin: text.len() as u64 }),
        (true, false) => Some(DefinitionData { file: keep_rest(&mut from)?, begin: 0 }),
    };
    Ok((text, data))
}

/// Copies what is left to an unlinked file, and returns a name for it that is valid until this process ends.
fn keep_rest(from: &mut impl BufRead) -> io::Result<PathBuf> {
    let mut file = temporary_file().map_err(io::Error::other)?;
    io::copy(from, &mut file)?;
    // packfs opens the data by name later, and a deleted file has only this one.
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    // Left open until the process ends: the name is valid as long as the descriptor.
    let _ = file.into_raw_fd();
    Ok(name.into())
}

/// Adds to a definition of a file with data where the data is.
fn add_data_place(line: Vec<u8>, data: Option<&DefinitionData>) -> Result<Vec<u8>, String> {
    let (name, rest) = first_word(&line);
    let fields: Vec<&[u8]> = fields(rest).collect();
    // Only the form with data has eight fields.
    let [b"R", time, mode, user, group, len, offset, sparse] = fields[..] else { return Ok(line) };
    let data = data.ok_or("no data follows the definitions")?;
    // Offsets count from the first byte after the definitions.
    let begin = text_of(offset).parse::<u64>().ok().and_then(|offset| offset.checked_add(data.begin));
    let begin = begin.ok_or_else(|| format!("{}: expected an offset", text_of(offset)))?.to_string();
    let quoted = super::sources::quoted(data.file.as_os_str().as_encoded_bytes());
    let fields = [name, b"R", time, mode, user, group, len, begin.as_bytes(), sparse].join(&b' ');
    Ok([&fields[..], b" \"", &quoted, b"\""].concat())
}

/// Splits a definition after its first word, of which parts may be in quotes or follow a backslash.
fn first_word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let mut quoted = false;
    let mut escaped = false;
    let end = text.iter().position(|byte| {
        let special = escaped;
        escaped = *byte == b'\\' && !special;
        if *byte == b'"' && !special {
            quoted = !quoted;
        }
        // Blanks within quotes, or after a backslash, belong to the word.
        byte.is_ascii_whitespace() && !quoted && !special
    });
    text.split_at(end.unwrap_or(text.len()))
}

/// Returns the value of `--implied-dirs` for `d MODE USER GROUP` or `D TIME MODE USER GROUP`.
pub(super) fn parse_directory(text: &str) -> Result<String, String> {
    let line = format!("/ {text}");
    let expected = || format!("{text}: expected d MODE USER GROUP or D TIME MODE USER GROUP");
    let read = AttributeDefinition::read(line.as_bytes())?.filter(|read| matches!(read.kind, b"d" | b"D"));
    let AttributeDefinition { time, mode, user, group, rest, .. } = read.ok_or_else(expected)?;
    if !rest.trim_ascii().is_empty() {
        return Err(expected());
    }
    let mode = text_of(mode);
    // mksquashfs takes symbolic modes here too, which would need a mode to change.
    let mode = u32::from_str_radix(&mode, 8).map_err(|_| format!("{mode}: packfs takes an octal mode"))?;
    let time = time.map_or_else(|| date::seconds("now"), Ok)?;
    Ok(format!("{mode:04o},{user}:{group},{time}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_become_numbers() {
        for (text, made) in [
            ("/a d 755 root root", "/a d 755 0 0"),
            ("\"a b\" D 5 0711 7 root", "/\"a b\" D 5 0711 7 0"),
            ("dir R 5 644 root 0 3 9 0", "/dir R 5 644 0 0 3 9 0"),
            ("/l s 777 root 0 some where", "/l s 777 0 0 some where"),
            ("/n c 666 0 0 1 3", "/n c 666 0 0 1 3"),
            ("a\\ b x user.a=root", "/a\\ b x user.a=root"),
            ("/a d 755", "/a d 755"),
            ("/a D \"1 jan 1980 UTC\" 755 0 0", "/a D 315532800 755 0 0"),
            ("/a D 1\\ jan\\ 1980\\ UTC 755 0 0", "/a D 315532800 755 0 0"),
            ("b S 2001-09-09T01:46:40Z 777 root root a  b", "/b S 1000000000 777 0 0 a  b"),
            ("  /c\tM  @5\t0644 1 2", "/c M 5 0644 1 2"),
        ] {
            assert_eq!(translate_definition(text.as_bytes()).as_deref(), Ok(made.as_bytes()), "{text}");
        }
        assert!(
            translate_definition(b"/a D \"no such day\" 755 0 0")
                .unwrap_err()
                .contains("no such day: expected seconds")
        );
        assert!(translate_definition(b"/a d 755 nosuch 0").unwrap_err().contains("no user `nosuch`"));
        let list = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(list.path(), "# all\n\n  /a d 755 root 5\n/b s 777 0 0 \\\n  c\n/c d 755 nosuch 0").unwrap();
        let told = read_definitions(list.path().to_str().unwrap()).unwrap_err();
        assert!(told.contains(":6: ") && told.contains("nosuch"), "{told}");
        std::fs::write(list.path(), "# all\n\n  /a d 755 root 5\n/b s 777 0 0 \\\n  c\n").unwrap();
        assert_eq!(read_definitions(list.path().to_str().unwrap()).unwrap(), ["/a d 755 0 5", "/b s 777 0 0 c"]);
        std::fs::write(list.path(), "/a d 755 root 5\n/b s 777 0 0 \\\n").unwrap();
        assert!(read_definitions(list.path().to_str().unwrap()).unwrap_err().contains("ends with a backslash"));
        let name = list.path().to_str().unwrap();
        std::fs::write(name, "r R 7 644 root 0 3 2 0\n#\n# START OF DATA - DO NOT MODIFY\n#\nababc").unwrap();
        let placed = format!("/r R 7 644 0 0 3 61 0 \"{name}\"");
        assert_eq!(read_definitions(name).unwrap(), [&placed[..]]);
        for (text, why) in [
            ("r R 7 644 0 0 3 2 0", "no data follows"),
            ("r R 7 644 0 0 3 x 0\n#\n# START OF DATA - DO NOT MODIFY\n#\n", ":1: x: expected an offset"),
            ("# START OF DATA - DO NOT MODIFY\nx", "no line `#` before the data"),
        ] {
            std::fs::write(name, text).unwrap();
            let told = read_definitions(name).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        assert!(read_definitions("nosuch").unwrap_err().contains("-pf nosuch: cannot read"));
        for (line, rule) in [
            ("/a d 755 1 2", Some("path=/a -> owner=1 group=2")),
            ("/\"a b\"\\\\ R 5 644 3 4 1 0 0", Some("path=\"/a b\\\" -> owner=3 group=4")),
            ("/a x user.a=b", None),
        ] {
            let made = own_rule(line.as_bytes(), false, OwnerShift::default()).unwrap();
            assert_eq!(made.is_some(), rule.is_some(), "{line}");
            if let Some(made) = made {
                assert!(packfs_image::rules::Rules::parse([("r".as_ref(), made.as_bytes())]).is_ok(), "{made}");
                assert!(made.ends_with(rule.unwrap().split_once(" -> ").unwrap().1), "{made}");
            }
        }
        let made = own_rule(b"/a d 755 1 2", true, OwnerShift::default()).unwrap();
        assert_eq!(made.as_deref(), Some("path=/a -> owner=1 group=2 mode=755"));
        for (line, changes, makes) in [
            ("/ d 755 0 0", true, true),
            ("\"/\" D 1 755 0 0", true, true),
            ("/ m 711 0 0", true, false),
            ("/ M 1 711 0 0", true, false),
            ("/ x user.a=b", false, false),
            ("/d d", false, false),
        ] {
            assert_eq!((is_root(line.as_bytes()), is_root_dir(line.as_bytes())), (changes, makes), "{line}");
        }
        assert_eq!(parse_directory("D 7 711 root 5").as_deref(), Ok("0711,0:5,7"));
        assert_eq!(parse_directory("D \"1 jan 1980 UTC\" 711 root 5").as_deref(), Ok("0711,0:5,315532800"));
        for wrong in ["", "d 755 0", "d u=rwx 0 0", "d 755 nosuch 0", "m 755 0 0", "d 755 0 0 x"] {
            assert!(parse_directory(wrong).is_err(), "{wrong}");
        }
    }
}
