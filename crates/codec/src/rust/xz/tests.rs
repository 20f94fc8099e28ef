//! Streams of liblzma and of our encoders, which its decoders read as well: all checks, filters and presets, MicroLZMA, and
//! the same damaged.

use liblzma::stream::{Action, Check, Filters, LzmaOptions, Status, Stream};
use proptest::prelude::*;

use super::{RustLzmaDecoder, RustMicroLzmaDecoder, RustXzDecoder};
use crate::settings::BcjFilters;
use crate::testing::{Random, letters, noise};
use crate::{Choice, Codec, Decoder, Error};

/// Bytes that filters of all processors take for parts of calls, with text between them.
fn code(len: usize, seed: u64) -> Vec<u8> {
    const OPCODES: [u8; 24] = [
        0x00, 0x01, 0x05, 0x10, 0x11, 0x17, 0x31, 0x40, 0x48, 0x7f, 0x80, 0x90, 0x94, 0x97, 0xe8, 0xe9, 0xeb, 0xef,
        0xf0, 0xf7, 0xf8, 0xfe, 0xff, 0x50,
    ];
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(len + 64);
    while bytes.len() < len {
        let part = 1 + random.below(40);
        match random.below(3) {
            0 => bytes.extend(letters(part, random.number(), 7)),
            1 => bytes.extend(noise(part, random.number())),
            _ => bytes.extend((0..part).map(|_| OPCODES[random.below(OPCODES.len())])),
        }
    }
    bytes.truncate(len);
    bytes
}

/// Runs an encoder of liblzma over parts of a block; each part ends a block of the stream.
fn run_encoder(mut encoder: Stream, parts: &[&[u8]], ends_blocks: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(parts.concat().len() * 2 + 4096);
    for (number, part) in (1..).zip(parts) {
        let last = number == parts.len();
        let action = match (last, ends_blocks) {
            (true, _) => Action::Finish,
            (false, true) => Action::FullFlush,
            (false, false) => Action::Run,
        };
        let before = encoder.total_in();
        loop {
            let taken = usize::try_from(encoder.total_in() - before).unwrap();
            let status = encoder.process_vec(&part[taken..], &mut out, action).unwrap();
            let is_done = if matches!(action, Action::Run) { taken == part.len() } else { status == Status::StreamEnd };
            if is_done {
                break;
            }
        }
    }
    out
}

/// Decodes with Rust and compares.
fn read_back(decoder: &mut dyn Decoder, stream: &[u8], block: &[u8], what: &str) {
    let mut back = vec![0; block.len()];
    assert_eq!(decoder.decode(stream, &mut back), Ok(block.len()), "{what}");
    assert!(back == block, "{what}");
}

#[test]
fn streams_of_liblzma_are_read() {
    let mut decoder = RustXzDecoder::default();
    for (name, add) in [
        ("none", None::<fn(&mut Filters)>),
        ("x86", Some(|filters| _ = filters.x86())),
        ("powerpc", Some(|filters| _ = filters.powerpc())),
        ("ia64", Some(|filters| _ = filters.ia64())),
        ("arm", Some(|filters| _ = filters.arm())),
        ("armthumb", Some(|filters| _ = filters.arm_thumb())),
        ("sparc", Some(|filters| _ = filters.sparc())),
        ("arm64", Some(|filters| _ = filters.arm64())),
        ("riscv", Some(|filters| _ = filters.riscv())),
        ("two", Some(|filters| _ = filters.x86().arm64())),
        ("three", Some(|filters| _ = filters.riscv().arm_thumb_properties(&0x1234_u32.to_le_bytes()).unwrap().arm())),
        ("an offset", Some(|filters| _ = filters.x86_properties(&0xffff_ff00_u32.to_le_bytes()).unwrap())),
    ] {
        for (check, preset) in [(Check::Crc32, 6), (Check::Crc64, 0), (Check::None, 9), (Check::Sha256, 3)] {
            for len in [0, 1, 7, 15, 5000, 50_001] {
                let block = code(len, len as u64 + u64::from(preset));
                let mut filters = Filters::new();
                if let Some(add) = add {
                    add(&mut filters);
                }
                filters.lzma2(&LzmaOptions::new_preset(preset).unwrap());
                let third = len / 3;
                let parts = [&block[..third], &block[third..2 * third], &block[2 * third..]];
                for parts in [&[&block[..]][..], &parts] {
                    let encoder = Stream::new_stream_encoder(&filters, check).unwrap();
                    let stream = run_encoder(encoder, parts, true);
                    let what = format!("{name}, preset {preset}, {len} bytes in {} blocks", parts.len());
                    read_back(&mut decoder, &stream, &block, &what);
                }
            }
        }
    }
}

#[test]
fn streams_with_an_end_marker_are_read() {
    let mut decoder = RustLzmaDecoder::default();
    for len in [0, 1, 5000, 300_000] {
        let block = code(len, 3);
        let encoder = Stream::new_lzma_encoder(&LzmaOptions::new_preset(6).unwrap()).unwrap();
        let mut stream = run_encoder(encoder, &[&block], false);
        read_back(&mut decoder, &stream, &block, "an unknown length");
        // With both the length and the marker, as some programs write it.
        stream[5..13].copy_from_slice(&(len as u64).to_le_bytes());
        let mut c = vec![0; len];
        assert_eq!(Codec::Lzma.decoder().unwrap().decode(&stream, &mut c), Ok(len));
        read_back(&mut decoder, &stream, &block, "a known length and a marker");
        assert!(decoder.decode(&stream[..stream.len() - 1], &mut c).is_err());
    }
}

/// Makes a cluster of at most `room` bytes; returns it with the part of `block` that it holds.
fn cluster<'a>(choice: &str, block: &'a [u8], room: usize, window: u32) -> (Vec<u8>, &'a [u8]) {
    let mut encoder = choice.parse::<Choice>().unwrap().cluster_encoder(window).unwrap();
    let mut dst = vec![0; room];
    match encoder.encode_prefix(block, &mut dst).unwrap() {
        Some(prefix) => {
            dst.truncate(prefix.len);
            (dst, &block[..prefix.taken])
        }
        None => (Vec::new(), &[]),
    }
}

#[test]
fn clusters_are_read_whole_and_in_part() {
    let block = [letters(60_000, 1, 9), code(60_000, 9), vec![0; 200_000]].concat();
    for choice in ["lzma:0", "lzma:6", "lzma:9:extreme", "lzma:4:lc=0,lp=4,pb=4"] {
        for (room, window) in [(100, 4096), (4096, 65_536), (65_536, 8 << 20)] {
            let (stream, content) = cluster(choice, &block, room, window);
            let mut decoder = RustMicroLzmaDecoder::new(window);
            read_back(&mut decoder, &stream, content, choice);
            for part in [0, 1, 2, content.len() / 2, content.len() - 1, content.len()] {
                let mut start = vec![0; part];
                decoder.decode_prefix(&stream, &mut start).unwrap();
                assert!(start == content[..part], "{choice}: {part} of {}", content.len());
            }
            // A beginning needs only the beginning.
            decoder.decode_prefix(&stream[..stream.len() / 2], &mut [0; 10]).unwrap();
            let mut more = vec![0; content.len() + 1];
            assert!(decoder.decode(&stream, &mut more).is_err());
            assert!(decoder.decode(&[&stream[..], &[0]].concat(), &mut more[..content.len()]).is_err());
        }
    }
}

#[test]
fn filters_and_dictionaries_that_no_image_has_are_named() {
    let encode = |filters: &Filters| {
        run_encoder(Stream::new_stream_encoder(filters, Check::Crc32).unwrap(), &[b"some bytes, some bytes"], true)
    };
    let mut decoder = RustXzDecoder::default();
    let mut options = LzmaOptions::new_preset(0).unwrap();
    let delta = encode(Filters::new().delta_properties(&[0]).unwrap().lzma2(&options));
    let large = encode(Filters::new().lzma2(options.dict_size(96 << 20)));
    for (stream, why) in [(delta, "the delta filter"), (large, "the dictionary is larger than 64 MiB")] {
        let Err(Error::Corrupt { why: told, .. }) = decoder.decode(&stream, &mut [0; 30]) else { panic!("{why}") };
        assert!(told.contains(why), "{told}");
    }
    // A header decides nothing about memory: the largest dictionary for four bytes.
    let small = encode(Filters::new().lzma2(options.dict_size(64 << 20)));
    read_back(&mut decoder, &small, b"some bytes, some bytes", "64 MiB");
}

/// Returns the verdict, and the bytes if it is good.
fn verdict(decoder: &mut dyn Decoder, stream: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut dst = vec![0x55; len];
    match decoder.decode(stream, &mut dst) {
        Ok(got) => Some(dst[..got].to_vec()),
        Err(Error::Corrupt { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Filters over anything, at lengths that end within an instruction.
    #[test]
    fn filtered_blocks_come_back(len in 0..3000_usize, seed: u64) {
        let block = code(len, seed);
        for (name, _) in BcjFilters::NAMES {
            let choice: Choice = format!("xz:0:bcj={name}").parse().unwrap();
            let mut stream = vec![0; len + 200];
            let packed = choice.encoder(len.max(1)).unwrap().encode(&block, &mut stream).unwrap().unwrap();
            read_back(&mut RustXzDecoder::default(), &stream[..packed], &block, name);
        }
    }

    /// Damage that leaves the checksums of headers right: only the data changes.
    #[test]
    fn damaged_clusters_decode_alike(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut: prop::sample::Index,
        seed: u64,
        room in 30..2000_usize,
        extra in 0..300_usize,
    ) {
        let block = code(9000, seed);
        for choice in ["lzma:1", "lzma:6"] {
            let (stream, content) = cluster(choice, &block, room, 4096);
            if stream.is_empty() {
                continue;
            }
            let mut damaged = stream.clone();
            flips.iter().for_each(|(at, byte)| damaged[at.index(stream.len())] = *byte);
            let mut c = crate::xz::micro_decoder(4096);
            let mut rust = RustMicroLzmaDecoder::new(4096);
            for src in [&stream[..], &damaged, &damaged[..cut.index(damaged.len())]] {
                for len in [content.len(), content.len() + extra, content.len().saturating_sub(extra).max(1)] {
                    let by_c = verdict(&mut *c, src, len);
                    let by_rust = verdict(&mut rust, src, len);
                    // liblzma's dictionary is a little longer than was asked for.
                    prop_assert!(by_rust.is_none() || by_c == by_rust);
                    prop_assert!(by_c.is_none() || by_rust.is_some() || len > 4096, "{choice}: {len} bytes");
                    let mut start_by_c = vec![0; len];
                    let mut start_by_rust = vec![0; len];
                    let c_fills = c.decode_prefix(src, &mut start_by_c).is_ok();
                    let rust_fills = rust.decode_prefix(src, &mut start_by_rust).is_ok();
                    prop_assert!(!rust_fills || c_fills && start_by_c == start_by_rust);
                    prop_assert!(!c_fills || rust_fills || len > 4096);
                }
            }
        }
    }

    /// The same with chunks of LZMA2, whose stream has no check then.
    #[test]
    fn damaged_chunks_decode_alike(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        seed: u64,
        len in 300..3000_usize,
    ) {
        let block = code(len, seed);
        let mut filters = Filters::new();
        filters.x86().lzma2(&LzmaOptions::new_preset(2).unwrap());
        let stream = run_encoder(Stream::new_stream_encoder(&filters, Check::None).unwrap(), &[&block], true);
        let mut damaged = stream.clone();
        // Between the block header and the index.
        let body = 24..stream.len() - 28;
        flips.iter().for_each(|(at, byte)| damaged[body.start + at.index(body.len())] = *byte);
        let mut c = Codec::Xz.decoder().unwrap();
        for room in [len, len + 10, len / 2] {
            prop_assert_eq!(verdict(&mut RustXzDecoder::default(), &damaged, room), verdict(&mut *c, &damaged, room));
        }
    }
}
