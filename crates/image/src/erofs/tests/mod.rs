//! Tests that need writer and reader, or the kernel and other programs.

mod metadata;

use std::path::{Path, PathBuf};

use packfs_blocks::Progress;

use super::{Features, Options, Summary, build};
use crate::testing::Spec;
use crate::{Plan, Result, Tree};

fn options(codec: &str, block_size: u32) -> Options {
    Options {
        codec: codec.parse().expect("a codec"),
        block_size,
        cluster_size: block_size.max(4096),
        features: Features::empty(),
        target_kernel: "6.18".parse().expect("a kernel"),
        threads: 2,
        ..Options::default()
    }
}

fn write(tree: Tree, image: &Path, options: &Options) -> Result<Summary> {
    build(image, options, &Progress::default(), |_| Ok(Plan { tree, order: Vec::new() }))
}

/// A directory with an image in it.
struct Built {
    _dir: tempfile::TempDir,
    image: PathBuf,
    summary: Summary,
}

fn built(spec: &Spec, options: &Options) -> Built {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let summary = write(spec.tree().unwrap(), &image, options).unwrap();
    Built { _dir: dir, image, summary }
}
