//! Things found wrong or different: counted without end, kept only as far as anybody would read.

use std::io::{self, Write};

use serde::Serialize;

use super::units;

/// How many are kept.
const SHOWN: usize = 10_000;

/// What was found, in the order it was found.
#[derive(Debug, Serialize)]
pub(crate) struct Findings<T> {
    /// All of them.
    pub(crate) count: u64,
    /// The first of them.
    shown: Vec<T>,
}

impl<T> Findings<T> {
    pub(crate) fn new() -> Self {
        Findings { count: 0, shown: Vec::new() }
    }

    pub(crate) fn add(&mut self, finding: T) {
        self.count += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(finding);
        }
    }

    /// Prints one a line, each as `line` puts it.
    pub(crate) fn print(&self, line: impl Fn(&T) -> String) -> io::Result<()> {
        let mut out = super::stdout()?;
        for finding in &self.shown {
            writeln!(out, "{}", line(finding))?;
        }
        let more = self.count - self.shown.len() as u64;
        if more > 0 {
            writeln!(out, "and {} more", units::count(more))?;
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_the_first_kept() {
        let mut findings = Findings::new();
        for n in 0..=SHOWN {
            findings.add(n);
        }
        assert_eq!((findings.count, findings.shown.len(), findings.shown.last()), (10_001, SHOWN, Some(&9_999)));
    }
}
