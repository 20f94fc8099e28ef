//! Directories that paths led to, so that reading many files by path looks up one name for each.

use std::collections::HashMap;
use std::sync::RwLock;

use crate::Result;
use crate::image::{FileType, Image, Nid};
use crate::sink::resolve;

/// Number of directories that are remembered, with about 100 bytes each. Data sets for training have one for each class,
/// or for each thousand files.
const MAX_DIRECTORIES: usize = 4096;
/// Longest path of a directory that is remembered, in bytes: what is longer would be too much memory.
const MAX_PATH_LEN: usize = 512;

/// Directories by the paths that lead to them, as callers wrote these.
#[derive(Debug, Default)]
pub(super) struct ParentCache(RwLock<HashMap<Box<[u8]>, Nid>>);

impl ParentCache {
    /// Returns the inode at `path`, as [`resolve`] does.
    pub(super) fn resolve(&self, image: &dyn Image, path: &[u8]) -> Result<Option<Nid>> {
        let slash = path.iter().rposition(|byte| *byte == b'/');
        let (parent, name) = slash.map_or((&b""[..], path), |slash| (&path[..slash], &path[slash + 1..]));
        // These are no entries of the directory before them.
        if matches!(name, b"" | b"." | b"..") {
            return resolve(image, path);
        }
        let Some(parent) = self.directory(image, parent)? else { return Ok(None) };
        let Some(found) = image.lookup(parent, name)? else { return Ok(None) };
        match image.stat(found)?.kind {
            // Its target may lead anywhere.
            FileType::Symlink { .. } => resolve(image, path),
            _ => Ok(Some(found)),
        }
    }

    /// Returns the directory at `path`; `None` if the path leads to anything else, or nowhere.
    fn directory(&self, image: &dyn Image, path: &[u8]) -> Result<Option<Nid>> {
        if let Some(nid) = self.0.read().ok().and_then(|known| known.get(path).copied()) {
            return Ok(Some(nid));
        }
        let Some(nid) = resolve(image, path)? else { return Ok(None) };
        if image.stat(nid)?.kind != FileType::Dir {
            return Ok(None);
        }
        if path.len() <= MAX_PATH_LEN
            && let Ok(mut known) = self.0.write()
        {
            if known.len() >= MAX_DIRECTORIES {
                // Rare, and cheaper than an order of use, which each reader would have to write.
                known.clear();
            }
            known.insert(path.into(), nid);
        }
        Ok(Some(nid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::fake::FakeImage;

    fn image() -> FakeImage {
        let image = FakeImage::default().dir(0, &[("bin", 1), ("loop", 2), ("usr", 3)]).symlink(1, "usr/bin");
        let image =
            image.symlink(2, "/loop").dir(3, &[("bin", 4), ("up", 8)]).dir(4, &[("abs", 5), ("rel", 6), ("sh", 7)]);
        image.symlink(5, "/../bin/./sh").symlink(6, "../../usr/bin/abs").file(7, b"#!").symlink(8, "nowhere")
    }

    #[test]
    fn paths_lead_where_they_do_without_the_cache() {
        let paths = [
            "",
            "/",
            "/./",
            ".",
            "..",
            "usr//bin/sh",
            "/usr/bin/sh",
            "usr/bin/sh/",
            "bin",
            "bin/sh",
            "/bin/abs",
            "usr/bin/rel",
            "usr/up",
            "usr/up/x",
            "usr/bin/sh/x",
            "usr/bin/sh/x/y",
            "usr/none",
            "none/none",
            "usr/bin/sh/..",
            "bin/abs/../sh",
            "bin/../../usr",
            "usr/../usr/bin/sh",
            "usr/bin/.",
            "loop",
            "loop/x",
            "usr/bin/../bin/sh",
            "//bin//sh",
        ];
        let image = image();
        let cache = ParentCache::default();
        // The second time, and in the other order, directories are known.
        for path in paths.iter().chain(&paths).chain(paths.iter().rev()) {
            let expected = resolve(&image, path.as_bytes());
            let found = cache.resolve(&image, path.as_bytes());
            match (expected, found) {
                (Ok(expected), Ok(found)) => assert_eq!(found, expected, "{path}"),
                (Err(expected), Err(found)) => assert_eq!(found.kind(), expected.kind(), "{path}"),
                (expected, found) => panic!("{path}: {found:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn memory_is_bounded() {
        let image = image();
        let cache = ParentCache::default();
        for n in 0..2 * MAX_DIRECTORIES {
            // All lead to one directory.
            let path = format!("{}usr/bin/sh", "./".repeat(n % 300) + &"/".repeat(n / 300 + 1));
            assert_eq!(cache.resolve(&image, path.as_bytes()).unwrap(), Some(Nid(7)));
        }
        let known = cache.0.read().unwrap();
        assert!(known.len() <= MAX_DIRECTORIES, "{}", known.len());
        assert!(known.keys().all(|path| path.len() <= MAX_PATH_LEN));
    }
}
