//! Long work: on a thread of its own, while the calling one reports progress and notices Ctrl-C. Python handles signals
//! on its main thread only, so work there could not be interrupted.
//!
//! Also the only ways to release and to take Python's lock: [`detached`] and [`attached`]. Before version 3.14, Python
//! ends a thread that asks for its lock while the interpreter exits by unwinding the thread's stack, and Rust aborts
//! the process when its functions are unwound like that. Daemon threads may still work then: they are stopped before.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicIsize};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use packfs_blocks::progress::Phase;
use packfs_blocks::threads;
use packfs_image::Progress;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

use crate::errors::LibraryError;

/// Time between two reports. Ctrl-C is noticed as often: a tenth of a second feels immediate.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time for which the end of the interpreter waits for Python code that the library called, such as the method
/// `read` of a file object. Most ends at once; that which waits for a server must not keep the program.
const EXIT_DELAY: Duration = Duration::from_secs(1);
/// Time between two looks at whether that code has ended.
const EXIT_INTERVAL: Duration = Duration::from_millis(1);

/// Number of permits. Less than zero in a child process whose parent forked with a permit.
static PERMITS: AtomicIsize = AtomicIsize::new(0);
static IS_EXITING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// True on the thread that ends the interpreter, which may still run Python code.
    static ENDS_INTERPRETER: Cell<bool> = const { Cell::new(false) };
}

/// Permit of a thread to take Python's lock, or to run Python code below functions of Rust.
struct AttachPermit;

impl AttachPermit {
    /// Returns nothing if the interpreter exits.
    fn take() -> Option<Self> {
        // Counted before it looks: `prepare_exit` either sees the permit, or this sees the exit.
        PERMITS.fetch_add(1, SeqCst);
        let permit = AttachPermit;
        (!IS_EXITING.load(SeqCst) || ENDS_INTERPRETER.get()).then_some(permit)
    }

    /// Never returns if the interpreter exits. The thread must not have Python's lock.
    fn take_or_stop() -> Self {
        Self::take().unwrap_or_else(|| stop_thread())
    }
}

impl Drop for AttachPermit {
    fn drop(&mut self) {
        PERMITS.fetch_sub(1, SeqCst);
    }
}

/// Does what Python does from version 3.14 on with a thread that asks for its lock while the interpreter exits.
fn stop_thread() -> ! {
    loop {
        std::thread::park();
    }
}

/// Runs `work` without Python's lock.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let (result, _permit) = py.detach(|| {
        let result = work();
        (result, AttachPermit::take_or_stop())
    });
    result
}

/// Runs `work` with Python's lock, on a thread that does not have it.
pub(crate) fn attached<T>(work: impl FnOnce(Python<'_>) -> T) -> T {
    let _permit = AttachPermit::take_or_stop();
    Python::attach(work)
}

/// Runs `work`, which is Python code, on a thread that has Python's lock.
pub(crate) fn still_attached<T>(py: Python<'_>, work: impl FnOnce() -> T) -> T {
    let _permit = AttachPermit::take().unwrap_or_else(|| py.detach(|| stop_thread()));
    work()
}

/// Stops all other threads when they next need Python's lock. Python calls it before the interpreter exits.
#[pyfunction]
pub(crate) fn prepare_exit(py: Python<'_>) {
    ENDS_INTERPRETER.set(true);
    IS_EXITING.store(true, SeqCst);
    py.detach(|| {
        let begun = Instant::now();
        while PERMITS.load(SeqCst) > 0 && begun.elapsed() < EXIT_DELAY {
            std::thread::sleep(EXIT_INTERVAL);
        }
    });
}

/// Forgets the threads of the parent process. Python calls it in a child.
#[pyfunction]
pub(crate) fn forget_threads() {
    PERMITS.store(0, SeqCst);
}

/// The first exception that Python code raised inside the work, which is why the work failed.
#[derive(Debug, Clone, Default)]
pub(crate) struct RaisedException(Arc<Mutex<Option<PyErr>>>);

impl RaisedException {
    /// Keeps an exception, unless an earlier one is kept. Returns an error for the library.
    pub(crate) fn keep(&self, raised: PyErr) -> std::io::Error {
        let error = std::io::Error::other(raised.to_string());
        if let Ok(mut kept) = self.0.lock() {
            kept.get_or_insert(raised);
        }
        error
    }

    /// Fails if an exception is kept: a call that ends asks Python for nothing more.
    pub(crate) fn fail_if_kept(&self) -> std::io::Result<()> {
        match self.0.lock() {
            Ok(kept) if kept.is_none() => Ok(()),
            _ => Err(std::io::Error::other("an exception was raised before")),
        }
    }

    fn take(&self) -> Option<PyErr> {
        self.0.lock().ok()?.take()
    }
}

/// Runs `work` on another thread without Python's lock. Meanwhile `report` is called with the phase, and the bytes done and
/// in total. An exception of `report`, or Ctrl-C, cancels the work.
pub(crate) fn run<T: Send, E: LibraryError>(
    py: Python<'_>,
    report: Option<&Py<PyAny>>,
    raised: &RaisedException,
    work: impl FnOnce(&Arc<Progress>) -> Result<T, E> + Send,
) -> PyResult<T> {
    let progress = Arc::new(Progress::default());
    let result = detached(py, || {
        std::thread::scope(|scope| {
            let (done, finished) = mpsc::channel();
            let counters = progress.clone();
            let worker = threads::named("packfs-python").start_in(scope, move || {
                let result = work(&counters);
                // The receiver lives until this thread has ended.
                let _ = done.send(());
                result
            })?;
            let mut is_cancelled = false;
            while let Err(RecvTimeoutError::Timeout) = finished.recv_timeout(REPORT_INTERVAL) {
                if is_cancelled {
                    continue;
                }
                if let Err(error) = attached(|py| report_once(py, report, &progress)) {
                    raised.keep(error);
                    progress.cancel();
                    is_cancelled = true;
                }
            }
            Ok(worker.join())
        })
    });
    let result = result.map_err(refused_thread)?;
    // Joined by hand, because a scope that finds a panic panics itself, and that exception is none that programs catch.
    let result = result.map_err(|_| panicked())?;
    match (result, raised.take()) {
        // An exception may come too late to stop the work, but it must not be lost.
        (Ok(_), Some(raised)) | (Err(_), Some(raised)) => Err(raised),
        (Err(error), None) => Err(error.exception()),
        (Ok(value), None) => {
            if let Some(report) = report {
                report_counters(py, report, "done", &progress)?;
            }
            Ok(value)
        }
    }
}

/// Runs `work`, which may wait for a server, on another thread without Python's lock. After Ctrl-C it goes on alone,
/// and its result is dropped.
pub(crate) fn run_abandonable<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, finished) = mpsc::channel();
    let started = threads::named("packfs-python").start(move || {
        // Nobody receives what was abandoned.
        let _ = sender.send(work());
    });
    started.map_err(refused_thread)?;
    detached(py, move || {
        loop {
            match finished.recv_timeout(REPORT_INTERVAL) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Timeout) => attached(|py| py.check_signals())?,
                Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
            }
        }
    })
}

fn refused_thread(error: std::io::Error) -> PyErr {
    PyOSError::new_err(error.to_string())
}

fn panicked() -> PyErr {
    PyRuntimeError::new_err("packfs panicked; see its message above")
}

fn report_once(py: Python<'_>, report: Option<&Py<PyAny>>, progress: &Progress) -> PyResult<()> {
    py.check_signals()?;
    let Some(report) = report else { return Ok(()) };
    report_counters(py, report, &phase_name(progress.phase()), progress)
}

fn report_counters(py: Python<'_>, report: &Py<PyAny>, phase: &str, progress: &Progress) -> PyResult<()> {
    report.call1(py, (phase, progress.done.load(Relaxed), progress.total.load(Relaxed))).map(drop)
}

fn phase_name(phase: Phase) -> String {
    format!("{phase:?}").to_lowercase()
}
