//! The textual dump, pinned down for small images.

use super::access::image_of;
use super::*;
use crate::squashfs::{Fragments, SquashfsOptions};
use crate::testing::{one_of_each, owned};

fn dump(spec: &Spec, fragments: Fragments) -> String {
    let codec = "none".parse().unwrap();
    let options = SquashfsOptions { fragments, block_size: 4096, ..SquashfsOptions::default() }.with(|build| {
        build.codec = codec;
        build.time = Some(1_700_000_000);
    });
    open(&image_of(spec, &options)).unwrap().dump().unwrap()
}

#[test]
fn an_empty_image() {
    insta::assert_snapshot!(dump(&Spec { root: owned(Node::dir([])), links: vec![] }, Fragments::Tails));
}

#[test]
fn one_of_everything() {
    insta::assert_snapshot!(dump(&one_of_each(4096, 20), Fragments::Tails));
}

#[test]
fn a_directory_with_an_index() {
    let names = (0..300).map(|n| (format!("{n:050}").into_bytes(), plain(What::Fifo)));
    let spec = Spec { root: owned(Node::dir([(b"wide".to_vec(), Node::dir(names))])), links: vec![] };
    let dump = dump(&spec, Fragments::None);
    let structure = |line: &&str| ["listing at", "from ", "header at"].iter().any(|what| line.contains(what));
    insta::assert_snapshot!(dump.lines().filter(structure).collect::<Vec<_>>().join("\n"));
}
