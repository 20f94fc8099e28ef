//! Entries as JSON.

use anyhow::Result;
use packfs_image::Image;
use packfs_image::image::{FileType, Nid, Stat};
use packfs_image::name::encode;
use serde::Serialize;

/// See `docs/guide/json.md`.
#[derive(Serialize)]
pub(crate) struct JsonEntry {
    path: String,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    mode: String,
    uid: u32,
    gid: u32,
    mtime: i64,
    #[serde(skip_serializing_if = "is_zero")]
    mtime_nanos: u32,
    inode: u64,
    nlink: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<[u32; 2]>,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub(crate) xattrs: serde_json::Map<String, serde_json::Value>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl JsonEntry {
    /// Describes an inode; `total` is that of a directory, if it is known.
    pub(crate) fn new(image: &dyn Image, path: &[u8], nid: Nid, stat: &Stat, total: Option<u64>) -> Result<Self> {
        let (mut size, mut target, mut device) = (None, None, None);
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
        let mut xattrs = serde_json::Map::new();
        if stat.has_xattrs {
            for (name, value) in image.xattrs(nid)? {
                xattrs.insert(encode(&name).into_owned(), encode(&value).into());
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
