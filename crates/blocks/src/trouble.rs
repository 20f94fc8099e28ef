//! Tells about errors while serving: once for each of the first, then ever more rarely, since a program that reads a
//! damaged file again and again must not fill a log.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Takes lines about what went wrong while serving.
pub type LineReceiver = Arc<dyn Fn(&str) + Send + Sync>;

/// Number of errors that are reported one by one.
const EACH: u64 = 100;

/// Receives the errors of all threads.
pub struct TroubleReporter {
    report: Option<LineReceiver>,
    count: AtomicU64,
}

impl fmt::Debug for TroubleReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TroubleReporter").field("count", &self.count).finish_non_exhaustive()
    }
}

impl TroubleReporter {
    /// Passes lines on to `report`.
    pub fn new(report: Option<LineReceiver>) -> Self {
        TroubleReporter { report, count: AtomicU64::new(0) }
    }

    /// Tells about an error.
    pub fn tell(&self, error: fmt::Arguments<'_>) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(report) = &self.report else { return };
        if count <= EACH {
            report(&error.to_string());
        } else if count.is_power_of_two() {
            report(&format!("{error} (error number {count}; not all are reported)"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn the_first_errors_are_told_and_later_ones_rarely() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let trouble =
            TroubleReporter::new(Some(Arc::new(move |line: &str| kept.lock().unwrap().push(line.to_owned()))));
        for _ in 0..1000 {
            trouble.tell(format_args!("inode 7: it failed"));
        }
        let lines = lines.lock().unwrap();
        assert_eq!(lines.len(), 103);
        assert!(lines[0].starts_with("inode 7: ") && lines[102].contains("error number 512"));
    }
}
