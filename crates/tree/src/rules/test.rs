//! Tests of entries: by name, type, size, owner, depth, and by their first bytes.

use std::cell::OnceCell;
use std::ops::RangeInclusive;

use packfs_blocks::hex::from_hex;

use crate::Error;
use crate::ExcludeRules;
use crate::regex::{RegexSet, prefix};
use crate::tree::{FileData, Inode, Kind, normal_path};

/// Number of bytes at the beginning of a file that tell what it holds.
const HEAD_LEN: u64 = 512;

/// A test, or with `not` its opposite.
#[derive(Debug)]
pub(super) struct EntryTest {
    pub(super) not: bool,
    pub(super) what: TestCondition,
}

#[derive(Debug)]
pub(super) enum TestCondition {
    Path(Box<[u8]>),
    Glob(ExcludeRules),
    Regex(PathRegex),
    /// Types as `find -type` names them.
    Type(Vec<u8>),
    /// Length of a regular file.
    Size(RangeInclusive<u64>),
    Owner(RangeInclusive<u64>),
    Group(RangeInclusive<u64>),
    /// Number of levels below the root.
    Depth(RangeInclusive<u64>),
    /// Any of these beginnings.
    Magic(Vec<FileMagic>),
}

/// A regular expression. It is compiled when a path begins as it does: contexts of SELinux are thousands of expressions, few
/// of which an image needs.
#[derive(Debug)]
pub(super) struct PathRegex {
    text: Box<str>,
    /// Bytes with which every path begins that matches.
    prefix: Vec<u8>,
    /// Path that the root of the image has for this expression; empty, or with a slash at its end.
    mount_point: Vec<u8>,
    compiled: OnceCell<Option<RegexSet>>,
}

impl PathRegex {
    /// Checks an expression; a malformed one fails with [`Error::BadPattern`](crate::Error::BadPattern).
    pub(super) fn new(text: &str, mount_point: &str) -> Result<Self, Error> {
        RegexSet::new(&[text])?;
        let mut front = normal_path(mount_point.as_bytes());
        if !front.is_empty() {
            front.push(b'/');
        }
        Ok(PathRegex { text: text.into(), prefix: prefix(text), mount_point: front, compiled: OnceCell::new() })
    }

    fn is_match(&self, path: &[u8]) -> bool {
        // What compiled once compiles again.
        let compiled = || self.compiled.get_or_init(|| RegexSet::new(&[&*self.text]).ok()).as_ref();
        let begins = self.mount_point.iter().chain(path).take(self.prefix.len()).eq(&self.prefix);
        if !begins {
            return false;
        }
        if self.mount_point.is_empty() {
            return compiled().is_some_and(|regexes| regexes.is_match(path));
        }
        let whole = [&self.mount_point, path].concat();
        // The root has no slash at its end.
        let whole = if path.is_empty() { &whole[..whole.len() - 1] } else { &whole[..] };
        compiled().is_some_and(|regexes| regexes.is_match(whole))
    }
}

/// Beginnings of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileMagic {
    Bytes(Vec<u8>),
    /// Any of the table that are compressed.
    Compressed,
    Text,
}

/// Names of beginnings; true if such files are compressed.
const MAGIC: [(&str, &[u8], bool); 22] = [
    ("elf", b"\x7fELF", false),
    ("script", b"#!", false),
    ("gzip", b"\x1f\x8b", true),
    ("xz", b"\xfd7zXZ\0", true),
    ("zstd", b"\x28\xb5\x2f\xfd", true),
    ("bzip2", b"BZh", true),
    ("lz4", b"\x04\x22\x4d\x18", true),
    ("zip", b"PK\x03\x04", true),
    ("7z", b"7z\xbc\xaf\x27\x1c", true),
    ("rar", b"Rar!\x1a\x07", true),
    ("png", b"\x89PNG\r\n\x1a\n", true),
    ("jpeg", b"\xff\xd8\xff", true),
    ("gif", b"GIF8", true),
    ("ogg", b"OggS", true),
    ("flac", b"fLaC", true),
    ("matroska", b"\x1a\x45\xdf\xa3", true),
    ("woff2", b"wOF2", true),
    ("squashfs", b"hsqs", true),
    ("pdf", b"%PDF-", false),
    ("sqlite", b"SQLite format 3\0", false),
    ("ar", b"!<arch>\n", false),
    ("wav", b"RIFF", false),
];

impl FileMagic {
    /// Finds a beginning by its name, or by its bytes as `0x` and hexadecimal digits.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        if let Some(digits) = name.strip_prefix("0x") {
            let bytes =
                from_hex(digits).filter(|bytes| (1..=usize::try_from(HEAD_LEN).unwrap_or(0)).contains(&bytes.len()));
            return bytes
                .map(FileMagic::Bytes)
                .ok_or_else(|| format!("`{name}` is not a row of pairs of hexadecimal digits"));
        }
        match name {
            "compressed" => Ok(FileMagic::Compressed),
            "text" => Ok(FileMagic::Text),
            _ => MAGIC
                .iter()
                .find(|(known, ..)| *known == name)
                .map(|(_, bytes, _)| FileMagic::Bytes(bytes.to_vec()))
                .ok_or_else(|| {
                    let known: Vec<&str> = MAGIC.iter().map(|(name, ..)| *name).collect();
                    format!(
                        "unknown magic `{name}`; accepted: compressed, text, {}, or 0x and hexadecimal digits",
                        known.join(", ")
                    )
                }),
        }
    }

    fn begins(&self, head: &[u8]) -> bool {
        match self {
            FileMagic::Bytes(bytes) => head.starts_with(bytes),
            FileMagic::Compressed => MAGIC.iter().any(|(_, bytes, compressed)| *compressed && head.starts_with(bytes)),
            FileMagic::Text => {
                !head.is_empty() && head.iter().all(|byte| *byte >= b' ' || b"\t\n\r\x0c\x1b".contains(byte))
            }
        }
    }
}

/// The entry being tested.
pub(super) struct TestedEntry<'t> {
    pub(super) path: &'t [u8],
    pub(super) inode: &'t Inode<'t>,
    /// Its first bytes, once a test asked for them.
    pub(super) head: Option<Vec<u8>>,
}

impl TestedEntry<'_> {
    /// Returns the first bytes of a regular file. One that cannot be read has none: packing it will report why.
    fn head(&mut self) -> &[u8] {
        self.head.get_or_insert_with(|| match &self.inode.kind {
            Kind::File { size, data: FileData::Source { from, key } } => {
                let mut head = vec![0; usize::try_from((*size).min(HEAD_LEN)).unwrap_or(0)];
                match from.open(*key).and_then(|mut file| file.read_exact_at(&mut head, 0)) {
                    Ok(()) => head,
                    Err(_) => Vec::new(),
                }
            }
            _ => Vec::new(),
        })
    }

    fn depth(&self) -> u64 {
        if self.path.is_empty() { 0 } else { 1 + self.path.iter().filter(|byte| **byte == b'/').count() as u64 }
    }
}

impl EntryTest {
    /// Returns true if the test reads files.
    pub(super) fn reads(&self) -> bool {
        matches!(self.what, TestCondition::Magic(_))
    }

    pub(super) fn passes(&self, subject: &mut TestedEntry<'_>) -> bool {
        let inode = subject.inode;
        let holds = match &self.what {
            TestCondition::Path(path) => **path == *subject.path,
            TestCondition::Glob(glob) => glob.matches(subject.path, matches!(inode.kind, Kind::Dir)),
            TestCondition::Regex(expression) => expression.is_match(subject.path),
            TestCondition::Type(letters) => letters.contains(&inode.kind.letter()),
            TestCondition::Size(range) => matches!(&inode.kind, Kind::File { size, .. } if range.contains(size)),
            TestCondition::Owner(range) => range.contains(&inode.uid.into()),
            TestCondition::Group(range) => range.contains(&inode.gid.into()),
            TestCondition::Depth(range) => range.contains(&subject.depth()),
            TestCondition::Magic(any) => {
                let head = subject.head();
                any.iter().any(|magic| magic.begins(head))
            }
        };
        holds != self.not
    }
}
