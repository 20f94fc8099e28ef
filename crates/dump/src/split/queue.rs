//! Queue of sealed segments for the parts: whichever part is free takes the next one that it may have.
//!
//! The conductor pushes; one thread per part takes. The segment in hand of a failing part comes back here.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::segment::SealedSegment;
use crate::part::PartFooter;

/// Next task of a part's thread.
#[derive(Debug)]
pub(super) enum PartTask {
    Write(Arc<SealedSegment>),
    /// Flush everything written to the disk.
    Sync,
    /// Write the trailer.
    Finish(Arc<PartFooter>),
    Quit,
}

/// Order to all parts once nothing waits to be written.
#[derive(Debug, Clone)]
enum QueueOrder {
    Wait,
    Sync,
    Finish(Arc<PartFooter>),
    Quit,
}

/// Data lost with a failed part.
#[derive(Debug, Default)]
pub(super) struct PartLoss {
    /// Ranges of the dump that were written to it and may not have reached the disk.
    pub(super) ranges: Vec<Range<u64>>,
    /// Number of segments of stripes with parity of which the same is true. Such a stripe can lose one part fewer.
    pub(super) weakened: u64,
}

/// Contents of a part, for the manifest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PartExtent {
    pub(super) failed: bool,
    pub(super) segments: u64,
    pub(super) len: u64,
}

#[derive(Debug)]
struct QueueState {
    waiting: VecDeque<Arc<SealedSegment>>,
    /// Parts that take segments, one bit each.
    live: u128,
    /// For each stripe with waiting segments: the parts that have one of its segments.
    served: HashMap<u64, ServedStripe>,
    order: QueueOrder,
    /// Parts that have executed the order.
    done: u128,
    /// Parts whose threads have ended.
    gone: u128,
    paces: Vec<WritingPace>,
    extents: Vec<PartExtent>,
    loss: PartLoss,
    weak: u64,
}

/// Writing speed of a part.
#[derive(Debug, Clone, Copy, Default)]
struct WritingPace {
    bytes: u64,
    time: Duration,
    /// Length of the segment being written, and its start time.
    in_hand: Option<(u64, Instant)>,
}

impl WritingPace {
    /// Returns bytes per second; 0 if unknown. The segment in hand counts as if it were finished
    /// now, so a part that hangs becomes slower with time, even if it never wrote anything.
    fn speed(&self) -> f64 {
        let (bytes, time) = match self.in_hand {
            Some((len, since)) => (self.bytes + len, self.time + since.elapsed()),
            None => (self.bytes, self.time),
        };
        if time.is_zero() { 0.0 } else { bytes as f64 / time.as_secs_f64() }
    }

    fn written(&mut self, bytes: u64, time: Duration) {
        *self = WritingPace { bytes: self.bytes + bytes, time: self.time + time, in_hand: None };
    }
}

#[derive(Debug, Default)]
struct ServedStripe {
    parts: u128,
    /// Number of written segments of the stripe.
    written: u16,
    weak: bool,
}

/// A queue of sealed segments.
#[derive(Debug)]
pub(super) struct SegmentQueue {
    state: Mutex<QueueState>,
    for_parts: Condvar,
    for_conductor: Condvar,
    most: usize,
    parts: usize,
}

impl SegmentQueue {
    /// Makes a queue for `parts` parts that holds `most` segments.
    pub(super) fn new(parts: usize, most: usize) -> Self {
        let state = QueueState {
            waiting: VecDeque::new(),
            live: (0..parts).fold(0, |live, n| live | 1 << n),
            served: HashMap::new(),
            order: QueueOrder::Wait,
            done: 0,
            gone: 0,
            paces: vec![WritingPace::default(); parts],
            extents: vec![PartExtent::default(); parts],
            loss: PartLoss::default(),
            weak: 0,
        };
        SegmentQueue { state: Mutex::new(state), for_parts: Condvar::new(), for_conductor: Condvar::new(), most, parts }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().expect("no panic under this lock")
    }

    /// Adds a segment, waiting while the queue is full. Returns `false` if no part is left. Adds to `waited`.
    pub(super) fn push(&self, sealed: Arc<SealedSegment>, waited: &mut Duration) -> bool {
        let mut state = self.lock();
        if state.is_full(self.most) {
            let begun = Instant::now();
            while state.is_full(self.most) {
                state = self.for_conductor.wait(state).expect("no panic under this lock");
            }
            *waited += begun.elapsed();
        }
        if state.live == 0 {
            return false;
        }
        state.waiting.push_back(sealed);
        drop(state);
        // All: the first to wake might already have a segment of the stripe.
        self.for_parts.notify_all();
        true
    }

    /// Returns bytes per second of each active part, 0 if unknown; and true if so many segments
    /// wait that the parts are behind.
    pub(super) fn pace(&self) -> (Vec<f64>, bool) {
        let state = self.lock();
        let live = (0..self.parts).filter(|n| state.live >> n & 1 == 1);
        (live.map(|n| state.paces[n].speed()).collect(), state.waiting.len() >= self.most / 2)
    }

    /// Waits until all segments are written. Returns `false` if no part is left and something is not written.
    pub(super) fn drain(&self) -> bool {
        let mut state = self.lock();
        while state.live != 0 && (!state.waiting.is_empty() || state.in_hand() != 0) {
            state = self.for_conductor.wait(state).expect("no panic under this lock");
        }
        state.waiting.is_empty() && state.in_hand() == 0
    }

    /// Has all remaining parts flush their data to disk; waits until they have done so or failed.
    pub(super) fn sync(&self) {
        self.order(QueueOrder::Sync, |state| state.live);
    }

    /// Has all parts, including failed ones, write their trailers.
    pub(super) fn finish(&self, foot: Arc<PartFooter>) {
        let all = (0..self.parts).fold(0, |all, n| all | 1 << n);
        self.order(QueueOrder::Finish(foot), |_| all);
    }

    fn order(&self, order: QueueOrder, of: impl Fn(&QueueState) -> u128) {
        let mut state = self.lock();
        (state.order, state.done) = (order, 0);
        self.for_parts.notify_all();
        // A thread that panicked obeys nothing: waiting for it would never end.
        while of(&state) & !state.done & !state.gone != 0 {
            state = self.for_conductor.wait(state).expect("no panic under this lock");
        }
        state.order = QueueOrder::Wait;
    }

    /// Ends all part threads.
    pub(super) fn quit(&self) {
        // Also called while the conductor unwinds, when the state of other threads does not matter.
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.order = QueueOrder::Quit;
        drop(state);
        self.for_parts.notify_all();
    }

    /// Marks part `n` as abandoned because its thread panicked: nobody waits for it any more, and
    /// joining the thread raises the panic.
    pub(super) fn abandoned(&self, n: usize) {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.live &= !(1 << n);
        state.gone |= 1 << n;
        state.paces[n].in_hand = None;
        drop(state);
        self.for_parts.notify_all();
        self.for_conductor.notify_all();
    }

    /// Returns the data lost with parts that failed since the last call.
    pub(super) fn take_loss(&self) -> PartLoss {
        std::mem::take(&mut self.lock().loss)
    }

    /// Returns true if byte `at` of the dump may have been lost with a part that failed since the last call of
    /// [`take_loss`](Self::take_loss).
    pub(super) fn may_lack(&self, at: u64) -> bool {
        self.lock().loss.ranges.iter().any(|range| range.contains(&at))
    }

    /// Returns the number of stripes whose segments could not all go to different parts.
    pub(super) fn weak(&self) -> u64 {
        self.lock().weak
    }

    /// Returns the next task of part `n`; waits until there is one.
    pub(super) fn take(&self, n: usize) -> PartTask {
        let mut state = self.lock();
        loop {
            // Before segments, which nobody waits for any more.
            if matches!(state.order, QueueOrder::Quit) {
                return PartTask::Quit;
            }
            if let Some(sealed) = state.next(n) {
                return PartTask::Write(sealed);
            }
            let idle = state.done >> n & 1 == 0;
            match &state.order {
                QueueOrder::Sync if idle && state.is_live(n) => return PartTask::Sync,
                QueueOrder::Finish(foot) if idle => return PartTask::Finish(Arc::clone(foot)),
                _ => state = self.for_parts.wait(state).expect("no panic under this lock"),
            }
        }
    }

    /// Records that part `n` wrote a segment in `time`.
    pub(super) fn written(&self, n: usize, sealed: &SealedSegment, time: Duration) {
        let mut state = self.lock();
        state.paces[n].written(sealed.bytes.len() as u64, time);
        if sealed.head.parity > 0 {
            state.count(sealed);
        }
        drop(state);
        self.for_conductor.notify_all();
    }

    /// Records that part `n` has executed the order, and its contents.
    pub(super) fn obeyed(&self, n: usize, extent: PartExtent) {
        let mut state = self.lock();
        state.done |= 1 << n;
        state.extents[n] = extent;
        drop(state);
        self.for_conductor.notify_all();
    }

    /// Returns the contents of the parts, as last reported.
    pub(super) fn extents(&self) -> Vec<PartExtent> {
        self.lock().extents.clone()
    }

    /// Records that part `n` has failed: the segment it could not write goes to the others.
    pub(super) fn failed(&self, n: usize, unwritten: Option<Arc<SealedSegment>>, loss: PartLoss, extent: PartExtent) {
        let mut state = self.lock();
        state.live &= !(1 << n);
        state.extents[n] = extent;
        state.paces[n].in_hand = None;
        if let Some(sealed) = unwritten {
            // In front, as it is the oldest and its stripe waits for it.
            state.waiting.push_front(sealed);
        }
        state.loss.ranges.extend(loss.ranges);
        state.loss.weakened += loss.weakened;
        drop(state);
        self.for_parts.notify_all();
        self.for_conductor.notify_all();
    }
}

impl QueueState {
    fn is_full(&self, most: usize) -> bool {
        // Without parts nothing waits: the push fails instead.
        self.live != 0 && self.waiting.len() + self.in_hand() >= most
    }

    /// Returns the number of segments being written.
    fn in_hand(&self) -> usize {
        self.paces.iter().filter(|pace| pace.in_hand.is_some()).count()
    }

    fn is_live(&self, n: usize) -> bool {
        self.live >> n & 1 == 1
    }

    /// Returns the first segment that part `n` may have.
    fn next(&mut self, n: usize) -> Option<Arc<SealedSegment>> {
        if !self.is_live(n) {
            return None;
        }
        let at = self.waiting.iter().position(|sealed| self.may_take(n, sealed))?;
        let sealed = self.waiting.remove(at)?;
        self.paces[n].in_hand = Some((sealed.bytes.len() as u64, Instant::now()));
        if sealed.head.parity > 0 {
            let served = self.served.entry(sealed.head.stripe).or_default();
            if served.parts >> n & 1 == 1 && !served.weak {
                served.weak = true;
                self.weak += 1;
            }
            served.parts |= 1 << n;
        }
        Some(sealed)
    }

    /// A part takes only one segment of a stripe, unless every remaining part already has one.
    fn may_take(&self, n: usize, sealed: &SealedSegment) -> bool {
        if sealed.head.parity == 0 {
            return true;
        }
        let served = self.served.get(&sealed.head.stripe).map_or(0, |served| served.parts);
        served >> n & 1 == 0 || self.live & !served == 0
    }

    /// Forgets a stripe when the last of its segments is written.
    fn count(&mut self, sealed: &SealedSegment) {
        let head = &sealed.head;
        if let Some(served) = self.served.get_mut(&head.stripe) {
            served.written += 1;
            if served.written >= head.data + head.parity {
                self.served.remove(&head.stripe);
            }
        }
    }
}

#[cfg(test)]
mod tests;
