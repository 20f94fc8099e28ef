//! The page that explores an image: its tree, its statistics, and what takes up space.
//!
//! A [`ImageModel`] is everything that the page knows about an image; [`page`](fn@page) writes the page itself, which
//! either contains its model, or fetches it from a server at `api/model`.

mod changes;
mod contents;
mod model;
mod page;
mod pieces;

pub use contents::EmbeddedFiles;
pub use model::ImageModel;
pub(crate) use pieces::area_name;

pub use page::{PageSource, page, policy};
pub use pieces::BlockMaps;
