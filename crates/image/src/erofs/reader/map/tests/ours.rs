//! Indexes of our own writer, in every form, read by this reader.

use super::*;
use crate::erofs::writer::emit::index::FileIndex;
use crate::erofs::writer::stored::cluster::{ClusterRange, StoredCluster, StoredLen};
use crate::erofs::writer::stored::data::IndexForm;
use crate::erofs::writer::stored::file::FileTail;
use crate::erofs::writer::stored::tails::TailStore;

const ALGORITHM: u8 = 3;

/// Planned end of a file: nothing, a fragment at some offset, an inline cluster of so many bytes.
#[derive(Debug, Clone, Copy)]
enum Tail {
    None,
    Fragment(u64),
    Inline(usize, bool),
}

/// A planned cluster: blocks in the image, further bytes in the file, uncompressed, partial, and
/// the gap after the previous one.
type Wish = (u32, u32, bool, bool, u64);

fn wishes() -> impl Strategy<Value = Vec<Wish>> {
    // Most are consecutive, as packs require, and whole.
    let gap = prop_oneof![12 => Just(0u64), 1 => 1..99u64];
    let partial = prop::bool::weighted(0.05);
    prop::collection::vec((1..20u32, 1..300_000u32, prop::bool::weighted(0.3), partial, gap), 0..60)
}

fn tails() -> impl Strategy<Value = Tail> {
    prop_oneof![
        Just(Tail::None),
        (0..1u64 << 20).prop_map(Tail::Fragment),
        (1u64 << 32..1 << 40).prop_map(Tail::Fragment),
        (1..400usize, any::<bool>()).prop_map(|(len, raw)| Tail::Inline(len, raw)),
    ]
}

/// Makes clusters that a writer could make.
fn clusters(form: IndexForm, wishes: &[Wish], big: bool) -> Vec<StoredCluster> {
    let block = 1u32 << form.block_bits;
    let mut next = 50;
    let cluster = |&(blocks, more, raw, partial, gap): &Wish| {
        let physical = if big { blocks * block } else { block };
        let start = (next + gap) << form.block_bits;
        next += gap + u64::from(physical / block);
        let logical = if raw { physical } else { physical + more };
        let stored = StoredLen::new(physical.into()).expect("at most 20 blocks");
        let partial = partial && !raw;
        StoredCluster {
            device: 0,
            start,
            physical: stored,
            logical,
            raw,
            algorithm: ALGORITHM,
            partial,
            page_offset: 0,
        }
    };
    wishes.iter().map(cluster).collect()
}

fn expected(index: &FileIndex<'_>, tail_len: u64, inline_at: u64, inline_len: usize) -> Vec<MappedExtent> {
    let (mut at, mut out) = (0, Vec::new());
    let mut push = |len, data| {
        out.push(MappedExtent { logical: at, len, data });
        at += len;
    };
    for cluster in index.clusters.iter() {
        if cluster.raw && !index.form.encoded {
            // An index has an entry for each block.
            let block = 1_u64 << index.form.block_bits;
            let mut done = 0;
            while done < u64::from(cluster.logical) {
                let len = block.min(u64::from(cluster.logical) - done);
                let stored = StoredBytes { place: StoredPosition::Image(cluster.start + done), len: block };
                push(len, PieceStorage::Plain { stored, rotated: false });
                done += block;
            }
            continue;
        }
        let stored = StoredBytes { place: StoredPosition::Image(cluster.start), len: cluster.physical.into() };
        let data = match cluster.raw {
            true => PieceStorage::Plain { stored, rotated: false },
            false => PieceStorage::Packed { stored, algorithm: ALGORITHM, partial: cluster.partial },
        };
        push(cluster.logical.into(), data);
    }
    match index.tail {
        None => {}
        Some(FileTail::Fragment(offset)) => push(tail_len, PieceStorage::Fragment(offset)),
        Some(FileTail::Inline { raw, .. }) => {
            let stored = StoredBytes { place: StoredPosition::Meta(inline_at), len: inline_len as u64 };
            let data = match raw {
                true => PieceStorage::Plain { stored, rotated: false },
                false => PieceStorage::Packed { stored, algorithm: ALGORITHM, partial: false },
            };
            push(tail_len, data);
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_writers_indexes_read_back(
        (block_bits, compact, encoded, big) in (9..=12u8, any::<bool>(), any::<bool>(), any::<bool>()),
        wishes in wishes(),
        tail in tails(),
        more in 0..5000u64,
        slot in 0..4usize,
    ) {
        let form = IndexForm { block_bits, algorithm: ALGORITHM, encoded, compact };
        let clusters = clusters(form, &wishes, big);
        let mut keep = TailStore::new(packfs_blocks::io::Scratch::new(std::env::temp_dir()));
        let (end, tail_len) = match tail {
            Tail::Fragment(offset) => (Some(FileTail::Fragment(offset)), more + 1),
            Tail::Inline(len, raw) if !encoded => {
                let kept = keep.put(&vec![7; len]).unwrap();
                // Uncompressed data takes as many bytes as it has.
                (Some(FileTail::Inline { kept, raw, algorithm: ALGORITHM }), if raw { len as u64 } else { more + len as u64 })
            }
            _ => (None, 0),
        };
        prop_assume!(!clusters.is_empty() || end.is_some());
        let size = clusters.iter().map(|one| u64::from(one.logical)).sum::<u64>() + tail_len;
        let count = u32::try_from(clusters.len()).unwrap();
        let parts = if count == 0 { vec![] } else { vec![ClusterRange { first: 0, count }] };
        let index = FileIndex { form, clusters: &clusters, device_starts: &[], parts: &parts, tail: end, size };

        let at = slot * 8;
        let mut bytes = vec![0; at];
        index.write(at, &keep, &mut bytes).unwrap();
        let room = index.room(at);
        let inline = room.together;
        prop_assert_eq!(bytes.len(), at + room.len);
        let facts = MappedInode {
            size,
            layout: index.layout(at),
            start_block: None,
            chunk_format: 0,
            payload: at as u64,
            block_bits,
        };
        let want = expected(&index, tail_len, (bytes.len() - inline) as u64, inline);
        // The position of an inline cluster in its block depends on the layout of inodes.
        prop_assume!(inline == 0 || (bytes.len() - inline) % (1 << block_bits) + inline <= 1 << block_bits);
        let made = Made { bytes, facts, list: Vec::new() };
        prop_assert_eq!(&extents(&made).unwrap(), &want);
        let map = ExtentMap::open(&made.bytes, &made.facts).unwrap();
        for extent in &want {
            for at in [extent.logical, extent.logical + extent.len - 1] {
                prop_assert_eq!(map.walk(&made.bytes, at).next().unwrap(), Some(*extent));
            }
        }
        // The data is not really compressed here.
        let wasteful = |finding: &String| finding.contains("bytes are stored for");
        let found: Vec<_> = findings(&made).into_iter().filter(|one| !wasteful(one)).collect();
        prop_assert_eq!(found, Vec::<String>::new());
    }
}
