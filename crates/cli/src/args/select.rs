//! Selection of entries: paths and globs in an image, and exclusions.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use packfs_image::name::display;
use packfs_image::sink::Selection;
use packfs_image::source::ExcludeRules;

use super::value;
use crate::input;
use crate::output::failure::UsageError;

/// Entries of an image.
#[derive(Debug, Args)]
pub(crate) struct SelectArgs {
    /// Paths in the image, or globs such as 'usr/lib/*.so' [default: all]
    ///
    /// A path selects everything below it. `**` stands for any number of directories, as in '**/*.conf'.
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Also take paths and globs from FILE, one per line; `-` reads stdin
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    paths_from: Vec<PathBuf>,

    /// Also take entries whose path matches the regular expression
    ///
    /// The syntax is that of --exclude-regex.
    #[arg(long, value_name = "REGEX")]
    regex: Vec<String>,

    /// Follow symbolic links in paths: take each link, and what it leads to
    ///
    /// Links are followed within the image. Globs and expressions select links themselves.
    #[arg(long)]
    follow: bool,

    /// Ignore paths, globs and expressions that match nothing
    #[arg(long)]
    ignore_missing: bool,

    /// Leave out entries more than N levels below the root
    #[arg(long, value_name = "N", value_parser = value::count::<usize>)]
    max_depth: Option<usize>,

    /// Leave out entries of these types: letters of `find -type`, as in bcps
    ///
    /// `f` regular files, `l` symbolic links, `b` and `c` devices, `p` named pipes, `s` sockets.
    #[arg(long, value_name = "LETTERS", value_parser = value::types)]
    exclude_types: Vec<String>,

    /// Leave out directories in which nothing is left
    #[arg(long)]
    no_empty_dirs: bool,

    #[command(flatten)]
    exclude: ExcludeArgs,
}

impl SelectArgs {
    /// Returns the entries that all options together select.
    pub(crate) fn resolve(&self) -> Result<Selection, UsageError> {
        let mut paths = self.paths.clone();
        for file in &self.paths_from {
            paths.extend(listed(file)?);
        }
        // A selection without paths is everything, which nobody means by an empty list.
        if let (true, Some(file)) = (paths.is_empty(), self.paths_from.first()) {
            return Err(UsageError(format!("--paths-from {}: no path in it", display(file))));
        }
        Ok(Selection {
            paths,
            regexes: self.regex.clone(),
            follow: self.follow,
            exclude: self.exclude.resolve()?,
            max_depth: self.max_depth,
            without_types: self.exclude_types.concat().into_bytes(),
            without_empty_dirs: self.no_empty_dirs,
            may_miss: self.ignore_missing,
            ..Selection::default()
        })
    }
}

/// Reads a file that an option names; `-` is standard input.
pub(crate) fn read(option: &str, file: &Path) -> Result<Vec<u8>, UsageError> {
    let opened = if file == Path::new("-") { input::open() } else { File::open(file) };
    let mut bytes = Vec::new();
    let read = opened.and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|error| UsageError(format!("{option} {}: cannot read: {error}", display(file))))?;
    Ok(bytes)
}

/// Reads a file of paths.
fn listed(file: &Path) -> Result<Vec<PathBuf>, UsageError> {
    let text = read("--paths-from", file)?;
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(|line| PathBuf::from(OsStr::from_bytes(line))).collect())
}

/// Entries to leave out.
#[derive(Debug, Args)]
pub(crate) struct ExcludeArgs {
    /// Leave out entries that match GLOB, with everything below
    ///
    /// A glob with a `/` must match the path from the root; one without a `/` must match the name.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,

    /// Leave out entries that match the globs in FILE, one per line
    ///
    /// A line that begins with `#` is a comment.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    exclude_from: Vec<PathBuf>,

    /// Leave out entries whose path matches the regular expression
    ///
    /// The syntax is that of Rust's regex crate; most POSIX extended expressions mean the same in it. Paths begin at
    /// the root, without a leading slash. The expression may match any part of a path unless `^` or `$` anchors it.
    #[arg(long, value_name = "REGEX")]
    exclude_regex: Vec<String>,
}

impl ExcludeArgs {
    /// Returns the patterns of all options together.
    pub(crate) fn resolve(&self) -> Result<ExcludeRules, UsageError> {
        let mut globs = self.exclude.clone();
        for path in &self.exclude_from {
            globs.extend(patterns(path)?);
        }
        let exclude = ExcludeRules::new(globs).and_then(|exclude| exclude.with_regexes(&self.exclude_regex));
        exclude.map_err(|error| UsageError(error.to_string()))
    }
}

/// Reads a file of globs.
fn patterns(path: &Path) -> Result<Vec<String>, UsageError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| UsageError(format!("--exclude-from {}: cannot read: {error}", display(path))))?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}
