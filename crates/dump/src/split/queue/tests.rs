//! Tests of the queue with simulated parts that take, wait and fail.

use super::*;
use crate::format::SegmentKind;
use crate::part::SegmentHead;
use packfs_blocks::Buffers;

fn sealed(stripe: u64, shard: u16, parity: u16) -> Arc<SealedSegment> {
    let head = SegmentHead { kind: SegmentKind::Data, stripe, shard, data: 2, parity, start: stripe, end: stripe + 1 };
    Arc::new(SealedSegment { head, bytes: Buffers::new(4096).take(4096) })
}

fn push(queue: &SegmentQueue, stripe: u64, shard: u16, parity: u16) {
    assert!(queue.push(sealed(stripe, shard, parity), &mut Duration::default()));
}

fn taken(queue: &SegmentQueue, n: usize) -> Option<(u64, u16)> {
    let sealed = queue.lock().next(n)?;
    Some((sealed.head.stripe, sealed.head.shard))
}

#[test]
fn without_parity_anyone_takes_the_next() {
    let queue = SegmentQueue::new(2, 9);
    (0..3).for_each(|n| push(&queue, n, 0, 0));
    assert_eq!([taken(&queue, 1), taken(&queue, 1), taken(&queue, 0)], [Some((0, 0)), Some((1, 0)), Some((2, 0))]);
}

#[test]
fn a_part_takes_but_one_segment_of_a_stripe() {
    let queue = SegmentQueue::new(3, 9);
    for (stripe, shard) in [(0, 0), (0, 1), (0, 2), (1, 0)] {
        push(&queue, stripe, shard, 1);
    }
    assert_eq!(taken(&queue, 0), Some((0, 0)));
    assert_eq!(taken(&queue, 0), Some((1, 0)));
    assert_eq!(taken(&queue, 0), None);
    assert_eq!(taken(&queue, 1), Some((0, 1)));
    // If every remaining part has one of the stripe, having two is better than none.
    queue.failed(2, None, PartLoss::default(), PartExtent::default());
    assert_eq!(queue.weak(), 0);
    assert_eq!(taken(&queue, 0), Some((0, 2)));
    assert_eq!(queue.weak(), 1);
}

#[test]
fn the_segment_of_a_failed_part_comes_back_first() {
    let queue = SegmentQueue::new(2, 9);
    push(&queue, 0, 0, 0);
    push(&queue, 1, 0, 0);
    let PartTask::Write(first) = queue.take(0) else { panic!("something waits") };
    let lost = vec![5..6, 8..9];
    let loss = PartLoss { ranges: lost.clone(), weakened: 1 };
    queue.failed(0, Some(first), loss, PartExtent::default());
    assert_eq!((taken(&queue, 0), taken(&queue, 1)), (None, Some((0, 0))));
    assert_eq!([4, 5, 6, 8].map(|at| queue.may_lack(at)), [false, true, false, true]);
    let loss = queue.take_loss();
    assert_eq!((loss.ranges, loss.weakened), (lost, 1));
    queue.failed(1, Some(sealed(0, 0, 0)), PartLoss::default(), PartExtent::default());
    assert!(!queue.push(sealed(3, 0, 0), &mut Duration::default()));
    assert!(!queue.drain());
}

#[test]
fn nobody_waits_for_a_part_whose_thread_panicked() {
    let queue = SegmentQueue::new(2, 1);
    push(&queue, 0, 0, 0);
    let PartTask::Write(_) = queue.take(0) else { panic!("something waits") };
    std::thread::scope(|scope| {
        scope.spawn(|| queue.abandoned(0));
        // Full until the part that holds the segment has gone.
        assert!(queue.push(sealed(1, 0, 0), &mut Duration::default()));
        scope.spawn(|| {
            let PartTask::Write(sealed) = queue.take(1) else { panic!("something waits") };
            queue.abandoned(1);
            drop(sealed);
        });
        queue.drain();
    });
    queue.sync();
    queue.finish(Arc::new(PartFooter { complete: true, size: 0, index: 0, indexes: 0, manifest: Vec::new() }));
}

#[test]
fn a_full_queue_makes_the_conductor_wait() {
    let queue = SegmentQueue::new(1, 2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..4 {
                let PartTask::Write(sealed) = queue.take(0) else { panic!("something waits") };
                std::thread::sleep(Duration::from_millis(20));
                queue.written(0, &sealed, Duration::from_millis(20));
            }
        });
        let mut waited = Duration::ZERO;
        for n in 0..4 {
            assert!(queue.push(sealed(n, 0, 0), &mut waited));
        }
        assert!(waited >= Duration::from_millis(20), "{waited:?}");
        assert!(queue.drain());
    });
    assert_eq!(queue.pace().0.len(), 1);
}
