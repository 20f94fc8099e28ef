//! The one path everything in packfs takes: cut bytes into blocks, hash them, work on them on all
//! cores, put them down in order.
//!
//! - [`pipeline`]: the worker pool; results come back in the order the work was handed in.
//! - [`hash`], [`dedup`], [`probe`]: what a block is, whether it was seen before, whether it can shrink.
//! - [`encode`]: a block probed, compressed and proven.
//! - [`buffer`]: page-aligned buffers that are reused; [`cache`]: decoded blocks, each decoded once.
//! - [`io`]: positional reads ([`ReadAt`]) and writes ([`Storage`]), and outputs that appear whole ([`Output`]).
//! - [`name`]: names, which are any bytes, as text; [`options!`]: the way in which options are changed.
//! - [`progress`]: counters that a user interface may watch; [`stages`]: where the time goes.
//!
//! ```
//! use packfs_blocks::pipeline::{self, Pool};
//! let squares = pipeline::scope(2, || (), |pool: &Pool<'_, ()>| {
//!     let tickets: Vec<_> = (0u64..5).map(|n| pool.submit(move |_| n * n)).collect();
//!     tickets.into_iter().map(|t| t.wait()).collect::<Vec<_>>()
//! });
//! assert_eq!(squares, [0, 1, 4, 9, 16]);
//! ```

pub mod buffer;
pub mod cache;
pub mod dedup;
pub mod encode;
pub mod hash;
pub mod io;
pub mod name;
mod options;
pub mod pipeline;
pub mod probe;
pub mod progress;
pub mod stages;

pub use buffer::{Buffer, Buffers};
pub use hash::Digest;
pub use io::{Output, ReadAt, Storage};
pub use progress::Progress;
