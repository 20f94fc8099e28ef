//! The options of a build as the conductor asks for them.

use packfs_blocks::{Buffers, Digest};
use packfs_codec::Codec;

use super::content_cuts::ContentCuts;
use super::staying_extents::StayingRules;
use crate::OnError;
use crate::build::{BATCH_FILES, BATCH_LEN};
use crate::erofs::kernel::Feature;
use crate::erofs::writer::encode::lanes::PackingOptions;
use crate::erofs::writer::encode::piece::TailPolicy;
use crate::erofs::writer::options::{ErofsOptions, Features, keeps_holes};
use crate::erofs::writer::place::reach::longest_file;
use crate::erofs::writer::stored::data::IndexForm;
use crate::erofs::writer::stored::tails::tail_max;

/// Options for writing file data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataRules {
    /// Length of the longest file in bytes.
    pub(crate) longest_file: u64,
    /// Uncompressed files begin at multiples of this many bytes.
    pub(crate) align: u64,
    /// Number of the device for the data of files; 0 is the image.
    pub(crate) device: u16,
    pub(crate) form: IndexForm,
    /// Which compressed files of other images are used where they are.
    pub(crate) staying: StayingRules,
    /// Maximum length of a piece in bytes.
    pub(crate) piece: usize,
    /// Where a new piece of the packed inode begins before the last one is full.
    pub(crate) cuts: ContentCuts,
    /// Maximum length of files that go to the packed inode, if tails of files do.
    pub(crate) fragment_max: usize,
    /// Treatment of the tails of files.
    pub(crate) tail_policy: TailPolicy,
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

impl DataRules {
    pub(super) fn block(&self) -> usize {
        1 << self.form.block_bits
    }

    /// Makes buffers for the blocks of many small files.
    pub(super) fn region_buffers(&self) -> Buffers {
        // Every file of a batch begins with a block, which may add almost a block for each.
        Buffers::new(BATCH_LEN.max(self.piece) + BATCH_FILES * self.block())
    }

    /// Returns the rules for a file: a file with a codec of its own stays out of the packed inode, which has another one.
    pub(super) fn for_policy(self, policy: FilePolicy) -> DataRules {
        let tail_policy = if policy.is_alone && self.tail_policy == TailPolicy::Fragment {
            TailPolicy::Cluster
        } else {
            self.tail_policy
        };
        DataRules { tail_policy, all_fragments: self.all_fragments && !policy.is_alone, ..self }
    }

    /// Returns true if a file of `len` bytes can only be stored after its inode: compressed it
    /// would take a block too.
    pub(super) fn follows_inode(&self, len: usize) -> bool {
        self.inline_tails && self.tail_policy == TailPolicy::Cluster && len <= tail_max(self.block())
    }
}

/// Packing of a file's data where it differs from that of other files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FilePolicy {
    /// Number of the lane.
    pub(super) lane: u8,
    /// True if nothing of the file goes to the packed inode.
    pub(super) is_alone: bool,
}

impl FilePolicy {
    /// Returns the digest by which equal data of files that are packed alike is found.
    pub(super) fn key_digest(self, digest: Digest) -> Digest {
        // Unchanged in the common case, which then costs no second hash.
        if self == FilePolicy::default() {
            return digest;
        }
        Digest::of(&[digest.as_bytes(), &[self.lane, u8::from(self.is_alone)][..]].concat())
    }
}

/// Returns the average length of chunks: fine enough to find the few clusters of a repeated stretch, coarse enough to be
/// fast.
fn chunk_len(cluster: usize) -> usize {
    (cluster / 8).clamp(512, 8 << 10).next_power_of_two()
}

/// Derives the rules from checked options.
pub(crate) fn rules(options: &ErofsOptions, packing: &PackingOptions) -> DataRules {
    let asked = |features| options.features.intersects(features);
    let raw = options.build.codec.codec() == Codec::None;
    let encoded = asked(Features::BITS_48);
    let tail_policy = if asked(Features::FRAGMENTS | Features::ALL_FRAGMENTS) {
        TailPolicy::Fragment
    } else if asked(Features::ZTAILPACKING) && !encoded {
        // Only without encoded extents, which have no form for a cluster after the inode.
        TailPolicy::Inline
    } else {
        TailPolicy::Cluster
    };
    let block_bits = u8::try_from(options.block_size.ilog2()).expect("at most 12");
    let algorithm = options.build.codec.codec().erofs_id().unwrap_or(0);
    DataRules {
        longest_file: longest_file(options),
        align: options.data_align.unwrap_or(options.block_size).into(),
        device: u16::from(options.blob.is_some()),
        form: IndexForm { block_bits, algorithm, encoded, compact: !asked(Features::FULL_INDEX) },
        staying: StayingRules { target_kernel: options.target_kernel, has_metabox: asked(Features::METABOX) },
        piece: packing.piece,
        cuts: ContentCuts::new(options.rsyncable),
        fragment_max: packing.fragment_max(),
        tail_policy,
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
