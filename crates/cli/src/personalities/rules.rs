//! Files of other programs that treat single entries differently, as lines for `packfs build --rule`.

use std::fmt::Write;

use packfs_blocks::hex::to_hex;
use packfs_image::source::xattr_value;

use super::refusals;

/// Returns a word of a rule, with its value quoted where that is needed; an error for a value that no line can hold.
pub(super) fn rule_word(name: &str, value: &str) -> Result<String, String> {
    let mut word = format!("{name}=");
    for letter in value.chars() {
        match letter {
            '\n' => return Err(format!("{value:?}: a line break cannot be in a rule")),
            // The quote ends what is quoted, so it is escaped within quotes of its own.
            '"' => word.push_str("\"\\\"\""),
            letter if letter.is_ascii_whitespace() => {
                let _ = write!(word, "\"{letter}\"");
            }
            letter => word.push(letter),
        }
    }
    Ok(word)
}

/// Calls `line` for each line that is neither empty nor a comment, and adds its number to an error.
pub(super) fn for_each_line(
    option: &str,
    file: &str,
    mut line: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{option} {file}: cannot read: {error}"))?;
    for (number, text) in (1u32..).zip(text.lines()) {
        let text = text.trim();
        if !text.is_empty() && !text.starts_with('#') {
            line(text).map_err(|why| format!("{option} {file}:{number}: {why}"))?;
        }
    }
    Ok(())
}

/// Name of the attribute with an entry's label.
const LABEL: &str = "security.selinux";

/// Returns the rules of a file of SELinux contexts. Of the lines that match an entry the last one counts, and one without
/// special characters counts more than any with them. `missing` is the label of entries that no line matches or that
/// shall have none. Patterns are about paths on a device where the image is mounted at `mount_point`.
pub(super) fn read_contexts(
    option: &str,
    file: &str,
    missing: Option<&str>,
    mount_point: &str,
) -> Result<Vec<String>, String> {
    let mount_point = mount_point.trim_matches('/');
    // It becomes part of words of rules, where these would have a meaning.
    if mount_point.contains(|letter: char| letter.is_ascii_whitespace() || "\"=".contains(letter)) {
        return Err(format!("--mount-point {mount_point}: packfs supports no blanks, quotes or `=` in it"));
    }
    let test = if mount_point.is_empty() { "regex".to_owned() } else { format!("regex:{mount_point}") };
    let label = |label: Option<&str>| match label {
        Some(label) => rule_word("xattr", &format!("{LABEL}={label}")),
        None => Ok(format!("drop-xattr={LABEL}")),
    };
    // First, so that any line that matches counts more: rules set a value one after the other.
    let mut rules = vec![format!("all -> {}", label(missing)?)];
    let mut exact = Vec::new();
    for_each_line(option, file, |line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (pattern, kind, context) = match fields[..] {
            [pattern, context] => (pattern, None, context),
            [pattern, kind, context] => (pattern, Some(kind), context),
            _ => return Err("expected: PATTERN [TYPE] CONTEXT".into()),
        };
        let kind = match kind {
            None => "",
            Some("--") => " type=file",
            // The letters are those of `find -type`, which packfs takes too.
            Some(kind @ ("-d" | "-l" | "-c" | "-b" | "-p" | "-s")) => &format!(" type={}", &kind[1..]),
            Some(kind) => return Err(format!("unknown type {kind}")),
        };
        let effect = label(if context == "<<none>>" { missing } else { Some(context) })?;
        match plain(pattern) {
            Some(path) => {
                // Paths elsewhere on the device are not in the image.
                if let Some(path) = below(&path, mount_point) {
                    exact.push(format!("{}{kind} -> {effect}", rule_word("path", path)?));
                }
            }
            None => {
                // The pattern is anchored to the path without its slash, so it may not begin with an operator
                // that would then apply to nothing.
                let inside = pattern.strip_prefix('/').filter(|rest| !rest.starts_with(['?', '*', '+', '{']));
                let inside = inside.ok_or_else(|| refusals::LABEL_PATTERNS.error(pattern))?;
                // In a group, as an alternative would otherwise be anchored at one end only.
                rules.push(format!("{}{kind} -> {effect}", rule_word(&test, &format!("^(?:{inside})$"))?));
            }
        }
        Ok(())
    })?;
    // After all patterns: a later rule wins, and exact paths count more.
    rules.append(&mut exact);
    Ok(rules)
}

/// Converts a path on the device to the path in the image mounted at `mount_point`; `None` if it lies elsewhere.
fn below<'p>(path: &'p str, mount_point: &str) -> Option<&'p str> {
    let rest = path.trim_start_matches('/').strip_prefix(mount_point)?;
    match rest {
        _ if mount_point.is_empty() => Some(path),
        "" => Some("/"),
        // `/systemd` does not lie below `/system`.
        _ => rest.starts_with('/').then_some(rest),
    }
}

/// Returns the path that a pattern without special characters means.
fn plain(pattern: &str) -> Option<String> {
    let mut path = String::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            // An escaped letter or digit is a class such as `\d`, not that character.
            '\\' => path.push(letters.next().filter(|letter| !letter.is_ascii_alphanumeric())?),
            '.' | '^' | '$' | '?' | '*' | '+' | '|' | '[' | '(' | '{' => return None,
            letter => path.push(letter),
        }
    }
    Some(path)
}

/// Returns the rules of a file that `getfattr --dump` wrote.
pub(super) fn read_attributes(option: &str, file: &str) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{option} {file}: cannot read: {error}"))?;
    let mut rules = Vec::new();
    let mut path = None;
    for (number, line) in (1u32..).zip(text.lines()) {
        let wrong = |why: String| format!("{option} {file}:{number}: {why}");
        let line = line.trim();
        if let Some(name) = line.strip_prefix("# file:") {
            let name = unescaped(name.trim_start()).and_then(|name| String::from_utf8(name).ok());
            path = Some(name.ok_or_else(|| wrong("the path is not UTF-8".into()))?);
        } else if let (Some((name, value)), false) = (line.split_once('='), line.starts_with('#')) {
            let path = path.as_ref().ok_or_else(|| wrong("expected `# file: PATH` before this line".into()))?;
            let value = match value.strip_prefix('"').map(|value| value.strip_suffix('"').and_then(unescaped)) {
                None => value.to_owned(),
                Some(None) => return Err(wrong("the value is not well-formed".into())),
                // As hexadecimal, so that values that are no text fit a line.
                Some(Some(bytes)) => format!("0x{}", to_hex(&bytes)),
            };
            let test = rule_word("path", path);
            // A value without quotes is in hexadecimal or base64 already, as getfattr marks it.
            let effect = rule_word("xattr", &format!("{name}={value}"));
            rules.push(format!("{} -> {}", test.map_err(wrong)?, effect.map_err(wrong)?));
        } else if !line.is_empty() && !line.starts_with('#') {
            return Err(wrong("expected NAME=VALUE".into()));
        }
    }
    Ok(rules)
}

/// Reads a text in which a backslash stands before three octal digits, a quote or a backslash.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    // `0t` is packfs's form of texts with octal escapes; getfattr escapes the quote as well.
    xattr_value(format!("0t{}", text.replace("\\\"", "\"")).as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn words_are_read_as_they_were() {
        for value in ["a b", "\\.so\\", "a\"b", "\" \"", "->", ""] {
            let rule = format!("{} -> stop", rule_word("path", value).unwrap());
            let parsed = packfs_image::rules::Rules::parse([("r".as_ref(), rule.as_bytes())]);
            assert!(parsed.is_ok(), "{rule}");
        }
        assert_eq!(rule_word("path", "a \"b\\").unwrap(), "path=a\" \"\"\\\"\"b\\");
        assert!(rule_word("path", "a\nb").is_err());
    }

    #[test]
    fn contexts_become_rules_with_exact_paths_last() {
        let text = file("# all\n/.*\tu:r:t:s0\n/bin/x -- u:r:x:s0\n/bin/.* -d <<none>>\n/a\\.b -l u:r:y:s0\n");
        let made = read_contexts("-s", text.path().to_str().unwrap(), Some("none"), "").unwrap();
        assert_eq!(
            made,
            [
                "all -> xattr=security.selinux=none",
                "regex=^(?:.*)$ -> xattr=security.selinux=u:r:t:s0",
                "regex=^(?:bin/.*)$ type=d -> xattr=security.selinux=none",
                "path=/bin/x type=file -> xattr=security.selinux=u:r:x:s0",
                "path=/a.b type=l -> xattr=security.selinux=u:r:y:s0",
            ]
        );
        for (line, why) in
            [("/a", "expected: PATTERN"), ("/a -x u", "unknown type -x"), ("(/.*)? u", "begin with a slash")]
        {
            let told = read_contexts("-s", file(line).path().to_str().unwrap(), None, "").unwrap_err();
            assert!(told.contains(&format!(":1: {why}")) || told.contains(why), "{told}");
        }
    }

    #[test]
    fn contexts_of_a_device_become_rules_of_an_image() {
        let text = file("/system(/.*)? u:r:s:s0\n/system/bin/x u:r:x:s0\n/system u:r:d:s0\n/systemx u:r:o:s0\n");
        for mount_point in ["/system/", "system"] {
            assert_eq!(
                read_contexts("-s", text.path().to_str().unwrap(), None, mount_point).unwrap(),
                [
                    "all -> drop-xattr=security.selinux",
                    "regex:system=^(?:system(/.*)?)$ -> xattr=security.selinux=u:r:s:s0",
                    "path=/bin/x -> xattr=security.selinux=u:r:x:s0",
                    "path=/ -> xattr=security.selinux=u:r:d:s0",
                ]
            );
        }
        assert!(read_contexts("-s", text.path().to_str().unwrap(), None, "a b").is_err());
    }

    #[test]
    fn dumps_of_attributes_become_rules() {
        let text = file("# file: a\\040b/\nuser.a=\"x\\\"\\012\"\nuser.b=0s\n\n# file: c\nuser.d=0x41\n");
        let made = read_attributes("-A", text.path().to_str().unwrap()).unwrap();
        assert_eq!(
            made,
            [
                "path=a\" \"b/ -> xattr=user.a=0x78220a",
                "path=a\" \"b/ -> xattr=user.b=0s",
                "path=c -> xattr=user.d=0x41",
            ]
        );
        for (text, why) in [
            ("user.a=1", "1: expected `# file: PATH`"),
            ("# file: a\nuser.a", "2: expected NAME=VALUE"),
            ("# file: a\nuser.a=\"x", "2: the value is not well-formed"),
        ] {
            assert!(read_attributes("-A", file(text).path().to_str().unwrap()).unwrap_err().contains(why), "{text}");
        }
    }
}
