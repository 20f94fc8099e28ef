//! Tests of the crate as its users see it.

mod common;
mod fuzz;
mod hostile;
mod round_trips;
mod sizes;
mod zsync;

/// How fuzz targets read their inputs.
#[path = "../../../../fuzz/src/take.rs"]
#[allow(dead_code, reason = "the target here needs some of it")]
mod take;
