//! Sealed segments on their way to the parts: whichever part is free takes the next one that it may have.
//!
//! The conductor pushes, one thread a part takes. What a failing part had in its hands comes back here.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::segment::Sealed;
use crate::part::Foot;

/// What a part's thread does next.
#[derive(Debug)]
pub(super) enum Task {
    Write(Arc<Sealed>),
    /// Make all that was written reach the disk.
    Sync,
    /// Put down the trailer.
    Finish(Arc<Foot>),
    Quit,
}

/// What all parts are to do when nothing waits to be written.
#[derive(Debug, Clone)]
enum Order {
    Wait,
    Sync,
    Finish(Arc<Foot>),
    Quit,
}

/// What a part that failed takes with it.
#[derive(Debug, Default)]
pub(super) struct Loss {
    /// Ranges of the dump that had been written to it and may not have reached the disk.
    pub(super) ranges: Vec<Range<u64>>,
    /// Parity segments of which the same is true.
    pub(super) parity: u64,
}

/// What a part has, for the manifest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) failed: bool,
    pub(super) segments: u64,
    pub(super) len: u64,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Arc<Sealed>>,
    /// Parts that take segments, one bit each.
    live: u128,
    /// By stripe with segments that wait: the parts that have one of it.
    served: HashMap<u64, Served>,
    order: Order,
    /// Parts that have done what was ordered.
    done: u128,
    /// Parts whose threads are no more.
    gone: u128,
    paces: Vec<Pace>,
    extents: Vec<Extent>,
    loss: Loss,
    weak: u64,
}

/// How fast a part writes.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    bytes: u64,
    time: Duration,
    /// The length of the segment that is being written, and since when.
    in_hand: Option<(u64, Instant)>,
}

impl Pace {
    /// Bytes a second; 0 where nothing is known. What is in hand counts as if it were written now, so a part that hangs
    /// becomes slower with time, also if it never wrote anything.
    fn speed(&self) -> f64 {
        let (bytes, time) = match self.in_hand {
            Some((len, since)) => (self.bytes + len, self.time + since.elapsed()),
            None => (self.bytes, self.time),
        };
        if time.is_zero() { 0.0 } else { bytes as f64 / time.as_secs_f64() }
    }

    fn written(&mut self, bytes: u64, time: Duration) {
        *self = Pace { bytes: self.bytes + bytes, time: self.time + time, in_hand: None };
    }
}

#[derive(Debug, Default)]
struct Served {
    parts: u128,
    /// Segments of the stripe that are written.
    written: u16,
    weak: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    for_parts: Condvar,
    for_conductor: Condvar,
    most: usize,
    parts: usize,
}

impl Queue {
    /// A queue for so many parts that holds `most` segments.
    pub(super) fn new(parts: usize, most: usize) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            live: (0..parts).fold(0, |live, n| live | 1 << n),
            served: HashMap::new(),
            order: Order::Wait,
            done: 0,
            gone: 0,
            paces: vec![Pace::default(); parts],
            extents: vec![Extent::default(); parts],
            loss: Loss::default(),
            weak: 0,
        };
        Queue { state: Mutex::new(state), for_parts: Condvar::new(), for_conductor: Condvar::new(), most, parts }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under this lock")
    }

    /// Hands a segment in, and waits while the queue is full. `false`: no part is left. Adds to `waited`.
    pub(super) fn push(&self, sealed: Arc<Sealed>, waited: &mut Duration) -> bool {
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
        // All: the first to wake might be one that already has a segment of the stripe.
        self.for_parts.notify_all();
        true
    }

    /// Bytes a second of each part that takes segments, 0 where not known yet; and whether so much waits for parts
    /// that they are behind with their work.
    pub(super) fn pace(&self) -> (Vec<f64>, bool) {
        let state = self.lock();
        let live = (0..self.parts).filter(|n| state.live >> n & 1 == 1);
        (live.map(|n| state.paces[n].speed()).collect(), state.waiting.len() >= self.most / 2)
    }

    /// Waits until everything handed in is written. `false`: no part is left, and something is not.
    pub(super) fn drain(&self) -> bool {
        let mut state = self.lock();
        while state.live != 0 && (!state.waiting.is_empty() || state.in_hand() != 0) {
            state = self.for_conductor.wait(state).expect("no panic under this lock");
        }
        state.waiting.is_empty() && state.in_hand() == 0
    }

    /// Has all parts that are left make what they wrote reach the disk; waits until it has, or they failed.
    pub(super) fn sync(&self) {
        self.order(Order::Sync, |state| state.live);
    }

    /// Has all parts, those that failed too, put down their trailers.
    pub(super) fn finish(&self, foot: Arc<Foot>) {
        let all = (0..self.parts).fold(0, |all, n| all | 1 << n);
        self.order(Order::Finish(foot), |_| all);
    }

    fn order(&self, order: Order, of: impl Fn(&State) -> u128) {
        let mut state = self.lock();
        (state.order, state.done) = (order, 0);
        self.for_parts.notify_all();
        while of(&state) & !state.done & !state.gone != 0 {
            state = self.for_conductor.wait(state).expect("no panic under this lock");
        }
        state.order = Order::Wait;
    }

    /// Sends all parts home.
    pub(super) fn quit(&self) {
        // Also called while the conductor unwinds, when nobody cares for what another thread left behind.
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.order = Order::Quit;
        drop(state);
        self.for_parts.notify_all();
    }

    /// Part `n` is no longer served, as its thread panicked: whoever waits for it stops waiting, and the panic is met
    /// when the thread is joined.
    pub(super) fn abandoned(&self, n: usize) {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.live &= !(1 << n);
        state.gone |= 1 << n;
        state.paces[n].in_hand = None;
        drop(state);
        self.for_parts.notify_all();
        self.for_conductor.notify_all();
    }

    /// What was lost with parts that failed since this was last asked.
    pub(super) fn take_loss(&self) -> Loss {
        std::mem::take(&mut self.lock().loss)
    }

    /// Stripes whose segments could not all go to different parts.
    pub(super) fn weak(&self) -> u64 {
        self.lock().weak
    }

    /// What part `n` does next; waits until there is something.
    pub(super) fn take(&self, n: usize) -> Task {
        let mut state = self.lock();
        loop {
            if matches!(state.order, Order::Quit) {
                return Task::Quit;
            }
            if let Some(sealed) = state.next(n) {
                return Task::Write(sealed);
            }
            let idle = state.done >> n & 1 == 0;
            match &state.order {
                Order::Sync if idle && state.is_live(n) => return Task::Sync,
                Order::Finish(foot) if idle => return Task::Finish(Arc::clone(foot)),
                _ => state = self.for_parts.wait(state).expect("no panic under this lock"),
            }
        }
    }

    /// Part `n` has written a segment in `time`.
    pub(super) fn written(&self, n: usize, sealed: &Sealed, time: Duration) {
        let mut state = self.lock();
        state.paces[n].written(sealed.bytes.len() as u64, time);
        if sealed.head.parity > 0 {
            state.count(sealed);
        }
        drop(state);
        self.for_conductor.notify_all();
    }

    /// Part `n` has done what was ordered, and now has this.
    pub(super) fn obeyed(&self, n: usize, extent: Extent) {
        let mut state = self.lock();
        state.done |= 1 << n;
        state.extents[n] = extent;
        drop(state);
        self.for_conductor.notify_all();
    }

    /// What the parts have, as they said last.
    pub(super) fn extents(&self) -> Vec<Extent> {
        self.lock().extents.clone()
    }

    /// Part `n` has failed: what it could not write goes to the others.
    pub(super) fn failed(&self, n: usize, unwritten: Option<Arc<Sealed>>, loss: Loss, extent: Extent) {
        let mut state = self.lock();
        state.live &= !(1 << n);
        state.extents[n] = extent;
        state.paces[n].in_hand = None;
        if let Some(sealed) = unwritten {
            state.waiting.push_front(sealed);
        }
        state.loss.ranges.extend(loss.ranges);
        state.loss.parity += loss.parity;
        drop(state);
        self.for_parts.notify_all();
        self.for_conductor.notify_all();
    }
}

impl State {
    fn is_full(&self, most: usize) -> bool {
        self.live != 0 && self.waiting.len() + self.in_hand() >= most
    }

    /// Segments that are being written.
    fn in_hand(&self) -> usize {
        self.paces.iter().filter(|pace| pace.in_hand.is_some()).count()
    }

    fn is_live(&self, n: usize) -> bool {
        self.live >> n & 1 == 1
    }

    /// The first segment that part `n` may have.
    fn next(&mut self, n: usize) -> Option<Arc<Sealed>> {
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

    /// A part takes but one segment of a stripe, unless no part is left that has none.
    fn may_take(&self, n: usize, sealed: &Sealed) -> bool {
        if sealed.head.parity == 0 {
            return true;
        }
        let served = self.served.get(&sealed.head.stripe).map_or(0, |served| served.parts);
        served >> n & 1 == 0 || self.live & !served == 0
    }

    /// Forgets a stripe when the last of its segments is written.
    fn count(&mut self, sealed: &Sealed) {
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
