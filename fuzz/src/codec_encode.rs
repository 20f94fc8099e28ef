//! Any bytes through every encoder: our decoder and one of somebody else's give them back, and what an encoder did
//! before does not show.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use packfs_codec::{Choice, Decoder, Encoder, compared};

use crate::codec_decode::peer;
use crate::take::Take;

/// Longest block of most codecs.
const MAX: usize = 16 << 10;

/// Longest block of most inputs, so that dense encoders, which need milliseconds for a long one, can be tried ten million
/// times. One input in 64 may have a longer one.
const SHORT: usize = 512;

/// Length of the longest block: our own encoder for fast LZ4 has those above 64K, and is fast enough for them.
fn longest(choice: &str) -> usize {
    if choice == "lz4" { 128 << 10 } else { MAX }
}

/// Length of blocks that encoders are made for. zstd has a parser of our own from level 14 on in longer blocks, from level
/// 18 on in short ones, and with other limits in those of 1M: all are tried.
fn block_len(choice: &str) -> usize {
    match choice {
        "zstd:15" => 128 << 10,
        "zstd:22" => 1 << 20,
        _ => longest(choice),
    }
}

const CHOICES: [&str; 24] = [
    "lz4",
    "lz4:acceleration=5",
    "lz4hc:1",
    "lz4hc:9",
    "lz4hc:12",
    "lzo:algorithm=lzo1x_1",
    "lzo:algorithm=lzo1x_1_15",
    "lzo:level=1",
    "lzo:level=5",
    "lzo:level=9",
    "gzip:1",
    "gzip:9",
    "deflate:1",
    "deflate:9",
    "zstd:-3",
    "zstd:1",
    "zstd:9",
    "zstd:15",
    "zstd:19",
    "snappy",
    "gzip:12",
    "xz:6",
    "lzma:6",
    "zstd:22",
];

struct Pair {
    choice: Choice,
    encoder: Box<dyn Encoder>,
    decoder: Box<dyn Decoder>,
    cluster: Option<Cluster>,
}

struct Cluster {
    encoder: Box<dyn Encoder>,
    decoder: Box<dyn Decoder>,
}

impl Pair {
    fn new(choice: &str) -> Pair {
        let block_len = block_len(choice);
        let choice: Choice = choice.parse().expect("a choice");
        let cluster = || {
            Some(Cluster {
                encoder: choice.cluster_encoder(choice.cluster_window(4096)).ok()?,
                decoder: choice.codec().cluster_decoder().ok()?,
            })
        };
        Pair {
            encoder: choice.encoder(block_len).expect("a codec"),
            decoder: choice.codec().decoder().expect("a codec"),
            cluster: cluster(),
            choice,
        }
    }
}

thread_local! {
    static PAIRS: RefCell<BTreeMap<usize, Pair>> = const { RefCell::new(BTreeMap::new()) };
}

/// Returns the number of the only choice to try, if FUZZ_CODEC names one.
fn only() -> Option<usize> {
    static ONLY: OnceLock<Option<usize>> = OnceLock::new();
    *ONLY.get_or_init(|| {
        let name = std::env::var("FUZZ_CODEC").ok()?;
        let found = CHOICES.iter().position(|choice| *choice == name);
        Some(found.unwrap_or_else(|| panic!("FUZZ_CODEC is one of {}", CHOICES.join(", "))))
    })
}

/// Encodes them.
pub fn look(bytes: &[u8]) {
    let mut take = Take(bytes);
    let chosen = usize::from(take.byte()) % CHOICES.len();
    let n = only().unwrap_or(chosen);
    let block = block(&mut take, longest(CHOICES[n]));
    PAIRS.with_borrow_mut(|pairs| {
        let pair = pairs.entry(n).or_insert_with(|| Pair::new(CHOICES[n]));
        whole(pair, &block);
        prefix(pair, &block);
    });
}

/// The rest of the input, with stretches of it again: fuzzers do not find long matches by themselves.
fn block(take: &mut Take<'_>, longest: usize) -> Vec<u8> {
    let mut block = Vec::new();
    let shape = take.byte();
    let longest = if shape < 0xfc { SHORT } else { longest };
    for _ in 0..shape % 4 {
        let (len, times) = (usize::from(take.byte()), usize::from(take.byte()));
        let piece = take.bytes(len);
        (0..=times).for_each(|_| block.extend_from_slice(piece));
    }
    block.extend_from_slice(take.0);
    block.truncate(longest);
    block
}

fn whole(pair: &mut Pair, block: &[u8]) {
    let mut packed = vec![0; block.len() + 64];
    let Some(len) = pair.encoder.encode(block, &mut packed).expect("encoders take anything") else { return };
    packed.truncate(len);
    let mut back = vec![0; block.len()];
    assert_eq!(pair.decoder.decode(&packed, &mut back).expect("we wrote it"), block.len());
    assert!(back == block, "{}: our decoder", pair.choice);
    if let Some(other) = peer(pair.choice.codec(), &packed, block.len()) {
        assert!(other.as_deref() == Ok(block), "{}: the other decoder", pair.choice);
    }
    // Some encoders need more room than the result takes; but there is one result only.
    for room in [len, len.saturating_sub(1)] {
        let mut tight = vec![0; room];
        if let Some(got) = pair.encoder.encode(block, &mut tight).expect("encoders take anything") {
            assert!(tight[..got] == packed, "{}: {got} bytes where there is room for {room}", pair.choice);
        }
    }
}

fn prefix(pair: &mut Pair, block: &[u8]) {
    let Some(cluster) = &mut pair.cluster else { return };
    let room = (block.len() / 3).clamp(1, 4096);
    let mut packed = vec![0; room];
    let Some(done) = cluster.encoder.encode_prefix(block, &mut packed).expect("encoders take anything") else { return };
    assert!(done.taken <= block.len() && done.len <= room && done.taken > done.len);
    let packed = &packed[..done.len];
    let mut back = vec![0; done.taken];
    assert_eq!(cluster.decoder.decode(packed, &mut back).expect("we wrote it"), done.taken);
    assert!(back == block[..done.taken], "{}: a cluster", pair.choice);
    let mut start = vec![0; done.taken / 2];
    cluster.decoder.decode_prefix(packed, &mut start).expect("we wrote it");
    assert!(start == block[..start.len()], "{}: the start of a cluster", pair.choice);
    // Clusters of LZMA are another format.
    if let Some(mut peer) = compared::cluster_decoder(pair.choice.codec(), 8 << 20) {
        let mut back = vec![0; done.taken];
        peer.decode(packed, &mut back).expect("the other decoder reads it");
        assert!(back == block[..done.taken], "{}: the other decoder, a cluster", pair.choice);
        return;
    }
    if let Some(other) = peer(pair.choice.codec(), packed, done.taken) {
        assert!(other.as_deref() == Ok(&block[..done.taken]), "{}: the other decoder, a cluster", pair.choice);
    }
}
