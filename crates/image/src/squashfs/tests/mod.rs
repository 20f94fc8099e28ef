//! Tests that need both writer and reader, or the kernel and other programs.

mod determinism;
mod limits;
mod mount;
mod peers;
mod proved;
mod random;
mod round_trip;
mod stream;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_blocks::io::FileAt;

use super::{Fragments, ReadOptions, SquashfsOptions, SquashfsReader, build};
use crate::build::BuildSummary;
use crate::testing::{Snapshot, Spec, snapshot_image, whole_seconds};
use crate::tree::Tree;
use crate::{Error, Image, Plan, Result};

/// Every codec, with settings that cover every path through it.
const CODECS: [&str; 16] = [
    "none",
    "gzip:1",
    "gzip:6",
    "gzip:9:window=10,strategies=default+rle",
    "gzip:12",
    "xz:1",
    "xz:6:bcj=x86+arm64",
    "xz:6:bcj=auto",
    "lzo",
    "lzo:algorithm=lzo1x_1",
    "lz4",
    "lz4hc",
    "zstd:-5",
    "zstd:3",
    "zstd:15",
    "zstd:22",
];

fn options(codec: &str, block_size: u32) -> SquashfsOptions {
    SquashfsOptions { block_size, ..SquashfsOptions::default() }.with(|build| {
        build.codec = codec.parse().expect("a codec");
        build.threads = 2;
    })
}

fn write(tree: Tree, image: &Path, options: &SquashfsOptions) -> Result<BuildSummary> {
    build(image, options, &Progress::default(), |_| Ok(Plan { tree, order: Vec::new() }))
}

fn open(image: &Path) -> Result<Arc<dyn Image>> {
    let file = FileAt::open(image, 0).map_err(Error::io("cannot open", image))?;
    Ok(Arc::new(SquashfsReader::open(Arc::new(file), ReadOptions::default())?))
}

/// Builds `spec` and reads it back.
fn there_and_back(spec: &Spec, options: &SquashfsOptions) -> (Snapshot, BuildSummary) {
    let (dir, tree) = (tempfile::tempdir().unwrap(), spec.tree().unwrap());
    let image = dir.path().join("image");
    let summary = write(tree, &image, options).unwrap();
    (snapshot_image(&*open(&image).unwrap()).unwrap(), summary)
}

/// Returns the part of a snapshot that SquashFS can store.
fn held(snapshot: Snapshot) -> Snapshot {
    whole_seconds(snapshot)
}

/// A directory with an image in it.
struct Built {
    _dir: tempfile::TempDir,
    image: PathBuf,
}

fn built(spec: &Spec, options: &SquashfsOptions) -> Built {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    write(spec.tree().unwrap(), &image, options).unwrap();
    Built { _dir: dir, image }
}
