//! Positional reads and sealed output files.

mod output;
mod read_at;

pub use output::Output;
pub use read_at::{FileAt, ReadAt};
