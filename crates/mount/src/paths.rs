//! Finds the path of an inode, for messages: the kernel asks by number, and no names are kept in memory.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use packfs_blocks::mutex;
use packfs_image::Image;
use packfs_image::image::{FileType, Nid};
use packfs_image::name::display;

/// Longest search for one path. It delays the answer to a request that failed; a second is enough for about 200,000
/// entries.
const SEARCH_MAX: Duration = Duration::from_secs(1);
/// Time for all searches of a mount together, so that a badly damaged image does not keep its readers waiting.
const TOTAL_MAX: Duration = Duration::from_secs(10);

/// Searches an image for paths, for a limited time.
#[derive(Debug, Default)]
pub(crate) struct PathFinder {
    state: Mutex<SearchState>,
}

#[derive(Debug, Default)]
struct SearchState {
    spent: Duration,
    /// The last search and its result: programs try again what failed.
    last: Option<(Nid, Option<String>)>,
}

impl PathFinder {
    /// Returns the first path that leads from `root` to an inode, as it may be shown; `None` if none is found in time.
    pub(crate) fn find(&self, image: &dyn Image, root: Nid, wanted: Nid) -> Option<String> {
        let mut state = mutex::lock(&self.state);
        if let Some((nid, path)) = &state.last
            && *nid == wanted
        {
            return path.clone();
        }
        let begun = Instant::now();
        let deadline = begun + SEARCH_MAX.min(TOTAL_MAX.saturating_sub(state.spent));
        let path = search(image, root, wanted, deadline);
        let path = path.map(|path| display(Path::new(OsStr::from_bytes(&path))).to_string());
        state.spent += begun.elapsed();
        state.last = Some((wanted, path.clone()));
        path
    }
}

/// Walks the tree until it finds an inode. Directories that cannot be read are skipped.
fn search(image: &dyn Image, root: Nid, wanted: Nid, deadline: Instant) -> Option<Vec<u8>> {
    if wanted == root {
        return Some(b"/".to_vec());
    }
    // A damaged image may have loops.
    let mut seen = HashSet::from([root]);
    let mut dirs = vec![(root, Vec::new())];
    while let Some((dir, path)) = dirs.pop() {
        for entry in image.read_dir(dir).unwrap_or_default() {
            // Before each entry, as a single directory may have millions.
            if Instant::now() >= deadline {
                return None;
            }
            let path = [&path, &b"/"[..], &entry.name].concat();
            if entry.nid == wanted {
                return Some(path);
            }
            let is_dir = image.stat(entry.nid).is_ok_and(|stat| stat.kind == FileType::Dir);
            if is_dir && seen.insert(entry.nid) {
                dirs.push((entry.nid, path));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use packfs_blocks::Progress;
    use packfs_image::image::{Entry, Extent, Stat};
    use packfs_image::tree::{Time, XattrSet};
    use packfs_image::{Error, Finding, Part, Result};

    use super::*;

    /// Directories by number; all other numbers are empty files. Number 9 cannot be read.
    #[derive(Debug)]
    struct NumberedDirs(Vec<(u64, Vec<(&'static str, u64)>)>);

    impl NumberedDirs {
        fn get(&self, nid: Nid) -> Option<&[(&'static str, u64)]> {
            self.0.iter().find(|(number, _)| *number == nid.0).map(|(_, entries)| &entries[..])
        }
    }

    impl Image for NumberedDirs {
        fn root(&self) -> Nid {
            Nid(1)
        }

        fn stat(&self, nid: Nid) -> Result<Stat> {
            let kind = if self.get(nid).is_some() { FileType::Dir } else { FileType::File { size: 0 } };
            let mtime = Time { secs: 0, nanos: 0 };
            Ok(Stat { kind, ino: nid.0, mode: 0, uid: 0, gid: 0, mtime, nlink: 1, has_xattrs: false })
        }

        fn read_dir(&self, nid: Nid) -> Result<Vec<Entry>> {
            let entries = self.get(nid).filter(|_| nid.0 != 9).ok_or_else(|| Error::Misuse("damaged".into()))?;
            Ok(entries.iter().map(|(name, nid)| Entry { name: name.as_bytes().into(), nid: Nid(*nid) }).collect())
        }

        fn xattrs(&self, _: Nid) -> Result<XattrSet> {
            Ok(XattrSet::new())
        }

        fn read_at(&self, _: Nid, _: &mut [u8], _: u64) -> Result<usize> {
            Ok(0)
        }

        fn extents(&self, _: Nid) -> Result<Vec<Extent>> {
            Ok(Vec::new())
        }

        fn inode_count(&self) -> u64 {
            0
        }

        fn check_part(&self, _: Part, _: usize, _: &Progress, _: &mut dyn FnMut(Finding)) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_path_is_found_in_a_damaged_image_too() {
        let image = Arc::new(NumberedDirs(vec![
            (1, vec![("a", 2), ("bad", 9), ("f", 3)]),
            (2, vec![("loop", 1), ("line\nfeed", 4), ("again", 2)]),
            (9, vec![("hidden", 8)]),
        ]));
        let finder = PathFinder::default();
        let cases = [(1, Some("/")), (3, Some("/f")), (4, Some("/a/line\\nfeed")), (8, None), (9, Some("/bad"))];
        for (number, path) in cases {
            for _ in 0..2 {
                assert_eq!(finder.find(&*image, Nid(1), Nid(number)).as_deref(), path, "{number}");
            }
        }
        // No time is left.
        finder.state.lock().unwrap().spent = TOTAL_MAX;
        assert_eq!(finder.find(&*image, Nid(1), Nid(4)), None);
    }
}
