//! What all kinds of measurements have in common, so that rounds, records and statistics are written once.

use std::fmt::{Debug, Display};

use crate::record::{AnyKey, Line, Measured};

/// Something that is measured again and again: a cell of a matrix.
pub trait Subject {
    /// What tells it from others, in words that outlive this program. Shown, it says what the cell is.
    type Key: Clone + Ord + Debug + Display;
    /// One measurement of it.
    type Sample: Clone + Debug;

    /// Its key.
    fn key(&self) -> Self::Key;

    /// A key of this kind among those of all kinds.
    fn any(key: Self::Key) -> AnyKey;

    /// A measurement as a line of a record.
    fn line(measured: Measured<Self::Key, Self::Sample>) -> Line;

    /// The measurement that a line is, if it is one of this kind.
    fn measured(line: &Line) -> Option<&Measured<Self::Key, Self::Sample>>;

    /// Seconds of a measurement, by which sessions are compared.
    fn seconds(sample: &Self::Sample) -> f64;
}

/// Implements [`Subject`] for a cell with a method `key`, whose measurements are lines of this variant.
macro_rules! subject {
    ($cell:ty, $variant:ident, $key:ty, $sample:ty, $seconds:expr) => {
        impl $crate::subject::Subject for $cell {
            type Key = $key;
            type Sample = $sample;

            fn key(&self) -> $key {
                self.key()
            }

            fn any(key: $key) -> $crate::record::AnyKey {
                $crate::record::AnyKey::$variant(key)
            }

            fn line(measured: $crate::record::Measured<$key, $sample>) -> $crate::record::Line {
                $crate::record::Line::$variant(measured)
            }

            fn measured(line: &$crate::record::Line) -> Option<&$crate::record::Measured<$key, $sample>> {
                match line {
                    $crate::record::Line::$variant(measured) => Some(measured),
                    _ => None,
                }
            }

            fn seconds(sample: &$sample) -> f64 {
                let seconds: fn(&$sample) -> f64 = $seconds;
                seconds(sample)
            }
        }
    };
}
pub(crate) use subject;
