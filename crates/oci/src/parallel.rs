//! Layers that are built at the same time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use packfs_blocks::mutex;
use packfs_blocks::threads;
use packfs_image::build::AnyOptions;

use crate::error::Result;

/// Calls `work` for each layer, with its number and the options to build it with; returns the results in order. Layers
/// have lengths of `sizes` bytes, by which threads and memory are divided among those that are built at the same time.
/// Of several errors, that of the first layer counts; after an error, no further layer is begun.
pub(crate) fn for_each_layer<T: Send>(
    sizes: &[u64],
    options: &AnyOptions,
    work: impl Fn(usize, &AnyOptions) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let shares = LayerShares::new(options, sizes);
    // The largest first: begun last, it would keep a few threads busy while the others have nothing left to do.
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|number| std::cmp::Reverse(sizes[*number]));
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<T>)>> = Mutex::new(Vec::with_capacity(sizes.len()));
    let run = || {
        // Only the number has to be unique; the results are handed over under the mutex.
        while let Some(&number) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = work(number, &shares.options(options, sizes[number]));
            // The first error decides, so the layers after it would be built in vain.
            if result.is_err() {
                next.store(order.len(), Ordering::Relaxed);
            }
            mutex::lock(&results).push((number, result));
        }
    };
    std::thread::scope(|scope| {
        // The calling thread is one of those that work.
        for _ in 1..shares.at_once {
            // Where no thread can be had, the others do the work.
            if threads::named("packfs-layer").start_in(scope, run).is_err() {
                break;
            }
        }
        run();
    });
    let mut results = mutex::into_inner(results);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Threads and memory, to be divided among layers.
struct LayerShares {
    threads: usize,
    memory: u64,
    /// Number of layers built at the same time.
    at_once: usize,
    /// Length in bytes of all layers.
    total: u64,
}

impl LayerShares {
    fn new(options: &AnyOptions, sizes: &[u64]) -> Self {
        let threads = options.common().threads;
        LayerShares {
            threads,
            memory: options.common().memory,
            // Without threads, everything happens on the calling one.
            at_once: threads.min(sizes.len()).max(1),
            total: sizes.iter().fold(0, |total: u64, size| total.saturating_add(*size)),
        }
    }

    /// Returns the options for a layer of `size` bytes. Each has at least one thread, so that those built at the same
    /// time have less than twice the threads.
    fn options(&self, options: &AnyOptions, size: u64) -> AnyOptions {
        let mut share = options.clone();
        // 128 bits: the product of threads and a length from a document could overflow 64.
        let wanted = (self.threads as u128 * u128::from(size)).div_ceil(u128::from(self.total.max(1)));
        let least = self.threads.min(1);
        share.common_mut().threads = usize::try_from(wanted).unwrap_or(usize::MAX).clamp(least, self.threads);
        // Evenly, and not by length: whichever layers are built at the same time, the sum stays below the limit.
        share.common_mut().memory = self.memory / self.at_once as u64;
        share
    }
}

#[cfg(test)]
mod tests {
    use packfs_image::erofs;

    use super::*;
    use crate::Error;

    fn options(threads: usize) -> AnyOptions {
        let mut options = AnyOptions::from(erofs::ErofsOptions::default());
        options.common_mut().threads = threads;
        options
    }

    #[test]
    fn results_come_in_order_and_errors_end_the_work() {
        for threads in [0, 1, 2, 9] {
            let options = options(threads);
            let doubled = for_each_layer(&[5, 1, 9, 9, 0], &options, |number, _| Ok(number * 2));
            assert_eq!(doubled.unwrap(), [0, 2, 4, 6, 8]);
            assert_eq!(for_each_layer(&[], &options, |number, _| Ok(number)).unwrap(), [0; 0]);
            let begun = AtomicUsize::new(0);
            let failed = for_each_layer(&[1, 9, 1, 1], &options, |number, _| {
                begun.fetch_add(1, Ordering::Relaxed);
                if number == 1 { Err(Error::damaged("x", number)) } else { Ok(number) }
            });
            assert_eq!(failed.unwrap_err().to_string(), "x: 1");
            assert!(threads > 1 || begun.into_inner() == 1, "{threads} threads");
        }
    }

    #[test]
    fn large_layers_have_most_threads() {
        for (threads, sizes, expected) in [
            (16, vec![90, 5, 5], vec![15, 1, 1]),
            (16, vec![1, 1], vec![8, 8]),
            (2, vec![10, 1, 1], vec![2, 1, 1]),
            (1, vec![10, 1], vec![1, 1]),
            (0, vec![10, 1], vec![0, 0]),
            (4, vec![0, 0], vec![1, 1]),
            (4, vec![u64::MAX, u64::MAX], vec![4, 4]),
        ] {
            let options = options(threads);
            let shares = for_each_layer(&sizes, &options, |_, share| Ok(share.common().threads)).unwrap();
            assert_eq!(shares, expected, "{threads} threads for {sizes:?}");
        }
    }
}
