//! SHA-256 digests of whole files, taken from the bytes that a build reads anyway: a digest that is stored in an image is
//! that of the data in it, even if the file changes right afterwards.
//!
//! Workers take the digests of files that one job reads. The conductor takes those of larger files, because their pieces
//! reach it in order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use packfs_blocks::mutex;
use sha2::{Digest, Sha256};

use super::cut::FileBlock;
use super::feed::FedBlocks;
use crate::Result;
use crate::source::Contents;

/// Number of zeros hashed at a time; they are on the stack. Not measured.
const ZEROS: usize = 64 << 10;
/// Number of bytes of a file read at a time. Not measured.
const STEP: u64 = 1 << 20;

/// SHA-256 of a file.
pub(crate) type FileDigest = [u8; 32];

/// Digests of files by number, from all threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileDigests(Arc<Mutex<HashMap<u32, FileDigest>>>);

impl FileDigests {
    /// Takes the digest of a file from all of its bytes.
    pub(super) fn whole(&self, file: u32, bytes: &[u8]) {
        mutex::lock(&self.0).insert(file, Sha256::digest(bytes).into());
    }

    /// Takes the digest of a file from all of its pieces.
    pub(super) fn cuts(&self, file: u32, cuts: &[FileBlock]) {
        let mut hasher = Sha256::new();
        cuts.iter().for_each(|cut| update(&mut hasher, cut));
        mutex::lock(&self.0).insert(file, hasher.finalize().into());
    }

    /// Takes the digest of a file of `size` bytes that is not packed.
    pub(super) fn unpacked(&self, file: u32, from: &dyn Contents, key: u64, size: u64) -> Result<()> {
        let mut open = from.open(key)?;
        let mut hasher = Sha256::new();
        let mut at = 0;
        let mut bytes = vec![0; usize::try_from(STEP.min(size)).expect("a step fits")];
        while at < size {
            let step = &mut bytes[..usize::try_from(STEP.min(size - at)).expect("a step fits")];
            open.read_exact_at(step, at)?;
            hasher.update(&*step);
            at += step.len() as u64;
        }
        open.finish()?;
        mutex::lock(&self.0).insert(file, hasher.finalize().into());
        Ok(())
    }
}

fn update(hasher: &mut Sha256, cut: &FileBlock) {
    match cut {
        FileBlock::Block(bytes, _) => hasher.update(&bytes[..]),
        FileBlock::Hole(len) => update_zeros(hasher, *len),
    }
}

fn update_zeros(hasher: &mut Sha256, mut len: u64) {
    let zeros = [0; ZEROS];
    while len > 0 {
        let step = usize::try_from(len).unwrap_or(ZEROS).min(ZEROS);
        hasher.update(&zeros[..step]);
        len -= step as u64;
    }
}

/// The conductor's side: the file whose pieces are arriving.
#[derive(Debug)]
pub(super) struct FileDigester {
    pub(super) summed: FileDigests,
    /// The file and its pieces so far; no hasher if it cannot be read.
    open: Option<(u32, Option<Sha256>)>,
}

impl FileDigester {
    pub(super) fn new(summed: FileDigests) -> FileDigester {
        FileDigester { summed, open: None }
    }

    /// Takes note of the next pieces of a file that no worker read as a whole.
    pub(super) fn take(&mut self, fed: &FedBlocks) {
        let FedBlocks::Blocks { file, cuts, last } = fed else { return };
        let file = *file;
        let last = *last;
        let is_begun = self.open.as_ref().is_some_and(|(open, _)| *open == file);
        if !is_begun {
            // A worker has hashed all of it.
            if mutex::lock(&self.summed.0).contains_key(&file) {
                return;
            }
            self.open = Some((file, Some(Sha256::new())));
        }
        let Some((_, hasher)) = &mut self.open else { return };
        match (cuts, &mut *hasher) {
            (Ok(cuts), Some(hasher)) => cuts.iter().for_each(|cut| update(hasher, cut)),
            _ => *hasher = None,
        }
        if last && let Some((_, Some(hasher))) = self.open.take() {
            mutex::lock(&self.summed.0).insert(file, hasher.finalize().into());
        }
    }

    /// Returns the digests of `files` files; that of a file that cannot be read has no meaning.
    pub(super) fn finish(self, files: usize) -> Vec<FileDigest> {
        let mut sums = vec![FileDigest::default(); files];
        for (file, sum) in std::mem::take(&mut *mutex::lock(&self.summed.0)) {
            sums[file as usize] = sum;
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use packfs_blocks::Buffers;

    use super::*;

    fn block(bytes: &[u8]) -> FileBlock {
        let mut buffer = Buffers::new(64).take(bytes.len());
        buffer.copy_from_slice(bytes);
        FileBlock::Block(buffer, packfs_blocks::Digest::of(bytes))
    }

    fn blocks(file: u32, cuts: Vec<FileBlock>, last: bool) -> FedBlocks {
        FedBlocks::Blocks { file, cuts: Ok(cuts), last }
    }

    #[test]
    fn digests_do_not_depend_on_who_takes_them() {
        let mut contents = b"begin".to_vec();
        contents.resize(5 + 3 * ZEROS + 1, 0);
        contents.extend_from_slice(b"end");
        let hole = 3 * ZEROS as u64 + 1;
        let mut sums = FileDigester::new(FileDigests::default());
        sums.summed.whole(0, &contents);
        sums.summed.cuts(1, &[block(b"begin"), FileBlock::Hole(hole), block(b"end")]);
        sums.take(&blocks(1, vec![block(b"another, but a worker was first")], true));
        sums.take(&blocks(2, vec![block(b"beg"), block(b"in")], false));
        sums.take(&blocks(2, vec![FileBlock::Hole(hole)], false));
        sums.take(&blocks(2, vec![block(b"end")], true));
        let known: FileDigest = Sha256::digest(&contents).into();
        assert_eq!(sums.finish(3), [known; 3]);
    }

    #[test]
    fn a_file_that_cannot_be_read_has_no_digest() {
        let mut sums = FileDigester::new(FileDigests::default());
        sums.take(&blocks(0, vec![block(b"a")], false));
        let error = crate::Error::Misuse("unreadable".into());
        sums.take(&FedBlocks::Blocks { file: 0, cuts: Err(error), last: false });
        sums.take(&blocks(0, vec![block(b"b")], true));
        sums.take(&blocks(1, vec![block(b"c")], true));
        assert_eq!(sums.finish(2), [FileDigest::default(), Sha256::digest(b"c").into()]);
    }
}
