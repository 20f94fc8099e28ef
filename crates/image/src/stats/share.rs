//! Divides the stored bytes of an image among their users.

use std::collections::BTreeMap;
use std::ops::Range;

use super::StorageUser;
use crate::placement::StoredRange;

/// Maximum number of overlapping uses that are cut at every beginning and end, in a time that grows with its square.
/// Sound images have few. More are divided as if all used all of the bytes.
const OVERLAPPING_MAX: usize = 1 << 12;

/// Uses of stored bytes.
#[derive(Debug, Default)]
pub(super) struct StorageShares(Vec<StorageUse>);

/// Stored bytes that a user uses.
#[derive(Debug, Clone)]
pub(super) struct StorageUse {
    pub(super) user: StorageUser,
    start: u64,
    end: u64,
    pub(super) plain: Range<u64>,
    fragment: bool,
}

/// Part of the stored bytes that falls to a user.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredShare {
    pub(super) user: StorageUser,
    pub(super) stored: u64,
    /// Plain bytes that an earlier user has as well.
    pub(super) duplicate: u64,
    pub(super) fragment: bool,
}

impl StorageUse {
    pub(super) fn new(user: StorageUser, piece: StoredRange) -> StorageUse {
        let StoredRange { stored, plain, fragment } = piece;
        StorageUse { user, start: stored.start, end: stored.end, plain, fragment }
    }

    /// Returns the part of the use that lies in `segment`, with plain bytes in proportion.
    fn within(&self, segment: &Range<u64>) -> StorageUse {
        let len = self.end - self.start;
        let plain = self.plain.end - self.plain.start;
        // A difference of rounded positions, so that the parts in all segments add up to the whole.
        let until = |at: u64| prorate(plain, at.clamp(self.start, self.end) - self.start, len);
        let part = until(segment.end) - until(segment.start);
        let plain = self.plain.start..self.plain.start + part;
        StorageUse { user: self.user, start: segment.start, end: segment.end, plain, fragment: self.fragment }
    }
}

impl StorageShares {
    pub(super) fn add(&mut self, used: StorageUse) {
        if used.start < used.end {
            self.0.push(used);
        }
    }

    /// Divides the bytes of an image of `len` bytes; calls `visit` for each share. No byte is given twice.
    pub(super) fn divide(self, len: u64, visit: &mut dyn FnMut(StoredShare)) {
        self.segments(len, &mut |stored, uses| one(stored, uses, visit));
    }

    /// Cuts the bytes of an image of `len` bytes into segments with the same users; calls `visit` for each, with its
    /// length and its uses. No byte is in two segments.
    pub(super) fn segments(mut self, len: u64, visit: &mut dyn FnMut(u64, &[StorageUse])) {
        for used in &mut self.0 {
            // Damaged images refer to bytes beyond their end, which belong to nobody.
            used.end = used.end.min(len);
        }
        self.0.retain(|used| used.start < used.end);
        self.0.sort_unstable_by(|a, b| {
            // The first user of a range has its bytes, and the others duplicates. So the order decides, and must not
            // depend on chance.
            let key = |used: &StorageUse| (used.start, used.end, used.user, used.plain.start, used.plain.end);
            key(a).cmp(&key(b))
        });
        let mut rest = &self.0[..];
        while let Some(first) = rest.first() {
            let mut end = first.end;
            let mut n = 1;
            while let Some(next) = rest.get(n).filter(|next| next.start < end) {
                end = end.max(next.end);
                n += 1;
            }
            let (together, others) = rest.split_at(n);
            rest = others;
            let range = first.start..end;
            if n > OVERLAPPING_MAX || together.iter().all(|used| (used.start..used.end) == range) {
                visit(end - first.start, together);
            } else {
                overlapping(together, visit);
            }
        }
    }
}

/// Cuts bytes whose users do not use the same ranges at every beginning and end.
fn overlapping(uses: &[StorageUse], visit: &mut dyn FnMut(u64, &[StorageUse])) {
    let mut cuts: Vec<u64> = uses.iter().flat_map(|used| [used.start, used.end]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let (mut active, mut next): (Vec<&StorageUse>, usize) = (Vec::new(), 0);
    for segment in cuts.windows(2) {
        let segment = segment[0]..segment[1];
        active.retain(|used| used.end > segment.start);
        while let Some(used) = uses.get(next).filter(|used| used.start <= segment.start) {
            active.push(used);
            next += 1;
        }
        let mut parts: Vec<StorageUse> = active.iter().map(|used| used.within(&segment)).collect();
        parts.sort_by_key(|part| part.user);
        if !parts.is_empty() {
            visit(segment.end - segment.start, &parts);
        }
    }
}

/// Divides `stored` bytes among their users. Rounded shares add up to them.
fn one(stored: u64, uses: &[StorageUse], visit: &mut dyn FnMut(StoredShare)) {
    let weight = |used: &StorageUse| used.plain.end - used.plain.start;
    let total: u64 = uses.iter().map(weight).fold(0, u64::saturating_add);
    let mut given = 0;
    let mut before = 0_u64;
    let mut seen = SeenRanges::default();
    for (n, used) in uses.iter().enumerate() {
        before = before.saturating_add(weight(used));
        let until = match total {
            0 => prorate(stored, n as u64 + 1, uses.len() as u64),
            _ => prorate(stored, before, total),
        };
        let duplicate = seen.add(used.plain.clone());
        visit(StoredShare { user: used.user, stored: until - given, duplicate, fragment: used.fragment });
        given = until;
    }
}

/// Returns `whole * part / of`; `part` is at most `of`.
pub(super) fn prorate(whole: u64, part: u64, of: u64) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(part) / u128::from(of.max(1))).unwrap_or(whole)
}

/// Plain bytes seen so far: the beginning and end of ranges that do not touch.
#[derive(Debug, Default)]
pub(super) struct SeenRanges(BTreeMap<u64, u64>);

impl SeenRanges {
    /// Adds a range; returns how many bytes of it were there.
    pub(super) fn add(&mut self, new: Range<u64>) -> u64 {
        let mut known = 0;
        let mut joined = new.clone();
        while let Some((start, end)) = self.0.range(..=joined.end).next_back().map(|(start, end)| (*start, *end)) {
            if end < joined.start {
                break;
            }
            known += end.min(new.end).saturating_sub(start.max(new.start));
            joined = joined.start.min(start)..joined.end.max(end);
            self.0.remove(&start);
        }
        self.0.insert(joined.start, joined.end);
        known
    }

    /// Returns the number of bytes seen.
    pub(super) fn len(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// Returns how many bytes were seen that `known` does not have.
    pub(super) fn len_without(&self, known: &SeenRanges) -> u64 {
        let common = |(start, end): (&u64, &u64)| {
            let from = known.0.range(..=start).next_back().map_or(*start, |(before, _)| *before);
            let overlap = |(from, until): (&u64, &u64)| (*until.min(end)).saturating_sub(*from.max(start));
            known.0.range(from..*end).map(overlap).sum::<u64>()
        };
        self.len() - self.0.iter().map(common).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Divides uses of (file, stored, plain); returns stored bytes and duplicate bytes of each share.
    fn divide(len: u64, uses: &[(u32, Range<u64>, Range<u64>)]) -> Vec<(u32, u64, u64)> {
        let mut shares = StorageShares::default();
        for (file, stored, plain) in uses {
            let piece = StoredRange { stored: stored.clone(), plain: plain.clone(), fragment: false };
            shares.add(StorageUse::new(StorageUser::File(*file), piece));
        }
        let mut out = std::collections::BTreeMap::<u32, (u64, u64)>::new();
        shares.divide(len, &mut |share| {
            let StorageUser::File(file) = share.user else { return };
            let sum = out.entry(file).or_default();
            *sum = (sum.0 + share.stored, sum.1 + share.duplicate);
        });
        out.into_iter().map(|(file, (stored, duplicate))| (file, stored, duplicate)).collect()
    }

    #[test]
    fn a_fragment_block_is_divided_by_plain_bytes() {
        let uses = [(1, 10..20, 0..1), (2, 10..20, 1..2), (3, 10..20, 2..3)];
        assert_eq!(divide(100, &uses), [(1, 3, 0), (2, 3, 0), (3, 4, 0)]);
    }

    #[test]
    fn equal_files_share_and_all_but_the_first_are_duplicates() {
        let uses = [(2, 0..50, 0..100), (1, 0..50, 0..100), (3, 0..50, 60..120)];
        assert_eq!(divide(100, &uses), [(1, 19, 0), (2, 19, 100), (3, 12, 40)]);
    }

    #[test]
    fn overlapping_ranges_are_cut() {
        let uses = [(1, 0..100, 0..100), (2, 50..150, 0..100), (3, 60..70, 0..10)];
        assert_eq!(divide(1000, &uses), [(1, 50 + 20 + 3, 0), (2, 50 + 20 + 3, 50), (3, 4, 10)]);
    }

    #[test]
    fn many_overlapping_ranges_take_no_time_and_add_up() {
        let uses: Vec<_> = (0..200_000).map(|n| (n, u64::from(n)..u64::from(n) + 100_000, 0..100_000)).collect();
        let stored: u64 = divide(1 << 30, &uses).into_iter().map(|(_, stored, _)| stored).sum();
        assert_eq!(stored, 299_999);
    }

    #[test]
    fn bytes_behind_the_image_belong_to_nobody() {
        assert_eq!(divide(30, &[(1, 10..50, 0..40), (2, 60..70, 0..10)]), [(1, 20, 0)]);
        assert_eq!(divide(30, &[(1, 10..10, 0..40), (1, 0..3, 0..0), (2, 0..3, 0..0)]), [(1, 1, 0), (2, 2, 0)]);
    }

    #[test]
    fn ranges_are_merged() {
        let mut seen = SeenRanges::default();
        assert_eq!([0..10, 20..30, 5..25, 0..30, 40..50].map(|range| seen.add(range)), [0, 0, 10, 30, 0]);
        assert_eq!(seen.0, BTreeMap::from([(0, 30), (40, 50)]));
        for (ranges, len) in [
            (&[(0, 30)][..], 0),
            (&[(5, 10), (20, 45)], 10),
            (&[(25, 60)], 20),
            (&[(30, 40), (50, 51), (60, 70)], 21),
            (&[], 0),
        ] {
            let others = SeenRanges(ranges.iter().copied().collect());
            assert_eq!(others.len_without(&seen), len, "{ranges:?}");
        }
    }
}
