//! Differences between an image and an older one, with the sizes of what is gone.

use std::collections::BTreeMap;

use packfs_image::diff::{Aspect, Difference};
use packfs_image::name::encode;
use packfs_image::stats::Stats;
use serde::Serialize;

/// Differences from an older image.
#[derive(Debug, Serialize)]
pub(super) struct Changes {
    /// Name of the older image.
    against: String,
    /// Its length.
    image_bytes: u64,
    /// Paths that only the newer image has; a directory stands for everything below it.
    added: Vec<String>,
    removed: Vec<Removed>,
    /// Entries that both have: the path, the bytes stored in the older image, and the differences.
    changed: Vec<(String, u64, Vec<Aspects>)>,
}

/// An entry of the older image that the newer one lacks; a directory with everything below it.
#[derive(Debug, Serialize)]
struct Removed {
    path: String,
    kind: String,
    files: u64,
    size: u64,
    stored: u64,
}

/// Aspect that differs, with the older value and the newer one.
type Aspects = (String, Option<String>, Option<String>);

/// Sums over a path of the older image and everything below it.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    files: u64,
    size: u64,
    stored: u64,
}

impl Changes {
    pub(super) fn new(against: &[u8], old: &Stats, differences: &[Difference]) -> Changes {
        let mut changes = Changes {
            against: encode(against).into_owned(),
            image_bytes: old.image_bytes,
            added: Vec::new(),
            removed: Vec::new(),
            changed: Vec::new(),
        };
        let sums = sums(old, differences);
        let mut last: Option<&[u8]> = None;
        for Difference { path, aspect, first, second } in differences {
            let shown = || encode(path).into_owned();
            let sum = sums.get(&**path).copied().unwrap_or_default();
            match (aspect, first) {
                (Aspect::Entry, Some(kind)) => {
                    let Sum { files, size, stored } = sum;
                    changes.removed.push(Removed { path: shown(), kind: kind.clone(), files, size, stored });
                }
                (Aspect::Entry, None) => changes.added.push(shown()),
                _ => {
                    let found = (word(aspect), first.clone(), second.clone());
                    match changes.changed.last_mut().filter(|_| last == Some(path)) {
                        Some((_, _, aspects)) => aspects.push(found),
                        None => changes.changed.push((shown(), sum.stored, vec![found])),
                    }
                    last = Some(path);
                }
            }
        }
        changes
    }
}

fn word(aspect: &Aspect) -> String {
    match aspect {
        Aspect::Xattr(name) => format!("xattr {}", encode(name)),
        other => other.word().to_owned(),
    }
}

/// Sums what the older image has at the paths of the differences, and below.
fn sums<'d>(old: &Stats, differences: &'d [Difference]) -> BTreeMap<&'d [u8], Sum> {
    let mut sums: BTreeMap<&[u8], Sum> = differences.iter().map(|one| (&*one.path, Sum::default())).collect();
    for (n, entry) in old.entries.iter().enumerate() {
        let path = old.path(n);
        let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
        for path in above.chain([&path[..]]) {
            if let Some(sum) = sums.get_mut(path) {
                sum.files += u64::from(entry.kind == packfs_image::stats::EntryType::File);
                sum.size = sum.size.saturating_add(entry.size);
                sum.stored += entry.stored;
            }
        }
    }
    sums
}
