//! `-p`, `-pf` and `-pd`: pseudo definitions, as lines of a pack list. Owners may be names there.

use crate::args::value;
use crate::personalities::date;

/// Returns a definition with numbers for the names of owners: `PATH TYPE [TIME] MODE USER GROUP ...`. Definitions of other
/// forms stay as they are.
pub(super) fn definition(text: &str) -> Result<String, String> {
    let (path, rest) = path(text);
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let first = match fields.first() {
        Some(&("d" | "m" | "b" | "c" | "s" | "i")) => 2,
        Some(&("D" | "M" | "B" | "C" | "S" | "I")) => 3,
        _ => return Ok(text.to_owned()),
    };
    let (Some(user), Some(group)) = (fields.get(first), fields.get(first + 1)) else { return Ok(text.to_owned()) };
    let owners = [value::user(user)?.to_string(), value::group(group)?.to_string()];
    let head = fields[..first].iter().map(|field| (*field).to_owned());
    let words: Vec<String> = head.chain(owners).collect();
    // The target of a link may have blanks.
    let tail = fields[..first + 2]
        .iter()
        .fold(rest, |rest, field| rest.trim_ascii_start().strip_prefix(field).unwrap_or(rest));
    Ok(format!("{path} {}{tail}", words.join(" ")))
}

/// Returns the definitions of a file, in which a backslash at the end of a line continues it.
pub(super) fn file(name: &str) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(name).map_err(|error| format!("-pf {name}: cannot read: {error}"))?;
    let (mut made, mut begun) = (Vec::new(), String::new());
    for (number, line) in (1u32..).zip(text.lines()) {
        let line = begun.clone() + line.trim_ascii_start();
        if let Some(more) = line.strip_suffix('\\') {
            begun = more.to_owned();
            continue;
        }
        begun.clear();
        if !line.is_empty() && !line.starts_with('#') {
            made.push(definition(&line).map_err(|why| format!("-pf {name}:{number}: {why}"))?);
        }
    }
    match begun.is_empty() {
        true => Ok(made),
        false => Err(format!("-pf {name}: a backslash continues the last line, and nothing follows")),
    }
}

/// Splits a definition behind its path, which may be in quotes.
fn path(text: &str) -> (&str, &str) {
    let text = text.trim_ascii_start();
    let mut quoted = false;
    let mut escaped = false;
    let end = text.find(|letter: char| {
        let special = escaped;
        escaped = letter == '\\' && !special;
        if letter == '"' && !special {
            quoted = !quoted;
        }
        letter.is_ascii_whitespace() && !quoted && !special
    });
    text.split_at(end.unwrap_or(text.len()))
}

/// Returns the value of `--implied-dirs` for `d MODE USER GROUP` or `D TIME MODE USER GROUP`.
pub(super) fn directory(text: &str) -> Result<String, String> {
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let (time, mode, user, group) = match fields[..] {
        ["d", mode, user, group] => ("now", mode, user, group),
        ["D", time, mode, user, group] => (time, mode, user, group),
        _ => return Err(format!("{text}: expected d MODE USER GROUP or D TIME MODE USER GROUP")),
    };
    let mode = u32::from_str_radix(mode, 8).map_err(|_| format!("{mode}: packfs takes an octal mode"))?;
    Ok(format!("{mode:04o},{}:{},{}", value::user(user)?, value::group(group)?, date::seconds(time)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_become_numbers() {
        for (text, made) in [
            ("/a d 755 root root", "/a d 755 0 0"),
            ("\"a b\" D 5 0711 7 root", "\"a b\" D 5 0711 7 0"),
            ("/l s 777 root 0 some where", "/l s 777 0 0 some where"),
            ("/n c 666 0 0 1 3", "/n c 666 0 0 1 3"),
            ("a\\ b x user.a=root", "a\\ b x user.a=root"),
            ("/a d 755", "/a d 755"),
        ] {
            assert_eq!(definition(text).as_deref(), Ok(made), "{text}");
        }
        assert!(definition("/a d 755 nosuch 0").unwrap_err().contains("no user `nosuch`"));
        let list = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(list.path(), "# all\n\n  /a d 755 root 5\n/b s 777 0 0 \\\n  c\n/c d 755 nosuch 0").unwrap();
        let told = file(list.path().to_str().unwrap()).unwrap_err();
        assert!(told.contains(":6: ") && told.contains("nosuch"), "{told}");
        std::fs::write(list.path(), "# all\n\n  /a d 755 root 5\n/b s 777 0 0 \\\n  c\n").unwrap();
        assert_eq!(file(list.path().to_str().unwrap()).unwrap(), ["/a d 755 0 5", "/b s 777 0 0 c"]);
        std::fs::write(list.path(), "/a d 755 root 5\n/b s 777 0 0 \\\n").unwrap();
        assert!(file(list.path().to_str().unwrap()).unwrap_err().contains("nothing follows"));
        assert!(file("nosuch").unwrap_err().contains("-pf nosuch: cannot read"));
        assert_eq!(directory("D 7 711 root 5").as_deref(), Ok("0711,0:5,7"));
        for wrong in ["", "d 755 0", "d u=rwx 0 0", "d 755 nosuch 0"] {
            assert!(directory(wrong).is_err(), "{wrong}");
        }
    }
}
