//! Features of a superblock.

bitflags::bitflags! {
    /// Compatible features, which a reader may ignore.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Compat: u32 {
        /// The superblock has a checksum.
        const CHECKSUM = 0x1;
        /// Times are modification times.
        const MTIME = 0x2;
        /// Inodes have name filters for their xattrs.
        const XATTR_FILTER = 0x4;
        /// Shared xattrs are in the metabox.
        const SHARED_XATTRS_IN_METABOX = 0x8;
        /// The table of long xattr prefixes is stored uncompressed in the image.
        const PLAIN_XATTR_PREFIXES = 0x10;
        /// Inodes have digests for sharing page cache between images.
        const SHARED_INODES = 0x20;
        /// Bits for future versions.
        const _ = !0;
    }

    /// Incompatible features: a reader that does not know one cannot read the image.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Incompat: u32 {
        /// `ZERO_PADDING`, formerly `LZ4_0PADDING`: compressed bytes end where their cluster ends.
        /// Set in every compressed image.
        const ZERO_PADDING = 0x1;
        /// `COMPR_CFGS`, `BIG_PCLUSTER`: compression records follow the superblock, and clusters may have several blocks.
        const BIG_CLUSTERS = 0x2;
        /// `CHUNKED_FILE`: chunk-based files.
        const CHUNKED_FILES = 0x4;
        /// `DEVICE_TABLE`, `COMPR_HEAD2`: additional devices, or files with two algorithms.
        const DEVICES_OR_SECOND_HEAD = 0x8;
        /// `ZTAILPACKING`: the last cluster of a file may follow its inode.
        const TAIL_PACKING = 0x10;
        /// `FRAGMENTS`, `DEDUPE`: fragments, or shared clusters.
        const FRAGMENTS_OR_DEDUPE = 0x20;
        /// `XATTR_PREFIXES`: long xattr prefixes.
        const XATTR_PREFIXES = 0x40;
        /// `48BIT`: block addresses of 48 bits, encoded extents.
        const BITS_48 = 0x80;
        /// `METABOX`: inodes in the data of a special inode.
        const METABOX = 0x100;
        /// Bits for future versions.
        const _ = !0;
    }

    /// Flags in the map header of a compressed file.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Advise: u16 {
        /// Compact indexes: packs of 2 bytes an entry. Full layout: encoded extents.
        const COMPACT_2B_OR_EXTENTS = 0x1;
        /// Clusters of the first algorithm may have several blocks.
        const BIG_CLUSTER_1 = 0x2;
        /// Clusters of the second algorithm may have several blocks.
        const BIG_CLUSTER_2 = 0x4;
        /// The last cluster follows the index.
        const INLINE_CLUSTER = 0x8;
        /// Plain clusters are rotated.
        const INTERLACED = 0x10;
        /// The last extent lies in the packed inode.
        const FRAGMENT = 0x20;
        /// Bits for future versions.
        const _ = !0;
    }
}

impl Incompat {
    /// All bits defined so far.
    pub const KNOWN: Incompat = Incompat::from_bits_retain(0x1ff);
}

impl Compat {
    /// All bits defined so far.
    pub const KNOWN: Compat = Compat::from_bits_retain(0x3f);
}
