//! The textual dump, pinned down for small images.

use super::*;
use crate::testing::{one_of_each, owned};

fn dump(spec: &Spec, codec: &str, features: Features) -> String {
    let options = ErofsOptions {
        features,
        block_size: 512,
        cluster_size: 2048,
        label: "name".into(),
        uuid: Some(*b"0123456789abcdef"),
        xattr_prefixes: vec![b"trusted.la"[..].into()],
        target_kernel: "6.18".parse().unwrap(),
        ..ErofsOptions::default()
    }
    .with(|build| build.codec = codec.parse().unwrap());
    open(&image_of(spec, &options)).unwrap().dump().unwrap()
}

#[test]
fn one_of_everything() {
    insta::assert_snapshot!(dump(&one_of_each(512, 5), "none", Features::empty()));
}

#[test]
fn compressed_files_and_chunks() {
    let file = Node::file(vec![text(1, 5000), noise(2, 1500), Piece::Zeros(3000), text(3, 700)]);
    let spec = Spec { root: owned(Node::dir([(b"file".to_vec(), file)])), links: vec![] };
    for (name, codec, features) in [
        ("compact", "lz4", Features::empty()),
        ("whole", "lzma", Features::ALL_FRAGMENTS),
        ("chunks", "none", Features::CHUNKS),
    ] {
        insta::assert_snapshot!(name, dump(&spec, codec, features));
    }
}
