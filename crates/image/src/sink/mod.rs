//! Where images go: directories, tar archives, listings.
//!
//! Each sink follows a [`Walk`] over an [`Image`](crate::Image), whatever its format.

pub mod dir;
#[cfg(test)]
pub(crate) mod fake;
mod lookup;
pub mod tar;
mod walk;

pub use lookup::{lookup, resolve};
pub use walk::{Visit, Walk};
