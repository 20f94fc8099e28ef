//! A tree presented as an image, so that comparing, extracting and listing work on any source.

use std::sync::Arc;

use packfs_blocks::Progress;

use super::{DirEntries, FileData, Ino, Inode, Kind, ROOT, Tree, XattrSet};
use crate::image::{Entry, Extent, FileType, Image, Nid, Stat};
use crate::{Contents, FileReader};
use crate::{Error, Part, Result};

/// A view of a tree whose contents can be opened at any time.
#[derive(Debug, Clone, Copy)]
pub struct TreeImage<'t>(&'t Tree);

type FileOpener = (Arc<dyn Contents>, u64);

impl<'t> TreeImage<'t> {
    /// Makes a view of `tree`.
    pub fn new(tree: &'t Tree) -> Self {
        TreeImage(tree)
    }

    fn ino(&self, nid: Nid) -> Result<Ino> {
        let ino = u32::try_from(nid.0).ok().filter(|ino| (*ino as usize) < self.0.len());
        ino.map(Ino).ok_or_else(|| Error::Misuse(format!("there is no inode {}", nid.0)))
    }

    fn inode(&self, nid: Nid) -> Result<Inode<'t>> {
        Ok(self.0.inode(self.ino(nid)?))
    }

    fn dir(&self, nid: Nid) -> Result<&'t DirEntries> {
        let dir = self.0.dir(self.ino(nid)?);
        dir.ok_or_else(|| Error::Misuse(format!("inode {} is not a directory", nid.0)))
    }

    /// Returns the size of a regular file and, unless it is empty, how to open it.
    fn file(&self, nid: Nid) -> Result<(u64, Option<FileOpener>)> {
        match self.inode(nid)?.kind {
            Kind::File { data: FileData::Empty, .. } => Ok((0, None)),
            Kind::File { size, data: FileData::Source { from, key } } => Ok((size, Some((Arc::clone(from), key)))),
            Kind::File { data: FileData::Stored(_), .. } => {
                Err(Error::Unsupported("reading a stream a second time; use a file instead".into()))
            }
            _ => Err(Error::Misuse(format!("inode {} is not a regular file", nid.0))),
        }
    }
}

impl Image for TreeImage<'_> {
    fn root(&self) -> Nid {
        Nid(ROOT.0.into())
    }

    fn stat(&self, nid: Nid) -> Result<Stat> {
        let inode = self.inode(nid)?;
        let kind = match inode.kind {
            Kind::Dir => FileType::Dir,
            Kind::File { size, .. } => FileType::File { size },
            Kind::Symlink(target) => FileType::Symlink { target: target.into() },
            Kind::Char(device) => FileType::Char(device),
            Kind::Block(device) => FileType::Block(device),
            Kind::Fifo => FileType::Fifo,
            Kind::Socket => FileType::Socket,
        };
        let Inode { mode, uid, gid, mtime, links: nlink, xattrs, .. } = inode;
        Ok(Stat { kind, ino: nid.0, mode, uid, gid, mtime, nlink, has_xattrs: !self.0.xattrs.get(xattrs).is_empty() })
    }

    fn read_dir(&self, nid: Nid) -> Result<Vec<Entry>> {
        Ok(self.dir(nid)?.iter().map(|(name, ino)| Entry { name: name.into(), nid: Nid(ino.0.into()) }).collect())
    }

    fn lookup(&self, dir: Nid, name: &[u8]) -> Result<Option<Nid>> {
        Ok(self.dir(dir)?.get(name).map(|ino| Nid(ino.0.into())))
    }

    fn xattrs(&self, nid: Nid) -> Result<XattrSet> {
        Ok(self.0.xattrs.get(self.inode(nid)?.xattrs).clone())
    }

    fn read_at(&self, nid: Nid, buf: &mut [u8], offset: u64) -> Result<usize> {
        let (size, data) = self.file(nid)?;
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let n = buf.len().min(left);
        if let Some((from, key)) = data
            && let Some(buf) = buf.get_mut(..n).filter(|buf| !buf.is_empty())
        {
            let mut file = from.open(key)?;
            file.read_exact_at(buf, offset)?;
            if n == left {
                file.finish()?;
            }
        }
        Ok(n)
    }

    fn extents(&self, nid: Nid) -> Result<Vec<Extent>> {
        let (size, data) = self.file(nid)?;
        let Some((from, key)) = data else { return Ok(Vec::new()) };
        extents(&mut *from.open(key)?, size)
    }

    fn inode_count(&self) -> u64 {
        self.0.len() as u64
    }

    fn holds_nanoseconds(&self) -> bool {
        true
    }

    /// A tree in memory is valid by construction.
    fn check_part(&self, _: Part, _: usize, _: &Progress, _: &mut dyn FnMut(crate::Finding)) -> Result<()> {
        Ok(())
    }
}

fn extents(file: &mut dyn FileReader, size: u64) -> Result<Vec<Extent>> {
    let mut out = Vec::new();
    let mut push = |from: u64, to: u64, hole| {
        if from < to {
            out.push(Extent { offset: from, len: to - from, hole });
        }
    };
    let mut at = 0;
    while at < size {
        let (start, end) = file.next_data(at)?.unwrap_or((size, size));
        let start = start.clamp(at, size);
        let end = if start == size { size } else { end.clamp(start + 1, size) };
        push(at, start, true);
        push(start, end, false);
        at = end;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Node, Piece, Spec, differences, snapshot_image, snapshot_tree};

    fn tree() -> Tree {
        let pieces = vec![Piece::Hole(8192), Piece::Text { seed: 1, len: 5000 }, Piece::Hole(100_000)];
        let files = [(b"empty".to_vec(), Node::file(vec![])), (b"sparse".to_vec(), Node::file(pieces))];
        Spec::of([(b"dir".to_vec(), Node::dir(files))]).tree().unwrap()
    }

    #[test]
    fn a_view_shows_the_same_as_the_tree() {
        let tree = tree();
        let seen = snapshot_image(&TreeImage::new(&tree)).unwrap();
        let there = snapshot_tree(&tree).unwrap();
        assert_eq!(differences(&seen, &there), Vec::<String>::new());
    }

    #[test]
    fn extents_cover_the_file_and_reads_end_with_it() {
        let tree = tree();
        let view = TreeImage::new(&tree);
        let nid = Nid(tree.lookup(b"dir/sparse").unwrap().0.into());
        let extents = view.extents(nid).unwrap();
        let found: Vec<_> = extents.iter().map(|e| (e.offset, e.len, e.hole)).collect();
        assert_eq!(found, [(0, 8192, true), (8192, 5000, false), (13192, 100_000, true)]);
        assert_eq!(view.read_at(nid, &mut [0; 100], 113_190).unwrap(), 2);
        assert_eq!(view.read_at(nid, &mut [0; 100], 200_000).unwrap(), 0);
        assert!(view.read_at(Nid(99), &mut [0], 0).is_err());
        assert!(view.read_dir(nid).is_err() && view.read_at(Nid(0), &mut [0], 0).is_err());
    }
}
