//! Key files of GLib, as which RAUC reads manifests: groups of keys with values.
//!
//! Comments are not kept, as RAUC does not keep them when it writes a manifest.

use std::fmt;

use super::BundleError;

/// The groups of a key file, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeyFile {
    groups: Vec<KeyGroup>,
}

/// A group with its keys, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyGroup {
    name: String,
    entries: Vec<KeyEntry>,
}

/// A key with its value, which may have escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyEntry {
    key: String,
    value: String,
}

impl KeyFile {
    /// Reads a key file. A group that comes twice is one group, and of a key that comes twice the last value counts.
    ///
    /// # Errors
    /// [`BundleError::ManifestSyntax`].
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, BundleError> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let lines_before = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
            BundleError::ManifestSyntax { line: lines_before + 1, why: "it is not UTF-8" }
        })?;
        let mut file = KeyFile::default();
        let mut open_group = None;
        for (index, line) in text.split('\n').enumerate() {
            let bad = |why| BundleError::ManifestSyntax { line: index + 1, why };
            let line = line.strip_suffix('\r').unwrap_or(line).trim_start_matches(is_blank);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.starts_with('[') {
                let name = group_name(line).ok_or_else(|| bad("it is not a [section]"))?;
                open_group = Some(file.group_number(name));
                continue;
            }
            let (key, value) = line.split_once('=').ok_or_else(|| bad("it is neither KEY=VALUE nor a [section]"))?;
            let key = key.trim_end_matches(is_blank);
            if key.is_empty() {
                return Err(bad("it has no key"));
            }
            let group = open_group.ok_or_else(|| bad("it comes before the first [section]"))?;
            file.groups[group].set(key, value.trim_start_matches(is_blank).to_owned());
        }
        Ok(file)
    }

    /// Returns the names of all groups.
    pub(super) fn group_names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|group| group.name.as_str())
    }

    /// Returns the value of a key; `None` if it is missing, or has an escape that does not exist.
    pub(super) fn get(&self, group: &str, key: &str) -> Option<String> {
        let group = self.groups.iter().find(|known| known.name == group)?;
        let entry = group.entries.iter().find(|entry| entry.key == key)?;
        unescape(&entry.value)
    }

    /// Sets a key to a value that needs no escapes.
    pub(super) fn set(&mut self, group: &str, key: &str, value: String) {
        let number = self.group_number(group);
        self.groups[number].set(key, value);
    }

    /// Returns the index of a group, which is added if it is missing.
    fn group_number(&mut self, name: &str) -> usize {
        self.groups.iter().position(|group| group.name == name).unwrap_or_else(|| {
            self.groups.push(KeyGroup { name: name.to_owned(), entries: Vec::new() });
            self.groups.len() - 1
        })
    }
}

impl KeyGroup {
    fn set(&mut self, key: &str, value: String) {
        match self.entries.iter_mut().find(|entry| entry.key == key) {
            Some(entry) => entry.value = value,
            None => self.entries.push(KeyEntry { key: key.to_owned(), value }),
        }
    }
}

/// The text of the key file, with an empty line between groups.
impl fmt::Display for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, group) in self.groups.iter().enumerate() {
            let before = if number == 0 { "" } else { "\n" };
            writeln!(f, "{before}[{}]", group.name)?;
            for KeyEntry { key, value } in &group.entries {
                writeln!(f, "{key}={value}")?;
            }
        }
        Ok(())
    }
}

fn is_blank(character: char) -> bool {
    character.is_ascii_whitespace()
}

/// Returns the name in a line such as `[update]`.
fn group_name(line: &str) -> Option<&str> {
    let (name, after) = line.strip_prefix('[')?.split_once(']')?;
    let is_name = !name.is_empty() && !name.contains(|character: char| character == '[' || character.is_control());
    (is_name && after.chars().all(is_blank)).then_some(name)
}

fn unescape(value: &str) -> Option<String> {
    let mut text = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        let plain = match character {
            '\\' => match characters.next()? {
                's' => ' ',
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                '\\' => '\\',
                _ => return None,
            },
            other => other,
        };
        text.push(plain);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_glib_reads_them() {
        let text = b"# first\r\n\r\n [a]\nkey = one \\stwo\\\\\nlist=x;y;\n[b]\n[a]\nkey2=\nlist=z\nbad=\\q\n";
        let file = KeyFile::parse(text).unwrap();
        assert_eq!(file.group_names().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(file.get("a", "key").as_deref(), Some("one  two\\"));
        assert_eq!(file.get("a", "key2").as_deref(), Some(""));
        assert_eq!(file.get("a", "list").as_deref(), Some("z"));
        for (group, key) in [("a", "bad"), ("a", "none"), ("b", "key"), ("c", "key")] {
            assert_eq!(file.get(group, key), None, "{group} {key}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut file = KeyFile::parse(b"[a]\nkey=\\s1\n#\n[b]\n").unwrap();
        file.set("c", "new", "2".into());
        file.set("a", "key", "3".into());
        assert_eq!(file.to_string(), "[a]\nkey=3\n\n[b]\n\n[c]\nnew=2\n");
        assert_eq!(KeyFile::parse(file.to_string().as_bytes()).unwrap(), file);
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, line) in [
            ("key=1\n", 1),
            ("[a]\n\nkey\n", 3),
            ("[a]\n=1\n", 2),
            ("[]\n", 1),
            ("[a\n", 1),
            ("[a] b\n", 1),
            ("[a[]\n", 1),
        ] {
            let error = KeyFile::parse(text.as_bytes()).unwrap_err();
            assert!(matches!(error, BundleError::ManifestSyntax { line: found, .. } if found == line), "{error}");
        }
        let error = KeyFile::parse(b"[a]\nkey=1\nkey=\xff\n").unwrap_err();
        assert_eq!(error, BundleError::ManifestSyntax { line: 3, why: "it is not UTF-8" });
    }
}
