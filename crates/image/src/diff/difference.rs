//! A difference between two images, as text and as JSON.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

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
        DescribedDifference { difference: self, names }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(("the first", "the second")).fmt(f)
    }
}

struct DescribedDifference<'d> {
    difference: &'d Difference,
    names: (&'d str, &'d str),
}

impl fmt::Display for DescribedDifference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { path, aspect, first, second } = self.difference;
        let path = if path.is_empty() { ".".into() } else { shown(path) };
        let one = first.as_deref();
        let two = second.as_deref();
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

/// A difference, as it is serialised.
#[derive(Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema), schemars(rename = "Difference"))]
struct DifferenceFields<'d> {
    /// Path of the entry; empty for the root, and for a difference of superblocks.
    path: Cow<'d, str>,
    /// Aspect that differs: `entry` (only one side has it), `type`, `mode`, `owner`, `mtime`, `size`, `content`,
    /// `target`, `device`, `xattr`, `links`, `inode` or `superblock`.
    what: &'static str,
    /// Name of the extended attribute; absent unless `what` is `xattr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    xattr: Option<Cow<'d, str>>,
    /// Name of the field of the superblock; absent unless `what` is `superblock`.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'static str>,
    /// Value of the first side as text; null if it has none.
    first: Option<&'d str>,
    /// Value of the second side as text; null if it has none.
    second: Option<&'d str>,
}

impl Serialize for Difference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let xattr = if let Aspect::Xattr(xattr) = &self.aspect { Some(name::encode(xattr)) } else { None };
        let field = if let Aspect::Superblock(field) = self.aspect { Some(field) } else { None };
        let fields = DifferenceFields {
            path: name::encode(&self.path),
            what: self.aspect.word(),
            xattr,
            field,
            first: self.first.as_deref(),
            second: self.second.as_deref(),
        };
        fields.serialize(serializer)
    }
}

#[cfg(feature = "json-schema")]
impl schemars::JsonSchema for Difference {
    // In place of a reference to it: the schema is that of the fields.
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Difference".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        generator.subschema_for::<DifferenceFields<'_>>()
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
