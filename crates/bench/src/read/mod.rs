//! Measures reading images, by the kernel and by programs.
//!
//! The kernel's measurements are those of the EROFS project: data or metadata of all files in order, of all files in
//! random order, and of some files; and one large file with fio. Each has a fresh mount, with all caches dropped.
//! Programs read whole images from the page cache.
//!
//! The path: the images exist already, or [`BuildTool`](crate::build::BuildTool)s make them from a source. A
//! [`MeasuredImage`] describes one, [`cells`] lists its measurements, and [`ReadMachine`] performs them.

mod cells;
mod fio;
mod kernel;
mod machine;
mod mount;
mod programs;
mod protocol;

pub use crate::keys::read::{FIO, KERNEL, NONE, ReadKey};
pub use cells::{ImageFile, ImageFiles, MeasuredImage, ReadCell, ReadOrder, ReadTools, ReadWork, cells};
pub use fio::FioPattern;
pub use kernel::KernelConfig;
pub use machine::{ReadMachine, try_mount};
pub use mount::MountedImage;
pub use programs::ReadTool;
pub use protocol::SMALL_READ_FILES;
