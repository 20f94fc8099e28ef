//! The path all data in packfs takes: cut bytes into blocks, hash them, process them on all cores,
//! write them in order.
//!
//! - [`pipeline`]: the worker pool; results are returned in the order in which jobs were submitted.
//! - [`hash`], [`dedup`], [`probe`]: a block's digest, its duplicates, and whether it is worth compressing.
//! - [`encode`]: probes, compresses and verifies a block.
//! - [`buffer`]: page-aligned buffers that are reused; [`cache`]: decoded blocks, each decoded once.
//! - [`io`]: positional reads ([`ReadAt`]) and writes ([`Storage`]), and outputs that appear whole ([`Output`]).
//! - [`name`]: file names, which are arbitrary bytes, as text; [`hex`]: bytes as hexadecimal digits;
//!   [`percent`]: as addresses have them; [`calendar`]: days as dates.
//! - [`options!`]: the way to change options.
//! - [`threads`]: start of all threads, within the limits of the process; [`mutex`]: locks; [`stock`]: tools of threads.
//! - [`system`]: the seam to the operating system.
//! - [`descriptors`]: the number of files that may still be opened.
//! - [`progress`]: counters that a user interface may poll; [`stages`]: time spent per stage; [`trouble`]: errors while serving.
//! - [`page`]: the looks that all HTML pages share.
//!
//! ```
//! use packfs_blocks::pipeline::{self, Pool};
//! let squares = pipeline::scope(2, || (), |pool: &Pool<'_, ()>| {
//!     let tickets: Vec<_> = (0u64..5).map(|n| pool.submit(move |_| n * n)).collect();
//!     tickets.into_iter().map(|t| t.wait()).collect::<Vec<_>>()
//! });
//! assert_eq!(squares, [0, 1, 4, 9, 16]);
//! ```

pub mod block;
pub mod buffer;
pub mod cache;
pub mod calendar;
pub mod dedup;
pub mod descriptors;
pub mod encode;
pub mod hash;
pub mod hex;
pub mod io;
pub mod mutex;
pub mod name;
mod options;
pub mod page;
pub mod percent;
pub mod pipeline;
pub mod probe;
pub mod progress;
mod slot;
pub mod stages;
pub mod stock;
pub mod system;
pub mod threads;
pub mod trouble;
pub mod units;

pub use block::{BlockShelf, SharedBlock};
pub use buffer::{Buffer, Buffers};
pub use hash::Digest;
pub use io::{Output, ReadAt, Storage};
#[doc(hidden)]
#[cfg(feature = "testing")]
pub use packfs_codec::testing;
pub use progress::Progress;
