//! Measures builds by source, program, format, codec and number of threads.
//!
//! A [`BuildMatrix`] creates cells for [`BuildTool`]s, and a [`BuildRunner`] runs them. A [`ScalingModel`] predicts the
//! effect of more threads.

mod builder;
mod features;
mod matrix;
mod model;
mod source;
mod tool;

use crate::executor::MeasuredCell;

pub use crate::keys::build::BuildKey;
pub use builder::BuildRunner;
pub use features::ImageFeatures;
pub use matrix::BuildMatrix;
pub use model::{ScalingLimit, ScalingModel};
pub use source::BuildSource;
pub use tool::{BuildInput, BuildProgram, BuildTool, PEERS};

/// The key says everything about a build, so it is also the cell.
impl MeasuredCell for BuildKey {
    type Key = BuildKey;

    fn key(&self) -> BuildKey {
        self.clone()
    }
}
