//! Streams that some library decodes and Linux does not, or decodes to other bytes.

/// Makes a deflate block of `len` bytes of `a` whose matches use an invalid length symbol:
/// libdeflate reads 286 as 258 bytes, zlib refuses it. With `zlib`, in the frame of a zlib stream.
pub fn deflate_with_symbol_286(len: usize, zlib: bool) -> Vec<u8> {
    let mut bits = vec![true, true, false];
    let mut code = |value: u32, len: u32| bits.extend((0..len).rev().map(|bit| value >> bit & 1 == 1));
    let matches = (len - 1) / 258;
    for _ in 0..len - 258 * matches {
        code(0x30 + u32::from(b'a'), 8);
    }
    for _ in 0..matches {
        code(0xc0 + 286 - 280, 8);
        code(0, 5);
    }
    code(0, 7);
    let bytes = bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
    if !zlib {
        return bytes.collect();
    }
    let (a, b) = (0..len).fold((1u32, 0u32), |(a, b), _| {
        let a = (a + u32::from(b'a')) % 65_521;
        (a, (b + a) % 65_521)
    });
    [0x78, 0x01].into_iter().chain(bytes).chain((b << 16 | a).to_be_bytes()).collect()
}

/// Makes an LZ4 block of `len` bytes, at least 40, with a match at distance 0. It decodes to
/// whatever was in the buffer, so two readers may well agree.
pub fn lz4_with_distance_0(len: usize) -> Vec<u8> {
    let more = len - 1 - 19 - 5;
    let rest = u8::try_from(more % 255).unwrap_or(0);
    [&[0x1f, b'a', 0, 0][..], &vec![255; more / 255], &[rest], b"\x50hello"].concat()
}
