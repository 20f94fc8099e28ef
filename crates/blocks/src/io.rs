//! Input and output: positional reads, positional writes, and outputs that appear whole or not at all.

#[cfg(any(test, feature = "testing"))]
pub mod faults;
mod file_system;
#[cfg(any(test, feature = "testing"))]
pub mod loop_device;
mod observed;
mod output;
mod read_at;
mod read_full;
mod replaced;
mod sequential;
mod shifted;
mod storage;
mod temporary;
mod turns;
mod unchanged;

pub use file_system::{FileSystem, SystemFiles};
pub use observed::ObservedReads;
pub use output::{Output, OutputAppender};
pub use read_at::{FileAt, ReadAt};
pub use read_full::read_full;
pub use sequential::SequentialStorage;
pub use shifted::ShiftedBytes;
pub use storage::{BlockDevice, Memory, Storage};
pub use temporary::Scratch;
pub use turns::{OutputPiece, WriteTurns};
pub use unchanged::SourceChanged;
