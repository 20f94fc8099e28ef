//! A difference between two images, as text and as JSON.

use std::fmt;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::name;

/// A difference between two images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Path of the entry; empty for the root.
    pub path: Box<[u8]>,
    /// Aspect of the entry that differs.
    pub aspect: Aspect,
    /// Value in the first image, as text; `None` if absent.
    pub first: Option<String>,
    /// Value in the second image, as text; `None` if absent.
    pub second: Option<String>,
}

/// Aspect of an entry that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Aspect {
    /// The entry itself: only one image has it.
    Entry,
    /// Its type.
    Type,
    /// Its permission bits.
    Mode,
    /// Its owner and group.
    Owner,
    /// Its time of last modification.
    Time,
    /// Its length.
    Size,
    /// Its bytes.
    Content,
    /// The target of the symbolic link.
    Target,
    /// Its device number.
    Device,
    /// The extended attribute of this name.
    Xattr(Box<[u8]>),
    /// The other path of the same file.
    Links,
    /// The number of its inode.
    Inode,
    /// The field of this name in the superblocks; the difference concerns no entry.
    Superblock(&'static str),
}

impl Aspect {
    /// Returns the aspect as one word, as in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Aspect::Entry => "entry",
            Aspect::Type => "type",
            Aspect::Mode => "mode",
            Aspect::Owner => "owner",
            Aspect::Time => "mtime",
            Aspect::Size => "size",
            Aspect::Content => "content",
            Aspect::Target => "target",
            Aspect::Device => "device",
            Aspect::Xattr(_) => "xattr",
            Aspect::Links => "links",
            Aspect::Inode => "inode",
            Aspect::Superblock(_) => "superblock",
        }
    }
}

impl Difference {
    /// Formats the difference as one line; `names` are the names of the two images.
    pub fn describe<'d>(&'d self, names: (&'d str, &'d str)) -> impl fmt::Display + 'd {
        Described { difference: self, names }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(("the first", "the second")).fmt(f)
    }
}

struct Described<'d> {
    difference: &'d Difference,
    names: (&'d str, &'d str),
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { path, aspect, first, second } = self.difference;
        let path = if path.is_empty() { ".".into() } else { shown(path) };
        let (one, two) = (first.as_deref(), second.as_deref());
        match (aspect, one, two) {
            (Aspect::Entry, Some(kind), _) => write!(f, "{path}: only in {} ({kind})", self.names.0),
            (Aspect::Entry, None, kind) => write!(f, "{path}: only in {} ({})", self.names.1, kind.unwrap_or_default()),
            (Aspect::Xattr(name), ..) => {
                write!(f, "{path}: xattr {}: {} / {}", shown(name), one.unwrap_or("none"), two.unwrap_or("none"))
            }
            (Aspect::Superblock(field), ..) => {
                write!(f, "superblock: {field}: {} / {}", one.unwrap_or("none"), two.unwrap_or("none"))
            }
            _ => write!(f, "{path}: {}: {} / {}", aspect.word(), one.unwrap_or("none"), two.unwrap_or("none")),
        }
    }
}

impl Serialize for Difference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Difference", 5)?;
        out.serialize_field("path", &name::encode(&self.path))?;
        out.serialize_field("what", self.aspect.word())?;
        match &self.aspect {
            Aspect::Xattr(xattr) => out.serialize_field("xattr", &name::encode(xattr))?,
            Aspect::Superblock(field) => out.serialize_field("field", field)?,
            _ => out.skip_field("xattr")?,
        }
        out.serialize_field("first", &self.first)?;
        out.serialize_field("second", &self.second)?;
        out.end()
    }
}

/// Returns a name as text that is safe to print.
pub(super) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&name::show(bytes)).into_owned()
}

/// Returns the beginning of a value.
pub(super) fn excerpt(value: &[u8]) -> String {
    const MOST: usize = 64;
    match value.get(..MOST) {
        Some(start) if value.len() > MOST => format!("\"{}\"... ({} bytes)", start.escape_ascii(), value.len()),
        _ => format!("\"{}\"", value.escape_ascii()),
    }
}
