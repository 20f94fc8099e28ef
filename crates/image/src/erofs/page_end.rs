//! Streams that Linux cannot read because of the position of their end.
//!
//! Linux's deflate decoder consumes a stream page by page, and requests the next page of the image
//! only while bytes of the extent are missing. If the last page contains nothing but the
//! end-of-block code, all bytes have been decoded before it, and the decoder reports the remainder
//! as damage (tested with Linux 6.18; LZ4, MicroLZMA and zstd are not affected). Clusters that end
//! with a block are never affected.

use super::format::algorithm;

/// Size of the smallest page in bytes. Larger pages begin at multiples of it too.
const PAGE: u64 = 4096;
/// Length in bytes of the code that ends a stream: it has up to 15 bits.
const CODE_LEN: u64 = 2;

/// Returns how many of the last bytes of a stream (of `len` bytes at byte `start` of the image) lie
/// on a page of their own that may contain nothing but the stream's end; 0 if the last page
/// contains more, or the whole stream.
pub(super) fn stranded(algorithm: u8, start: u64, len: u64) -> u64 {
    let on_page = (start % PAGE + len % PAGE) % PAGE;
    if algorithm == algorithm::DEFLATE && on_page <= CODE_LEN && on_page < len { on_page } else { 0 }
}

/// Maximum number of bytes by which a stream is moved.
pub(super) const MOVED_MAX: usize = 2;

/// Returns by how many bytes a stream must be moved towards the end of the image to be readable.
pub(super) fn moved(algorithm: u8, start: u64, len: u64) -> usize {
    match stranded(algorithm, start, len) {
        0 => 0,
        1 => MOVED_MAX,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_two_bytes_of_deflate_are_moved() {
        use algorithm::{DEFLATE, LZ4, LZMA, ZSTD};
        let table = [
            (DEFLATE, 4096, 4096, 0),
            (DEFLATE, 4096, 4097, 1),
            (DEFLATE, 4000, 98, 2),
            (DEFLATE, 4000, 99, 0),
            (DEFLATE, 8192, 1, 0),
            (DEFLATE, 8191, 2, 1),
            (DEFLATE, 5000, 100, 0),
            (LZ4, 4096, 4097, 0),
            (LZMA, 4096, 4097, 0),
            (ZSTD, 4096, 4097, 0),
        ];
        for (algorithm, start, len, want) in table {
            assert_eq!(stranded(algorithm, start, len), want, "{algorithm}, {len} bytes at {start}");
            let moved = start + moved(algorithm, start, len) as u64;
            assert_eq!(stranded(algorithm, moved, len), 0, "{algorithm}, {len} bytes at {moved}");
        }
    }
}
