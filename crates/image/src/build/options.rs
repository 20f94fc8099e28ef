//! Options that builds of every format have.

use packfs_codec::Choice;

use crate::OnError;

/// How an image is built, whatever its format.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Codec, level and options.
    pub codec: Choice,
    /// Share equal files and equal parts of files.
    pub dedup: bool,
    /// Turn blocks of zeros into holes.
    pub sparse: bool,
    /// Decode and compare each block as soon as it is encoded.
    pub verify: bool,
    /// Bytes left free before the image (the file's start belongs to somebody else).
    pub offset: u64,
    /// The image's own time, in seconds since 1970; without, the newest time in the tree. SquashFS holds 32 bits
    /// without a sign, EROFS any time.
    pub time: Option<i64>,
    /// Replace an existing target.
    pub force: bool,
    /// What a file means that cannot be read or changes meanwhile.
    pub on_error: OnError,
    /// Compression threads; 0 does everything on the calling thread.
    pub threads: usize,
    /// Bytes that data in flight may take.
    pub memory: u64,
}

impl Options {
    /// The defaults, with the codec that a format compresses with by default.
    pub(crate) fn new(codec: Choice) -> Self {
        Options {
            codec,
            dedup: true,
            sparse: true,
            verify: true,
            offset: 0,
            time: None,
            force: false,
            on_error: OnError::Stop,
            threads: packfs_blocks::pipeline::cores(),
            memory: 64 << 20,
        }
    }

    /// A budget of `memory / part` bytes, but enough for `least` bytes, and not above `most` unless `least` is.
    pub(crate) fn budget(&self, part: u64, least: usize, most: usize) -> usize {
        usize::try_from(self.memory / part).unwrap_or(usize::MAX).clamp(least, least.max(most))
    }
}
