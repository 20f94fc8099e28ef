//! Every field of every structure set to wrong values: see [`mutate`].

use super::access::image_of;
use super::unpacked::Unpacked;
use super::*;
use crate::squashfs::format::{self, METADATA_LEN, inode_type};
use crate::squashfs::reader::metadata::MetadataArea;
use crate::squashfs::{Fragments, SquashfsOptions};
use crate::testing::mutate::{self, Field, Subject, fields};

/// One entry of each type of inode, basic and extended, a directory with an index, shared and long attributes.
fn spec() -> Spec {
    let named = |node: Node| {
        let mut node = node;
        let long = ("trusted.long".to_owned(), b"value ".repeat(60));
        node.attrs.xattrs = BTreeMap::from([("user.name".to_owned(), b"value".to_vec()), long]);
        node
    };
    let pieces = vec![text(1, 4096), Piece::Hole(4096), noise(2, 4096), text(3, 70)];
    let wide = (0..90).map(|n| (format!("name-{n:0100}").into_bytes(), Node::file(vec![])));
    let mut spec = Spec::of([
        ("char".into(), plain(What::Char(crate::tree::DeviceNumber { major: 1, minor: 3 }))),
        ("dir".into(), named(Node::dir([("small".into(), Node::file(vec![text(4, 50)]))]))),
        ("fifo".into(), plain(What::Fifo)),
        ("link".into(), plain(What::Symlink(b"dir/small".to_vec()))),
        ("named".into(), named(Node::file(pieces.clone()))),
        ("plain".into(), Node::file(vec![noise(5, 4096), text(6, 9)])),
        ("wide".into(), Node::dir(wide)),
    ]);
    spec.links.push((b"dir/small".to_vec(), b"again".to_vec()));
    spec
}

/// Walks the structures of an image. All offsets are those of the unpacked image.
struct Lister<'i> {
    image: &'i Unpacked,
    reader: SquashfsReader,
    out: Vec<Field>,
}

impl Lister<'_> {
    fn word(&mut self, name: &str, at: usize, len: usize) -> usize {
        self.out.push(Field { name: name.into(), at, len });
        at + len
    }

    fn half(&self, at: usize) -> usize {
        u16::from_le_bytes(*self.image.bytes[at..].first_chunk().unwrap()).into()
    }

    /// Lists the header of a table's first block; returns the range of its payload.
    fn area(&mut self, area: MetadataArea) -> std::ops::Range<usize> {
        self.word(area.structure, area.start as usize, 2);
        self.image.payload(area)
    }

    fn all(mut self) -> Vec<Field> {
        let _ = fields!(
            self.out,
            0,
            format::Superblock {
                s_magic,
                inodes,
                mkfs_time,
                block_size,
                fragments,
                compression,
                block_log,
                flags,
                no_ids,
                s_major,
                s_minor,
                root_inode,
                bytes_used,
                id_table_start,
                xattr_id_table_start,
                inode_table_start,
                directory_table_start,
                fragment_table_start,
                lookup_table_start,
            }
        );
        let options = 96..self.reader.superblock.data_start as usize;
        for at in options.clone().step_by(2).skip(1) {
            self.word("compressor options", at, 2);
        }
        self.inodes();
        self.listings();
        self.tables();
        self.xattrs();
        for field in self.out.iter_mut().filter(|field| self.image.is_unpacked(field.at)) {
            field.name.push_str(", compressed");
        }
        self.out
    }

    fn inodes(&mut self) {
        let payload = self.area(self.reader.inodes);
        let mut at = payload.start;
        // Files of one directory are alike: a few of each type are enough.
        let mut left = [4u8; 15];
        while at < payload.end {
            let kind = self.half(at);
            let mark = self.out.len();
            at = self.inode(kind, at);
            left[kind] = left[kind].saturating_sub(1);
            if left[kind] == 0 {
                self.out.truncate(mark);
            }
        }
    }

    fn inode(&mut self, kind: usize, at: usize) -> usize {
        let at = fields!(self.out, at, format::InodeHeader { inode_type, mode, uid, guid, mtime, inode_number });
        let size = |at: usize| u32::from_le_bytes(*self.image.bytes[at..].first_chunk().unwrap()) as usize;
        let block = 4096;
        let words = |size: usize, fragment: usize| {
            if fragment == u32::MAX as usize { size.div_ceil(block) } else { size / block }
        };
        match (kind, u16::try_from(kind).unwrap() > inode_type::EXTENDED) {
            (1, _) => fields!(self.out, at, format::Dir { start_block, nlink, file_size, offset, parent_inode }),
            (8, _) => {
                let count = self.half(at + 16);
                let mut at = fields!(
                    self.out,
                    at,
                    format::ExtDir { nlink, file_size, start_block, parent_inode, i_count, offset, xattr }
                );
                for _ in 0..count {
                    let len = u32::from_le_bytes(*self.image.bytes[at + 8..].first_chunk().unwrap()) as usize + 1;
                    at = fields!(self.out, at, format::DirIndex { index, start_block, size });
                    self.word("name of DirIndex", at, 1);
                    at += len;
                }
                at
            }
            (2, _) => {
                let count = words(size(at + 12), size(at + 4));
                let at = fields!(self.out, at, format::File { start_block, fragment, offset, file_size });
                (0..count).fold(at, |at, _| self.word("size word", at, 4))
            }
            (9, _) => {
                let count = words(size(at + 8), size(at + 28));
                let at = fields!(
                    self.out,
                    at,
                    format::ExtFile { start_block, file_size, sparse, nlink, fragment, offset, xattr }
                );
                (0..count).fold(at, |at, _| self.word("size word", at, 4))
            }
            (3 | 10, extended) => {
                let len = size(at + 4);
                let at = fields!(self.out, at, format::Symlink { nlink, symlink_size });
                self.word("target", at, 1);
                if extended { self.word("xattr", at + len, 4) } else { at + len }
            }
            (4 | 5 | 11 | 12, extended) => {
                let at = fields!(self.out, at, format::Device { nlink, rdev });
                if extended { self.word("xattr", at, 4) } else { at }
            }
            (_, extended) => {
                let at = fields!(self.out, at, format::Ipc { nlink });
                if extended { self.word("xattr", at, 4) } else { at }
            }
        }
    }

    /// Lists the fields of listings in the first block; only the last listing is cut off.
    fn listings(&mut self) {
        let payload = self.area(self.reader.listings);
        let (mut at, mut runs) = (payload.start, 0);
        while at + METADATA_LEN / 16 < payload.end && runs < 12 {
            let count = self.half(at) + 1;
            at = fields!(self.out, at, format::DirHeader { count, start_block, inode_number });
            for n in 0..count {
                let (mark, len) = (self.out.len(), self.half(at + 6) + 1);
                at = fields!(self.out, at, format::DirEntry { offset, inode_number, r#type, size });
                self.word("name", at, 1);
                at += len;
                if n > 8 {
                    self.out.truncate(mark);
                }
                if at >= payload.end {
                    return;
                }
            }
            runs += 1;
        }
    }

    fn tables(&mut self) {
        let (fragments, ids) = (self.reader.fragments.area(), self.reader.ids_table.area());
        let export = self.reader.export.as_ref().unwrap().area();
        let at = self.area(fragments).start;
        let _ = fields!(self.out, at, format::Fragment { start_block, size, unused });
        for at in self.area(export).step_by(8).take(5) {
            self.word("reference", at, 8);
        }
        for at in self.area(ids).step_by(4) {
            self.word("id", at, 4);
        }
        for area in [fragments, export, ids] {
            self.word("index", area.end as usize, 8);
        }
    }

    fn xattrs(&mut self) {
        let table = self.reader.xattrs.as_ref().unwrap();
        let (pairs, sets) = (table.pairs, table.sets.area());
        let (pairs, sets_end) = (self.area(pairs), sets.end as usize);
        let sets = self.area(sets);
        // The first is a value by itself; pairs follow.
        let value = fields!(self.out, pairs.start, format::XattrValue { vsize });
        let mut at = value + "value ".len() * 60;
        while at < pairs.end {
            let (out_of_line, len) = (self.half(at) & 0x100 != 0, self.half(at + 2));
            at = fields!(self.out, at, format::XattrKey { r#type, size });
            at = self.word("name", at, 1) + len - 1;
            let len = self.half(at);
            at = fields!(self.out, at, format::XattrValue { vsize });
            if out_of_line {
                self.word("reference of a value", at, 8);
            }
            at += len;
        }
        for at in sets.clone().step_by(16) {
            let _ = fields!(self.out, at, format::XattrSetEntry { xattr, count, size });
        }
        let at = fields!(self.out, sets_end, format::XattrTable { xattr_table_start, xattr_ids, unused });
        self.word("index", at, 8);
    }
}

/// Codecs of the images, each with choices that make metadata smaller than it does; without them metadata is stored as it
/// is. Of lzo and lz4 there are none: a block whose stream ends early is not read.
const CODECS: [(&str, &[&str]); 9] = [
    ("none", &[]),
    ("gzip:1", &[]),
    ("xz:1", &[]),
    ("lzo:1", &[]),
    ("lz4", &[]),
    ("zstd:1", &[]),
    ("gzip:1", &["gzip:9", "gzip:12"]),
    ("xz:1", &["xz:9", "xz:9:lc=0", "xz:9:lc=4,pb=0", "xz:9:lp=2,lc=0"]),
    ("zstd:-5", &["zstd:19", "zstd:3"]),
];

#[test]
fn no_field_can_be_wrong_unnoticed() {
    let mut wrong = Vec::new();
    for (codec, choices) in CODECS {
        let name = if choices.is_empty() { codec.to_owned() } else { format!("{codec}, compressed metadata") };
        if !mutate::is_asked_for(&name) {
            continue;
        }
        let options = SquashfsOptions {
            block_size: 4096,
            fragments: Fragments::Tails,
            plain_metadata: choices.is_empty(),
            export: true,
            ..SquashfsOptions::default()
        }
        .with(|build| {
            build.codec = codec.parse().unwrap();
            build.threads = 0;
        });
        let image = image_of(&spec(), &options);
        let unpacked = Unpacked::of(&image, choices);
        let fields = Lister { image: &unpacked, reader: open(&image).unwrap(), out: Vec::new() }.all();
        let compressed = fields.iter().filter(|field| unpacked.is_unpacked(field.at)).count();
        assert!(fields.len() > 200, "{name}: {}", fields.len());
        assert_eq!(compressed > 100, !choices.is_empty(), "{name}: {compressed}");
        let subject = Subject {
            name: &name,
            kind: "squashfs",
            image: &unpacked.bytes,
            open: &|image| Ok(Box::new(open(image)?)),
            finish: &|bytes| unpacked.pack(bytes),
            known: &[],
        };
        wrong.extend(mutate::judge(&subject, &fields));
    }
    assert!(wrong.is_empty(), "{} deviations:\n{}", wrong.len(), wrong.join("\n"));
}
