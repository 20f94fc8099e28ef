//! Checks the digests that files have as attributes: Linux shares the page cache of files with equal ones, so a wrong
//! digest shows one file the data of another.

use packfs_blocks::Progress;
use packfs_blocks::units::Size;
use sha2::{Digest, Sha256};

use super::inodes::{VisitedInode, VisitedInodes};
use crate::build::FileDigest;
use crate::check::in_order;
use crate::erofs::format::INODE_DIGEST_ALGORITHM;
use crate::erofs::reader::ErofsReader;
use crate::erofs::reader::data::read_file;
use crate::erofs::reader::inode::{Inode, STRUCTURE};
use crate::erofs::reader::xattr::StoredXattr;
use crate::{Error, Part, Result};
use packfs_tree::{CheckRemark, FindingCollector};

/// Number of bytes read at a time.
const STEP: u64 = 1 << 20;
/// Number of bytes of all files together that are compared: for each byte of the image, and at least. Holes and shared
/// clusters cost an image next to nothing, and hashing them takes time.
const PER_BYTE: u64 = 64;
const AT_LEAST: u64 = 16 << 30;

/// Returns the digest in an attribute; `None` if it is of an unknown kind.
pub(super) fn of(pair: &StoredXattr) -> Option<FileDigest> {
    // Other algorithms are left to newer readers.
    pair.value.strip_prefix(INODE_DIGEST_ALGORITHM)?.try_into().ok()
}

/// Compares the data of files with their digests.
pub(super) fn check(
    reader: &ErofsReader,
    inodes: &VisitedInodes,
    part: Part,
    threads: usize,
    progress: &Progress,
    report: &mut FindingCollector<'_>,
) -> Result<()> {
    let count = inodes.digests.len() as u128;
    let found = |n: usize| &inodes.found[n].inode;
    // Holes count for an image, too: a file of petabytes is a few bytes of index.
    let mut left = reader.disk.total_len().saturating_mul(PER_BYTE).max(AT_LEAST);
    let mut files: Vec<(usize, Option<FileDigest>)> = Vec::new();
    // Files of other parts count, too, so that the same files are left out whatever the part.
    for (at, (n, sum)) in inodes.digests.iter().enumerate() {
        let rest = left.checked_sub(found(*n).size);
        // A file that is too long is left out, and shorter ones after it may fit.
        left = rest.unwrap_or(left);
        if part.contains(at as u128, count) {
            files.push((*n, rest.map(|_| *sum)));
        }
    }
    let sizes = files.iter().filter(|(_, sum)| sum.is_some()).map(|(n, _)| found(*n).size);
    Progress::add(&progress.total, sizes.fold(0, u64::saturating_add));
    let work = |files: &[(usize, Option<FileDigest>)], buf: &mut Vec<u8>| {
        let compared = files.iter().filter_map(|(n, sum)| match sum {
            Some(sum) => compare(reader, found(*n), sum, buf, progress),
            None => Some(left_out(found(*n))),
        });
        compared.collect()
    };
    // One file a job: a digest cannot be divided.
    in_order(threads, files.chunks(1), report, work)
}

fn left_out(inode: &Inode) -> CheckRemark {
    let text = format!(
        "inode {}: {} are not compared with their digest, as the image has far less data",
        inode.nid.0,
        Size(inode.size)
    );
    CheckRemark::Note(STRUCTURE, inode.place.byte, text)
}

/// Compares the data of a file with its digest.
fn compare(
    reader: &ErofsReader,
    inode: &Inode,
    sum: &FileDigest,
    buf: &mut Vec<u8>,
    progress: &Progress,
) -> Option<CheckRemark> {
    let mut hasher = Sha256::new();
    let mut at = 0;
    while at < inode.size {
        if progress.is_cancelled() {
            return Some(CheckRemark::Error(Error::Cancelled));
        }
        let step = STEP.min(inode.size - at);
        buf.resize(usize::try_from(step).expect("at most a step"), 0);
        // Damage of the data itself is reported where the data is.
        if read_file(reader, inode, buf, at).is_err() {
            Progress::add(&progress.done, inode.size - at);
            return None;
        }
        hasher.update(&*buf);
        at += step;
        Progress::add(&progress.done, step);
    }
    if hasher.finalize()[..] == *sum {
        return None;
    }
    let why = format!("inode {}: its data does not have the digest that its attribute says", inode.nid.0);
    Some(CheckRemark::Error(Error::corrupt(STRUCTURE, inode.place.byte, why)))
}

impl VisitedInodes {
    /// Takes note of the digest of an inode, if it has one.
    pub(super) fn stamp(&mut self, n: usize, digest: Option<FileDigest>) {
        let VisitedInode { inode, .. } = &self.found[n];
        self.digests.extend(digest.filter(|_| inode.size > 0).map(|digest| (n, digest)));
    }
}
