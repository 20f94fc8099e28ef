//! The metadata zone.
