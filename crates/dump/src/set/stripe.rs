//! Restores missing or damaged segments from the others of their stripe.
//!
//! The erasure code works on each slice of the shards independently, so a stripe is processed in
//! slices and never held whole.

use std::collections::HashSet;
use std::sync::Arc;

use packfs_blocks::ReadAt;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};
use xxhash_rust::xxh3::Xxh3;

use super::Set;
use super::map::{ABSENT, DAMAGED, SegmentNumber, SegmentPlace};
use crate::format::{SegmentKind, sum};
use crate::part::{ParsedSegment, StripeShard};

/// Number of bytes of each shard processed at once; the code requires a multiple of 64.
const SLICE_LEN: usize = 64 << 10;
/// Memory limit up to which further segments of the stripe are restored along with the requested one.
const MAX_RESTORED_TOGETHER: usize = 32 << 20;

/// Reason why something cannot be restored.
pub(super) type RestoreFailure = String;

/// A stripe, as described by its parity segments.
#[derive(Debug)]
pub(super) struct ParityStripe {
    number: u64,
    data: usize,
    parity: usize,
    /// The data segments, in the order of the shards.
    shards: Vec<StripeShard>,
    /// Length of a shard: that of the longest data segment.
    len: usize,
    /// Number of bytes of a parity segment before its payload.
    head_len: u32,
}

/// An available shard.
#[derive(Debug, Clone, Copy)]
struct ShardSource {
    shard: usize,
    place: SegmentPlace,
    /// Number of a data segment.
    number: Option<SegmentNumber>,
    /// Offset of its shard bytes in its part.
    position: u64,
    /// Number of bytes available; zeros follow them.
    len: usize,
}

/// A restored data segment of a stripe: its shard and its bytes.
type RestoredShard = (usize, Vec<u8>);

impl ParityStripe {
    /// Reads the description of stripe `number` from the available parity segments.
    pub(super) fn read(set: &Set, number: u64) -> Result<ParityStripe, RestoreFailure> {
        let mut why = "it has no parity segment".to_owned();
        for place in set.map.parity_of(number) {
            match set
                .read_head(place, SegmentKind::Parity)
                .map_err(|error| error.to_string())
                .and_then(ParityStripe::new)
            {
                Ok(stripe) => return Ok(stripe),
                Err(bad) => why = bad,
            }
        }
        Err(why)
    }

    fn new(parity: ParsedSegment) -> Result<ParityStripe, RestoreFailure> {
        let stripe = ParityStripe {
            number: parity.head.stripe,
            data: parity.head.data.into(),
            parity: parity.head.parity.into(),
            len: parity.payload as usize,
            head_len: parity.head_len,
            shards: parity.shards,
        };
        // These numbers come from a disk and may suit no code.
        match ReedSolomonDecoder::supports(stripe.data, stripe.parity) {
            true => Ok(stripe),
            false => Err(format!("a stripe of {} and {} segments", stripe.data, stripe.parity)),
        }
    }

    /// Returns the data segments, in the order of the shards.
    pub(super) fn shards(&self) -> &[StripeShard] {
        &self.shards
    }

    /// Returns one segment for each available shard, except those in `bad`.
    fn sources(&self, set: &Set, bad: &HashSet<(u16, u64)>) -> Vec<ShardSource> {
        // Data first: as many of these as there are make decoding cheaper than parity does.
        let numbers = set.map.stripe(self.number).iter().filter(|n| !set.map.is(**n, DAMAGED));
        let data = numbers.map(|n| (Some(*n), set.map.get(*n)));
        let parity = set.map.parity_of(self.number).iter().map(|place| (None, *place));
        let mut sources: Vec<ShardSource> = Vec::new();
        for (number, place) in data.chain(parity) {
            let shard = usize::from(place.shard);
            // Of copies of a shard one is enough. The code takes each shard once.
            let known = sources.iter().any(|source| source.shard == shard);
            if known || place.part == ABSENT || bad.contains(&(place.part, place.position)) {
                continue;
            }
            let source = match self.shards.get(shard) {
                // What contradicts the stripe's own description is not used, as it would spoil all that is
                // restored.
                Some(of) if number.is_some() && of.len == place.len => {
                    ShardSource { shard, place, number, position: place.position, len: place.len as usize }
                }
                None if number.is_none() && shard < self.data + self.parity => {
                    let position = place.position + u64::from(self.head_len);
                    ShardSource { shard, place, number, position, len: self.len }
                }
                _ => continue,
            };
            sources.push(source);
        }
        sources
    }

    /// Restores the data segment of shard `wanted`, and others that are missing.
    fn restore(&self, set: &Set, wanted: usize) -> Result<Vec<RestoredShard>, RestoreFailure> {
        let mut bad = HashSet::new();
        loop {
            let sources = self.sources(set, &bad);
            let missing: Vec<usize> = (0..self.data).filter(|n| !sources.iter().any(|s| s.shard == *n)).collect();
            if !missing.contains(&wanted) {
                return Err("its stripe has it as it is".into());
            }
            if sources.len() < self.data {
                let gone = self.data + self.parity - sources.len();
                return Err(format!("{gone} segments of its stripe are missing or damaged, {} may be", self.parity));
            }
            // If they fit memory, all that are missing: decoding costs the same, and reading in order asks
            // for them next.
            let bytes = missing.iter().map(|n| self.shards[*n].len as usize).sum::<usize>();
            let kept = if bytes <= MAX_RESTORED_TOGETHER { missing } else { vec![wanted] };
            match self.decode(set, &sources, &kept).and_then(|restored| self.verify(restored)) {
                Ok(restored) => return Ok(restored),
                // One of the sources is damaged: retry without it, if there are enough.
                Err(why) => {
                    // Whole segments are read again only here: their checksums cost nothing as long as the
                    // result verifies.
                    let before = bad.len();
                    let unsound = sources.iter().filter(|source| !self.is_sound(set, source));
                    bad.extend(unsound.map(|source| (source.place.part, source.place.position)));
                    // Another try would take the same sources and fail alike.
                    if bad.len() == before {
                        return Err(why);
                    }
                }
            }
        }
    }

    fn verify(&self, restored: Vec<RestoredShard>) -> Result<Vec<RestoredShard>, RestoreFailure> {
        match restored.iter().all(|(n, bytes)| sum(bytes) == self.shards[*n].sum) {
            true => Ok(restored),
            false => Err("the segment restored from its stripe does not match its checksum".into()),
        }
    }

    fn decode(
        &self,
        set: &Set,
        sources: &[ShardSource],
        wanted: &[usize],
    ) -> Result<Vec<RestoredShard>, RestoreFailure> {
        let mut out: Vec<RestoredShard> = wanted.iter().map(|n| (*n, Vec::new())).collect();
        let mut slice = vec![0; SLICE_LEN.min(self.len)];
        let mut decoder = ReedSolomonDecoder::new(self.data, self.parity, slice.len()).map_err(|e| e.to_string())?;
        for from in (0..self.len).step_by(SLICE_LEN) {
            // The last slice is shorter, and the code works on what it is given.
            slice.truncate(self.len - from);
            decoder.reset(self.data, self.parity, slice.len()).map_err(|e| e.to_string())?;
            for source in sources {
                read_slice(set, source, from, &mut slice)?;
                let added = match source.number {
                    Some(_) => decoder.add_original_shard(source.shard, &slice),
                    None => decoder.add_recovery_shard(source.shard - self.data, &slice),
                };
                added.map_err(|e| e.to_string())?;
            }
            let decoded = decoder.decode().map_err(|e| e.to_string())?;
            for (shard, bytes) in &mut out {
                let piece = decoded.restored_original(*shard).ok_or("the erasure code returned nothing")?;
                // The rest of the shard is the padding up to the longest segment.
                let rest = (self.shards[*shard].len as usize).saturating_sub(from);
                bytes.extend_from_slice(&piece[..rest.min(piece.len())]);
            }
        }
        Ok(out)
    }

    /// Returns true if the checksum of a source matches. A data segment that fails is remembered as damaged.
    fn is_sound(&self, set: &Set, source: &ShardSource) -> bool {
        let known = match source.number {
            Some(_) => self.shards.get(source.shard).map(|shard| shard.sum),
            None => set.read_head(&source.place, SegmentKind::Parity).ok().map(|segment| segment.payload_sum),
        };
        let sound = known.is_some() && known == checksum(set, source).ok();
        // Parity has no mark: it is left out for this try only, by its place.
        if let (false, Some(number)) = (sound, source.number) {
            set.map.mark(number, DAMAGED);
        }
        sound
    }

    /// Recomputes the parity, and returns for each available parity segment whether it is right;
    /// `None` if not all data segments are available and intact, so that it cannot be computed.
    pub(super) fn recompute(&self, set: &Set) -> Result<Option<Vec<(SegmentPlace, bool)>>, RestoreFailure> {
        let sources = self.sources(set, &HashSet::new());
        let (data, parity): (Vec<ShardSource>, Vec<ShardSource>) =
            sources.into_iter().partition(|s| s.number.is_some());
        if data.len() < self.data || !data.iter().all(|source| self.is_sound(set, source)) {
            return Ok(None);
        }
        let mut verdicts: Vec<(SegmentPlace, bool)> = parity.iter().map(|source| (source.place, true)).collect();
        let mut slice = vec![0; SLICE_LEN.min(self.len)];
        let mut encoder = ReedSolomonEncoder::new(self.data, self.parity, slice.len()).map_err(|e| e.to_string())?;
        // An encoder takes shards in their order.
        let mut ordered = data;
        ordered.sort_unstable_by_key(|source| source.shard);
        for from in (0..self.len).step_by(SLICE_LEN) {
            slice.truncate(self.len - from);
            encoder.reset(self.data, self.parity, slice.len()).map_err(|e| e.to_string())?;
            for source in &ordered {
                read_slice(set, source, from, &mut slice)?;
                encoder.add_original_shard(&slice).map_err(|e| e.to_string())?;
            }
            let encoded = encoder.encode().map_err(|e| e.to_string())?;
            for (source, (_, same)) in parity.iter().zip(&mut verdicts) {
                read_slice(set, source, from, &mut slice)?;
                *same &= encoded.recovery(source.shard - self.data) == Some(&slice[..]);
            }
        }
        Ok(Some(verdicts))
    }
}

fn checksum(set: &Set, source: &ShardSource) -> Result<u64, RestoreFailure> {
    let mut sum = Xxh3::new();
    let mut slice = vec![0; SLICE_LEN];
    for from in (0..source.len).step_by(SLICE_LEN) {
        slice.truncate(source.len - from);
        read_slice(set, source, from, &mut slice)?;
        sum.update(&slice);
    }
    Ok(sum.digest())
}

/// Reads bytes of a shard from `from` on; zeros after its end.
fn read_slice(set: &Set, source: &ShardSource, from: usize, slice: &mut [u8]) -> Result<(), RestoreFailure> {
    let len = source.len.saturating_sub(from).min(slice.len());
    slice[len..].fill(0);
    let part = &set.parts[usize::from(source.place.part)];
    part.source.read_exact_at(&mut slice[..len], source.position + from as u64).map_err(|e| e.to_string())
}

impl Set {
    /// Returns the defect of a parity segment's bytes, apart from the parity itself.
    pub(super) fn flaw_of_parity(&self, place: &SegmentPlace) -> Option<RestoreFailure> {
        let segment = match self.read_head(place, SegmentKind::Parity) {
            Ok(segment) => segment,
            Err(error) => return Some(error.to_string()),
        };
        let position = place.position + u64::from(segment.head_len);
        let len = segment.payload as usize;
        let source = ShardSource { shard: place.shard.into(), place: *place, number: None, position, len };
        let mut padding = vec![0; place.len as usize - segment.head_len as usize - len];
        let padding_source = ShardSource { position: position + len as u64, len: padding.len(), ..source };
        match (checksum(self, &source), read_slice(self, &padding_source, 0, &mut padding)) {
            (Ok(sum), _) if sum != segment.payload_sum => Some("the checksum of its payload does not match".into()),
            (Ok(_), Ok(())) if padding.iter().any(|byte| *byte != 0) => {
                Some("the padding after it is not all zeros".into())
            }
            (Ok(_), Ok(())) => None,
            (Err(why), _) | (_, Err(why)) => Some(why),
        }
    }

    /// Returns the bytes of a data segment, restored from its stripe.
    pub(super) fn restored(&self, number: SegmentNumber) -> Result<Arc<[u8]>, RestoreFailure> {
        // The other restored segments are cached after the cache has released this one: otherwise
        // two threads that restore segments of one stripe would wait for each other.
        let mut others = Vec::new();
        let place = self.map.get(number);
        let bytes = self.restored.get(number, || {
            let stripe = ParityStripe::read(self, place.stripe)?;
            let mut wanted = None;
            for (shard, bytes) in stripe.restore(self, place.shard.into())? {
                if shard == usize::from(place.shard) {
                    wanted = Some(Arc::from(bytes));
                } else {
                    others.push((shard, bytes));
                }
            }
            wanted.ok_or_else(|| RestoreFailure::from("its stripe does not have it"))
        })?;
        for (shard, bytes) in others {
            let of_shard = |n: &&SegmentNumber| usize::from(self.map.get(**n).shard) == shard;
            if let Some(number) = self.map.stripe(place.stripe).iter().find(of_shard) {
                // Another thread may have restored it meanwhile. Either result will do.
                let _: Result<_, RestoreFailure> = self.restored.get(*number, || Ok(bytes.into()));
            }
        }
        Ok(bytes)
    }
}
