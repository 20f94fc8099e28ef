//! Passes the entries of parts of a scan on one by one, in the order in which a scan adds them to a tree.

use std::path::Path;

use rustix::fs::FileType;

use super::attrs::EntryAttrs;
use super::files::seen;
use super::listing::FoundEntry;
use super::{Options, Receive, Streamed, entry_kind};
use crate::tree::{InodeAttributes, Kind, Time, XattrId, XattrSet};
use crate::{Error, Result};

/// Passes on all entries of the source at `path`, which has to be the next of the parts in `options`.
///
/// # Errors
/// [`Error::Misuse`] if there are no parts, or this source is not the next of them.
pub fn stream(path: &Path, options: &Options, to: &mut dyn Receive) -> Result<()> {
    let listed = options.parts.as_ref().map(|parts| parts.take(path)).transpose()?.flatten();
    let listed = listed.ok_or_else(|| Error::Misuse("these parts are not of this source".into()))?;
    let device = listed.attrs.id.0;
    to.root(streamed((&[], &listed.attrs), Kind::Dir, listed.xattrs.clone(), true))?;
    while let Some(dir) = to.next_dir()? {
        let mut count = 0;
        listed.list(&dir, &mut |found| {
            count += 1;
            place(options, device, found)?.map_or(Ok(()), |entry| to.entry(&dir, entry))
        })?;
        super::count(options, count)?;
    }
    listed.end()
}

/// Returns what a scan adds for an entry, if anything.
fn place(options: &Options, device: u64, found: FoundEntry) -> Result<Option<Streamed>> {
    let FoundEntry { name, attrs, target, xattrs } = found;
    let is_dir = attrs.kind() == FileType::Directory;
    let stays = !options.one_file_system || attrs.id.0 == device;
    if is_dir && !stays && options.no_mount_points {
        return Ok(None);
    }
    let kind = entry_kind(&attrs, &name, target)?;
    Ok(Some(streamed((&name, &attrs), kind, xattrs, is_dir && stays)))
}

fn streamed((name, attrs): (&[u8], &EntryAttrs), kind: Kind, xattrs: XattrSet, enters: bool) -> Streamed {
    let EntryAttrs { mode, uid, gid, mtime, .. } = *attrs;
    let mtime: Time = mtime;
    let mode = u16::try_from(mode & 0o7777).unwrap_or(0);
    let meta = InodeAttributes { mode, uid, gid, mtime, xattrs: XattrId::NONE };
    let link = (attrs.linked && !matches!(kind, Kind::Dir)).then_some(attrs.id);
    Streamed { name: name.into(), meta, xattrs, kind, seen: seen(attrs), link, enters }
}
