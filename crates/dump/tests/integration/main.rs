//! Splitting and joining dumps by the library alone.

mod cancel;
mod fuzz;
mod kdump;
mod overwritten;
// The fuzz target has it at this place, too.
#[allow(unreachable_pub, reason = "public where the fuzz targets use it")]
#[path = "../../../../fuzz/src/zeros.rs"]
mod zeros;
