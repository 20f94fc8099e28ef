//! A tree as bytes, for builds whose steps are separate processes. Inodes keep their numbers.

use super::{
    DeviceNumber, FileData, Ino, Inode, InodeAttributes, Kind, ROOT, Time, Tree, TreeXattrs, XattrId, check_name,
};
use crate::Result;
use crate::encoding::{FieldDecoder, FieldEncoder};

/// Length from which on a group of inodes is complete.
pub const GROUP: usize = 1 << 18;

impl Tree {
    /// Appends the tree, in which all data is stored, to `to`: sets of attributes and the number of inodes, then inodes
    /// in groups, of which one at a time has to be in memory, then those that are used first.
    pub fn encode(&self, to: &mut dyn FieldEncoder) {
        let mut group = Vec::new();
        encode_head(&self.xattrs, self.len() as u64, &mut group);
        to.bytes(&group);
        group.clear();
        for ino in self.inos() {
            self.encode_inode(ino, &mut group);
            if group.len() >= GROUP {
                to.bytes(&group);
                group.clear();
            }
        }
        if !group.is_empty() {
            to.bytes(&group);
            group.clear();
        }
        group.count(self.hot.order.len());
        self.hot.order.iter().for_each(|ino| group.u32(ino.0));
        to.bytes(&group);
    }

    /// Takes a tree whose data has numbers below `files`; `next` returns the next group.
    pub fn decode(files: u32, mut next: impl FnMut() -> Result<Vec<u8>>) -> Result<Tree> {
        const NAME: &str = "tree of a plan";
        let group = next()?;
        let from = &mut FieldDecoder::new(NAME, &group);
        let mut xattrs = TreeXattrs::default();
        for number in 0..from.count(8)? {
            let set = from.list(16, |from| Ok((from.bytes()?.into(), from.bytes()?.into())))?;
            let id = xattrs.intern(set);
            from.check(id.0 as usize == number, "sets of attributes are out of order")?;
        }
        // Compared as 64 bits: the limit itself does not fit in the usize of a 32-bit machine.
        let count = Some(from.u64()?).filter(|count| *count <= 1 << 32);
        let count = count.and_then(|count| usize::try_from(count).ok());
        let count = count.ok_or_else(|| from.wrong("there are too many inodes"))?;
        from.end()?;
        let mut tree = Tree { xattrs, ..Tree::without_root() };
        while tree.len() < count {
            let group = next()?;
            let from = &mut FieldDecoder::new(NAME, &group);
            from.check(!group.is_empty(), "a group has no inodes")?;
            while from.at() < group.len() {
                from.check(tree.len() < count, "there are more inodes than said")?;
                tree.decode_inode(from, DecodeBounds { count, files })?;
            }
        }
        let group = next()?;
        let from = &mut FieldDecoder::new(NAME, &group);
        from.check(!tree.is_empty() && tree.is_dir(ROOT), "the root is not a directory")?;
        tree.check_parents(from)?;
        for _ in 0..from.count(4)? {
            let ino = Ino(from.u32()?);
            from.check((ino.0 as usize) < count, "an inode to lie first does not exist")?;
            tree.hot.known.insert(ino);
            tree.hot.order.push(ino);
        }
        from.end()?;
        Ok(tree)
    }

    /// Fails if a directory is in two places.
    fn check_parents(&self, from: &FieldDecoder<'_>) -> Result<()> {
        let mut placed = vec![false; self.len()];
        for dir in self.inos() {
            for (_, ino) in self.entries(dir).filter(|(_, ino)| self.is_dir(*ino)) {
                from.check(!std::mem::replace(&mut placed[ino.0 as usize], true), "a directory is in two places")?;
            }
        }
        Ok(())
    }

    fn encode_inode(&self, ino: Ino, to: &mut dyn FieldEncoder) {
        encode_inode(&self.inode(ino), to);
        if let Some(entries) = self.dir(ino) {
            to.count(entries.len());
            entries.iter().for_each(|(name, ino)| encode_entry(name, ino, to));
        }
    }

    fn decode_inode(&mut self, from: &mut FieldDecoder<'_>, bounds: DecodeBounds) -> Result<()> {
        let mode = u16::try_from(from.u32()? & 0o7777).expect("12 bits");
        let uid = from.u32()?;
        let gid = from.u32()?;
        let mtime = Time { secs: from.u64()?.cast_signed(), nanos: from.u32()? };
        let xattrs = XattrId(from.u32()?);
        let links = from.u32()?;
        from.check((xattrs.0 as usize) < self.xattrs.len(), "an inode has unknown attributes")?;
        let kind = match from.u8()? {
            0 => Kind::Dir,
            1 => {
                let size = from.u64()?;
                let data = if from.bool()? { FileData::Stored(from.u32()?) } else { FileData::Empty };
                let known = match data {
                    FileData::Stored(number) => number < bounds.files,
                    _ => size == 0,
                };
                from.check(known, "a file has no data")?;
                Kind::File { size, data }
            }
            2 => Kind::Symlink(from.bytes()?.into()),
            3 => Kind::Char(decode_device(from)?),
            4 => Kind::Block(decode_device(from)?),
            5 => Kind::Fifo,
            6 => Kind::Socket,
            _ => return Err(from.wrong("an inode has an unknown type")),
        };
        let ino = self.push(InodeAttributes { mode, uid, gid, mtime, xattrs }, kind)?;
        self.inodes.set_links(ino, links);
        let Some(entries) = self.inodes.dir_mut(ino) else { return Ok(()) };
        for _ in 0..from.count(12)? {
            let name = from.bytes()?;
            let ino = Ino(from.u32()?);
            check_name(name)?;
            let is_below = ino != ROOT && (ino.0 as usize) < bounds.count;
            from.check(is_below, "an entry has no inode")?;
            entries.insert(name, ino);
        }
        entries.shrink();
        Ok(())
    }
}

/// Appends an inode. A directory is followed by the number of its entries and the entries.
pub fn encode_inode(inode: &Inode<'_>, to: &mut dyn FieldEncoder) {
    // Shards have no rules about data.
    let Inode { kind, mode, uid, gid, mtime, xattrs, links, handling: _, recipe: _ } = inode;
    to.u32(u32::from(*mode));
    to.u32(*uid);
    to.u32(*gid);
    to.u64(mtime.secs.cast_unsigned());
    to.u32(mtime.nanos);
    to.u32(xattrs.0);
    to.u32(*links);
    match kind {
        Kind::Dir => to.u8(0),
        Kind::File { size, data } => {
            to.u8(1);
            to.u64(*size);
            match data {
                FileData::Stored(number) => {
                    to.u8(1);
                    to.u32(*number);
                }
                FileData::Empty | FileData::Source { .. } => to.u8(0),
            }
        }
        Kind::Symlink(target) => {
            to.u8(2);
            to.bytes(target);
        }
        Kind::Char(device) => encode_device(3, *device, to),
        Kind::Block(device) => encode_device(4, *device, to),
        Kind::Fifo => to.u8(5),
        Kind::Socket => to.u8(6),
    }
}

/// Appends an entry of a directory.
pub fn encode_entry(name: &[u8], ino: Ino, to: &mut dyn FieldEncoder) {
    to.bytes(name);
    to.u32(ino.0);
}

/// Number of bytes of an encoded entry, apart from its name.
pub const ENTRY_LEN: u64 = 12;

/// Appends all sets of attributes, and the number of inodes.
pub fn encode_head(xattrs: &TreeXattrs, inodes: u64, to: &mut dyn FieldEncoder) {
    to.count(xattrs.len());
    for set in xattrs.sets() {
        to.count(set.len());
        for (name, value) in set {
            to.bytes(name);
            to.bytes(value);
        }
    }
    to.u64(inodes);
}

fn encode_device(kind: u8, DeviceNumber { major, minor }: DeviceNumber, to: &mut dyn FieldEncoder) {
    to.u8(kind);
    to.u32(major);
    to.u32(minor);
}

/// Decodes the number of a device.
pub fn decode_device(from: &mut FieldDecoder<'_>) -> Result<DeviceNumber> {
    Ok(DeviceNumber { major: from.u32()?, minor: from.u32()? })
}

/// Number of all inodes, and of all files with data.
#[derive(Clone, Copy)]
struct DecodeBounds {
    count: usize,
    files: u32,
}
