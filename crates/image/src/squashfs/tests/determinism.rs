//! The same input gives the same bytes, whatever the number of threads.

use super::*;
use crate::testing::{Node, Piece};

#[test]
fn any_number_of_threads_writes_the_same_image() {
    let files = (0..400u64).map(|n| {
        let pieces = match n % 5 {
            0 => vec![Piece::Text { seed: n, len: n * 37 }],
            1 => vec![Piece::Noise { seed: n / 3, len: n * 61 }],
            2 => vec![Piece::Text { seed: n % 7, len: 70_000 }, Piece::Hole(100_000), Piece::Noise { seed: n, len: 9 }],
            3 => vec![Piece::Text { seed: n % 20, len: 500 }],
            _ => vec![Piece::Noise { seed: n % 9, len: 300_000 }],
        };
        (format!("{n:05}").into_bytes(), Node::file(pieces))
    });
    let spec = Spec::of(files);
    for codec in ["zstd:3", "lz4", "xz:0", "none"] {
        let image = |threads| {
            // Little memory, so that the windows fill.
            let options = options(codec, 4096).with(|build| {
                build.threads = threads;
                build.memory = 1;
            });
            std::fs::read(&built(&spec, &options).image).unwrap()
        };
        let one = image(0);
        for threads in [1, 2, 7] {
            assert!(one == image(threads), "{codec}: {threads} threads differ from the serial reference");
        }
    }
}
