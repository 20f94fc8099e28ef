//! Differences between an image and an older one, with the growth of each entry and the sizes of what is gone.

use std::collections::BTreeMap;

use packfs_image::diff::{Aspect, Difference};
use packfs_image::name::encode;
use packfs_image::stats::{MeasuredImage, Stats, growth};
use serde::Serialize;

use crate::Result;

/// Differences from an older image.
#[derive(Debug, Serialize)]
pub(super) struct ImageChanges {
    /// Name of the older image.
    against: String,
    /// Its length.
    image_bytes: u64,
    /// Paths that only the newer image has, and their [`growth`]; a directory stands for everything below it.
    added: Vec<(String, i64)>,
    removed: Vec<RemovedEntry>,
    /// Entries that both have: the path, its [`growth`], and the differences.
    changed: Vec<(String, i64, Vec<AspectChange>)>,
}

/// An entry of the older image that the newer one lacks; a directory with everything below it.
#[derive(Debug, Serialize)]
struct RemovedEntry {
    path: String,
    kind: String,
    files: u64,
    size: u64,
    stored: u64,
    growth: i64,
}

/// Aspect that differs, with the older value and the newer one.
type AspectChange = (String, Option<String>, Option<String>);

/// Sums over a path of the older image and everything below it.
#[derive(Debug, Default, Clone, Copy)]
struct SubtreeSum {
    files: u64,
    size: u64,
    stored: u64,
}

impl ImageChanges {
    /// Collects the differences of the newer image; `against` is the name of the older one.
    pub(super) fn new(
        against: &[u8],
        older: MeasuredImage<'_>,
        newer: MeasuredImage<'_>,
        differences: &[Difference],
    ) -> Result<ImageChanges> {
        let old = older.stats;
        let grown = growth(older, newer, differences)?;
        let mut changes = ImageChanges {
            against: encode(against).into_owned(),
            image_bytes: old.image_bytes,
            added: Vec::new(),
            removed: Vec::new(),
            changed: Vec::new(),
        };
        let sums = sum_removed(old, differences);
        let mut last: Option<&[u8]> = None;
        for Difference { path, aspect, first, second } in differences {
            let shown = || encode(path).into_owned();
            // A path of the differences that has no growth is metadata alone.
            let growth = grown.get(&**path).copied().unwrap_or_default();
            match (aspect, first) {
                (Aspect::Entry, Some(kind)) => {
                    let SubtreeSum { files, size, stored } = sums.get(&**path).copied().unwrap_or_default();
                    changes.removed.push(RemovedEntry {
                        path: shown(),
                        kind: kind.clone(),
                        files,
                        size,
                        stored,
                        growth,
                    });
                }
                (Aspect::Entry, None) => changes.added.push((shown(), growth)),
                _ => {
                    let found = (aspect_name(aspect), first.clone(), second.clone());
                    // Differences of one path follow each other.
                    match changes.changed.last_mut().filter(|_| last == Some(path)) {
                        Some((_, _, aspects)) => aspects.push(found),
                        None => changes.changed.push((shown(), growth, vec![found])),
                    }
                    last = Some(path);
                }
            }
        }
        Ok(changes)
    }
}

fn aspect_name(aspect: &Aspect) -> String {
    match aspect {
        Aspect::Xattr(name) => format!("xattr {}", encode(name)),
        other => other.word().to_owned(),
    }
}

/// Sums what the older image has at the removed paths, and below.
fn sum_removed<'d>(old: &Stats, differences: &'d [Difference]) -> BTreeMap<&'d [u8], SubtreeSum> {
    let removed = differences.iter().filter(|one| one.aspect == Aspect::Entry && one.first.is_some());
    let mut sums: BTreeMap<&[u8], SubtreeSum> = removed.map(|one| (&*one.path, SubtreeSum::default())).collect();
    for (n, entry) in old.entries.iter().enumerate() {
        let path = old.path(n);
        // A removed directory stands for everything below it.
        // Every directory above, so that each removed one sums all that is below it.
        let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        for path in above.chain([&path[..]]) {
            if let Some(sum) = sums.get_mut(path) {
                sum.files += u64::from(entry.kind == packfs_image::stats::EntryType::File);
                // Inodes claim any size, so the sum may overflow; stored bytes lie in the image.
                sum.size = sum.size.saturating_add(entry.size);
                sum.stored += entry.stored;
            }
        }
    }
    sums
}
