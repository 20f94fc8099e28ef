//! Disk images of systemd: partitions of the file system, of its tree and of the signature.
//!
//! Source: `dissect_image`, `verity_settings_load` and `dissected_image_load_verity_sig_partition` in
//! src/shared/dissect-image.c. The root hash is that of the file beside the image, or of the signature; without one, the
//! file system is mounted as it is.

use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::ReadAt;

use super::parts::{FoundTree, ImageRange, check_parsed_signature, check_tree, read_small};
use super::{OpenExamination, SealExamination, SealMistake, SealedImage};
use crate::ddi::{DdiSignature, DdiType, DiskPartition, PartitionTable, RootHashHalves, TableError};
use crate::error::{Error, Result};
use crate::names::SystemdFiles;
use crate::signature::{DetachedSignature, SignatureError};
use crate::tree::{HashEffort, RootHash};
use crate::verity::Uuid;

/// Longest partition of a signature that systemd reads, in bytes.
// The limit is systemd's: what is longer is refused there, so a longer one is a mistake here and not an error.
const SIGNATURE_MAX: u64 = 4 << 20;

pub(super) fn examine(image: SealedImage<'_>, effort: &HashEffort) -> Result<SealExamination> {
    let mut findings = OpenExamination::default();
    if !SystemdFiles::is_found(image.path) {
        findings.add(SealMistake::NotRaw);
    }
    let table = match PartitionTable::read(&**image.data)? {
        Ok(table) => table,
        Err(error) => {
            findings.add(match error {
                TableError::Missing => SealMistake::NoPartitionTable,
                TableError::Damaged(why) => SealMistake::BadPartitionTable(why),
            });
            return Ok(findings.conclude(None));
        }
    };
    if !table.has_backup {
        findings.add(SealMistake::NoBackupTable);
    }
    // A disk may have root and usr. systemd chooses by its own architecture, which is not known here: the first type
    // counts.
    let mut known = DdiType::all().filter(|kind| DdiPartitions::of(&table, *kind).data.is_some());
    let Some(kind) = known.next() else {
        findings.add(SealMistake::NoDataPartition);
        return Ok(findings.conclude(None));
    };
    let partitions = DdiPartitions::of(&table, kind);
    let signature = read_signature(image, &partitions, &mut findings)?;
    let root_hash = find_root_hash(image, kind, signature.as_ref(), &mut findings)?;
    if let Some(root_hash) = &root_hash {
        check_partitions(image, &partitions, root_hash, effort, &mut findings)?;
        check_signature(image, root_hash, signature.as_ref(), &mut findings);
    }
    Ok(findings.conclude(root_hash))
}

/// Partitions of one type of disk image. Of several, the first counts.
#[derive(Debug, Clone, Copy)]
struct DdiPartitions<'t> {
    data: Option<&'t DiskPartition>,
    hash_tree: Option<&'t DiskPartition>,
    signature: Option<&'t DiskPartition>,
}

impl<'t> DdiPartitions<'t> {
    fn of(table: &'t PartitionTable, kind: DdiType) -> Self {
        let find = |kind: Uuid| table.partitions.iter().find(|partition| partition.kind == kind);
        DdiPartitions { data: find(kind.data()), hash_tree: find(kind.hash_tree()), signature: find(kind.signature()) }
    }
}

/// Reads the partition of the signature; `None` if there is none, or none that can be read.
fn read_signature(
    image: SealedImage<'_>,
    partitions: &DdiPartitions<'_>,
    findings: &mut OpenExamination,
) -> Result<Option<DdiSignature>> {
    let Some(partition) = partitions.signature else {
        // Without a certificate, nobody demands a signature.
        if !image.certificates.is_empty() {
            findings.add(SealMistake::NoSignaturePartition);
        }
        return Ok(None);
    };
    findings.has_signature = true;
    // The length comes from the partition table: without the limit, it would decide how much memory is taken.
    let len = usize::try_from(partition.len.min(SIGNATURE_MAX)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; len];
    let read = image.data.read_exact_at(&mut bytes, partition.start);
    read.map_err(Error::io("cannot read the partition of the signature"))?;
    let signature = DdiSignature::parse(&bytes).filter(|_| partition.len <= SIGNATURE_MAX);
    if signature.is_none() {
        findings.add(SealMistake::BadSignaturePartition);
    }
    Ok(signature)
}

/// Returns the root hash of the file beside the image, or that of the signature.
fn find_root_hash(
    image: SealedImage<'_>,
    kind: DdiType,
    signature: Option<&DdiSignature>,
    findings: &mut OpenExamination,
) -> Result<Option<RootHash>> {
    let files = SystemdFiles::of(image.path);
    let path = if kind.is_usr() { files.usr_hash } else { files.root_hash };
    // Most such files end in a newline.
    let in_file = read_small(&path)?.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
    let text = match (in_file, signature) {
        // The file wins over the signature, as in systemd, and then the signature does not verify.
        (Some(in_file), Some(signature)) if in_file != signature.root_hash => {
            findings.add(SealMistake::OtherSignedHash { file: path.clone() });
            in_file
        }
        (Some(in_file), _) => in_file,
        (None, Some(signature)) => signature.root_hash.clone(),
        (None, None) => {
            findings.add(SealMistake::NoRootHash { expected: path });
            return Ok(None);
        }
    };
    match text.parse() {
        Ok(root_hash) => Ok(Some(root_hash)),
        Err(error) => {
            findings.add(SealMistake::BadRootHash { path: bad_hash_place(image, path), why: Error::to_string(&error) });
            Ok(None)
        }
    }
}

/// Returns the file that has a root hash: that beside the image, or the image itself.
fn bad_hash_place(image: SealedImage<'_>, beside: PathBuf) -> PathBuf {
    if beside.exists() { beside } else { image.path.to_owned() }
}

/// Compares the partitions with the root hash, and all data with the tree.
fn check_partitions(
    image: SealedImage<'_>,
    partitions: &DdiPartitions<'_>,
    root_hash: &RootHash,
    effort: &HashEffort,
    findings: &mut OpenExamination,
) -> Result<()> {
    let Some(data) = partitions.data else { return Ok(()) };
    let Some(hash_tree) = partitions.hash_tree else {
        findings.add(SealMistake::NoHashPartition);
        return Ok(());
    };
    let expected = RootHashHalves::of(root_hash);
    // systemd looks the partitions up by these UUIDs, so with another UUID they do not exist for it.
    for (partition, expected) in [(data, expected.data), (hash_tree, expected.hash_tree)] {
        if partition.uuid != expected {
            let found = partition.uuid.to_string();
            findings.add(SealMistake::PartitionUuid { found, expected: expected.to_string() });
        }
    }
    let bytes: Arc<dyn ReadAt> = Arc::new(ImageRange::new(image.data, data.start, data.len));
    // The hash partition begins with the superblock, and the offset counts from the partition.
    let tree = ImageRange::new(image.data, hash_tree.start, hash_tree.len);
    let found = FoundTree { file: &tree, offset: 0, is_appended: false };
    check_tree(SealedImage { data: &bytes, ..image }, found, root_hash, effort, findings)
}

/// Verifies the signature by the certificates, if there are both.
fn check_signature(
    image: SealedImage<'_>,
    root_hash: &RootHash,
    signature: Option<&DdiSignature>,
    findings: &mut OpenExamination,
) {
    let Some(signature) = signature else { return };
    let parsed = signature.signature().ok_or(SignatureError::BadSignature("it is not in base 64"));
    // systemd does not look at the fingerprint: it tries every certificate that it has.
    check_parsed_signature(image, root_hash, parsed.and_then(|der| DetachedSignature::parse(&der)), findings);
}
