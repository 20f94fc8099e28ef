//! Tests that need both writer and reader, or the kernel and other programs.

mod determinism;
mod digests;
mod layout;
mod limits;
pub(super) mod matrix;
mod metadata;
mod mount;
mod page_ends;
mod peers;
mod proved;
mod random;
mod refer;
mod replaced;
mod round_trip;
mod shared_clusters;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_blocks::io::FileAt;

use super::{ErofsOptions, ErofsReader, Features, ReadOptions, build};
use crate::build::BuildSummary;
use crate::testing::Spec;
use crate::tree::FileRecipe;
use crate::{Error, Image, Plan, Result, Tree};

fn options(codec: &str, block_size: u32) -> ErofsOptions {
    ErofsOptions {
        block_size,
        cluster_size: block_size.max(4096),
        features: Features::empty(),
        target_kernel: "6.18".parse().expect("a kernel"),
        ..ErofsOptions::default()
    }
    .with(|build| {
        build.codec = codec.parse().expect("a codec");
        build.threads = 2;
    })
}

/// Gives codecs and cluster sizes to single files, if the options list any.
fn mix(tree: &mut Tree, options: &ErofsOptions) {
    let recipes = &options.build.recipes;
    let pick = |ino: u32, count: usize| u8::try_from(ino as usize % (count + 1)).expect("a few");
    for ino in tree.inos() {
        let codec = pick(ino.0, recipes.codecs().len());
        let recipe = FileRecipe { codec, cluster: pick(ino.0 / 3, recipes.clusters().len()) };
        tree.set_storing(ino, tree.inode(ino).handling, recipe);
    }
}

/// Options that list codecs and cluster sizes for single files.
fn mixing(mut options: ErofsOptions, codecs: &[&str], clusters: &[u32]) -> ErofsOptions {
    let recipes = &mut options.build.recipes;
    for codec in codecs {
        recipes.codec(codec.parse().expect("a codec")).expect("few codecs");
    }
    for size in clusters {
        recipes.cluster(*size).expect("few sizes");
    }
    options
}

fn write(mut tree: Tree, image: &Path, options: &ErofsOptions) -> Result<BuildSummary> {
    mix(&mut tree, options);
    build(image, options, &Progress::default(), |_| Ok(Plan { tree, order: Vec::new() }))
}

fn open(image: &Path) -> Result<Arc<dyn Image>> {
    Ok(Arc::new(open_reader(image)?))
}

fn open_reader(image: &Path) -> Result<ErofsReader> {
    let file = FileAt::open(image, 0).map_err(Error::io("cannot open", image))?;
    ErofsReader::open(Arc::new(file), ReadOptions::default())
}

/// A directory with an image in it.
struct Built {
    _dir: tempfile::TempDir,
    image: PathBuf,
    summary: BuildSummary,
}

fn built(spec: &Spec, options: &ErofsOptions) -> Built {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let summary = write(spec.tree().unwrap(), &image, options).unwrap_or_else(|e| panic!("{options:?}: {e}"));
    Built { _dir: dir, image, summary }
}
