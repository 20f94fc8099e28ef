//! The codec measurements to make: all combinations of data, codec, block size and number of threads.

use std::sync::Arc;

use crate::codecs::CodecMethod;
use crate::corpus::{DataSet, INCOMPRESSIBLE};
use crate::executor::MeasuredCell;
use crate::policy::StoragePolicy;
use crate::{Error, Result};

pub use crate::keys::codec::CodecKey;

/// The values to combine.
#[derive(Debug, Clone)]
pub struct CodecMatrix {
    /// Data sets.
    pub data: Vec<Arc<DataSet>>,
    /// Codecs.
    pub methods: Vec<CodecMethod>,
    /// Block sizes in bytes.
    pub blocks: Vec<usize>,
    /// Sector size in bytes.
    pub sector: usize,
    /// Storage policy.
    pub policy: StoragePolicy,
    /// Numbers of threads.
    pub threads: Vec<usize>,
}

/// One codec measurement.
#[derive(Debug, Clone)]
pub struct CodecCell {
    /// The data.
    pub data: Arc<DataSet>,
    /// The codec.
    pub method: CodecMethod,
    /// Block size in bytes.
    pub block: usize,
    /// Sector size in bytes.
    pub sector: usize,
    /// Storage policy.
    pub policy: StoragePolicy,
    /// Number of threads.
    pub threads: usize,
}

impl MeasuredCell for CodecCell {
    type Key = CodecKey;

    fn key(&self) -> CodecKey {
        CodecKey {
            data: self.data.name.clone(),
            digest: self.data.digest.clone(),
            codec: self.method.to_string(),
            block: self.block,
            sector: self.sector,
            policy: self.policy.to_string(),
            threads: self.threads,
        }
    }
}

impl CodecMatrix {
    /// Returns all cells. Incompressible data is measured with the first number of threads only.
    pub fn cells(&self) -> Result<Vec<CodecCell>> {
        require_values(&[
            ("data", self.data.is_empty()),
            ("codec", self.methods.is_empty()),
            ("block size", self.blocks.is_empty()),
            ("number of threads", self.threads.is_empty()),
        ])?;
        if self.threads.contains(&0) {
            return Err(Error::Usage("0 threads measure nothing; accepted: 1 or more".into()));
        }
        let mut cells = Vec::new();
        for data in &self.data {
            // Noise shows how early a codec gives up, which more threads do not change.
            let threads = if data.name == INCOMPRESSIBLE { &self.threads[..1] } else { &self.threads[..] };
            for &block in &self.blocks {
                self.policy.check(block, self.sector)?;
                for method in &self.methods {
                    cells.extend(threads.iter().map(|&threads| CodecCell {
                        data: Arc::clone(data),
                        method: method.clone(),
                        block,
                        sector: self.sector,
                        policy: self.policy,
                        threads,
                    }));
                }
            }
        }
        Ok(cells)
    }
}

/// Fails if a list of values to combine is empty. Each has its name and whether it is.
pub(crate) fn require_values(lists: &[(&str, bool)]) -> Result<()> {
    match lists.iter().find(|(_, is_empty)| *is_empty) {
        Some((what, _)) => Err(Error::Usage(format!("no {what} is given: there is nothing to measure"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::PageShares;

    #[test]
    fn every_combination_is_a_cell_once() {
        let matrix = CodecMatrix {
            data: vec![
                Arc::new(DataSet::memory(4096, 1, PageShares::default())),
                Arc::new(DataSet::incompressible(4096, 1)),
            ],
            methods: CodecMethod::list("lz4,zstd:3,memcpy").unwrap(),
            blocks: vec![4096, 8192],
            sector: 4096,
            policy: StoragePolicy::Squashfs,
            threads: vec![1, 2],
        };
        let cells = matrix.cells().unwrap();
        // Three codecs, two block sizes; two numbers of threads for memory, one for incompressible data.
        assert_eq!(cells.len(), 3 * 2 * 2 + 3 * 2);
        let mut keys: Vec<CodecKey> = cells.iter().map(CodecCell::key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), cells.len());
        assert!(CodecMatrix { threads: vec![0], ..matrix.clone() }.cells().is_err());
        assert!(
            CodecMatrix { methods: vec![], ..matrix.clone() }.cells().unwrap_err().to_string().contains("no codec")
        );
        assert!(CodecMatrix { policy: StoragePolicy::F2fs, ..matrix }.cells().is_err());
    }
}
