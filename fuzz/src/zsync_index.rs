//! Any bytes as an index of zsync, and an update by it. A test of `packfs-delta` runs this over the corpus, too.

use std::io::Cursor;
use std::sync::Mutex;

use packfs_blocks::ReadAt;
use packfs_delta::PatchEffort;
use packfs_delta::zsync::{BlockReceiver, IndexOptions, ZsyncIndex, find_blocks, verify};

use crate::take::Take;

/// Longest new file that is made: an index may promise a file of any length.
const NEW_MAX: u64 = 1 << 20;

/// Takes a byte of flags, the length (2) of an index or of a new file, these bytes, and an old file.
///
/// With flag 1 the index is that of the new file, and the update gives this file.
pub fn look(bytes: &[u8]) {
    let mut take = Take(bytes);
    let is_made = take.byte() & 1 == 1;
    let len = usize::from(take.short());
    let first = take.bytes(len).to_vec();
    let old = take.0.to_vec();
    let effort = PatchEffort { threads: 0, ..PatchEffort::default() };
    if !is_made {
        let Ok(index) = ZsyncIndex::read(&first) else { return };
        assert!(ZsyncIndex::read(&index.encode()).is_ok_and(|again| again == index));
        update(&index, &old, &[], &effort);
        return;
    }
    let index = ZsyncIndex::of_file(&first, &IndexOptions::default(), &effort).expect("bytes in memory can be read");
    let index = ZsyncIndex::read(&index.encode()).expect("what was written can be read");
    assert!(update(&index, &old, &first, &effort).is_some_and(|target| target == first));
}

/// Makes the new file of the old one and of `new`, as far as that has the bytes; returns it if it is what the index says.
fn update(index: &ZsyncIndex, old: &dyn ReadAt, new: &[u8], effort: &PatchEffort) -> Option<Vec<u8>> {
    let mut plan = index.plan();
    find_blocks(index, old, &mut plan, effort).expect("bytes in memory can be read");
    assert!(plan.copied_blocks() <= plan.blocks() && plan.missing_bytes() <= index.file_len());
    if index.file_len() > NEW_MAX {
        return None;
    }
    let target = Mutex::new(Cursor::new(Vec::new()));
    plan.copy_blocks(old, &target, effort).expect("there is room in memory");
    for range in plan.missing_ranges() {
        let mut receiver = BlockReceiver::new(index, &target, range.clone());
        let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
        receiver.take(new.get(range).unwrap_or_default());
        receiver.finish().ok()?;
    }
    verify(index, &target, effort).ok()?;
    Some(target.into_inner().ok()?.into_inner())
}
