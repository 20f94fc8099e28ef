//! Uncompressed clusters that several extents of compressed files share: the layouts that Linux can read.
//!
//! Linux decodes a cluster once for all extents that are read at the same time, into the pages of the extent that needs
//! the most bytes of it, and copies from these pages to those of the other extents. If some pages of that extent were
//! read before, they are not read again. Decompressors then fill pages of their own, but nothing does so for an
//! uncompressed cluster. An extent that has to copy from such a page fails with EIO.
//!
//! An extent copies nothing if its pages are divided as those of the other extent are: it begins at the same offset in a
//! page, and ends at the end of a page or of the cluster.

use std::collections::VecDeque;

/// Length of a page in bytes. With larger pages, Linux reads fewer shared clusters; nearly all machines have these.
pub(super) const PAGE_LEN: u64 = 4096;
/// Number of pages of the longest folio, the unit in which Linux reads and retries: a huge page. No more extents have to be
/// remembered, because each contains the beginning of another page.
const FOLIO_PAGES: usize = 512;
/// Length in bytes of that folio.
const FOLIO_MAX: u64 = FOLIO_PAGES as u64 * PAGE_LEN;

/// Returns the offset in a page of a byte of a file.
pub(super) fn page_offset(at: u64) -> u16 {
    u16::try_from(at % PAGE_LEN).expect("less than a page")
}

/// An existing cluster that the beginning of some data equals.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedCluster {
    /// Number of bytes that it holds.
    pub(super) len: usize,
    /// Offset in a page at which other extents use it.
    pub(super) page_offset: u16,
}

impl SharedCluster {
    /// Returns how many bytes of the cluster an extent may use that begins at byte `begin` of a file and has the first
    /// `equal` bytes of the cluster.
    pub(super) fn usable_len(self, begin: u64, equal: usize) -> usize {
        if page_offset(begin) != self.page_offset {
            return 0;
        }
        if equal == self.len {
            return equal;
        }
        equal.saturating_sub(page_offset(begin + equal as u64).into())
    }
}

/// An extent of a compressed file in an uncompressed cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RawExtent {
    /// Offset in the file.
    pub(super) begin: u64,
    /// Number of bytes of the file.
    pub(super) len: u64,
    /// Offset of its cluster in the image.
    pub(super) cluster: u64,
}

impl RawExtent {
    fn end(self) -> u64 {
        self.begin.saturating_add(self.len)
    }

    /// Returns true if a page begins inside it. Only then can a folio contain its end but not all of it.
    fn contains_page_start(self) -> bool {
        self.begin / PAGE_LEN < self.end().saturating_sub(1) / PAGE_LEN
    }

    /// Returns true if Linux fails to read a folio that contains the end of this extent and the beginning of a later one
    /// of the same cluster, because the pages of this extent before the folio are cached.
    fn blocks(self, later: RawExtent) -> bool {
        let mut folio_len = PAGE_LEN;
        while folio_len <= FOLIO_MAX {
            let folio = later.begin - later.begin % folio_len;
            if folio <= self.begin {
                // All of this extent is in the folio, and in every longer one.
                return false;
            }
            let wanted = later.end().min(folio.saturating_add(folio_len)) - later.begin;
            if folio < self.end() && self.len > wanted && !self.shares_pages(later, wanted, folio) {
                return true;
            }
            folio_len *= 2;
        }
        false
    }

    /// Returns true if the first `wanted` bytes of `later` need no page of this extent before the folio.
    fn shares_pages(self, later: RawExtent, wanted: u64, folio: u64) -> bool {
        if page_offset(self.begin) != page_offset(later.begin) {
            return false;
        }
        let end = later.begin + wanted;
        // The page in which the part ends is copied from this extent.
        page_offset(end) == 0 || self.begin + (end - later.begin) >= folio
    }
}

/// The uncompressed extents of a file that may block later ones: those that the same folio may contain in part.
#[derive(Debug, Default)]
pub(super) struct RawExtents {
    /// In the order of the file.
    recent: VecDeque<RawExtent>,
    /// Offset in the image from which on no extent so far has its cluster. New data has higher ones than all data before.
    unused_from: u64,
}

impl RawExtents {
    /// Adds the next extent. Returns an earlier one with which Linux may fail to read it.
    pub(super) fn add(&mut self, extent: RawExtent) -> Option<RawExtent> {
        let reach = extent.begin - extent.begin % FOLIO_MAX;
        while self.recent.front().is_some_and(|earliest| earliest.end() <= reach) {
            self.recent.pop_front();
        }
        let is_used = extent.cluster < self.unused_from;
        let is_blocking = |earlier: &&RawExtent| earlier.cluster == extent.cluster && earlier.blocks(extent);
        let blocking = if is_used { self.recent.iter().find(is_blocking).copied() } else { None };
        self.unused_from = self.unused_from.max(extent.cluster.saturating_add(1));
        if extent.contains_page_start() {
            // Only extents of a damaged map overlap, so that there are more.
            if self.recent.len() == FOLIO_PAGES {
                self.recent.pop_front();
            }
            self.recent.push_back(extent);
        }
        blocking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_part_begins_at_the_same_offset_in_a_page_and_ends_with_a_page_or_the_cluster() {
        // Length of the cluster, its offset in a page, beginning in the file, equal bytes: usable bytes.
        let table = [
            (10_000, 0, 0, 10_000, 10_000),
            (10_000, 0, 8192, 9999, 8192),
            (10_000, 0, 8192, 4095, 0),
            (10_000, 0, 100, 10_000, 0),
            (10_000, 100, 4196, 10_000, 10_000),
            (10_000, 100, 4196, 9999, 8092),
            (10_000, 100, 0, 10_000, 0),
            (10_000, 4095, 4095, 1, 1),
            (10_000, 4095, 4095, 0, 0),
        ];
        for (len, page_offset, begin, equal, usable) in table {
            let cluster = SharedCluster { len, page_offset };
            assert_eq!(cluster.usable_len(begin, equal), usable, "{cluster:?}, {equal} from {begin}");
        }
    }

    /// The verdicts were compared with Linux 6.18, which read such images in folios of each size.
    #[test]
    fn extents_that_linux_cannot_read_together_are_found() {
        const KIB: u64 = 1024;
        let extent = |begin, len| RawExtent { begin, len, cluster: 4096 };
        let table: [(&[RawExtent], bool, &str); 9] = [
            (&[extent(0, 195_123), extent(195_123, 299_008)], true, "they meet within a page"),
            (&[extent(0, 196_608), extent(196_608, 299_008)], false, "they meet at the end of a page"),
            (&[extent(1000, 299_008), extent(300_008, 299_008)], false, "they begin at the same offset"),
            (&[extent(0, 160 * KIB), extent(160 * KIB, 20_000)], true, "the second ends within a page"),
            (&[extent(0, 160 * KIB), extent(160 * KIB, 20 * KIB)], false, "the second ends with a page"),
            (&[extent(0, 24 * KIB), extent(24 * KIB, 9000)], false, "every folio has all of both or the first alone"),
            (&[extent(0, 69_000), extent(70_000, 65_536)], true, "other data is between them"),
            (&[extent(0, 65_536), extent((4 << 20) + 5, 65_536)], false, "no folio has both"),
            (&[extent(0, 65_536), RawExtent { cluster: 0, ..extent(70_000, 65_536) }], false, "other clusters"),
        ];
        for (extents, fails, why) in table {
            let mut seen = RawExtents::default();
            let found = extents.iter().filter_map(|extent| seen.add(*extent)).count() > 0;
            assert_eq!(found, fails, "{why}");
        }
    }

    #[test]
    fn an_extent_at_the_beginning_of_a_folio_is_remembered_to_its_end() {
        let mut seen = RawExtents::default();
        let first = RawExtent { begin: FOLIO_MAX - 4000, len: 100_000, cluster: 0 };
        let last = RawExtent { begin: 2 * FOLIO_MAX - 50_001, len: 20_000, cluster: 0 };
        assert_eq!(seen.add(first), None);
        let mut begin = first.end();
        while begin + PAGE_LEN <= last.begin {
            assert_eq!(seen.add(RawExtent { begin, len: PAGE_LEN, cluster: begin }), None);
            begin += PAGE_LEN;
        }
        assert_eq!(seen.add(last), Some(first));
    }

    #[test]
    fn few_extents_are_remembered() {
        // A page each, as an index tells of new data, or of the same cluster again and again.
        let clusters: [fn(u64) -> u64; 2] = [|n| (n + 1) * PAGE_LEN, |_| PAGE_LEN];
        for (cluster, shift, most) in
            clusters.into_iter().flat_map(|cluster| [(cluster, 0, 0), (cluster, 1, FOLIO_PAGES)])
        {
            let mut seen = RawExtents::default();
            for n in 0..10 * FOLIO_PAGES as u64 {
                let extent = RawExtent { begin: n * PAGE_LEN + shift, len: PAGE_LEN, cluster: cluster(n) };
                assert_eq!(seen.add(extent), None);
                assert!(seen.recent.len() <= most, "{} extents, {shift} bytes after a page", seen.recent.len());
            }
        }
    }
}
