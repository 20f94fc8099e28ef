//! Listings as unsquashfs prints them.

use std::io::Write;

use anyhow::Result;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use packfs_image::image::{FileType, Image, Nid, Stat};
use packfs_image::sink::Walk;
use packfs_image::tree::{DeviceNumber, Time};
use packfs_image::{AnyImage, squashfs};

use crate::args::ListArgs;
use crate::commands::list::mode::mode_text;
use crate::commands::list::owners::OwnerNames;
use crate::commands::open;
use crate::output;

/// Number of columns of owner and size together.
const COLUMNS: usize = 25;
/// Number of columns of a device number.
const DEVICE_COLUMNS: usize = 7;

/// The way to print entries.
#[derive(Debug, Clone, Default)]
pub(super) struct ListingStyle {
    /// Beginning of each path.
    pub(super) prefix: Vec<u8>,
    /// True for attributes, too.
    pub(super) long: bool,
    /// True for owners as numbers.
    pub(super) numbers: bool,
    /// True to leave out directories that hold something.
    pub(super) concise: bool,
    /// True for times with seconds.
    pub(super) seconds: bool,
    pub(super) utc: bool,
    /// Time of every entry, if it is not that of the image.
    pub(super) time: Option<Time>,
}

/// Lists what the arguments select.
pub(super) fn print_list(args: &ListArgs, style: &ListingStyle) -> Result<()> {
    let AnyImage::Squashfs(image) = open::image(&args.image)? else { anyhow::bail!("not a SquashFS image") };
    let mut rows = ListingRows::new(&image, style);
    let select = args.select.resolve()?;
    if !select.may_miss {
        // A path that selects nothing is noticed before anything is printed.
        let mut walk = Walk::over(&*image, &select)?;
        // A whole walk, as the paths are matched on the way.
        while walk.step()?.is_some() {}
    }
    output::write_result(|out| {
        rows.root(out)?;
        let mut walk = Walk::over(&*image, &select)?;
        while let Some(visit) = walk.step()? {
            if visit.depth > 0 {
                rows.entry(out, visit.path, visit.nid, &visit.stat)?;
            }
        }
        Ok(())
    })
}

/// Prints entries, a line each.
pub(super) struct ListingRows<'i> {
    image: &'i squashfs::SquashfsReader,
    style: &'i ListingStyle,
    owners: OwnerNames,
    zone: TimeZone,
}

impl<'i> ListingRows<'i> {
    pub(super) fn new(image: &'i squashfs::SquashfsReader, style: &'i ListingStyle) -> Self {
        ListingRows { image, style, owners: OwnerNames::default(), zone: time_zone(style.utc) }
    }

    /// Prints the root, which is shown whatever is selected.
    pub(super) fn root(&mut self, out: &mut impl Write) -> Result<()> {
        let nid = self.image.root();
        self.entry(out, b"", nid, &self.image.stat(nid)?)
    }

    pub(super) fn entry(&mut self, out: &mut impl Write, path: &[u8], nid: Nid, stat: &Stat) -> Result<()> {
        // With concise listings, a directory shows by its entries.
        if self.style.concise && stat.kind == FileType::Dir && !self.image.read_dir(nid)?.is_empty() {
            return Ok(());
        }
        if self.style.long {
            self.attributes(out, nid, stat)?;
        }
        output::write_name(out, &self.style.prefix)?;
        if !path.is_empty() {
            out.write_all(b"/")?;
            output::write_name(out, path)?;
        }
        if let (true, FileType::Symlink { target }) = (self.style.long, &stat.kind) {
            out.write_all(b" -> ")?;
            output::write_name(out, target)?;
        }
        out.write_all(b"\n")?;
        Ok(())
    }

    fn attributes(&mut self, out: &mut impl Write, nid: Nid, stat: &Stat) -> Result<()> {
        let owner = if self.style.numbers {
            format!("{}/{}", stat.uid, stat.gid)
        } else {
            let user = self.owners.user(stat.uid).to_owned();
            format!("{user}/{}", self.owners.group(stat.gid))
        };
        write!(out, "{} {owner} ", mode_text(&stat.kind, stat.mode).as_str())?;
        // One more than the columns, for the blank between owner and size.
        let width = (COLUMNS + 1).saturating_sub(owner.chars().count());
        let size = match &stat.kind {
            FileType::Char(DeviceNumber { major, minor }) | FileType::Block(DeviceNumber { major, minor }) => {
                let blanks = width.saturating_sub(DEVICE_COLUMNS).max(1);
                write!(out, "{:blanks$}{major:>3},{minor:>3} ", "")?;
                None
            }
            FileType::File { size } => Some(*size),
            FileType::Symlink { target } => Some(target.len() as u64),
            FileType::Dir => Some(self.image.listing_size(nid)?.into()),
            FileType::Fifo | FileType::Socket => Some(0),
        };
        if let Some(size) = size {
            write!(out, "{size:>width$} ")?;
        }
        let format = if self.style.seconds { "%Y-%m-%d %H:%M:%S" } else { "%Y-%m-%d %H:%M" };
        let time = format_time(self.style.time.unwrap_or(stat.mtime).secs, &self.zone, format)?;
        write!(out, "{time} ")?;
        Ok(())
    }
}

/// Returns the time zone of the user, or UTC.
pub(in crate::personalities) fn time_zone(utc: bool) -> TimeZone {
    if utc { TimeZone::UTC } else { TimeZone::system() }
}

/// Formats seconds since 1970.
pub(in crate::personalities) fn format_time(secs: i64, zone: &TimeZone, format: &str) -> Result<String> {
    Ok(Timestamp::from_second(secs)?.to_zoned_datetime(zone.clone()).strftime(format).to_string())
}
