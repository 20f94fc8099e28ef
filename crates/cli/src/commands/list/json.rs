//! Entries as JSON.

use std::collections::BTreeMap;

use anyhow::Result;
use packfs_image::Image;
use packfs_image::image::{FileType, Nid, Stat};
use packfs_image::name::encode;
use serde::Serialize;

use crate::output::json::JsonDocument;

/// Entry of an image.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct JsonEntry {
    /// Path in the image; empty for the root.
    path: String,
    /// `directory`, `file`, `symlink`, `character device`, `block device`, `fifo` or `socket`.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// Permission bits in octal, at least four digits: `0755`.
    mode: String,
    /// Number of the owner.
    uid: u32,
    /// Number of the group.
    gid: u32,
    /// Time of last modification in seconds since 1970.
    mtime: i64,
    /// Nanoseconds after `mtime`; absent if there are none (always in SquashFS).
    #[serde(skip_serializing_if = "is_zero")]
    mtime_nanos: u32,
    /// Number of the inode; hard links of a file have the same one.
    inode: u64,
    /// Number of links.
    nlink: u32,
    /// Length in bytes; absent unless the entry is a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
    /// Bytes of all listed files below, each counted once; absent unless the entry is a directory and `--du` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    /// Target of a symbolic link; absent for all other entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Major and minor number of a device; absent for all other entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<[u32; 2]>,
    /// Values of extended attributes by name; absent if there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) xattrs: BTreeMap<String, String>,
}

/// Entries of an image. They are printed one by one, as there may be millions.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct EntryList {
    /// Entries in the order of the listing.
    entries: Vec<JsonEntry>,
}

impl JsonDocument for EntryList {
    const KIND: &'static str = "list";
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl JsonEntry {
    /// Describes an inode; `total` is that of a directory, if it is known.
    pub(crate) fn new(image: &dyn Image, path: &[u8], nid: Nid, stat: &Stat, total: Option<u64>) -> Result<Self> {
        let mut size = None;
        let mut target = None;
        let mut device = None;
        let kind = match &stat.kind {
            FileType::Dir => "directory",
            FileType::File { size: len } => {
                size = Some(*len);
                "file"
            }
            FileType::Symlink { target: to } => {
                target = Some(encode(to).into_owned());
                "symlink"
            }
            FileType::Char(number) | FileType::Block(number) => {
                device = Some([number.major, number.minor]);
                if matches!(stat.kind, FileType::Char(_)) { "character device" } else { "block device" }
            }
            FileType::Fifo => "fifo",
            FileType::Socket => "socket",
        };
        let mut xattrs = BTreeMap::new();
        if stat.has_xattrs {
            for (name, value) in image.xattrs(nid)? {
                xattrs.insert(encode(&name).into_owned(), encode(&value).into_owned());
            }
        }
        Ok(JsonEntry {
            path: encode(path).into_owned(),
            kind,
            mode: format!("{:04o}", stat.mode),
            uid: stat.uid,
            gid: stat.gid,
            mtime: stat.mtime.secs,
            mtime_nanos: stat.mtime.nanos,
            inode: stat.ino,
            nlink: stat.nlink,
            size,
            total,
            target,
            device,
            xattrs,
        })
    }
}
