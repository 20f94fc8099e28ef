//! The page that explores an image: its tree, its statistics, and what takes the space.
