//! Sources of mksquashfs as packfs takes them: one directory is the root, several entries have their names, and with
//! `-no-strip` their whole paths.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use packfs_image::name::display;

use super::exclude::PackedSource;
use super::{MksquashfsOptions, pseudo};
use crate::personalities::command_line::CommandLine;
use crate::personalities::paths::safe_path;

/// The sources of a command line.
#[derive(Debug, Default)]
pub(super) struct PackedSources {
    /// Sources and options of `packfs build`.
    pub(super) words: CommandLine,
    /// Files and directories of this system among them.
    pub(super) entries: Vec<PackedSource>,
    pub(super) root: RootAttributes,
}

/// Attributes of the root.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) enum RootAttributes {
    /// Those that packfs finds or that a definition has.
    #[default]
    Found,
    /// Mode 0777, owned by the user, with the time of the run.
    Bare,
    /// As [`Bare`](RootAttributes::Bare), unless all paths of a list begin in one directory: then the attributes of
    /// that directory.
    Listed,
    /// Those of this directory.
    Like(PathBuf),
}

impl MksquashfsOptions {
    /// Returns true if all entries come from pseudo definitions: the source is `-`, and nothing reads standard input.
    pub(super) fn only_defined(&self, sources: &[OsString]) -> bool {
        let reads = self.tar || self.zip || self.listed.is_some();
        // `-` reads standard input only with the options that say what is there.
        !reads && matches!(sources, [one] if one == "-")
    }

    /// Returns the sources as packfs takes them. `names` are those that the root already has.
    pub(super) fn sources(&self, sources: &[OsString], names: Vec<Vec<u8>>) -> Result<PackedSources, String> {
        if self.tar {
            // packfs takes several archives, mksquashfs one.
            return match sources {
                [one] => Ok(PackedSources::of([one], RootAttributes::Bare)),
                _ => Err("-tar takes one archive".into()),
            };
        }
        if self.zip {
            return Ok(PackedSources::of(sources, RootAttributes::Found));
        }
        if let Some(separator) = self.listed {
            if !matches!(sources, [one] if one == "-") {
                return Err("-cpiostyle reads the paths from standard input: the source is -".into());
            }
            let mut made = PackedSources { root: RootAttributes::Listed, ..PackedSources::default() };
            made.words.set("--files-from", "-");
            made.words.switch_if(separator == 0, "--null");
            return Ok(made);
        }
        if self.only_defined(sources) {
            return match self.definitions.iter().any(|line| pseudo::is_root_dir(line.as_bytes())) {
                true => Ok(PackedSources::default()),
                false => Err("the source is -, and no pseudo definition describes /; \
                              to read standard input, give -tar or -cpiostyle"
                    .into()),
            };
        }
        if self.no_strip {
            return with_whole_paths(sources);
        }
        if let [one] = sources
            && !self.keep_as_directory
            && attributes_of(Path::new(one))?.is_dir()
        {
            // A single directory becomes the root. With its name kept it is an entry of the root like others.
            let entries = vec![PackedSource { path: one.into(), place: PathBuf::new() }];
            return Ok(PackedSources { entries, ..PackedSources::of([one], RootAttributes::Found) });
        }
        with_own_names(sources, names)
    }
}

/// Returns sources under their names in the root.
fn with_own_names(sources: &[OsString], mut names: Vec<Vec<u8>>) -> Result<PackedSources, String> {
    let mut made = PackedSources { root: RootAttributes::Bare, ..PackedSources::default() };
    for source in sources {
        let path = Path::new(source);
        let is_dir = attributes_of(path)?.is_dir();
        let own = own_name(path)?;
        // mksquashfs renames entries of the same name in this way.
        let others = (1u32..).map(|n| [&own[..], format!("_{n}").as_bytes()].concat());
        let name = [own.clone()].into_iter().chain(others).find(|name| !names.contains(name)).unwrap_or_default();
        made.add(&name, path, is_dir);
        names.push(name);
    }
    Ok(made)
}

/// Returns sources under their whole paths, without leading `..`. The directories on the way keep their attributes.
fn with_whole_paths(sources: &[OsString]) -> Result<PackedSources, String> {
    let mut made = PackedSources::default();
    let mut tops: Vec<PathBuf> = Vec::new();
    let mut known = KnownPaths::default();
    for source in sources {
        let kept = KeptPath::new(Path::new(source))?;
        // From the root down, so that a directory is there before its entries.
        let mut way: Vec<&Path> = kept.place.ancestors().filter(|dir| !dir.as_os_str().is_empty()).collect();
        way.reverse();
        for place in way {
            let path = kept.top.join(place);
            let attributes = attributes_of(&path)?;
            let is_new = known.is_new(place, &attributes)?;
            // Another source may lie within this one, or be on the way to it.
            let is_packed = made.entries.iter().any(|entry| entry.place == place);
            if is_packed && (attributes.is_dir() || place == kept.place) {
                break; // With all that it has.
            } else if place == kept.place {
                made.add(place.as_os_str().as_bytes(), &path, attributes.is_dir());
            } else if !attributes.is_dir() {
                return Err(format!(
                    "{}: the path of another source goes through it, but it is not a directory",
                    display(&path)
                ));
            } else if is_new {
                made.words.set("--add", dir_like_line(place.as_os_str().as_bytes(), path.as_os_str()));
            }
        }
        tops.push(kept.top);
    }
    // Sources may begin in one directory by different paths.
    let is_same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    let mut attributes = Vec::new();
    for top in &tops {
        attributes.push(top.metadata().map_err(|error| cannot_open(top, &error))?);
    }
    made.root = match tops.first() {
        Some(top) if attributes.iter().all(|other| is_same(other, &attributes[0])) => RootAttributes::Like(top.clone()),
        _ => RootAttributes::Bare,
    };
    Ok(made)
}

/// Paths in the image and the files that they are for, by device and inode number.
#[derive(Debug, Default)]
struct KnownPaths(HashMap<PathBuf, (u64, u64)>);

impl KnownPaths {
    /// Returns false if the path is known, or an error if it belongs to another file.
    fn is_new(&mut self, place: &Path, attributes: &Metadata) -> Result<bool, String> {
        // By number, so that links and `..` do not hide that files differ.
        let id = (attributes.dev(), attributes.ino());
        match self.0.insert(place.to_owned(), id) {
            Some(before) if before != id => Err(format!("{}: two different sources have this path", display(place))),
            Some(_) => Ok(false),
            None => Ok(true),
        }
    }
}

/// A source whose path is kept.
#[derive(Debug)]
struct KeptPath {
    /// The directory in which it begins: slashes, `.` and `..` in front are no part of a path in the image.
    top: PathBuf,
    /// Its path in the image.
    place: PathBuf,
}

impl KeptPath {
    fn new(source: &Path) -> Result<Self, String> {
        let whole = source.as_os_str().as_bytes();
        let leads_up = |name: &[u8]| matches!(name, b"" | b"." | b"..");
        let mut rest = whole;
        while let Some((name, after)) = rest.iter().position(|byte| *byte == b'/').map(|at| rest.split_at(at)) {
            if !leads_up(name) {
                break;
            }
            rest = &after[1..];
        }
        // Its name in the image would be empty.
        if leads_up(rest) {
            return Err(format!("{}: nothing is left of this path with -no-strip; leave it out", display(source)));
        }
        let names: Vec<&[u8]> = rest.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        // Names in the image may not be these.
        if names.iter().any(|name| leads_up(name)) {
            return Err(format!("{}: `.` or `..` within a path cannot be kept with -no-strip", display(source)));
        }
        // Without any such prefix, the path begins where the program runs.
        let top = match &whole[..whole.len() - rest.len()] {
            b"" => &b"."[..],
            top => top,
        };
        Ok(KeptPath { top: OsStr::from_bytes(top).into(), place: OsString::from_vec(names.join(&b'/')).into() })
    }
}

impl PackedSources {
    /// Returns sources that are packed as they are.
    fn of<'s>(sources: impl IntoIterator<Item = &'s OsString>, root: RootAttributes) -> Self {
        let mut words = CommandLine::default();
        sources.into_iter().for_each(|source| words.operand(safe_path(source)));
        PackedSources { words, root, ..PackedSources::default() }
    }

    /// Adds a file or directory at a path in the image.
    fn add(&mut self, place: &[u8], path: &Path, is_dir: bool) {
        let line = if is_dir { tree_line(place, path.as_os_str()) } else { file_line(place, path.as_os_str()) };
        self.words.set("--add", line);
        self.entries.push(PackedSource { path: path.to_owned(), place: OsStr::from_bytes(place).into() });
    }
}

/// Returns the attributes of a source, of a symbolic link its own.
fn attributes_of(path: &Path) -> Result<Metadata, String> {
    path.symlink_metadata().map_err(|error| cannot_open(path, &error))
}

fn cannot_open(path: &Path, error: &std::io::Error) -> String {
    format!("{}: cannot open: {error}", display(path))
}

/// Returns the name of a source in the image.
fn own_name(source: &Path) -> Result<Vec<u8>, String> {
    let path = match source.file_name() {
        // `.` and `/` and `..` have no name by themselves.
        Some(_) => source.to_path_buf(),
        None => source.canonicalize().map_err(|error| cannot_open(source, &error))?,
    };
    let name = path.file_name().ok_or_else(|| format!("{}: has no name", display(source)))?;
    Ok(name.as_bytes().to_vec())
}

/// Returns the line of a pack list that makes a directory with all attributes of one of this system, without its entries.
pub(super) fn dir_like_line(name: &[u8], dir: &OsStr) -> OsString {
    OsString::from_vec([b"dirlike \"/", &quoted(name)[..], b"\" ", dir.as_bytes()].concat())
}

/// Returns the line of a pack list that adds a directory under a name.
fn tree_line(name: &[u8], dir: &OsStr) -> OsString {
    OsString::from_vec([b"tree \"/", &quoted(name)[..], b"\" ", dir.as_bytes()].concat())
}

/// Returns the line of a pack list that adds a file with its attributes under a name.
fn file_line(name: &[u8], file: &OsStr) -> OsString {
    OsString::from_vec([b"\"/", &quoted(name)[..], b"\" l \"", &quoted(file.as_bytes())[..], b"\""].concat())
}

/// Returns a name as it is written between quotes.
pub(super) fn quoted(name: &[u8]) -> Vec<u8> {
    let escaped = name.iter().flat_map(|byte| match byte {
        b'"' | b'\\' => vec![b'\\', *byte],
        // A line of a list ends with it, so it is given as an octal escape.
        b'\n' => b"\\012".to_vec(),
        byte => vec![*byte],
    });
    escaped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_paths_begin_after_what_leads_up() {
        for (source, top, place) in [
            ("a", ".", "a"),
            ("a/b//c/", ".", "a/b/c"),
            ("./a", "./", "a"),
            ("../../a/b", "../../", "a/b"),
            ("/usr/bin", "/", "usr/bin"),
            ("/.././a", "/.././", "a"),
            ("..a/.b", ".", "..a/.b"),
        ] {
            let kept = KeptPath::new(Path::new(source)).unwrap();
            assert_eq!(
                (kept.top.as_os_str(), kept.place.as_os_str()),
                (OsStr::new(top), OsStr::new(place)),
                "{source}"
            );
        }
        for (source, why) in [
            (".", "nothing is left"),
            ("/", "nothing is left"),
            ("../..", "nothing is left"),
            ("a/./b", "within a path"),
        ] {
            assert!(KeptPath::new(Path::new(source)).unwrap_err().contains(why), "{source}");
        }
        assert!(KeptPath::new(Path::new("a/../b")).unwrap_err().contains("within a path"));
    }
}
