//! The time that all compact inodes share, or count from, chosen so that most inodes can be compact.

use crate::tree::Time;

/// Time fields of the superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch {
    pub(super) time: Time,
    /// True if compact inodes store seconds since `time`, which only kernels with 48-bit addresses support.
    pub(super) offsets: bool,
}

impl Epoch {
    /// Chooses the epoch for inodes with these times; `otherwise` if there are none.
    pub(super) fn choose(mut times: Vec<Time>, offsets: bool, otherwise: Time) -> Epoch {
        times.sort_unstable_by_key(|time| (time.nanos, time.secs));
        let (mut best, mut most, mut first) = (otherwise, 0, 0);
        for (at, time) in times.iter().enumerate() {
            // `first..=at` are the times that the first one as epoch would cover.
            while (Epoch { time: times[first], offsets }).offset(*time).is_none() {
                first += 1;
            }
            if at + 1 - first > most {
                (most, best) = (at + 1 - first, times[first]);
            }
        }
        Epoch { time: best, offsets }
    }

    /// Returns the time field of a compact inode with this time; `None` if only an extended inode can store it.
    pub(super) fn offset(&self, time: Time) -> Option<u32> {
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
            let epoch = Epoch::choose(times.clone(), offsets, time(-7, 7));
            let held = |epoch: Epoch| times.iter().filter(|time| epoch.offset(**time).is_some()).count();
            let most = times.iter().map(|time| held(Epoch { time: *time, offsets })).max().unwrap_or(0);
            assert_eq!(held(epoch), most, "{times:?}");
            if epoch.time != time(secs, nanos) {
                assert_eq!(held(Epoch { time: time(secs, nanos), offsets }), most, "{times:?}: {epoch:?}");
            }
        }
    }
}
