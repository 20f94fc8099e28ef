//! Builds an image from what Python names or yields.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use packfs_codec::Choice;
use packfs_image::source::Entry;
use packfs_image::source::open::file_format;
use packfs_image::tree::Time;
use packfs_image::{Builder, Error, Fs};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyIterator;

use crate::errors::{argument, invalid_argument};
use crate::reader::Reader;
use crate::sources::StreamReader;
use crate::work::{self, RaisedException};

/// Options of a build.
#[derive(Debug)]
pub(crate) struct BuildSettings {
    format: String,
    codec: Option<String>,
    block_size: Option<u32>,
    fragments: bool,
    kernel: Option<(u16, u16)>,
    threads: Option<usize>,
    force: bool,
}

impl<'py> FromPyObject<'py> for BuildSettings {
    fn extract_bound(settings: &Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(BuildSettings {
            format: argument(settings, "format")?,
            codec: argument(settings, "codec")?,
            block_size: argument(settings, "block_size")?,
            fragments: argument(settings, "fragments")?,
            kernel: argument(settings, "kernel")?,
            threads: argument(settings, "threads")?,
            force: argument(settings, "force")?,
        })
    }
}

/// One entry as Python yields it.
#[derive(Debug, FromPyObject)]
struct YieldedEntry {
    path: PyBackedBytes,
    /// "file", "dir", "symlink", "link", "fifo".
    kind: String,
    /// Bytes of a file, or the target of a link.
    data: Option<PyBackedBytes>,
    /// Object with a method `read` that gives the bytes of a file, and their number.
    stream: Option<(Py<PyAny>, u64)>,
    mode: Option<u32>,
    owner: (u32, u32),
    /// Seconds and nanoseconds since 1970.
    mtime: (i64, u32),
    xattrs: Vec<(PyBackedBytes, PyBackedBytes)>,
}

/// The source of a build.
enum GivenSource {
    /// An open image.
    Image(Fs),
    /// A directory, archive or image.
    Path(PathBuf),
    /// A tar or cpio archive.
    Archive(StreamReader),
    /// Entries that an iterator yields.
    Entries(YieldedEntries),
}

/// Builds an image. `kind` says what `source` is: "path" for the path of a directory, archive or image, "tar" for an
/// object with a method `read`, "image" for a reader, "entries" for an iterator of entries. Returns the numbers of files and
/// bytes of the image.
#[pyfunction]
pub(crate) fn build(
    py: Python<'_>,
    target: &[u8],
    kind: &str,
    source: Bound<'_, PyAny>,
    settings: BuildSettings,
    report: Option<Py<PyAny>>,
) -> PyResult<(u64, u64)> {
    let target = PathBuf::from(OsStr::from_bytes(target));
    let raised = RaisedException::default();
    let source = match kind {
        "path" => GivenSource::Path(OsStr::from_bytes(&source.extract::<PyBackedBytes>()?).into()),
        "tar" => GivenSource::Archive(StreamReader { object: source.unbind(), raised: raised.clone() }),
        "image" => GivenSource::Image(source.cast::<Reader>()?.get().fs().clone()),
        _ => {
            let iterator = source.try_iter()?.unbind();
            GivenSource::Entries(YieldedEntries { iterator, raised: raised.clone(), ended: false })
        }
    };
    let codec = settings.codec.as_deref().map(str::parse::<Choice>).transpose();
    let codec = codec.map_err(|error| invalid_argument(error.to_string()))?;
    let summary = work::run(py, report.as_ref(), &raised, move |progress| {
        let builder = match settings.format.as_str() {
            "squashfs" => Builder::squashfs(),
            "erofs" => Builder::erofs(),
            other => return Err(Error::option("format", other, "known formats are squashfs and erofs")),
        };
        let mut builder = builder.force(settings.force).fragments(settings.fragments).progress(progress.clone());
        if let Some(codec) = codec {
            builder = builder.codec(codec);
        }
        if let Some(bytes) = settings.block_size {
            builder = builder.block_size(bytes);
        }
        if let Some((major, minor)) = settings.kernel {
            builder = builder.target_kernel(packfs_image::erofs::Kernel::new(major, minor));
        }
        if let Some(threads) = settings.threads {
            builder = builder.threads(threads);
        }
        let builder = match source {
            GivenSource::Image(fs) => builder.image(&fs),
            GivenSource::Path(path) if path.is_dir() => builder.dir(path),
            GivenSource::Path(path) if file_format(&path).is_image() => builder.image(&Fs::open(&path)?),
            GivenSource::Path(path) => builder.archive(path),
            GivenSource::Archive(reader) => builder.tar(reader),
            GivenSource::Entries(entries) => builder.entries(entries),
        };
        builder.build(&target)
    })?;
    Ok((summary.files.into(), summary.image_bytes))
}

/// Takes entries from a Python iterator.
struct YieldedEntries {
    iterator: Py<PyIterator>,
    raised: RaisedException,
    /// Set when the iterator is exhausted or has raised: it is not asked again.
    ended: bool,
}

impl Iterator for YieldedEntries {
    type Item = Entry<'static>;

    fn next(&mut self) -> Option<Entry<'static>> {
        if self.ended {
            return None;
        }
        let yielded = work::attached(|py| {
            let next = self.iterator.bind(py).clone().next().transpose()?;
            next.map(|entry| entry.extract::<YieldedEntry>()?.into_entry(&self.raised)).transpose()
        });
        match yielded {
            Ok(Some(entry)) => Some(entry),
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(raised) => {
                // The end of the entries would make an image of those so far: an unreadable one makes the build fail.
                self.ended = true;
                Some(Entry::stream("entry", 1, FailedReader(Some(self.raised.keep(raised)))))
            }
        }
    }
}

impl YieldedEntry {
    fn into_entry(self, raised: &RaisedException) -> PyResult<Entry<'static>> {
        let path = OsStr::from_bytes(&self.path);
        let data = self.data.as_deref().unwrap_or_default();
        let entry = match (self.kind.as_str(), self.stream) {
            ("file", Some((object, size))) => {
                Entry::stream(path, size, StreamReader { object, raised: raised.clone() })
            }
            ("file", None) => Entry::file(path, data),
            ("dir", _) => Entry::dir(path),
            ("symlink", _) => Entry::symlink(path, OsStr::from_bytes(data)),
            ("link", _) => Entry::hard_link(path, OsStr::from_bytes(data)),
            ("fifo", _) => Entry::fifo(path),
            (other, _) => {
                return Err(invalid_argument(format!("{other} is no kind of entry: file, dir, symlink, link or fifo")));
            }
        };
        // A hard link has the attributes of its first name.
        let is_link = self.kind == "link";
        let (secs, nanos) = self.mtime;
        let (uid, gid) = self.owner;
        let entry = if is_link { entry } else { entry.owner(uid, gid).mtime(Time { secs, nanos }) };
        let entry = match self.mode {
            Some(mode) if !is_link => entry.mode(mode),
            _ => entry,
        };
        Ok(self.xattrs.iter().fold(entry, |entry, (name, value)| entry.xattr(&**name, &**value)))
    }
}

/// A reader that fails.
struct FailedReader(Option<io::Error>);

impl Read for FailedReader {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(self.0.take().unwrap_or_else(|| io::Error::other("failed before")))
    }
}
