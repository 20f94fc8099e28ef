//! Everything that can be wrong with a seal, by name.

use std::path::PathBuf;

use packfs_blocks::name::display;

use super::KernelEnforcement;
use crate::minisign::MinisignError;
use crate::rauc::BundleError;
use crate::sif::SifError;
use crate::signature::SignatureError;

/// Something that keeps a seal from being enforced, or an image from being used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealMistake {
    /// systemd does not look for the image.
    #[error("the name of the image does not end in .raw: systemd does not find it")]
    NotRaw,
    /// No root hash: verity is silently not set up.
    #[error("there is no {}: systemd uses the image without dm-verity, and without a warning", display(expected))]
    NoRootHash {
        /// The name that is looked for.
        expected: PathBuf,
    },
    /// A root hash under a name that nobody looks for.
    #[error("systemd does not look for {}: the root hash must be in {}", display(found), display(expected))]
    RootHashName {
        /// The file that is there.
        found: PathBuf,
        /// The name that is looked for.
        expected: PathBuf,
    },
    /// A root hash that is none.
    #[error("{}: {why}", display(path))]
    BadRootHash {
        /// The file.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// An attribute comes before the file, and differs from it.
    #[error(
        "the attribute user.verity.roothash of the image comes before {}, and has another root hash",
        display(file)
    )]
    OtherAttribute {
        /// The file with the root hash.
        file: PathBuf,
    },
    /// No hash tree: verity is silently not set up.
    #[error("there is no {}: systemd uses the image without dm-verity, and without a warning", display(expected))]
    NoHashTree {
        /// The name that is looked for.
        expected: PathBuf,
    },
    /// A hash tree under a name that nobody looks for.
    #[error("systemd does not look for {}: the hash tree must be in {}", display(found), display(expected))]
    HashTreeName {
        /// The file that is there.
        found: PathBuf,
        /// The name that is looked for.
        expected: PathBuf,
    },
    /// A tree at the end of the image, where systemd does not look.
    #[error("systemd does not look for a hash tree inside the image (byte {offset}): it must be in a file of its own")]
    AppendedTree {
        /// Byte offset of its superblock.
        offset: u64,
    },
    /// A tree without a superblock, whose parameters nobody knows.
    #[error("there is no superblock at byte {offset} of the hash area, so its parameters are unknown")]
    NoSuperblock {
        /// Byte offset in the file of the hash area.
        offset: u64,
    },
    /// The offset of the tree instead of that of its superblock.
    #[error("the hash offset {offset} is that of the tree; it must be {superblock}, that of the superblock")]
    OffsetAfterSuperblock {
        /// The offset in the metadata.
        offset: u64,
        /// The right offset.
        superblock: u64,
    },
    /// A superblock with a value that the kernel refuses.
    #[error("{0}")]
    BadSuperblock(String),
    /// A superblock without a UUID, which containerd refuses.
    #[error("the UUID of the superblock is all zeros, which containerd refuses")]
    NilUuid,
    /// The file of the hash area ends within the tree.
    #[error("the hash area has {len} bytes, but its tree needs {end}: it is truncated")]
    ShortHashArea {
        /// Length of the file in bytes.
        len: u64,
        /// End of the tree in bytes.
        end: u64,
    },
    /// Superblock or tree lie within the data that they cover.
    #[error("the hash area at byte {offset} lies within the {sealed} bytes of data that it covers")]
    TreeInsideData {
        /// Byte offset of the hash area.
        offset: u64,
        /// Number of bytes that are sealed.
        sealed: u64,
    },
    /// The image became longer after it was sealed.
    #[error("the image has {len} bytes, of which {sealed} are sealed: it grew after sealing")]
    ImageGrown {
        /// Length of the image in bytes.
        len: u64,
        /// Number of bytes that are sealed.
        sealed: u64,
    },
    /// The image became shorter after it was sealed.
    #[error("the image has {len} bytes, but {sealed} were sealed: it was truncated after sealing")]
    ImageShortened {
        /// Length of the image in bytes.
        len: u64,
        /// Number of bytes that are sealed.
        sealed: u64,
    },
    /// The file system goes on after the last sealed byte.
    #[error("the file system has {needed} bytes, but only {sealed} are sealed: its end cannot be read")]
    UncoveredFileSystem {
        /// Length of the file system in bytes.
        needed: u64,
        /// Number of bytes that are sealed.
        sealed: u64,
    },
    /// Blocks that are larger than pages.
    #[error(
        "blocks of {size} bytes are larger than a page (4096 bytes on most machines): Linux does not open the tree"
    )]
    BlockAbovePage {
        /// The larger block size in bytes.
        size: u32,
    },
    /// Blocks of data that are larger than those of the file system.
    #[error(
        "data blocks of {size} bytes are larger than the blocks of the file system ({max}): Linux does not mount it"
    )]
    BlockAboveFileSystem {
        /// Data block size in bytes.
        size: u32,
        /// Block size of the file system in bytes.
        max: u32,
    },
    /// The root hash of another image or tree.
    #[error("the root hash is not that of the hash tree: one of them belongs to another image")]
    OtherRootHash,
    /// Damaged blocks of the tree.
    #[error("{count} hash blocks do not match their hashes, the first at byte {offset}")]
    DamagedTree {
        /// Byte offset of the first in the hash area.
        offset: u64,
        /// Number of such blocks.
        count: u64,
    },
    /// Damaged blocks of data.
    #[error("{count} data blocks do not match their hashes, the first at byte {offset}")]
    DamagedData {
        /// Byte offset of the first in the image.
        offset: u64,
        /// Number of such blocks.
        count: u64,
    },
    /// No signature, though there is a certificate to verify one by.
    #[error("there is no {}: the root hash is not signed", display(expected))]
    NoSignature {
        /// The name that is looked for.
        expected: PathBuf,
    },
    /// A signature under a name that nobody looks for.
    #[error("the consumer does not look for {}: the signature must be in {}", display(found), display(expected))]
    SignatureName {
        /// The file that is there.
        found: PathBuf,
        /// The name that is looked for.
        expected: PathBuf,
    },
    /// A signature that is not valid.
    #[error(transparent)]
    InvalidSignature(SignatureError),
    /// No metadata beside a layer: verity is silently not set up.
    #[error("there is no {}: the layer is mounted without dm-verity", display(expected))]
    NoMetadata {
        /// The name that is looked for.
        expected: PathBuf,
    },
    /// Metadata that containerd does not read.
    #[error("{}: not JSON with roothash and hashoffset", display(path))]
    BadMetadata {
        /// The file.
        path: PathBuf,
    },
    /// No partition table: systemd takes the image for a bare file system.
    #[error("there is no partition table: systemd takes the image for a file system without dm-verity")]
    NoPartitionTable,
    /// A partition table that nobody can read.
    #[error("{0}")]
    BadPartitionTable(&'static str),
    /// Only the first of the two partition tables is sound.
    #[error("the partition table at the end of the image is missing or differs: the image was cut off or changed")]
    NoBackupTable,
    /// No partition that systemd would mount.
    #[error("there is no partition of a root or usr file system with a type that systemd knows")]
    NoDataPartition,
    /// No partition with a hash tree: verity is silently not set up.
    #[error("there is no partition with a hash tree of this type: systemd uses the image without dm-verity")]
    NoHashPartition,
    /// A partition whose UUID is not that half of the root hash which it has to be.
    #[error("a partition has the UUID {found}; by the root hash it must be {expected}: systemd does not find it")]
    PartitionUuid {
        /// UUID of the partition.
        found: String,
        /// UUID by which it is looked for.
        expected: String,
    },
    /// No signature, though there is a certificate to verify one by.
    #[error("there is no partition with a signature: the root hash is not signed")]
    NoSignaturePartition,
    /// A partition of a signature that systemd does not read.
    #[error("the partition of the signature is not JSON with rootHash and signature")]
    BadSignaturePartition,
    /// The file beside the image, and the signature in it, are about different root hashes.
    #[error("{} has another root hash than the partition of the signature", display(file))]
    OtherSignedHash {
        /// The file with the root hash, which comes first.
        file: PathBuf,
    },
    /// A file that does not end as a bundle does.
    #[error("the last 8 bytes are not the length of a signature: {0}")]
    BadTrailer(&'static str),
    /// A bundle whose blocks the kernel does not verify.
    #[error("the format of the bundle is plain: RAUC verifies it once, and the kernel does not when it is read")]
    PlainBundle,
    /// A bundle that only its recipients can read.
    #[error("the format of the bundle is crypt: only systems with its key can read it, and packfs cannot verify it")]
    CryptBundle,
    /// Image and tree end within a block.
    #[error("image and tree have {len} bytes, which is not a multiple of 4096: Linux does not open the tree")]
    UnalignedPayload {
        /// Length of both in bytes.
        len: u64,
    },
    /// The manifest has another length of the tree than it has.
    #[error("verity-size is {found}, but the tree of the data before has {needed} bytes")]
    VeritySize {
        /// Length by the manifest in bytes.
        found: u64,
        /// Length of the tree in bytes.
        needed: u64,
    },
    /// A signature without the certificate by which RAUC verifies it.
    #[error("the signature does not contain the certificate of the signer, which RAUC takes from there")]
    NoSignerCertificate,
    /// More signers than older versions of RAUC take.
    #[error("the signature has {count} signers: RAUC 1.8 takes only one, later versions verify each")]
    SeveralSigners {
        /// Number of signers.
        count: usize,
    },
    /// No signature for minisign.
    #[error("there is no {}: minisign refuses the file", display(expected))]
    NoMinisig {
        /// The name that is looked for.
        expected: PathBuf,
    },
    /// The signature of the file with the root hash, beside the image.
    #[error(
        "the signature is that of {}, and not that of the image: its name must be that of what is signed",
        display(file)
    )]
    SignedRootHash {
        /// The file that was signed.
        file: PathBuf,
    },
    /// A signature that minisign refuses.
    #[error(transparent)]
    Minisign(MinisignError),
    /// A manifest that RAUC refuses, or that is not about the files in the image.
    #[error(transparent)]
    Bundle(BundleError),
    /// A file that `apptainer verify` refuses.
    #[error(transparent)]
    Sif(SifError),
}

impl SealMistake {
    /// Returns the name by which programs know the mistake. It never changes.
    pub fn name(&self) -> &'static str {
        match self {
            SealMistake::NotRaw => "not-raw",
            SealMistake::NoRootHash { .. } => "no-root-hash",
            SealMistake::RootHashName { .. } => "root-hash-name",
            SealMistake::BadRootHash { .. } => "bad-root-hash",
            SealMistake::OtherAttribute { .. } => "other-attribute",
            SealMistake::NoHashTree { .. } => "no-hash-tree",
            SealMistake::HashTreeName { .. } => "hash-tree-name",
            SealMistake::AppendedTree { .. } => "appended-tree",
            SealMistake::NoSuperblock { .. } => "no-superblock",
            SealMistake::OffsetAfterSuperblock { .. } => "offset-after-superblock",
            SealMistake::BadSuperblock(_) => "bad-superblock",
            SealMistake::NilUuid => "nil-uuid",
            SealMistake::ShortHashArea { .. } => "short-hash-area",
            SealMistake::TreeInsideData { .. } => "tree-inside-data",
            SealMistake::ImageGrown { .. } => "image-grown",
            SealMistake::ImageShortened { .. } => "image-shortened",
            SealMistake::UncoveredFileSystem { .. } => "uncovered-file-system",
            SealMistake::BlockAbovePage { .. } => "block-above-page",
            SealMistake::BlockAboveFileSystem { .. } => "block-above-file-system",
            SealMistake::OtherRootHash => "other-root-hash",
            SealMistake::DamagedTree { .. } => "damaged-tree",
            SealMistake::DamagedData { .. } => "damaged-data",
            SealMistake::NoSignature { .. } => "no-signature",
            SealMistake::SignatureName { .. } => "signature-name",
            // Names that say what to do about the signature; all other failures of parsing share one.
            SealMistake::InvalidSignature(SignatureError::SignedNewline) => "signed-newline",
            SealMistake::InvalidSignature(SignatureError::OtherSigner) => "other-signer",
            SealMistake::InvalidSignature(SignatureError::UntrustedSigner { .. }) => "untrusted-signer",
            SealMistake::InvalidSignature(SignatureError::OtherContent) => "other-content",
            SealMistake::InvalidSignature(_) => "bad-signature",
            SealMistake::NoMetadata { .. } => "no-metadata",
            SealMistake::BadMetadata { .. } => "bad-metadata",
            SealMistake::NoPartitionTable => "no-partition-table",
            SealMistake::BadPartitionTable(_) => "bad-partition-table",
            SealMistake::NoBackupTable => "no-backup-table",
            SealMistake::NoDataPartition => "no-data-partition",
            SealMistake::NoHashPartition => "no-hash-partition",
            SealMistake::PartitionUuid { .. } => "partition-uuid",
            SealMistake::NoSignaturePartition => "no-signature-partition",
            SealMistake::BadSignaturePartition => "bad-signature-partition",
            SealMistake::OtherSignedHash { .. } => "other-signed-hash",
            SealMistake::BadTrailer(_) => "bad-trailer",
            SealMistake::PlainBundle => "plain-bundle",
            SealMistake::CryptBundle => "crypt-bundle",
            SealMistake::UnalignedPayload { .. } => "unaligned-payload",
            SealMistake::VeritySize { .. } => "verity-size",
            SealMistake::NoSignerCertificate => "no-signer-certificate",
            SealMistake::SeveralSigners { .. } => "several-signers",
            SealMistake::NoMinisig { .. } => "no-minisig",
            SealMistake::SignedRootHash { .. } => "signed-root-hash",
            SealMistake::Minisign(error) => error.name(),
            SealMistake::Bundle(error) => error.name(),
            SealMistake::Sif(error) => error.name(),
        }
    }

    /// Returns what is enforced at most, with this mistake.
    pub(super) fn effect(&self) -> KernelEnforcement {
        match self {
            SealMistake::NoRootHash { .. }
            | SealMistake::RootHashName { .. }
            | SealMistake::NoHashTree { .. }
            | SealMistake::HashTreeName { .. }
            | SealMistake::AppendedTree { .. }
            | SealMistake::NoMetadata { .. }
            | SealMistake::NoPartitionTable
            | SealMistake::NoHashPartition
            | SealMistake::PlainBundle => KernelEnforcement::Unverified,
            // The tree still verifies each block; only nobody vouches for the root hash. Bytes after the sealed ones
            // are not mapped.
            SealMistake::NoSignature { .. }
            | SealMistake::SignatureName { .. }
            | SealMistake::ImageGrown { .. }
            | SealMistake::NoSignaturePartition => KernelEnforcement::Unsigned,
            // The first table is used, and all that it leads to is verified.
            SealMistake::NoBackupTable => KernelEnforcement::Signed,
            // What verifies it verifies all of them.
            SealMistake::SeveralSigners { .. } => KernelEnforcement::Signed,
            // RAUC does not compare digests of images: the kernel verifies their blocks.
            SealMistake::Bundle(BundleError::ImageChecksum { .. }) => KernelEnforcement::Signed,
            // Bytes after the tree, which nobody reads. Where the tree begins elsewhere, there are other mistakes, too.
            SealMistake::VeritySize { found, needed } if found > needed => KernelEnforcement::Signed,
            // Every other mistake makes systemd, containerd, RAUC, minisign, Apptainer or the kernel fail, which is safe.
            _ => KernelEnforcement::Refused,
        }
    }
}
