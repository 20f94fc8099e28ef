//! Input and output: positional reads, positional writes, and outputs that appear whole or not at all.

#[cfg(any(test, feature = "testing"))]
pub mod faults;
mod file_system;
#[cfg(any(test, feature = "testing"))]
pub mod loop_device;
mod observed;
mod output;
mod read_at;
mod replaced;
mod sequential;
mod storage;
mod temporary;
mod turns;
mod unchanged;

pub use file_system::{FileSystem, System};
pub use observed::ObservedReads;
pub use output::{Appender, Output};
pub use read_at::{FileAt, ReadAt};
pub use sequential::Sequential;
pub use storage::{Device, Memory, Storage};
pub use temporary::Scratch;
pub use turns::{Piece, Turns};
pub use unchanged::SourceChanged;
