//! Reading images: by the kernel, which mounts them, and by programs.
//!
//! The measurements of the EROFS project: every file of a tree in order, some files and all files in an order made at
//! random, their data or their metadata only; and with fio one large file. All of it with caches dropped, on a mount
//! made for it. Programs read whole images, which lie in the page cache.
//!
//! The path: [`build::Tool`](crate::build::Tool)s make images of a source, or there are some; [`Image`] says what is in one; [`cells`] are its
//! readings, and [`Machine`] does them.

mod cells;
mod fio;
mod kernel;
mod machine;
mod mount;
mod programs;
mod protocol;

pub use crate::keys::read::{FIO, KERNEL, Key, NONE};
pub use cells::{Cell, File, Image, Order, Readers, Tree, Work, cells};
pub use fio::Pattern;
pub use kernel::Config;
pub use machine::{Machine, try_mount};
pub use mount::Mount;
pub use programs::Program;
pub use protocol::SMALL;
