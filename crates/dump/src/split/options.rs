//! Options of a split.

use packfs_codec::{Choice, Codec};

/// How to split.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SplitOptions {
    /// The codec of chunks; [`Codec::None`] stores them as they are. Default: lz4.
    pub codec: Choice,
    /// Bytes of a chunk: a power of two from 4 KiB to 16 MiB. Default: 256 KiB.
    pub chunk: u32,
    /// So many parts may be lost; at least one more is needed. Default: 0.
    pub parity: u16,
    /// Worker threads beside those of the parts; 0 works on the calling thread. Default: 1.
    pub threads: usize,
    /// Bytes of memory to stay within, program included. Default: 128 MiB.
    pub memory: u64,
    /// Write past the page cache, where the file system can. Default: no.
    pub direct: bool,
    /// Go on with a run that was interrupted; parts that do not exist are begun. Default: no.
    pub resume: bool,
    /// Replace parts that exist. Default: no.
    pub force: bool,
    /// Store equal chunks once. Default: no.
    pub dedup: bool,
    /// Decode each coded chunk and compare. Default: yes.
    pub verify: bool,
    /// Bytes of a part after which all of it is made to reach the disk. Default: 256 MiB.
    pub checkpoint: u64,
}

impl Default for SplitOptions {
    fn default() -> Self {
        SplitOptions {
            codec: Choice::new(Codec::Lz4),
            chunk: 256 << 10,
            parity: 0,
            threads: 1,
            memory: 128 << 20,
            direct: false,
            resume: false,
            force: false,
            dedup: false,
            verify: true,
            checkpoint: 256 << 20,
        }
    }
}
