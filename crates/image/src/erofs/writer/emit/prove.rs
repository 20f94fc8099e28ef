//! Reads the map of every inode back from the new image and checks it by the rules of a check. Verification of clusters
//! proves that they decode; this proves that Linux finds them.

use std::path::PathBuf;

use crate::build::{BuildTools, unreadable};
use crate::erofs::reader::{ErofsReader, MapCheck, ReadOptions};
use crate::erofs::writer::encode::worker::PackWorker;
use crate::erofs::writer::options::ErofsOptions;
use crate::erofs::writer::place::metadata_zone::{MetadataLayout, ZoneItem};
use crate::image::Nid;
use crate::tree::Tree;
use crate::{Error, Result};

/// Number of bytes of metadata kept in memory. Little is enough, because inodes are read in the order of the image; it
/// counts against the memory of a build. Not measured.
const CACHE_LEN: u64 = 4 << 20;

/// Inodes without names, by nid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamelessInodes {
    pub(crate) packed: Option<u64>,
    pub(crate) metabox: Option<u64>,
}

/// Fails if the map of an inode breaks a rule.
pub(crate) fn maps(
    tools: BuildTools<'_, '_, PackWorker>,
    options: &ErofsOptions,
    tree: &Tree,
    placing: &MetadataLayout,
    special: NamelessInodes,
) -> Result<()> {
    let BuildTools { output, progress, .. } = tools;
    let source = output.reader(options.build.offset).map_err(Error::io("cannot read back", output.target()))?;
    let read_options =
        ReadOptions { cache_bytes: CACHE_LEN, name: output.target().to_owned(), ..ReadOptions::default() };
    let reader = ErofsReader::open(source, read_options)?;
    let mut check = MapCheck::new(&reader);
    for (what, nid) in [("packed inode", special.packed), ("metabox", special.metabox)] {
        if let Some(finding) = nid.map(|nid| check.inode(Nid(nid))).transpose()?.flatten() {
            return Err(unreadable(PathBuf::from(format!("<{what}>")), &finding));
        }
    }
    for (_, what) in placing.items(|_| {}) {
        Error::unless_cancelled(progress)?;
        let ino = match what {
            ZoneItem::Inode(ino) => ino,
            ZoneItem::Dir(number) => placing.dirs[number as usize].ino,
            ZoneItem::DirBlocks(_) | ZoneItem::Target(_) | ZoneItem::SharedXattrs | ZoneItem::Packed => continue,
        };
        if let Some(finding) = check.inode(Nid(placing.nid(ino)))? {
            return Err(unreadable(tree.path_of(ino), &finding));
        }
    }
    match check.overlap()? {
        Some(finding) => Err(unreadable(output.target().to_owned(), &finding)),
        None => Ok(()),
    }
}
