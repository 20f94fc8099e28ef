//! Findings of a check or comparison: all are counted, but only as many are kept as anybody would read.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use super::units;

/// Maximum number of findings kept.
const SHOWN: usize = 10_000;

/// Findings in the order in which they were found.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct Findings<T> {
    /// Number of all findings.
    pub(crate) count: u64,
    /// The first 10,000 findings.
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

    /// Prints one finding per line, formatted by `line`.
    pub(crate) fn print(&self, line: impl Fn(&T) -> String) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        super::write_result(|out| {
            for finding in &self.shown {
                writeln!(out, "{}", line(finding))?;
            }
            let more = self.count - self.shown.len() as u64;
            if more > 0 {
                writeln!(out, "and {} more", units::count(more))?;
            }
            Ok(())
        })
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
