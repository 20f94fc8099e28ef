//! Streams that Linux cannot read because of where they end.
//!
//! Its deflate decoder takes a stream page by page, and asks for the next page of the image only while bytes of the
//! extent are missing. If the last page holds nothing but the code that ends the stream, all bytes are there before
//! it, and the decoder takes the rest for damage (tried with Linux 6.18; LZ4, MicroLZMA and zstd are not affected).
//! Where clusters end with blocks this cannot happen.

use super::format::algorithm;

/// Bytes of the smallest page. Larger ones begin where one of these does.
const PAGE: u64 = 4096;
/// Bytes that the code takes which ends a stream: it has up to 15 bits.
const CODE_LEN: u64 = 2;

/// How many bytes, the last of a stream of `len` bytes at byte `start` of the image, lie on a page of their own on
/// which there may be nothing but the stream's end; 0 if its last page holds more or all of it.
pub(super) fn stranded(algorithm: u8, start: u64, len: u64) -> u64 {
    let on_page = (start % PAGE + len % PAGE) % PAGE;
    if algorithm == algorithm::DEFLATE && on_page <= CODE_LEN && on_page < len { on_page } else { 0 }
}

/// By how many bytes a stream has to lie farther back to be read.
pub(super) fn moved(algorithm: u8, start: u64, len: u64) -> usize {
    match stranded(algorithm, start, len) {
        0 => 0,
        1 => 2,
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
