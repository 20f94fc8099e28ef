//! Serves SquashFS and EROFS images over HTTP, and draws the page that explores them in a browser.

pub mod explorer;
