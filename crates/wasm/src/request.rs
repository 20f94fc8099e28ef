//! Requests and answers as JSON.

use packfs_image::image::{FileType, Nid, Stat};
use packfs_image::{Error, Finding, Severity, name};
use serde::{Deserialize, Serialize};

/// A request to an image. Paths are as [`name::encode`] writes them: `%XX` stands for bytes that are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub enum ImageRequest {
    /// Facts about the whole image. Answer: `ImageFacts`.
    Info,
    /// Attributes of what is at a path. Answer: `EntryFacts`.
    #[serde(rename_all = "camelCase")]
    Stat {
        /// The path.
        path: String,
        /// True if a symbolic link at the end of the path is followed.
        follow: bool,
    },
    /// A part of the entries of a directory, by name. Answer: `DirectoryListing`.
    List {
        /// The path of the directory.
        path: String,
        /// Number of entries to skip.
        skip: usize,
        /// Maximum number of entries.
        count: usize,
    },
    /// A range of a regular file, as bytes. Answer: fewer bytes than asked for only at the end of the file.
    Read {
        /// Number of the inode, as `EntryFacts::nid` has it.
        nid: String,
        /// First byte.
        offset: u64,
        /// Number of bytes, at most 16 MiB.
        length: usize,
    },
    /// Extended attributes of what is at a path. Answer: a list of `AttributeFacts`.
    Xattrs {
        /// The path; a symbolic link at its end is followed.
        path: String,
    },
    /// The header of an entry in a tar archive, as bytes. The bytes of a regular file come after it, then zeros up to a
    /// multiple of 512 bytes; 1024 zeros end the archive.
    #[serde(rename_all = "camelCase")]
    TarHeader {
        /// The path in the image.
        path: String,
        /// The path in the archive.
        place: String,
        /// The path in the archive of an earlier name of the same inode, to which this one becomes a hard link.
        first_place: Option<String>,
    },
    /// A step of a check, which reads a part of the image. Answer: `CheckStep`, with the number of all steps.
    Check {
        /// Number of the step; the first one, 0, also reports on the metadata.
        step: u32,
    },
}

/// Facts about an image.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageFacts {
    /// `squashfs` or `erofs`.
    pub(crate) format: &'static str,
    /// Length of the image in bytes.
    pub(crate) bytes: u64,
    /// Number of inodes that the image declares.
    pub(crate) inodes: u64,
}

/// Attributes of an entry.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EntryFacts {
    /// Name in its directory; empty for the root.
    pub(crate) name: String,
    /// `file`, `directory`, `symlink`, `char`, `block`, `fifo` or `socket`.
    pub(crate) kind: &'static str,
    /// Length in bytes; 0 for all but regular files.
    pub(crate) size: u64,
    /// The 12 permission bits.
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Time of last modification, in seconds since 1970.
    pub(crate) mtime: i64,
    pub(crate) nlink: u32,
    /// Target of a symbolic link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
    /// Number of the inode in the image, in decimal: it may exceed what a number of JavaScript holds.
    pub(crate) nid: String,
}

/// A part of a directory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DirectoryListing {
    pub(crate) entries: Vec<EntryFacts>,
    /// Number of entries of the whole directory.
    pub(crate) total: usize,
}

/// An extended attribute.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AttributeFacts {
    pub(crate) name: String,
    /// The value in base 64.
    pub(crate) value: String,
}

/// Result of a step of a check.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckStep {
    /// Number of steps of the whole check.
    pub(crate) steps: u32,
    /// Bytes from the beginning of the image that are checked after this step.
    pub(crate) checked: u64,
    pub(crate) findings: Vec<FindingFacts>,
}

/// Something that is wrong or unusual.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FindingFacts {
    /// `damage` or `note`.
    pub(crate) severity: &'static str,
    /// Name of the structure.
    pub(crate) structure: &'static str,
    /// Offset of the structure in the image; missing if the finding is about the whole image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offset: Option<u64>,
    pub(crate) text: String,
}

impl From<Finding> for FindingFacts {
    fn from(finding: Finding) -> Self {
        let severity = match finding.severity {
            Severity::Note => "note",
            // Whatever comes to be known as worse is not less.
            _ => "damage",
        };
        FindingFacts { severity, structure: finding.structure, offset: finding.offset, text: finding.text }
    }
}

impl EntryFacts {
    pub(crate) fn new(entry_name: &[u8], nid: Nid, stat: &Stat) -> Self {
        let size = match stat.kind {
            FileType::File { size } => size,
            _ => 0,
        };
        let target = match &stat.kind {
            FileType::Symlink { target } => Some(name::encode(target).into_owned()),
            _ => None,
        };
        EntryFacts {
            name: name::encode(entry_name).into_owned(),
            kind: stat.kind.word(),
            size,
            mode: stat.mode,
            uid: stat.uid,
            gid: stat.gid,
            mtime: stat.mtime.secs,
            nlink: stat.nlink,
            target,
            nid: nid.0.to_string(),
        }
    }
}

/// An error as JavaScript gets it.
#[derive(Debug, Serialize)]
struct RequestFailure<'e> {
    /// `NotFound`, `WrongType`, `Damaged`, `Unsupported`, `NoImage` or `Failed`.
    code: &'static str,
    message: &'e str,
}

/// Returns an error as JSON, with a code to act on and a message to show.
pub fn describe_error(error: &Error) -> String {
    let code = match error {
        Error::NotFound { .. } => "NotFound",
        Error::WrongType { .. } | Error::LinkLoop { .. } => "WrongType",
        Error::NoImage { .. } => "NoImage",
        Error::Corrupt { .. } | Error::Damaged { .. } | Error::Entry { .. } => "Damaged",
        Error::Codec(_) | Error::Unsupported(_) => "Unsupported",
        _ => "Failed",
    };
    let message = &error.to_string();
    serde_json::to_string(&RequestFailure { code, message }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_checked() {
        let read: ImageRequest = serde_json::from_str(r#"{"do":"read","nid":"7","offset":1,"length":2}"#).unwrap();
        assert_eq!(read, ImageRequest::Read { nid: "7".into(), offset: 1, length: 2 });
        for wrong in [r#"{"do":"erase"}"#, r#"{"do":"list"}"#, r#"{"do":"stat","path":"a","follow":1}"#, "[]", ""] {
            assert!(serde_json::from_str::<ImageRequest>(wrong).is_err(), "{wrong}");
        }
    }
}
