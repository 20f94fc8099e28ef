//! Checks that all consumers share: the tree, the signature, and small files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::ReadAt;

use super::{OpenExamination, SealMistake, SealedImage};
use crate::contents::ImageContents;
use crate::error::{Error, Result};
use crate::signature::{DetachedSignature, SignatureError};
use crate::tree::{HashEffort, RootHash};
use crate::verity::{HashArea, SUPERBLOCK_LEN, Superblock, VerityFinding, verify};

/// Largest file of a root hash, metadata or a signature that is read, in bytes. Real ones have a few KiB; the limit
/// keeps a wrong file from filling the memory.
const SMALL_MAX: u64 = 1 << 20;
/// Page size of most machines in bytes. Linux opens no tree with larger blocks, and the image may run on any machine.
const PAGE_SIZE: u32 = 4096;

/// Reads a small file, of which no more than 1 MiB counts; `None` if there is none.
pub(super) fn read_small(path: &Path) -> Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("cannot read a file beside the image")(error)),
    };
    let mut bytes = Vec::new();
    let read = file.take(SMALL_MAX).read_to_end(&mut bytes);
    read.map_err(Error::io("cannot read a file beside the image"))?;
    Ok(Some(bytes))
}

/// Returns the first of several files that exists.
pub(super) fn first_existing(names: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    names.into_iter().find(|name| name.exists())
}

/// Returns the path with a suffix added to its name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A tree as a consumer finds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundTree<'t> {
    pub(super) file: &'t dyn ReadAt,
    /// Byte offset at which the superblock is looked for.
    pub(super) offset: u64,
    /// True if the tree lies in the image.
    pub(super) is_appended: bool,
}

/// Reads the superblock of a tree, compares its parameters with the image, and all data with the tree.
pub(super) fn check_tree(
    image: SealedImage<'_>,
    found: FoundTree<'_>,
    root_hash: &RootHash,
    effort: &HashEffort,
    findings: &mut OpenExamination,
) -> Result<()> {
    let Some(area) = read_area(found, findings)? else { return Ok(()) };
    check_known_tree(image, found, &area, root_hash, effort, findings)
}

/// Does the same as [`check_tree`] with parameters that were read elsewhere.
pub(super) fn check_known_tree(
    image: SealedImage<'_>,
    found: FoundTree<'_>,
    area: &HashArea,
    root_hash: &RootHash,
    effort: &HashEffort,
    findings: &mut OpenExamination,
) -> Result<()> {
    // Only the mistakes of this tree count, not those that were found before.
    let before = findings.mistakes.len();
    check_sizes(image, found, area, findings);
    // A tree that Linux does not open may be sound all the same; one that ends too early cannot be read.
    let is_readable = !findings.mistakes[before..]
        .iter()
        .any(|mistake| matches!(mistake, SealMistake::ShortHashArea { .. } | SealMistake::ImageShortened { .. }));
    if !is_readable {
        return Ok(());
    }
    let mut tree = DamageCount::default();
    let mut data = DamageCount::default();
    // A root hash of another length cannot be that of this tree; hashing would compare different digests.
    let mut is_other = root_hash.algorithm() != area.superblock.algorithm;
    if !is_other {
        verify(&**image.data, found.file, area, root_hash, effort, &mut |finding| match finding {
            VerityFinding::RootHash => is_other = true,
            VerityFinding::HashBlock { offset } => tree.add(offset),
            VerityFinding::DataBlock { offset, .. } => data.add(offset),
        })?;
    }
    if is_other {
        findings.add(SealMistake::OtherRootHash);
    }
    if let DamageCount { first: Some(offset), count } = tree {
        findings.add(SealMistake::DamagedTree { offset, count });
    }
    if let DamageCount { first: Some(offset), count } = data {
        findings.add(SealMistake::DamagedData { offset, count });
    }
    Ok(())
}

/// Bytes in an image: a partition, or what comes before a signature.
#[derive(Debug)]
pub(super) struct ImageRange {
    image: Arc<dyn ReadAt>,
    start: u64,
    len: u64,
}

impl ImageRange {
    /// Takes a range that ends within the image.
    pub(super) fn new(image: &Arc<dyn ReadAt>, start: u64, len: u64) -> Self {
        ImageRange { image: Arc::clone(image), start, len }
    }
}

impl ReadAt for ImageRange {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        // On 32 bits, a longer rest than usize is cut by the length of the buffer.
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buf.len().min(left);
        // The range ends within the image, so that this does not overflow.
        if len == 0 { Ok(0) } else { self.image.read_at(&mut buf[..len], self.start + offset) }
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn check_unchanged(&self) -> io::Result<()> {
        self.image.check_unchanged()
    }
}

/// Damaged blocks.
#[derive(Debug, Default)]
struct DamageCount {
    /// Byte offset of the first.
    first: Option<u64>,
    count: u64,
}

impl DamageCount {
    fn add(&mut self, offset: u64) {
        self.first.get_or_insert(offset);
        self.count += 1;
    }
}

/// Reads the superblock; a wrong one is a mistake.
fn read_area(found: FoundTree<'_>, findings: &mut OpenExamination) -> Result<Option<HashArea>> {
    let mut head = [0; SUPERBLOCK_LEN];
    // Beyond the largest offset of a file, which metadata may name, even reading is an error.
    let got = if found.offset < found.file.len() {
        // A short read is no error: the file may be shorter than a superblock, which is a mistake with a name.
        found.file.read_at(&mut head, found.offset).map_err(Error::io("cannot read the verity superblock"))?
    } else {
        0
    };
    if got < SUPERBLOCK_LEN || !Superblock::is_superblock(&head) {
        findings.add(
            superblock_before(found).map_or(SealMistake::NoSuperblock { offset: found.offset }, |superblock| {
                SealMistake::OffsetAfterSuperblock { offset: found.offset, superblock }
            }),
        );
        return Ok(None);
    }
    match HashArea::read(found.file, found.offset) {
        Ok(area) => Ok(Some(area)),
        Err(Error::Io { what, source }) => Err(Error::Io { what, source }),
        Err(error) => {
            findings.add(SealMistake::BadSuperblock(error.to_string()));
            Ok(None)
        }
    }
}

/// Returns the byte offset of a superblock whose tree begins where a superblock is looked for.
fn superblock_before(found: FoundTree<'_>) -> Option<u64> {
    // A superblock takes one hash block, so the tree begins that many bytes after it. Larger blocks are refused anyway.
    let mut candidates = [512, 1024, 2048, 4096].into_iter().filter_map(|len| found.offset.checked_sub(len));
    // The superblock must agree: without this, any tree at a distance of 512 bytes would be suspected.
    candidates.find(|offset| HashArea::read(found.file, *offset).is_ok_and(|area| area.tree_offset == found.offset))
}

/// Compares the parameters of a tree with the lengths of the files, with pages, and with the file system.
fn check_sizes(image: SealedImage<'_>, found: FoundTree<'_>, area: &HashArea, findings: &mut OpenExamination) {
    let Superblock { data_block_size, hash_block_size, .. } = area.superblock;
    // decode() refused a product that overflows, so this is exact.
    let sealed = area.superblock.data_len().unwrap_or(u64::MAX);
    let len = image.data.len();
    let hash_len = found.file.len();
    if let Some(end) = area.end().filter(|end| *end > hash_len) {
        findings.add(SealMistake::ShortHashArea { len: hash_len, end });
    }
    // A cut image may end before its tree as well; only the cut is worth telling.
    if len < sealed {
        findings.add(SealMistake::ImageShortened { len, sealed });
    } else if found.is_appended && found.offset < sealed {
        findings.add(SealMistake::TreeInsideData { offset: found.offset, sealed });
    } else if !found.is_appended && len > sealed {
        findings.add(SealMistake::ImageGrown { len, sealed });
    }
    let size = data_block_size.max(hash_block_size);
    if size > PAGE_SIZE {
        findings.add(SealMistake::BlockAbovePage { size });
    }
    // Other contents than SquashFS or EROFS are sealed, too; nothing is known of what they need.
    let Some(contents) = ImageContents::of(image.data) else { return };
    if contents.len > sealed {
        findings.add(SealMistake::UncoveredFileSystem { needed: contents.len, sealed });
    }
    if data_block_size > contents.device_block_max {
        findings.add(SealMistake::BlockAboveFileSystem { size: data_block_size, max: contents.device_block_max });
    }
}

/// Verifies the signature in the file `expected`; `others` are names that people give it, but nobody looks for.
pub(super) fn check_signature(
    image: SealedImage<'_>,
    root_hash: &RootHash,
    expected: PathBuf,
    others: impl IntoIterator<Item = PathBuf>,
    findings: &mut OpenExamination,
) -> Result<()> {
    let Some(bytes) = read_small(&expected)? else {
        match first_existing(others) {
            Some(found) => findings.add(SealMistake::SignatureName { found, expected }),
            // Without a certificate the consumer asks for no signature; then a missing one is no mistake.
            None if !image.certificates.is_empty() => findings.add(SealMistake::NoSignature { expected }),
            None => {}
        }
        return Ok(());
    };
    findings.has_signature = true;
    check_parsed_signature(image, root_hash, DetachedSignature::parse(&bytes), findings);
    Ok(())
}

/// Verifies a signature by the certificates, if there are any.
pub(super) fn check_parsed_signature(
    image: SealedImage<'_>,
    root_hash: &RootHash,
    signature: std::result::Result<DetachedSignature, SignatureError>,
    findings: &mut OpenExamination,
) {
    let has_certificates = !image.certificates.is_empty();
    let verified = signature.and_then(|signature| match image.certificates {
        [] => Ok(()),
        certificates => signature.verify(root_hash, certificates),
    });
    match verified {
        Ok(()) => findings.is_signed = has_certificates,
        Err(error) => findings.add(SealMistake::InvalidSignature(error)),
    }
}
