//! The thread of a part: executes the tasks from the queue until it is told to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use packfs_blocks::Progress;

use super::part::PartWriter;
use super::queue::{PartTask, SegmentQueue};
use super::segment::SealedSegment;

/// Serves part number `n`, and adds the bytes it writes to `written`.
pub(super) fn serve(n: usize, part: &mut PartWriter, queue: &SegmentQueue, written: &[&AtomicU64]) {
    let _leave = LeaveGuard(n, queue);
    if let Err(error) = part.begin() {
        fail(n, part, queue, None, &error);
    }
    loop {
        match queue.take(n) {
            PartTask::Quit => return,
            PartTask::Write(sealed) => write(n, part, queue, sealed, written),
            PartTask::Sync => match part.sync() {
                Ok(()) => queue.obeyed(n, part.extent()),
                Err(error) => fail(n, part, queue, None, &error),
            },
            PartTask::Finish(foot) => {
                part.finish(&foot);
                queue.obeyed(n, part.extent());
            }
        }
    }
}

/// On a panic, marks the part as abandoned.
struct LeaveGuard<'q>(usize, &'q SegmentQueue);

impl Drop for LeaveGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.1.abandoned(self.0);
        }
    }
}

fn write(n: usize, part: &mut PartWriter, queue: &SegmentQueue, sealed: Arc<SealedSegment>, written: &[&AtomicU64]) {
    let before = part.position();
    let appended = part.append(&sealed);
    // The failure may have come after the segment, which then is in the part.
    let is_written = part.position() > before;
    if is_written {
        written.iter().for_each(|counter| Progress::add(counter, sealed.bytes.len() as u64));
        queue.written(n, &sealed, *appended.as_ref().unwrap_or(&Duration::ZERO));
    }
    if let Err(error) = appended {
        fail(n, part, queue, (!is_written).then_some(sealed), &error);
    }
}

fn fail(
    n: usize,
    part: &mut PartWriter,
    queue: &SegmentQueue,
    unwritten: Option<Arc<SealedSegment>>,
    error: &io::Error,
) {
    let loss = part.retire(error);
    queue.failed(n, unwritten, loss, part.extent());
}
