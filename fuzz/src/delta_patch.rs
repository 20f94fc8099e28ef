//! Any bytes as a patch of a small image. A test of `packfs-delta` runs this over the corpus, too.
//!
//! Digests, the compression of programs and the length of the header are added here, because a fuzzer finds none of
//! them. What an input consists of is said at [`assemble`].

use std::io::{self, Write};
use std::sync::Arc;

use packfs_blocks::Digest;
use packfs_delta::{Patch, PatchEffort, apply_patch};

use crate::take::Take;

/// The images that patches are for. They are files, so that the corpus fits them even if builds change.
const OLD_IMAGES: [&[u8]; 2] = [include_bytes!("delta_patch/old.sqfs"), include_bytes!("delta_patch/old.erofs")];
/// Longest result: programs can copy the image as often as they like.
const RESULT_MAX: usize = 1 << 20;
/// Longest block of a frame of zstd.
const FRAME_BLOCK_MAX: usize = 128 << 10;

/// Takes a result up to [`RESULT_MAX`].
#[derive(Default)]
struct ResultStart(Vec<u8>);

impl Write for ResultStart {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > RESULT_MAX {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Applies the patch of an input. What it gives has the length and the digest that the patch promises.
pub fn look(bytes: &[u8]) {
    let mut take = Take(bytes);
    let flags = take.byte();
    let old = OLD_IMAGES[usize::from(flags & 1)];
    let patch = if flags & 2 == 0 { assemble(old, &mut take) } else { with_digest(take.0.to_vec()) };
    let Ok(patch) = Patch::open(Arc::new(patch)) else { return };
    let mut result = ResultStart::default();
    let effort = PatchEffort { threads: 0, ..PatchEffort::default() };
    if let Ok(applied) = apply_patch(&old.to_vec(), &patch, &mut result, &effort) {
        assert_eq!(result.0.len() as u64, applied.new_file.len);
        assert_eq!(Digest::of(&result.0).as_bytes(), &applied.new_file.digest);
    }
}

/// Makes a patch of the parts in an input: the length of the header (2) and the header, then for each group the length of
/// its program (2), the program as it is before compression, the length of the reference (4), that of the plain bytes (4),
/// and these compressed, after their length (2).
///
/// The header gets the length and digest of the old image.
fn assemble(old: &[u8], take: &mut Take<'_>) -> Vec<u8> {
    let header_len = take.short();
    let mut header = take.bytes(header_len.into()).to_vec();
    let old_identity = [&(old.len() as u64).to_le_bytes()[..], Digest::of(old).as_bytes()].concat();
    if let Some(place) = header.get_mut(..old_identity.len()) {
        place.copy_from_slice(&old_identity);
    }
    let mut patch = b"PFSDELT\x01".to_vec();
    put_len(&mut patch, header.len());
    patch.extend(header);
    while !take.is_empty() {
        let program_len = take.short();
        let program = take.bytes(program_len.into());
        let reference_len = take.word();
        let plain_len = take.word();
        let packed_plain_len = take.short();
        let packed_plain = take.bytes(packed_plain_len.into());
        let packed_program = stored_frame(program);
        put_len(&mut patch, packed_program.len());
        put_len(&mut patch, program.len());
        patch.extend(reference_len.to_le_bytes());
        patch.extend(plain_len.to_le_bytes());
        put_len(&mut patch, packed_plain.len());
        patch.extend(packed_program);
        patch.extend(packed_plain);
    }
    with_digest([patch, vec![0; 32]].concat())
}

fn put_len(to: &mut Vec<u8>, len: usize) {
    to.extend(u32::try_from(len).expect("inputs are short").to_le_bytes());
}

/// Puts the right digest at the end of a patch.
fn with_digest(mut patch: Vec<u8>) -> Vec<u8> {
    if let Some(end) = patch.len().checked_sub(32) {
        let digest = Digest::of(&patch[..end]);
        patch[end..].copy_from_slice(digest.as_bytes());
    }
    patch
}

/// Returns a frame of zstd with the bytes in blocks that are stored as they are (RFC 8878, 3.1.1).
fn stored_frame(bytes: &[u8]) -> Vec<u8> {
    // One segment, and a content size of four bytes.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    put_len(&mut frame, bytes.len());
    let mut left = bytes;
    loop {
        let (block, rest) = left.split_at(left.len().min(FRAME_BLOCK_MAX));
        let is_last = rest.is_empty();
        let block_header = u32::try_from(block.len()).expect("inputs are short") << 3 | u32::from(is_last);
        frame.extend(&block_header.to_le_bytes()[..3]);
        frame.extend(block);
        if is_last {
            return frame;
        }
        left = rest;
    }
}
