//! Tests of the reader: images of other writers compared with their source, damaged images, random access.
#![allow(clippy::cast_possible_truncation, reason = "numbers of tests are small")]

mod access;
mod dump;
mod hostile;
mod lengths;
mod mutations;
mod streams;
mod unpacked;
mod verdicts;
mod writers;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_blocks::io::FileAt;

use super::{ReadOptions, SquashfsReader};
use crate::image::Nid;
use crate::testing::{Attrs, Node, Piece, Spec, What, findings, have, noise, text};
use crate::tree::components;
use crate::{Image, Result};

/// Opens an image in memory.
fn open(image: &[u8]) -> Result<SquashfsReader> {
    SquashfsReader::open(Arc::new(image.to_vec()), ReadOptions::default())
}

fn open_file(image: &Path) -> Result<SquashfsReader> {
    SquashfsReader::open(Arc::new(FileAt::open(image, 0).unwrap()), ReadOptions::default())
}

fn find(reader: &SquashfsReader, path: &str) -> Nid {
    components(path.as_bytes()).fold(reader.root(), |dir, name| reader.lookup(dir, name).unwrap().unwrap())
}

fn plain(what: What) -> Node {
    Node { attrs: Attrs::plain(0o640), what }
}
