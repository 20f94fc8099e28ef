//! Growth of an image since an older one, by the entries that changed.

use std::collections::{BTreeMap, BTreeSet};

use super::share::{SeenRanges, StorageShares, StorageUse, prorate};
use super::{EntryType, Stats, StorageUser, occupied};
use crate::diff::{Aspect, Difference};
use crate::{AnyImage, Result};

/// An image with its statistics.
#[derive(Debug, Clone, Copy)]
pub struct MeasuredImage<'i> {
    /// The image.
    pub image: &'i AnyImage,
    /// Its statistics.
    pub stats: &'i Stats,
}

/// Returns by how many stored bytes the entries that differ grew, for each path of `differences`: those that
/// [`diff`](crate::diff::diff) finds with the older image first.
///
/// The growth of an entry is what it takes in the newer image less what it took in the older one, a directory that only
/// one of them has with everything below it. Shared bytes are not divided, because shares move with the other users:
/// - Bytes that a file with the same data in both images uses as well count for nobody. So nothing grows whose data is
///   the same, and neither do new copies of it.
/// - Other bytes count once for each entry that uses them. Of a fragment block, or of the packed inode, an entry takes a
///   part in proportion to its plain bytes.
///
/// # Errors
/// Damaged metadata.
pub fn growth<'d>(
    older: MeasuredImage<'_>,
    newer: MeasuredImage<'_>,
    differences: &'d [Difference],
) -> Result<BTreeMap<&'d [u8], i64>> {
    let paths: BTreeSet<&[u8]> =
        differences.iter().filter(|one| changes_data(&one.aspect)).map(|one| &*one.path).collect();
    let mut grown: BTreeMap<&[u8], i64> = differences.iter().map(|one| (&*one.path, 0)).collect();
    for (MeasuredImage { image, stats }, sign) in [(newer, 1), (older, -1)] {
        for (path, bytes) in ChangedFiles::new(stats, &paths).stored_bytes(image)? {
            *grown.entry(path).or_default() += sign * i64::try_from(bytes).unwrap_or(i64::MAX);
        }
    }
    Ok(grown)
}

/// Returns true if an entry that differs in this aspect has other data.
fn changes_data(aspect: &Aspect) -> bool {
    matches!(aspect, Aspect::Entry | Aspect::Type | Aspect::Size | Aspect::Content)
}

/// The files of an image whose data the other image lacks.
struct ChangedFiles<'d, 's> {
    stats: &'s Stats,
    /// For each file, the changed entries that its names are or lie below. Empty if one of its names has the same data in
    /// both images.
    owners: BTreeMap<u32, Vec<&'d [u8]>>,
}

impl<'d, 's> ChangedFiles<'d, 's> {
    fn new(stats: &'s Stats, changed: &BTreeSet<&'d [u8]>) -> Self {
        let mut above: Vec<Option<&'d [u8]>> = Vec::with_capacity(stats.entries.len());
        let mut owners: BTreeMap<u32, Vec<&'d [u8]>> = BTreeMap::new();
        let mut same = BTreeSet::new();
        for (n, entry) in stats.entries.iter().enumerate() {
            // Of a directory that only one image has, the list names the directory alone: it grows by all that is below
            // it.
            let inherited = above.get(entry.parent).copied().flatten();
            let owner = inherited.or_else(|| changed.get(&stats.path(n)[..]).copied());
            above.push(owner);
            let file = match entry.kind {
                EntryType::File => n,
                EntryType::Link(first) => first,
                EntryType::Dir | EntryType::Other => continue,
            };
            // No image measured has more entries.
            let file = u32::try_from(file).unwrap_or(u32::MAX);
            let names = owners.entry(file).or_default();
            match owner {
                Some(owner) if !names.contains(&owner) => names.push(owner),
                Some(_) => {}
                None => _ = same.insert(file),
            }
        }
        for file in same {
            owners.insert(file, Vec::new());
        }
        ChangedFiles { stats, owners }
    }

    /// Returns the stored bytes that each changed entry has and no file with the same data.
    fn stored_bytes(&self, image: &AnyImage) -> Result<BTreeMap<&'d [u8], u64>> {
        let mut shares = StorageShares::default();
        // Those with the same data in both images, too: what they use counts for nobody.
        for file in self.owners.keys() {
            let entry = self.stats.entries.get(*file as usize).filter(|entry| entry.kind == EntryType::File);
            let Some(entry) = entry else { continue };
            occupied(image)
                .file(entry.nid, &mut |piece| shares.add(StorageUse::new(StorageUser::File(*file), piece)))?;
        }
        let mut sums = BTreeMap::new();
        shares.segments(self.stats.image_bytes, &mut |stored, uses| self.add_segment(stored, uses, &mut sums));
        Ok(sums)
    }

    fn add_segment(&self, stored: u64, uses: &[StorageUse], sums: &mut BTreeMap<&'d [u8], u64>) {
        let mut all = SeenRanges::default();
        let mut same = SeenRanges::default();
        let mut changed: BTreeMap<&[u8], SeenRanges> = BTreeMap::new();
        for used in uses {
            let StorageUser::File(file) = used.user else { continue };
            all.add(used.plain.clone());
            let owners = self.owners.get(&file).map_or(&[][..], Vec::as_slice);
            if owners.is_empty() {
                same.add(used.plain.clone());
            }
            for owner in owners {
                changed.entry(owner).or_default().add(used.plain.clone());
            }
        }
        for (owner, plain) in changed {
            *sums.entry(owner).or_default() += prorate(stored, plain.len_without(&same), all.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::Arc;

    use packfs_blocks::Progress;
    use packfs_blocks::testing::noise;

    use super::*;
    use crate::source::Entry;
    use crate::{Builder, OpenOptions, diff};

    /// Lengths of files are in this unit.
    const UNIT: usize = 40_000;
    /// Paths, and seed and length of the noise in each file.
    type FileList<'f> = &'f [(&'f str, (u64, usize))];
    /// Paths, and by how many units they grew.
    type GrowthList<'f> = &'f [(&'f str, i64)];

    fn image(builder: Builder<'_>, files: FileList<'_>) -> AnyImage {
        let entries: Vec<Entry> =
            files.iter().map(|(path, (seed, units))| Entry::file(*path, noise(units * UNIT, *seed))).collect();
        let bytes = builder.entries(entries).write_to(Cursor::new(Vec::new())).unwrap().0.into_inner();
        AnyImage::open(Arc::new(bytes), OpenOptions::default()).unwrap()
    }

    /// Returns the growth of each path that differs, in units.
    fn grown(make: fn() -> Builder<'static>, old: FileList<'_>, new: FileList<'_>) -> Vec<(String, i64)> {
        let old = image(make(), old);
        let new = image(make(), new);
        let mut differences = Vec::new();
        let found = &mut |difference| differences.push(difference);
        diff::diff(old.image(), new.image(), &diff::DiffOptions::default(), &Progress::default(), found).unwrap();
        let stats = [&old, &new].map(|image| Stats::measure(image).unwrap());
        let grown = growth(
            MeasuredImage { image: &old, stats: &stats[0] },
            MeasuredImage { image: &new, stats: &stats[1] },
            &differences,
        )
        .unwrap();
        let unit = i64::try_from(UNIT).unwrap();
        let rounded = |bytes: i64| (bytes + bytes.signum() * unit / 2) / unit;
        grown.into_iter().map(|(path, bytes)| (String::from_utf8_lossy(path).into_owned(), rounded(bytes))).collect()
    }

    #[test]
    fn nothing_grows_but_data_that_no_same_file_has() {
        let cases: [(&str, FileList<'_>, FileList<'_>, GrowthList<'_>); 9] = [
            ("a file", &[("a", (1, 9))], &[("a", (1, 9)), ("b", (2, 5))], &[("b", 5)]),
            ("a copy", &[("a", (1, 9))], &[("a", (1, 9)), ("b", (1, 9))], &[("b", 0)]),
            ("a copy is gone", &[("a", (1, 9)), ("b", (1, 9))], &[("a", (1, 9))], &[("b", 0)]),
            ("two copies", &[("a", (1, 9))], &[("a", (1, 9)), ("b", (2, 5)), ("c", (2, 5))], &[("b", 5), ("c", 5)]),
            (
                "a folder counts shared bytes once",
                &[("a", (1, 9)), ("d/a", (3, 2)), ("d/b", (3, 2))],
                &[("a", (1, 9)), ("e/a", (2, 5)), ("e/b", (2, 5)), ("e/c", (1, 9))],
                &[("d", -2), ("e", 5)],
            ),
            ("other data", &[("a", (1, 9)), ("b", (2, 5))], &[("a", (1, 9)), ("b", (3, 7))], &[("b", 2)]),
            ("becomes a copy", &[("a", (1, 9)), ("b", (2, 5))], &[("a", (1, 9)), ("b", (1, 9))], &[("b", -5)]),
            ("is no copy any more", &[("a", (1, 9)), ("b", (1, 9))], &[("a", (1, 9)), ("b", (2, 5))], &[("b", 5)]),
            (
                "a part of a fragment block",
                &[("a", (1, 1)), ("b", (2, 1)), ("c", (3, 1))],
                &[("a", (1, 1)), ("b", (4, 1)), ("c", (5, 2))],
                &[("b", 0), ("c", 1)],
            ),
        ];
        for (what, old, new, expected) in cases {
            for make in [Builder::squashfs, Builder::erofs] as [fn() -> Builder<'static>; 2] {
                let expected: Vec<(String, i64)> =
                    expected.iter().map(|(path, growth)| ((*path).to_owned(), *growth)).collect();
                let mut found = grown(make, old, new);
                // Directories in which entries change have a new time.
                found.retain(|(path, growth)| !path.is_empty() || *growth != 0);
                assert_eq!(found, expected, "{what}");
            }
        }
    }
}
