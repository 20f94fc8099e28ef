//! Files of a remote image that are read in order: who has read the beginning of a file so will read the rest.

use std::ops::Range;
use std::sync::Mutex;

use packfs_blocks::mutex;

use crate::image::Nid;

/// Number of files that are followed at the same time.
const FILES: usize = 16;
/// Number of bytes read in order, by at least two reads, after which the rest of a file is announced.
const ENOUGH: u64 = 256 << 10;
/// Distance from the expected place at which a read still counts as in order: threads that share the work finish out of
/// order.
const JITTER: u64 = 2 << 20;

/// The files that are followed, by time of use.
#[derive(Debug, Default)]
pub(crate) struct FollowedFiles(Mutex<Vec<FollowedFile>>);

#[derive(Debug)]
struct FollowedFile {
    nid: Nid,
    /// Where the next read is expected.
    next: u64,
    /// Number of bytes read in order.
    read: u64,
    /// End of what was announced.
    until: u64,
}

impl FollowedFiles {
    /// Notes a read of a file of `size` bytes; returns the range to announce.
    pub(crate) fn note(&self, nid: Nid, offset: u64, len: usize, size: u64) -> Option<Range<u64>> {
        let mut all = mutex::lock(&self.0);
        let end = offset.saturating_add(len as u64);
        let found = all.iter().position(|one| one.nid == nid).map(|at| all.remove(at));
        let in_order = |one: &FollowedFile| offset.abs_diff(one.next) <= JITTER;
        let Some(mut one) = found.filter(|one| in_order(one) || (one.next..one.until).contains(&offset)) else {
            put(&mut all, FollowedFile { nid, next: end, read: len as u64, until: 0 });
            return None;
        };
        (one.next, one.read) = (one.next.max(end), one.read + len as u64);
        // Who announced a part reads no further, unless it does.
        let goes_on = one.read >= ENOUGH && offset >= one.until;
        let rest = Some(one.next..size).filter(|rest| goes_on && !rest.is_empty());
        if rest.is_some() {
            one.until = size;
        }
        put(&mut all, one);
        rest
    }

    /// Notes that a range of a file was announced.
    pub(crate) fn announced(&self, nid: Nid, range: &Range<u64>) {
        let mut all = mutex::lock(&self.0);
        let found = all.iter().position(|one| one.nid == nid).map(|at| all.remove(at));
        let before = found.map_or(0, |one| one.until);
        put(&mut all, FollowedFile { nid, next: range.start, read: 0, until: range.end.max(before) });
    }
}

/// Follows one more file, in place of the one that was not read for longest if there are too many.
fn put(all: &mut Vec<FollowedFile>, one: FollowedFile) {
    all.truncate(FILES - 1);
    all.insert(0, one);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn the_rest_of_a_file_is_announced_once_by_who_reads_in_order() {
        let followed = FollowedFiles::default();
        assert_eq!(followed.note(Nid(1), 0, MIB, 50 << 20), None);
        assert_eq!(followed.note(Nid(1), 1 << 20, MIB, 50 << 20), Some(2 << 20..50 << 20));
        assert_eq!(followed.note(Nid(1), 2 << 20, MIB, 50 << 20), None);
        // Threads that share the work overtake each other.
        assert_eq!(followed.note(Nid(2), 1 << 20, MIB, 50 << 20), None);
        assert_eq!(followed.note(Nid(2), 0, MIB, 50 << 20), Some(2 << 20..50 << 20));
        assert_eq!(followed.note(Nid(2), 3 << 20, MIB, 50 << 20), None);
    }

    #[test]
    fn random_and_small_reads_announce_nothing() {
        let followed = FollowedFiles::default();
        for n in 0..100u64 {
            assert_eq!(followed.note(Nid(1), n * 7_919_003 % 500_000_000, 4096, 1 << 30), None);
        }
        for n in 0..60 {
            assert_eq!(followed.note(Nid(2), n * 4096, 4096, 1 << 30), None);
        }
        assert!((60..70).any(|n| followed.note(Nid(2), n * 4096, 4096, 1 << 30).is_some()));
    }

    #[test]
    fn what_was_announced_is_not_announced_again() {
        let followed = FollowedFiles::default();
        followed.announced(Nid(1), &(0..20 << 20));
        for n in 0..20 {
            assert_eq!(followed.note(Nid(1), n << 20, MIB, 50 << 20), None, "{n}");
        }
    }
}
