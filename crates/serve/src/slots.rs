//! The connections that are served at once: a bounded number. If there are no more, a connection that has not sent a
//! request for a while makes room for one that waits.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time that a connection may take for a request although others wait.
const GRACE: Duration = Duration::from_secs(1);

/// All open connections.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    max: usize,
    state: Mutex<SlotTable>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct SlotTable {
    next: u64,
    open: BTreeMap<u64, OpenConnection>,
    stopped: bool,
}

#[derive(Debug)]
struct OpenConnection {
    stream: Arc<TcpStream>,
    /// Since when a request is waited for; `None` while one is answered.
    waiting: Option<Instant>,
}

/// The place of a connection, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    number: u64,
    pub(crate) stream: Arc<TcpStream>,
}

impl ConnectionSlots {
    pub(crate) fn new(max: usize) -> Self {
        // At least one, or nobody could ever enter.
        ConnectionSlots { max: max.max(1), state: Mutex::default(), left: Condvar::new() }
    }

    /// Waits for a place and takes it; `None` once it is stopped.
    pub(crate) fn enter(self: &Arc<Self>, stream: TcpStream) -> Option<ConnectionSlot> {
        let mut state = self.state();
        while state.open.len() >= self.max && !state.stopped {
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
        self.state().open.len()
    }

    /// Returns true if connections should end as soon as they can.
    pub(crate) fn is_crowded(&self) -> bool {
        // Half is free room for newcomers, before any has to be pushed out.
        self.open() > self.max / 2
    }

    /// Ends all connections and lets no more in.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        for open in state.open.values() {
            // Threads that read or write return at once.
            let _ = open.stream.shutdown(Shutdown::Both);
        }
        self.left.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    fn state(&self) -> MutexGuard<'_, SlotTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotTable {
    /// Ends the connection that has been waiting for a request for the longest time, if that is long enough.
    fn push_out(&mut self) {
        let waiting = self.open.values_mut().filter(|open| open.waiting.is_some_and(|since| since.elapsed() >= GRACE));
        if let Some(open) = waiting.min_by_key(|open| open.waiting) {
            let _ = open.stream.shutdown(Shutdown::Both);
            // Not chosen twice before its thread has noticed.
            open.waiting = None;
        }
    }
}

impl ConnectionSlot {
    /// Notes that a request is waited for, or that one is answered.
    pub(crate) fn set_waiting(&self, waiting: bool) {
        if let Some(open) = self.slots.state().open.get_mut(&self.number) {
            open.waiting = waiting.then(Instant::now);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.state().open.remove(&self.number);
        self.slots.left.notify_all();
    }
}
