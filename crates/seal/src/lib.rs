//! Seals of file system images, by which the kernel verifies each block that it reads.
//!
//! - [`verity`]: hash trees of dm-verity, made and verified: the bytes of `veritysetup format`.
//! - [`fsverity_digest`]: the digest by which fs-verity knows a file.
//! - [`composefs`]: the objects to which images of composefs refer.
//! - [`signature`]: signatures of root hashes, made and verified.
//! - [`ddi`]: disk images with partitions for image, tree and signature.
//! - [`rauc`]: bundles of an image, its tree and a signed manifest.
//! - [`sif`]: files of Apptainer and Singularity, signed or not.
//! - [`minisign`]: signatures of files as they are.
//! - [`consumer`]: what systemd, containerd, RAUC or Apptainer will enforce for an image, and every mistake by name.
//! - [`SystemdFiles`], [`ContainerdFiles`], [`LayerMetadata`]: names and contents of the files that consumers look for.
//!
//! ```
//! use packfs_seal::{HashEffort, verity};
//!
//! let image = vec![7; 8192];
//! let options = verity::VerityOptions::default().set(|all| all.salt = Some(vec![]));
//! let sealed = verity::seal(&image, &options, 0, None, &HashEffort::default())?;
//! assert_eq!(sealed.area.superblock.data_blocks, 2);
//! println!("{}", sealed.root_hash);
//! # Ok::<(), packfs_seal::Error>(())
//! ```

pub mod composefs;
pub mod consumer;
mod containerd;
mod contents;
pub mod ddi;
mod error;
mod fsverity;
mod hashing;
pub mod minisign;
mod names;
pub mod rauc;
pub mod sif;
pub mod signature;
mod tree;
pub mod verity;

pub use containerd::LayerMetadata;
pub use contents::ImageContents;
pub use error::{Error, Result};
pub use fsverity::{FsVerityOptions, fsverity_digest};
pub use hashing::HashAlgorithm;
pub use names::{ContainerdFiles, SystemdFiles};
use packfs_blocks::hex;
pub use packfs_blocks::hex::{from_hex, to_hex};
pub use tree::{HashEffort, RootHash};
