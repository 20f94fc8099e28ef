//! Any bytes to every decoder. Where it takes them, a decoder of somebody else's makes the same of them, and the
//! start of them decodes to the start.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read;

use packfs_codec::{Codec, Decoder, compared};

use crate::take::Take;

const CODECS: [Codec; 9] = [
    Codec::Gzip,
    Codec::Deflate,
    Codec::Xz,
    Codec::Lzma,
    Codec::Lzo,
    Codec::Snappy,
    Codec::Lz4,
    Codec::Zstd,
    Codec::None,
];

struct Decoders {
    whole: Box<dyn Decoder>,
    cluster: Option<Box<dyn Decoder>>,
}

thread_local! {
    static DECODERS: RefCell<BTreeMap<usize, Decoders>> = const { RefCell::new(BTreeMap::new()) };
}

/// Decodes them.
pub fn look(bytes: &[u8]) {
    let mut take = Take(bytes);
    let n = usize::from(take.byte()) % CODECS.len();
    let codec = CODECS[n];
    let len = usize::from(take.short() % 16_385);
    DECODERS.with_borrow_mut(|decoders| {
        let decoders = decoders.entry(n).or_insert_with(|| Decoders {
            whole: codec.decoder().expect("it is built"),
            cluster: codec.cluster_decoder().ok(),
        });
        let mut out = vec![0; len];
        let mut whole = None;
        let other = peer(codec, take.0, len);
        if other.as_ref().is_some_and(|other| is_known(codec, other)) {
            return;
        }
        if let Ok(got) = decoders.whole.decode(take.0, &mut out) {
            assert!(got <= len, "{}: {got} of {len} bytes", codec.name());
            if let Some(other) = other {
                let other = other.unwrap_or_else(|why| panic!("{}: the other decoder says {why}", codec.name()));
                assert!(other == out[..got], "{}: the other decoder", codec.name());
            }
            whole = Some(&out[..got]);
        }
        // Clusters of LZMA are another format.
        let Some(cluster) = &mut decoders.cluster else { return };
        let mut start = vec![0; len];
        let is_decoded = cluster.decode_prefix(take.0, &mut start).is_ok();
        if let Some(mut peer) = compared::cluster_decoder(codec, 8 << 20) {
            let mut other = vec![0; len];
            // Of nothing, only one of them looks at the header.
            let is_other_decoded = peer.decode_prefix(take.0, &mut other).is_ok() || len == 0;
            assert!(!is_decoded || is_other_decoded && start == other, "{}: the start in Rust", codec.name());
        }
        if is_decoded {
            let mut less = vec![0; len / 2];
            cluster.decode_prefix(take.0, &mut less).expect("less of it");
            assert!(less == start[..less.len()], "{}: the start of the start", codec.name());
            if let (Some(whole), false) = (whole, codec == Codec::Lzma)
                && whole.len() == len
            {
                assert!(start == whole, "{}: the start is all", codec.name());
            }
        }
    });
}

/// Streams that our libraries take and others refuse: liblz4 a match at distance 0, copying what is in the buffer, libdeflate
/// codes that stand for nothing, libzstd blocks longer than the window, and liblzma filters and checks that no image has.
fn is_known(codec: Codec, other: &Result<Vec<u8>, String>) -> bool {
    match codec {
        Codec::Lz4 => other.as_ref().is_err_and(|why| why.contains("match offset")),
        Codec::Gzip | Codec::Deflate | Codec::Zstd | Codec::Xz | Codec::Lzma => other.is_err(),
        _ => false,
    }
}

/// The output of another decoder for `src`, at most `len` bytes; `None` where there is no other.
pub(crate) fn peer(codec: Codec, src: &[u8], len: usize) -> Option<Result<Vec<u8>, String>> {
    Some(match codec {
        Codec::Gzip => read(flate2::read::ZlibDecoder::new(src), len),
        Codec::Deflate => read(flate2::read::DeflateDecoder::new(src), len),
        Codec::Lz4 | Codec::Lz4hc => lz4_flex::block::decompress(src, len).map_err(|error| error.to_string()),
        Codec::Lzo => {
            let mut out = vec![0; len];
            lzokay::decompress::decompress(src, &mut out).map_err(|error| format!("{error:?}")).map(|got| {
                out.truncate(got);
                out
            })
        }
        Codec::Zstd => match ruzstd::decoding::StreamingDecoder::new(src) {
            Ok(decoder) => read(decoder, len),
            Err(error) => Err(error.to_string()),
        },
        _ => {
            let mut out = vec![0; len];
            let decoded = compared::decoder(codec)?.decode(src, &mut out).map_err(|error| error.to_string());
            decoded.map(|got| {
                out.truncate(got);
                out
            })
        }
    })
}

fn read(from: impl Read, len: usize) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    from.take(len as u64 + 1).read_to_end(&mut out).map_err(|error| error.to_string())?;
    if out.len() > len { Err("it is longer".to_owned()) } else { Ok(out) }
}
