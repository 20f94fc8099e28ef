//! Sources as devices: an image may refer to bytes that lie in a source as they are, instead of copying them.

use std::sync::Arc;

use crate::Contents;
use crate::Result;
use crate::tree::{Data, Tree};

/// A source that an image may refer to as an additional device.
#[derive(Debug, Clone)]
pub struct Device {
    /// The files of the source.
    pub contents: Arc<dyn Contents>,
    /// Length of the source in bytes.
    pub len: u64,
    /// Name for the device table, at most 64 bytes; may be empty.
    pub tag: String,
}

/// Bytes of a file that lie in a row in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Offset in the file.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// Offset in the source.
    pub at: u64,
}

impl Tree {
    /// Returns the number of the device that holds a file, counted from 1, and the runs of its bytes; `None` if they have
    /// to be copied.
    pub fn runs_of(&self, data: &Data<&Arc<dyn Contents>>) -> Result<Option<(u16, Vec<Run>)>> {
        let Data::Source { from, key } = data else { return Ok(None) };
        let number = self.devices.iter().position(|device| Arc::ptr_eq(&device.contents, from));
        let Some(number) = number.and_then(|n| u16::try_from(n + 1).ok()) else { return Ok(None) };
        Ok(from.runs(*key)?.map(|runs| (number, runs)))
    }
}
