//! Data far beyond the beginning of an image, which is a hole until there.

use std::path::Path;

use packfs_blocks::{Output, Progress, pipeline};

use super::*;
use crate::Tree;
use crate::build::TreeCensus;

/// Builds an image of `tree` as the last shard of many, whose data begins `at` bytes after the image.
pub(crate) fn build_at<F: ImageFormat>(format: &F, tree: Tree, at: u64, image: &Path) -> Result<()> {
    let options = format.options();
    let (output, progress) = (Output::create(image, 0o600, false).unwrap(), Progress::default());
    let out = &output;
    pipeline::scope(
        options.threads,
        || format.worker(),
        |pool| {
            let tools = BuildTools { pool, output: out, blob: None, progress: &progress };
            let mut tree = tree;
            format.check(&mut tree)?;
            let how = crate::build::order_of(format);
            let small_max = format.small_max().unwrap_or(u64::MAX);
            let orderer = FileOrderer { order: how, small_max, shards: None, pool, progress: &progress };
            let (mut files, _) = orderer.arrange(&tree, &[])?;
            only_readable(&mut tree, &mut files)?;
            let place = WriterStart { base: options.offset + at, pos: 0, is_cut: true };
            let (mut data, _) = BuildConductor::new(format, tools, place)?.put_files(&mut tree, &files, 0)?;
            data.shift(at);
            format.finish(tools, &tree, &TreeCensus::of(&tree), data)
        },
    )?;
    output.commit().unwrap();
    Ok(())
}
