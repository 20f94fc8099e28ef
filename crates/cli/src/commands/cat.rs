//! `packfs cat`.

use std::ffi::OsStr;
use std::io::Write;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use packfs_blocks::{Progress, ReadAt};
use packfs_dump::join;
use packfs_dump::set::is_part;
use packfs_image::Image;
use packfs_image::image::{FileType, Nid};
use packfs_image::name::display;
use packfs_image::sink::{self, Selection, Walk};

use super::{open, parts, sources};
use crate::args::CatArgs;
use crate::output;
use crate::output::failure::{CommandOutcome, UsageError};
use crate::resources;

/// Number of bytes that are read and written at once. Not measured.
const PIECE_LEN: usize = 1 << 20;
/// Number of bytes, and of files, to announce ahead of the one that is written.
const AHEAD: u64 = 16 << 20;
const AHEAD_FILES: usize = 64;

pub(crate) fn run(args: &CatArgs) -> Result<CommandOutcome> {
    // After an image come paths in it, whatever local files have the same names.
    if !sources::is_image(&args.image.path)
        && args.regex.is_empty()
        && let Some(paths) = parts::of_dump(&args.image, &args.paths)?
    {
        refuse_paths(args)?;
        return write_dump(args, &paths);
    }
    if args.paths.is_empty() && args.regex.is_empty() {
        return Err(
            UsageError("no file named: give its path in the image, as in packfs cat IMAGE etc/motd".into()).into()
        );
    }
    let opened = open::image(&args.image)?;
    let mut files = Vec::new();
    for path in &args.paths {
        files.extend(FileRanges::find(opened.image(), path, &args.range)?);
    }
    for regex in &args.regex {
        let select = Selection { regexes: vec![regex.clone()], ..Selection::default() };
        files.extend(FileRanges::selected(opened.image(), &select, Path::new(regex), &args.range)?);
    }
    output::write_result(|out| {
        let mut announced = 0;
        for (at, (path, file)) in files.iter().enumerate() {
            announced = announce_files(opened.image(), &files, at, announced);
            file.write(opened.image(), out).with_context(|| display(path).to_string())?;
        }
        Ok(CommandOutcome::Done)
    })
}

/// Announces the files from number `at` on, without the first `announced`: enough that a network is not idle between
/// them. Returns the number of files that are announced then.
fn announce_files(image: &dyn Image, files: &[(PathBuf, FileRanges)], at: usize, announced: usize) -> usize {
    let len = |file: &FileRanges| file.ranges.iter().map(|range| range.end - range.start).sum::<u64>();
    let mut end = at;
    let mut bytes = 0;
    while let Some((_, file)) = files.get(end).filter(|_| bytes < AHEAD && end < at + AHEAD_FILES) {
        if end >= announced {
            file.ranges.iter().for_each(|range| image.will_read(file.nid, range.clone()));
        }
        end += 1;
        bytes += len(file);
    }
    end.max(announced)
}

/// Refuses paths after a part of a dump that are no files of this machine: they were meant to be in an image.
fn refuse_paths(args: &CatArgs) -> Result<(), UsageError> {
    match args.paths.iter().find(|path| !path.exists()) {
        Some(path) if is_part(&args.image.path) => Err(UsageError(format!(
            "{}: no such part; {} is a part of a dump, which contains no files (--range selects bytes of it)",
            display(path),
            display(&args.image.path)
        ))),
        _ => Ok(()),
    }
}

fn write_dump(args: &CatArgs, parts: &[PathBuf]) -> Result<CommandOutcome> {
    let memory = resources::default_budget(resources::cores());
    let set = parts::open(parts, memory / 2)?;
    let ranges = ranges_to_write(&args.range, set.len()).context("the dump")?;
    let options = join::JoinOptions::default().set(|all| all.memory = memory);
    let options = options.set(|all| all.name = output::STDOUT.into());
    output::write_raw_result(packfs_dump::Error::io("cannot write", output::STDOUT), |out| {
        for range in ranges {
            join::range_to_stream(&set, range, out, &options, &Progress::default())?;
        }
        Ok(CommandOutcome::Done)
    })
}

/// Returns the ranges to write of something `len` bytes long: the requested ones, or all of it.
fn ranges_to_write(asked: &[Range<u64>], len: u64) -> Result<Vec<Range<u64>>> {
    if let Some(beyond) = asked.iter().find(|range| range.end > len) {
        bail!("ends at byte {len}, before the requested byte {}", beyond.end);
    }
    Ok(if asked.is_empty() { std::iter::once(0..len).collect() } else { asked.to_vec() })
}

const NO_FILE: &str =
    "not a regular file (a glob such as 'DIR/*' selects the files in a directory, and packfs list shows them)";

/// A file of the image, with the ranges to write.
struct FileRanges {
    nid: Nid,
    ranges: Vec<Range<u64>>,
}

impl FileRanges {
    /// Returns the file at `path`, or the files that a glob selects, in the order of their paths.
    fn find(image: &dyn Image, path: &Path, asked: &[Range<u64>]) -> Result<Vec<(PathBuf, FileRanges)>> {
        if let Some(nid) = sink::resolve(image, path.as_os_str().as_bytes())? {
            let file = FileRanges::of_inode(image, nid, asked).and_then(|file| file.context(NO_FILE));
            return Ok(vec![(path.to_owned(), file.with_context(|| display(path).to_string())?)]);
        }
        FileRanges::selected(image, &vec![path.to_owned()].into(), path, asked)
    }

    /// Returns the selected files, at least one; `name` is that of the selection in messages.
    fn selected(
        image: &dyn Image,
        select: &Selection,
        name: &Path,
        asked: &[Range<u64>],
    ) -> Result<Vec<(PathBuf, FileRanges)>> {
        let mut files = Vec::new();
        let mut walk = Walk::over(image, select)?;
        while let Some(visit) = walk.step()? {
            // A link that leads nowhere ends the command only if it is selected.
            if !visit.selected {
                continue;
            }
            let Some(nid) = sink::resolve(image, visit.path)? else { continue };
            let path = Path::new(OsStr::from_bytes(visit.path));
            let file = FileRanges::of_inode(image, nid, asked).with_context(|| display(path).to_string())?;
            files.extend(file.map(|file| (path.to_owned(), file)));
        }
        if files.is_empty() {
            bail!("{}: no file in the image", display(name));
        }
        Ok(files)
    }

    /// Returns the file at `nid`; `None` if it is not a regular file.
    fn of_inode(image: &dyn Image, nid: Nid, asked: &[Range<u64>]) -> Result<Option<FileRanges>> {
        let FileType::File { size } = image.stat(nid)?.kind else { return Ok(None) };
        Ok(Some(FileRanges { nid, ranges: ranges_to_write(asked, size)? }))
    }

    fn write(&self, image: &dyn Image, out: &mut impl Write) -> Result<()> {
        let mut piece = vec![0; PIECE_LEN];
        for Range { start: mut at, end } in self.ranges.iter().cloned() {
            while at < end {
                let want = usize::try_from(end - at).unwrap_or(PIECE_LEN).min(PIECE_LEN);
                let len = image.read_at(self.nid, &mut piece[..want], at)?;
                if len == 0 {
                    bail!("ends at byte {at}, before its size");
                }
                out.write_all(&piece[..len])?;
                at += len as u64;
            }
        }
        Ok(())
    }
}
