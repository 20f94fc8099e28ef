//! Steps of a listing that need all entries at once: totals of directories, sort orders, and the
//! branches of a tree.

use std::cmp::Reverse;
use std::collections::HashSet;

use packfs_image::image::FileType;

use super::ListEntry;
use crate::args::SortKey;

/// Sets for each directory the bytes of all files listed below it, counting each file once, whatever names it has.
pub(super) fn add_totals(entries: &mut [ListEntry<'_>]) {
    let mut counted = HashSet::new();
    // The parent directories of the current entry.
    let mut above: Vec<usize> = Vec::new();
    for n in 0..entries.len() {
        above.truncate(above.partition_point(|dir| entries[*dir].depth < entries[n].depth));
        match entries[n].stat.kind {
            FileType::Dir => {
                entries[n].total = Some(0);
                above.push(n);
            }
            FileType::File { size } if entries[n].stat.nlink < 2 || counted.insert(entries[n].nid) => {
                for dir in &above {
                    entries[*dir].total = entries[*dir].total.map(|total| total + size);
                }
            }
            _ => {}
        }
    }
}

/// Sorts entries. Equal ones stay in the order of their paths.
pub(super) fn sort_entries(entries: &mut [ListEntry<'_>], key: Option<SortKey>) {
    let size = |entry: &ListEntry<'_>| match entry.stat.kind {
        FileType::File { size } => size,
        _ => entry.total.unwrap_or(0),
    };
    match key {
        None | Some(SortKey::Path) => {}
        Some(SortKey::Size) => entries.sort_by_key(|entry| Reverse(size(entry))),
        Some(SortKey::Time) => entries.sort_by_key(|entry| Reverse((entry.stat.mtime.secs, entry.stat.mtime.nanos))),
    }
}

/// Sets the branch of each entry, as `tree` draws it.
pub(super) fn draw_branches(entries: &mut [ListEntry<'_>]) {
    // From the end: true if another entry of the same directory follows.
    let mut follows = vec![false; entries.len()];
    let mut open: Vec<bool> = Vec::new();
    for (n, entry) in entries.iter().enumerate().rev() {
        open.resize(entry.depth + 1, false);
        follows[n] = std::mem::replace(&mut open[entry.depth], true);
    }
    let mut lines: Vec<bool> = Vec::new();
    for (entry, follows) in entries.iter_mut().zip(follows) {
        lines.resize(entry.depth + 1, false);
        lines[entry.depth] = follows;
        let above = lines.get(1..entry.depth).unwrap_or_default();
        let mut branch: String = above.iter().map(|line| if *line { "│   " } else { "    " }).collect();
        if entry.depth > 0 {
            branch.push_str(if follows { "├── " } else { "└── " });
        }
        entry.branch = Some(branch);
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use packfs_image::image::{Nid, Stat};
    use packfs_image::tree::Time;

    use super::*;

    /// Makes entries: directories end in `/`; `=` marks another name of file 9.
    fn entries(lines: &[(&str, u64)]) -> Vec<ListEntry<'static>> {
        let entry = |(n, (path, size)): (usize, &(&str, u64))| {
            let nid = if path.ends_with('=') { 9 } else { 100 + n as u64 };
            let kind = if path.ends_with('/') { FileType::Dir } else { FileType::File { size: *size } };
            let path = path.trim_end_matches(['/', '=']);
            let depth = if path.is_empty() { 0 } else { path.split('/').count() };
            let mtime = Time { secs: i64::try_from(*size % 7).unwrap(), nanos: 0 };
            let nlink = if nid == 9 { 2 } else { 1 };
            let stat = Stat { kind, mode: 0o644, uid: 0, gid: 0, mtime, ino: nid, nlink, has_xattrs: false };
            ListEntry {
                path: Cow::Owned(path.into()),
                depth,
                nid: Nid(nid),
                stat: Cow::Owned(stat),
                total: None,
                branch: None,
            }
        };
        lines.iter().enumerate().map(entry).collect()
    }

    #[test]
    fn totals_count_what_is_below_once() {
        let mut entries =
            entries(&[("/", 0), ("a/", 0), ("a/b/", 0), ("a/b/x", 5), ("a/l=", 20), ("c/", 0), ("c/l=", 20), ("d", 1)]);
        add_totals(&mut entries);
        let found: Vec<_> = entries.iter().filter_map(|entry| entry.total).collect();
        assert_eq!(found, [26, 25, 5, 0]);
    }

    #[test]
    fn orders_keep_paths_where_they_are_equal() {
        let given = || entries(&[("a", 3), ("b", 12), ("c/", 0), ("d", 3)]);
        let order = |key, total| {
            let mut entries = given();
            entries[2].total = total;
            sort_entries(&mut entries, key);
            entries.iter().map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect::<String>()
        };
        assert_eq!(order(None, None), "abcd");
        assert_eq!(order(Some(SortKey::Size), None), "badc");
        assert_eq!(order(Some(SortKey::Size), Some(20)), "cbad");
        assert_eq!(order(Some(SortKey::Time), None), "badc");
    }

    #[test]
    fn a_tree_is_drawn_as_tree_does() {
        let mut entries = entries(&[("/", 0), ("a/", 0), ("a/b/", 0), ("a/b/x", 1), ("a/y", 1), ("c/", 0), ("c/z", 1)]);
        let drawn = ["", "├── ", "│   ├── ", "│   │   └── ", "│   └── ", "└── ", "    └── "];
        draw_branches(&mut entries);
        assert_eq!(entries.iter().filter_map(|entry| entry.branch.as_deref()).collect::<Vec<_>>(), drawn);
    }
}
