//! Updates by indexes of zsync: whatever the old file is, the new one is made bit for bit.

use std::fs::File;

use packfs_blocks::ReadAt;
use packfs_blocks::io::Storage;
use packfs_blocks::testing::{Random, noise};
use packfs_delta::Error;
use packfs_delta::zsync::{BlockReceiver, IndexOptions, ZsyncIndex, find_blocks, find_kept_blocks, verify};
use proptest::prelude::*;

use crate::common::effort;

/// Makes a file with some bytes, as an earlier attempt left it.
fn target(bytes: &[u8]) -> File {
    let file = tempfile::tempfile().unwrap();
    Storage::write_all_at(&file, bytes, 0).unwrap();
    file
}

fn contents(target: &File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(Storage::len(target).unwrap()).unwrap()];
    Storage::read_exact_at(target, &mut bytes, 0).unwrap();
    bytes
}

fn index_of(new: &dyn ReadAt, block_size: u32) -> ZsyncIndex {
    let options = IndexOptions::default().set(|all| all.block_size = Some(block_size));
    let index = ZsyncIndex::of_file(new, &options, &effort(2)).unwrap();
    ZsyncIndex::read(&index.encode()).unwrap()
}

/// Updates `old` to `new`, into what `target` has already; returns the result and the number of bytes fetched.
fn update(old: &dyn ReadAt, new: &[u8], block_size: u32, part: Vec<u8>) -> (Vec<u8>, u64) {
    let index = index_of(&new.to_vec(), block_size);
    let target = target(&part);
    let mut plan = index.plan();
    find_kept_blocks(&index, &target, &mut plan, &effort(2)).unwrap();
    find_blocks(&index, old, &mut plan, &effort(2)).unwrap();
    Storage::set_len(&target, index.file_len()).unwrap();
    plan.copy_blocks(old, &target, &effort(2)).unwrap();
    for range in plan.missing_ranges() {
        let mut receiver = BlockReceiver::new(&index, &target, range.clone());
        // Bytes come in pieces of any length.
        let bytes = &new[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
        bytes.chunks(777).for_each(|piece| receiver.take(piece));
        receiver.finish().unwrap();
    }
    verify(&index, &target, &effort(2)).unwrap();
    (contents(&target), plan.missing_bytes())
}

/// An edit of a file.
#[derive(Debug, Clone)]
struct FileEdit {
    at: usize,
    removed: usize,
    added: usize,
    seed: u64,
}

fn edits() -> impl Strategy<Value = Vec<FileEdit>> {
    let edit = (0usize..200_000, 0usize..9000, 0usize..9000, 0u64..3).prop_map(|(at, removed, added, seed)| FileEdit {
        at,
        removed,
        added,
        seed,
    });
    proptest::collection::vec(edit, 0..12)
}

fn edited(mut file: Vec<u8>, edits: &[FileEdit]) -> Vec<u8> {
    for FileEdit { at, removed, added, seed } in edits {
        let at = (*at).min(file.len());
        let end = (at + removed).min(file.len());
        // Some edits are zeros, as in images.
        let added = if *seed == 0 { vec![0; *added] } else { noise(*added, *seed) };
        file.splice(at..end, added);
    }
    file
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_edits_are_updated_bit_for_bit(
        len in 0usize..200_000,
        to_old in edits(),
        to_new in edits(),
        to_part in proptest::option::of(edits()),
        block_bits in 6u32..13,
    ) {
        let base = noise(len, 9);
        let old = edited(base.clone(), &to_old);
        let new = edited(base, &to_new);
        let part = to_part.map_or_else(Vec::new, |edits| edited(new.clone(), &edits));
        let (result, fetched) = update(&old, &new, 1 << block_bits, part);
        prop_assert!(result == new);
        prop_assert!(fetched <= new.len() as u64);
    }
}

#[test]
fn what_an_earlier_attempt_left_is_not_fetched_again() {
    let old = noise(500_000, 1);
    let new = [noise(300_000, 2), old[..400_000].to_vec()].concat();
    let fetched = |part: &[u8]| {
        let (result, fetched) = update(&old, &new, 2048, part.to_vec());
        assert!(result == new);
        fetched
    };
    assert!((300_000..306_000).contains(&fetched(&[])));
    assert!((100_000..106_000).contains(&fetched(&new[..200_000])));
    assert_eq!(fetched(&new), 0);
    // A part of another file is not used.
    assert!((300_000..306_000).contains(&fetched(&noise(700_000, 3))));
}

#[test]
fn a_server_with_another_file_is_noticed_at_the_first_block() {
    let new = noise(100_000, 1);
    let index = index_of(&new, 2048);
    let target = target(&[]);
    let mut receiver = BlockReceiver::new(&index, &target, 2048..8192);
    receiver.take(&new[2048..4096]);
    receiver.take(&noise(4096, 2));
    let error = receiver.finish().unwrap_err();
    assert!(matches!(error, Error::OtherFile { offset: 4096 }), "{error}");
    let mut short = BlockReceiver::new(&index, &target, 2048..8192);
    short.take(&new[2048..5000]);
    assert!(matches!(short.finish().unwrap_err(), Error::OtherFile { offset: 4096 }));
    let error = verify(&index, &target, &effort(0)).unwrap_err();
    assert!(matches!(error, Error::WrongResult(_)), "{error}");
}

/// Bytes that anybody may send in place of an index give an index or an error.
#[test]
fn hostile_indexes_give_errors_and_never_a_wrong_file() {
    let old = noise(60_000, 1);
    let new = [noise(3000, 2), old.clone()].concat();
    let whole = index_of(&new, 256).encode();
    let mut random = Random::new(4);
    for round in 0..2000 {
        let mut hostile = whole.clone();
        for _ in 0..=random.below(2) {
            let reach = if round % 2 == 0 { 250 } else { hostile.len() };
            let at = random.below(reach);
            hostile[at] = random.number().to_le_bytes()[0];
        }
        let Ok(index) = ZsyncIndex::read(&hostile) else { continue };
        let mut plan = index.plan();
        find_blocks(&index, &old, &mut plan, &effort(0)).unwrap();
        let target = target(&new);
        plan.copy_blocks(&old, &target, &effort(0)).unwrap();
        if verify(&index, &target, &effort(0)).is_ok() {
            assert!(index.sha256().is_none() || contents(&target) == new);
        }
    }
}
