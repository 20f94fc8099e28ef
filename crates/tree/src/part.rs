//! A part of some work, for machines that share it.

use std::fmt;

/// Part `index` of `count`, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    index: u32,
    count: u32,
}

impl Part {
    /// All of the work.
    pub const WHOLE: Part = Part { index: 0, count: 1 };

    /// Returns part `index` of `count`; `None` if there is no such part.
    pub fn new(index: u32, count: u32) -> Option<Part> {
        (index < count).then_some(Part { index, count })
    }

    /// Number of the part.
    pub fn index(self) -> u32 {
        self.index
    }

    /// Number of all parts.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Returns true if this is the first part.
    pub fn is_first(self) -> bool {
        self.index == 0
    }

    /// Returns true if this is the last part.
    pub fn is_last(self) -> bool {
        self.index + 1 == self.count
    }

    /// Returns true if item `number` of a list that is dealt out one by one belongs to this part.
    pub fn holds(self, number: u64) -> bool {
        number % u64::from(self.count) == u64::from(self.index)
    }

    /// Returns true if an item at `position` of `total` belongs to this part, when all is cut into ranges of equal length.
    pub fn contains(self, position: u128, total: u128) -> bool {
        let count = u128::from(self.count);
        // Positions are sums of fewer than 2^64 lengths of 64 bits, of which real ones leave 32 bits for the product.
        // The last part also has what lies at the end.
        let at = position.saturating_mul(count).checked_div(total).unwrap_or(0);
        at.min(count - 1) == u128::from(self.index)
    }
}

impl Default for Part {
    fn default() -> Self {
        Part::WHOLE
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_belongs_to_one_part_and_parts_are_about_equal() {
        for count in [1, 2, 3, 17] {
            let parts: Vec<_> = (0..count).map(|index| Part::new(index, count).unwrap()).collect();
            for item in 0..100u64 {
                let dealt = parts.iter().filter(|part| part.holds(item)).count();
                let cut = parts.iter().filter(|part| part.contains(item.into(), 100)).count();
                assert_eq!((dealt, cut), (1, 1), "{item} of {count}");
            }
            for part in &parts {
                let len = (0..100).filter(|item| part.contains(*item, 100)).count();
                assert!(len.abs_diff(100 / count as usize) <= 1, "{part}: {len}");
            }
            assert_eq!(parts.iter().filter(|part| part.contains(0, 0)).count(), 1);
        }
        assert!(Part::new(3, 3).is_none() && Part::new(0, 0).is_none());
    }
}
