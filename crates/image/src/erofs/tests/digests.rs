//! Digests of files: every file with data has that of its data, whatever its layout and the number of threads.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::*;
use crate::build::{FileDigest, Shards};
use crate::erofs::INODE_DIGEST;
use crate::image::FileType;
use crate::sink::Walk;
use crate::source::{ExcludeRules, FromImage, Source};
use crate::testing::{Node, Piece, findings};

/// A name that readers show as an attribute.
const NAME: &str = "trusted.digest";

fn spec() -> Spec {
    let name = |name: &str| name.as_bytes().to_vec();
    let noise = |seed, len| Piece::Noise { seed, len };
    let text = |seed, len| Piece::Text { seed, len };
    let small = (0..150u64).map(|n| (format!("small{n:03}").into_bytes(), Node::file(vec![text(n % 70, 40 * n + 1)])));
    let mut spec = Spec::of(small.chain([
        (name("empty"), Node::file(vec![])),
        (name("hole"), Node::file(vec![Piece::Hole(9_000_000)])),
        (name("large"), Node::file(vec![noise(1, 3_000_001), text(1, 2_000_000)])),
        (name("same"), Node::file(vec![noise(1, 3_000_001), text(1, 2_000_000)])),
        (name("sparse"), Node::file(vec![Piece::Hole(1 << 20), noise(4, 5000), Piece::Hole(4 << 20), noise(5, 9)])),
        (name("tail"), Node::file(vec![noise(6, 4097)])),
    ]));
    spec.links = vec![(name("large"), name("link"))];
    spec
}

fn with_digests(options: ErofsOptions, name: &str) -> ErofsOptions {
    ErofsOptions { inode_digest: Some(name.as_bytes().into()), ..options }
}

/// Returns the digests that attributes of an image say, and those of the data, by path.
fn digests(image: &Path) -> [BTreeMap<Vec<u8>, FileDigest>; 2] {
    let reader = open_reader(image).unwrap();
    let (mut said, mut known) = (BTreeMap::new(), BTreeMap::new());
    let mut walk = Walk::new(&reader, &[]).unwrap();
    while let Some(visit) = walk.step().unwrap() {
        for (name, value) in reader.xattrs(visit.nid).unwrap() {
            if &*name == NAME.as_bytes() {
                let sum = value.strip_prefix(b"sha256:").unwrap();
                said.insert(visit.path.to_vec(), sum.try_into().unwrap());
            }
        }
        if let FileType::File { size: size @ 1.. } = visit.stat.kind {
            let mut data = vec![0; usize::try_from(size).unwrap()];
            reader.read_at(visit.nid, &mut data, 0).unwrap();
            known.insert(visit.path.to_vec(), Sha256::digest(data).into());
        }
    }
    [said, known]
}

#[test]
fn every_file_with_data_has_its_digest() {
    let spec = spec();
    let inline = Features::ZTAILPACKING | Features::EXTENDED_INODES;
    let metabox = Features::BITS_48 | Features::METABOX | Features::FRAGMENTS;
    let cases = [
        options("none", 4096),
        ErofsOptions { features: Features::CHUNKS, ..options("none", 512) },
        ErofsOptions { features: Features::FRAGMENTS | Features::DEDUPE, ..options("lz4", 4096) },
        ErofsOptions { features: Features::ALL_FRAGMENTS | Features::COMPRESSED_DIRS, ..options("zstd:1", 4096) },
        ErofsOptions { features: inline, ..options("lz4", 4096) },
        ErofsOptions { features: metabox, ..options("zstd:1", 4096) },
        ErofsOptions { xattr_prefixes: vec![b"user.a."[..].into()], ..options("lz4", 4096) },
        options("lz4", 4096).with(|build| build.shards = Some(Shards::Count(3.try_into().unwrap()))),
        options("none", 4096).with(|build| build.threads = 0),
    ];
    for options in cases {
        let options = with_digests(options, NAME);
        let built = built(&spec, &options);
        let [said, known] = digests(&built.image);
        assert_eq!((said.len(), &said), (156, &known), "{options:?}");
        assert_eq!(findings(&open_reader(&built.image).unwrap(), 2), Vec::<String>::new(), "{options:?}");
        let more = options.clone().with(|build| build.threads = 5);
        assert!(std::fs::read(self::built(&spec, &more).image).unwrap() == std::fs::read(&built.image).unwrap());
    }
}

#[test]
fn a_check_compares_files_with_their_digests() {
    let spec = Spec::of([(b"a".to_vec(), Node::file(vec![Piece::Noise { seed: 1, len: 5000 }]))]);
    let unsummed = ErofsOptions { features: Features::NO_CHECKSUM, ..options("none", 4096) };
    let built = built(&spec, &with_digests(unsummed, INODE_DIGEST));
    let reader = open_reader(&built.image).unwrap();
    assert_eq!(reader.superblock().digest_prefix, Some(0));
    // Without a class, the name is no attribute.
    let nid = reader.lookup(reader.root(), b"a").unwrap().unwrap();
    assert_eq!(reader.xattrs(nid).unwrap(), []);
    let seen = std::fs::read(&built.image).unwrap();
    let at = seen.windows(7).position(|bytes| bytes == b"sha256:").unwrap();
    let prefix_id = 1024 + 105;
    for (byte, finding) in [
        (at + 20, "its data does not have the digest that its attribute says"),
        (at, "its digest of 39 bytes is of an unknown kind"),
        (prefix_id, "digests of files have the long xattr prefix 1, but there are only 1"),
    ] {
        let mut damaged = seen.clone();
        damaged[byte] ^= 1;
        std::fs::write(&built.image, damaged).unwrap();
        let found = findings(&open_reader(&built.image).unwrap(), 2);
        assert!(found.iter().any(|found| found.contains(finding)), "{finding}: {found:?}");
    }
}

#[test]
fn sizes_that_an_image_pretends_to_have_are_not_added_up() {
    let file = |seed| Node::file(vec![Piece::Noise { seed, len: 5000 }]);
    let spec = Spec::of((0..3u64).map(|n| (format!("{n}").into_bytes(), file(n))));
    let features = Features::NO_CHECKSUM | Features::EXTENDED_INODES;
    let built = built(&spec, &with_digests(ErofsOptions { features, ..options("none", 4096) }, INODE_DIGEST));
    let bytes = std::fs::read(&built.image).unwrap();
    let places = (0..bytes.len() - 8).filter(|at| bytes[*at..].starts_with(&5000u64.to_le_bytes()));
    let places: Vec<_> = places.collect();
    // The second size fits once into what is compared of a small image.
    for (size, left_out) in [(i64::MAX, 3), (10 << 30, 2), (17 << 30, 3), (5 << 30, 0)] {
        let mut bytes = bytes.clone();
        places.iter().for_each(|at| bytes[*at..at + 8].copy_from_slice(&size.to_le_bytes()));
        std::fs::write(&built.image, bytes).unwrap();
        let found = findings(&open_reader(&built.image).unwrap(), 2);
        let count = found.iter().filter(|found| found.contains("are not compared with their digest")).count();
        assert_eq!(count, left_out, "{size}: {found:?}");
    }
}

#[test]
fn a_digest_replaces_that_of_the_source() {
    let source = built(&spec(), &with_digests(options("none", 4096), NAME));
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy");
    build(&copy, &with_digests(options("lz4", 4096), NAME), &Progress::default(), |store| {
        let mut tree = Tree::default();
        FromImage::new(open(&source.image)?, "source", ExcludeRules::default(), true).scan(&mut tree, store)?;
        Ok(Plan { tree, order: Vec::new() })
    })
    .unwrap();
    assert_eq!(digests(&copy), digests(&source.image));
}

#[test]
fn names_and_kernels_are_checked() {
    let refused = |options: ErofsOptions| {
        let dir = tempfile::tempdir().unwrap();
        write(spec().tree().unwrap(), &dir.path().join("image"), &options).unwrap_err().to_string()
    };
    for name in ["", "user.", "a\0b", &"x".repeat(256)] {
        assert!(refused(with_digests(options("none", 4096), name)).contains("from 1 to 255 bytes"), "{name:?}");
    }
    let list = refused(with_digests(options("none", 4096), "system.posix_acl_access"));
    assert!(list.contains("would replace access control lists"), "{list}");
    let old = |kernel: &str, features| {
        let target_kernel = kernel.parse().unwrap();
        refused(with_digests(ErofsOptions { target_kernel, features, ..options("lz4", 4096) }, NAME))
    };
    assert!(old("6.3", Features::empty()).contains("inode digests (since Linux 6.4)"));
    assert!(old("6.16", Features::FRAGMENTS).contains("inode digests beside a packed inode (since Linux 6.17)"));
}
