//! The digest that fs-verity has for a file: what `fsverity digest` prints, and what the kernel compares on enabling.
//!
//! Source: Documentation/filesystems/fsverity.rst of Linux, "File digest computation".

use packfs_blocks::ReadAt;

use crate::error::{Error, Result};
use crate::hashing::{BlockHasher, HashAlgorithm};
use crate::tree::{BlockSource, HashEffort, RootHash, TreeShape, TreeWriter, hash_blocks};

/// Length of the descriptor, whose digest stands for the file.
const DESCRIPTOR_LEN: usize = 256;
/// Longest salt, in bytes.
const SALT_MAX: usize = 32;
/// Smallest and largest block size that Linux has, in bytes.
const BLOCK_SIZES: std::ops::RangeInclusive<u32> = 1024..=65536;

/// Parameters of a digest.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FsVerityOptions {
    /// Hash function of tree and descriptor.
    pub algorithm: HashAlgorithm,
    /// Size of the blocks in bytes: a power of two from 1 KiB to 64 KiB. Before Linux 6.3, it is the page size.
    pub block_size: u32,
    /// Bytes that come before each block, at most 32.
    pub salt: Vec<u8>,
}

impl Default for FsVerityOptions {
    fn default() -> Self {
        // The block size of `fsverity enable`; every kernel with 4 KiB pages takes it.
        FsVerityOptions { algorithm: HashAlgorithm::Sha256, block_size: 4096, salt: Vec::new() }
    }
}

packfs_blocks::options!(FsVerityOptions);

/// Returns the fs-verity digest of all bytes of `data`. Its text is that of [`RootHash`]; `fsverity` writes the name of the
/// algorithm and a colon before it.
///
/// # Errors
/// [`Error::InvalidOption`] for a block size or a salt that Linux does not take; [`Error::Io`]; [`Error::Interrupted`].
pub fn fsverity_digest(data: &dyn ReadAt, options: &FsVerityOptions, effort: &HashEffort) -> Result<RootHash> {
    let FsVerityOptions { algorithm, block_size, .. } = *options;
    check_options(options)?;
    let len = data.len();
    let padded_salt = pad_salt(&options.salt, algorithm);
    let hasher = BlockHasher::new(algorithm, &padded_salt);
    let shape = TreeShape::new(len.div_ceil(block_size.into()), block_size, algorithm);
    let mut tree = TreeWriter::new(&shape, hasher.clone(), block_size, algorithm.digest_len());
    let source = BlockSource { data, len, block_size, hasher: &hasher };
    // Only the root matters: the kernel builds the tree itself.
    let mut forget_block = |_: &[u8], _| Ok(());
    hash_blocks(source, effort, &mut |digests| tree.push(digests, &mut forget_block))?;
    let root = tree.finish(&mut forget_block)?;
    Ok(RootHash::new(algorithm.digest(&descriptor(options, len, &root))))
}

/// Computes the digest of a file whose bytes come one after the other.
#[derive(Debug)]
pub(crate) struct FsVerityHasher<'o> {
    options: &'o FsVerityOptions,
    len: u64,
    hasher: BlockHasher,
    tree: TreeWriter,
    digests: Vec<u8>,
}

impl<'o> FsVerityHasher<'o> {
    /// Begins a file of `len` bytes.
    pub(crate) fn new(options: &'o FsVerityOptions, len: u64) -> Self {
        let FsVerityOptions { algorithm, block_size, .. } = *options;
        let hasher = BlockHasher::new(algorithm, &pad_salt(&options.salt, algorithm));
        let shape = TreeShape::new(len.div_ceil(block_size.into()), block_size, algorithm);
        let tree = TreeWriter::new(&shape, hasher.clone(), block_size, algorithm.digest_len());
        FsVerityHasher { options, len, hasher, tree, digests: Vec::new() }
    }

    /// Adds the next bytes: whole blocks, except at the end of the file.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let block_size = self.options.block_size as usize;
        self.digests.clear();
        for block in bytes.chunks(block_size) {
            if block.len() == block_size {
                self.hasher.append_digest(block, &mut self.digests);
            // Linux hashes the end of the page too, which is zero after the end of the file.
            } else {
                let mut padded = block.to_vec();
                padded.resize(block_size, 0);
                self.hasher.append_digest(&padded, &mut self.digests);
            }
        }
        self.tree.push(&self.digests, &mut |_, _| Ok(())).expect("nothing is written that could fail");
    }

    /// Returns the digest.
    pub(crate) fn finish(self) -> RootHash {
        let root = self.tree.finish(&mut |_, _| Ok(())).expect("nothing is written that could fail");
        RootHash::new(self.options.algorithm.digest(&descriptor(self.options, self.len, &root)))
    }
}

fn check_options(options: &FsVerityOptions) -> Result<()> {
    let invalid = |what, value, why| Err(Error::InvalidOption { what, value, why });
    if !options.block_size.is_power_of_two() || !BLOCK_SIZES.contains(&options.block_size) {
        let value = options.block_size.to_string();
        return invalid("block size", value, "fs-verity has powers of two from 1 KiB to 64 KiB");
    }
    if options.salt.len() > SALT_MAX {
        return invalid("salt", format!("of {} bytes", options.salt.len()), "fs-verity takes at most 32");
    }
    Ok(())
}

/// Returns the salt with zeros up to what the hash function takes at a time; an empty salt stays empty.
fn pad_salt(salt: &[u8], algorithm: HashAlgorithm) -> Vec<u8> {
    let mut padded = salt.to_vec();
    // The kernel hashes the padded salt as whole input blocks, so it can keep the hash state and reuse it.
    padded.resize(salt.len().next_multiple_of(algorithm.input_block_len()), 0);
    padded
}

/// Makes the `struct fsverity_descriptor` of Linux. The root of an empty file is all zeros.
fn descriptor(options: &FsVerityOptions, len: u64, root: &RootHash) -> [u8; DESCRIPTOR_LEN] {
    const VERSION: u8 = 1;
    const LEN_AT: usize = 8;
    const ROOT_AT: usize = 16;
    const SALT_AT: usize = 80;
    let mut descriptor = [0; DESCRIPTOR_LEN];
    descriptor[0] = VERSION;
    descriptor[1] = options.algorithm.fsverity_number();
    // The block size was checked: its logarithm is 10 to 16.
    descriptor[2] = u8::try_from(options.block_size.ilog2()).unwrap_or_default();
    descriptor[3] = u8::try_from(options.salt.len()).unwrap_or_default();
    // Checked to be at most 32.
    descriptor[LEN_AT..ROOT_AT].copy_from_slice(&len.to_le_bytes());
    descriptor[ROOT_AT..ROOT_AT + root.as_bytes().len()].copy_from_slice(root.as_bytes());
    descriptor[SALT_AT..SALT_AT + options.salt.len()].copy_from_slice(&options.salt);
    descriptor
}
