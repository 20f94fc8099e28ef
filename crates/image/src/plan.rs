//! What a writer is asked to put down, whatever the format.

use crate::tree::{Ino, Tree};

/// What to put into an image.
#[derive(Debug)]
pub struct Plan {
    /// The tree.
    pub tree: Tree,
    /// Its regular files in the order in which their data is to lie; those not named follow in the tree's order.
    pub order: Vec<Ino>,
}
