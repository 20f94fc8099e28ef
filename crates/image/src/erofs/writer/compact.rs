//! Checks that no inode has to be extended ([`Features::COMPACT_INODES`](super::Features)).

use super::epoch::Epoch;
use super::{Features, Options};
use crate::tree::{Ino, Kind, Time, Tree};
use crate::{Error, Result};

/// Fails for the first entry that only an extended inode can store.
pub(super) fn check(options: &Options, tree: &Tree) -> Result<()> {
    if !options.features.contains(Features::COMPACT_INODES) {
        return Ok(());
    }
    let otherwise = Time { secs: 0, nanos: 0 };
    let epoch = Epoch::choose(tree.times().collect(), options.features.contains(Features::BITS_48), otherwise);
    tree.walk(|ino, _| match why_extended(tree, ino, &epoch) {
        Some(why) => {
            let why = format!("{why}, which a compact inode cannot store: do without compact-inodes");
            Err(Error::Limit { path: tree.path_of(ino), why: why.into() })
        }
        None => Ok(()),
    })
}

/// Returns the reason why an inode has to be extended.
fn why_extended(tree: &Tree, ino: Ino, epoch: &Epoch) -> Option<String> {
    let inode = tree.inode(ino);
    let links = match inode.kind {
        Kind::Dir => tree.entries(ino).filter(|(_, ino)| tree.is_dir(*ino)).count() + 2,
        _ => inode.links as usize,
    };
    let most = u32::from(u16::MAX);
    match &inode.kind {
        _ if inode.uid > most || inode.gid > most => Some(format!("owner {}:{}", inode.uid, inode.gid)),
        _ if links > most as usize => Some(format!("{links} links")),
        Kind::File { size, .. } if *size > u32::MAX.into() => Some(format!("{size} bytes")),
        _ if epoch.offset(inode.mtime).is_none() => {
            Some("its time beside those of the others (one time for all fits)".into())
        }
        _ => None,
    }
}
