//! systemd: files beside an image without a partition table.
//!
//! Source: `verity_settings_load` and `dissect_image` in src/shared/dissect-image.c. The root hash is that of an attribute,
//! or of a file; it may have blanks, and is at least 16 bytes. Without both root hash and tree, the image is mounted as it is.

use std::path::{Path, PathBuf};

use packfs_blocks::io::FileAt;

use super::parts::{FoundTree, check_signature, check_tree, first_existing, read_small, with_suffix};
use super::{OpenExamination, SealExamination, SealMistake, SealedImage};
use crate::contents::ImageContents;
use crate::error::{Error, Result};
use crate::names::SystemdFiles;
use crate::tree::{HashEffort, RootHash};

/// Attribute of the image that comes before the file with the root hash, as in `verity_settings_load`.
const ROOT_HASH_ATTRIBUTE: &str = "user.verity.roothash";
/// Block size of the tree that is looked for at the end of an image, in bytes. It is the default of veritysetup and
/// packfs; another one leaves only a less helpful message.
const USUAL_BLOCK_SIZE: u32 = 4096;

pub(super) fn examine(image: SealedImage<'_>, effort: &HashEffort) -> Result<SealExamination> {
    let mut findings = OpenExamination::default();
    if !SystemdFiles::is_found(image.path) {
        findings.add(SealMistake::NotRaw);
    }
    let files = SystemdFiles::of(image.path);
    let root_hash = find_root_hash(image.path, &files.root_hash, &mut findings)?;
    let tree = find_tree(image, &files.hash_tree, &mut findings)?;
    if let Some(root_hash) = &root_hash {
        if let Some(file) = tree {
            let found = FoundTree { file: &file, offset: 0, is_appended: false };
            check_tree(image, found, root_hash, effort, &mut findings)?;
        }
        let others = [".p7s", ".roothash.p7", ".roothash.sig", ".verity.p7s"].map(|suffix| beside(image.path, suffix));
        let with_raw = with_suffix(image.path, ".roothash.p7s");
        check_signature(
            image,
            root_hash,
            files.signature,
            others.into_iter().flatten().chain([with_raw]),
            &mut findings,
        )?;
    }
    Ok(findings.conclude(root_hash))
}

/// Returns names of a file with a suffix: instead of `.raw` and after it.
fn beside(image: &Path, suffix: &str) -> [PathBuf; 2] {
    [with_suffix(&image.with_extension(""), suffix), with_suffix(image, suffix)]
}

/// Finds the root hash as systemd does.
fn find_root_hash(image: &Path, expected: &Path, findings: &mut OpenExamination) -> Result<Option<RootHash>> {
    let in_file = read_small(expected)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let in_attribute = root_hash_attribute(image);
    // Whitespace is no difference: systemd removes it before it reads the digits.
    if let (Some(file), Some(attribute)) = (&in_file, &in_attribute)
        && without_blanks(file) != without_blanks(attribute)
    {
        findings.add(SealMistake::OtherAttribute { file: expected.to_owned() });
    }
    // The attribute wins, as in systemd.
    let Some(text) = in_attribute.or(in_file) else {
        let others = [".roothash", ".roothash.txt", ".root-hash", ".root_hash", ".hash", ".verity.roothash"];
        let others = others.into_iter().flat_map(|suffix| beside(image, suffix));
        let expected = expected.to_owned();
        findings.add(match first_existing(others) {
            Some(found) => SealMistake::RootHashName { found, expected },
            None => SealMistake::NoRootHash { expected },
        });
        return Ok(None);
    };
    match without_blanks(&text).parse() {
        Ok(root_hash) => Ok(Some(root_hash)),
        Err(error) => {
            findings.add(SealMistake::BadRootHash { path: expected.to_owned(), why: Error::to_string(&error) });
            Ok(None)
        }
    }
}

fn without_blanks(text: &str) -> String {
    text.chars().filter(|character| !character.is_whitespace()).collect()
}

/// Returns the root hash in the attribute of the image; attributes that cannot be read count as none.
fn root_hash_attribute(image: &Path) -> Option<String> {
    /// More than the digits of the longest hash.
    const TEXT_MAX: usize = 256;
    let mut text = [0; TEXT_MAX];
    // A longer attribute is an error of the call, and counts as none: it is no root hash.
    let len = rustix::fs::getxattr(image, ROOT_HASH_ATTRIBUTE, &mut text).ok()?;
    Some(String::from_utf8_lossy(&text[..len]).into_owned())
}

/// Finds the hash tree, or what stands where it should be.
fn find_tree(image: SealedImage<'_>, expected: &Path, findings: &mut OpenExamination) -> Result<Option<FileAt>> {
    if expected.exists() {
        return FileAt::open(expected, 0).map(Some).map_err(Error::io("cannot read the hash tree"));
    }
    // Without a tree nothing is verified, and nobody is told: the usual wrong names are worth a message of their own.
    let others = [".verity", ".hashtree", ".hash-tree", ".hash", ".dmverity"];
    let others = others.into_iter().flat_map(|suffix| beside(image.path, suffix));
    let contents = ImageContents::of(image.data);
    let appended = contents.and_then(|contents| contents.appended_tree(&**image.data, USUAL_BLOCK_SIZE));
    let expected = expected.to_owned();
    findings.add(match (first_existing(others), appended) {
        (Some(found), _) => SealMistake::HashTreeName { found, expected },
        (None, Some(offset)) => SealMistake::AppendedTree { offset },
        (None, None) => SealMistake::NoHashTree { expected },
    });
    Ok(None)
}
