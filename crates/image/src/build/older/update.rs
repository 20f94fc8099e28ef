//! Number of bytes of a new image that an owner of the old one would have to fetch.
//!
//! zsync and its like cut the new image into aligned blocks and look for each at any offset of the old one. A block is
//! counted as found if all of it lies in bytes that were taken from the old image and lie in a row there, too. That is
//! known without looking at either image; what else might be equal (metadata) counts as new, so that this is never too
//! little.

/// Bytes of the blocks that are looked for.
pub(super) const BLOCK: u64 = 4096;

/// Bytes in a row in both images.
#[derive(Debug, Clone, Copy, Default)]
struct EqualRun {
    start: u64,
    end: u64,
    /// Position in the old image of the byte after it.
    old_end: u64,
}

/// Counts blocks of the new image while it is written in order.
#[derive(Debug, Default)]
pub(super) struct UpdateCounter {
    run: EqualRun,
    found: u64,
}

impl UpdateCounter {
    /// Notes that `len` bytes at `start` of the new image are those at `old` of the older one. Positions never go back.
    pub(super) fn same(&mut self, start: u64, len: u64, old: u64) {
        let EqualRun { end, old_end, .. } = self.run;
        // Also if only the old position jumps: no block of the new image across the jump is in the old one as
        // a whole.
        if start != end || old != old_end {
            self.close();
            self.run.start = start;
        }
        (self.run.end, self.run.old_end) = (start + len, old.saturating_add(len));
    }

    fn close(&mut self) {
        let EqualRun { start, end, .. } = self.run;
        self.found += (end / BLOCK).saturating_sub(start.div_ceil(BLOCK));
    }

    /// Bytes to fetch of an image from byte `base` to byte `end`.
    pub(super) fn finish(mut self, base: u64, end: u64) -> u64 {
        self.close();
        (end - base).saturating_sub(self.found * BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_within_runs_are_found() {
        type Same = &'static [(u64, u64, u64)];
        let table: [(Same, u64); 7] = [
            (&[], 0),
            (&[(0, 4096, 77)], 1),
            (&[(1, 4096, 77)], 0),
            (&[(1, 8191, 0)], 1),
            // In a row in both.
            (&[(100, 5000, 300), (5100, 5000, 5300)], 1),
            (&[(0, 2048, 0), (2048, 2048, 2048)], 1),
            // In a row in the new one only.
            (&[(0, 2048, 0), (2048, 2048, 9000), (4096, 4096, 11048)], 1),
        ];
        for (same, found) in table {
            let mut update = UpdateCounter::default();
            same.iter().for_each(|(start, len, old)| update.same(*start, *len, *old));
            assert_eq!(update.finish(0, 100_000), 100_000 - found * BLOCK, "{same:?}");
        }
    }
}
