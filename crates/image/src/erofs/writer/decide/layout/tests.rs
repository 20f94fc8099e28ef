//! Blocks of a file that arrive in order, and the shape that they get.

use super::*;
use crate::OnError;
use crate::erofs::kernel::Kernel;
use crate::erofs::writer::decide::content_cuts::ContentCuts;
use crate::erofs::writer::decide::staying_extents::StayingRules;
use crate::erofs::writer::encode::piece::TailPolicy;
use crate::erofs::writer::stored::data::IndexForm;

fn rules() -> DataRules {
    DataRules {
        longest_file: u64::MAX,
        align: 4096,
        device: 0,
        form: IndexForm { block_bits: 12, algorithm: 0, encoded: false, compact: true },
        staying: StayingRules { target_kernel: Kernel::DEFAULT, has_metabox: false },
        piece: 2 << 20,
        cuts: ContentCuts::new(None),
        fragment_max: 96 << 10,
        tail_policy: TailPolicy::Fragment,
        all_fragments: false,
        raw: false,
        chunks: false,
        scattered: true,
        sparse: true,
        more_packed: false,
        inline_tails: true,
        dedup: true,
        chunk: None,
        on_error: OnError::Stop,
    }
}

#[test]
fn holes_decide_how_a_file_is_stored() {
    type Change = fn(&mut DataRules);
    let mib = 1u64 << 20;
    let gib = 1u64 << 30;
    let table: [(Change, u64, u64, StorageLayout); 12] = [
        (|_| {}, mib, 0, StorageLayout::Compressed),
        (|_| {}, 63 * mib, 0, StorageLayout::Compressed),
        (|_| {}, 64 * mib, 0, StorageLayout::Sparse),
        // An index of 2 MiB for less than 4 MiB of data.
        (|_| {}, gib, 4 * mib, StorageLayout::Sparse),
        (|_| {}, gib, 4 * mib + 2, StorageLayout::Compressed),
        (|rules| rules.sparse = false, gib, 0, StorageLayout::Compressed),
        (|rules| rules.form.encoded = true, gib, 0, StorageLayout::Compressed),
        (|rules| rules.scattered = false, gib, 0, StorageLayout::Compressed),
        (|rules| rules.raw = true, gib, 0, StorageLayout::Raw),
        (|rules| rules.all_fragments = true, gib, 0, StorageLayout::Sparse),
        (|rules| rules.all_fragments = true, 4 * mib, 2 * mib, StorageLayout::Compressed),
        (|rules| rules.all_fragments = true, 4 * mib, 2 * mib + 1, StorageLayout::Fragment),
    ];
    for (n, (change, size, data_len, want)) in table.into_iter().enumerate() {
        let mut rules = rules();
        change(&mut rules);
        assert_eq!(StorageLayout::choose(&rules, size, &|| data_len), want, "{n}");
    }
}

#[test]
fn a_row_ends_at_the_first_piece_elsewhere() {
    let rules = DataRules { piece: 8192, ..rules() };
    let mut blocks = RawBlocks::new(&rules);
    assert!(blocks.is_empty() && blocks.goes_on(7 * 4096));
    blocks.push(4096);
    assert!(blocks.goes_on(4096 + 8192) && !blocks.goes_on(8192));
    blocks.push(4096 + 8192);
    assert!(blocks.goes_on(4096 + 2 * 8192));
    blocks.push_hole(8192);
    blocks.push_hole(100);
    assert!(!blocks.goes_on(4096 + 3 * 8192) && blocks.ends_with_hole());
    blocks.push(4096 + 3 * 8192);
    assert!(!blocks.goes_on(4096 + 4 * 8192) && !blocks.ends_with_hole());
    let PendingLocation::Other(other) = blocks.finish() else { panic!("a hole is in chunks only") };
    let RareLocation::Chunks(stretches) = *other else { panic!("a hole is in chunks only") };
    let at = |start| BlockStretch::At(start);
    assert_eq!(stretches[..], [at(4096), at(4096 + 8192), BlockStretch::Hole(8292), at(4096 + 3 * 8192)]);
}

#[test]
fn a_finished_file_has_the_form_it_took() {
    let tail = KeptTail::new(7, 100).unwrap();
    type Fill = fn(&mut RawBlocks, KeptTail);
    let table: [(bool, Fill, &str); 9] = [
        (false, |_, _| {}, "Hole"),
        (false, |blocks, _| blocks.push(4096), "Row { start: 4096, tail: none }"),
        (false, |blocks, _| (0..3).for_each(|n| blocks.push(n * 8192)), "Row { start: 0, tail: none }"),
        (false, |blocks, tail| blocks.add(4096, tail), "Row { start: 4096, tail }"),
        (false, |blocks, tail| (blocks.push(0), blocks.add(8192, tail)).1, "Row { start: 0, tail }"),
        (false, |blocks, _| blocks.push_hole(1 << 40), "Hole"),
        (false, |blocks, _| (blocks.push_hole(8192), blocks.push(0)).1, "Chunks"),
        (true, |blocks, _| blocks.push(4096), "Chunks"),
        (true, |_, _| {}, "Hole"),
    ];
    for (n, (chunks, fill, want)) in table.into_iter().enumerate() {
        let mut blocks = RawBlocks::new(&DataRules { chunks, piece: 8192, ..rules() });
        fill(&mut blocks, tail);
        let found = match blocks.finish() {
            PendingLocation::Hole => "Hole".to_owned(),
            PendingLocation::Row(start) => format!("Row {{ start: {start}, tail: none }}"),
            PendingLocation::Other(other) => match *other {
                RareLocation::Tailed { start, .. } => format!("Row {{ start: {start}, tail }}"),
                RareLocation::Chunks(_) => "Chunks".to_owned(),
                other => format!("{other:?}"),
            },
            other => format!("{other:?}"),
        };
        assert_eq!(found, want, "{n}");
    }
}
