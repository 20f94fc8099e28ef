//! A SquashFS image with compressed metadata, given by what its tables hold. A fuzzer cannot change a compressed table
//! without destroying it, so here it changes the tables, and they are compressed afterwards. A test of `packfs-image` runs
//! this over images of its own, and random changes of them.

use std::sync::Arc;

use packfs_codec::{Choice, Encoder};
use packfs_image::squashfs::{ReadOptions, SquashfsReader};

use crate::take::Take;

const CODEC_COUNT: u8 = 5;
/// The codecs of the format: number in the superblock, choice, and options after the superblock, which lz4 requires.
const CODECS: [(u16, &str, &[u8]); CODEC_COUNT as usize] = [
    (1, "gzip:1", &[]),
    (3, "lzo:algorithm=lzo1x_1", &[]),
    (4, "xz:0", &[]),
    (5, "lz4", &[8, 0x80, 1, 0, 0, 0, 0, 0, 0, 0]),
    (6, "zstd:1", &[]),
];

const SUPERBLOCK_LEN: usize = 96;
/// The parts of a superblock that do not say where something is: from the number of inodes to the root's inode.
const FIELDS: std::ops::Range<usize> = 4..40;
/// Images are padded to a multiple of this.
const PADDING: usize = 4096;
/// Where the superblock has its other fields, and those that say how long a table is.
const INODES: usize = 4;
const FRAGMENTS: usize = 16;
const COMPRESSION: usize = 20;
const NO_IDS: usize = 26;
const BYTES_USED: usize = 40;
const ID_TABLE: usize = 48;
const XATTR_ID_TABLE: usize = 56;
const INODE_TABLE: usize = 64;
const DIRECTORY_TABLE: usize = 72;
const FRAGMENT_TABLE: usize = 80;
const LOOKUP_TABLE: usize = 88;

const METADATA_LEN: usize = 8192;
const METADATA_RAW: u16 = 0x8000;
const NO_TABLE: u64 = u64::MAX;
/// Bytes of an entry in the tables that have an index.
const FRAGMENT_LEN: usize = 16;
const INODE_REFERENCE_LEN: usize = 8;
const ID_LEN: usize = 4;
const XATTR_SET_LEN: usize = 16;
/// Bits of [`ImageParts::present`].
const HAS_XATTRS: u8 = 1;
const HAS_EXPORT: u8 = 2;

/// Parts of an image, without positions.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ImageParts {
    /// Index of [`CODECS`].
    pub codec: u8,
    /// Bit n: every eighth metadata block of a table from the n-th on is stored as it is.
    pub stored: u8,
    /// [`HAS_XATTRS`], [`HAS_EXPORT`].
    pub present: u8,
    /// [`FIELDS`] of the superblock.
    pub fields: Vec<u8>,
    /// Bytes of files and fragments, which follow the superblock and the options of the codec.
    pub data: Vec<u8>,
    /// What the tables hold, in the order in which the image has them: inodes, directories, fragments, inodes by number,
    /// owners, xattrs, sets of xattrs.
    pub tables: [Vec<u8>; 7],
}

/// Opens the image that the bytes describe, and does everything a reader can do with it.
pub fn look(bytes: &[u8]) {
    let image = ImageParts::of(bytes).image();
    let options = ReadOptions::default().set(|all| all.cache_bytes = 1 << 20);
    if let Ok(image) = SquashfsReader::open(Arc::new(image), options) {
        crate::image::look(&image);
    }
}

impl ImageParts {
    /// Takes three bytes of choices, the fields, and data and tables after their lengths (2).
    pub fn of(bytes: &[u8]) -> Self {
        let mut take = Take(bytes);
        let codec = take.byte() % CODEC_COUNT;
        let stored = take.byte();
        let present = take.byte();
        let mut fields = take.bytes(FIELDS.len()).to_vec();
        fields.resize(FIELDS.len(), 0);
        let mut section = || {
            let len = take.short();
            take.bytes(len.into()).to_vec()
        };
        ImageParts { codec, stored, present, fields, data: section(), tables: std::array::from_fn(|_| section()) }
    }

    /// Returns the bytes that [`of`](ImageParts::of) takes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.codec, self.stored, self.present];
        bytes.extend_from_slice(&self.fields);
        for section in std::iter::once(&self.data).chain(&self.tables) {
            let len = u16::try_from(section.len()).expect("a small image");
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(section);
        }
        bytes
    }

    /// Returns the parts of an image whose metadata is stored as it is, and which has no options of its codec but lz4's.
    /// `None` if it is another one.
    pub fn of_image(image: &[u8]) -> Option<Self> {
        let stored = StoredImage(image);
        let number = stored.number::<2>(COMPRESSION)?;
        let codec = CODECS.iter().position(|codec| u64::from(codec.0) == number)?;
        let inodes = stored.position(INODE_TABLE)?;
        let directories = stored.position(DIRECTORY_TABLE)?;
        let fragments = stored.indexed(FRAGMENT_TABLE, stored.count::<4>(FRAGMENTS)? * FRAGMENT_LEN)?;
        let by_number = match stored.position(LOOKUP_TABLE) {
            Some(_) => stored.indexed(LOOKUP_TABLE, stored.count::<4>(INODES)? * INODE_REFERENCE_LEN)?,
            None => IndexedTable::default(),
        };
        let ids = stored.indexed(ID_TABLE, stored.count::<2>(NO_IDS)? * ID_LEN)?;
        let tables = [&fragments, &by_number, &ids];
        let directories_end = tables.iter().filter_map(|table| table.first_block).min()?;
        let mut xattrs = Vec::new();
        let mut xattr_sets = IndexedTable::default();
        let mut present = if by_number.first_block.is_some() { HAS_EXPORT } else { 0 };
        if let Some(header) = stored.position(XATTR_ID_TABLE) {
            present |= HAS_XATTRS;
            let count = stored.count::<4>(header + 8)?;
            xattr_sets = stored.table(header + 16, count * XATTR_SET_LEN)?;
            let end = xattr_sets.first_block.unwrap_or(header);
            xattrs = stored.blocks(stored.position(header)?..end, usize::MAX)?;
        }
        Some(ImageParts {
            codec: u8::try_from(codec).ok()?,
            stored: 0,
            present,
            fields: image[FIELDS].to_vec(),
            data: image.get(SUPERBLOCK_LEN + CODECS[codec].2.len()..inodes)?.to_vec(),
            tables: [
                stored.blocks(inodes..directories, usize::MAX)?,
                stored.blocks(directories..directories_end, usize::MAX)?,
                fragments.held,
                by_number.held,
                ids.held,
                xattrs,
                xattr_sets.held,
            ],
        })
    }

    /// Returns the image.
    pub fn image(&self) -> Vec<u8> {
        let (number, choice, options) = CODECS[usize::from(self.codec)];
        let choice: Choice = choice.parse().expect("a codec");
        let mut writer = TableWriter {
            image: [&[0; SUPERBLOCK_LEN], options, &self.data].concat(),
            encoder: choice.encoder(METADATA_LEN).expect("a codec"),
            stored: self.stored,
        };
        let [inodes, directories, fragments, by_number, ids, xattrs, xattr_sets] = &self.tables;
        let inode_table_start = writer.at();
        writer.blocks(inodes);
        let directory_table_start = writer.at();
        writer.blocks(directories);
        let fragment_table_start = writer.indexed(fragments);
        let lookup_table_start = if self.present & HAS_EXPORT == 0 { NO_TABLE } else { writer.indexed(by_number) };
        let id_table_start = writer.indexed(ids);
        let xattr_id_table_start =
            if self.present & HAS_XATTRS == 0 { NO_TABLE } else { writer.xattrs(xattrs, xattr_sets) };
        let positions = [
            writer.at(),
            id_table_start,
            xattr_id_table_start,
            inode_table_start,
            directory_table_start,
            fragment_table_start,
            lookup_table_start,
        ];
        let mut image = writer.image;
        image.resize(image.len().next_multiple_of(PADDING), 0);
        image[..4].copy_from_slice(b"hsqs");
        image[FIELDS].copy_from_slice(&self.fields);
        image[COMPRESSION..COMPRESSION + 2].copy_from_slice(&number.to_le_bytes());
        for (field, position) in image[BYTES_USED..SUPERBLOCK_LEN].chunks_mut(8).zip(positions) {
            field.copy_from_slice(&position.to_le_bytes());
        }
        image
    }
}

/// An image whose metadata is stored as it is.
struct StoredImage<'i>(&'i [u8]);

/// A table with an index.
#[derive(Default)]
struct IndexedTable {
    /// Offset of the first block; `None` if there is none.
    first_block: Option<usize>,
    held: Vec<u8>,
}

impl StoredImage<'_> {
    /// Returns the number of `LEN` bytes at an offset.
    fn number<const LEN: usize>(&self, at: usize) -> Option<u64> {
        let bytes = self.0.get(at..at + LEN)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Returns a number of entries.
    fn count<const LEN: usize>(&self, at: usize) -> Option<usize> {
        usize::try_from(self.number::<LEN>(at)?).ok()
    }

    /// Returns the offset that is stored at another one; `None` if it is that of a missing table.
    fn position(&self, at: usize) -> Option<usize> {
        usize::try_from(self.number::<8>(at)?).ok().filter(|position| *position <= self.0.len())
    }

    /// Returns the table whose index the superblock names.
    fn indexed(&self, field: usize, len: usize) -> Option<IndexedTable> {
        if len == 0 { Some(IndexedTable::default()) } else { self.table(self.position(field)?, len) }
    }

    /// Returns the table of an index. Its blocks follow each other, so the first is enough.
    fn table(&self, index: usize, len: usize) -> Option<IndexedTable> {
        if len == 0 {
            return Some(IndexedTable::default());
        }
        let first_block = self.position(index)?;
        Some(IndexedTable { first_block: Some(first_block), held: self.blocks(first_block..index, len)? })
    }

    /// Returns what the metadata blocks in a range hold, up to the one with byte `len`.
    fn blocks(&self, range: std::ops::Range<usize>, len: usize) -> Option<Vec<u8>> {
        let mut held = Vec::new();
        let mut rest = self.0.get(range)?;
        while held.len() < len && !rest.is_empty() {
            let (header, after) = rest.split_first_chunk::<2>()?;
            let header = u16::from_le_bytes(*header);
            if header & METADATA_RAW == 0 {
                return None;
            }
            let (block, after) = after.split_at_checked((header & !METADATA_RAW).into())?;
            held.extend_from_slice(block);
            rest = after;
        }
        Some(held)
    }
}

/// Appends tables to an image.
struct TableWriter {
    image: Vec<u8>,
    encoder: Box<dyn Encoder>,
    stored: u8,
}

impl TableWriter {
    fn at(&self) -> u64 {
        self.image.len() as u64
    }

    /// Appends metadata blocks; returns where they begin.
    fn blocks(&mut self, table: &[u8]) -> Vec<u64> {
        let mut starts = Vec::new();
        let mut encoded = vec![0; METADATA_LEN];
        for (number, block) in table.chunks(METADATA_LEN).enumerate() {
            starts.push(self.at());
            let is_stored = self.stored >> (number % 8) & 1 == 1;
            let len = if is_stored {
                None
            } else {
                self.encoder.encode(block, &mut encoded).expect("encoders take anything")
            };
            let (flag, bytes) = match len {
                Some(len) if len < block.len() => (0, &encoded[..len]),
                _ => (METADATA_RAW, block),
            };
            let len = u16::try_from(bytes.len()).expect("a block of at most 8 KiB");
            self.image.extend_from_slice(&(flag | len).to_le_bytes());
            self.image.extend_from_slice(bytes);
        }
        starts
    }

    /// Appends metadata blocks, and their index; returns where that begins.
    fn indexed(&mut self, table: &[u8]) -> u64 {
        let starts = self.blocks(table);
        let index = self.at();
        starts.iter().for_each(|start| self.image.extend_from_slice(&start.to_le_bytes()));
        index
    }

    /// Appends the tables of xattrs; returns where their header begins.
    fn xattrs(&mut self, xattrs: &[u8], sets: &[u8]) -> u64 {
        let xattr_table_start = self.at();
        self.blocks(xattrs);
        let starts = self.blocks(sets);
        let header = self.at();
        self.image.extend_from_slice(&xattr_table_start.to_le_bytes());
        let count = u32::try_from(sets.len() / XATTR_SET_LEN).expect("a small table");
        self.image.extend_from_slice(&count.to_le_bytes());
        self.image.extend_from_slice(&[0; 4]);
        starts.iter().for_each(|start| self.image.extend_from_slice(&start.to_le_bytes()));
        header
    }
}
