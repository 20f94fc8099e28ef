//! One difference between two images, for people and for programs.

use std::fmt;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::name;

/// Something in which two images differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The entry; the root is empty.
    pub path: Box<[u8]>,
    /// What of it.
    pub aspect: Aspect,
    /// What the first image has, in words; `None` if nothing.
    pub first: Option<String>,
    /// What the second image has, in words; `None` if nothing.
    pub second: Option<String>,
}

/// What of an entry differs.
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
    /// What the symbolic link points to.
    Target,
    /// Its device number.
    Device,
    /// The extended attribute of this name.
    Xattr(Box<[u8]>),
    /// Which other path is the same file.
    Links,
}

impl Aspect {
    /// One word, as in JSON.
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
        }
    }
}

impl Difference {
    /// The difference in a line, `names` being what to call the two images.
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
            _ => out.skip_field("xattr")?,
        }
        out.serialize_field("first", &self.first)?;
        out.serialize_field("second", &self.second)?;
        out.end()
    }
}

/// A name as text that is safe to print.
pub(super) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&name::show(bytes)).into_owned()
}

/// The beginning of a value.
pub(super) fn excerpt(value: &[u8]) -> String {
    const MOST: usize = 64;
    match value.get(..MOST) {
        Some(start) if value.len() > MOST => format!("\"{}\"... ({} bytes)", start.escape_ascii(), value.len()),
        _ => format!("\"{}\"", value.escape_ascii()),
    }
}
