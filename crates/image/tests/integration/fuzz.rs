//! The body of the fuzz target `squashfs_metadata`, run over its corpus with random changes, and over images of which the
//! target has to make the same tree again.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_blocks::testing::Random;
use packfs_image::squashfs::{Fragments, SquashfsOptions};
use packfs_image::{BuildRequest, Fs};

use crate::squashfs_metadata::{ImageParts, look};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/squashfs_metadata")
}

/// Calls `look` with changes of an input.
fn look_at_changes(seed: &[u8], times: usize) {
    let mut random = Random::new(1);
    for _ in 0..times {
        let mut bytes = seed.to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] = [0, 1, 0x7f, 0xff, bytes[at] ^ 1 << random.below(8)][random.below(5)];
        }
        look(&bytes);
    }
}

#[test]
fn no_change_of_compressed_metadata_makes_a_reader_panic() {
    let mut seeds: Vec<_> = fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    assert!(!seeds.is_empty());
    for seed in seeds {
        let seed = fs::read(seed).unwrap();
        look(&seed);
        look_at_changes(&seed, 100);
    }
}

/// Makes a tree with all that metadata tells, and `files` more files.
fn make_source(place: &Path, files: usize) {
    fs::create_dir_all(place.join("deep/deeper")).unwrap();
    fs::write(place.join("deep/deeper/text"), "a file in a directory of a directory").unwrap();
    fs::write(place.join("blocks"), [7; 9000]).unwrap();
    fs::write(place.join("hole"), vec![0; 8192]).unwrap();
    fs::write(place.join("empty"), "").unwrap();
    fs::hard_link(place.join("blocks"), place.join("deep/linked")).unwrap();
    symlink("deep/deeper/text", place.join("link")).unwrap();
    for number in 0..files {
        fs::write(place.join(format!("file with a long name, number {number}")), number.to_string()).unwrap();
    }
    for (path, value) in [("blocks", "one"), ("deep", "another"), ("empty", "one")] {
        let set =
            rustix::fs::setxattr(place.join(path), "user.name", value.as_bytes(), rustix::fs::XattrFlags::empty());
        set.unwrap();
    }
}

/// With `PACKFS_UPDATE_CORPUS` in the environment, small images become the corpus of the target.
#[test]
fn the_target_makes_images_of_what_their_tables_hold() {
    let dir = tempfile::tempdir().unwrap();
    let update = std::env::var_os("PACKFS_UPDATE_CORPUS").is_some();
    for (tree, files) in [("small", 0), ("large", 400)] {
        let source = dir.path().join(tree);
        make_source(&source, files);
        for codec in ["gzip", "lzo", "xz", "lz4", "zstd"] {
            for (name, fragments, export) in [("all", Fragments::Tails, true), ("least", Fragments::None, false)] {
                let options = SquashfsOptions::default().set(|all| {
                    (all.block_size, all.fragments, all.export, all.plain_metadata) = (4096, fragments, export, true);
                });
                let mut request = BuildRequest::new(options.with(|build| build.codec = codec.parse().unwrap()));
                request.sources = vec![source.clone()];
                let image = dir.path().join(format!("{tree}-{codec}-{name}"));
                request.build(&image, &Arc::new(Progress::default())).unwrap();

                let image_bytes = fs::read(&image).unwrap();
                let mut parts = ImageParts::of_image(&image_bytes).unwrap();
                // References name offsets of blocks, so a block that others follow keeps its length.
                parts.stored = u8::from(files > 0);
                let bytes = parts.bytes();
                assert_eq!(ImageParts::of(&bytes), parts);
                let made = parts.image();
                assert!(made.len() <= image_bytes.len() && made != image_bytes, "{image:?}: not compressed");
                compare(&Fs::from_reader(made).unwrap(), &Fs::open(&image).unwrap());
                look_at_changes(&bytes, 10);
                if update && files == 0 {
                    fs::create_dir_all(corpus()).unwrap();
                    fs::write(corpus().join(format!("{codec}-{name}")), bytes).unwrap();
                }
            }
        }
    }
}

fn compare(made: &Fs, image: &Fs) {
    let mut found = Vec::new();
    image.diff(made, |difference| found.push(format!("{difference:?}"))).unwrap();
    made.check(|finding| found.push(finding.to_string())).unwrap();
    assert_eq!(found, Vec::<String>::new());
}
