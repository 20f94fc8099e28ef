//! The reader of packfs in WebAssembly. JavaScript fetches the bytes; this module says which.
//!
//! A page must not wait for the network, but the reader of images reads where it needs to. So a request is tried with the
//! bytes that are there. If some are missing, it ends with their ranges; the caller fetches and supplies them, and makes
//! the same request again. What was decoded stays in the image's cache, so trying again costs little.
//!
//! An instance of the module is one image, and imports nothing. `npm/reader.js` is the only caller of [`exports`].

pub mod exports;
mod pages;
mod request;
mod session;

pub use pages::FetchedPages;
pub use request::{ImageRequest, describe_error};
pub use session::{ImageSession, RequestOutcome};
