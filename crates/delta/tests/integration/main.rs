//! Tests of the crate as its users see it.

mod common;
mod hostile;
mod round_trips;
mod sizes;
