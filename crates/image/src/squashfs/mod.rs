//! SquashFS 4.0.
pub mod format;
