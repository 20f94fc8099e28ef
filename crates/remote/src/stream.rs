//! Recognition of readers that go through the object in order, and how far ahead of each to fetch.

use std::ops::Range;

/// Number of readers that are followed at the same time.
const STREAMS: usize = 16;
/// Units by which a read may miss the expected place, as threads that share the work finish out of order. At first the
/// window is smaller, and then it is the limit.
const JITTER: u64 = 32;
/// Units fetched ahead of a reader that has just begun to read in order.
const FIRST: u64 = 4;
/// The same for a reader of long ranges, which reads files and not the image's tables.
const FIRST_LARGE: u64 = 64;
/// Factor by which the window of such readers grows whenever half of it was read.
const GROWTH: u64 = 8;
/// Number of units by which read-ahead grows: they are fetched together, not one with every read.
pub(crate) const RUN: u64 = 16;

/// The readers that are followed.
#[derive(Debug, Default)]
pub(crate) struct SequentialReaders {
    all: Vec<SequentialReader>,
    clock: u64,
}

#[derive(Debug)]
struct SequentialReader {
    /// The unit after the last one read.
    next: u64,
    /// Units to have ahead of `next`.
    window: u64,
    /// Units read since the window last grew.
    read: u64,
    /// The unit after the last one requested ahead.
    ahead: u64,
    /// The unit after the announced range, at which read-ahead stops; `None` for a reader that announced nothing.
    end: Option<u64>,
    used: u64,
}

impl SequentialReader {
    /// Returns true if a read of the units `first` to `end` continues this one.
    fn continues(&self, first: u64, end: u64) -> bool {
        // Of an announced range, threads may read any part that is on its way or has come lately.
        let announced = self.end.is_some() && first < self.ahead && end + self.window > self.next;
        let jitter = JITTER.min(self.window);
        announced || first <= self.next + jitter && end + jitter >= self.next && end + JITTER > self.next
    }

    /// Returns the units to fetch now to have the window ahead.
    fn advance(&mut self) -> Range<u64> {
        let to = self.next + self.window;
        // Whole runs, once the window has several of them.
        let to = if self.window > RUN { to - to % RUN } else { to };
        let to = self.end.map_or(to, |end| to.min(end));
        let from = self.ahead.max(self.next);
        self.ahead = to.max(from);
        from..self.ahead
    }
}

impl SequentialReaders {
    /// Notes a read of the units `first` to `end`; returns the units to fetch ahead, at most `most` in advance.
    pub(crate) fn note(&mut self, first: u64, end: u64, most: u64) -> Range<u64> {
        self.clock += 1;
        let clock = self.clock;
        let announced = most / self.active(true).max(1);
        let all = most / self.active(false).max(1);
        let mut found = self.all.iter_mut().filter(|stream| stream.continues(first, end));
        let Some(stream) = found.by_ref().min_by_key(|stream| stream.end.is_none()) else {
            self.push(SequentialReader { next: end, window: 0, read: 0, ahead: end, end: None, used: clock });
            return 0..0;
        };
        stream.used = clock;
        if end <= stream.next {
            return 0..0;
        }
        let step = end - stream.next;
        stream.read += step;
        stream.next = end;
        match stream.end {
            // A reader that goes on after the end begins anew: what follows is another file.
            Some(last) if first >= last => {
                *stream = SequentialReader { window: 0, read: 0, ahead: end, end: None, ..*stream }
            }
            Some(_) => stream.window = announced,
            None if stream.read >= stream.window / 2 => {
                stream.window = (stream.window * GROWTH).max(if step > 1 { FIRST_LARGE } else { FIRST });
                stream.read = 0;
            }
            None => {}
        }
        stream.window = stream.window.min(if stream.end.is_some() { announced } else { all });
        stream.advance()
    }

    /// Notes that the units `first` to `end` will be read in order; returns those to fetch now, at most `most`. The rest
    /// follows as the reader goes on, and nothing beyond.
    pub(crate) fn announce(&mut self, first: u64, end: u64, most: u64) -> Range<u64> {
        self.clock += 1;
        let known = |stream: &SequentialReader| stream.end.is_some_and(|last| stream.next <= first && end <= last);
        if self.all.iter().any(known) {
            return 0..0;
        }
        let most = most / (self.active(true) + 1);
        let clock = self.clock;
        let before = |stream: &&mut SequentialReader| {
            stream.end.is_some_and(|last| first <= last && last < end && stream.next <= first)
        };
        if let Some(stream) = self.all.iter_mut().find(before) {
            // The next file of the same reader.
            (stream.end, stream.used) = (Some(end), clock);
            return stream.advance();
        }
        // What a reader that read on without a word has requested already is not requested again.
        let of_it = |stream: &SequentialReader| stream.end.is_none() && (first..=end).contains(&stream.next);
        let ahead = self.all.iter().filter(|stream| of_it(stream)).map(|stream| stream.ahead).max();
        self.all.retain(|stream| !of_it(stream));
        let ahead = ahead.unwrap_or(first).clamp(first, end);
        let mut stream = SequentialReader { next: first, window: most, read: 0, ahead, end: Some(end), used: clock };
        let now = stream.advance();
        self.push(stream);
        now
    }

    /// Returns the number of readers that were active lately, `announced` ones only or all. What was announced is certain
    /// to be read, so it does not share the window with guesses.
    fn active(&self, announced: bool) -> u64 {
        let recent = |stream: &&SequentialReader| {
            stream.window > FIRST
                && stream.used + 4 * STREAMS as u64 > self.clock
                && stream.end.map_or(!announced, |end| stream.next < end)
        };
        self.all.iter().filter(recent).count() as u64
    }

    /// Follows one more reader, instead of the one that read nothing for longest if there are too many.
    fn push(&mut self, stream: SequentialReader) {
        if self.all.len() == STREAMS {
            let oldest = (0..STREAMS).min_by_key(|&at| self.all[at].used).unwrap_or(0);
            self.all.swap_remove(oldest);
        }
        self.all.push(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_with_what_is_read_in_order() {
        let mut streams = SequentialReaders::default();
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
    fn an_announced_range_is_requested_once_in_windows_and_to_its_end() {
        let mut streams = SequentialReaders::default();
        let first = streams.announce(1000, 3000, 384);
        assert!(first.start == 1000 && (340..=384).contains(&first.count()));
        assert_eq!(streams.announce(1000, 3000, 384), 0..0);
        let (mut all, mut most): (Vec<u64>, _) = ((1000..1384 - 1384 % RUN).collect(), 0);
        for unit in (1000..3000).step_by(16) {
            let end = (unit + 16).min(3000);
            all.extend(streams.note(unit, end, 384));
            most = most.max(all.last().unwrap().saturating_sub(end));
        }
        assert!(all.is_sorted() && all.len() == 2000);
        assert!(most <= 384);
        // What follows begins anew.
        assert!(streams.note(3000, 3001, 384).end <= 3000 + 2 * FIRST);
    }

    #[test]
    fn threads_read_an_announced_range_in_any_order() {
        let mut streams = SequentialReaders::default();
        let mut all: Vec<u64> = streams.announce(0, 2000, 384).collect();
        for part in 0..125u64 {
            // The second half of each 128 units comes first.
            let unit = (part / 8 * 8 + (part + 4) % 8) * 16;
            all.extend(streams.note(unit, (unit + 16).min(2000), 384));
        }
        assert_eq!(all.len(), 2000, "nothing twice, nothing beyond");
        assert!(all.is_sorted());
    }

    #[test]
    fn the_next_file_continues_the_window_of_the_one_before() {
        let mut streams = SequentialReaders::default();
        let mut all: Vec<u64> = streams.announce(0, 500, 384).collect();
        all.extend(streams.note(0, 200, 384));
        all.extend(streams.announce(499, 900, 384));
        for unit in 200..900 {
            all.extend(streams.note(unit, unit + 1, 384));
        }
        assert!(all.is_sorted() && all.len() == 900);
        // A reader that was followed before has some of it on its way.
        let mut streams = SequentialReaders::default();
        let mut all: Vec<u64> = (0..40).flat_map(|unit| streams.note(unit, unit + 1, 384)).collect();
        all.extend(streams.announce(40, 900, 384));
        (40..900).for_each(|unit| all.extend(streams.note(unit, unit + 1, 384)));
        assert!(all.is_sorted() && all.len() == 898);
    }

    #[test]
    fn reads_at_random_places_fetch_nothing_ahead() {
        let mut streams = SequentialReaders::default();
        let mut place = 1u64;
        for _ in 0..1000 {
            place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let unit = (place >> 33) % 1_000_000;
            assert_eq!(streams.note(unit, unit + 1, 256).count(), 0);
        }
    }

    #[test]
    fn threads_that_overtake_each_other_are_one_reader() {
        let mut streams = SequentialReaders::default();
        let mut fetched = 0;
        for pair in 0..100 {
            for unit in [2 * pair + 1, 2 * pair] {
                fetched += streams.note(unit, unit + 1, 256).count();
            }
        }
        assert!(fetched > 200, "{fetched}");
    }
}
