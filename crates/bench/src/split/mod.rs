//! Measures splitting dumps over several outputs and joining them: the data ([`SplitSource`]), the program
//! ([`SplitTool`]), the disks ([`DiskProfile`]), and the executor ([`SplitMachine`]).

mod disks;
mod machine;
mod matrix;
mod sink;
mod source;
mod tool;

use std::sync::Arc;

use crate::executor::MeasuredCell;

pub use crate::keys::split::{SplitKey, SplitWork};
pub use disks::{DiskProfile, DiskSpec};
pub(crate) use disks::{seconds_in_ranges, seconds_shared, total_speed};
pub use machine::SplitMachine;
pub use matrix::SplitMatrix;
pub use source::SplitSource;
pub use tool::{SplitProgram, SplitTool};

/// One measurement.
#[derive(Debug, Clone)]
pub struct SplitCell {
    /// Data to split.
    pub source: Arc<SplitSource>,
    /// Program that splits it.
    pub tool: SplitTool,
    /// The codec in the user's spelling.
    pub codec: String,
    /// Disks to split over.
    pub profile: DiskProfile,
    /// Number of outputs.
    pub outputs: usize,
    /// The timed work.
    pub work: SplitWork,
}

impl MeasuredCell for SplitCell {
    type Key = SplitKey;

    fn key(&self) -> SplitKey {
        SplitKey {
            data: self.source.name.clone(),
            digest: self.source.digest.clone(),
            tool: self.tool.name().into(),
            codec: self.codec.clone(),
            disks: self.profile.to_string(),
            outputs: self.outputs,
            work: self.work.name().into(),
        }
    }
}
