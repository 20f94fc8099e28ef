//! Units that were announced one by one: who reads many files knows which ones, and reads on nowhere.
//!
//! A reader of such units would look like one that goes through the object in order whenever two files lie side by side,
//! and get the bytes after them.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// Greatest number of announced units to remember: 4 GiB of the object, in 3 MB of memory. The oldest are forgotten, and
/// then only count as read by someone who announced nothing.
const UNITS_MAX: usize = 1 << 16;

/// Announced units, those requested and those that wait for room.
#[derive(Debug, Default)]
pub(crate) struct ScatteredUnits {
    /// Units by their number.
    units: HashMap<u64, AnnouncedUnit>,
    /// Units in the order in which they were announced; a unit that was announced again stands here more than once.
    order: VecDeque<UnitAnnouncement>,
    /// Units to request when others have been read.
    waiting: VecDeque<u64>,
    /// Number of units that were requested and not yet read.
    ahead: usize,
    /// Number of announcements so far.
    count: u64,
}

/// State of an announced unit.
#[derive(Debug, Clone, Copy)]
struct AnnouncedUnit {
    /// The last announcement of it.
    announcement: u64,
    progress: UnitProgress,
}

/// How far an announced unit has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnitProgress {
    Waiting,
    Requested,
    Read,
}

/// One announcement of a unit.
#[derive(Debug, Clone, Copy)]
struct UnitAnnouncement {
    unit: u64,
    announcement: u64,
}

impl ScatteredUnits {
    /// Notes that some units will be read, in this order; returns those to request now, so that at most `window` are ahead
    /// of all readers together. The others are returned by [`note`](Self::note), one for each that was read.
    pub(crate) fn announce(&mut self, units: impl IntoIterator<Item = u64>, window: usize) -> Vec<u64> {
        // Some in any case: who announced the others may have given up.
        let most = window.saturating_sub(self.ahead).max(window / 4);
        let mut now = Vec::new();
        for unit in units.into_iter().take(UNITS_MAX) {
            // Files that share a unit announce it once each.
            if self.units.get(&unit).is_some_and(|known| known.progress != UnitProgress::Read) {
                continue;
            }
            if now.len() < most {
                self.remember(unit, UnitProgress::Requested);
                now.push(unit);
            } else {
                self.remember(unit, UnitProgress::Waiting);
                self.waiting.push_back(unit);
                // The oldest that wait are forgotten by then.
                if self.waiting.len() > UNITS_MAX {
                    self.waiting.pop_front();
                }
            }
        }
        now
    }

    fn remember(&mut self, unit: u64, progress: UnitProgress) {
        self.count += 1;
        let announcement = self.count;
        self.ahead += usize::from(progress == UnitProgress::Requested);
        self.units.insert(unit, AnnouncedUnit { announcement, progress });
        self.order.push_back(UnitAnnouncement { unit, announcement });
        while self.order.len() > UNITS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            if self.units.get(&oldest.unit).is_some_and(|known| known.announcement == oldest.announcement)
                && let Some(known) = self.units.remove(&oldest.unit)
            {
                self.ahead -= usize::from(known.progress == UnitProgress::Requested);
            }
        }
    }

    /// Notes a read of units. If all of them were announced, returns the units to request now; otherwise the reader is
    /// another one.
    pub(crate) fn note(&mut self, read: Range<u64>) -> Option<Vec<u64>> {
        if self.units.is_empty() || !read.clone().all(|unit| self.units.contains_key(&unit)) {
            return None;
        }
        let mut room = 0;
        for unit in read {
            if let Some(known) = self.units.get_mut(&unit)
                && known.progress != UnitProgress::Read
            {
                self.ahead -= usize::from(known.progress == UnitProgress::Requested);
                known.progress = UnitProgress::Read;
                room += 1;
            }
        }
        let mut now = Vec::new();
        while now.len() < room
            && let Some(unit) = self.waiting.pop_front()
        {
            // Who read it meanwhile has requested it, and an old one may be forgotten.
            if let Some(known) = self.units.get_mut(&unit)
                && known.progress == UnitProgress::Waiting
            {
                known.progress = UnitProgress::Requested;
                self.ahead += 1;
                now.push(unit);
            }
        }
        Some(now)
    }
}

/// Joins units that follow each other to ranges.
pub(crate) fn join(units: &[u64]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for &unit in units {
        match ranges.last_mut() {
            Some(last) if last.end == unit => last.end += 1,
            _ => ranges.push(unit..unit + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_units_are_requested_once_and_as_many_as_there_is_room_for() {
        let mut scattered = ScatteredUnits::default();
        assert_eq!(scattered.note(0..1), None);
        assert_eq!(scattered.announce([3, 3, 9, 10, 20, 30], 3), [3, 9, 10]);
        assert_eq!(scattered.announce([9, 20, 40], 3), Vec::<u64>::new(), "two are on their way, and there is no room");
        // A large window has room for those who did not give up.
        assert_eq!(scattered.announce([50, 51, 60], 8), [50, 51, 60]);
        assert_eq!(scattered.announce([70, 71, 80], 8), [70, 71]);
        assert_eq!(scattered.note(3..4), Some(vec![20]));
        assert_eq!(scattered.note(3..4), Some(vec![]), "again");
        assert_eq!(scattered.note(9..12), None, "one of them was not announced");
        // What waited is read before its turn.
        assert_eq!(scattered.note(30..31), Some(vec![40]));
        assert_eq!(scattered.note(9..11), Some(vec![80]));
        for unit in [20, 40, 50, 51, 60, 70, 71, 80] {
            assert_eq!(scattered.note(unit..unit + 1), Some(vec![]));
        }
        assert_eq!(scattered.ahead, 0);
        // The next round may find them gone from memory.
        assert_eq!(scattered.announce([3, 9, 30], 3), [3, 9, 30]);
        assert_eq!(join(&[3, 4, 5, 9, 10, 12]), [3..6, 9..11, 12..13]);
    }

    #[test]
    fn old_announcements_are_forgotten() {
        let mut scattered = ScatteredUnits::default();
        let many = UNITS_MAX as u64;
        assert_eq!(scattered.announce([0, 1], 9), [0, 1]);
        assert_eq!(scattered.note(0..1), Some(vec![]));
        // Announced again, unit 0 stays.
        assert_eq!(scattered.announce([0], 9), [0]);
        scattered.announce(2..many + 1, 0);
        assert_eq!(scattered.note(1..2), None);
        assert!(scattered.note(0..1).is_some());
        scattered.announce(many + 1..3 * many, 0);
        assert!(scattered.units.len() <= UNITS_MAX && scattered.order.len() <= UNITS_MAX);
        assert_eq!(scattered.note(0..1), None);
    }
}
