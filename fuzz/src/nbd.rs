//! The NBD server reads any bytes of a client. Its answers are messages of the protocol, have bytes of the disk where
//! they should, and are no longer than the client asked for.

use std::sync::Arc;

use packfs_image::image::Extent;
use packfs_serve::nbd::{HoleMap, NbdExport, converse};

/// Bytes of the disk: zeros follow text.
const LEN: usize = 700_000;
const TEXT: usize = 300_000;
/// Longest answer to look at: an input of a few thousand bytes could ask for gigabytes.
const READS_MAX: u64 = 64 << 20;

#[derive(Debug)]
struct Zeros;

impl HoleMap for Zeros {
    fn extents_from(&self, offset: u64) -> Box<dyn Iterator<Item = Extent> + '_> {
        let extents = [(0, TEXT, false), (TEXT, LEN - TEXT, true)];
        let extents = extents.map(|(offset, len, hole)| Extent { offset: offset as u64, len: len as u64, hole });
        Box::new(extents.into_iter().filter(move |one| one.offset + one.len > offset))
    }
}

fn disk() -> Vec<u8> {
    let mut disk = b"All work and no play. ".repeat(LEN / 20);
    disk.truncate(TEXT);
    disk.resize(LEN, 0);
    disk
}

/// Sends bytes, after the flags that most clients have.
pub fn look(bytes: &[u8]) {
    if asked_for(bytes) > READS_MAX {
        return;
    }
    let disk = disk();
    let big = NbdExport {
        name: "disk".into(),
        description: "text".into(),
        bytes: Arc::new(disk.clone()),
        holes: Some(Arc::new(Zeros)),
    };
    let small = NbdExport { name: "s".into(), description: String::new(), bytes: Arc::new(vec![1; 10]), holes: None };
    let heard = converse(vec![big, small], &[b"\0\0\0\x03", bytes].concat(), None);
    assert!(heard.starts_with(b"NBDMAGICIHAVEOPT\0\x03"));
    replies(&heard[18..], &disk);
}

/// Returns how many bytes requests in the input ask for, wherever one could begin.
fn asked_for(bytes: &[u8]) -> u64 {
    let requests = bytes.windows(28).filter(|head| head.starts_with(b"\x25\x60\x95\x13"));
    requests.map(|head| u64::from(u32::from_be_bytes(head[24..].try_into().unwrap())).min(LEN as u64)).sum()
}

/// Takes replies apart, up to what does not say its own length: the answer to a choice without replies, and data of
/// simple replies.
fn replies(mut heard: &[u8], disk: &[u8]) {
    while heard.len() >= 16 {
        match heard[..4] {
            [0, 3, 0xe8, 0x89] => heard = &heard[20 + number(&heard[16..20])..],
            [0x66, 0x8e, 0x33, 0xef] => {
                let (kind, len) = (number(&heard[6..8]), number(&heard[16..20]));
                let content = &heard[20..20 + len];
                match kind {
                    // Of the small disk, all bytes are the same.
                    1 => {
                        let (at, data) = (number(&content[..8]), &content[8..]);
                        assert!(data == &disk[at..at + data.len()] || data.iter().all(|byte| *byte == 1));
                    }
                    2 => {
                        let (at, len) = (number(&content[..8]), number(&content[8..]));
                        assert!(disk[at..at + len].iter().all(|byte| *byte == 0));
                    }
                    5 => assert_eq!((len - 4) % 8, 0),
                    kind => assert_eq!((kind, len), (1 << 15 | 1, 6)),
                }
                heard = &heard[20 + len..];
            }
            [0x67, 0x44, 0x66, 0x98] if number(&heard[4..8]) != 0 => heard = &heard[16..],
            _ => return,
        }
    }
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |all, byte| all << 8 | usize::from(*byte))
}
