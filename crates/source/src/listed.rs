//! Files of the running system by a list of their paths, as `find` prints them (`build --files-from`).

use std::collections::HashMap;
use std::path::Path;

use packfs_blocks::Progress;
use packfs_blocks::system::os_str;

use super::dir::{LinkPolicy, Options, SingleFile, SingleFiles};
use super::{Source, Store};
use crate::tree::{ConflictPolicy, Ino, InodeAttributes, Kind, ROOT, components, path_of};
use crate::{Error, Result, Tree, Warning, WarningKind};

/// A list of paths, relative to the working directory or absolute. Each file gets in the image the path that it has in
/// the list, without slashes, `.` and `..` in front.
///
/// The root of the image gets the attributes of the directory that all paths begin in, if it is the same for all.
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
        // The image being written may lie in a directory of the list.
        self.options.leave_out.extend(store.own_files());
        let singles = SingleFiles::new(self.options.xattrs)?;
        let links = HashMap::new();
        // A tree has its root from the start.
        let has_root = tree.len() > 1;
        let mut scan =
            ListScan { tree, options: &self.options, singles, links, top: CommonDirectory::default(), has_root };
        for path in self.paths.split(|byte| *byte == self.separator).filter(|path| !path.is_empty()) {
            match scan.add(&ListedPath::new(path)) {
                // Too many entries are too many whatever is skipped.
                Err(error @ Error::TooMany { .. }) => return Err(error),
                Err(error) if !self.options.on_error.skips(&error) => return Err(error),
                Err(error) => self.left_out.push(error),
                Ok(()) => {}
            }
            if let Some(progress) = &self.options.progress {
                Progress::add(&progress.entries, 1);
                Error::unless_cancelled(progress)?;
            }
        }
        scan.finish()
    }

    fn left_out(&self) -> &[Error] {
        &self.left_out
    }
}

/// Parsed path of the list.
struct ListedPath<'p> {
    whole: &'p [u8],
    /// The directory in which it begins: `.`, or with a slash at the end. It is not part of the path in the image.
    top: &'p [u8],
    /// The components of its path in the image.
    place: Vec<&'p [u8]>,
}

impl<'p> ListedPath<'p> {
    fn new(whole: &'p [u8]) -> Self {
        let mut rest = whole;
        loop {
            let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            match &rest[..end] {
                // Leading components have no place in the image. The guard ends the loop: the end of a path looks like
                // an empty component.
                b"" | b"." | b".." if !rest.is_empty() => rest = &rest[(end + 1).min(rest.len())..],
                _ => break,
            }
        }
        let top = &whole[..whole.len() - rest.len()];
        ListedPath { whole, top: if top.is_empty() { b"." } else { top }, place: components(rest).collect() }
    }
}

/// Directory in which the paths of the list begin.
#[derive(Default)]
enum CommonDirectory {
    /// No path was read so far.
    #[default]
    Unknown,
    Same {
        /// As it was written last.
        // The same file by another path counts as the same.
        path: Vec<u8>,
        /// Device and inode number.
        id: (u64, u64),
        meta: InodeAttributes,
    },
    Different,
}

struct ListScan<'s> {
    tree: &'s mut Tree,
    options: &'s Options,
    singles: SingleFiles,
    /// Files with several names, by device and inode number.
    links: HashMap<(u64, u64), Ino>,
    top: CommonDirectory,
    /// True if earlier sources have given the root its attributes.
    has_root: bool,
}

impl ListScan<'_> {
    /// Gives the root its attributes, and makes the files readable.
    fn finish(self) -> Result<()> {
        match self.top {
            CommonDirectory::Same { meta, .. } if !self.has_root => self.tree.set_meta(ROOT, meta),
            CommonDirectory::Same { .. } | CommonDirectory::Different => {}
            CommonDirectory::Unknown => {
                let warning = Warning::new(WarningKind::ListNamesNothing, "the list");
                self.tree.warnings.add(warning)?;
            }
        }
        self.singles.finish();
        Ok(())
    }

    /// Notes the directory that a path begins in.
    fn begin_in(&mut self, top: &[u8]) -> Result<()> {
        // Usually all paths begin alike, so nothing has to be looked up.
        let before = match &self.top {
            CommonDirectory::Different => return Ok(()),
            CommonDirectory::Same { path, .. } if path == top => return Ok(()),
            CommonDirectory::Same { id, .. } => Some(*id),
            CommonDirectory::Unknown => None,
        };
        let dir = os_str(top);
        let SingleFile { meta, id, .. } = self.singles.find_any(self.tree, Path::new(&dir), LinkPolicy::Follow)?;
        self.top = match before {
            Some(before) if before != id => CommonDirectory::Different,
            _ => CommonDirectory::Same { path: top.to_owned(), id, meta },
        };
        Ok(())
    }

    /// Adds a file and the directories that lead there.
    fn add(&mut self, listed: &ListedPath<'_>) -> Result<()> {
        let path = listed.whole;
        let place = &listed.place[..];
        if place.is_empty() {
            // Nothing to place: it is the root, whose attributes were taken.
            return Ok(()); // `find` prints the directory that it begins in.
        }
        if place.contains(&&b".."[..]) {
            return Err(Error::limit(path_of(path), "`..` within a path has no place in the image"));
        }
        self.begin_in(listed.top)?;
        let mut dir = ROOT;
        // From the top down, as directories on the way may not be listed themselves.
        for depth in 1..=place.len() {
            let way = place[..depth].join(&b'/');
            let name = place[depth - 1];
            let is_last = depth == place.len();
            // Only a directory that is known; the last component is always looked up, since it may be listed
            // again.
            if let Some(known) = self.tree.lookup(&way).filter(|known| !is_last && self.is_dir(*known)) {
                dir = known;
                continue;
            }
            let host = if listed.top == b"." { way.clone() } else { [listed.top, &way[..]].concat() };
            let found = self.singles.find_any(self.tree, Path::new(&os_str(&host)), LinkPolicy::Keep)?;
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
    fn place(&mut self, dir: Ino, way: &[u8], name: &[u8], found: SingleFile) -> Result<Option<Ino>> {
        let SingleFile { meta, kind, id, linked } = found;
        let is_dir = matches!(kind, Kind::Dir);
        if self.options.exclude.matches(way, is_dir) || self.options.leave_out.contains(&id) {
            return Ok(None);
        }
        // As another name of the same file, so that its data is stored once.
        if let Some(first) = self.links.get(&id).copied() {
            self.tree.link(dir, name, first, ConflictPolicy::Replace)?;
            return Ok(Some(first));
        }
        let ino = self.tree.add(dir, name, meta, kind, ConflictPolicy::Replace)?;
        if linked {
            self.links.insert(id, ino);
        }
        Ok(Some(ino))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Sink;
    use crate::{ExcludeRules, OnError};

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
        let options = Options { exclude: ExcludeRules::new(["b/"]).unwrap(), ..Options::default() };
        let (scanned, paths, _) = scan(&list(&["a/b/f", "a/c/x"]), options);
        scanned.unwrap();
        assert_eq!(inside(paths), [" 1", "a 1", "a/c 1", "a/c/x 1"]);
        for (path, why) in [
            ("a/../l", "`..` within a path has no place"),
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

    #[test]
    fn the_root_is_the_directory_in_which_all_paths_begin() {
        let meta = |dir: &str| {
            let mut tree = Tree::default();
            let mut singles = SingleFiles::new(false).unwrap();
            singles.find_any(&mut tree, Path::new(dir), LinkPolicy::Follow).unwrap().meta
        };
        let none = Tree::default().meta(ROOT);
        // The tests run in the folder of this crate.
        for (list, paths, root) in [
            ("src/lib.rs\n", &["", "src", "src/lib.rs"][..], meta(".")),
            (".\n./src\n", &["", "src"], meta(".")),
            ("../image/Cargo.toml\n", &["", "image", "image/Cargo.toml"], meta("..")),
            (".././image/../cli\n", &[""], none),
            ("../image/Cargo.toml\nsrc\n", &["", "image", "image/Cargo.toml", "src"], none),
            ("../image/src\n./../cli/src\n", &["", "cli", "cli/src", "image", "image/src"], meta("..")),
            ("/etc/passwd\n", &["", "etc", "etc/passwd"], meta("/")),
            ("..\n/\n.\n", &[""], none),
        ] {
            let options = Options { xattrs: false, on_error: OnError::Skip, ..Options::default() };
            let mut tree = Tree::default();
            PathList::new(list.as_bytes().to_vec(), b'\n', options).scan(&mut tree, &mut Sink).unwrap();
            let mut found = Vec::new();
            tree.walk(|_, path| {
                found.push(String::from_utf8_lossy(path).into_owned());
                Ok(())
            })
            .unwrap();
            assert_eq!(found, paths, "{list}");
            assert_eq!(tree.meta(ROOT), root, "{list}");
            let is_empty = paths.len() == 1;
            assert_eq!(tree.warnings.count(WarningKind::ListNamesNothing), u64::from(is_empty), "{list}");
        }
    }
}
