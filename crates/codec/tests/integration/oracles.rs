//! Interoperability: other implementations decode our output, and our decoders read theirs.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::{BLOCK, choices, noise, packed, text};
use packfs_codec::{Choice, Codec};

fn blocks() -> [Vec<u8>; 5] {
    [text(1, 1), text(5000, 2), text(BLOCK, 3), noise(30_000, 4), vec![0; BLOCK]]
}

fn choices_of(codecs: &[Codec]) -> Vec<Choice> {
    choices().into_iter().filter(|choice| codecs.contains(&choice.codec())).collect()
}

fn decode(codec: Codec, stream: &[u8], len: usize) -> Vec<u8> {
    let mut back = vec![0; len];
    let got = codec.decoder().unwrap().decode(stream, &mut back).unwrap();
    back.truncate(got);
    back
}

/// Pipes bytes through a program; returns `None` with a message if it is not installed.
fn pipe(test: &str, program: &str, args: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let child = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        assert!(std::env::var_os("PACKFS_REQUIRE_ORACLES").is_none(), "{test}: {program} is not installed");
        eprintln!("SKIPPED {test}: {program} is not installed");
        return None;
    };
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).unwrap());
        child.wait_with_output().unwrap()
    });
    assert!(output.status.success(), "{test}: {program} {args:?}");
    Some(output.stdout)
}

#[test]
fn gzip_and_zlib_agree() {
    for block in blocks() {
        for choice in choices_of(&[Codec::Gzip]) {
            let mut back = Vec::new();
            flate2::read::ZlibDecoder::new(packed(&choice, &block).as_slice()).read_to_end(&mut back).unwrap();
            assert!(back == block, "{choice}: {} bytes", block.len());
        }
        for level in [0, 1, 6, 9] {
            let mut stream = Vec::new();
            let mut encoder = flate2::read::ZlibEncoder::new(block.as_slice(), flate2::Compression::new(level));
            encoder.read_to_end(&mut stream).unwrap();
            assert!(decode(Codec::Gzip, &stream, block.len()) == block, "level {level}: {} bytes", block.len());
        }
    }
}

#[test]
fn zstd_is_read_by_another_decoder() {
    for block in blocks() {
        for choice in choices_of(&[Codec::Zstd]) {
            let stream = packed(&choice, &block);
            let mut back = Vec::new();
            ruzstd::decoding::StreamingDecoder::new(stream.as_slice()).unwrap().read_to_end(&mut back).unwrap();
            assert!(back == block, "{choice}: {} bytes", block.len());
        }
    }
}

#[test]
fn xz_agrees_with_the_program_xz() {
    for block in blocks() {
        for choice in choices_of(&[Codec::Xz]) {
            // Versions before 5.6 lack the filter for RISC-V.
            if choice.to_string().contains("riscv") {
                continue;
            }
            let Some(back) = pipe("xz", "xz", &["-dc"], &packed(&choice, &block)) else { return };
            assert!(back == block, "{choice}: {} bytes", block.len());
        }
        for args in [&["-6c", "--check=crc32"][..], &["-c", "--check=none"], &["-c", "--x86", "--lzma2=dict=8KiB"]] {
            let Some(stream) = pipe("xz", "xz", args, &block) else { return };
            assert!(decode(Codec::Xz, &stream, block.len()) == block, "{args:?}: {} bytes", block.len());
        }
    }
}

#[test]
fn lzma_agrees_with_the_program_xz() {
    for block in blocks() {
        for choice in choices_of(&[Codec::Lzma]) {
            let Some(back) = pipe("lzma", "xz", &["-dc", "--format=lzma"], &packed(&choice, &block)) else { return };
            assert!(back == block, "{choice}: {} bytes", block.len());
        }
        // That program leaves the length open and marks the end; SquashFS tools fill in the length as well.
        let Some(mut stream) = pipe("lzma", "xz", &["-c", "--format=lzma"], &block) else { return };
        assert!(decode(Codec::Lzma, &stream, block.len()) == block, "open length: {} bytes", block.len());
        stream[5..13].copy_from_slice(&(block.len() as u64).to_le_bytes());
        assert!(decode(Codec::Lzma, &stream, block.len()) == block, "both: {} bytes", block.len());
    }
}

#[test]
fn lz4_follows_its_format() {
    for block in blocks() {
        for choice in choices_of(&[Codec::Lz4, Codec::Lz4hc]) {
            assert!(plain_lz4(&packed(&choice, &block)) == block, "{choice}: {} bytes", block.len());
        }
    }
}

/// Decodes LZ4's block format as its description defines it: token, literals, offset, length.
fn plain_lz4(mut src: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let token = usize::from(take(&mut src, 1)[0]);
        let literals = length(token >> 4, &mut src);
        out.extend_from_slice(take(&mut src, literals));
        // The last sequence has literals only.
        if src.is_empty() {
            return out;
        }
        let offset = take(&mut src, 2);
        let offset = usize::from(u16::from_le_bytes([offset[0], offset[1]]));
        for _ in 0..length(token & 15, &mut src) + 4 {
            out.push(out[out.len() - offset]);
        }
    }
}

#[test]
fn snappy_follows_its_format() {
    for block in blocks() {
        for choice in choices_of(&[Codec::Snappy]) {
            assert!(plain_snappy(&packed(&choice, &block)) == block, "{choice}: {} bytes", block.len());
        }
    }
}

/// Decodes Snappy's raw format as its description defines it: the length as a varint, then tagged
/// literals and copies.
fn plain_snappy(mut src: &[u8]) -> Vec<u8> {
    let (mut want, mut shift, mut more) = (0, 0, true);
    while more {
        let byte = take(&mut src, 1)[0];
        want |= usize::from(byte & 0x7F) << shift;
        shift += 7;
        more = byte & 0x80 != 0;
    }
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte));
    let mut out = Vec::new();
    while !src.is_empty() {
        let tag = usize::from(take(&mut src, 1)[0]);
        let (offset, len) = match tag & 3 {
            0 if tag >> 2 < 60 => (0, (tag >> 2) + 1),
            0 => (0, number(take(&mut src, (tag >> 2) - 59)) + 1),
            1 => ((tag >> 5) << 8 | number(take(&mut src, 1)), (tag >> 2 & 7) + 4),
            kind => (number(take(&mut src, 2 * kind - 2)), (tag >> 2) + 1),
        };
        if tag & 3 == 0 {
            out.extend_from_slice(take(&mut src, len));
        } else {
            (0..len).for_each(|_| out.push(out[out.len() - offset]));
        }
    }
    assert_eq!(out.len(), want);
    out
}

fn take<'s>(src: &mut &'s [u8], count: usize) -> &'s [u8] {
    let (taken, rest) = src.split_at(count);
    *src = rest;
    taken
}

fn length(field: usize, src: &mut &[u8]) -> usize {
    let mut length = field;
    let mut more = field == 15;
    while more {
        let byte = take(src, 1)[0];
        length += usize::from(byte);
        more = byte == 255;
    }
    length
}
