//! Recognition of readers that go through the object in order, and how far ahead of each to fetch.

/// Number of readers that are followed at the same time.
const STREAMS: usize = 16;
/// Units that a reader may be off from the expected place, as threads that share the work finish out of order, for
/// each unit of its window.
const JITTER: u64 = 32;
/// Units fetched ahead of a reader that has just begun to read in order, and how fast they become more.
const FIRST: u64 = 4;
/// The same for a reader of long ranges, which reads files and not the image's tables.
const FIRST_LARGE: u64 = 64;
const GROWTH: u64 = 8;
/// Number of units by which read-ahead grows: they are fetched together, not one with every read.
pub(crate) const RUN: u64 = 16;

/// The readers that are followed.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    all: Vec<Stream>,
    clock: u64,
}

#[derive(Debug)]
struct Stream {
    /// The unit behind the last one read.
    next: u64,
    /// Units to have ahead of `next`.
    window: u64,
    /// Units read since the window last grew.
    read: u64,
    /// The unit behind the last one requested ahead.
    ahead: u64,
    used: u64,
}

impl Streams {
    /// Notes a read of the units `first` to `end`; returns the units to fetch ahead, at most `most` in advance.
    pub(crate) fn note(&mut self, first: u64, end: u64, most: u64) -> std::ops::Range<u64> {
        self.clock += 1;
        let clock = self.clock;
        let near = |stream: &&mut Stream| {
            let jitter = JITTER.min(stream.window);
            first <= stream.next + jitter && end + jitter >= stream.next && end + JITTER > stream.next
        };
        let active =
            self.all.iter().filter(|stream| stream.window > FIRST && stream.used + 4 * STREAMS as u64 > clock).count();
        let Some(stream) = self.all.iter_mut().find(near) else {
            if self.all.len() == STREAMS {
                let oldest = (0..STREAMS).min_by_key(|&at| self.all[at].used).unwrap_or(0);
                self.all.swap_remove(oldest);
            }
            self.all.push(Stream { next: end, window: 0, read: 0, ahead: end, used: clock });
            return 0..0;
        };
        stream.used = clock;
        if end <= stream.next {
            return 0..0;
        }
        let step = end - stream.next;
        stream.read += step;
        stream.next = end;
        if stream.read >= stream.window / 2 {
            stream.window = (stream.window * GROWTH).max(if step > 1 { FIRST_LARGE } else { FIRST });
            stream.read = 0;
        }
        stream.window = stream.window.min(most / active.max(1) as u64);
        let to = stream.next + stream.window;
        // Whole runs, once the window has several of them.
        let to = if stream.window > RUN { to - to % RUN } else { to };
        let from = stream.ahead.max(stream.next);
        stream.ahead = to.max(from);
        from..to.max(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_with_what_is_read_in_order() {
        let mut streams = Streams::default();
        let mut ahead = Vec::new();
        for unit in 0..600 {
            ahead.push(streams.note(unit, unit + 1, 256));
        }
        assert!(ahead[0].is_empty());
        assert_eq!(ahead[1], 2..6);
        // All units are requested once, in order.
        let all: Vec<u64> = ahead.iter().cloned().flatten().collect();
        assert!(all.is_sorted() && all.first() == Some(&2) && all.windows(2).all(|two| two[0] < two[1]));
        assert!(ahead[20..].iter().all(|range| range.end == range.start || range.end % RUN == 0));
        assert!(all.last().unwrap() - 600 >= 230);
    }

    #[test]
    fn reads_at_random_places_fetch_nothing_ahead() {
        let mut streams = Streams::default();
        let mut place = 1u64;
        for _ in 0..1000 {
            place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let unit = (place >> 33) % 1_000_000;
            assert_eq!(streams.note(unit, unit + 1, 256).count(), 0);
        }
    }

    #[test]
    fn threads_that_overtake_each_other_are_one_reader() {
        let mut streams = Streams::default();
        let mut fetched = 0;
        for pair in 0..100 {
            for unit in [2 * pair + 1, 2 * pair] {
                fetched += streams.note(unit, unit + 1, 256).count();
            }
        }
        assert!(fetched > 200, "{fetched}");
    }
}
