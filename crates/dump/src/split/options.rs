//! Options of a split.

use packfs_codec::{Choice, Codec};

/// Options of a split.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SplitOptions {
    /// Codec of chunks; [`Codec::None`] stores them uncompressed. Default: lz4.
    pub codec: Choice,
    /// Chunk size in bytes: a power of two from 4 KiB to 16 MiB. Default: 256 KiB.
    pub chunk: u32,
    /// Number of parts that may be lost; at least one more is needed. Default: 0.
    pub parity: u16,
    /// Number of worker threads besides those of the parts; 0 works on the calling thread. Default: 1.
    pub threads: usize,
    /// Memory limit in bytes, including the program. Default: 128 MiB.
    pub memory: u64,
    /// True to bypass the page cache, if the file system supports it. Default: no.
    pub direct: bool,
    /// True to resume an interrupted run; parts that do not exist are created. Default: no.
    pub resume: bool,
    /// True to replace existing parts. Default: no.
    pub force: bool,
    /// True to store equal chunks once. Default: no.
    pub dedup: bool,
    /// True to decode each compressed chunk and compare. Default: yes.
    pub verify: bool,
    /// Number of bytes of a part after which it is flushed to disk. Default: 256 MiB.
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
