//! A part of the section: what one document contributes.

use super::super::model::{ReportChart, ReportTable};

/// Sentences, charts and tables of a document.
#[derive(Default)]
pub(super) struct ReportPart {
    pub(super) sentences: Vec<String>,
    pub(super) charts: Vec<ReportChart>,
    pub(super) tables: Vec<ReportTable>,
}

/// Returns the name of a codec without level and options. `raw` and `none` are the same.
pub(super) fn codec_name(codec: &str) -> &str {
    match codec.split(':').next() {
        Some("raw") => "none",
        Some(name) => name,
        None => codec,
    }
}
