//! Building images: a source, a program, a format, a codec, and so many threads.
//!
//! A [`Matrix`] makes cells for [`Tool`]s, which a [`Builder`] runs; a [`Model`] says what more threads would do.

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
pub use tool::{Input, Kind, PEERS, Tool};

/// One thing to measure.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Its key.
    pub key: Key,
}

impl Subject for Cell {
    type Key = Key;

    fn key(&self) -> Key {
        self.key.clone()
    }
}
