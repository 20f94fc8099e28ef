//! Measures: codecs, builds, reads and splits, on the user's own data, with every sample kept.

mod error;
pub mod memory;
mod rng;

pub use error::{Error, Result};
