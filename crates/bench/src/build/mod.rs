//! Measures builds by source, program, format, codec and number of threads.
//!
//! A [`Matrix`] creates cells for [`Tool`]s, and a [`Builder`] runs them. A [`Model`] predicts the effect of more
//! threads.

mod builder;
mod features;
mod matrix;
mod model;
mod source;
mod tool;

use crate::executor::Subject;

pub use crate::keys::build::Key;
pub use builder::Builder;
pub use features::Features;
pub use matrix::Matrix;
pub use model::{Limit, Model};
pub use source::Source;
pub use tool::{Input, Maker, PEERS, Tool};

/// One build to measure.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Key of its results.
    pub key: Key,
}

impl Subject for Cell {
    type Key = Key;

    fn key(&self) -> Key {
        self.key.clone()
    }
}
