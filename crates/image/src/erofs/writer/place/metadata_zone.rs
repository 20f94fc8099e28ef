//! The place of everything in the metadata zone: a nid for every inode, blocks for the data that inodes point to.
//!
//! All directories come first, each with its own data and parents before children, so that a walk
//! over names reads one dense area. All other inodes follow, those of one directory together and in
//! the order of its names. What is used first ([`Tree::hot`]) lies before all that in the same way, its other inodes in
//! order of first use, and the packed inode beside it.

use std::collections::HashMap;

use super::space::MetadataSpace;
use crate::build::AHEAD;
use crate::erofs::format::{INODE_SLOT, NID_METABOX};
use crate::erofs::writer::emit::dir::DirListing;
use crate::erofs::writer::emit::inode::{InodeRoom, InodeWriter};
use crate::erofs::writer::options::Features;
use crate::tree::{Ino, ROOT, Tree};
use crate::{Error, Result};

/// Contents of a position in the zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZoneItem {
    /// A directory's inode and the tail of its data, by the directory's number in [`MetadataLayout::dirs`].
    Dir(u32),
    /// The directory's blocks.
    DirBlocks(u32),
    /// Any other inode.
    Inode(Ino),
    /// The target of a symlink, if it is too long to follow its inode.
    Target(Ino),
    SharedXattrs,
    Packed,
}

/// A directory in the zone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlacedDir {
    pub(crate) ino: Ino,
    pub(crate) parent: Ino,
    pub(crate) listing: DirListing,
    /// Start of its blocks, if it has any.
    pub(crate) blocks: Option<u64>,
    /// True if the tail of its data follows its inode.
    pub(crate) has_tail: bool,
    /// Offset of its entries in the packed inode, if they are there.
    pub(crate) fragment: Option<u64>,
}

/// The whole zone.
#[derive(Debug)]
pub(crate) struct MetadataLayout {
    /// Everything but the inodes in `inodes`, by position, ascending: in the zone or in the metabox.
    others: Vec<(u64, ZoneItem)>,
    /// All inodes except those of directories, in the order of their positions. There may be tens of millions.
    inodes: Vec<Ino>,
    /// With a metabox, the blocks that inodes in it refer to, which lie before it in the image.
    pub(crate) apart: Option<OutsideBlocks>,
    pub(crate) dirs: Vec<PlacedDir>,
    /// Positions of long symlink targets.
    pub(crate) targets: HashMap<Ino, u64>,
    pub(crate) shared_xattrs: Option<u64>,
    pub(crate) packed: Option<u64>,
    /// Nid by [`Ino`], counted from the zone's start; 0 for unreachable inodes.
    nids: Vec<u32>,
    /// Nid of the zone's start.
    first_nid: u64,
    space: MetadataSpace,
}

/// Blocks outside a metabox.
#[derive(Debug)]
pub(crate) struct OutsideBlocks {
    pub(crate) items: Vec<(u64, ZoneItem)>,
    space: MetadataSpace,
}

impl OutsideBlocks {
    /// Returns the length in bytes, whole blocks.
    pub(crate) fn len(&self) -> u64 {
        if self.items.is_empty() { 0 } else { self.space.len() }
    }
}

impl MetadataLayout {
    /// Places all inodes of a zone whose start has the nid `first_nid`.
    pub(crate) fn of(inodes: &InodeWriter<'_>, first_nid: u64) -> Result<MetadataLayout> {
        let tree = inodes.tree;
        let block = inodes.options.block_size.into();
        let features = inodes.options.features;
        let apart = || OutsideBlocks { items: Vec::new(), space: MetadataSpace::empty(block) };
        let mut plan = LayoutPlanner {
            inodes,
            next_fragment: inodes.data.packed.as_ref().map_or(0, |packed| packed.size),
            placing: MetadataLayout {
                others: Vec::new(),
                inodes: Vec::new(),
                apart: features.contains(Features::METABOX).then(apart),
                dirs: Vec::new(),
                targets: HashMap::new(),
                shared_xattrs: None,
                packed: None,
                nids: vec![0; tree.len()],
                first_nid,
                space: MetadataSpace::new(block),
            },
        };
        // A packed inode with directories is measured later, once they are in it. With a metabox it lies elsewhere.
        let places_packed = !features.intersects(Features::METABOX | Features::COMPRESSED_DIRS);
        if !tree.hot().is_empty() {
            plan.place_dirs(directories(tree).filter(|(ino, _)| tree.is_hot(*ino)))?;
            tree.hot().iter().filter(|ino| !tree.is_dir(**ino)).try_for_each(|ino| plan.place_other(*ino))?;
            if places_packed {
                plan.placing.place_packed(inodes)?;
            }
        }
        plan.place_dirs(directories(tree).filter(|(ino, _)| !tree.is_hot(*ino)))?;
        plan.place_others()?;
        if tree.hot().is_empty() && places_packed {
            plan.placing.place_packed(inodes)?;
        }
        let mut placing = plan.placing;
        // Later items may have filled earlier gaps, so the order of placing is not that of positions.
        placing.others.sort_unstable_by_key(|(at, _)| *at);
        placing.inodes.sort_unstable_by_key(|ino| placing.nids[ino.0 as usize]);
        Ok(placing)
    }

    /// Returns all contents by position, ascending: of the zone, or of the metabox. `touch` is called with the inodes
    /// that come next.
    pub(crate) fn items(&self, touch: impl Fn(&[Ino])) -> impl Iterator<Item = (u64, ZoneItem)> {
        let at = |ino: Ino| u64::from(self.nids[ino.0 as usize]) * INODE_SLOT;
        let inodes = self.inodes.chunks(AHEAD).inspect(move |ahead| touch(ahead)).flatten();
        let mut inodes = inodes.map(move |ino| (at(*ino), ZoneItem::Inode(*ino))).peekable();
        let mut others = self.others.iter().copied().peekable();
        std::iter::from_fn(move || match (inodes.peek(), others.peek()) {
            (Some((inode, _)), Some((other, _))) if inode > other => others.next(),
            (None, _) => others.next(),
            _ => inodes.next(),
        })
    }

    /// Returns the length in bytes, whole blocks.
    pub(crate) fn len(&self) -> u64 {
        self.space.len()
    }

    /// Returns true if inodes are in the metabox.
    pub(crate) fn has_metabox(&self) -> bool {
        self.apart.is_some()
    }

    /// Places the packed inode among the others.
    fn place_packed(&mut self, inodes: &InodeWriter<'_>) -> Result<()> {
        if let Some(size) = inodes.measure_packed() {
            let at = self.space.place(size.len, size.together);
            self.packed = Some(self.first_nid + u64::from(nid(at)?));
            self.others.push((at, ZoneItem::Packed));
        }
        Ok(())
    }

    /// Places the packed inode after all others, unless it has its place.
    pub(crate) fn place_packed_last(&mut self, inodes: &InodeWriter<'_>) -> Result<()> {
        if self.packed.is_none() {
            self.place_packed(inodes)?;
            self.others.sort_unstable_by_key(|(at, _)| *at);
        }
        Ok(())
    }

    pub(crate) fn nid(&self, ino: Ino) -> u64 {
        match self.nids[ino.0 as usize] {
            0 => 0,
            nid if self.has_metabox() => u64::from(nid) | NID_METABOX,
            nid => self.first_nid + u64::from(nid),
        }
    }
}

/// Returns all directories, each before its subdirectories, with their parents.
fn directories(tree: &Tree) -> impl Iterator<Item = (Ino, Ino)> {
    let mut stack = vec![(ROOT, ROOT)];
    std::iter::from_fn(move || {
        let (dir, parent) = stack.pop()?;
        let first = stack.len();
        let subdirs = tree.entries(dir).filter(|(_, ino)| tree.is_dir(*ino));
        stack.extend(subdirs.map(|(_, ino)| (ino, dir)));
        // The first subdirectory is popped first.
        stack[first..].reverse();
        Some((dir, parent))
    })
}

struct LayoutPlanner<'p, 'a> {
    inodes: &'p InodeWriter<'a>,
    /// Offset in the packed inode for the next directory in it.
    next_fragment: u64,
    placing: MetadataLayout,
}

impl LayoutPlanner<'_, '_> {
    /// Places directories, the root before all others.
    fn place_dirs(&mut self, dirs: impl Iterator<Item = (Ino, Ino)>) -> Result<()> {
        for (ino, parent) in dirs {
            self.place_dir(ino, parent)?;
            if ino == ROOT {
                self.place_shared_xattrs();
            }
        }
        Ok(())
    }

    fn place_dir(&mut self, ino: Ino, parent: Ino) -> Result<()> {
        let (listing, size) = self.inodes.measure_dir(ino);
        let number = u32::try_from(self.placing.dirs.len()).expect("no more directories than inodes");
        let at = self.place_inode(ino, size)?;
        self.placing.others.push((at, ZoneItem::Dir(number)));
        let blocks = self.place_blocks(size.blocks, ZoneItem::DirBlocks(number));
        let packed = self.inodes.options.features.contains(Features::COMPRESSED_DIRS);
        let fragment = packed.then_some(self.next_fragment);
        self.next_fragment += listing.size;
        let has_tail = size.together > 0 && !packed;
        self.placing.dirs.push(PlacedDir { ino, parent, listing, blocks, has_tail, fragment });
        Ok(())
    }

    /// Places all inodes that have no place yet, in the order of directories and names. Directories have theirs.
    fn place_others(&mut self) -> Result<()> {
        let InodeWriter { tree, data, .. } = *self.inodes;
        for at in 0..self.placing.dirs.len() {
            let mut entries = tree.entries(self.placing.dirs[at].ino).map(|(_, ino)| ino);
            loop {
                let ahead: Vec<Ino> = entries.by_ref().take(AHEAD).collect();
                if ahead.is_empty() {
                    break;
                }
                data.touch(tree, &ahead);
                for ino in ahead {
                    // Others have their place already: they have a second name, or are used first.
                    if self.placing.nids[ino.0 as usize] == 0 {
                        self.place_other(ino)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Places an inode that is not a directory, and the target of a long symlink.
    fn place_other(&mut self, ino: Ino) -> Result<()> {
        let size = self.inodes.measure(ino);
        self.place_inode(ino, size)?;
        self.placing.inodes.push(ino);
        if let Some(at) = self.place_blocks(size.blocks, ZoneItem::Target(ino)) {
            self.placing.targets.insert(ino, at);
        }
        Ok(())
    }

    /// Places the shared xattrs: next to the root, as most inodes use them, and among the inodes, where Linux looks for
    /// them.
    fn place_shared_xattrs(&mut self) {
        let len = self.inodes.xattrs.shared().len() as u64;
        if len > 0 {
            let at = self.placing.space.blocks(len);
            self.placing.others.push((at, ZoneItem::SharedXattrs));
            self.placing.shared_xattrs = Some(at);
        }
    }

    /// Places an inode; returns its position.
    fn place_inode(&mut self, ino: Ino, size: InodeRoom) -> Result<u64> {
        let at = self.placing.space.place(size.len, size.together);
        self.placing.nids[ino.0 as usize] = nid(at)?;
        Ok(at)
    }

    /// Places `len` bytes in blocks of their own, in front of the metabox if there is one.
    fn place_blocks(&mut self, len: u64, item: ZoneItem) -> Option<u64> {
        if len == 0 {
            return None;
        }
        let MetadataLayout { others, apart, space, .. } = &mut self.placing;
        let (items, space) = match apart {
            Some(OutsideBlocks { items, space }) => (items, space),
            None => (others, space),
        };
        let at = space.blocks(len);
        items.push((at, item));
        Some(at)
    }
}

/// Returns the nid of an inode at `at`.
pub(crate) fn nid(at: u64) -> Result<u32> {
    u32::try_from(at / INODE_SLOT)
        .map_err(|_| Error::TooMany { what: "inode slots of 32 bytes, which directories take too", max: 1 << 32 })
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::erofs::writer::stored::tails::tail_max;

    #[test]
    fn nothing_overlaps_and_tails_are_in_one_block() {
        for len in [512usize, 4096] {
            let block = len as u64;
            let tail_max = tail_max(len) as u64;
            let mut space = MetadataSpace::new(block);
            let mut taken: Vec<Range<u64>> = Vec::new();
            for n in 0..3000u64 {
                let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
                let head = [32, 64, 96 + mixed % 9 * 4, 32 + mixed % 2000 * 4][(mixed % 4) as usize];
                let tail = if n % 3 == 0 { mixed / 7 % (tail_max + 1) } else { 0 };
                let (start, len) = if n % 50 == 7 {
                    let len = mixed % 3 * block + n;
                    (space.blocks(len), len)
                } else {
                    (space.place(head + tail, tail), head + tail)
                };
                assert_eq!(start % INODE_SLOT, 0);
                if tail > 0 && n % 50 != 7 {
                    assert_eq!((start + head) / block, (start + len - 1) / block, "inode {n}");
                }
                taken.push(start..start + len);
            }
            let used: u64 = taken.iter().map(|range| range.end - range.start).sum();
            taken.sort_by_key(|range| range.start);
            assert!(taken[0].start > 0);
            assert!(taken.windows(2).all(|pair| pair[0].end <= pair[1].start));
            assert!(taken[taken.len() - 1].end <= space.len() && space.len().is_multiple_of(block));
            assert!(used * 10 > space.len() * 9, "{used} of {}", space.len());
        }
    }
}
