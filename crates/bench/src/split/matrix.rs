//! The cells to measure: splits of every source over every number of outputs with every codec and program, then joining
//! and checking.

use std::sync::Arc;

use super::{DiskProfile, SplitCell, SplitProgram, SplitSource, SplitTool, SplitWork};

/// The values to combine.
#[derive(Debug, Clone)]
pub struct SplitMatrix {
    /// Data sets to split.
    pub sources: Vec<Arc<SplitSource>>,
    /// Programs that split; only packfs joins and checks.
    pub tools: Vec<SplitTool>,
    /// Codecs in the user's spelling.
    pub codecs: Vec<String>,
    /// Profiles of disks.
    pub profiles: Vec<DiskProfile>,
    /// Numbers of outputs, unless the profile determines it.
    pub outputs: Vec<usize>,
}

impl SplitMatrix {
    /// Returns all supported cells.
    pub fn cells(&self) -> Vec<SplitCell> {
        let mut cells = Vec::new();
        for source in &self.sources {
            for profile in &self.profiles {
                let outputs = profile.outputs().map_or_else(|| self.outputs.clone(), |outputs| vec![outputs]);
                for outputs in outputs {
                    cells.extend(self.split_cells(source, profile, outputs));
                }
            }
            cells.extend(self.restore_cells(source));
        }
        cells
    }

    fn split_cells(&self, source: &Arc<SplitSource>, profile: &DiskProfile, outputs: usize) -> Vec<SplitCell> {
        let pairs = self.tools.iter().flat_map(|tool| self.codecs.iter().map(move |codec| (tool, codec)));
        let supported = pairs.filter(|(tool, codec)| tool.supports(codec, source, profile, outputs));
        supported.map(|(tool, codec)| cell(source, tool, codec, profile, outputs, SplitWork::Split)).collect()
    }

    /// Returns the cells of joining and checking: from files, because pipes cannot be read twice, with the largest
    /// number of parts.
    fn restore_cells(&self, source: &Arc<SplitSource>) -> Vec<SplitCell> {
        let fixed = self.profiles.iter().filter_map(DiskProfile::outputs);
        let any = self.outputs.iter().copied().filter(|_| self.profiles.iter().any(|one| one.outputs().is_none()));
        let Some(outputs) = fixed.chain(any).max() else { return Vec::new() };
        let Some(packfs) = self.tools.iter().find(|tool| tool.program == SplitProgram::Packfs) else {
            return Vec::new();
        };
        let works = |codec: &String| {
            [SplitWork::Join, SplitWork::Check]
                .map(|work| cell(source, packfs, codec, &DiskProfile::Directories, outputs, work))
        };
        self.codecs.iter().flat_map(works).collect()
    }
}

fn cell(
    source: &Arc<SplitSource>,
    tool: &SplitTool,
    codec: &str,
    profile: &DiskProfile,
    outputs: usize,
    work: SplitWork,
) -> SplitCell {
    let source = Arc::clone(source);
    let tool = tool.clone();
    let codec = codec.to_owned();
    let profile = profile.clone();
    SplitCell { source, tool, codec, profile, outputs, work }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::MeasuredCell;

    #[test]
    fn every_combination_that_can_be_is_a_cell() {
        let tool = |program| SplitTool { program, path: "tool".into() };
        let source = SplitSource { name: "d".into(), path: "d".into(), bytes: 1, digest: "00".into(), is_core: false };
        let matrix = SplitMatrix {
            sources: vec![Arc::new(source)],
            tools: vec![tool(SplitProgram::Packfs), tool(SplitProgram::Nsplit)],
            codecs: vec!["raw".into(), "lz4".into()],
            profiles: vec!["50".parse().unwrap(), "50,200".parse().unwrap()],
            outputs: vec![1, 4],
        };
        let shown: Vec<String> = matrix.cells().iter().map(|cell| cell.key().to_string()).collect();
        assert_eq!(
            shown,
            [
                "packfs split of d, raw, 1 output of 50 MB/s",
                "packfs split of d, lz4, 1 output of 50 MB/s",
                "nsplit split of d, raw, 1 output of 50 MB/s",
                "packfs split of d, raw, 4 outputs of 50 MB/s",
                "packfs split of d, lz4, 4 outputs of 50 MB/s",
                "nsplit split of d, raw, 4 outputs of 50 MB/s",
                "packfs split of d, raw, 2 outputs of 50,200 MB/s",
                "packfs split of d, lz4, 2 outputs of 50,200 MB/s",
                "nsplit split of d, raw, 2 outputs of 50,200 MB/s",
                "packfs join of d, raw, 4 outputs",
                "packfs check of d, raw, 4 outputs",
                "packfs join of d, lz4, 4 outputs",
                "packfs check of d, lz4, 4 outputs",
            ]
        );
        // If all profiles list their disks, the largest one is joined.
        let uneven = SplitMatrix { profiles: vec!["50,200".parse().unwrap()], outputs: vec![8], ..matrix };
        assert!(uneven.cells().iter().all(|cell| cell.outputs == 2));
    }
}
