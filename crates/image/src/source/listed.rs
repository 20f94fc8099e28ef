//! Files of the running system by a list of their paths, as `find` prints them (`build --files-from`).

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use packfs_blocks::Progress;

use super::dir::{Links, Options, Single, Singles};
use super::{Source, Store};
use crate::tree::{Conflict, Ino, Kind, ROOT, components, path_of};
use crate::{Error, OnError, Result, Tree};

/// A list of paths, relative to the working directory or absolute. Each file gets in the image the path that it has in
/// the list, without a slash in front.
///
/// A directory stands for itself, not for its entries, as in cpio. Directories on the way to a file are packed with it.
/// The last component of a path may be a symbolic link, which is packed as one. Empty paths are skipped.
#[derive(Debug)]
pub struct PathList {
    paths: Vec<u8>,
    separator: u8,
    options: Options,
    left_out: Vec<Error>,
}

impl PathList {
    /// Makes a source of the paths in a text, with `separator` between them: a newline or a NUL.
    pub fn new(paths: Vec<u8>, separator: u8, options: Options) -> Self {
        PathList { paths, separator, options, left_out: Vec::new() }
    }
}

impl Source for PathList {
    fn scan(&mut self, tree: &mut Tree, store: &mut dyn Store) -> Result<()> {
        self.options.leave_out.extend(store.own_files());
        let (singles, links) = (Singles::new(self.options.xattrs)?, HashMap::new());
        let mut scan = Scan { tree, options: &self.options, singles, links };
        for path in self.paths.split(|byte| *byte == self.separator).filter(|path| !path.is_empty()) {
            let place: Vec<&[u8]> = components(path).collect();
            match scan.add(path, &place) {
                Err(error @ (Error::Cancelled | Error::TooMany { .. })) => return Err(error),
                Err(error) if self.options.on_error == OnError::Stop => return Err(error),
                Err(error) => self.left_out.push(error),
                Ok(()) => {}
            }
            if let Some(progress) = &self.options.progress {
                Progress::add(&progress.entries, 1);
                Error::unless_cancelled(progress)?;
            }
        }
        scan.singles.finish();
        Ok(())
    }

    fn left_out(&self) -> &[Error] {
        &self.left_out
    }
}

struct Scan<'s> {
    tree: &'s mut Tree,
    options: &'s Options,
    singles: Singles,
    /// Files with several names, by device and inode number.
    links: HashMap<(u64, u64), Ino>,
}

impl Scan<'_> {
    /// Adds the file at `path` and the directories that lead there.
    fn add(&mut self, path: &[u8], place: &[&[u8]]) -> Result<()> {
        if place.contains(&&b".."[..]) {
            return Err(Error::limit(path_of(path), "a path with `..` has no place in the image"));
        }
        let mut dir = ROOT;
        for depth in 1..=place.len() {
            let (way, name) = (place[..depth].join(&b'/'), place[depth - 1]);
            let is_last = depth == place.len();
            if let Some(known) = self.tree.lookup(&way).filter(|known| !is_last && self.is_dir(*known)) {
                dir = known;
                continue;
            }
            // From the working directory, or from the root for a list of absolute paths.
            let host = if path.starts_with(b"/") { [b"/", &way[..]].concat() } else { way.clone() };
            let found = self.singles.find_any(self.tree, Path::new(OsStr::from_bytes(&host)), Links::Keep)?;
            if !is_last && !matches!(found.kind, Kind::Dir) {
                let why = format!("`{}` on the way is not a directory", way.escape_ascii());
                return Err(Error::limit(path_of(path), why));
            }
            match self.place(dir, &way, name, found)? {
                Some(ino) => dir = ino,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    fn is_dir(&self, ino: Ino) -> bool {
        self.tree.is_dir(ino)
    }

    /// Adds one entry to its directory; `None` if it is left out.
    fn place(&mut self, dir: Ino, way: &[u8], name: &[u8], found: Single) -> Result<Option<Ino>> {
        let Single { meta, kind, id, linked } = found;
        let is_dir = matches!(kind, Kind::Dir);
        if self.options.exclude.matches(way, is_dir) || self.options.leave_out.contains(&id) {
            return Ok(None);
        }
        if let Some(first) = self.links.get(&id).copied() {
            self.tree.link(dir, name, first, Conflict::Replace)?;
            return Ok(Some(first));
        }
        let ino = self.tree.add(dir, name, meta, kind, Conflict::Replace)?;
        if linked {
            self.links.insert(id, ino);
        }
        Ok(Some(ino))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Exclude;
    use crate::source::open::tests::Sink;

    fn scan(list: &str, options: Options) -> (Result<()>, Vec<String>, Vec<String>) {
        let mut tree = Tree::default();
        let mut source = PathList::new(list.as_bytes().to_vec(), b'\n', options);
        let scanned = source.scan(&mut tree, &mut Sink);
        let mut paths = Vec::new();
        tree.walk(|ino, path| {
            paths.push(format!("{} {}", String::from_utf8_lossy(path), tree.inode(ino).links));
            Ok(())
        })
        .unwrap();
        (scanned, paths, source.left_out().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn listed_files_come_with_the_directories_that_lead_there() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir(root.join("a/c")).unwrap();
        for name in ["a/b/f", "a/b/g", "a/c/x"] {
            std::fs::write(root.join(name), name).unwrap();
        }
        std::fs::hard_link(root.join("a/b/f"), root.join("a/h")).unwrap();
        std::os::unix::fs::symlink("a", root.join("l")).unwrap();
        let at = root.to_str().unwrap();
        let list = |paths: &[&str]| paths.iter().map(|path| format!("{at}/{path}\n")).collect::<String>();
        let inside = |paths: Vec<String>| -> Vec<String> {
            let prefix = at.trim_start_matches('/');
            paths
                .iter()
                .filter_map(|path| Some(path.strip_prefix(prefix)?.trim_start_matches('/').to_owned()))
                .collect()
        };
        let (scanned, paths, _) = scan(&list(&["a/b/f", "", "./a/c", "a//h", "a/b/f", "l"]), Options::default());
        scanned.unwrap();
        let expected = [" 1", "a 1", "a/b 1", "a/b/f 2", "a/c 1", "l 1"];
        assert_eq!(inside(paths), expected, "a/h is another name of a/b/f");
        let options = Options { exclude: Exclude::new(["b/"]).unwrap(), ..Options::default() };
        let (scanned, paths, _) = scan(&list(&["a/b/f", "a/c/x"]), options);
        scanned.unwrap();
        assert_eq!(inside(paths), [" 1", "a 1", "a/c 1", "a/c/x 1"]);
        for (path, why) in [
            ("a/../l", "a path with `..` has no place"),
            ("l/b/f", "on the way is not a directory"),
            ("gone", "No such file"),
        ] {
            let (scanned, ..) = scan(&list(&["a/c/x", path]), Options::default());
            let told = scanned.unwrap_err().to_string();
            assert!(told.contains(why), "{path}: {told}");
            let options = Options { on_error: OnError::Skip, ..Options::default() };
            let (scanned, paths, left_out) = scan(&list(&[path, "a/c/x"]), options);
            scanned.unwrap();
            assert!(left_out.len() == 1 && left_out[0].contains(why), "{left_out:?}");
            assert!(inside(paths).contains(&"a/c/x 1".to_owned()));
        }
    }
}
