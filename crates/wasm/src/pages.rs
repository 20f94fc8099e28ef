//! The part of an image that was fetched, in pages, and the part that is wanted next.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use packfs_image::ReadAt;

/// Length of a page in bytes. Smaller ones need more requests where metadata is scattered; larger ones fetch more that
/// nobody reads. With 64 KiB the first listing of a Debian root takes three requests.
pub(crate) const PAGE_LEN: u64 = 64 << 10;
/// Maximum length of all pages between two requests: more than a large directory or a few pieces of files need.
const KEPT_LEN: u64 = 64 << 20;
/// Maximum length of what is fetched ahead, besides what a request cannot do without.
const ADVANCE_LEN: u64 = 4 << 20;
/// Wanted ranges with no more pages than this between them are fetched as one: a request costs more than these bytes.
const GAP_PAGES: u64 = 1;

/// The bytes of an image as far as they were supplied. A read that needs others fails and notes which.
#[derive(Debug)]
pub struct FetchedPages {
    len: u64,
    store: Mutex<PageStore>,
}

#[derive(Debug, Default)]
struct PageStore {
    pages: HashMap<u64, FetchedPage>,
    /// Pages without which the current request fails.
    needed: BTreeSet<u64>,
    /// Pages that were announced and are not there.
    advised: BTreeSet<u64>,
    /// Counts requests, to tell which pages were used last.
    round: u64,
}

#[derive(Debug)]
struct FetchedPage {
    bytes: Box<[u8]>,
    last_used: u64,
}

impl FetchedPages {
    /// Makes an image of `len` bytes, none of which is there.
    pub fn new(len: u64) -> Self {
        FetchedPages { len, store: Mutex::default() }
    }

    fn store(&self) -> MutexGuard<'_, PageStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the numbers of the pages that hold a range, as far as the image goes.
    fn page_numbers(&self, range: &Range<u64>) -> Range<u64> {
        let end = range.end.min(self.len);
        if range.start >= end { 0..0 } else { range.start / PAGE_LEN..end.div_ceil(PAGE_LEN) }
    }

    /// Adds bytes from `offset`, which has to begin a page. A page that is not whole is ignored, unless the image ends
    /// in it.
    pub fn supply(&self, offset: u64, bytes: &[u8]) {
        let mut store = self.store();
        let round = store.round;
        let page_len = usize::try_from(PAGE_LEN).unwrap_or(usize::MAX);
        for (number, page) in (offset / PAGE_LEN..).zip(bytes.chunks(page_len)) {
            let whole_len = self.len.saturating_sub(number * PAGE_LEN).min(PAGE_LEN);
            // A page cut short would look like the end of the image.
            if page.len() as u64 == whole_len {
                store.pages.insert(number, FetchedPage { bytes: page.into(), last_used: round });
            }
        }
    }

    /// Notes that the request cannot do without a range.
    pub(crate) fn need(&self, range: &Range<u64>) {
        let mut store = self.store();
        for number in self.page_numbers(range) {
            if !store.pages.contains_key(&number) {
                store.needed.insert(number);
            }
        }
    }

    /// Announces the `len` bytes after each page that the current attempt lacks, for a caller that reads on from there.
    pub(crate) fn announce_after_missing(&self, len: u64) {
        let needed: Vec<u64> = self.store().needed.iter().copied().collect();
        for number in needed {
            let end = (number + 1) * PAGE_LEN;
            self.will_read(end..end.saturating_add(len));
        }
    }

    /// Returns true if a read of the current attempt failed.
    pub(crate) fn is_missing_some(&self) -> bool {
        !self.store().needed.is_empty()
    }

    /// Ends an attempt: returns the ranges to fetch before the next one, or none if nothing was missing. Then pages that
    /// were not used for long are dropped.
    pub(crate) fn take_missing(&self) -> Vec<Range<u64>> {
        let mut store = self.store();
        let needed = std::mem::take(&mut store.needed);
        let advised = std::mem::take(&mut store.advised);
        if needed.is_empty() {
            // Only now: an attempt that is repeated needs the pages that it has read.
            store.round += 1;
            store.drop_oldest();
            return Vec::new();
        }
        // Nothing is fetched only because it was announced, but it comes along with what is needed.
        let wanted: BTreeSet<u64> = needed.union(&advised).copied().collect();
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for number in wanted {
            match ranges.last_mut() {
                Some(last) if number <= last.end + GAP_PAGES => last.end = number + 1,
                _ => ranges.push(number..number + 1),
            }
        }
        ranges.iter().map(|pages| pages.start * PAGE_LEN..(pages.end * PAGE_LEN).min(self.len)).collect()
    }
}

impl PageStore {
    fn drop_oldest(&mut self) {
        let most = usize::try_from(KEPT_LEN / PAGE_LEN).unwrap_or(usize::MAX);
        if self.pages.len() <= most {
            return;
        }
        let mut by_use: Vec<(u64, u64)> = self.pages.iter().map(|(number, page)| (page.last_used, *number)).collect();
        by_use.sort_unstable();
        for (_, number) in &by_use[..by_use.len() - most] {
            self.pages.remove(number);
        }
    }
}

impl ReadAt for FetchedPages {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let range = offset..offset.saturating_add(buf.len() as u64).min(self.len);
        let mut store = self.store();
        let round = store.round;
        let mut filled = 0;
        let mut is_missing = false;
        for number in self.page_numbers(&range) {
            let Some(page) = store.pages.get_mut(&number) else {
                store.needed.insert(number);
                // On to the next page: all that are missing are to be fetched at once.
                is_missing = true;
                continue;
            };
            page.last_used = round;
            let start =
                usize::try_from((offset + filled as u64).saturating_sub(number * PAGE_LEN)).unwrap_or(usize::MAX);
            if !is_missing && let Some(from) = page.bytes.get(start..) {
                let len = from.len().min(buf.len() - filled);
                buf[filled..filled + len].copy_from_slice(&from[..len]);
                filled += len;
            }
        }
        if is_missing { Err(io::Error::other("the bytes were not fetched yet")) } else { Ok(filled) }
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn will_read(&self, range: Range<u64>) {
        let mut store = self.store();
        for number in self.page_numbers(&range) {
            if store.advised.len() as u64 >= ADVANCE_LEN / PAGE_LEN {
                break;
            }
            if !store.pages.contains_key(&number) {
                store.advised.insert(number);
            }
        }
    }

    fn has_delay(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pages: &FetchedPages, offset: u64, len: usize) -> Option<Vec<u8>> {
        let mut buf = vec![0; len];
        let got = pages.read_at(&mut buf, offset).ok()?;
        buf.truncate(got);
        Some(buf)
    }

    #[test]
    fn reads_name_what_is_missing_and_succeed_with_it() {
        let image: Vec<u8> = (0..5 * PAGE_LEN + 100).map(|n| u8::try_from(n * 7919 % 251).unwrap()).collect();
        let pages = FetchedPages::new(image.len() as u64);
        let cases = [(0, 10, 0..1), (PAGE_LEN - 1, 2, 1..2), (4 * PAGE_LEN, 70_000, 4..6), (2 * PAGE_LEN + 5, 1, 2..3)];
        for (offset, len, missing) in cases {
            assert_eq!(read(&pages, offset, len), None);
            let range = missing.start * PAGE_LEN..(missing.end * PAGE_LEN).min(image.len() as u64);
            assert_eq!(pages.take_missing(), std::slice::from_ref(&range));
            let bytes = &image[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
            pages.supply(range.start, bytes);
            let start = usize::try_from(offset).unwrap();
            assert_eq!(read(&pages, offset, len).unwrap(), &image[start..(start + len).min(image.len())]);
            assert_eq!(pages.take_missing(), []);
        }
        for beyond in [image.len() as u64, u64::MAX] {
            assert_eq!(read(&pages, beyond, 10).unwrap(), b"");
        }
    }

    #[test]
    fn what_is_announced_is_fetched_with_what_is_needed() {
        let pages = FetchedPages::new(1 << 30);
        pages.will_read(PAGE_LEN * 3..u64::MAX);
        assert_eq!(pages.take_missing(), [], "nothing is fetched only because it was announced");
        pages.will_read(PAGE_LEN * 3..u64::MAX);
        pages.need(&(0..1));
        assert_eq!(pages.take_missing(), [0..PAGE_LEN, PAGE_LEN * 3..PAGE_LEN * 3 + ADVANCE_LEN]);
        pages.need(&(0..1));
        pages.need(&(2 * PAGE_LEN..2 * PAGE_LEN + 1));
        assert_eq!(pages.take_missing().len(), 1, "a small gap is fetched too");
    }

    #[test]
    fn pages_of_earlier_requests_make_room() {
        let pages = FetchedPages::new(4 * KEPT_LEN);
        let chunk = vec![1; usize::try_from(KEPT_LEN / 4).unwrap()];
        for n in 0..8 {
            pages.supply(n * KEPT_LEN / 4, &chunk);
            assert!(pages.take_missing().is_empty());
        }
        assert_eq!(pages.store().pages.len() as u64, KEPT_LEN / PAGE_LEN);
        assert_eq!(read(&pages, 0, 1), None);
        assert_eq!(read(&pages, 2 * KEPT_LEN - 1, 1).unwrap(), [1]);
    }

    #[test]
    fn parts_of_pages_are_not_taken_for_whole_ones() {
        let pages = FetchedPages::new(2 * PAGE_LEN);
        pages.supply(0, &[1; 100]);
        assert_eq!(read(&pages, 0, 10), None);
    }
}
