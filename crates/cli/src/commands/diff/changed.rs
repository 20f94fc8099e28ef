//! `packfs diff --extract`: the files that differ, from both sides.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use packfs_blocks::Progress;
use packfs_image::diff::{Aspect, Difference};
use packfs_image::image::{FileType, Image};
use packfs_image::name::display;
use packfs_image::sink::{self, Selection, Walk, dir};

use crate::output::say;

/// Directories for the files of either side.
const NAMES: [&str; 2] = ["old", "new"];
/// Types that are not extracted, by the letters of `find -type`: all but files and the directories they are in.
const OTHERS: &[u8] = b"lbcps";

/// Paths whose files differ, of either side.
#[derive(Debug, Default)]
pub(super) struct ChangedFiles([Vec<PathBuf>; 2]);

impl ChangedFiles {
    /// Takes note of a difference if it concerns the contents of files.
    pub(super) fn note(&mut self, difference: &Difference) {
        let path = || PathBuf::from(OsStr::from_bytes(&difference.path));
        let sides = match difference.aspect {
            Aspect::Entry => [difference.first.is_some(), difference.second.is_some()],
            Aspect::Content | Aspect::Size | Aspect::Type => [true, true],
            _ => [false, false],
        };
        for (list, _) in self.0.iter_mut().zip(sides).filter(|(_, concerned)| *concerned) {
            list.push(path());
        }
    }

    /// Extracts the files of one side, 0 or 1, below `to`.
    pub(super) fn extract(
        &mut self,
        side: usize,
        image: &dyn Image,
        to: &Path,
        (force, threads): (bool, usize),
        progress: &Progress,
    ) -> Result<()> {
        let mut paths = std::mem::take(&mut self.0[side]);
        if paths.is_empty() {
            // No path would select everything.
            return Ok(());
        }
        add_names(image, &mut paths)?;
        let select = Selection {
            paths,
            without_types: OTHERS.to_vec(),
            without_empty_dirs: true,
            may_miss: true,
            ..Selection::default()
        };
        let options = dir::ExtractOptions::default().set(|all| {
            all.select = select;
            all.replace = force;
            all.threads = threads;
            all.owner = dir::Owner::Extractor;
            all.xattrs = false;
        });
        let to = to.join(NAMES[side]);
        std::fs::create_dir_all(&to).with_context(|| format!("cannot create {}", display(&to)))?;
        let summary = dir::extract(image, &to, &options, progress)?;
        summary.not_restored.iter().for_each(|what| say(format_args!("packfs: {what}")));
        Ok(())
    }
}

/// Adds the other names of files with several: differences are found under the first.
fn add_names(image: &dyn Image, paths: &mut Vec<PathBuf>) -> Result<()> {
    let mut inodes = HashSet::new();
    for path in &*paths {
        if let Some(nid) = sink::lookup(image, path.as_os_str().as_bytes())? {
            let stat = image.stat(nid)?;
            inodes.extend((stat.nlink > 1 && matches!(stat.kind, FileType::File { .. })).then_some(stat.ino));
        }
    }
    if inodes.is_empty() {
        return Ok(());
    }
    let known: HashSet<PathBuf> = paths.iter().cloned().collect();
    let mut walk = Walk::new(image, &[])?;
    while let Some(visit) = walk.step()? {
        let path = Path::new(OsStr::from_bytes(visit.path));
        if visit.stat.kind != FileType::Dir && inodes.contains(&visit.stat.ino) && !known.contains(path) {
            paths.push(path.to_owned());
        }
    }
    Ok(())
}
