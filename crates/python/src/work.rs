//! Long work: on a thread of its own, while the calling one reports progress and notices Ctrl-C. Python handles signals
//! on its main thread only, so work there could not be interrupted.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use packfs_blocks::progress::Phase;
use packfs_blocks::threads;
use packfs_image::Progress;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

use crate::errors::LibraryError;

/// Time between two reports. Ctrl-C is noticed as often: a tenth of a second feels immediate.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

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
    let result = py.detach(|| {
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
                if let Err(error) = Python::attach(|py| report_once(py, report, &progress)) {
                    raised.keep(error);
                    progress.cancel();
                    is_cancelled = true;
                }
            }
            Ok(worker.join())
        })
    });
    let result = result.map_err(|error: std::io::Error| PyOSError::new_err(error.to_string()))?;
    // Joined by hand, because a scope that finds a panic panics itself, and that exception is none that programs catch.
    let result = result.map_err(|_| PyRuntimeError::new_err("packfs panicked; see its message above"))?;
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
