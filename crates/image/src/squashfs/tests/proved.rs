//! A build reads its inode and fragment tables back: whatever byte of them is damaged, all data is in the image, or there
//! is no image.

use packfs_blocks::Output;
use packfs_blocks::io::Memory;

use super::*;
use crate::squashfs::build_to;
use crate::testing::{Flipped, Node, Piece, findings};

/// Builds an image in memory, one byte of which is damaged.
fn build_damaged(spec: &Spec, options: &SquashfsOptions, at: u64) -> Result<Vec<u8>> {
    let memory = Arc::new(Memory::default());
    let output = Output::over(Flipped { memory: Arc::clone(&memory), at }, "image");
    let tree = spec.tree()?;
    build_to(output, options, &Progress::default(), |_| Ok(Plan { tree, order: Vec::new() }))?;
    let bytes = memory.lock().unwrap().get_ref().clone();
    Ok(bytes)
}

#[test]
fn damaged_metadata_is_found_before_the_image_is() {
    let spec = Spec::of([
        (
            b"large".to_vec(),
            Node::file(vec![Piece::Text { seed: 1, len: 50_000 }, Piece::Noise { seed: 2, len: 9000 }]),
        ),
        (b"plain".to_vec(), Node::file(vec![Piece::Noise { seed: 3, len: 9000 }])),
        (b"small".to_vec(), Node::file(vec![Piece::Text { seed: 4, len: 500 }])),
    ]);
    for codec in ["gzip:1", "zstd:1"] {
        let options = SquashfsOptions { plain_metadata: true, ..options(codec, 4096) };
        let options = options.with(|build| build.threads = 0);
        let sound = build_damaged(&spec, &options, u64::MAX).unwrap();
        let reader = SquashfsReader::open(Arc::new(sound.clone()), ReadOptions::default()).unwrap();
        assert_eq!(findings(&reader, 1), Vec::<String>::new(), "{codec}");
        let start = reader.superblock().inode_table;
        // Without the zeros that fill the last block of a device.
        let end = reader.superblock().bytes_used;
        let mut refused = 0;
        let mut named = 0;
        for at in start..end {
            let image = match build_damaged(&spec, &options, at) {
                Ok(image) => image,
                Err(error) => {
                    refused += 1;
                    named += usize::from(error.to_string().contains("large"));
                    continue;
                }
            };
            // Directories and attributes have been verified by nobody.
            let Ok(reader) = SquashfsReader::open(Arc::new(image), ReadOptions::default()) else {
                panic!("{codec}: damage at {at} is not found")
            };
            let unreadable = findings(&reader, 1).into_iter().filter(|finding| {
                let is_proved = ["inode table", "fragment table"].iter().any(|table| finding.starts_with(table));
                is_proved && finding.contains("past the end")
            });
            assert_eq!(unreadable.collect::<Vec<_>>(), Vec::<String>::new(), "{codec}: damage at {at}");
        }
        assert!(refused > 50 && named > 0, "{codec}: {refused} builds were refused, {named} for a file");
        let trusting = options.with(|build| build.verify = false);
        assert!((start..end).all(|at| build_damaged(&spec, &trusting, at).is_ok()), "{codec}");
    }
}
