//! Looks up an inode of an image by its path.

use std::collections::VecDeque;

use crate::image::{FileType, Image, Nid};
use crate::tree::{components, path_of};
use crate::{Error, Result};

/// Number of links followed before they count as a loop, as in Linux.
const MAX_LINKS: u32 = 40;

/// Returns the inode at `path` (components separated by `/`; empty and `.` components are skipped)
/// without following symbolic links. `None` if there is no such path.
pub fn lookup(image: &dyn Image, path: &[u8]) -> Result<Option<Nid>> {
    let mut nid = image.root();
    for name in components(path) {
        if image.stat(nid)?.kind != FileType::Dir {
            return Ok(None);
        }
        match image.lookup(nid, name)? {
            Some(found) => nid = found,
            None => return Ok(None),
        }
    }
    Ok(Some(nid))
}

/// Returns the inode at `path`, following symbolic links including the last component, all within
/// the image: its root is `/` and its own parent. `None` if the path or a link leads nowhere.
pub fn resolve(image: &dyn Image, path: &[u8]) -> Result<Option<Nid>> {
    let mut way = PathResolver::new(image);
    Ok(way.go(path, |_| ())?.then_some(way.here))
}

/// Returns the path at which [`resolve`] ends, without links in it, after those of all links on the way.
pub(super) fn trace(image: &dyn Image, path: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
    let mut way = PathResolver::new(image);
    let mut paths = Vec::new();
    if !way.go(path, |link| paths.push(link))? {
        return Ok(None);
    }
    paths.push(way.path());
    Ok(Some(paths))
}

/// A way through an image along a path.
struct PathResolver<'i> {
    image: &'i dyn Image,
    /// The directories above, each with the name that leads from it.
    parents: Vec<(Nid, Box<[u8]>)>,
    here: Nid,
}

impl<'i> PathResolver<'i> {
    fn new(image: &'i dyn Image) -> Self {
        PathResolver { image, parents: Vec::new(), here: image.root() }
    }

    fn path(&self) -> Vec<u8> {
        self.parents.iter().map(|(_, name)| &name[..]).collect::<Vec<_>>().join(&b'/')
    }

    /// Follows a path, calling `on_link` with the path of each link. Returns false if it leads nowhere.
    fn go(&mut self, path: &[u8], mut on_link: impl FnMut(Vec<u8>)) -> Result<bool> {
        let mut rest: VecDeque<Box<[u8]>> = components(path).map(Box::from).collect();
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            // Also `..` leads on from a directory only.
            if self.image.stat(self.here)?.kind != FileType::Dir {
                return Ok(false);
            }
            if &*name == b".." {
                // The root is its own parent, as for chroot: nothing leads out of the image.
                self.here = self.parents.pop().map_or(self.here, |(parent, _)| parent);
                continue;
            }
            let Some(found) = self.image.lookup(self.here, &name)? else { return Ok(false) };
            let from = std::mem::replace(&mut self.here, found);
            self.parents.push((from, name));
            if let FileType::Symlink { target } = self.image.stat(found)?.kind {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Error::LinkLoop { path: path_of(path) });
                }
                on_link(self.path());
                // The name of the link gives way to its target, from the directory in which it lies.
                self.parents.pop();
                self.here = from;
                if target.first() == Some(&b'/') {
                    self.parents.clear();
                    self.here = self.image.root();
                }
                // Before what is left of the path. No recursion, whose depth a hostile image would choose.
                for name in components(&target).map(Box::from).collect::<Vec<_>>().into_iter().rev() {
                    rest.push_front(name);
                }
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::fake::FakeImage;

    fn image() -> FakeImage {
        let image = FakeImage::default()
            .dir(0, &[("bin", 1), ("loop", 2), ("usr", 3)])
            .symlink(1, "usr/bin")
            .symlink(2, "/loop");
        let image = image.dir(3, &[("bin", 4), ("up", 8)]).dir(4, &[("abs", 5), ("rel", 6), ("sh", 7)]);
        image.symlink(5, "/../bin/./sh").symlink(6, "../../usr/bin/abs").file(7, b"#!").symlink(8, "nowhere")
    }

    #[test]
    fn paths_are_looked_up_without_and_with_following_links() {
        // The path, its inode without following links, and its inode with links followed.
        let cases = [
            ("", Some(0), Some(0)),
            ("/./", Some(0), Some(0)),
            ("usr//bin/sh", Some(7), Some(7)),
            ("bin", Some(1), Some(4)),
            ("bin/sh", None, Some(7)),
            ("bin/abs", None, Some(7)),
            ("usr/bin/rel", Some(6), Some(7)),
            ("usr/up", Some(8), None),
            ("usr/bin/sh/x", None, None),
            ("usr/none", None, None),
            ("usr/bin/sh/..", None, None),
            ("bin/abs/../sh", None, None),
        ];
        for (path, plain, followed) in cases {
            assert_eq!(lookup(&image(), path.as_bytes()).unwrap(), plain.map(Nid), "{path}");
            assert_eq!(resolve(&image(), path.as_bytes()).unwrap(), followed.map(Nid), "{path}");
        }
        assert_eq!(resolve(&image(), b"bin/../../usr").unwrap(), Some(Nid(3)));
        let image = image();
        assert_eq!(lookup(&image, b"usr/bin/sh").unwrap(), resolve(&image, b"bin/rel").unwrap());
        assert_eq!(image.listed.into_inner(), 0, "whole directories were read");
        assert!(matches!(resolve(&self::image(), b"loop"), Err(Error::LinkLoop { .. })));
    }

    #[test]
    fn links_on_the_way_are_told() {
        for (path, told) in [
            ("usr/bin/sh", &["usr/bin/sh"][..]),
            ("/bin/./sh", &["bin", "usr/bin/sh"]),
            ("bin/../bin", &["bin", "usr/bin"]),
            ("usr/bin/rel", &["usr/bin/rel", "usr/bin/abs", "bin", "usr/bin/sh"]),
            ("", &[""]),
        ] {
            let paths = trace(&image(), path.as_bytes()).unwrap().unwrap();
            let paths: Vec<_> = paths.into_iter().map(|path| String::from_utf8(path).unwrap()).collect();
            assert_eq!(paths, told, "{path}");
        }
        assert_eq!(trace(&image(), b"usr/up").unwrap(), None);
        assert_eq!(trace(&image(), b"usr/none").unwrap(), None);
    }
}
