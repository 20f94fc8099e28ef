//! The worker pool: the one threading mechanism of packfs.
//!
//! The calling thread is the conductor: it submits jobs, keeps their [`JobTicket`]s in the order in
//! which it needs the results, and waits for the oldest. The order, and so every output byte, is
//! decided on one thread whatever the number of workers. Without workers a job runs immediately on
//! the caller. The conductor bounds the work in flight (see [`Window`]); the pool itself only
//! queues. Jobs that end work, such as writing a result, go ahead of those that begin some.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::slot::{self, ResultSlot};
use crate::threads::{self, ThreadShortage};

type PoolJob<'env, S> = Box<dyn FnOnce(&mut S) + Send + 'env>;

/// A pool of workers, each with a state `S` of its own (an encoder, scratch buffers).
pub struct Pool<'env, S> {
    threads: usize,
    queues: Option<JobQueues<Sender<PoolJob<'env, S>>>>,
    inline: Option<RefCell<S>>,
}

/// One end of both queues. For each job that goes first, the queue of all others has an empty one, so that a worker
/// needs to wait for one queue only.
#[derive(Clone)]
struct JobQueues<T> {
    first: T,
    jobs: T,
}

impl<S> fmt::Debug for Pool<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// Returns the number of cores that the process may use, with its affinity and the quota of its control group
/// taken into account; 1 if unknown. Options use as many threads by default.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `body` with a pool of `threads` workers; with 0, jobs run on the caller when they are submitted.
///
/// If the system allows fewer threads, even none, the pool works with those. The results are the same, and
/// [`threads::shortage`] reports it.
///
/// When `body` returns, with a result or an error, jobs not yet begun are dropped: the first error
/// stops everything as soon as the running jobs end.
pub fn scope<'env, S, R>(
    threads: usize,
    state: impl Fn() -> S + Sync + 'env,
    body: impl FnOnce(&Pool<'env, S>) -> R,
) -> R {
    let stop = AtomicBool::new(false);
    let (first, firsts) = unbounded();
    let (sender, receiver) = unbounded();
    let receivers = JobQueues { first: firsts, jobs: receiver };
    std::thread::scope(|scope| {
        let mut started = 0;
        while started < threads {
            let receivers = receivers.clone();
            let state = &state;
            let stop = &stop;
            let starter = threads::named(format!("packfs-worker-{started}"));
            if let Err(error) = starter.start_in(scope, move || work(&receivers, state, stop)) {
                threads::tell_shortage(ThreadShortage { wanted: threads, started, why: error.to_string() });
                break;
            }
            started += 1;
        }
        // Dropped on unwinding too, so that a panic in `body` does not leave workers waiting.
        let pool = match started {
            0 => Pool { threads: 0, queues: None, inline: Some(RefCell::new(state())) },
            _ => Pool { threads: started, queues: Some(JobQueues { first, jobs: sender }), inline: None },
        };
        let guard = StopOnDrop(&stop);
        let result = body(&pool);
        // The flag first: it has workers drop the jobs that are still queued when the pool closes the queue.
        drop(guard);
        drop(pool);
        result
    })
}

impl<'env, S> JobQueues<Sender<PoolJob<'env, S>>> {
    /// Queues a job ahead of others; returns the empty one that has a worker look for it.
    fn ahead(&self, job: PoolJob<'env, S>) -> PoolJob<'env, S> {
        self.first.send(job).expect("workers outlive the pool");
        Box::new(|_| ())
    }
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn work<S>(queues: &JobQueues<Receiver<PoolJob<'_, S>>>, state: &(impl Fn() -> S + Sync), stop: &AtomicBool) {
    let mut state = state();
    let mut run = |job: PoolJob<'_, S>| {
        // Relaxed is enough: a worker that sees the flag late runs one more job.
        if !stop.load(Ordering::Relaxed) {
            job(&mut state);
        }
    };
    for job in &queues.jobs {
        // An empty job in this queue stands for one of the other. Whatever this one is, those go first.
        queues.first.try_iter().for_each(&mut run);
        run(job);
    }
}

impl<'env, S> Pool<'env, S> {
    /// Returns the number of workers; 0 if jobs run on the caller.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Queues a job; its result is fetched through the ticket.
    pub fn submit<T: Send + 'env>(&self, job: impl FnOnce(&mut S) -> T + Send + 'env) -> JobTicket<T> {
        self.queue(false, job)
    }

    /// As [`Pool::submit`], but ahead of all jobs that are queued by it.
    pub fn submit_first<T: Send + 'env>(&self, job: impl FnOnce(&mut S) -> T + Send + 'env) -> JobTicket<T> {
        self.queue(true, job)
    }

    fn queue<T: Send + 'env>(&self, first: bool, job: impl FnOnce(&mut S) -> T + Send + 'env) -> JobTicket<T> {
        match (&self.queues, &self.inline) {
            (Some(queues), _) => {
                let (done, result) = slot::slot();
                let job: PoolJob<'env, S> = Box::new(move |state| done.fill(job(state)));
                let job = if first { queues.ahead(job) } else { job };
                queues.jobs.send(job).expect("workers outlive the pool");
                JobTicket(TicketState::Pending(result))
            }
            (None, Some(state)) => JobTicket(TicketState::Ready(job(&mut state.borrow_mut()))),
            (None, None) => unreachable!("a pool has workers or a state of its own"),
        }
    }
}

/// The future result of one job.
#[derive(Debug)]
pub struct JobTicket<T>(TicketState<T>);

#[derive(Debug)]
enum TicketState<T> {
    Ready(T),
    Pending(Arc<ResultSlot<T>>),
}

impl<T> JobTicket<T> {
    /// Makes a ticket for a result that needs no work.
    pub fn ready(value: T) -> Self {
        JobTicket(TicketState::Ready(value))
    }

    /// Returns true if [`wait`](Self::wait) would return immediately.
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            TicketState::Ready(_) => true,
            TicketState::Pending(result) => result.is_ready(),
        }
    }

    /// Waits for the job and returns its result.
    ///
    /// # Panics
    /// If the job panicked: the panic is raised again in the conductor.
    pub fn wait(self) -> T {
        match self.0 {
            TicketState::Ready(value) => value,
            TicketState::Pending(result) => result.wait().expect("a worker panicked; see its message above"),
        }
    }
}

/// Tickets in order with the number of bytes they hold, kept within a budget.
#[derive(Debug)]
pub struct Window<T> {
    queue: VecDeque<(JobTicket<T>, usize)>,
    bytes: usize,
    budget: usize,
}

impl<T> Window<T> {
    /// Makes a window that is full when its tickets hold `budget` bytes or more.
    pub fn new(budget: usize) -> Self {
        Window { queue: VecDeque::new(), bytes: 0, budget }
    }

    /// Adds the newest ticket, which holds `bytes`.
    pub fn push(&mut self, ticket: JobTicket<T>, bytes: usize) {
        self.bytes += bytes;
        self.queue.push_back((ticket, bytes));
    }

    /// Returns true if the oldest result must be taken before more is submitted.
    pub fn is_full(&self) -> bool {
        // An empty window takes anything, so what exceeds the budget by itself gets through, too.
        self.bytes >= self.budget && !self.queue.is_empty()
    }

    /// Returns true if nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the number of tickets.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the number of bytes that the tickets hold.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits for the oldest result; `None` if nothing is in flight.
    pub fn pop(&mut self) -> Option<T> {
        let (ticket, bytes) = self.queue.pop_front()?;
        self.bytes -= bytes;
        Some(ticket.wait())
    }

    /// Returns the oldest result if it is ready.
    pub fn pop_ready(&mut self) -> Option<T> {
        if self.queue.front()?.0.is_ready() { self.pop() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    #[test]
    fn results_come_in_the_order_of_submission_for_any_number_of_threads() {
        for threads in [0, 1, 2, 7] {
            let got = scope(
                threads,
                || 0u64,
                |pool| {
                    let mut window = Window::new(64);
                    let mut got = Vec::new();
                    for n in 0..200u64 {
                        if window.is_full() {
                            got.extend(window.pop());
                        }
                        let slow = n % 7 == 0;
                        let ticket = pool.submit(move |calls: &mut u64| {
                            *calls += 1;
                            if slow {
                                std::thread::sleep(Duration::from_micros(200));
                            }
                            n
                        });
                        window.push(ticket, 8);
                    }
                    while let Some(n) = window.pop() {
                        got.push(n);
                    }
                    got
                },
            );
            assert_eq!(got, (0..200).collect::<Vec<_>>(), "{threads} threads");
        }
    }

    #[test]
    fn jobs_that_go_first_overtake_those_that_wait() {
        let order = std::sync::Mutex::new(Vec::new());
        let note = |name: &'static str| order.lock().unwrap().push(name);
        let (start, started) = crossbeam_channel::bounded::<()>(0);
        scope(
            1,
            || (),
            |pool| {
                // The only worker waits until all is queued.
                let mut tickets = vec![pool.submit(move |()| _ = started.recv())];
                tickets.extend(["b", "c"].map(|name| pool.submit(move |()| note(name))));
                tickets.extend(["a", "aa"].map(|name| pool.submit_first(move |()| note(name))));
                drop(start);
                tickets.into_iter().for_each(JobTicket::wait);
            },
        );
        assert_eq!(order.into_inner().unwrap(), ["a", "aa", "b", "c"]);
    }

    #[test]
    fn an_error_drops_the_jobs_not_yet_begun() {
        let ran = AtomicUsize::new(0);
        let result: Result<(), &str> = scope(
            1,
            || (),
            |pool| {
                for _ in 0..1000 {
                    pool.submit(|()| {
                        ran.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(1));
                    });
                }
                Err("stop")
            },
        );
        assert_eq!(result, Err("stop"));
        assert!(ran.load(Ordering::Relaxed) < 500, "most jobs must have been dropped");
    }

    #[test]
    fn a_window_is_full_by_bytes_but_never_when_empty() {
        let mut window = Window::new(10);
        assert!(!window.is_full());
        window.push(JobTicket::ready(1), 4);
        assert!(!window.is_full());
        window.push(JobTicket::ready(2), 6);
        assert!(window.is_full());
        assert_eq!(window.pop(), Some(1));
        assert!(!window.is_full());
        assert_eq!((window.pop_ready(), window.pop()), (Some(2), None));
        assert!(!Window::<u8>::new(0).is_full());
    }
}
