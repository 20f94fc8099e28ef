//! Stored ranges of many files of a remote image, which are announced together.

use std::ops::Range;

/// Gap between two ranges that are announced as one: fetching so many bytes takes no longer than a request.
pub(crate) const GAP: u64 = 128 << 10;

/// Ranges of stored bytes, in any order, each of a device by its number. SquashFS has one device.
#[derive(Debug, Default)]
pub(crate) struct AnnouncedRanges(Vec<(u16, Range<u64>)>);

impl AnnouncedRanges {
    /// Adds a range.
    pub(crate) fn add(&mut self, device: u16, range: Range<u64>) {
        if range.start < range.end {
            self.0.push((device, range));
        }
    }

    /// Returns the ranges in order, neighbours joined.
    pub(crate) fn join(mut self) -> Vec<(u16, Range<u64>)> {
        self.0.sort_unstable_by_key(|(device, range)| (*device, range.start));
        let mut joined: Vec<(u16, Range<u64>)> = Vec::new();
        for (device, range) in self.0 {
            match joined.last_mut() {
                Some((last, before)) if *last == device && range.start <= before.end.saturating_add(GAP) => {
                    before.end = before.end.max(range.end);
                }
                _ => joined.push((device, range)),
            }
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_and_devices_are_not() {
        let mut ranges = AnnouncedRanges::default();
        for (device, range) in
            [(0, 900..1000), (1, 0..5), (0, 0..100), (0, 50..60), (0, 1000 + GAP..2000 + GAP), (0, 7..7)]
        {
            ranges.add(device, range);
        }
        ranges.add(0, 2001 + 2 * GAP..u64::MAX);
        let expected = [(0, 0..2000 + GAP), (0, 2001 + 2 * GAP..u64::MAX), (1, 0..5)];
        assert_eq!(ranges.join(), expected);
    }
}
