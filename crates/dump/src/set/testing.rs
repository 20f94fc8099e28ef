//! A simple writer of parts for tests of the reader. It takes exact instructions instead of options.
#![allow(clippy::cast_possible_truncation, reason = "numbers in tests are small")]

use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::ReadAt;
pub(crate) use packfs_blocks::testing::noise;
use packfs_codec::Choice;
use zerocopy::IntoBytes;

use super::{Set, SetOptions};
use crate::Result;
use crate::format::{ALIGN, PAGE, PartState, Record, RecordKind, SQUEEZED, SegmentKind, sum};
use crate::part::{
    ManifestEntry, PartFooter, PartSuperblock, RecordBytes, SegmentEntry, SegmentHead, fill, seal, seal_payload,
    sealed_len,
};

/// Planned content of a record.
#[derive(Debug, Clone)]
pub(crate) enum Chunk {
    Raw(Vec<u8>),
    Coded(Vec<u8>),
    /// Without its pages of zeros, compressed or not.
    Squeezed(Vec<u8>, bool),
    Fill([u8; 8], u64),
    /// Reference: offset and number of bytes.
    Same(u64, usize),
}

/// Planned layout of a dump.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) parts: u16,
    pub(crate) parity: u16,
    pub(crate) codec: &'static str,
    /// True if the superblock contains the size.
    pub(crate) sized: bool,
    /// True if the superblock contains the offset of the footer.
    pub(crate) told: bool,
    pub(crate) complete: bool,
    pub(crate) set: u8,
    pub(crate) segments: Vec<Vec<Chunk>>,
}

impl Default for Plan {
    fn default() -> Self {
        let segments = Vec::new();
        Plan { parts: 2, parity: 0, codec: "lz4", sized: false, told: true, complete: true, set: 7, segments }
    }
}

/// A dump and its parts.
#[derive(Debug, Clone)]
pub(crate) struct Dump {
    pub(crate) bytes: Vec<u8>,
    pub(crate) parts: Vec<Vec<u8>>,
    /// Positions of the data segments: part, offset, first byte and end in the dump.
    pub(crate) places: Vec<(usize, usize, u64, u64)>,
}

/// The largest chunk of test dumps.
pub(crate) const CHUNK: u32 = 16 << 10;

struct AvailablePart {
    bytes: Vec<u8>,
    entries: Vec<SegmentEntry>,
}

impl Plan {
    pub(crate) fn build(&self) -> Dump {
        let size = self.segments.iter().flatten().map(Chunk::len).sum::<u64>();
        let superblock = |part, footer| PartSuperblock {
            part,
            parts: self.parts,
            parity: self.parity,
            set: [self.set; 16],
            size: self.sized.then_some(size),
            footer,
            input: 1,
            chunk: CHUNK,
            segment: 1 << 20,
            codec: self.codec.parse().unwrap(),
        };
        let begin = |part| superblock(part, None).to_raw().unwrap().as_bytes().to_vec();
        let mut parts: Vec<AvailablePart> =
            (0..self.parts).map(|part| AvailablePart { bytes: begin(part), entries: Vec::new() }).collect();
        let mut dump = Dump { bytes: Vec::new(), parts: Vec::new(), places: Vec::new() };
        let width = usize::from(self.parts - self.parity);
        for (stripe, segments) in (0..).zip(self.segments.chunks(if self.parity > 0 { width } else { 1 })) {
            self.stripe(stripe, segments, &mut parts, &mut dump);
        }
        let manifest: Vec<_> = parts
            .iter()
            .map(|part| ManifestEntry {
                state: Some(PartState::Complete),
                segments: part.entries.len() as u64,
                len: part.bytes.len() as u64,
            })
            .collect();
        for (number, mut part) in (0..).zip(parts) {
            let index = part.bytes.len() as u64;
            let raw: Vec<_> = part.entries.iter().map(SegmentEntry::to_raw).collect();
            let mut out = vec![0; sealed_len(0, raw.as_bytes().len())];
            let head =
                SegmentHead { kind: SegmentKind::Index, stripe: 0, shard: 0, data: 1, parity: 0, start: 0, end: 0 };
            seal_payload(&[self.set; 16], &head, raw.as_bytes(), &mut out);
            part.bytes.extend(out);
            let footer = part.bytes.len() as u64;
            let foot = PartFooter { complete: self.complete, size, index, indexes: 1, manifest: manifest.clone() };
            part.bytes.extend(foot.to_raw(&superblock(number, None)).as_bytes());
            if self.told {
                let told = superblock(number, Some(footer)).to_raw().unwrap();
                part.bytes[..ALIGN].copy_from_slice(told.as_bytes());
            }
            dump.parts.push(part.bytes);
        }
        dump
    }

    fn stripe(&self, stripe: u64, segments: &[Vec<Chunk>], parts: &mut [AvailablePart], dump: &mut Dump) {
        let data = segments.len() as u16;
        let parity = self.parity;
        let mut shards = Vec::new();
        let mut head = SegmentHead { kind: SegmentKind::Data, stripe, shard: 0, data, parity, start: 0, end: 0 };
        for chunks in segments {
            head.start = dump.bytes.len() as u64;
            let pieces: Vec<_> = chunks.iter().map(|chunk| self.piece(chunk, &mut dump.bytes)).collect();
            head.end = dump.bytes.len() as u64;
            let at = (stripe as usize + usize::from(head.shard)) % parts.len();
            let bytes = sealed(self.set, &head, &pieces);
            dump.places.push((at, parts[at].bytes.len(), head.start, head.end));
            parts[at].push(&head, &bytes);
            shards.push((head, bytes));
            head.shard += 1;
        }
        if parity == 0 {
            return;
        }
        let longest = shards.iter().map(|(_, bytes)| bytes.len()).max().unwrap();
        let padded = shards.iter().map(|(_, bytes)| [bytes.as_slice(), &vec![0; longest - bytes.len()]].concat());
        let codes = reed_solomon_simd::encode(data.into(), parity.into(), padded).unwrap();
        head.kind = SegmentKind::Parity;
        head.start = shards.iter().map(|(head, _)| head.start).min().unwrap();
        let records = shards
            .iter()
            .map(|(of, bytes)| record(of.start, of.end - of.start, bytes.len(), RecordKind::Shard, sum(bytes)));
        let records: Vec<Record> = records.collect();
        for code in codes {
            let mut pieces: Vec<_> = records.iter().map(|record| (*record, Vec::new())).collect();
            pieces[0].1 = code;
            let at = (stripe as usize + usize::from(head.shard)) % parts.len();
            parts[at].push(&head, &sealed(self.set, &head, &pieces));
            head.shard += 1;
        }
    }

    /// Makes a record with its payload, and appends its bytes to the dump.
    fn piece(&self, chunk: &Chunk, dump: &mut Vec<u8>) -> (Record, Vec<u8>) {
        let offset = dump.len() as u64;
        let code = |bytes: &[u8]| {
            let choice: Choice = self.codec.parse().unwrap();
            let mut out = vec![0; bytes.len() + 4096];
            let len = choice.encoder(bytes.len().max(1)).unwrap().encode(bytes, &mut out).unwrap().unwrap();
            out.truncate(len);
            out
        };
        let (kind, squeezed, stored) = match chunk {
            Chunk::Raw(bytes) => (RecordKind::Raw, 0, bytes.clone()),
            Chunk::Coded(bytes) => (RecordKind::Coded, 0, code(bytes)),
            Chunk::Squeezed(bytes, coded) => {
                let mut map = vec![0; bytes.len().div_ceil(PAGE).div_ceil(8)];
                let mut kept = Vec::new();
                for (n, page) in bytes.chunks(PAGE).enumerate().filter(|(_, page)| page.iter().any(|byte| *byte != 0)) {
                    map[n / 8] |= 1 << (n % 8);
                    kept.extend_from_slice(page);
                }
                // Nothing is stored for no pages, compressed or not.
                map.extend(if *coded && !kept.is_empty() { code(&kept) } else { kept });
                (if *coded { RecordKind::Coded } else { RecordKind::Raw }, SQUEEZED, map)
            }
            Chunk::Fill(pattern, len) => {
                let from = dump.len();
                dump.resize(from + *len as usize, 0);
                fill(*pattern, 0, &mut dump[from..]);
                return (record(offset, *len, 0, RecordKind::Fill, u64::from_le_bytes(*pattern)), Vec::new());
            }
            Chunk::Same(target, _) => (RecordKind::Same, 0, target.to_le_bytes().to_vec()),
        };
        match chunk {
            Chunk::Same(target, len) => dump.extend_from_within(*target as usize..*target as usize + len),
            Chunk::Raw(bytes) | Chunk::Coded(bytes) | Chunk::Squeezed(bytes, _) => dump.extend_from_slice(bytes),
            Chunk::Fill(..) => {}
        }
        let sum = sum(&dump[offset as usize..]);
        let mut record = record(offset, chunk.len(), stored.len(), kind, sum);
        record.flags = squeezed.into();
        (record, stored)
    }
}

impl Chunk {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Chunk::Raw(bytes) | Chunk::Coded(bytes) | Chunk::Squeezed(bytes, _) => bytes.len() as u64,
            Chunk::Fill(_, len) => *len,
            Chunk::Same(_, len) => *len as u64,
        }
    }
}

impl AvailablePart {
    fn push(&mut self, head: &SegmentHead, bytes: &[u8]) {
        self.entries.push(SegmentEntry { position: self.bytes.len() as u64, len: bytes.len() as u32, head: *head });
        self.bytes.extend_from_slice(bytes);
    }
}

fn record(offset: u64, len: u64, stored: usize, kind: RecordKind, sum: u64) -> Record {
    Record {
        offset: offset.into(),
        len: len.into(),
        stored: (stored as u32).into(),
        kind: (kind as u16).into(),
        flags: 0.into(),
        sum: sum.into(),
    }
}

fn sealed(set: u8, head: &SegmentHead, pieces: &[(Record, Vec<u8>)]) -> Vec<u8> {
    let payload = pieces.iter().map(|(_, stored)| stored.len()).sum();
    let mut out = vec![0; sealed_len(pieces.len(), payload)];
    let pieces = pieces.iter().map(|(record, stored)| RecordBytes { record: *record, front: stored, body: &[] });
    seal(&[set; 16], head, pieces, &mut out);
    out
}

impl Dump {
    /// Opens the set of those parts.
    pub(crate) fn open(&self, parts: impl IntoIterator<Item = usize>) -> Result<Set> {
        open(parts.into_iter().map(|n| self.parts[n].clone()))
    }

    pub(crate) fn open_all(&self) -> Result<Set> {
        self.open(0..self.parts.len())
    }
}

/// Opens a set of these parts.
pub(crate) fn open(parts: impl IntoIterator<Item = Vec<u8>>) -> Result<Set> {
    let parts = parts.into_iter().enumerate();
    let sources = parts.map(|(n, bytes)| (PathBuf::from(format!("p{n}")), Arc::new(bytes) as Arc<dyn ReadAt>));
    Set::from_sources(sources.collect(), &SetOptions { cache_bytes: 1 << 20 })
}

/// Makes compressible bytes.
pub(crate) fn text(len: usize, seed: u64) -> Vec<u8> {
    format!("All work and no play make {seed} a dull boy. ").bytes().cycle().take(len).collect()
}

/// Makes pages of noise at odd positions, zeros at even ones.
pub(crate) fn gappy(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = noise(len, seed);
    bytes.chunks_mut(PAGE).step_by(2).for_each(|page| page.fill(0));
    bytes
}

/// Makes a dump with every kind of record, in `count` segments.
pub(crate) fn mixed(count: u64) -> Vec<Vec<Chunk>> {
    let segment = |n: u64| match n % 4 {
        0 => vec![Chunk::Raw(noise(9000, n)), Chunk::Coded(text(16 << 10, n)), Chunk::Fill([0; 8], 8000)],
        1 => vec![
            Chunk::Squeezed(gappy(15000, n), false),
            Chunk::Squeezed([text(4096, n), vec![0; 9000]].concat(), true),
        ],
        2 => vec![Chunk::Fill(*b"abcdefgh", 5003), Chunk::Raw(noise(100, n)), Chunk::Same(500, 16 << 10)],
        _ => vec![Chunk::Coded(text(12000, n)), Chunk::Same(9100, 700), Chunk::Fill([0; 8], 100_000)],
    };
    (0..count).map(segment).collect()
}
