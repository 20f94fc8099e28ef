//! Random files that share long stretches: what dedup finds, in parts, across the borders of blocks and clusters, and
//! several times in one file.

use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{ByteStream, Node, Piece};

/// Length of the shortest and of the longest file.
const FILE_MIN: u64 = 64 << 10;
const FILE_MAX: u64 = 8 << 20;

/// Lengths of shared stretches as powers of two: 4 KiB to 4 MiB.
const STRETCH_LOG: Range<u32> = 12..22;
/// The longer ones of them, of which most are: only they exceed clusters, pieces and folios of the page cache.
const LONG_LOG: Range<u32> = 18..22;
/// Lengths of unshared data: 1 byte to 128 KiB. More would only take time.
const OWN_LOG: Range<u32> = 0..17;

/// Bytes that several files have, cut out of a stream at any position.
#[derive(Debug, Clone)]
struct StreamStretch {
    of: ByteStream,
    from: u64,
    len: u64,
}

/// Part of a file.
#[derive(Debug, Clone)]
enum FilePart {
    /// A cut of the stretch with this number, from and to these thousandths of its length.
    Shared { number: usize, from: u64, to: u64 },
    /// The beginning of the stretch, up to these thousandths of its length, and then all of it.
    Twice { number: usize, to: u64 },
    /// Bytes of its own.
    Own(StreamStretch),
    /// Zeros, stored or not.
    Empty { len: u64, stored: bool },
}

/// Makes 2 to `count` files of 64 KiB to 8 MiB, fewer if they would exceed `total` bytes together. The stretches they
/// share have 4 KiB to 4 MiB.
pub fn sharing_files(count: usize, total: u64) -> BoxedStrategy<Vec<Node>> {
    let stretches = vec(prop_oneof![1 => stretch(STRETCH_LOG), 2 => stretch(LONG_LOG)], 1..=2);
    // Half of the files consist of one stretch, or of a part of one.
    let parts = prop_oneof![vec(part(), 1), vec(part(), 2..=5)];
    (stretches, vec(parts, 2..=count))
        .prop_map(move |(stretches, files)| {
            let mut left = total;
            let files = files.iter().map(|parts| {
                let pieces = file(&stretches, parts, left.min(FILE_MAX));
                left -= pieces.iter().map(Piece::len).sum::<u64>();
                Node::file(pieces)
            });
            // A file that begins with less than is left would be a short one.
            files.take_while(|file| !is_empty(file)).collect()
        })
        .boxed()
}

fn is_empty(node: &Node) -> bool {
    matches!(&node.what, super::What::File(pieces) if pieces.is_empty())
}

/// Makes the pieces of a file of at most `limit` bytes; none if the shortest file is longer than that.
fn file(stretches: &[StreamStretch], parts: &[FilePart], limit: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut len = 0;
    // Repeated until the file is long enough, which also repeats stretches within it.
    for (n, part) in parts.iter().cycle().enumerate() {
        if limit < FILE_MIN || len >= limit || (n >= parts.len() && len >= FILE_MIN) {
            break;
        }
        for piece in pieces_of(stretches, part) {
            let piece = shortened(piece, limit - len);
            len += piece.len();
            pieces.push(piece);
        }
    }
    pieces
}

/// Makes the pieces of a part, none of them empty.
fn pieces_of(stretches: &[StreamStretch], part: &FilePart) -> Vec<Piece> {
    let stretch = |number: usize| &stretches[number % stretches.len()];
    match *part {
        FilePart::Shared { number, from, to } => vec![stretch(number).cut(from..to)],
        FilePart::Twice { number, to } => vec![stretch(number).cut(0..to), stretch(number).cut(0..1000)],
        FilePart::Own(ref own) => vec![own.cut(0..1000)],
        FilePart::Empty { len, stored: true } => vec![Piece::Zeros(len)],
        FilePart::Empty { len, stored: false } => vec![Piece::Hole(len)],
    }
}

impl StreamStretch {
    /// Returns the bytes in these thousandths of its length, but at least one.
    fn cut(&self, thousandths: Range<u64>) -> Piece {
        let skipped = self.len * thousandths.start / 1000;
        let len = (self.len * thousandths.end / 1000).saturating_sub(skipped).max(1);
        Piece::Cut { of: self.of, from: self.from + skipped, len }
    }
}

/// Returns a piece, or its first `limit` bytes.
fn shortened(piece: Piece, limit: u64) -> Piece {
    match piece {
        Piece::Cut { of, from, len } => Piece::Cut { of, from, len: len.min(limit) },
        Piece::Zeros(len) => Piece::Zeros(len.min(limit)),
        Piece::Hole(len) => Piece::Hole(len.min(limit)),
        other => other,
    }
}

fn part() -> impl Strategy<Value = FilePart> {
    // Whole stretches, beginnings, ends and middles.
    let range = prop_oneof![
        2 => Just((0, 1000)),
        1 => (1u64..1000).prop_map(|to| (0, to)),
        1 => (1u64..1000).prop_map(|from| (from, 1000)),
        1 => (0u64..1000, 0u64..=1000).prop_map(|(one, other)| (one.min(other), one.max(other))),
    ];
    let shared = (0usize..3, range).prop_map(|(number, (from, to))| FilePart::Shared { number, from, to });
    let twice = (0usize..3, 1u64..1000).prop_map(|(number, to)| FilePart::Twice { number, to });
    let empty = (length(OWN_LOG), any::<bool>()).prop_map(|(len, stored)| FilePart::Empty { len, stored });
    prop_oneof![6 => shared, 1 => twice, 2 => stretch(OWN_LOG).prop_map(FilePart::Own), 1 => empty]
}

fn stretch(log: Range<u32>) -> impl Strategy<Value = StreamStretch> {
    // Data that is not shared comes from distant streams.
    let stream = (any::<u32>(), proptest::bool::weighted(0.4)).prop_map(|(seed, shrinks)| {
        let seed = u64::from(seed);
        if shrinks { ByteStream::Words(seed) } else { ByteStream::Noise(seed) }
    });
    (stream, 0u64..5000, length(log)).prop_map(|(of, from, len)| StreamStretch { of, from, len })
}

/// Lengths of which each power of two has as many; half of them are multiples of 4 KiB where they can be.
fn length(log: Range<u32>) -> impl Strategy<Value = u64> {
    (log, any::<u64>(), any::<bool>()).prop_map(|(log, noise, whole)| {
        let len = (1 << log) + noise % (1 << log);
        if whole && len >= 4096 { len & !4095 } else { len }
    })
}

#[cfg(test)]
mod tests {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    use super::*;
    use crate::testing::What;

    #[test]
    fn files_have_the_promised_lengths_and_share_stretches() {
        let mut runner = TestRunner::deterministic();
        let mut shared = 0;
        for _ in 0..50 {
            let files = sharing_files(4, 16 << 20).new_tree(&mut runner).unwrap().current();
            let mut streams = Vec::new();
            let mut total = 0;
            for node in files {
                let What::File(pieces) = node.what else { panic!("only files") };
                let len: u64 = pieces.iter().map(Piece::len).sum();
                assert!((FILE_MIN..=FILE_MAX).contains(&len), "{len}");
                total += len;
                for piece in pieces {
                    let Piece::Cut { of, len, .. } = piece else { continue };
                    shared += usize::from(len >= 4096 && streams.contains(&of));
                    streams.push(of);
                }
            }
            assert!(total <= 16 << 20, "{total}");
        }
        assert!(shared > 100, "{shared}");
    }
}
