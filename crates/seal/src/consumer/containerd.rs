//! containerd: a layer with its tree, and JSON beside it.
//!
//! Source: internal/dmverity and the EROFS snapshotter of containerd 2.4.

use std::path::Path;
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_blocks::io::FileAt;

use super::parts::{FoundTree, check_signature, check_tree, read_small, with_suffix};
use super::{OpenExamination, SealExamination, SealMistake, SealedImage};
use crate::containerd::LayerMetadata;
use crate::error::{Error, Result};
use crate::names::ContainerdFiles;
use crate::tree::{HashEffort, RootHash};
use crate::verity::{HashArea, Uuid};

pub(super) fn examine(image: SealedImage<'_>, effort: &HashEffort) -> Result<SealExamination> {
    let mut findings = OpenExamination::default();
    let files = ContainerdFiles::of(image.path);
    let Some(json) = read_small(&files.metadata)? else {
        findings.add(SealMistake::NoMetadata { expected: files.metadata });
        return Ok(findings.conclude(None));
    };
    let Some(metadata) = LayerMetadata::parse(&json) else {
        findings.add(SealMistake::BadMetadata { path: files.metadata });
        return Ok(findings.conclude(None));
    };
    let root_hash: RootHash = match metadata.root_hash.parse() {
        Ok(root_hash) => root_hash,
        Err(error) => {
            findings.add(SealMistake::BadRootHash { path: files.metadata, why: Error::to_string(&error) });
            return Ok(findings.conclude(None));
        }
    };
    if let Some(file) = open_hash_file(image, &metadata, &mut findings)? {
        let is_appended = metadata.hash_device.is_empty();
        let found = FoundTree { file: &*file, offset: metadata.hash_offset, is_appended };
        check_tree(image, found, &root_hash, effort, &mut findings)?;
        if HashArea::read(&*file, found.offset).is_ok_and(|area| area.superblock.uuid == Uuid::default()) {
            findings.add(SealMistake::NilUuid);
        }
    }
    let others = [".p7s", ".roothash.p7s", ".dmverity.sig"].map(|suffix| with_suffix(image.path, suffix));
    check_signature(image, &root_hash, files.signature, others, &mut findings)?;
    Ok(findings.conclude(Some(root_hash)))
}

/// Opens the file that has the tree: the layer, or one beside it.
fn open_hash_file(
    image: SealedImage<'_>,
    metadata: &LayerMetadata,
    findings: &mut OpenExamination,
) -> Result<Option<Arc<dyn ReadAt>>> {
    if metadata.hash_device.is_empty() {
        return Ok(Some(Arc::clone(image.data)));
    }
    let expected = image.path.parent().unwrap_or(Path::new("")).join(&metadata.hash_device);
    if !expected.exists() {
        findings.add(SealMistake::NoHashTree { expected });
        return Ok(None);
    }
    let file = FileAt::open(&expected, 0).map_err(Error::io("cannot read the hash tree"))?;
    Ok(Some(Arc::new(file)))
}
