//! Clocks of processor time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the processor time of the calling thread.
pub(crate) fn thread_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// Returns the processor time of all threads of this process.
pub(crate) fn process_time() -> Duration {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}
