//! Merges the parts of a scan: returns the entries of each directory as if it were read now.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use packfs_blocks::mutex;

use super::attrs::EntryAttrs;
use super::listing::FoundEntry;
use super::part::{PartHead, PartReader, PartRecord};
use super::{Options, XattrSet, changed};
use crate::tree::path_of;
use crate::{Error, Result};

/// All parts of a scan. Sources take their entries from it in the order in which they were scanned, each once.
#[derive(Debug)]
pub struct Parts {
    state: Mutex<UnreadParts>,
}

#[derive(Debug)]
struct UnreadParts {
    parts: Vec<PartReader>,
    /// Sources that were not taken yet, the last first.
    sources: Vec<PathBuf>,
}

impl Parts {
    /// Opens all parts of a scan of `sources` with `options`, in any order.
    ///
    /// # Errors
    /// [`Error::Misuse`] if a part is missing or given twice, or is of other sources or of a scan with other options.
    pub fn open(paths: &[PathBuf], sources: &[PathBuf], options: &Options) -> Result<Arc<Parts>> {
        // Each part was made from absolute paths.
        let absolute = |path: &PathBuf| std::path::absolute(path).map_err(Error::io("cannot find", path));
        let mut sources: Vec<_> = sources.iter().map(absolute).collect::<Result<_>>()?;
        let how = options.digest();
        let mut parts = Vec::with_capacity(paths.len());
        for path in paths {
            let (reader, head) = PartReader::open(path)?;
            let refuse = |why: &str| Err(Error::Misuse(format!("{}: {why}", crate::name::display(path))));
            if head.sources != sources {
                return refuse("part of a scan of other directories");
            }
            if head.how != how {
                return refuse("part of a scan with other options: those that leave entries out must be the same");
            }
            parts.push((head, reader));
        }
        check_numbers(&parts)?;
        // So that the next source is the last element.
        sources.reverse();
        let parts = parts.into_iter().map(|(_, reader)| reader).collect();
        Ok(Arc::new(Parts { state: Mutex::new(UnreadParts { parts, sources }) }))
    }

    /// Begins with the source at `path`, if it is the next.
    pub(super) fn take(self: &Arc<Self>, path: &Path) -> Result<Option<MergedSource>> {
        let mut state = mutex::lock(&self.state);
        let path = std::path::absolute(path).map_err(Error::io("cannot find", path))?;
        if state.sources.last() != Some(&path) {
            return Ok(None);
        }
        state.sources.pop();
        let mut root = None;
        // All parts have all sources in the same order, with nothing but their own entries in each.
        for part in &mut state.parts {
            match part.advance()? {
                PartRecord::Source(attrs, xattrs) => root.get_or_insert((attrs, xattrs)),
                _ => return Err(part.damaged("a source is missing")),
            };
        }
        let (attrs, xattrs) = root.ok_or_else(|| Error::Misuse("a scan of no parts".into()))?;
        Ok(Some(MergedSource { parts: Arc::clone(self), root: path, attrs, xattrs }))
    }
}

/// Fails unless all parts are there, each once.
fn check_numbers(parts: &[(PartHead, PartReader)]) -> Result<()> {
    let Some((PartHead { part: first, .. }, _)) = parts.first() else { return Ok(()) };
    // Parts may be given in any order.
    let mut found = vec![None; first.count() as usize];
    for (head, reader) in parts {
        let part = head.part;
        let name = crate::name::display(&reader.path);
        if part.count() != first.count() {
            return Err(Error::Misuse(format!("{name}: is part {part}, and others are of {}", first.count())));
        }
        if let Some(other) = found[part.index() as usize].replace(&reader.path) {
            let other = crate::name::display(other);
            return Err(Error::Misuse(format!("{name}: is part {part}, as is {other}")));
        }
    }
    match found.iter().position(Option::is_none) {
        Some(missing) => Err(Error::Misuse(format!("part {missing}/{} of the scan is missing", first.count()))),
        None => Ok(()),
    }
}

/// A source whose entries are taken from parts.
pub(super) struct MergedSource {
    parts: Arc<Parts>,
    root: PathBuf,
    /// Attributes of the root directory.
    pub(super) attrs: EntryAttrs,
    pub(super) xattrs: XattrSet,
}

impl MergedSource {
    /// Passes the entries of the directory at `path` on, in byte order. Directories have to be asked for in the order
    /// of their levels.
    pub(super) fn list(&self, path: &[u8], each: &mut dyn FnMut(FoundEntry) -> Result<()>) -> Result<()> {
        let mut state = mutex::lock(&self.parts.state);
        let all = state.parts.len();
        let mut known = None;
        let mut with = Vec::new();
        for part in &mut state.parts {
            // A part has only the directories in which it has entries, in the order in which they are asked
            // for.
            if !matches!(&part.next, PartRecord::Dir { path: next, .. } if **next == *path) {
                continue;
            }
            let PartRecord::Dir { names, .. } = part.advance()? else { continue };
            // Each part saw the same names, or the directory changed between two of them.
            if *known.get_or_insert(names) != names {
                return Err(self.differ(path));
            }
            with.push(part);
        }
        // A directory that several tasks list is in all parts, any other in one.
        let expected = if known.flatten().is_some() { all } else { 1 };
        if with.len() != expected {
            return Err(self.differ(path));
        }
        // Merged by name: the entries of a directory are spread over the parts.
        while let Some(least) = least(&mut with) {
            match least.advance()? {
                PartRecord::Entry(found) => each(found)?,
                _ => return Err(least.damaged("records are out of order")),
            }
        }
        Ok(())
    }

    /// Fails if the parts have directories that were not asked for.
    pub(super) fn end(&self) -> Result<()> {
        let state = mutex::lock(&self.parts.state);
        state.parts.iter().try_for_each(|part| match &part.next {
            PartRecord::Dir { path, .. } => Err(self.differ(path)),
            PartRecord::Entry(_) => Err(part.damaged("records are out of order")),
            PartRecord::Source(..) | PartRecord::End => Ok(()),
        })
    }

    fn differ(&self, path: &[u8]) -> Error {
        let name = if path.is_empty() { self.root.clone() } else { self.root.join(path_of(path)) };
        changed(&name, "changed while parts of it were scanned: scan all parts again")
    }
}

/// Returns the part whose next entry has the lowest name.
fn least<'p>(parts: &'p mut [&mut PartReader]) -> Option<&'p mut PartReader> {
    let named = parts.iter().enumerate().filter_map(|(at, part)| match &part.next {
        PartRecord::Entry(found) => Some((&found.name, at)),
        _ => None,
    });
    let (_, at) = named.min()?;
    Some(&mut *parts[at])
}
