//! The looks that all HTML pages of packfs share: colours in light and dark, texts, tables, legends.

/// Style sheet, which the style sheet of a page follows.
pub const LOOK: &str = include_str!("../assets/look.css");
