//! The place in which a worker leaves the result of one job for the conductor.
//!
//! A channel would do, but its code is compiled anew for the type of every result: forty times, half a megabyte of the
//! program.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};

use crate::mutex;

/// Makes a place for one result, and the right to fill it.
pub(crate) fn slot<T>() -> (SlotFiller<T>, Arc<ResultSlot<T>>) {
    let slot = Arc::new(ResultSlot(Mutex::new(SlotState::Empty)));
    (SlotFiller(Some(Arc::clone(&slot))), slot)
}

/// A result that comes once.
pub(crate) struct ResultSlot<T>(Mutex<SlotState<T>>);

enum SlotState<T> {
    Empty,
    /// Nothing yet, and this thread sleeps until something is.
    Awaited(Thread),
    Full(T),
    /// The filler is gone: its job panicked, or was dropped.
    Abandoned,
}

impl<T> fmt::Debug for ResultSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

impl<T> ResultSlot<T> {
    /// Returns true if [`wait`](Self::wait) would return immediately.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(*mutex::lock(&self.0), SlotState::Full(_) | SlotState::Abandoned)
    }

    /// Waits for the result; `None` if there will be none.
    pub(crate) fn wait(&self) -> Option<T> {
        loop {
            let mut state = mutex::lock(&self.0);
            // `Abandoned` stands in while the state is looked at, and stays once the result is taken.
            match std::mem::replace(&mut *state, SlotState::Abandoned) {
                SlotState::Full(value) => return Some(value),
                SlotState::Abandoned => return None,
                SlotState::Empty | SlotState::Awaited(_) => *state = SlotState::Awaited(thread::current()),
            }
            drop(state);
            // It may return early, for reasons of others: hence the loop.
            thread::park();
        }
    }

    /// Ends the wait, if there is one: waking costs a system call, so it is done for a sleeper only.
    fn end(&self, with: SlotState<T>) {
        let before = std::mem::replace(&mut *mutex::lock(&self.0), with);
        if let SlotState::Awaited(thread) = before {
            thread.unpark();
        }
    }
}

/// Fills a [`ResultSlot`], or tells whoever waits that nothing will come.
pub(crate) struct SlotFiller<T>(Option<Arc<ResultSlot<T>>>);

impl<T> SlotFiller<T> {
    pub(crate) fn fill(mut self, value: T) {
        if let Some(slot) = self.0.take() {
            slot.end(SlotState::Full(value));
        }
    }
}

impl<T> Drop for SlotFiller<T> {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.end(SlotState::Abandoned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_result_arrives_before_and_after_it_is_awaited() {
        for wait in [0, 20] {
            let (filler, slot) = slot();
            assert!(!slot.is_ready());
            let worker = thread::spawn(move || {
                thread::sleep(Duration::from_millis(wait));
                filler.fill(vec![7; 3]);
            });
            if wait == 0 {
                worker.join().unwrap();
                assert!(slot.is_ready());
                assert_eq!(slot.wait(), Some(vec![7; 3]));
            } else {
                assert_eq!(slot.wait(), Some(vec![7; 3]));
                worker.join().unwrap();
            }
        }
    }

    #[test]
    fn a_wake_of_others_does_not_end_the_wait() {
        let (filler, slot) = slot();
        let conductor = thread::current();
        let worker = thread::spawn(move || {
            for _ in 0..10 {
                conductor.unpark();
                thread::sleep(Duration::from_millis(1));
            }
            filler.fill(5);
        });
        assert_eq!(slot.wait(), Some(5));
        worker.join().unwrap();
    }

    #[test]
    fn nobody_waits_for_a_job_that_is_gone() {
        let (filler, slot) = slot::<u8>();
        let worker = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            drop(filler);
        });
        assert_eq!(slot.wait(), None);
        assert!(slot.is_ready());
        worker.join().unwrap();
    }
}
