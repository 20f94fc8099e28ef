//! Requests after the handshake: many may be under way, and a few threads answer them in any order.
//!
//! Threads are started while requests wait, up to a number, and stay until the connection ends. If too many requests
//! wait, no more are read, so a client cannot fill memory with them.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::{Condvar, Mutex};
use std::thread;

use packfs_blocks::mutex;
use packfs_blocks::threads;
use packfs_blocks::trouble::TroubleReporter;

use super::answer::RequestAnswerer;
use super::handshake::{NegotiatedExport, REQUEST_MAX};
use super::wire::{NbdRequest, REQUEST_LEN, command};

/// Number of requests that may wait.
const WAITING_MAX: usize = 64;
/// Stack of a thread that answers: it reads, and decodes blocks of a dump.
const STACK: usize = 1 << 20;

/// Takes requests until the client leaves, and answers them by up to `threads` threads; without any, by this one.
/// `hang_up` ends the connection, so that reading from it ends.
pub(super) fn transmit<W: Write + Send>(
    agreed: NegotiatedExport<'_>,
    requests: &mut impl Read,
    out: W,
    threads: usize,
    trouble: &TroubleReporter,
    hang_up: &(dyn Fn() + Sync),
) -> io::Result<()> {
    let answers = RequestAnswerer { agreed, trouble, out: Mutex::new(out) };
    let queue = RequestQueue::default();
    let mut buffer = Vec::new();
    thread::scope(|scope| {
        let mut started = 0;
        let mut threads = threads;
        let mut take = || -> io::Result<()> {
            while let Some(request) = read_request(requests)? {
                if threads == 0 {
                    answers.answer(&request, &mut buffer)?;
                } else if !queue.push(request) {
                    return Ok(());
                // One more thread only if work is waiting: most clients ask for one thing at a time.
                } else if started < threads && queue.is_waiting() {
                    let work = || answer_requests(&queue, &answers, hang_up);
                    match threads::named("packfs-nbd").stack(STACK).start_in(scope, work) {
                        Ok(_) => started += 1,
                        // The running threads do the work, or this one if there are none.
                        Err(_) if started > 0 => {}
                        Err(_) => {
                            threads = 0;
                            queue.pop().map_or(Ok(()), |request| answers.answer(&request, &mut buffer))?;
                        }
                    }
                }
                // After the refusal, which needs no data; the data must be skipped to find the next request.
                if request.command == command::WRITE {
                    skip_data(requests, request.len)?;
                }
            }
            Ok(())
        };
        let taken = take();
        queue.close();
        taken
    })
}

/// Answers requests until there are no more.
fn answer_requests<W: Write>(queue: &RequestQueue, answers: &RequestAnswerer<'_, W>, hang_up: &(dyn Fn() + Sync)) {
    let mut buffer = Vec::new();
    while let Some(request) = queue.pop() {
        if answers.answer(&request, &mut buffer).is_err() {
            queue.abandon();
            // Whoever reads requests waits in `read`, and only the end of the connection wakes it.
            hang_up();
        }
    }
}

/// Reads the next request; `None` if the client is done.
fn read_request(requests: &mut impl Read) -> io::Result<Option<NbdRequest>> {
    let mut head = [0; REQUEST_LEN];
    match requests.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    // Where the next request begins is unknown, so nothing can be answered.
    let request = NbdRequest::parse(&head).ok_or(io::ErrorKind::InvalidData)?;
    Ok((request.command != command::DISCONNECT).then_some(request))
}

/// Reads and forgets the data of a write.
fn skip_data(requests: &mut impl Read, len: u32) -> io::Result<()> {
    // Longer data would be read for minutes only to be dropped.
    if len > REQUEST_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    io::copy(&mut requests.take(len.into()), &mut io::sink()).map(drop)
}

/// Requests that wait for a thread.
#[derive(Default)]
struct RequestQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    requests: VecDeque<NbdRequest>,
    /// Number of threads that wait for a request.
    idle: usize,
    /// No more requests come.
    closed: bool,
}

impl RequestQueue {
    /// Adds a request, when there is room; returns false if nobody takes it any more.
    fn push(&self, request: NbdRequest) -> bool {
        let mut state = mutex::lock(&self.state);
        while state.requests.len() >= WAITING_MAX && !state.closed {
            state = mutex::wait(&self.changed, state);
        }
        if state.closed {
            return false;
        }
        state.requests.push_back(request);
        // All, as the same condition wakes those that wait for room.
        self.changed.notify_all();
        true
    }

    /// Returns true if more requests wait than threads are idle.
    fn is_waiting(&self) -> bool {
        let state = mutex::lock(&self.state);
        state.requests.len() > state.idle
    }

    /// Waits for a request; `None` once there are no more.
    fn pop(&self) -> Option<NbdRequest> {
        let mut state = mutex::lock(&self.state);
        loop {
            if let Some(request) = state.requests.pop_front() {
                self.changed.notify_all();
                return Some(request);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = mutex::wait(&self.changed, state);
            state.idle -= 1;
        }
    }

    /// Lets those that wait be answered, and no more.
    fn close(&self) {
        mutex::lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    /// Forgets those that wait: the client is gone.
    fn abandon(&self) {
        let mut state = mutex::lock(&self.state);
        state.closed = true;
        state.requests.clear();
        self.changed.notify_all();
    }
}
