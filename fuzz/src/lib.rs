//! The fuzz targets, one module each: a function that takes any bytes and does with them everything that users can.
//! Nothing may panic, hang or take much memory. scripts/fuzz.sh runs them; docs/testing.md lists their properties.

pub mod archive_source;
pub mod codec_decode;
pub mod codec_encode;
pub mod delta_patch;
pub mod dump_part;
pub mod erofs_image;
pub mod http;
mod image;
pub mod kdump;
pub mod nbd;
pub mod pack_list;
pub mod rauc_bundle;
pub mod sif_file;
pub mod squashfs_image;
pub mod squashfs_metadata;
mod take;
pub mod tar_peer;
pub mod tar_source;
pub mod tar_stream;
mod tree;
pub mod two_formats;
pub mod zeros;
pub mod zsync_index;
