//! Mounts SquashFS and EROFS images, and the parts of a split dump, by FUSE.
//!
//! The path of a request: `filesystem` takes it from the kernel on one of several threads, `nodes` turns the
//! kernel's inode numbers into those of the image, and the image's reader answers; `dirs` keeps the listings of
//! directories that are being read, and `ahead` stores small files in the kernel before they are asked for. `session`
//! mounts, serves and unmounts. Nothing in an image changes, so the kernel is told to keep names, attributes, listings
//! and contents for ever.
//!
//! ```no_run
//! use packfs_mount::{MountOptions, mount};
//!
//! let image = packfs_image::Fs::open("root.sqfs")?.into_image();
//! let mounted = mount(image, "/mnt".as_ref(), MountOptions::default())?;
//! // Until somebody unmounts it.
//! mounted.serve()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ahead;
mod attr;
mod device;
mod dirs;
mod dump;
mod error;
mod filesystem;
mod nodes;
mod offset;
mod options;
mod paths;
mod session;
mod trace;
mod unmount;

pub use device::inherited;
pub use dump::DumpImage;
pub use error::{Error, Result};
pub use offset::find_image;
pub use options::MountOptions;
pub use packfs_blocks::trouble::LineReceiver;
pub use session::{MountedImage, mount};
pub use trace::ReadTrace;
pub use unmount::{UnmountMode, unmount};

packfs_blocks::options!(MountOptions);
