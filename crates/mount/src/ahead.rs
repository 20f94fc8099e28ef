//! Read-ahead from file to file.
//!
//! Linux reads ahead within a file, but asks for each small file in turn and waits. Programs that read a tree read files
//! in the order in which it was listed. Once two files follow each other so, a thread stores those after them in the
//! kernel's page cache before they are asked for. One file in the middle of each batch is left out: the request for it
//! shows that the reader is still on its way, and starts the next batch. A reader that jumps, as from the end of a
//! directory to the next, is trusted with half as many files.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use fuser::Notifier;
use packfs_blocks::mutex;
use packfs_image::Image;
use packfs_image::image::Nid;

use crate::nodes::NodeNumbers;

/// Largest file to read ahead. Linux reads the beginning of a larger one at once, and the rest ahead by itself.
const FILE_MAX: usize = 128 << 10;
/// Number of listed files to remember. Readers are rarely further behind the listing.
const LISTED: usize = 1 << 15;
/// Number of readers to follow at the same time. Not measured.
const READERS: usize = 32;
/// Number of files that a reader may pass over: programs skip a file now and then, and still read in order.
const SKIPPED: u64 = 2;
/// Number of files in the first batch of a reader. It doubles from batch to batch, so a guess that fails costs little.
const FIRST: u64 = 8;
/// Maximum number of files, and roughly of bytes, in a batch.
const BATCH: u64 = 64;
const BATCH_BYTES: usize = 2 << 20;
/// Number of batches that may wait: one of each reader.
const WAITING: usize = READERS;

/// Files in the order in which they were listed, by number; the oldest are forgotten.
#[derive(Debug, Default)]
struct ListingOrder {
    files: VecDeque<ListedFile>,
    /// Number of the first of them.
    first: u64,
    numbers: HashMap<Nid, u64>,
    /// The latest readers, by time of use.
    readers: VecDeque<OrderReader>,
}

#[derive(Debug, Clone, Copy)]
struct ListedFile {
    nid: Nid,
    size: usize,
    /// The kernel has asked for it, or was given it.
    done: bool,
}

/// A reader of files in the order of the listing.
#[derive(Debug)]
struct OrderReader {
    /// Number of the file after the last that it asked for.
    next: u64,
    /// Last batch, and the number of files that it was to have.
    last: Range<u64>,
    batch: u64,
}

impl ListingOrder {
    fn push(&mut self, nid: Nid, size: usize) {
        let number = self.first + self.files.len() as u64;
        // A further name, or a directory listed again: the first place in the order holds.
        if self.numbers.contains_key(&nid) {
            return;
        }
        self.numbers.insert(nid, number);
        self.files.push_back(ListedFile { nid, size, done: false });
        // Forgotten ones leave the deque at its front, so the number of a file minus `first` stays its index.
        if self.files.len() > LISTED
            && let Some(oldest) = self.files.pop_front()
        {
            self.numbers.remove(&oldest.nid);
            self.first += 1;
        }
    }

    fn file(&mut self, number: u64) -> Option<&mut ListedFile> {
        self.files.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Takes note of a request for a file; returns the files to store now.
    fn note_request(&mut self, nid: Nid) -> Option<Range<u64>> {
        let number = *self.numbers.get(&nid)?;
        let file = self.file(number)?;
        // Asked for once more, or stored by us: that says nothing about where a reader is.
        if file.done {
            return None;
        }
        file.done = true;
        let follows = |reader: &OrderReader| (reader.next..=reader.last.end + SKIPPED).contains(&number);
        let found = self.readers.iter().position(follows).and_then(|at| self.readers.remove(at));
        let next = number + 1;
        let (begin, batch) = match found {
            Some(reader) if number < middle(&reader.last) => {
                // Still before the file that was left out: the batch is not used up yet.
                self.readers.push_front(OrderReader { next, ..reader });
                return None;
            }
            // The second half of a batch is still to come, so the next one is ready before the reader needs it.
            Some(reader) => (reader.last.end.max(next), (reader.batch * 2).clamp(FIRST, BATCH)),
            // The latest reader is probably the one that jumped.
            None => (next, self.readers.front().map_or(0, |latest| latest.batch / 2)),
        };
        // A first request, and a jump of a reader that is hardly trusted, start nothing: only a second in
        // order does.
        let end = if batch < FIRST { begin } else { self.end_of_batch(begin, batch) };
        self.readers.truncate(READERS - 1);
        self.readers.push_front(OrderReader { next, last: begin..end, batch });
        (begin < end).then_some(begin..end)
    }

    fn end_of_batch(&mut self, begin: u64, most: u64) -> u64 {
        let mut end = begin;
        let mut bytes = 0;
        while end < begin + most && bytes < BATCH_BYTES {
            let Some(file) = self.file(end) else { break };
            bytes += file.size;
            end += 1;
        }
        end
    }

    /// Returns a file that is to be stored now, unless the kernel has it.
    fn take(&mut self, number: u64) -> Option<(Nid, usize)> {
        let file = self.file(number).filter(|file| !file.done)?;
        file.done = true;
        Some((file.nid, file.size))
    }
}

/// Returns the file of a batch that is left out.
fn middle(batch: &Range<u64>) -> u64 {
    batch.start + (batch.end - batch.start) / 2
}

/// The side of read-ahead that sees requests.
#[derive(Debug)]
pub(crate) struct ReadAheadRequests {
    order: Arc<Mutex<ListingOrder>>,
    batches: SyncSender<Range<u64>>,
}

/// The side of read-ahead that stores files.
#[derive(Debug)]
pub(crate) struct ReadAheadStore {
    order: Arc<Mutex<ListingOrder>>,
    batches: Receiver<Range<u64>>,
    image: Arc<dyn Image>,
    nodes: NodeNumbers,
}

/// Makes both sides; the second ends when the first is dropped.
pub(crate) fn ahead(image: Arc<dyn Image>, nodes: NodeNumbers) -> (ReadAheadRequests, ReadAheadStore) {
    let (sender, batches) = sync_channel(WAITING);
    let order = Arc::default();
    (ReadAheadRequests { order: Arc::clone(&order), batches: sender }, ReadAheadStore { order, batches, image, nodes })
}

impl ReadAheadRequests {
    /// Takes note of files that the kernel was told of, with their sizes.
    pub(crate) fn note_listing(&self, files: &[(Nid, u64)]) {
        let mut order = mutex::lock(&self.order);
        for (nid, size) in files {
            // Empty files have nothing to store, and larger ones are read ahead by Linux.
            if let Some(size) = usize::try_from(*size).ok().filter(|size| (1..=FILE_MAX).contains(size)) {
                order.push(*nid, size);
            }
        }
    }

    /// Takes note of a request for the beginning of a file.
    pub(crate) fn note_request(&self, nid: Nid) {
        let batch = mutex::lock(&self.order).note_request(nid);
        if let Some(batch) = batch {
            // A full queue means that the thread that stores is behind; the kernel then asks for the files
            // itself, and whoever waits for this answer must not wait for the queue.
            let _ = self.batches.try_send(batch);
        }
    }
}

impl ReadAheadStore {
    /// Stores files until the other side is dropped or the mount ends. Not to be called by a thread that answers
    /// requests: the kernel may wait for an answer before it lets a file be stored.
    pub(crate) fn run(self, kernel: &Notifier) {
        let mut bytes = vec![0; FILE_MAX];
        for batch in self.batches {
            let middle = middle(&batch);
            for number in batch.filter(|number| *number != middle) {
                let file = mutex::lock(&self.order).take(number);
                let Some((nid, size)) = file else { continue };
                let Some(out) = bytes.get_mut(..size) else { continue };
                // A file that cannot be read whole is skipped: the kernel would keep a short one for ever, and whoever
                // asks for it gets the error.
                let whole = self.image.read_at(nid, out, 0).is_ok_and(|len| len == size);
                // A store fails once the mount has ended.
                if let Some(number) = self.nodes.number(nid).filter(|_| whole)
                    && kernel.store(number, 0, out).is_err()
                {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(files: u64) -> ListingOrder {
        let mut order = ListingOrder::default();
        (0..files).for_each(|n| order.push(Nid(1000 + n), 10));
        order
    }

    fn asked(order: &mut ListingOrder, number: u64) -> Option<Range<u64>> {
        order.note_request(Nid(1000 + number))
    }

    #[test]
    fn who_reads_in_order_is_ahead_of_by_ever_more_files() {
        let mut order = order(300);
        assert_eq!(asked(&mut order, 10), None);
        assert_eq!(asked(&mut order, 11), Some(12..20));
        // The kernel was given the others, and asks for the one that was left out.
        assert_eq!(asked(&mut order, 16), Some(20..36));
        assert_eq!(asked(&mut order, 28), Some(36..68));
        assert_eq!(asked(&mut order, 52), Some(68..132));
        assert_eq!(asked(&mut order, 100), Some(132..196));
        assert_eq!(asked(&mut order, 196), Some(197..261));
        assert_eq!(asked(&mut order, 261), Some(262..300));
        assert_eq!(asked(&mut order, 299), None);
    }

    #[test]
    fn random_reads_start_nothing_and_jumps_end_trust() {
        let mut order = order(1000);
        for n in [5, 900, 3, 70, 500, 12, 300] {
            assert_eq!(asked(&mut order, n), None);
        }
        // Two that take turns are both followed.
        assert_eq!((asked(&mut order, 400), asked(&mut order, 600)), (None, None));
        assert_eq!((asked(&mut order, 401), asked(&mut order, 601)), (Some(402..410), Some(602..610)));
        assert_eq!(asked(&mut order, 606), Some(610..626));
        assert_eq!(asked(&mut order, 200), Some(201..209));
        assert_eq!((asked(&mut order, 800), asked(&mut order, 850)), (None, None));
    }

    #[test]
    fn each_file_is_stored_once_and_the_oldest_are_forgotten() {
        let mut order = order(LISTED as u64 + 5);
        order.push(Nid(1010), 10);
        assert_eq!((order.files.len(), order.numbers.len(), order.first), (LISTED, LISTED, 5));
        assert_eq!((asked(&mut order, 4), asked(&mut order, 5)), (None, None));
        assert_eq!(order.take(6), Some((Nid(1006), 10)));
        assert_eq!((order.take(6), order.take(5), order.take(4)), (None, None, None));
        let mut sizes = ListingOrder::default();
        (0..BATCH).for_each(|n| sizes.push(Nid(n), 1 << 20));
        assert_eq!((sizes.note_request(Nid(0)), sizes.note_request(Nid(1))), (None, Some(2..4)));
    }
}
