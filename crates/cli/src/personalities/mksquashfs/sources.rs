//! Sources of mksquashfs as packfs takes them: one directory is the root, several entries have their names.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use packfs_image::name::display;

use super::exclude::Source;
use super::{Asked, IntoString, pseudo};
use crate::personalities::paths::safe;

impl Asked {
    /// Returns true if all entries come from pseudo definitions: the source is `-`, and nothing reads standard input.
    pub(super) fn only_defined(&self, sources: &[OsString]) -> bool {
        let reads = self.tar || self.zip || self.listed.is_some();
        !reads && matches!(sources, [one] if one == "-")
    }

    /// Returns the sources as packfs takes them (the contents of one directory, or each directory and file under its name)
    /// and the directories among them.
    pub(super) fn sources(
        &self,
        sources: &[OsString],
        mut names: Vec<Vec<u8>>,
    ) -> Result<(Vec<OsString>, Vec<Source>), String> {
        let (mut words, mut dirs, mut led) = (Vec::new(), Vec::new(), HashSet::new());
        if self.tar {
            return match sources {
                [one] => Ok((vec![safe(one)], dirs)),
                _ => Err("-tar takes one archive".into()),
            };
        }
        if self.zip {
            return Ok((sources.iter().map(|source| safe(source)).collect(), dirs));
        }
        if let Some(options) = self.listed {
            return match sources {
                [one] if one == "-" => Ok((options.iter().map(Into::into).collect(), dirs)),
                _ => Err("-cpiostyle reads the paths from standard input: the source is -".into()),
            };
        }
        if self.only_defined(sources) {
            return match self.out.iter().any(|word| pseudo::is_root(word.as_bytes())) {
                true => Ok((words, dirs)),
                false => Err("the source is -, and no pseudo definition describes /; \
                              to read standard input, give -tar or -cpiostyle"
                    .into()),
            };
        }
        for source in sources {
            let path = Path::new(source);
            let kind = path.metadata().map_err(|error| format!("{}: cannot open: {error}", display(path)))?;
            if kind.is_dir() && sources.len() == 1 && !self.keep_as_directory && !self.no_strip {
                words.push(safe(source));
                dirs.push(Source { dir: path.to_owned(), place: PathBuf::new() });
                continue;
            }
            let own = self.name(path)?;
            if self.no_strip {
                words.extend(parents(path, &mut led)?);
            }
            // As mksquashfs names what has the name of another.
            let others = (1u32..).map(|n| [&own[..], format!("_{n}").as_bytes()].concat());
            let name = [own.clone()].into_iter().chain(others).find(|name| !names.contains(name)).unwrap_or_default();
            match kind.is_dir() {
                true => {
                    words.extend(["--add".into(), tree_line(&name, source)]);
                    dirs.push(Source { dir: path.to_owned(), place: OsString::from_vec(name.clone()).into() });
                }
                false if name == own && !self.no_strip => {
                    words.push([b"file:", source.as_bytes()].concat().into_string())
                }
                false => words.extend(["--add".into(), file_line(&name, source)]),
            }
            names.push(name);
        }
        Ok((words, dirs))
    }

    /// Returns the name, or with `-no-strip` the path, of a source in the image.
    fn name(&self, source: &Path) -> Result<Vec<u8>, String> {
        let whole = || source.canonicalize().map_err(|error| format!("{}: cannot open: {error}", display(source)));
        if self.no_strip {
            return Ok(source.as_os_str().as_bytes().to_vec());
        }
        let path = if source.file_name().is_some() { source.to_path_buf() } else { whole()? };
        let name = path.file_name().ok_or_else(|| format!("{}: has no name", display(source)))?;
        Ok(name.as_bytes().to_vec())
    }
}

/// Returns lines that add the directories on the way to a source, each once, with their attributes.
fn parents(source: &Path, known: &mut HashSet<PathBuf>) -> Result<Vec<OsString>, String> {
    let mut parents: Vec<&Path> = source.ancestors().skip(1).filter(|dir| dir.file_name().is_some()).collect();
    parents.reverse();
    let mut words = Vec::new();
    let plain = |dir: &Path| dir.components().filter(|part| *part != Component::CurDir).collect();
    for dir in parents.into_iter().filter(|dir| known.insert(plain(dir))) {
        let found = dir.metadata().map_err(|error| format!("{}: cannot open: {error}", display(dir)))?;
        let name = quoted(dir.as_os_str().as_bytes());
        let line = |before: &str, after: String| {
            [format!("{before} \"").as_bytes(), &name, format!("\" {after}").as_bytes()].concat().into_string()
        };
        let attributes = format!("{:04o} {} {}", found.mode() & 0o7777, found.uid(), found.gid());
        words.extend([
            "--add".into(),
            line("dir", attributes),
            "--add".into(),
            line("time", found.mtime().to_string()),
        ]);
    }
    Ok(words)
}

/// Returns the line of a pack list that adds a directory under a name.
fn tree_line(name: &[u8], dir: &OsStr) -> OsString {
    [b"tree \"/", &quoted(name)[..], b"\" ", dir.as_bytes()].concat().into_string()
}

/// Returns the line of a pack list that adds a file with its attributes under another name.
fn file_line(name: &[u8], file: &OsStr) -> OsString {
    [b"\"/", &quoted(name)[..], b"\" l \"", &quoted(file.as_bytes())[..], b"\""].concat().into_string()
}

/// Returns a name as it is written between quotes.
pub(super) fn quoted(name: &[u8]) -> Vec<u8> {
    let escaped = name.iter().flat_map(|byte| match byte {
        b'"' | b'\\' => vec![b'\\', *byte],
        b'\n' => b"\\012".to_vec(),
        byte => vec![*byte],
    });
    escaped.collect()
}
