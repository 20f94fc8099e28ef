//! The options of a build as the conductor asks for them.

use packfs_blocks::{Buffers, Digest};
use packfs_codec::Codec;

use crate::OnError;
use crate::build::{BATCH_FILES, BATCH_LEN};
use crate::erofs::kernel::Feature;
use crate::erofs::writer::encode::lanes::Packing;
use crate::erofs::writer::encode::piece::Ending;
use crate::erofs::writer::options::{Features, Options, keeps_holes};
use crate::erofs::writer::place::reach::longest_file;
use crate::erofs::writer::stored::data::Form;
use crate::erofs::writer::stored::tails::tail_max;

/// Options for writing file data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Length of the longest file in bytes.
    pub(crate) longest_file: u64,
    /// Uncompressed files begin at multiples of this many bytes.
    pub(crate) align: u64,
    /// Number of the device for the data of files; 0 is the image.
    pub(crate) device: u16,
    pub(crate) form: Form,
    /// Maximum length of a piece in bytes.
    pub(crate) piece: usize,
    /// Maximum length of files that go to the packed inode, if tails of files do.
    pub(crate) fragment_max: usize,
    /// Treatment of the tails of files.
    pub(crate) ending: Ending,
    /// True if all files go to the packed inode.
    pub(crate) all_fragments: bool,
    /// True if nothing is compressed.
    pub(crate) raw: bool,
    /// True if all uncompressed files are chunk-based.
    pub(crate) chunks: bool,
    /// True if uncompressed files may be chunk-based, so that their pieces may lie anywhere.
    pub(crate) scattered: bool,
    /// True if holes stay holes.
    pub(crate) sparse: bool,
    /// True if directories follow in the packed inode.
    pub(crate) more_packed: bool,
    /// True if tails of uncompressed files follow their inodes.
    pub(crate) inline_tails: bool,
    pub(crate) dedup: bool,
    /// Average length of the chunks that find parts of files already stored.
    pub(crate) chunk: Option<usize>,
    pub(crate) on_error: OnError,
}

impl Rules {
    pub(super) fn block(&self) -> usize {
        1 << self.form.block_bits
    }

    /// Makes buffers for the blocks of many small files.
    pub(super) fn region_buffers(&self) -> Buffers {
        Buffers::new(BATCH_LEN.max(self.piece) + BATCH_FILES * self.block())
    }

    /// Returns the rules for a file: its data goes to the packed inode only if it is packed like that.
    pub(super) fn of(self, how: How) -> Rules {
        let ending = if how.alone && self.ending == Ending::Fragment { Ending::Cluster } else { self.ending };
        Rules { ending, all_fragments: self.all_fragments && !how.alone, ..self }
    }
}

impl Rules {
    /// Returns true if a file of `len` bytes can only be stored after its inode: compressed it
    /// would take a block too.
    pub(super) fn is_tail(&self, len: usize) -> bool {
        self.inline_tails && self.ending == Ending::Cluster && len <= tail_max(self.block())
    }
}

/// Packing of a file's data where it differs from that of other files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct How {
    /// Number of the lane.
    pub(super) lane: u8,
    /// True if nothing of the file goes to the packed inode.
    pub(super) alone: bool,
}

impl How {
    /// Returns a digest that only equal data of files that are packed alike has.
    pub(super) fn keyed(self, digest: Digest) -> Digest {
        if self == How::default() {
            return digest;
        }
        Digest::of(&[digest.as_bytes(), &[self.lane, u8::from(self.alone)][..]].concat())
    }
}

/// Fine enough to find the few clusters of a repeated stretch, coarse enough to be fast.
fn chunk_len(cluster: usize) -> usize {
    (cluster / 8).clamp(512, 8 << 10).next_power_of_two()
}

pub(crate) fn rules(options: &Options, packing: &Packing) -> Rules {
    let asked = |features| options.features.intersects(features);
    let raw = options.build.codec.codec() == Codec::None;
    let encoded = asked(Features::BITS_48);
    let ending = if asked(Features::FRAGMENTS | Features::ALL_FRAGMENTS) {
        Ending::Fragment
    } else if asked(Features::ZTAILPACKING) && !encoded {
        Ending::Inline
    } else {
        Ending::Cluster
    };
    let block_bits = u8::try_from(options.block_size.ilog2()).expect("at most 12");
    let algorithm = options.build.codec.codec().erofs_id().unwrap_or(0);
    Rules {
        longest_file: longest_file(options),
        align: options.data_align.unwrap_or(options.block_size).into(),
        device: u16::from(options.blob.is_some()),
        form: Form { block_bits, algorithm, encoded, compact: !asked(Features::FULL_INDEX) },
        piece: packing.piece,
        fragment_max: packing.fragment_max(),
        ending,
        all_fragments: asked(Features::ALL_FRAGMENTS) && !raw,
        raw,
        chunks: asked(Features::CHUNKS),
        scattered: options.target_kernel >= Feature::Chunks.since(),
        sparse: keeps_holes(options),
        more_packed: asked(Features::COMPRESSED_DIRS),
        inline_tails: !asked(Features::NO_INLINE),
        dedup: options.build.dedup,
        chunk: (options.build.dedup && asked(Features::DEDUPE) && !raw).then(|| chunk_len(packing.cluster)),
        on_error: options.build.on_error,
    }
}
