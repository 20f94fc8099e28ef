//! The metadata zone.
use packfs_blocks::{Output, Progress};

use super::Options;
use super::data::DataDone;
use crate::Result;
use crate::tree::Tree;

#[derive(Debug)]
pub(super) struct Written {}

pub(super) fn write(
    _output: &Output,
    _options: &Options,
    _tree: &Tree,
    _data: &DataDone,
    _progress: &Progress,
) -> Result<Written> {
    Ok(Written {})
}
