//! `packfs diff --extract`: the files that differ, from both sides.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use packfs_blocks::Progress;
use packfs_image::diff::{Aspect, Difference};
use packfs_image::image::Image;
use packfs_image::name::display;
use packfs_image::sink::{Selection, dir};

use crate::output::say;

/// Directories for the files of either side.
const NAMES: [&str; 2] = ["old", "new"];
/// Types that are not extracted, by the letters of `find -type`: all but files and the directories they are in.
const OTHERS: &[u8] = b"lbcps";

/// Paths whose files differ, of either side.
#[derive(Debug, Default)]
pub(super) struct Changed([Vec<PathBuf>; 2]);

impl Changed {
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
        let paths = std::mem::take(&mut self.0[side]);
        if paths.is_empty() {
            // No path would select everything.
            return Ok(());
        }
        let select = Selection {
            paths,
            without_types: OTHERS.to_vec(),
            without_empty_dirs: true,
            may_miss: true,
            ..Selection::default()
        };
        let options = dir::Options::default().set(|all| {
            (all.select, all.replace, all.threads) = (select, force, threads);
            (all.owner, all.xattrs) = (dir::Owner::Extractor, false);
        });
        let to = to.join(NAMES[side]);
        std::fs::create_dir_all(&to).with_context(|| format!("cannot create {}", display(&to)))?;
        let summary = dir::extract(image, &to, &options, progress)?;
        summary.not_restored.iter().for_each(|what| say(format_args!("packfs: {what}")));
        Ok(())
    }
}
