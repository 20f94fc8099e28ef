//! The looks that all HTML pages of packfs share: colours in light and dark, texts, tables, legends.

/// Style sheet, which the style sheet of a page follows.
pub const LOOK: &str = include_str!("../assets/look.css");

/// Returns text with the characters replaced that have a meaning in HTML. Attributes have to be in double quotes, so
/// apostrophes stay.
pub fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
