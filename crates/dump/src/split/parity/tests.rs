//! Compares the sliced code with the crate's on whole segments, and widths with cases computed by hand.

use reed_solomon_simd::{decode, encode};

use super::*;
use crate::part::ParsedSegment;

fn sealed(stripe: u64, shard: u16, len: usize, buffers: &Buffers) -> Arc<SealedSegment> {
    let mut bytes = buffers.take(len);
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = (n * 31 + usize::from(shard) * 7 + n / 251).to_le_bytes()[0];
    }
    let head = SegmentHead { kind: SegmentKind::Data, stripe, shard, data: 3, parity: 2, start: 5, end: 9 };
    Arc::new(SealedSegment { head, bytes })
}

#[test]
fn coding_in_slices_equals_coding_whole_segments() {
    let buffers = Buffers::new(1 << 20);
    let lens = [3 * SLICE_LEN + 4096, 4096, 2 * SLICE_LEN];
    let shards: Vec<_> = lens.iter().zip(0..).map(|(len, n)| sealed(4, n, *len, &buffers)).collect();
    let full = FullStripe { number: 4, parity: 2, sealed: shards.clone() };
    let coded = full.code(&[1; 16], &buffers);
    let padded: Vec<Vec<u8>> = shards
        .iter()
        .map(|shard| {
            let mut bytes = shard.bytes.to_vec();
            bytes.resize(lens[0], 0);
            bytes
        })
        .collect();
    let whole = encode(3, 2, &padded).unwrap();
    for (n, (parity, expected)) in coded.iter().zip(&whole).enumerate() {
        let segment = ParsedSegment::parse(&parity.bytes, &[1; 16], 4096).unwrap();
        assert_eq!(usize::from(segment.head.shard), 3 + n);
        assert_eq!(segment.shards.len(), 3);
        let payload = &parity.bytes[segment.head_len as usize..][..segment.payload as usize];
        assert!(payload == expected);
        assert_eq!(segment.payload_sum, sum(payload));
    }
    let restored = decode(3, 2, [(1, &padded[1])], [(0, &whole[0]), (1, &whole[1])]).unwrap();
    assert!(restored[&0] == padded[0] && restored[&2] == padded[2]);
}

#[test]
fn stripes_number_their_segments() {
    let buffers = Buffers::new(4096);
    let mut stripes = StripeAssigner::new(1, 7);
    for (stripe, shard) in [(7, 0), (7, 1), (8, 0)] {
        let head = stripes.place(|wanted| (2, wanted));
        assert_eq!((head.stripe, head.shard, head.data, head.parity), (stripe, shard, 2, 1));
        let full = stripes.add(&sealed(stripe, shard, 4096, &buffers));
        assert_eq!(full.is_some(), shard == 1);
    }
    assert!(stripes.is_open());
    let mut alone = StripeAssigner::new(0, 0);
    for n in 0..3 {
        let head = alone.place(|_| panic!("no width without parity"));
        assert_eq!((head.stripe, head.shard, head.data, head.parity), (n, 0, 1, 0));
        assert!(alone.add(&sealed(n, 0, 4096, &buffers)).is_none() && !alone.is_open());
    }
}

#[test]
fn stripes_get_narrower_only_where_a_slow_part_holds_them_up() {
    type Case = (&'static [f64], u16, bool, (u16, u16));
    let cases: [Case; 9] = [
        (&[1.0, 1.0, 1.0, 1.0], 1, true, (3, 1)),
        (&[10.0, 10.0, 10.0, 1.0], 1, false, (3, 1)),
        (&[10.0, 10.0, 10.0, 1.0], 1, true, (2, 1)),
        (&[1.0, 1.0, 1.0, 4.0], 1, true, (3, 1)),
        (&[10.0, 10.0, 10.0, 10.0, 1.0], 2, true, (2, 2)),
        (&[5.0, 0.0, 5.0], 1, true, (2, 1)),
        (&[5.0, 5.0], 1, true, (1, 1)),
        // Fewer parts are left than the requested protection needs.
        (&[5.0, 5.0], 3, true, (1, 1)),
        (&[5.0], 2, false, (1, 0)),
    ];
    for (speeds, wanted, behind, expected) in cases {
        assert_eq!(width(speeds, wanted, behind), expected, "{speeds:?} {wanted} {behind}");
    }
    assert!((rate(&[10.0, 10.0, 10.0, 1.0], 4) - 1.0).abs() < 1e-9);
    assert!((rate(&[10.0, 10.0, 10.0, 1.0], 3) - 31.0 / 3.0).abs() < 1.0);
}
