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
    Err(crate::Error::Usage(format!(
        "end {:.2} MB packed {:?} {:?}",
        _data.end as f64 * 4096. / 1e6,
        _data.packed.as_ref().map(|p| p.size),
        _data.counts
    )))
}
