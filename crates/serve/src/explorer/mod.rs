//! The page that explores an image: its tree, its statistics, and what takes the space.
//!
//! A [`Model`] is everything that the page knows about an image; [`page`](fn@page) writes the page itself, which either
//! contains its model, or fetches it from a server at `api/model`.

mod changes;
mod contents;
mod model;
mod page;
mod pieces;

pub use contents::Contents;
pub use model::Model;
pub(crate) use pieces::area;

pub use page::{Content, page, policy};
pub use pieces::Pieces;
