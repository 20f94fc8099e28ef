//! Every field of every structure set to wrong values: see [`mutate`].

use std::collections::BTreeSet;

use super::unpacked::Unpacked;
use super::*;
use crate::erofs::format::{self, Compat, Incompat, Layout};
use crate::erofs::hash::crc32c;
use crate::erofs::reader::data::InodeData;
use crate::erofs::reader::inode::{Inode, InodeType};
use crate::erofs::reader::map::{PieceStorage, StoredPosition};
use crate::erofs::reader::metadata::{MetadataAddress, OffsetSpace};
use crate::erofs::reader::superblock::Superblock;
use crate::testing::mutate::{self, Field, Subject, fields};

/// Number of bytes of an index that are treated as fields; files of these images have about as many.
const INDEX_LEN: usize = 96;
/// The same of a stream, and number of streams of a file.
const STREAM_LEN: usize = 12;
const STREAMS: usize = 2;

/// More images whose metadata is compressed: directories, the metabox, long prefixes in both places.
const COMPRESSED: [&str; 4] = [
    "-zdeflate --zD -C2048 -Efragments --xattr-prefix=user.na",
    "-zzstd -C4096 -m4096:zstd --zD --xattr-prefix=user.na",
    "-zlzma -C4096 -m4096:lzma -Eztailpacking",
    "-zlz4:deflate -C4096 -m4096:deflate --chunksize=1024",
];

fn spec() -> Spec {
    let mut spec = hostile::tree();
    // Version 2; owner, a user, group, mask, others.
    let entries = [(1u16, 7u16, !0u32), (2, 5, 1000), (4, 5, !0), (16, 5, !0), (32, 1, !0)];
    let entries = entries
        .iter()
        .flat_map(|(tag, bits, id)| [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat());
    let acl: Vec<u8> = 2u32.to_le_bytes().into_iter().chain(entries).collect();
    let mut dir = Node::dir([]);
    dir.attrs.mode = 0o751;
    for name in ["system.posix_acl_access", "system.posix_acl_default"] {
        dir.attrs.xattrs.insert(name.to_owned(), acl.clone());
    }
    if let (What::Dir(root), true) = (&mut spec.root.what, is_root()) {
        root.insert(b"acl".to_vec(), dir);
        root.insert(b"char".to_vec(), plain(What::Char(crate::tree::DeviceNumber { major: 1, minor: 3 })));
    }
    // More than a block, and so compressed where directories are.
    let wide = (0..30).map(|n| (format!("a name of a file, {n}").into_bytes(), Node::file(vec![])));
    if let What::Dir(root) = &mut spec.root.what {
        root.insert(b"wide".to_vec(), Node::dir(wide));
    }
    spec
}

/// Walks the structures of an image. All offsets are those of the unpacked image.
struct Lister<'i> {
    image: &'i Unpacked,
    reader: ErofsReader,
    out: Vec<Field>,
    shared: BTreeSet<usize>,
}

impl Lister<'_> {
    fn word(&mut self, name: &str, at: usize, len: usize) {
        if at + len <= self.image.bytes.len() {
            self.out.push(Field { name: name.into(), at, len });
        }
    }

    fn half(&self, at: usize) -> usize {
        u16::from_le_bytes(*self.image.bytes[at..].first_chunk().unwrap()).into()
    }

    fn all(mut self) -> Vec<Field> {
        self.superblock();
        let superblock = self.reader.superblock.clone();
        let special = [superblock.packed, superblock.metabox].into_iter().flatten();
        let (mut stack, mut seen) = (vec![superblock.root], BTreeSet::new());
        stack.extend(special);
        while let Some(nid) = stack.pop() {
            if !seen.insert(nid) {
                continue;
            }
            let inode = self.reader.inode(nid).unwrap();
            if inode.kind == InodeType::Dir {
                stack.extend(self.reader.read_dir(nid).unwrap().into_iter().map(|entry| entry.nid));
            }
            if let Some(at) = self.image.at(inode.place) {
                self.inode(&inode, at);
            }
            self.streams(&inode);
        }
        for at in std::mem::take(&mut self.shared) {
            self.xattr(at);
        }
        for field in self.out.iter_mut().filter(|field| self.image.is_unpacked(field.at)) {
            field.name.push_str(", compressed");
        }
        self.out
    }

    fn superblock(&mut self) {
        let at = fields!(
            self.out,
            1024,
            format::Superblock {
                magic,
                feature_compat,
                blkszbits,
                sb_extslots,
                rb,
                inos,
                epoch,
                fixed_nsec,
                blocks_lo,
                meta_blkaddr,
                xattr_blkaddr,
                feature_incompat,
                u1,
                extra_devices,
                devt_slotoff,
                dirblkbits,
                xattr_prefix_count,
                xattr_prefix_start,
                packed_nid,
                xattr_filter_reserved,
                ishare_xattr_prefix_id,
                build_time,
                rootnid_8b,
            }
        );
        let superblock = self.reader.superblock.clone();
        if superblock.metabox.is_some() {
            self.word("SuperblockExtension.metabox_nid", at, 8);
        }
        if superblock.incompat.contains(Incompat::BIG_CLUSTERS) {
            let at = 1024 + superblock.len as usize;
            (0..8).for_each(|n| self.word("compression record", at + 2 * n, 2));
        }
        let prefixes = match superblock.xattr_prefixes {
            0 => None,
            _ => {
                self.image.at(MetadataAddress { space: prefix_space(&superblock), byte: superblock.xattr_prefix_start })
            }
        };
        if let Some(at) = prefixes {
            (0..4).for_each(|n| self.word("long prefix", at + n, 1));
        }
    }

    fn inode(&mut self, inode: &Inode, at: usize) {
        let behind = if inode.extended {
            fields!(
                self.out,
                at,
                format::ExtendedInode {
                    i_format,
                    i_xattr_icount,
                    i_mode,
                    i_nb,
                    i_size,
                    i_u,
                    i_ino,
                    i_uid,
                    i_gid,
                    i_mtime,
                    i_mtime_nsec,
                    i_nlink,
                }
            )
        } else {
            fields!(
                self.out,
                at,
                format::CompactInode {
                    i_format,
                    i_xattr_icount,
                    i_mode,
                    i_nb,
                    i_size,
                    i_mtime,
                    i_u,
                    i_ino,
                    i_uid,
                    i_gid,
                }
            )
        };
        let payload = at + (inode.payload.byte - inode.place.byte) as usize;
        if inode.xattr_len > 0 {
            self.xattrs(behind, payload);
        }
        // What follows is aligned in its own space.
        let aligned = |unit| payload + (inode.payload.byte.next_multiple_of(unit) - inode.payload.byte) as usize;
        match inode.layout {
            Layout::Plain | Layout::Inline if inode.kind == InodeType::Dir => self.directory(inode),
            Layout::Plain | Layout::Inline if inode.kind == InodeType::Symlink => self.word("target", payload, 1),
            Layout::Plain | Layout::Inline => {}
            Layout::Chunks => {
                let long = inode.data & u32::from(format::chunk_format::INDEXES) != 0;
                let mut at = aligned(if long { 8 } else { 4 });
                for _ in 0..4 {
                    if long {
                        at = fields!(self.out, at, format::ChunkIndex { startblk_hi, device_id, startblk_lo });
                    } else {
                        self.word("chunk", at, 4);
                        at += 4;
                    }
                }
            }
            Layout::CompressedFull | Layout::CompressedCompact => {
                let at = fields!(
                    self.out,
                    aligned(8),
                    format::MapHeader { h_fragmentoff, h_advise, h_algorithmtype, h_clusterbits }
                );
                let len = INDEX_LEN.min(8 + 8 * (inode.size as usize).div_ceil(512));
                (0..len).step_by(2).for_each(|n| self.word("index", at + n, 2));
                (0..len).step_by(4).for_each(|n| self.word("index", at + n, 4));
                if let (InodeType::Dir, Some(at)) = (inode.kind, self.image.contents(inode.nid)) {
                    self.entries(at);
                }
            }
        }
    }

    fn xattrs(&mut self, at: usize, end: usize) {
        let shared = usize::from(self.image.bytes[at + 4]);
        let mut at = fields!(self.out, at, format::XattrHeader { h_name_filter, h_shared_count });
        for _ in 0..shared {
            let id = u32::from_le_bytes(*self.image.bytes[at..].first_chunk().unwrap());
            self.word("id of a shared xattr", at, 4);
            let superblock = &self.reader.superblock;
            let in_metabox = superblock.compat.contains(Compat::SHARED_XATTRS_IN_METABOX);
            let space = if in_metabox { OffsetSpace::Metabox } else { OffsetSpace::Image };
            let place = MetadataAddress { space, byte: superblock.xattr_start + 4 * u64::from(id) };
            self.shared.extend(self.image.at(place));
            at += 4;
        }
        while at < end {
            at = self.xattr(at).next_multiple_of(4);
        }
    }

    fn xattr(&mut self, at: usize) -> usize {
        let (name, value) = (usize::from(self.image.bytes[at]), self.half(at + 2));
        let acl =
            matches!(self.image.bytes[at + 1], format::xattr_prefix::ACL_ACCESS | format::xattr_prefix::ACL_DEFAULT);
        let at = fields!(self.out, at, format::XattrEntry { e_name_len, e_name_index, e_value_size });
        self.word("name of an xattr", at, 1);
        if acl {
            (0..value).step_by(2).for_each(|n| self.word("ACL", at + name + n, 2));
        }
        at + name + value
    }

    /// Lists its first block, which may be all of it.
    fn directory(&mut self, inode: &Inode) {
        let block = self.reader.superblock.block_size as usize;
        let at = match inode.start_block() {
            Some(start) if inode.size as usize >= block || inode.layout == Layout::Plain => start as usize * block,
            _ => self.image.at(inode.payload).unwrap(),
        };
        self.entries(at);
    }

    fn entries(&mut self, at: usize) {
        let names = self.half(at + 8);
        for n in 0..names / 12 {
            let _ = fields!(self.out, at + 12 * n, format::Dirent { nid, nameoff, file_type, reserved });
            self.word("name", at + self.half(at + 12 * n + 8), 1);
        }
    }

    /// Lists the beginnings of some clusters.
    fn streams(&mut self, inode: &Inode) {
        if inode.size == 0 || !matches!(inode.kind, InodeType::File | InodeType::Dir | InodeType::Symlink) {
            return;
        }
        let mut places = Vec::new();
        let visit = &mut |extent: &crate::erofs::reader::map::MappedExtent| {
            if let PieceStorage::Packed { stored, .. } = extent.data
                && let StoredPosition::Image(at) = stored.place
            {
                places.push((at as usize, stored.len as usize));
            }
            Ok(())
        };
        InodeData::open(&self.reader, inode).unwrap().each(visit).unwrap();
        for (at, len) in places.into_iter().take(STREAMS) {
            let padding = self.image.bytes[at..at + len].iter().position(|byte| *byte != 0).unwrap();
            (0..STREAM_LEN).for_each(|n| self.word("stream", at + padding + n, 1));
            (0..STREAM_LEN).for_each(|n| self.word("stream", at + padding + n, 2));
        }
    }
}

/// The space that holds the long prefixes.
fn prefix_space(superblock: &Superblock) -> OffsetSpace {
    match superblock {
        _ if superblock.compat.contains(Compat::PLAIN_XATTR_PREFIXES) => OffsetSpace::Image,
        _ if superblock.metabox.is_some() => OffsetSpace::Metabox,
        _ if superblock.packed.is_some() => OffsetSpace::Packed,
        _ => OffsetSpace::Image,
    }
}

/// Corrects the checksum, if there is one.
fn repair(image: &mut [u8]) {
    let block = 1usize.checked_shl(image[1024 + 0x0c].into()).unwrap_or(0).min(image.len());
    if image[1024 + 8] & 1 == 0 || block < 512 {
        return;
    }
    let len = if block > 1024 { block - 1024 } else { block };
    let Some(bytes) = image.get_mut(1024..1024 + len) else { return };
    bytes[4..8].fill(0);
    let sum = crc32c(!0, bytes);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn no_field_can_be_wrong_unnoticed() {
    let mut wrong = Vec::new();
    const TEST: &str = "no_field_can_be_wrong_unnoticed";
    let mut images = hostile::small(TEST, &spec());
    images.extend(hostile::theirs(TEST, &spec(), &COMPRESSED));
    for (name, image) in images.iter().filter(|(name, _)| mutate::is_asked_for(name)) {
        let reader = open(image).unwrap();
        let unpacked = Unpacked::of(image);
        let fields = Lister { image: &unpacked, reader, out: Vec::new(), shared: BTreeSet::new() }.all();
        let compressed = fields.iter().filter(|field| unpacked.is_unpacked(field.at)).count();
        assert!(fields.len() > 50, "{name}: {}", fields.len());
        assert!(compressed > 50 || !(name.contains("-m") || name.contains("--zD")), "{name}: {compressed}");
        let subject = Subject {
            name,
            kind: "erofs",
            image: &unpacked.bytes,
            open: &|image| Ok(Box::new(open(image)?)),
            finish: &|bytes| {
                let mut image = unpacked.pack(bytes)?;
                repair(&mut image);
                Some(image)
            },
            known: &[],
        };
        wrong.extend(mutate::judge(&subject, &fields));
    }
    assert!(wrong.is_empty(), "{} deviations:\n{}", wrong.len(), wrong.join("\n"));
}
