//! Makes the tree of an image.

use packfs_blocks::{Output, ReadAt};

use super::{HashArea, SUPERBLOCK_LEN, Superblock, Uuid, VerityOptions};
use crate::error::{Error, Result};
use crate::hashing::{BlockHasher, HashAlgorithm};
use crate::tree::{BlockSource, HashEffort, RootHash, TreeWriter, hash_blocks};

/// Bytes of the data from which a salt is taken, if none is given. They hold the superblock of the file system, which
/// differs between images by its checksum, UUID, time or sizes.
const SALT_SOURCE_LEN: u64 = 4096;

/// A tree that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VeritySeal {
    /// Digest on which everything depends.
    pub root_hash: RootHash,
    /// Parameters, and the place of the tree.
    pub area: HashArea,
    /// Byte offset of the hash area in its file, at which the superblock lies, if there is one.
    pub hash_offset: u64,
}

/// Makes the hash tree of all bytes of `data`, and writes it to `output` from `hash_offset` on; without `output`, only the
/// root hash is computed.
///
/// Blocks are hashed on all cores, and memory is bounded by a few MiB for each. The bytes are those that `veritysetup
/// format` writes for the same parameters.
///
/// # Errors
/// [`Error::InvalidOption`] for parameters that the format does not have, or a `hash_offset` that is no multiple of the
/// hash block size; [`Error::Unaligned`] if the last block of data is not full; [`Error::Io`]; [`Error::Write`];
/// [`Error::Interrupted`].
pub fn seal(
    data: &dyn ReadAt,
    options: &VerityOptions,
    hash_offset: u64,
    output: Option<&Output>,
    effort: &HashEffort,
) -> Result<VeritySeal> {
    options.check()?;
    let VerityOptions { algorithm, data_block_size, hash_block_size, .. } = *options;
    let len = data.len();
    if len == 0 || !len.is_multiple_of(data_block_size.into()) {
        return Err(Error::Unaligned { len, block_size: data_block_size });
    }
    // The kernel counts the position of a tree in hash blocks.
    if !hash_offset.is_multiple_of(hash_block_size.into()) {
        let why = "it is not a multiple of the hash block size";
        return Err(Error::InvalidOption { what: "hash offset", value: hash_offset.to_string(), why });
    }
    let salt = match &options.salt {
        Some(salt) => salt.clone(),
        None => salt_of(data)?,
    };
    let data_blocks = len / u64::from(data_block_size);
    let uuid = options.uuid.unwrap_or_default();
    let parameters = Superblock { algorithm, data_block_size, hash_block_size, data_blocks, salt, uuid };
    let mut area = if options.has_superblock {
        HashArea::after_superblock(parameters, hash_offset)?
    } else {
        HashArea { superblock: parameters, tree_offset: hash_offset }
    };
    let root_hash = write_tree(data, &area, output, effort)?;
    // The UUID is not hashed, so it may follow from the root hash. That is why the superblock is written last.
    if options.uuid.is_none() {
        area.superblock.uuid = Uuid::from_digest(root_hash.as_bytes());
    }
    if let (Some(output), true) = (output, options.has_superblock) {
        write_superblock(&area, hash_offset, output).map_err(Error::write("the verity superblock"))?;
    }
    Ok(VeritySeal { root_hash, area, hash_offset })
}

/// Hashes the data, and writes the blocks of the tree.
fn write_tree(data: &dyn ReadAt, area: &HashArea, output: Option<&Output>, effort: &HashEffort) -> Result<RootHash> {
    let Superblock { algorithm, data_block_size, hash_block_size, .. } = area.superblock;
    let hasher = BlockHasher::new(algorithm, &area.superblock.salt);
    let mut tree = TreeWriter::new(&area.shape(), hasher.clone(), hash_block_size, algorithm.digest_len());
    let mut write_block = |block: &[u8], offset: u64| {
        output.map_or(Ok(()), |output| output.write_all_at(block, area.tree_offset + offset))
    };
    let source = BlockSource { data, len: data.len(), block_size: data_block_size, hasher: &hasher };
    hash_blocks(source, effort, &mut |digests| tree.push(digests, &mut write_block))?;
    tree.finish(&mut write_block)
}

/// Writes the superblock, and zeros up to the tree.
fn write_superblock(area: &HashArea, hash_offset: u64, output: &Output) -> std::io::Result<()> {
    output.write_all_at(&area.superblock.encode(), hash_offset)?;
    let end = hash_offset + SUPERBLOCK_LEN as u64;
    // Written out, as the output may replace a device with other bytes. The gap is smaller than a hash block.
    let zeros = vec![0; usize::try_from(area.tree_offset - end).unwrap_or_default()];
    output.write_all_at(&zeros, end)
}

/// Returns the salt of an image that is given none: another one for each image, and the same one each time.
fn salt_of(data: &dyn ReadAt) -> Result<Vec<u8>> {
    // The prefix keeps this hash apart from all other uses of SHA-256 on the same bytes.
    let mut hashed = b"packfs dm-verity salt\0".to_vec();
    hashed.extend_from_slice(&data.len().to_le_bytes());
    let mut beginning = vec![0; usize::try_from(data.len().min(SALT_SOURCE_LEN)).unwrap_or_default()];
    data.read_exact_at(&mut beginning, 0).map_err(Error::io("cannot read the image"))?;
    hashed.extend_from_slice(&beginning);
    Ok(HashAlgorithm::Sha256.digest(&hashed))
}
