//! A cache of decoded blocks: each is decoded once, however many threads request it at the same time.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::block::SharedBlock;

/// A cache of decoded blocks, bounded by the bytes it holds. `K` identifies a block; by default it
/// is the block's address. `V` holds its bytes.
pub struct BlockCache<K = u64, V = Arc<[u8]>> {
    blocks: Cache<K, V, ByteWeighter>,
}

/// Shared bytes that a cache can hold.
pub trait CachedBytes: Clone {
    /// Returns the number of bytes of memory that they take.
    fn weight(&self) -> u64;
}

impl CachedBytes for Arc<[u8]> {
    fn weight(&self) -> u64 {
        self.len() as u64
    }
}

impl CachedBytes for SharedBlock {
    fn weight(&self) -> u64 {
        SharedBlock::weight(self)
    }
}

/// Memory of an entry beside its block, roughly.
const OVERHEAD: u64 = 64;

#[derive(Debug, Clone)]
struct ByteWeighter;

impl<K, V: CachedBytes> Weighter<K, V> for ByteWeighter {
    fn weight(&self, _: &K, block: &V) -> u64 {
        // Never 0, which would pin the entry for ever.
        block.weight() + OVERHEAD
    }
}

impl<K, V> fmt::Debug for BlockCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache").finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Clone, V: CachedBytes> BlockCache<K, V> {
    /// Makes a cache that holds up to about `capacity` bytes, and at least four blocks, of blocks of about `block_len`
    /// bytes.
    pub fn new(capacity: u64, block_len: u64) -> Self {
        let capacity = capacity.max(4 * (block_len + OVERHEAD));
        let blocks = usize::try_from(capacity / block_len.max(1)).unwrap_or(usize::MAX).min(1 << 20);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(blocks)
            .weight_capacity(capacity)
            // Blocks that were read once may take half of the cache. With the default, 3 %, a block of which the rest
            // is read soon makes way for blocks that were read often, long ago.
            .hot_allocation(0.5)
            // Few shards: a block must fit in its shard's part of the capacity.
            .shards(1)
            .build()
            .expect("both capacities are given");
        BlockCache {
            blocks: Cache::with_options(
                options,
                ByteWeighter,
                DefaultHashBuilder::default(),
                quick_cache::sync::DefaultLifecycle::default(),
            ),
        }
    }

    /// Raises the capacity to at least `capacity` bytes.
    pub fn reserve(&self, capacity: u64) {
        if self.blocks.capacity() < capacity {
            self.blocks.set_capacity(capacity);
        }
    }

    /// Returns the block `key` if it is in the cache and decoded.
    pub fn peek(&self, key: &K) -> Option<V> {
        self.blocks.get(key)
    }

    /// Returns the block `key` from the cache, or decodes it with `decode`. While one thread
    /// decodes, others that request the same block wait for it. Errors are not cached.
    pub fn get<E>(&self, key: K, decode: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        self.blocks.get_or_insert_with(&key, decode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_block_is_decoded_once_under_contention() {
        let cache = <BlockCache>::new(1 << 20, 4096);
        let decoded = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for address in 0..16 {
                        let block = cache.get::<()>(address, || {
                            decoded.fetch_add(1, Ordering::Relaxed);
                            std::thread::sleep(std::time::Duration::from_millis(1));
                            Ok(vec![7; 4096].into())
                        });
                        assert_eq!(block.unwrap().len(), 4096);
                    }
                });
            }
        });
        assert_eq!(decoded.into_inner(), 16);
        assert_eq!((cache.peek(&3).unwrap().len(), cache.peek(&16)), (4096, None));
    }

    #[test]
    fn memory_stays_within_the_capacity_and_errors_are_not_kept() {
        let cache = BlockCache::new(64 << 10, 4096);
        for address in 0..1000 {
            cache.get::<()>(address, || Ok(vec![0; 4096].into())).unwrap();
        }
        assert!(cache.blocks.weight() <= 64 << 10);
        assert_eq!(cache.get(5000, || Err("damaged")), Err("damaged"));
        assert!(cache.get::<()>(5000, || Ok(Arc::from([1u8]))).is_ok());
    }

    #[test]
    fn new_blocks_stay_for_a_while_beside_those_that_were_used_often() {
        const BLOCK: usize = 4096;
        let cache = <BlockCache<i32>>::new(0, BLOCK as u64);
        cache.reserve(64 * (BLOCK as u64 + OVERHEAD));
        let decode = || Ok::<_, ()>(vec![0; BLOCK].into());
        for _ in 0..3 {
            (0..64).for_each(|block| drop(cache.get(block, decode)));
        }
        (100..124).for_each(|block| drop(cache.get(block, decode)));
        assert_eq!((100..124).filter(|block| cache.peek(block).is_none()).count(), 0);
    }
}
