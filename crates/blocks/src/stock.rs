//! Tools that are costly to make and serve one thread at a time, as decoders do: they are kept for the next thread.

use std::sync::Mutex;

use crate::mutex;

/// Tools that nobody uses at the moment: together with those in use, as many as ever were in use at once.
#[derive(Debug)]
pub struct ToolStock<Tool>(Mutex<Vec<Tool>>);

impl<Tool> Default for ToolStock<Tool> {
    fn default() -> Self {
        ToolStock(Mutex::default())
    }
}

impl<Tool> ToolStock<Tool> {
    /// Lends a tool for some work, or makes one if all are in use.
    pub fn lend<Done>(&self, make: impl FnOnce() -> Tool, work: impl FnOnce(&mut Tool) -> Done) -> Done {
        // Taken out, not lent under the lock: others need theirs meanwhile, and the work may need another one.
        let idle = mutex::lock(&self.0).pop();
        let mut tool = idle.unwrap_or_else(make);
        let done = work(&mut tool);
        mutex::lock(&self.0).push(tool);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_made_for_work_within_work_and_then_kept() {
        let stock = ToolStock::default();
        let first = || 1;
        let second = || 2;
        let none = || panic!("one is idle");
        let used = stock.lend(first, |outer| (*outer, stock.lend(second, |inner| *inner)));
        assert_eq!(used, (1, 2));
        // The one that was given back last comes first: what it read last may still be in a cache of the processor.
        assert_eq!(stock.lend(none, |outer| (*outer, stock.lend(none, |inner| *inner))), (1, 2));
    }
}
