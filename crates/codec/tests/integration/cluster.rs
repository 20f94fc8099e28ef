//! Streams for physical clusters: filled, decoded whole and in part, within the window they declare.

use crate::{noise, text};
use packfs_codec::{Choice, Codec, Decoder, EncodedPrefix, Encoder, Error};
use proptest::prelude::*;

/// Choices that together reach every cluster encoder.
const CHOICES: &[&str] = &[
    "lz4",
    "lz4:acceleration=9",
    "lz4hc",
    "lz4hc:0",
    "lz4hc:1",
    "lz4hc:2",
    "lz4hc:9",
    "lz4hc:11",
    "deflate",
    "deflate:0",
    "deflate:1",
    "deflate:12",
    "lzma",
    "lzma:0",
    "lzma:1:extreme:lc=0,lp=4,pb=0",
    "zstd",
    "zstd:-50",
    "zstd:1",
    "zstd:22",
];

fn choices() -> Vec<Choice> {
    CHOICES.iter().map(|text| text.parse().unwrap()).collect()
}

fn encoder(choice: &Choice, cluster: usize) -> Box<dyn Encoder> {
    choice.cluster_encoder(choice.cluster_window(u32::try_from(cluster).unwrap())).unwrap()
}

fn decoder(choice: &Choice) -> Box<dyn Decoder> {
    choice.codec().cluster_decoder().unwrap()
}

/// Encodes a prefix of `src` into `room` bytes and checks that it decodes to the same bytes.
fn fill(choice: &Choice, src: &[u8], room: usize) -> Option<(EncodedPrefix, Vec<u8>)> {
    let mut dst = vec![0xAA; room];
    let prefix = encoder(choice, room).encode_prefix(src, &mut dst).unwrap()?;
    assert!(prefix.len < prefix.taken && prefix.len <= room && prefix.taken <= src.len(), "{choice}: {prefix:?}");
    dst.truncate(prefix.len);
    assert_ne!(dst[0], 0, "{choice}: EROFS skips zeros before a stream");
    let mut back = vec![0x55; prefix.taken];
    decoder(choice).decode(&dst, &mut back).unwrap_or_else(|error| panic!("{choice}: {prefix:?}: {error}"));
    assert!(back == src[..prefix.taken], "{choice}: {prefix:?} decodes to other bytes");
    Some((prefix, dst))
}

/// Bytes of several kinds, like files one after another.
fn mixed(len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::with_capacity(len);
    for seed in 1.. {
        bytes.extend(text(30_000, seed));
        bytes.extend(noise(3_000, seed));
        bytes.extend(vec![0; 10_000]);
        if bytes.len() >= len {
            break;
        }
    }
    bytes.truncate(len);
    bytes
}

#[test]
fn a_cluster_is_filled() {
    let src = text(600_000, 3);
    for choice in choices().iter().filter(|choice| choice.fills()) {
        for room in [512, 4096, 16_384, 65_536, 131_072] {
            let (prefix, _) = fill(choice, &src, room).unwrap();
            assert!(prefix.len >= room - 16 || prefix.taken == src.len(), "{choice}: {prefix:?} in {room}");
        }
    }
}

#[test]
fn incompressible_data_gives_no_prefix() {
    for choice in choices() {
        for (src, room) in [(noise(100_000, 9), 4096), (text(3, 1), 4096), (Vec::new(), 4096), (text(5000, 1), 0)] {
            assert_eq!(fill(&choice, &src, room), None, "{choice}: {} bytes in {room}", src.len());
        }
        for room in 0..40 {
            fill(&choice, &[0; 1000], room);
        }
    }
}

#[test]
fn a_whole_source_may_fit() {
    for choice in choices().iter().filter(|choice| choice.to_string() != "deflate:0") {
        for src in [text(5000, 7), vec![0; 300_000], vec![7; 100]] {
            let (prefix, _) = fill(choice, &src, 8192).unwrap_or_else(|| panic!("{choice}"));
            assert_eq!(prefix.taken, src.len(), "{choice}");
        }
    }
}

#[test]
fn earlier_calls_have_no_effect() {
    let sources = [text(60_000, 1), mixed(60_000), vec![0; 60_000], text(3000, 2), noise(9000, 1)];
    for choice in choices() {
        let mut used = encoder(&choice, 8192);
        for room in [8192, 100, 4096] {
            for src in sources.iter().chain(&sources) {
                let (mut first, mut second) = (vec![0; room], vec![0; room]);
                let want = encoder(&choice, 8192).encode_prefix(src, &mut first).unwrap();
                let got = used.encode_prefix(src, &mut second).unwrap();
                assert_eq!(got, want, "{choice}: {} bytes in {room}", src.len());
                let len = want.map_or(0, |prefix| prefix.len);
                assert!(first[..len] == second[..len], "{choice}: {} bytes in {room}", src.len());
            }
        }
    }
}

#[test]
fn a_beginning_of_any_length_is_decoded() {
    for choice in choices() {
        let mut decoder = decoder(&choice);
        for src in [text(3000, 5), vec![9; 3000], [noise(800, 1), text(2000, 1)].concat()] {
            let mut stream = vec![0; 4096];
            let len = encoder(&choice, 4096).encode(&src, &mut stream).unwrap().unwrap();
            for cut in 0..=src.len() {
                let mut back = vec![0x55; cut];
                decoder.decode_prefix(&stream[..len], &mut back).unwrap_or_else(|e| panic!("{choice}: {cut}: {e}"));
                assert!(back == src[..cut], "{choice}: {cut}");
            }
            let mut beyond = vec![0; src.len() + 1];
            assert!(decoder.decode_prefix(&stream[..len], &mut beyond).is_err(), "{choice}");
        }
    }
}

#[test]
fn a_stream_must_decode_to_the_requested_length() {
    for choice in choices() {
        let mut decoder = decoder(&choice);
        let src = text(5000, 8);
        let mut stream = vec![0; 8192];
        let len = encoder(&choice, 4096).encode(&src, &mut stream).unwrap().unwrap();
        for wrong in [0, 1, src.len() - 1, src.len() + 1, 2 * src.len()] {
            let error = decoder.decode(&stream[..len], &mut vec![0; wrong]).unwrap_err();
            assert!(matches!(error, Error::Corrupt { .. }), "{choice}: {wrong}: {error}");
        }
        for cut in [0, 1, len / 2, len - 1] {
            assert!(decoder.decode(&stream[..cut], &mut vec![0; src.len()]).is_err(), "{choice}: {cut} of {len}");
        }
        assert!(decoder.decode(&stream[..=len], &mut vec![0; src.len()]).is_err(), "{choice}: a byte more");
        assert_eq!(decoder.decode(&stream[..len], &mut vec![0; src.len()]), Ok(src.len()), "{choice}");
    }
}

#[test]
fn a_stream_for_a_window_needs_no_larger_one() {
    for level in [-7, 1, 3, 6, 12, 15, 19, 22] {
        let choice: Choice = format!("zstd:{level}").parse().unwrap();
        for cluster in [512, 4096, 16_384, 131_072, 1 << 20] {
            let window = choice.cluster_window(cluster);
            let mut encoder = choice.cluster_encoder(window).unwrap();
            for len in [1, 700, 1024, 5000, 40_000, 300_000] {
                let src = text(len, 3);
                let mut stream = vec![0; len + 100];
                encoder.encode(&src, &mut stream).unwrap().unwrap();
                let declared = zstd_window(&stream);
                assert!(declared <= u64::from(window), "{choice}: {len} bytes: {declared} of {window}");
            }
        }
    }
}

/// Returns the window that a zstd frame's header declares, read as the format's description says.
fn zstd_window(frame: &[u8]) -> u64 {
    assert_eq!(frame[..4], 0xFD2F_B528_u32.to_le_bytes());
    let descriptor = frame[4];
    assert_eq!(descriptor & 0b0010_0111, 0, "one segment, a checksum or a dictionary");
    assert_eq!(descriptor >> 6, 0, "a content size");
    let base = 1_u64 << (10 + (frame[5] >> 3));
    base + base / 8 * u64::from(frame[5] & 7)
}

#[test]
fn windows_are_those_that_an_image_can_declare() {
    let cases = [
        ("lz4", 4096, 65_535),
        ("lz4hc", 1 << 20, 65_535),
        ("deflate", 4096, 32 << 10),
        ("lzma", 4096, 32 << 10),
        ("lzma", 131_072, 512 << 10),
        ("lzma", 1 << 20, 4 << 20),
        ("lzma:dict=8K", 1 << 20, 8 << 10),
        ("lzma:dict=50%", 131_072, 256 << 10),
        ("lzma:dict=64M", 131_072, 8 << 20),
        ("zstd", 512, 4096),
        ("zstd", 4096, 32 << 10),
        ("zstd", 65_536, 512 << 10),
        ("zstd", 1 << 20, 1 << 20),
        ("gzip", 4096, 0),
    ];
    for (text, cluster, window) in cases {
        assert_eq!(text.parse::<Choice>().unwrap().cluster_window(cluster), window, "{text} at {cluster}");
    }
}

#[test]
fn codecs_and_sizes_that_erofs_lacks_are_refused() {
    let accepted = "zstd, deflate, lzma, lz4, lz4hc".to_owned();
    for codec in [Codec::Gzip, Codec::Xz, Codec::Lzo, Codec::None] {
        let error = Error::NotInFormat { format: "EROFS", codec: codec.name(), accepted: accepted.clone() };
        assert_eq!(Choice::new(codec).cluster_encoder(4096).err(), Some(error.clone()));
        assert_eq!(codec.cluster_decoder().err(), Some(error));
    }
    let large: Choice = "lzma:dict=16M".parse().unwrap();
    let message = "lzma: dict=16777216 is larger than EROFS can declare; accepted: up to 8M";
    assert_eq!(large.cluster_encoder(8 << 20).err().map(|error| error.to_string()).as_deref(), Some(message));
}

/// EROFS skips zeros before a stream, so no stream may begin with one; a stored block would.
#[test]
fn deflate_never_begins_with_zero() {
    for level in 0..=12 {
        let choice: Choice = format!("deflate:{level}").parse().unwrap();
        let mut encoder = encoder(&choice, 4096);
        for len in [1, 100, 5000, 70_000, 200_000] {
            let src = noise(len, 4);
            let mut stream = vec![0; len + 1000];
            let len = encoder.encode(&src, &mut stream).unwrap().unwrap();
            assert_ne!(stream[0], 0, "{choice}: {} bytes", src.len());
            let mut back = vec![0; src.len()];
            decoder(&choice).decode(&stream[..len], &mut back).unwrap();
            assert!(back == src);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_prefix_round_trips(len in 0..200_000usize, room in 0..20_000usize, seed: u64, cut: prop::sample::Index) {
        let src = if seed % 2 == 0 { text(len, seed) } else { mixed(len) };
        for choice in choices() {
            if let Some((prefix, stream)) = fill(&choice, &src, room) {
                let mut back = vec![0; cut.index(prefix.taken)];
                decoder(&choice).decode_prefix(&stream, &mut back).unwrap();
                prop_assert!(back == src[..back.len()], "{}: {:?}", choice, prefix);
            }
        }
    }

    #[test]
    fn any_bytes_decode_or_are_corrupt(
        junk in prop::collection::vec(any::<u8>(), 0..600),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        len in 0..9000usize,
        seed: u64,
    ) {
        for choice in choices() {
            let mut decoder = decoder(&choice);
            let mut stream = vec![0; 4096];
            let full = encoder(&choice, 4096).encode(&text(4000, seed), &mut stream).unwrap().unwrap_or(0);
            stream.truncate(full);
            let mut damaged = stream.clone();
            for (at, byte) in &flips {
                if full > 0 {
                    damaged[at.index(full)] = *byte;
                }
            }
            let headed = [&stream[..full.min(24)], &junk].concat();
            for bytes in [&junk, &damaged, &headed] {
                let mut dst = vec![0; len];
                let whole = decoder.decode(bytes, &mut dst);
                prop_assert!(matches!(whole, Ok(_) | Err(Error::Corrupt { .. })), "{}: {:?}", choice, whole);
                let part = decoder.decode_prefix(bytes, &mut dst);
                prop_assert!(matches!(part, Ok(()) | Err(Error::Corrupt { .. })), "{}: {:?}", choice, part);
            }
        }
    }
}
