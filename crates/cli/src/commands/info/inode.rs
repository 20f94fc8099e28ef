//! `packfs info --inode`: where and how an image stores one inode.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Result;
use packfs_image::erofs::{self, Layout};
use packfs_image::image::{FileType, Nid, Stat};
use packfs_image::placement::{self, Area, PlacedPiece};
use packfs_image::squashfs::{self, BodyFacts};
use packfs_image::{AnyImage, Error, sink};
use serde::ser::{Error as _, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::commands::list::json::JsonEntry;
use crate::output::{self, units};

/// Where and how an image stores one inode.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct InodeReport<'i> {
    #[serde(flatten)]
    entry: JsonEntry,
    #[serde(flatten)]
    inode: StoredInode,
    /// Bytes of the file outside holes.
    data_bytes: u64,
    /// Stored bytes of blocks that hold no fragments.
    stored_bytes: u64,
    /// Bytes of the file in fragments.
    fragment_bytes: u64,
    /// Extents of the file, in its order.
    #[cfg_attr(test, schemars(with = "Vec<FileExtent>"))]
    extents: LazyExtents<'i>,
    #[serde(skip)]
    stat: Stat,
}

/// An inode as its format stores it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StoredInode {
    /// `basic` or `extended` (SquashFS), `compact` or `extended` (EROFS).
    form: &'static str,
    /// Layout of the data in EROFS: `flat plain`, `flat inline`, `compressed full`, `compressed compact` or
    /// `chunk based`; null without data, and in SquashFS.
    layout: Option<&'static str>,
    #[serde(flatten)]
    at: StoredPosition,
    /// Offset of the inode in the decoded metadata block at `position`; absent in EROFS.
    #[serde(skip_serializing_if = "Option::is_none")]
    block_offset: Option<usize>,
    #[serde(flatten)]
    xattrs: XattrPlacement,
    /// Position of a directory's listing; absent for all other entries, and in EROFS.
    #[serde(skip_serializing_if = "Option::is_none")]
    listing: Option<DirListing>,
}

/// Position of stored bytes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StoredPosition {
    /// Byte offset in the image, in an additional device, or in the metabox; of an inode of SquashFS, that of its metadata
    /// block.
    position: u64,
    /// Number of the additional device, counted from 1; absent if the bytes are not on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<u16>,
    /// True if the bytes are in the metabox; absent if they are not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    metabox: bool,
}

/// Extended attributes: the set that has them (SquashFS), or the numbers of those in each place (EROFS).
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum XattrPlacement {
    Set {
        /// Index of the set of extended attributes; null if there are none.
        xattr_set: Option<u32>,
    },
    Counts {
        /// Number of extended attributes stored after the inode.
        inline_xattrs: u32,
        /// Number of shared extended attributes.
        shared_xattrs: u32,
        /// Bytes that the extended attributes take after the inode.
        xattr_bytes: u32,
    },
}

/// Position of a directory's listing (SquashFS).
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DirListing {
    /// Byte offset of the metadata block in which the listing begins.
    start: u64,
    /// Offset of the listing in the decoded metadata block.
    block_offset: u16,
    /// Length of the listing in bytes plus 3, as stored.
    size: u32,
    /// Inode number of the parent directory.
    parent: u32,
    /// Number of entries of its index.
    index: u16,
}

/// Extents, which are read while they are printed: a file may have millions.
struct LazyExtents<'i> {
    image: &'i AnyImage,
    nid: Nid,
}

/// A range of a file, and its place in the image.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FileExtent {
    /// Position of the range in the file.
    offset: u64,
    /// Length of the range in the file.
    len: u64,
    #[serde(flatten)]
    at: Option<StoredPosition>,
    /// Number of stored bytes; 0 for a hole.
    stored: u64,
    /// Name of the codec; null for a hole and if the bytes are stored uncompressed.
    codec: Option<&'static str>,
    /// True if the bytes are stored after the inode; absent if they are not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    inline: bool,
    /// True if the extent uses only the beginning of the decoded bytes; absent if it uses all of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    partial: bool,
    /// Place in a fragment; absent if the extent is not in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    fragment: Option<FragmentPosition>,
}

/// Place of an extent in a fragment.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FragmentPosition {
    /// Number of the fragment block; absent in EROFS.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u32>,
    /// Byte offset in the decoded fragment block, or in the packed inode.
    offset: u64,
}

impl<'i> InodeReport<'i> {
    pub(super) fn new(image: &'i AnyImage, path: &Path) -> Result<Self> {
        let name = path.as_os_str().as_bytes();
        let nid = sink::lookup(image.image(), name)?.ok_or_else(|| Error::NotFound { path: path.to_owned() })?;
        let stat = image.image().stat(nid)?;
        let inside: Vec<&[u8]> = packfs_image::tree::components(name).collect();
        let entry = JsonEntry::new(image.image(), &inside.join(&b"/"[..]), nid, &stat, None)?;
        // The totals come before the extents, which are read again then: a file may have millions.
        let totals = ExtentTotals::of(image, nid)?;
        let ExtentTotals { data: data_bytes, stored: stored_bytes, fragments: fragment_bytes, .. } = totals;
        let inode = StoredInode::new(image, nid)?;
        let extents = LazyExtents { image, nid };
        Ok(InodeReport { entry, inode, data_bytes, stored_bytes, fragment_bytes, extents, stat })
    }

    /// Prints the facts, then the extents as a table.
    pub(super) fn print(&self, out: &mut impl Write, path: &Path) -> Result<()> {
        let Stat { ino, mode, uid, gid, mtime, nlink, kind, .. } = &self.stat;
        write!(out, "path         ")?;
        output::write_name(out, path.as_os_str().as_bytes())?;
        writeln!(out, "\ntype         {}", self.entry.kind)?;
        writeln!(out, "inode        {ino}, {}", self.inode.form)?;
        write!(out, "stored       at byte {}", self.inode.at.describe())?;
        match self.inode.block_offset {
            Some(offset) => {
                writeln!(out, ", in a metadata block from its decoded byte {} on", units::count(offset as u64))?
            }
            None => writeln!(out)?,
        }
        writeln!(out, "mode         {mode:04o}")?;
        writeln!(out, "owner        {uid}:{gid}")?;
        writeln!(out, "modified     {} UTC ({}.{:09})", units::utc(*mtime), mtime.secs, mtime.nanos)?;
        writeln!(out, "links        {nlink}")?;
        self.print_xattrs(out)?;
        if let Some(listing) = &self.inode.listing {
            listing.print(out)?;
        }
        if let FileType::Symlink { target } = kind {
            write!(out, "target       ")?;
            output::write_name(out, target)?;
            writeln!(out)?;
        }
        if let Some([major, minor]) = self.entry.device {
            writeln!(out, "device       {major}:{minor}")?;
        }
        if let Some(layout) = self.inode.layout {
            writeln!(out, "layout       {layout}")?;
        }
        self.print_extents(out)
    }

    fn print_xattrs(&self, out: &mut impl Write) -> io::Result<()> {
        match &self.inode.xattrs {
            XattrPlacement::Set { xattr_set: None } => writeln!(out, "xattrs       none")?,
            XattrPlacement::Set { xattr_set: Some(set) } => {
                writeln!(out, "xattrs       {}, set {set}", self.entry.xattrs.len())?
            }
            XattrPlacement::Counts { inline_xattrs, shared_xattrs, xattr_bytes } => {
                writeln!(
                    out,
                    "xattrs       {inline_xattrs} inline, {shared_xattrs} shared, {} after the inode",
                    units::of((*xattr_bytes).into(), "byte")
                )?;
            }
        }
        Ok(())
    }

    fn print_extents(&self, out: &mut impl Write) -> Result<()> {
        let LazyExtents { image, nid } = self.extents;
        let size = self.entry.size.unwrap_or_default();
        if matches!(self.stat.kind, FileType::File { .. }) {
            writeln!(
                out,
                "size         {}, {} outside holes",
                units::of(size, "byte"),
                units::of(self.data_bytes, "byte")
            )?;
            writeln!(
                out,
                "stored       {} in its own blocks; {} of the file in fragments",
                units::of(self.stored_bytes, "byte"),
                units::of(self.fragment_bytes, "byte")
            )?;
        }
        let mut written: io::Result<()> = Ok(());
        let mut first = true;
        image.placement(nid, &mut |placed| {
            if std::mem::take(&mut first) {
                written =
                    writeln!(out, "\n{:>14} {:>12} {:>14} {:>10}  CODEC", "OFFSET", "LENGTH", "AT BYTE", "STORED");
            }
            if written.is_ok() {
                written = write_extent(out, &placed);
            }
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(written?)
    }
}

fn write_extent(out: &mut impl Write, placed: &PlacedPiece) -> io::Result<()> {
    write!(out, "{:>14} {:>12} ", placed.offset, placed.len)?;
    let Some(stored) = placed.stored else { return writeln!(out, "{:>14} {:>10}  hole", "-", 0) };
    write!(out, "{:>14} {:>10}  {}", stored.position, stored.len, stored.codec.unwrap_or("none"))?;
    match stored.area {
        Area::Device(number) => write!(out, ", on device {number}")?,
        Area::Metabox => write!(out, ", in the metabox")?,
        _ => {}
    }
    if stored.inline {
        write!(out, ", after the inode")?;
    }
    if stored.partial {
        write!(out, ", only the beginning")?;
    }
    match placed.fragment {
        Some(placement::FragmentPosition { index: Some(index), offset, .. }) => {
            writeln!(out, ", fragment {index} from {offset} on")
        }
        Some(placement::FragmentPosition { offset, .. }) => writeln!(out, ", packed inode from {offset} on"),
        None => writeln!(out),
    }
}

impl StoredInode {
    fn new(image: &AnyImage, nid: Nid) -> Result<StoredInode> {
        Ok(match image {
            AnyImage::Squashfs(reader) => {
                let facts = reader.facts(nid)?;
                StoredInode {
                    form: if facts.extended() { "extended" } else { "basic" },
                    layout: None,
                    at: StoredPosition { position: facts.block, device: None, metabox: false },
                    block_offset: Some(facts.offset),
                    xattrs: XattrPlacement::Set { xattr_set: facts.xattr_set },
                    listing: DirListing::new(reader, &facts.body),
                }
            }
            AnyImage::Erofs(reader) => {
                let facts = reader.facts(nid)?;
                let erofs::InodeFacts { inline_xattrs, shared_xattrs, xattr_bytes, .. } = facts;
                StoredInode {
                    form: if facts.extended { "extended" } else { "compact" },
                    layout: (facts.size > 0).then(|| layout_name(facts.layout)),
                    at: StoredPosition::new(facts.area, facts.position),
                    block_offset: None,
                    xattrs: XattrPlacement::Counts { inline_xattrs, shared_xattrs, xattr_bytes },
                    listing: None,
                }
            }
        })
    }
}

/// Sums over all extents.
#[derive(Default)]
struct ExtentTotals {
    /// Bytes outside holes.
    data: u64,
    /// Stored bytes of blocks that are not shared as fragments.
    stored: u64,
    /// Bytes in fragments.
    fragments: u64,
    /// Position of the last cluster, of which several extents may have a part.
    last: Option<(Area, u64)>,
}

impl ExtentTotals {
    fn of(image: &AnyImage, nid: Nid) -> Result<ExtentTotals> {
        let mut totals = ExtentTotals::default();
        image.placement(nid, &mut |placed| {
            totals.add(&placed);
            ControlFlow::Continue(())
        })?;
        Ok(totals)
    }

    fn add(&mut self, placed: &PlacedPiece) {
        let Some(stored) = placed.stored else { return };
        self.data = self.data.saturating_add(placed.len);
        if placed.fragment.is_some() {
            self.fragments = self.fragments.saturating_add(placed.len);
        } else if self.last.replace((stored.area, stored.position)) != Some((stored.area, stored.position)) {
            self.stored = self.stored.saturating_add(stored.len);
        }
    }
}

impl StoredPosition {
    fn new(area: Area, position: u64) -> StoredPosition {
        let device = if let Area::Device(number) = area { Some(number) } else { None };
        StoredPosition { position, device, metabox: area == Area::Metabox }
    }

    fn describe(&self) -> String {
        let position = units::count(self.position);
        match (self.device, self.metabox) {
            (Some(number), _) => format!("{position} of device {number}"),
            (None, true) => format!("{position} of the metabox"),
            (None, false) => position,
        }
    }
}

impl DirListing {
    fn new(reader: &squashfs::SquashfsReader, body: &BodyFacts) -> Option<DirListing> {
        let &BodyFacts::Dir { start, offset, size, parent, index, .. } = body else { return None };
        let start = reader.superblock().directory_table.saturating_add(start.into());
        Some(DirListing { start, block_offset: offset, size, parent, index })
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let DirListing { start, block_offset, size, parent, index } = self;
        let start = units::count(*start);
        writeln!(
            out,
            "listing      {}, in the metadata block at byte {start} from its decoded byte {block_offset} on",
            units::of((*size).into(), "byte")
        )?;
        writeln!(out, "parent       inode {parent}")?;
        writeln!(out, "index        {}", units::of((*index).into(), "entry"))?;
        Ok(())
    }
}

impl Serialize for LazyExtents<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(None)?;
        let mut written = Ok(());
        let read = self.image.placement(self.nid, &mut |placed| {
            written = rows.serialize_element(&FileExtent::new(&placed));
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        read.map_err(S::Error::custom)?;
        written?;
        rows.end()
    }
}

impl FileExtent {
    fn new(placed: &PlacedPiece) -> FileExtent {
        let PlacedPiece { offset, len, stored, fragment, .. } = *placed;
        FileExtent {
            offset,
            len,
            at: stored.map(|stored| StoredPosition::new(stored.area, stored.position)),
            stored: stored.map_or(0, |stored| stored.len),
            codec: stored.and_then(|stored| stored.codec),
            inline: stored.is_some_and(|stored| stored.inline),
            partial: stored.is_some_and(|stored| stored.partial),
            fragment: fragment.map(|fragment| FragmentPosition { index: fragment.index, offset: fragment.offset }),
        }
    }
}

/// Returns the kernel's name of a data layout.
fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Plain => "flat plain",
        Layout::CompressedFull => "compressed full",
        Layout::Inline => "flat inline",
        Layout::CompressedCompact => "compressed compact",
        Layout::Chunks => "chunk based",
    }
}
