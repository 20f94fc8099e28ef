//! The time that all compact inodes share, or count from, chosen so that most inodes can be compact.

use crate::tree::Time;

/// Time fields of the superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageEpoch {
    pub(crate) time: Time,
    /// True if compact inodes store seconds since `time`, which only kernels with 48-bit addresses support.
    pub(crate) offsets: bool,
}

impl ImageEpoch {
    /// Chooses the epoch for inodes with these times, each with the number of inodes that have it; `otherwise` if there
    /// are none. A time may be listed more than once.
    pub(crate) fn choose(mut times: Vec<(Time, u32)>, offsets: bool, otherwise: Time) -> ImageEpoch {
        times.sort_unstable_by_key(|(time, _)| (time.nanos, time.secs));
        let mut best = otherwise;
        let mut most = 0;
        let mut first = 0;
        let mut held = 0;
        for (time, inodes) in &times {
            held += u64::from(*inodes);
            // The times from `first` to this one are those that the first one as epoch would cover, for `held` inodes.
            while (ImageEpoch { time: times[first].0, offsets }).offset(*time).is_none() {
                held -= u64::from(times[first].1);
                first += 1;
            }
            if held > most {
                most = held;
                best = times[first].0;
            }
        }
        ImageEpoch { time: best, offsets }
    }

    /// Returns the time field of a compact inode with this time; `None` if only an extended inode can store it.
    pub(crate) fn offset(&self, time: Time) -> Option<u32> {
        let offset = u32::try_from(time.secs.checked_sub(self.time.secs)?).ok()?;
        (time.nanos == self.time.nanos && (offset == 0 || self.offsets)).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(secs: i64, nanos: u32) -> Time {
        Time { secs, nanos }
    }

    #[test]
    fn a_time_counts_once_for_each_inode() {
        for (times, best) in [
            (vec![((5, 0), 2), ((9, 0), 3)], (9, 0)),
            (vec![((5, 0), 2), ((9, 0), 3), ((5, 0), 2)], (5, 0)),
            (vec![((5, 0), 3), ((9, 0), 3)], (5, 0)),
        ] {
            let times = times.into_iter().map(|((secs, nanos), inodes)| (time(secs, nanos), inodes)).collect();
            assert_eq!(ImageEpoch::choose(times, false, time(0, 0)).time, time(best.0, best.1));
        }
    }

    #[test]
    fn most_times_fit() {
        let far = 1 << 33;
        let cases = [
            (vec![], false, (-7, 7)),
            (vec![(5, 1), (4, 1), (5, 1)], false, (5, 1)),
            (vec![(5, 1), (4, 1), (5, 2), (4, 2)], false, (4, 1)),
            (vec![(5, 1), (4, 1), (5, 1)], true, (4, 1)),
            (vec![(5, 1), (4, 2), (3, 2)], true, (3, 2)),
            (vec![(i64::MIN, 0), (1, 0), (far, 0), (2, 0), (i64::MAX, 0)], true, (1, 0)),
            (vec![(-1, 0), (u32::MAX.into(), 0), (u32::MAX as i64 - 1, 0)], true, (0xffff_fffe, 0)),
        ];
        for (times, offsets, (secs, nanos)) in cases {
            let times: Vec<_> = times.into_iter().map(|(secs, nanos)| time(secs, nanos)).collect();
            let counted = times.iter().map(|time| (*time, 1)).collect();
            let epoch = ImageEpoch::choose(counted, offsets, time(-7, 7));
            let held = |epoch: ImageEpoch| times.iter().filter(|time| epoch.offset(**time).is_some()).count();
            let most = times.iter().map(|time| held(ImageEpoch { time: *time, offsets })).max().unwrap_or(0);
            assert_eq!(held(epoch), most, "{times:?}");
            if epoch.time != time(secs, nanos) {
                assert_eq!(held(ImageEpoch { time: time(secs, nanos), offsets }), most, "{times:?}: {epoch:?}");
            }
        }
    }
}
