//! The answers in JSON: what an image is, what is in a directory, where the data of a file is.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

use packfs_blocks::name;
use packfs_blocks::percent::{self, is_unreserved};
use packfs_image::AnyImage;
use packfs_image::image::{Entry, FileType, Nid};
use packfs_image::placement::PlacedPiece;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::explorer::area_name;
use crate::http::request::HttpRequest;
use crate::http::response::HttpResponse;
use crate::http::url;
use crate::routes::{JSON, json_response, json_stream, no_such_path};
use crate::served::{ResolvedEntry, ServedImage};
use crate::{Error, Result};

#[derive(Serialize)]
struct ImageInfo<'a> {
    name: &'a str,
    format: &'static str,
    bytes: u64,
    inodes: u64,
    version: &'a str,
}

/// Tells what an image is.
pub(crate) fn describe_image(served: &ServedImage) -> Result<HttpResponse> {
    // As the format is named on command lines.
    let format = match &*served.image {
        AnyImage::Squashfs(_) => "squashfs",
        AnyImage::Erofs(_) => "erofs",
    };
    let bytes = served.bytes.len();
    let inodes = served.image.image().inode_count();
    json_response(&ImageInfo { name: &served.name, format, bytes, inodes, version: &served.version })
}

/// Lists a directory.
pub(crate) fn list_directory(served: &ServedImage, dir: &ResolvedEntry) -> Result<HttpResponse> {
    // The names are read at once, and attributes only as the answer is written: a directory may have millions of
    // entries.
    let entries = served.image.image().read_dir(dir.nid)?;
    Ok(json_stream(DirListing { image: Arc::clone(&served.image), entries }))
}

/// A directory; attributes are read as it is written.
struct DirListing {
    image: Arc<AnyImage>,
    entries: Vec<Entry>,
}

/// An entry of a listing.
#[derive(Serialize)]
struct ListingRow {
    /// See [`name::encode`].
    name: String,
    /// Address, relative to that of the listing with a `/` after it.
    url: String,
    #[serde(rename = "type")]
    kind: &'static str,
    size: Option<u64>,
    target: Option<String>,
    mode: u16,
    uid: u32,
    gid: u32,
    /// Seconds since 1970.
    mtime: i64,
}

/// An entry whose inode cannot be read.
#[derive(Serialize)]
struct UnreadableRow {
    name: String,
    error: String,
}

impl Serialize for DirListing {
    fn serialize<S: Serializer>(&self, out: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(Some(1))?;
        map.serialize_entry("entries", &ListingRows(self))?;
        map.end()
    }
}

struct ListingRows<'l>(&'l DirListing);

impl Serialize for ListingRows<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> std::result::Result<S::Ok, S::Error> {
        let mut rows = out.serialize_seq(Some(self.0.entries.len()))?;
        for entry in &self.0.entries {
            // One broken inode does not hide the others.
            match describe_entry(self.0.image.image(), entry) {
                Ok(row) => rows.serialize_element(&row)?,
                Err(error) => {
                    let name = name::encode(&entry.name).into_owned();
                    rows.serialize_element(&UnreadableRow { name, error: error.to_string() })?;
                }
            }
        }
        rows.end()
    }
}

fn describe_entry(image: &dyn packfs_image::Image, entry: &Entry) -> Result<ListingRow> {
    let stat = image.stat(entry.nid)?;
    let (size, target, end) = match &stat.kind {
        FileType::File { size } => (Some(*size), None, ""),
        FileType::Symlink { target } => (None, Some(name::encode(target).into_owned()), ""),
        // With a slash, so that it can be used as a base of further addresses.
        FileType::Dir => (None, None, "/"),
        _ => (None, None, ""),
    };
    Ok(ListingRow {
        name: name::encode(&entry.name).into_owned(),
        url: percent::encode(&entry.name, is_unreserved) + end,
        kind: stat.kind.word(),
        size,
        target,
        mode: stat.mode,
        uid: stat.uid,
        gid: stat.gid,
        mtime: stat.mtime.secs,
    })
}

/// A piece of a file.
#[derive(Serialize)]
struct FileExtent {
    offset: u64,
    length: u64,
    hole: bool,
    stored: Option<StoredBytes>,
    fragment: Option<FragmentPosition>,
}

/// Stored bytes that a piece is decoded from.
#[derive(Serialize)]
struct StoredBytes {
    /// `image`, `metabox`, or the number of a device.
    area: String,
    position: u64,
    length: u64,
    codec: Option<&'static str>,
    partial: bool,
    inline: bool,
}

/// Position among decoded bytes that several files share.
#[derive(Serialize)]
struct FragmentPosition {
    index: Option<u32>,
    offset: u64,
}

impl From<PlacedPiece> for FileExtent {
    fn from(PlacedPiece { offset, len, stored, fragment, .. }: PlacedPiece) -> Self {
        let hole = stored.is_none();
        let stored = stored.map(|at| StoredBytes {
            area: area_name(at.area),
            position: at.position,
            length: at.len,
            codec: at.codec,
            partial: at.partial,
            inline: at.inline,
        });
        let fragment = fragment.map(|at| FragmentPosition { index: at.index, offset: at.offset });
        FileExtent { offset, length: len, hole, stored, fragment }
    }
}

/// Tells of which pieces a file consists, and where the image stores them.
pub(crate) fn map_file(served: &ServedImage, request: &HttpRequest) -> Result<HttpResponse> {
    let path = request.parameter("path").unwrap_or_default();
    // Decoded here, since a parameter may contain what is a separator in a path.
    // `..` and empty names are refused as in a path.
    let Some(path) = url::names(&path) else { return Ok(no_such_path()) };
    let Some(found) = served.find(&path)? else { return Ok(no_such_path()) };
    let FileType::File { size } = found.stat.kind else {
        return Ok(HttpResponse::refuse(404, "not a regular file"));
    };
    let image = Arc::clone(&served.image);
    let write = move |out: &mut dyn Write| write_map(&image, found.nid, size, out);
    Ok(HttpResponse::stream(JSON, Box::new(write)))
}

/// Writes the pieces as they are found: a large file has millions.
fn write_map(image: &AnyImage, nid: Nid, size: u64, out: &mut dyn Write) -> Result<()> {
    write!(out, "{{\"size\":{size},\"extents\":[")?;
    let mut before = "";
    let mut written = Ok(());
    image.placement(nid, &mut |placed| {
        // The callback cannot fail, so the error waits outside of it.
        let put = out.write_all(before.as_bytes()).map_err(Error::from);
        written = put.and_then(|()| Ok(serde_json::to_writer(&mut *out, &FileExtent::from(placed))?));
        before = ",";
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    Ok(out.write_all(b"]}")?)
}
