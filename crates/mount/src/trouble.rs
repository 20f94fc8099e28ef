//! Tells about errors while serving: once for each of the first, then ever more rarely, since a program that reads a
//! damaged file again and again must not fill a log.

use std::sync::atomic::{AtomicU64, Ordering};

use packfs_image::Error;

use crate::options::Report;

/// Number of errors of which each is told.
const EACH: u64 = 100;

/// Receives the errors of all threads.
pub(crate) struct Trouble {
    report: Option<Report>,
    count: AtomicU64,
}

impl Trouble {
    pub(crate) fn new(report: Option<Report>) -> Self {
        Trouble { report, count: AtomicU64::new(0) }
    }

    /// Tells about an error of inode number `number`.
    pub(crate) fn tell(&self, number: u64, error: &Error) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let Some(report) = &self.report else { return };
        if count <= EACH {
            report(&format!("inode {number}: {error}"));
        } else if count.is_power_of_two() {
            report(&format!("inode {number}: {error} (error number {count}; not all are told)"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn the_first_errors_are_told_and_later_ones_rarely() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let trouble = Trouble::new(Some(Arc::new(move |line: &str| kept.lock().unwrap().push(line.to_owned()))));
        for _ in 0..1000 {
            trouble.tell(7, &Error::Misuse("it failed".into()));
        }
        let lines = lines.lock().unwrap();
        assert_eq!(lines.len(), 103);
        assert!(lines[0].starts_with("inode 7: ") && lines[102].contains("error number 512"));
    }
}
