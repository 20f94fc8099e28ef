//! Measures codecs on the user's own data, block by block as a file system would store them.
//!
//! The path: [`corpus`] (what is compressed) and [`codecs`] (by what) make a [`matrix`] of cells; [`run`] gives them to
//! an [`executor`] in an order of its own each round; every sample becomes a line of a [`record`].

mod clusters;
pub mod codecs;
pub mod corpus;
mod error;
pub mod executor;
pub mod matrix;
pub mod memory;
pub mod metrics;
pub mod policy;
pub mod real;
pub mod record;
pub mod report;
pub mod results;
mod rng;
pub mod run;
pub mod stats;
mod system;

pub use error::{Error, Result};
