//! Images are those of the crate composefs, which a program outside of this workspace makes
//! (scripts/build-composefs-oracle.sh), and this crate's reader and check understand them.

mod dump;
mod known;
mod random;

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{FileContent, INLINE_MAX, ObjectDigest, write};
use crate::testing::{have, skipped};
use crate::tree::{FileData, Ino, Kind, Tree};
use crate::{Result, erofs};

/// Hash function of the objects.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hash {
    Sha256,
    Sha512,
}

const PROGRAM: &str = "composefs-oracle";

fn has_oracle(test: &str) -> bool {
    let has = have(PROGRAM);
    if !has {
        skipped(test, PROGRAM);
    }
    has
}

/// Returns the content of each file. Digests are those of the bytes, if not those of fs-verity.
fn contents(tree: &Tree, hash: Hash) -> HashMap<Ino, FileContent> {
    let mut files = HashMap::new();
    for ino in tree.inos() {
        let Kind::File { size: size @ 1.., data } = tree.inode(ino).kind else { continue };
        let bytes = match data {
            FileData::Source { from, key } => {
                let mut bytes = vec![0; usize::try_from(size).unwrap()];
                from.open(key).unwrap().read_exact_at(&mut bytes, 0).unwrap();
                bytes
            }
            // A file too long to have any.
            _ => size.to_le_bytes().repeat(9),
        };
        let content = if bytes.len() <= INLINE_MAX {
            FileContent::Inline(bytes.into())
        } else {
            let mut digest = [0; 64];
            blake3::Hasher::new().update(&bytes).finalize_xof().fill(&mut digest);
            FileContent::Object(match hash {
                Hash::Sha256 => ObjectDigest::Sha256(*digest.first_chunk().unwrap()),
                Hash::Sha512 => ObjectDigest::Sha512(digest),
            })
        };
        files.insert(ino, content);
    }
    files
}

fn ours(tree: &mut Tree, files: &HashMap<Ino, FileContent>) -> Result<Vec<u8>> {
    let mut image = Vec::new();
    let written = write(tree, files, Path::new("image"), &mut image)?;
    assert_eq!(written.len, image.len() as u64);
    Ok(image)
}

/// Returns the image that the oracle makes of the same tree.
fn theirs(tree: &Tree, files: &HashMap<Ino, FileContent>, hash: Hash) -> Vec<u8> {
    let argument = if hash == Hash::Sha256 { "sha256" } else { "sha512" };
    let mut program = Command::new(PROGRAM);
    let mut child = program.arg(argument).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let text = dump::text(tree, files);
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the oracle refuses\n{text}");
    output.stdout
}

/// Returns what is wrong with an image, by this crate's reader and check.
fn findings(image: Vec<u8>) -> Vec<String> {
    let reader = erofs::ErofsReader::open(std::sync::Arc::new(image), erofs::ReadOptions::default()).unwrap();
    crate::testing::findings(&reader, 0)
}

/// Describes the first difference of two images.
fn first_difference(one: &[u8], other: &[u8]) -> Option<String> {
    let at = (0..one.len().max(other.len())).find(|at| one.get(*at) != other.get(*at))?;
    let words = |image: &[u8]| format!("{:02x?}", &image[at.min(image.len()) & !15..(at + 32).min(image.len())]);
    Some(format!("at {at} of {} and {}:\n{}\n{}", one.len(), other.len(), words(one), words(other)))
}
