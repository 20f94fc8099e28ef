//! Building and reading images by the library alone. The tests in rust_only.rs are a program of their own, which is also
//! compiled without a C compiler.

mod announce;
mod builder;
mod cancel;
mod faults;
mod fuzz;
mod overwritten;
mod programs;
mod request;

/// Parts of the fuzz targets: how they look at an image, and how they read their inputs.
#[path = "../../../../fuzz/src/image.rs"]
mod image;
#[path = "../../../../fuzz/src/squashfs_metadata.rs"]
#[allow(unreachable_pub, reason = "public where the fuzz targets use it")]
mod squashfs_metadata;
#[path = "../../../../fuzz/src/take.rs"]
#[allow(dead_code, reason = "the target here needs some of it")]
mod take;
