//! Android's fs_config files: a line for each path of an image, with its owner, mode and capabilities.
//!
//! ```text
//! PATH UID GID MODE [capabilities=NUMBER] [selabel=LABEL]
//! ```
//!
//! Paths are those on the device, without the leading slash: below the mount point of the image. The root of the image
//! is `/`, or the empty path in front of the first blank. Labels come from file contexts, and are ignored here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{Ino, InodeAttributes, Tree, capability, normal_path};
use crate::{Error, Result};

/// Number of missing paths that an error names.
const NAMED: usize = 3;

/// Attributes of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PathAttributes {
    uid: u32,
    gid: u32,
    mode: u16,
    /// Permitted capabilities, by their bits.
    capabilities: u64,
}

/// Owners, modes and capabilities of an Android image.
#[derive(Debug)]
pub struct FsConfig {
    file: PathBuf,
    /// Path of the root of the image in `attributes`, without slashes around it.
    mount_point: Vec<u8>,
    /// By path, without slashes around it.
    attributes: HashMap<Vec<u8>, PathAttributes>,
}

impl FsConfig {
    /// Parses the contents of `file`. Paths begin with `mount_point`, except that of the root.
    ///
    /// # Errors
    /// [`Error::Syntax`] for an invalid line, or one that contradicts an earlier line.
    pub fn parse(file: &Path, text: &[u8], mount_point: &[u8]) -> Result<FsConfig> {
        let mut attributes = HashMap::new();
        for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let wrong = |why: &str| Error::Syntax { path: file.to_owned(), line: number, why: why.to_owned() };
            // Files from other systems end lines with a carriage return too.
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.trim_ascii().is_empty() || line.starts_with(b"#") {
                continue;
            }
            let (path, rest) = split_path(line);
            let found = parse_attributes(rest).ok_or_else(|| wrong(EXPECTED))?;
            // The same line twice is harmless, as build systems concatenate files.
            if attributes.insert(path, found).is_some_and(|earlier| earlier != found) {
                return Err(wrong("an earlier line gives this path other attributes"));
            }
        }
        Ok(FsConfig { file: file.to_owned(), mount_point: normal_path(mount_point), attributes })
    }

    /// Changes the attributes of all entries; capabilities only `with_capabilities`. A hard-linked file has those of
    /// its first name.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names entries without a line.
    pub fn apply(&self, tree: &mut Tree, with_capabilities: bool) -> Result<()> {
        let mut found: Vec<(Ino, PathAttributes)> = Vec::with_capacity(tree.len());
        let mut missing: Vec<Vec<u8>> = Vec::new();
        tree.walk(|ino, path| {
            let path = self.path_on_device(path);
            match self.attributes.get(&path) {
                Some(attributes) => found.push((ino, *attributes)),
                None => missing.push(path),
            }
            Ok(())
        })?;
        if !missing.is_empty() {
            return Err(self.without_lines(&missing));
        }
        for (ino, PathAttributes { uid, gid, mode, capabilities }) in found {
            let before = tree.meta(ino);
            tree.change_meta(ino, InodeAttributes { uid, gid, mode, ..before });
            // Android's list has a 0 for programs without capabilities.
            if with_capabilities && capabilities != 0 {
                let mut set = tree.xattrs.get(tree.meta(ino).xattrs).clone();
                set.retain(|(name, _)| **name != *capability::NAME);
                set.push((capability::NAME.into(), capability::effective(capabilities).into()));
                let set = tree.xattrs.intern(set);
                tree.set_xattrs(ino, set);
            }
        }
        Ok(())
    }

    fn path_on_device(&self, path: &[u8]) -> Vec<u8> {
        // The root has its line without the mount point.
        if path.is_empty() || self.mount_point.is_empty() {
            return path.to_owned();
        }
        [&self.mount_point[..], path].join(&b'/')
    }

    fn without_lines(&self, missing: &[Vec<u8>]) -> Error {
        let names: Vec<_> = missing.iter().take(NAMED).map(|path| format!("`{}`", path.escape_ascii())).collect();
        let more = missing.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and for {more} more") } else { String::new() };
        let why = format!("there is no line for {}{more}", names.join(", "));
        Error::option("fs_config", crate::name::display(&self.file), why)
    }
}

const EXPECTED: &str = "expected PATH UID GID MODE [capabilities=NUMBER], the mode in octal digits";

/// Splits a line after its path, of which slashes at both ends are dropped.
fn split_path(line: &[u8]) -> (Vec<u8>, &[u8]) {
    let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    (normal_path(&line[..end]), &line[end..])
}

fn parse_attributes(text: &[u8]) -> Option<PathAttributes> {
    // Attributes are ASCII; only the path may be anything.
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.split_ascii_whitespace();
    let uid = words.next()?.parse().ok()?;
    let gid = words.next()?.parse().ok()?;
    let mode = u16::from_str_radix(words.next()?, 8).ok().filter(|mode| *mode <= 0o7777)?;
    let capabilities = words.find_map(|word| word.strip_prefix("capabilities="));
    let capabilities = capabilities.map_or(Some(0), parse_c_number)?;
    Some(PathAttributes { uid, gid, mode, capabilities })
}

/// Parses a number as C does: decimal, hexadecimal after `0x`, octal after `0`.
pub fn parse_c_number(text: &str) -> Option<u64> {
    match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(digits), _) => u64::from_str_radix(digits, 16).ok(),
        // `0` alone has no octal digits after it.
        (None, Some(digits)) if !digits.is_empty() => u64::from_str_radix(digits, 8).ok(),
        (None, _) => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{ConflictPolicy, FileData, Kind, ROOT};

    fn tree() -> Tree {
        let mut tree = Tree::default();
        let bin = tree.add(ROOT, b"bin", InodeAttributes::IMPLICIT_DIR, Kind::Dir, ConflictPolicy::Refuse).unwrap();
        let file = Kind::File { size: 0, data: FileData::Empty };
        tree.add(bin, b"ping", InodeAttributes::IMPLICIT_DIR, file, ConflictPolicy::Refuse).unwrap();
        tree
    }

    #[test]
    fn entries_get_what_their_lines_say() {
        let text = b" 0 0 755 selabel=u:object_r:rootfs:s0 capabilities=0x0\n\
            system/bin 0 2000 751\n\
            system/bin/ping 1000 3003 04755 selabel=u:object_r:system_file:s0 capabilities=0x100002000\n\
            system/bin/gone 1 1 0644\n\n";
        for (text, mount_point) in [
            (text.to_vec(), "/system/"),
            (String::from_utf8(text.to_vec()).unwrap().replace("system/", "").into_bytes(), "/"),
            (String::from_utf8(text.to_vec()).unwrap().replace("system/", "/").replacen(' ', "/ ", 1).into_bytes(), ""),
        ] {
            let mut tree = tree();
            FsConfig::parse(Path::new("f"), &text, mount_point.as_bytes()).unwrap().apply(&mut tree, true).unwrap();
            let of = |path: &[u8]| {
                let InodeAttributes { mode, uid, gid, .. } = tree.meta(tree.lookup(path).unwrap());
                (uid, gid, mode)
            };
            assert_eq!((of(b""), of(b"bin"), of(b"bin/ping")), ((0, 0, 0o755), (0, 2000, 0o751), (1000, 3003, 0o4755)));
            let set = tree.xattrs.get(tree.meta(tree.lookup(b"bin/ping").unwrap()).xattrs);
            let value = [1_u8, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
            let expected: (Box<[u8]>, Box<[u8]>) = (capability::NAME.into(), value[..].into());
            assert_eq!(*set, vec![expected]);
            assert!(tree.xattrs.get(tree.meta(ROOT).xattrs).is_empty());
        }
    }

    #[test]
    fn entries_without_a_line_and_lines_that_are_none_are_errors() {
        let config = FsConfig::parse(Path::new("f"), b"/ 0 0 755\nbin 0 0 755\nbin 0 0 0755\n", b"").unwrap();
        let error = config.apply(&mut tree(), true).unwrap_err().to_string();
        assert!(error.contains("fs_config f: there is no line for `bin/ping`"), "{error}");
        for (text, line) in [
            ("a 0 0", 1),
            ("a 0 0 9", 1),
            ("a 0 0 17777", 1),
            ("a x 0 755", 1),
            ("a 0 0 755\na 0 1 755", 2),
            ("a 0 0 755 capabilities=x", 1),
        ] {
            match FsConfig::parse(Path::new("f"), text.as_bytes(), b"") {
                Err(Error::Syntax { line: found, .. }) => assert_eq!(found, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
