//! Data that a later member of a stream replaces does not stay in the image.

use crate::name::display;
use std::fs::File;

use super::matrix::{self, say};
use super::*;
use crate::source::tar;
use crate::testing::probe::{holds, noise, probe};
use crate::testing::{self, Mount, Node, can_mount, differences, findings, sh, snapshot, snapshot_image};

#[test]
fn replaced_members_leave_nothing() {
    let can_mount = can_mount("replaced_members_leave_nothing");
    let name = |name: &str| name.as_bytes().to_vec();
    let old = testing::Source::new(&Spec::of([
        (name("a-live"), noise(1, 3000)),
        (name("b-small"), noise(2, 3000)),
        (name("c-live"), Node::file(matrix::mixed(3, 70_000))),
        (name("d-large"), noise(4, (2 << 20) + 5000)),
        (name("e-live"), noise(5, 9000)),
    ]));
    let new = testing::Source::new(&Spec::of([(name("b-small"), noise(6, 4000)), (name("d-large"), noise(7, 10))]));
    let archive = old.tree().with_extension("tar");
    let (first, second, to) = (old.tree(), new.tree(), display(&archive).to_string());
    sh(&format!(
        "tar --sort=name -C {} -cf {to} . && tar --sort=name -C {} -rf {to} .",
        display(&first),
        display(&second)
    ));
    sh(&format!("cp -a {}/. {}", display(&second), display(&first)));
    let want = testing::whole_seconds(snapshot(&first).unwrap());
    let cases = [
        ("none", Features::empty()),
        ("none", Features::CHUNKS),
        ("lz4", Features::empty()),
        ("lz4", Features::FRAGMENTS),
        ("lz4", Features::FRAGMENTS | Features::DEDUPE),
        ("lz4", Features::ALL_FRAGMENTS),
        ("lz4", Features::ZTAILPACKING),
        ("lz4", Features::BITS_48 | Features::FRAGMENTS),
        ("deflate:1", Features::BITS_48 | Features::UNALIGNED | Features::FRAGMENTS),
    ];
    for (codec, features) in cases {
        let options = Options { features, cluster_size: 16 << 10, ..options(codec, 4096) };
        let what = say(&options);
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        build(&image, &options, &Progress::default(), |store| {
            let mut tree = Tree::default();
            let input = Box::new(File::open(&archive).unwrap());
            tar::from_stream(input, &archive, tar::Options::default())?.scan(&mut tree, store)?;
            Ok(Plan { tree, order: Vec::new() })
        })
        .unwrap();
        let bytes = std::fs::read(&image).unwrap();
        for (seed, at) in [(2, 0), (2, 1500), (4, 0), (4, 1 << 20), (4, (2 << 20) + 4900)] {
            assert!(!holds(&bytes, probe(seed, at)), "{what}: byte {at} of what was replaced ({seed}) is there");
        }
        if !codec.starts_with("deflate") {
            assert!(holds(&bytes, probe(1, 1500)) && holds(&bytes, probe(6, 1500)), "{what}: what is left is there");
        }
        let open = open(&image).unwrap();
        assert_eq!(differences(&want, &snapshot_image(&*open).unwrap()), Vec::<String>::new(), "{what}");
        assert_eq!(findings(&*open, 2), Vec::<String>::new(), "{what}");
        if can_mount {
            let mount = Mount::new(&image, "erofs").unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(differences(&want, &snapshot(&mount.path()).unwrap()), Vec::<String>::new(), "{what}");
        }
    }
}
