//! The connections that are served at once: a bounded number. If there are no more, another one waits or is refused.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use packfs_blocks::mutex;
use rustix::net::{Shutdown, shutdown};

/// Time that a connection may take for a request although others wait.
const GRACE: Duration = Duration::from_secs(1);

/// Treatment of a connection for which there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrowdPolicy {
    /// It waits. One that has not sent a request for a while makes room.
    Wait,
    /// It is closed.
    Refuse,
}

/// All open connections.
#[derive(Debug)]
pub(crate) struct ConnectionSlots<Stream> {
    max: usize,
    policy: CrowdPolicy,
    state: Mutex<SlotTable<Stream>>,
    left: Condvar,
}

#[derive(Debug)]
struct SlotTable<Stream> {
    next: u64,
    open: BTreeMap<u64, OpenConnection<Stream>>,
    stopped: bool,
}

#[derive(Debug)]
struct OpenConnection<Stream> {
    stream: Arc<Stream>,
    /// Start of the wait for a request; `None` while one is answered.
    waiting: Option<Instant>,
}

/// The place of a connection, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot<Stream> {
    slots: Arc<ConnectionSlots<Stream>>,
    number: u64,
    pub(crate) stream: Arc<Stream>,
}

impl<Stream: AsFd> ConnectionSlots<Stream> {
    pub(crate) fn new(max: usize, policy: CrowdPolicy) -> Self {
        let state = SlotTable { next: 0, open: BTreeMap::new(), stopped: false };
        // At least one, or nobody could ever enter.
        ConnectionSlots { max: max.max(1), policy, state: Mutex::new(state), left: Condvar::new() }
    }

    /// Takes a place, for which it may have to wait; `None` if the connection is refused, or all are stopped.
    pub(crate) fn enter(self: &Arc<Self>, stream: Stream) -> Option<ConnectionSlot<Stream>> {
        let mut state = mutex::lock(&self.state);
        while state.open.len() >= self.max && !state.stopped {
            if self.policy == CrowdPolicy::Refuse {
                return None;
            }
            // Also a timeout: a connection becomes old enough without anything that would wake this.
            state.push_out();
            state = self.left.wait_timeout(state, GRACE / 10).unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.stopped {
            return None;
        }
        let number = state.next;
        let stream = Arc::new(stream);
        state.next += 1;
        state.open.insert(number, OpenConnection { stream: Arc::clone(&stream), waiting: Some(Instant::now()) });
        Some(ConnectionSlot { slots: Arc::clone(self), number, stream })
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> usize {
        mutex::lock(&self.state).open.len()
    }

    /// Returns true if connections should end as soon as they can.
    pub(crate) fn is_crowded(&self) -> bool {
        // Half is free room for newcomers, before any has to be pushed out.
        self.open() > self.max / 2
    }

    /// Ends all connections and lets no more in.
    pub(crate) fn stop(&self) {
        let mut state = mutex::lock(&self.state);
        state.stopped = true;
        for open in state.open.values() {
            // Threads that read or write return at once.
            let _ = shutdown(&*open.stream, Shutdown::Both);
        }
        self.left.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        mutex::lock(&self.state).stopped
    }
}

impl<Stream: AsFd> SlotTable<Stream> {
    /// Ends the connection that has been waiting for a request for the longest time, if that is long enough.
    fn push_out(&mut self) {
        let waiting = self.open.values_mut().filter(|open| open.waiting.is_some_and(|since| since.elapsed() >= GRACE));
        if let Some(open) = waiting.min_by_key(|open| open.waiting) {
            let _ = shutdown(&*open.stream, Shutdown::Both);
            // Not chosen twice before its thread has noticed.
            open.waiting = None;
        }
    }
}

impl<Stream> ConnectionSlot<Stream> {
    /// Notes that a request is waited for, or that one is answered.
    pub(crate) fn set_waiting(&self, waiting: bool) {
        if let Some(open) = mutex::lock(&self.slots.state).open.get_mut(&self.number) {
            open.waiting = waiting.then(Instant::now);
        }
    }
}

impl<Stream> Drop for ConnectionSlot<Stream> {
    fn drop(&mut self) {
        mutex::lock(&self.slots.state).open.remove(&self.number);
        self.slots.left.notify_all();
    }
}
