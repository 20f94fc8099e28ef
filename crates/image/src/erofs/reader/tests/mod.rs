//! Tests of the reader: images of other writers compared with their source, damaged images, random access.
#![allow(clippy::cast_possible_truncation, reason = "numbers of tests are small")]

mod access;
mod dump;
mod hostile;
mod lzma;
mod mutations;
mod needs;
mod streams;
mod unannounced;
mod unpacked;
mod verdicts;
mod writers;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_blocks::io::FileAt;

use super::{ErofsReader, ReadOptions};
use crate::Plan;
use crate::erofs::{ErofsOptions, Features, build};
use crate::image::Nid;
use crate::testing::{Attrs, Node, Piece, Spec, What, everything, findings, is_root, noise, text};
use crate::tree::components;
use crate::{Image, Result};

/// Opens an image in memory.
fn open(image: &[u8]) -> Result<ErofsReader> {
    ErofsReader::open(Arc::new(image.to_vec()), ReadOptions::default())
}

fn open_file(image: &Path) -> Result<ErofsReader> {
    ErofsReader::open(Arc::new(FileAt::open(image, 0).unwrap()), ReadOptions::default())
}

/// Makes an image with our own writer, in memory.
fn image_of(spec: &Spec, options: &ErofsOptions) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    let plan = Plan { tree: spec.tree().unwrap(), order: Vec::new() };
    build(&image, options, &Progress::default(), |_| Ok(plan)).unwrap();
    std::fs::read(image).unwrap()
}

fn find(reader: &ErofsReader, path: &str) -> Nid {
    components(path.as_bytes()).fold(reader.root(), |dir, name| reader.lookup(dir, name).unwrap().unwrap())
}

fn plain(what: What) -> Node {
    Node { attrs: Attrs::plain(0o640), what }
}
