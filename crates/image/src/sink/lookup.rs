//! Finding one inode of an image by its path.

use std::collections::VecDeque;

use crate::image::{FileType, Image, Nid};
use crate::tree::components;
use crate::{Error, Result};

/// As many as Linux follows before it says that links go in circles.
const MAX_LINKS: u32 = 40;

/// The inode at `path` (components separated by `/`; empty and `.` components are skipped), symbolic
/// links not followed. `None` when there is no such path.
pub fn lookup(image: &dyn Image, path: &[u8]) -> Result<Option<Nid>> {
    let mut nid = image.root();
    for name in components(path) {
        if image.stat(nid)?.kind != FileType::Dir {
            return Ok(None);
        }
        match child(image, nid, name)? {
            Some(found) => nid = found,
            None => return Ok(None),
        }
    }
    Ok(Some(nid))
}

/// The inode at `path` with symbolic links followed, the last component included, all within the image:
/// its root is `/` and the parent of its root. `None` when the path or a link leads nowhere.
pub fn resolve(image: &dyn Image, path: &[u8]) -> Result<Option<Nid>> {
    let mut parents: Vec<Nid> = Vec::new();
    let mut here = image.root();
    let mut rest: VecDeque<Box<[u8]>> = components(path).map(Box::from).collect();
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if &*name == b".." {
            here = parents.pop().unwrap_or(here);
            continue;
        }
        if image.stat(here)?.kind != FileType::Dir {
            return Ok(None);
        }
        let Some(found) = child(image, here, &name)? else { return Ok(None) };
        if let FileType::Symlink { target } = image.stat(found)?.kind {
            links += 1;
            if links > MAX_LINKS {
                return Err(Error::Usage(format!("`{}`: symbolic links go in circles", path.escape_ascii())));
            }
            if target.first() == Some(&b'/') {
                parents.clear();
                here = image.root();
            }
            for name in components(&target).map(Box::from).collect::<Vec<_>>().into_iter().rev() {
                rest.push_front(name);
            }
        } else {
            parents.push(here);
            here = found;
        }
    }
    Ok(Some(here))
}

fn child(image: &dyn Image, dir: Nid, name: &[u8]) -> Result<Option<Nid>> {
    let entries = image.read_dir(dir)?;
    let found = entries.binary_search_by(|entry| (*entry.name).cmp(name)).ok();
    Ok(found.and_then(|at| entries.get(at)).map(|entry| entry.nid))
}
