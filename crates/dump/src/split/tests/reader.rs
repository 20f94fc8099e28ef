//! The simplest possible reader: scans all parts, keeps everything in memory, and repairs stripes if needed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use packfs_blocks::ReadAt;

use crate::format::{ALIGN, SegmentKind, sum};
use crate::part::{
    ChunkDecoder, ParsedSegment, PartSuperblock, ScanStep, SegmentScan, StretchStorage, fill, find_footer,
    payload_is_sound, read_index,
};

/// The available segments of a stripe, as stored in the parts.
#[derive(Debug, Default)]
pub(super) struct Stripe {
    pub(super) data: usize,
    pub(super) parity: usize,
    pub(super) shards: BTreeMap<usize, Vec<u8>>,
}

impl Stripe {
    pub(super) fn is_whole(&self) -> bool {
        self.shards.len() == self.data + self.parity
    }

    /// Returns the data segments, restored from parity if some are missing.
    fn data(&self, set: &[u8; 16]) -> Option<Vec<Vec<u8>>> {
        let have: Vec<_> = (0..self.data).filter_map(|n| self.shards.get(&n).cloned()).collect();
        if have.len() == self.data {
            return Some(have);
        }
        let parity: Vec<_> = (self.data..self.data + self.parity)
            .filter_map(|n| {
                let bytes = self.shards.get(&n)?;
                let segment = ParsedSegment::parse(bytes, set, 1 << 24).unwrap();
                let from = segment.head_len as usize;
                Some((n - self.data, bytes[from..from + segment.payload as usize].to_vec(), segment.shards))
            })
            .collect();
        let longest = parity.first()?.1.len();
        let original = (0..self.data).filter_map(|n| {
            let mut bytes = self.shards.get(&n)?.clone();
            bytes.resize(longest, 0);
            Some((n, bytes))
        });
        let recovery = parity.iter().map(|(n, bytes, _)| (*n, bytes));
        let mended = reed_solomon_simd::decode(self.data, self.parity, original, recovery).ok()?;
        let all = (0..self.data).map(|n| match self.shards.get(&n) {
            Some(bytes) => bytes.clone(),
            None => {
                let bytes = mended[&n][..parity[0].2[n].len as usize].to_vec();
                assert_eq!(sum(&bytes), parity[0].2[n].sum);
                bytes
            }
        });
        Some(all.collect())
    }
}

/// Returns all stripes of the parts, by number. Parts with a trailer are also checked to have a correct index.
pub(super) fn stripes(parts: &[PathBuf]) -> BTreeMap<u64, Stripe> {
    let mut stripes: BTreeMap<u64, Stripe> = BTreeMap::new();
    for path in parts {
        let bytes = std::fs::read(path).unwrap();
        let superblock = PartSuperblock::parse(&bytes).unwrap();
        let foot = find_footer(&bytes, &superblock).unwrap();
        let mut index = foot.map(|(_, foot)| read_index(&bytes, &superblock, &foot).unwrap().unwrap().into_iter());
        for found in SegmentScan::whole(&bytes, &superblock) {
            let ScanStep::Segment { position, segment } = found.unwrap() else { continue };
            if segment.head.kind == SegmentKind::Index {
                continue;
            }
            let mut payload = Vec::new();
            if !payload_is_sound(&bytes, position, &segment, &mut payload).unwrap() {
                continue;
            }
            if let Some(index) = &mut index {
                let entry = index.next().unwrap();
                assert_eq!((entry.position, u64::from(entry.len), entry.head), (position, segment.len(), segment.head));
            }
            if segment.head.kind == SegmentKind::Checkpoint {
                continue;
            }
            let stripe = stripes.entry(segment.head.stripe).or_default();
            (stripe.data, stripe.parity) = (segment.head.data.into(), segment.head.parity.into());
            let mut whole = vec![0; usize::try_from(segment.len()).unwrap()];
            bytes.read_exact_at(&mut whole, position).unwrap();
            stripe.shards.insert(segment.head.shard.into(), whole);
        }
        assert!(index.is_none_or(|mut index| index.next().is_none()), "the index has more than there is");
        assert!(bytes.len().is_multiple_of(ALIGN) || superblock.footer.is_none());
    }
    stripes
}

/// Returns the dump, of `len` bytes; the error says what is missing.
pub(super) fn restore(parts: &[PathBuf], len: u64) -> Result<Vec<u8>, String> {
    let superblock = PartSuperblock::parse(&std::fs::read(&parts[0]).unwrap()).unwrap();
    let mut decoder = ChunkDecoder::new(superblock.codec.codec()).unwrap();
    let mut out = vec![0u8; usize::try_from(len).unwrap()];
    let mut there = vec![false; out.len()];
    let mut same = Vec::new();
    for (number, stripe) in stripes(parts) {
        // Of a stripe that cannot be repaired, the available segments still count.
        let data = stripe.data(&superblock.set);
        let data =
            data.unwrap_or_else(|| stripe.shards.into_iter().filter(|(n, _)| *n < stripe.data).map(|s| s.1).collect());
        for bytes in data {
            let segment = ParsedSegment::parse(&bytes, &superblock.set, superblock.chunk).unwrap();
            let payload = &bytes[segment.head_len as usize..][..segment.payload as usize];
            for stretch in &segment.stretches {
                let place = usize::try_from(stretch.range.start).unwrap()..usize::try_from(stretch.range.end).unwrap();
                match &stretch.what {
                    StretchStorage::Fill(pattern) => fill(*pattern, 0, &mut out[place.clone()]),
                    StretchStorage::Stored { payload: at, coded, squeezed } => {
                        let stored = &payload[at.start as usize..at.end as usize];
                        let done = decoder.decode(stored, *coded, *squeezed, stretch.sum, &mut out[place.clone()]);
                        done.map_err(|why| format!("stripe {number}: {why}"))?;
                    }
                    StretchStorage::Same { .. } => {
                        same.push((place.clone(), stretch.target(payload).unwrap(), stretch.sum))
                    }
                }
                there[place].fill(true);
            }
        }
    }
    if let Some(at) = there.iter().position(|there| !there) {
        return Err(format!("byte {at} is missing"));
    }
    for (place, target, expected) in same {
        let from = usize::try_from(target).unwrap();
        out.copy_within(from..from + place.len(), place.start);
        assert_eq!(sum(&out[place]), expected);
    }
    Ok(out)
}
