//! A build reads its metadata back: whatever byte of it is damaged, files can be read, or there is no image.

use packfs_blocks::Output;
use packfs_blocks::io::Memory;

use super::*;
use crate::erofs::build_to;
use crate::placement::OccupiedSpace;
use crate::testing::{Flipped, Node, Piece, findings};

/// Builds an image in memory, one byte of which is damaged.
fn build_damaged(spec: &Spec, options: &ErofsOptions, at: u64) -> Result<Vec<u8>> {
    let memory = Arc::new(Memory::default());
    let output = Output::over(Flipped { memory: Arc::clone(&memory), at }, "image");
    let tree = spec.tree()?;
    build_to(output, options, &Progress::default(), |_| Ok(Plan { tree, order: Vec::new() }))?;
    let bytes = memory.lock().unwrap().get_ref().clone();
    Ok(bytes)
}

fn opened(bytes: Vec<u8>) -> Result<Arc<dyn Image>> {
    Ok(Arc::new(ErofsReader::open(Arc::new(bytes), ReadOptions::default())?))
}

fn spec() -> Spec {
    Spec::of([
        (
            b"large".to_vec(),
            Node::file(vec![Piece::Text { seed: 1, len: 50_000 }, Piece::Noise { seed: 2, len: 9000 }]),
        ),
        (b"plain".to_vec(), Node::file(vec![Piece::Noise { seed: 3, len: 9000 }])),
        (b"small".to_vec(), Node::file(vec![Piece::Text { seed: 4, len: 5000 }])),
    ])
}

/// Returns the offsets of every second byte of the files' inodes and maps.
fn map_offsets(bytes: Vec<u8>) -> Vec<u64> {
    let reader = ErofsReader::open(Arc::new(bytes), ReadOptions::default()).unwrap();
    let mut offsets = Vec::new();
    for name in ["large", "plain", "small"] {
        let nid = reader.lookup(reader.root(), name.as_bytes()).unwrap().unwrap();
        OccupiedSpace::inode(&reader, nid, &mut |_, range| offsets.extend(range.stored.step_by(2))).unwrap();
    }
    offsets
}

#[test]
fn damaged_metadata_is_found_before_the_image_is() {
    let cases = [
        ("lz4", Features::FULL_INDEX),
        ("lz4", Features::FRAGMENTS),
        ("zstd:1", Features::ZTAILPACKING),
        ("lz4", Features::BITS_48 | Features::FRAGMENTS),
        ("none", Features::CHUNKS),
    ];
    let spec = spec();
    for (codec, features) in cases {
        let options = ErofsOptions { features, ..options(codec, 4096) }.with(|build| build.threads = 0);
        let what = matrix::say(&options);
        let sound = build_damaged(&spec, &options, u64::MAX).unwrap();
        assert_eq!(findings(&*opened(sound.clone()).unwrap(), 1), Vec::<String>::new(), "{what}");
        let offsets = map_offsets(sound);
        let mut refused = 0;
        let mut named = 0;
        for at in offsets.iter().copied() {
            let image = match build_damaged(&spec, &options, at) {
                Ok(image) => image,
                Err(error) => {
                    refused += 1;
                    named += usize::from(error.to_string().contains("large"));
                    continue;
                }
            };
            let Ok(image) = opened(image) else { panic!("{what}: damage at {at} is not found") };
            // Data that decodes to something else is found only by reading it.
            let unreadable = findings(&*image, 1).into_iter().filter(|finding| {
                let structures = ["cluster index", "extent record", "map header", "chunk index"];
                structures.iter().any(|structure| finding.contains(structure))
            });
            assert_eq!(unreadable.collect::<Vec<_>>(), Vec::<String>::new(), "{what}: damage at {at}");
        }
        assert!(refused > 10 && named > 0, "{what}: {refused} builds were refused, {named} for a file");
        let trusting = options.with(|build| build.verify = false);
        let built = offsets.iter().filter(|at| build_damaged(&spec, &trusting, **at).is_ok()).count();
        assert_eq!(built, offsets.len(), "{what}: builds succeed without verification");
    }
}
