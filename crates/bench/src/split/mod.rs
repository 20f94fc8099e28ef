//! Measures splitting dumps over several outputs and joining them: the data ([`Source`]), the program ([`Tool`]), the
//! disks ([`Profile`]), and the executor ([`Machine`]).

mod disks;
mod machine;
mod matrix;
mod sink;
mod source;
mod tool;

use std::sync::Arc;

use crate::executor::Subject;

pub use crate::keys::split::{Key, Work};
pub use disks::{Disk, Profile};
pub(crate) use disks::{ranges, shared, sum};
pub use machine::Machine;
pub use matrix::Matrix;
pub use source::Source;
pub use tool::{Program, Tool};

/// One measurement.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Data to split.
    pub source: Arc<Source>,
    /// Program that splits it.
    pub tool: Tool,
    /// The codec in the user's spelling.
    pub codec: String,
    /// Disks to split over.
    pub profile: Profile,
    /// Number of outputs.
    pub outputs: usize,
    /// The timed work.
    pub work: Work,
}

impl Subject for Cell {
    type Key = Key;

    fn key(&self) -> Key {
        Key {
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
