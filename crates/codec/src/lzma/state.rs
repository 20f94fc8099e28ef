//! The state of a stream: the kinds of the last operations, as the format counts them, and the last four distances.

use super::{LzmaOperation, REPEATS};

/// Number of states.
pub(super) const STATES: usize = 12;

/// State and repeat distances (less one).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LzmaState {
    /// 0 to 6 after a literal, 7 to 11 after a match or repeat.
    pub(super) kind: u8,
    pub(super) reps: [u32; REPEATS],
}

impl LzmaState {
    #[inline(always)]
    pub(super) fn index(self) -> usize {
        usize::from(self.kind)
    }

    /// Returns true if the last operation was a literal.
    #[inline(always)]
    pub(super) fn after_literal(self) -> bool {
        self.kind < 7
    }

    #[inline(always)]
    pub(super) fn literal(self) -> Self {
        let kind = match self.kind {
            0..4 => 0,
            kind @ 4..10 => kind - 3,
            kind => kind - 6,
        };
        LzmaState { kind, ..self }
    }

    #[inline(always)]
    fn with(self, seldom: u8, often: u8) -> Self {
        LzmaState { kind: if self.after_literal() { seldom } else { often }, ..self }
    }

    #[inline(always)]
    pub(super) fn short_repeat(self) -> Self {
        self.with(9, 11)
    }

    /// Returns the state after a repeat of index `rep`, which moves to the front.
    #[inline(always)]
    pub(super) fn repeat(self, rep: usize) -> Self {
        let mut next = self.with(8, 11);
        next.reps[..=rep].rotate_right(1);
        next
    }

    #[inline(always)]
    pub(super) fn matched(self, distance: u32) -> Self {
        let [a, b, c, _] = self.reps;
        LzmaState { reps: [distance, a, b, c], ..self.with(7, 10) }
    }

    #[inline(always)]
    pub(super) fn after(self, op: LzmaOperation) -> Self {
        match op.back {
            LzmaOperation::LITERAL => self.literal(),
            0 if op.len == 1 => self.short_repeat(),
            rep @ 0..LzmaOperation::MATCH => self.repeat(rep as usize),
            far => self.matched(far - LzmaOperation::MATCH),
        }
    }
}
