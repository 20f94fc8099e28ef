//! Files of an image by type, folder and ratio.

use std::collections::HashMap;

use super::{EntryStats, EntryType, Stats};

/// Longest extension, with its dot, that counts as a type.
const EXTENSION_MAX: usize = 12;
/// Directories with less than one part in this many of all data are not ranked by ratio, as theirs says little about
/// the image. With a larger number, directories of a few short files would lead the list.
const LEAST_PART: u64 = 1000;
/// Classes of ratios: the least stored bytes for 100 bytes of data, and the name.
pub const RATIOS: [(u64, &str); 5] =
    [(100, "100 % or more"), (75, "75 to 100 %"), (50, "50 to 75 %"), (25, "25 to 50 %"), (0, "below 25 %")];

/// Files that have something in common.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Group {
    /// Name: a type, a folder, a class of ratios, or the path of one file.
    pub name: Vec<u8>,
    /// Number of files; one with several names counts once.
    pub files: u64,
    /// Sum of their lengths.
    pub size: u64,
    /// Sum of their bytes outside holes.
    pub data: u64,
    /// Sum of their shares of the image's bytes.
    pub stored: u64,
    /// Sum of their duplicate bytes.
    pub duplicate: u64,
}

impl Stats {
    /// Returns all files as one group.
    pub fn all(&self) -> Group {
        let mut all = Group::new(Vec::new());
        self.files().for_each(|(_, entry)| all.add(entry));
        all
    }

    /// Returns the files by the extension of their names, as `.so` for `libc.so.6`; those with most stored bytes first.
    pub fn by_type(&self) -> Vec<Group> {
        self.groups(|_, entry| extension(&entry.name))
    }

    /// Returns the files by the first component of their paths; those directly in the root are in `.`.
    pub fn by_folder(&self) -> Vec<Group> {
        let mut top = Vec::with_capacity(self.entries.len());
        for (n, entry) in self.entries.iter().enumerate() {
            // A directory comes before its entries, so the folder of the parent is known.
            top.push(match (n, entry.parent, entry.kind) {
                (0, ..) => 0,
                (_, 0, EntryType::Dir) => n,
                (_, parent, _) => top.get(parent).copied().unwrap_or(0),
            });
        }
        self.groups(|n, _| match top[n] {
            0 => b".".to_vec(),
            folder => self.entries[folder].name.to_vec(),
        })
    }

    /// Returns the files by the bytes stored for 100 bytes of their data, the least compressed first.
    pub fn by_ratio(&self) -> Vec<Group> {
        let class = |entry: &EntryStats| match entry.data {
            0 => "no data",
            data => {
                let percent = u128::from(entry.stored) * 100 / u128::from(data);
                RATIOS.iter().find(|(least, _)| percent >= u128::from(*least)).map_or("", |(_, name)| name)
            }
        };
        let mut groups = self.groups(|_, entry| class(entry).as_bytes().to_vec());
        let rank = |group: &Group| RATIOS.iter().position(|(_, name)| name.as_bytes() == group.name);
        groups.sort_by_key(|group| rank(group).unwrap_or(RATIOS.len()));
        groups
    }

    /// Returns the `most` files with most stored bytes, each as a group with its path, the largest first.
    pub fn largest(&self, most: usize) -> Vec<Group> {
        let mut files: Vec<(usize, &EntryStats)> = self.files().filter(|(_, entry)| entry.stored > 0).collect();
        // Stable: files that take the same space stay in the order of their paths.
        files.sort_by_key(|(_, entry)| u64::MAX - entry.stored);
        files.truncate(most);
        let group = |(n, entry)| {
            let mut group = Group::new(self.path(n));
            group.add(entry);
            group
        };
        files.into_iter().map(group).collect()
    }

    /// Returns the `most` directories whose files compress worst, by the bytes stored for their data, the worst first.
    ///
    /// A directory counts with the files directly in it. Directories with less than a thousandth of all data are left
    /// out; the root is `.`.
    pub fn least_compressed(&self, most: usize) -> Vec<Group> {
        let mut directories: HashMap<usize, Group> = HashMap::new();
        for (_, entry) in self.files() {
            directories.entry(entry.parent).or_insert_with(|| Group::new(Vec::new())).add(entry);
        }
        let least_data = self.all().data.div_ceil(LEAST_PART).max(1);
        let mut ranked: Vec<(usize, Group)> =
            directories.into_iter().filter(|(_, group)| group.data >= least_data).collect();
        // Multiplied crosswise, as quotients of integers would make different ratios equal. The position decides among
        // equals: a hash map has no order.
        ranked.sort_unstable_by(|(a_entry, a), (b_entry, b)| {
            let a_stored = u128::from(a.stored) * u128::from(b.data);
            let b_stored = u128::from(b.stored) * u128::from(a.data);
            b_stored.cmp(&a_stored).then(b.stored.cmp(&a.stored)).then(a_entry.cmp(b_entry))
        });
        ranked.truncate(most);
        let named = |(directory, group)| match directory {
            0 => Group { name: b".".to_vec(), ..group },
            _ => Group { name: self.path(directory), ..group },
        };
        ranked.into_iter().map(named).collect()
    }

    fn files(&self) -> impl Iterator<Item = (usize, &EntryStats)> {
        self.entries.iter().enumerate().filter(|(_, entry)| entry.kind == EntryType::File)
    }

    fn groups(&self, name: impl Fn(usize, &EntryStats) -> Vec<u8>) -> Vec<Group> {
        let mut groups: HashMap<Vec<u8>, Group> = HashMap::new();
        for (n, entry) in self.files() {
            let name = name(n, entry);
            groups.entry(name).or_insert_with_key(|name| Group::new(name.clone())).add(entry);
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        // The name decides among equals, as a hash map has no order.
        groups.sort_unstable_by(|a, b| (b.stored, b.size, &a.name).cmp(&(a.stored, a.size, &b.name)));
        groups
    }
}

impl Group {
    fn new(name: Vec<u8>) -> Self {
        Group { name, files: 0, size: 0, data: 0, stored: 0, duplicate: 0 }
    }

    /// Returns several groups as one without a name; `None` if there are none.
    pub fn sum(groups: &[Group]) -> Option<Group> {
        let mut sum = Group::new(Vec::new());
        for group in groups {
            sum.files += group.files;
            sum.size = sum.size.saturating_add(group.size);
            sum.data = sum.data.saturating_add(group.data);
            sum.stored += group.stored;
            sum.duplicate = sum.duplicate.saturating_add(group.duplicate);
        }
        (!groups.is_empty()).then_some(sum)
    }

    fn add(&mut self, entry: &EntryStats) {
        // Lengths are only claims of the image and may overflow. Shares of stored bytes add up to its length at most.
        self.files += 1;
        self.size = self.size.saturating_add(entry.size);
        self.data = self.data.saturating_add(entry.data);
        self.stored += entry.stored;
        self.duplicate = self.duplicate.saturating_add(entry.duplicate);
    }
}

/// Returns the type that a name shows: its extension in lower case, with its dot, without the numbers of versions after
/// it; empty if it has none.
pub fn extension(name: &[u8]) -> Vec<u8> {
    let mut rest = name;
    // A dot in front makes a name hidden; it begins no extension.
    while let Some(dot) = rest.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0) {
        let end = &rest[dot..];
        if end.len() > 1 && end[1..].iter().all(u8::is_ascii_digit) {
            rest = &rest[..dot];
            continue;
        }
        let is_word = end.len() > 1 && end[1..].iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        return if is_word && end.len() <= EXTENSION_MAX { end.to_ascii_lowercase() } else { Vec::new() };
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::extension;

    #[test]
    fn types_are_extensions_without_versions() {
        let types = [
            ("a.txt", ".txt"),
            ("A.TXT", ".txt"),
            ("libc.so.6", ".so"),
            ("libz.so.1.2.13", ".so"),
            ("ls.1", ""),
            ("ls.1.gz", ".gz"),
            (".profile", ""),
            ("plain", ""),
            ("end.", ""),
            ("a.b c", ""),
            ("a.averyverylongone", ""),
        ];
        for (name, kind) in types {
            assert_eq!(extension(name.as_bytes()), kind.as_bytes(), "{name}");
        }
    }
}
