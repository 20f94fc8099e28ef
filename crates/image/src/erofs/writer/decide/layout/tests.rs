//! Blocks of a file that arrive in order, and the shape that they get.

use super::*;
use crate::OnError;
use crate::erofs::writer::encode::piece::Ending;
use crate::erofs::writer::stored::data::Form;

fn rules() -> Rules {
    Rules {
        longest_file: u64::MAX,
        align: 4096,
        device: 0,
        form: Form { block_bits: 12, algorithm: 0, encoded: false, compact: true },
        piece: 2 << 20,
        fragment_max: 96 << 10,
        ending: Ending::Fragment,
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
    type Change = fn(&mut Rules);
    let (mib, gib) = (1u64 << 20, 1u64 << 30);
    let table: [(Change, u64, u64, Way); 12] = [
        (|_| {}, mib, 0, Way::Compressed),
        (|_| {}, 63 * mib, 0, Way::Compressed),
        (|_| {}, 64 * mib, 0, Way::Sparse),
        // An index of 2 MiB for less than 4 MiB of data.
        (|_| {}, gib, 4 * mib, Way::Sparse),
        (|_| {}, gib, 4 * mib + 2, Way::Compressed),
        (|rules| rules.sparse = false, gib, 0, Way::Compressed),
        (|rules| rules.form.encoded = true, gib, 0, Way::Compressed),
        (|rules| rules.scattered = false, gib, 0, Way::Compressed),
        (|rules| rules.raw = true, gib, 0, Way::Raw),
        (|rules| rules.all_fragments = true, gib, 0, Way::Sparse),
        (|rules| rules.all_fragments = true, 4 * mib, 2 * mib, Way::Compressed),
        (|rules| rules.all_fragments = true, 4 * mib, 2 * mib + 1, Way::Fragment),
    ];
    for (n, (change, size, data_len, want)) in table.into_iter().enumerate() {
        let mut rules = rules();
        change(&mut rules);
        assert_eq!(Way::of(&rules, size, &|| data_len), want, "{n}");
    }
}

#[test]
fn a_row_ends_at_the_first_piece_elsewhere() {
    let rules = Rules { piece: 8192, ..rules() };
    let mut blocks = Blocks::new(&rules);
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
    let What::Other(other) = blocks.finish() else { panic!("a hole is in chunks only") };
    let Other::Chunks(stretches) = *other else { panic!("a hole is in chunks only") };
    let at = |start| Stretch::At(start);
    assert_eq!(stretches[..], [at(4096), at(4096 + 8192), Stretch::Hole(8292), at(4096 + 3 * 8192)]);
}

#[test]
fn a_finished_file_has_the_form_it_took() {
    let tail = Kept::new(7, 100).unwrap();
    type Fill = fn(&mut Blocks, Kept);
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
        let mut blocks = Blocks::new(&Rules { chunks, piece: 8192, ..rules() });
        fill(&mut blocks, tail);
        let found = match blocks.finish() {
            What::Hole => "Hole".to_owned(),
            What::Row(start) => format!("Row {{ start: {start}, tail: none }}"),
            What::Other(other) => match *other {
                Other::Tailed { start, .. } => format!("Row {{ start: {start}, tail }}"),
                Other::Chunks(_) => "Chunks".to_owned(),
                other => format!("{other:?}"),
            },
            other => format!("{other:?}"),
        };
        assert_eq!(found, want, "{n}");
    }
}
