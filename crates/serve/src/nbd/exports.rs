//! Exports: images, and dumps as disks, that a client can choose from by name.

use std::fmt;
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_image::image::Extent;

/// Longest name and description, by the protocol.
const TEXT_MAX: usize = 4096;

/// Bytes that are offered as a disk.
#[derive(Debug, Clone)]
pub struct NbdExport {
    /// Name by which clients choose it, of at most 4096 bytes.
    pub name: String,
    /// Description for people, of at most 4096 bytes.
    pub description: String,
    /// The bytes.
    pub bytes: Arc<dyn ReadAt>,
    /// Ranges of zeros that are not stored, if they are known.
    pub holes: Option<Arc<dyn HoleMap>>,
}

/// Knows where bytes are zeros that are not stored.
pub trait HoleMap: Send + Sync + fmt::Debug {
    /// Returns the extents from an offset on, adjacent and in order. Bytes that no extent covers count as stored.
    fn extents_from(&self, offset: u64) -> Box<dyn Iterator<Item = Extent> + '_>;
}

/// The exports of a server, with names that differ.
#[derive(Debug)]
pub(super) struct ExportList(Vec<NbdExport>);

impl ExportList {
    /// Takes exports. Names that are taken get a number, and too long texts are cut.
    pub(super) fn new(given: Vec<NbdExport>) -> Self {
        let mut exports: Vec<NbdExport> = Vec::new();
        for mut export in given {
            // Room for the number that a name may get.
            cut(&mut export.name, TEXT_MAX - 32);
            cut(&mut export.description, TEXT_MAX);
            let name = export.name.clone();
            let mut number = 1;
            while export.name.is_empty() || exports.iter().any(|one| one.name == export.name) {
                number += 1;
                export.name = format!("{name}-{number}");
            }
            exports.push(export);
        }
        ExportList(exports)
    }

    /// Returns the export that a client names; the empty name is that of the first one.
    pub(super) fn find(&self, name: &[u8]) -> Option<&NbdExport> {
        if name.is_empty() { self.0.first() } else { self.0.iter().find(|one| one.name.as_bytes() == name) }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &NbdExport> {
        self.0.iter()
    }
}

/// Cuts a text to at most `max` bytes.
fn cut(text: &mut String, max: usize) {
    // A length of 0 is always a boundary.
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_fit_the_protocol() {
        let export = |name: &str| NbdExport {
            name: name.into(),
            description: "ä".repeat(3000),
            bytes: Arc::new(Vec::new()),
            holes: None,
        };
        let exports = ExportList::new(vec![export("a"), export("a"), export(""), export(&"ö".repeat(5000))]);
        let names: Vec<&str> = exports.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names[..3], ["a", "a-2", "-2"]);
        assert!(exports.iter().all(|one| one.name.len() <= TEXT_MAX && one.description.len() == TEXT_MAX));
        assert_eq!(exports.find(b"").unwrap().name, "a");
        assert_eq!(exports.find(b"a-2").unwrap().name, "a-2");
        assert!(exports.find(b"b").is_none());
    }
}
