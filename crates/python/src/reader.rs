//! An open image. Files are given by inode; the Python part looks paths up.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::io::ShiftedBytes;
use packfs_blocks::pipeline;
use packfs_image::image::{FileType, Nid, Stat};
use packfs_image::sink::{dir, tar};
use packfs_image::{Error, FileAt, Fs, OpenOptions, ReadAt, ReadRequest, RequestError, diff};
use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes};

use crate::errors::{argument, exception, invalid_argument, remote_exception, request_exception};
use crate::sources::{HeldBytes, ObjectBytes, StreamWriter};
use crate::work::{self, RaisedException};

/// An open image.
#[pyclass(frozen, module = "packfs._packfs")]
#[derive(Debug)]
pub(crate) struct Reader {
    fs: Fs,
    /// True if reading may wait for a server.
    is_remote: bool,
}

/// Options of an open image.
#[derive(Debug)]
pub(crate) struct OpenSettings {
    /// Position in the source at which the image begins.
    offset: u64,
    /// Number of bytes of decoded data to keep.
    cache: u64,
    /// Maximum number of bytes of one read.
    read_limit: Option<u64>,
}

impl<'py> FromPyObject<'py> for OpenSettings {
    fn extract_bound(settings: &Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(OpenSettings {
            offset: argument(settings, "offset")?,
            cache: argument(settings, "cache")?,
            read_limit: argument(settings, "read_limit")?,
        })
    }
}

/// Attributes of an inode: letter of its type, size, inode number, mode, owner, group, time of modification in nanoseconds,
/// link count, target of a symbolic link, major and minor device number.
type Attributes<'py> = (char, u64, u64, u16, u32, u32, i128, u32, Option<Bound<'py, PyBytes>>, (u32, u32));
/// Fills a new object.
type BufferFiller<'f> = &'f mut dyn FnMut(&mut [u8]) -> PyResult<()>;
/// Severity, structure, offset and text of a finding.
type FoundDefect = (&'static str, &'static str, Option<u64>, String);
/// Path, aspect, and the values in the first and second image of a difference.
type FoundDifference<'py> = (Bound<'py, PyBytes>, &'static str, Option<String>, Option<String>);

#[pymethods]
impl Reader {
    /// Opens the image in a file.
    #[staticmethod]
    fn open_path(py: Python<'_>, path: &[u8], settings: OpenSettings) -> PyResult<Self> {
        let path = path_of(path);
        work::detached(py, || {
            let bytes = FileAt::open(&path, 0).map_err(Error::io("cannot open", &path))?;
            open(Arc::new(bytes), path, &settings)
        })
        .map_err(|error| exception(&error))
    }

    /// Opens the image in a bytes object.
    #[staticmethod]
    fn open_bytes(py: Python<'_>, bytes: PyBackedBytes, settings: OpenSettings) -> PyResult<Self> {
        work::detached(py, || open(Arc::new(HeldBytes(bytes)), "bytes".into(), &settings))
            .map_err(|error| exception(&error))
    }

    /// Opens the image in an object with a method `read_at(offset, size)` that any thread may call.
    #[staticmethod]
    fn open_object(py: Python<'_>, object: Py<PyAny>, len: u64, settings: OpenSettings) -> PyResult<Self> {
        work::detached(py, || open(Arc::new(ObjectBytes { object, len }), "file object".into(), &settings))
            .map_err(|error| exception(&error))
    }

    /// Opens the image at an address: http, https, s3 or oci.
    #[staticmethod]
    fn open_address(py: Python<'_>, address: String, settings: OpenSettings) -> PyResult<Self> {
        let name = packfs_remote::clean(&address);
        let opened = work::run_abandonable(py, move || {
            packfs_remote::RemoteObject::open(&address, &packfs_remote::RemoteOptions::default())
                .map(|remote| open(Arc::new(remote), name.into(), &settings))
        })?;
        let opened = opened.map_err(|error| remote_exception(&error))?;
        let reader = opened.map_err(|error| exception(&error))?;
        Ok(Reader { is_remote: true, ..reader })
    }

    /// Returns the inode that a path leads to, following symbolic links.
    fn inode(&self, py: Python<'_>, path: &[u8]) -> PyResult<u64> {
        let path = path_of(path);
        let nid = self.ask(py, move |fs| fs.inode(&path))?;
        nid.map(|nid| nid.0).map_err(|error| exception(&error))
    }

    /// Returns true if a path leads to a file of any type.
    fn exists(&self, py: Python<'_>, path: &[u8]) -> PyResult<bool> {
        let path = path_of(path);
        self.ask(py, move |fs| fs.exists(&path))?.map_err(|error| exception(&error))
    }

    /// Returns the attributes of an inode.
    fn attributes<'py>(&self, py: Python<'py>, nid: u64) -> PyResult<Attributes<'py>> {
        let stat = self.ask(py, move |fs| fs.image().stat(Nid(nid)))?;
        Ok(attributes(py, &stat.map_err(|error| exception(&error))?))
    }

    /// Returns the attributes of the entry at a path, without following symbolic links.
    fn entry_attributes<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Attributes<'py>> {
        let path = path_of(path);
        let stat = self.ask(py, move |fs| fs.symlink_metadata(&path))?;
        Ok(attributes(py, &stat.map_err(|error| exception(&error))?))
    }

    /// Returns the names and inodes of a directory's entries, ascending by the bytes of their names.
    fn entries<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Vec<(Bound<'py, PyBytes>, u64, char)>> {
        let path = path_of(path);
        let entries = self.ask(py, move |fs| fs.read_dir(&path))?.map_err(|error| exception(&error))?;
        let entry = |entry: packfs_image::DirEntry| {
            let name = PyBytes::new(py, entry.name().as_bytes());
            (name, entry.nid.0, char::from(entry.stat.kind.letter()))
        };
        Ok(entries.into_iter().map(entry).collect())
    }

    /// Returns the extended attributes of the file that a path leads to.
    fn xattrs<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let path = path_of(path);
        let xattrs = self.ask(py, move |fs| fs.xattrs(&path))?.map_err(|error| exception(&error))?;
        Ok(xattrs.iter().map(|(name, value)| (PyBytes::new(py, name), PyBytes::new(py, value))).collect())
    }

    /// Returns the bytes of the regular file that a path leads to.
    fn read<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let nid = self.inode(py, path)?;
        self.read_range(py, nid, 0, u64::MAX)
    }

    /// Returns a range of a regular file, cut to what the file has.
    fn read_range<'py>(&self, py: Python<'py>, nid: u64, start: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let request = [ReadRequest { nid: Nid(nid), range: start..end }];
        let (bytes, _) = self
            .read_requests(py, &request, 1, |len, fill| PyBytes::new_with(py, len, fill))
            .map_err(|error| error.1)?;
        Ok(bytes)
    }

    /// Reads many files, or ranges of them, into one bytearray: array libraries take memory only if it may be written to.
    /// Returns it with the offset of each request and the end of the last, as native 64-bit numbers.
    fn read_many<'py>(
        &self,
        py: Python<'py>,
        requests: Vec<(u64, u64, u64)>,
        threads: usize,
    ) -> PyResult<(Bound<'py, PyByteArray>, Bound<'py, PyBytes>)> {
        let requests = read_requests(requests);
        let (bytes, offsets) = self
            .read_requests(py, &requests, threads, |len, fill| filled_bytearray(py, len, fill))
            .map_err(|(request, _)| request)?;
        Ok((bytes, native_numbers(py, &offsets)))
    }

    /// Does as `read_many`, into the `capacity` bytes of memory at `address`. Returns the offsets.
    ///
    /// The buffer protocol is not in the stable interface of Python before 3.11: so the caller takes the address, and
    /// holds the buffer, which cannot move meanwhile.
    #[allow(unsafe_code, reason = "Python's buffers are memory at an address")]
    fn read_many_into<'py>(
        &self,
        py: Python<'py>,
        requests: Vec<(u64, u64, u64)>,
        address: usize,
        capacity: usize,
        threads: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let requests = read_requests(requests);
        let asked = requests.clone();
        let offsets = self.ask(py, move |fs| fs.read_offsets(&asked))?.map_err(|error| request_exception(&error))?;
        let len = offsets.last().copied().unwrap_or(0);
        if len > capacity {
            return Err(invalid_argument(format!("a buffer of {capacity} bytes for {len} bytes of files")));
        }
        if len > 0 {
            // SAFETY: the caller holds a writable buffer of `capacity` bytes at this address until this returns. Python code
            // of other threads could write to it meanwhile, as to any buffer that a file is read into.
            let buf = unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(address), len) };
            self.fill(py, &requests, buf, threads)?.map_err(|error| request_exception(&error))?;
        }
        Ok(native_numbers(py, &offsets))
    }

    /// Returns the paths of all regular files, each followed by NUL, which no path contains; the ends of the paths; the
    /// inodes; and the sizes. Numbers are native 64-bit ones.
    fn regular_files<'py>(&self, py: Python<'py>) -> PyResult<[Bound<'py, PyBytes>; 4]> {
        let listed = self.ask(py, |fs| {
            let mut list = FileList::default();
            let walked = fs.walk(|entry| {
                if let FileType::File { size } = entry.stat.kind {
                    list.paths.extend_from_slice(entry.path.as_os_str().as_bytes());
                    list.ends.extend_from_slice(&(list.paths.len() as u64).to_ne_bytes());
                    list.paths.push(0);
                    list.nids.extend_from_slice(&entry.nid.0.to_ne_bytes());
                    list.sizes.extend_from_slice(&size.to_ne_bytes());
                }
                ControlFlow::<()>::Continue(())
            });
            walked.map(|_| list)
        })?;
        let FileList { paths, ends, nids, sizes } = listed.map_err(|error| exception(&error))?;
        // Each vector is dropped before the next is copied: a list of millions is not held twice.
        Ok([paths, ends, nids, sizes].map(|bytes| PyBytes::new(py, &bytes)))
    }

    /// Verifies the image. Returns the findings.
    fn check(&self, py: Python<'_>, threads: Option<usize>, report: Option<Py<PyAny>>) -> PyResult<Vec<FoundDefect>> {
        let threads = threads.unwrap_or_else(pipeline::cores);
        work::run(py, report.as_ref(), &RaisedException::default(), |progress| {
            let mut found = Vec::new();
            self.fs.image().check(threads, progress, &mut |finding| {
                let severity = match finding.severity {
                    packfs_image::Severity::Damage => "damage",
                    _ => "remark",
                };
                found.push((severity, finding.structure, finding.offset, finding.text));
            })?;
            Ok::<_, Error>(found)
        })
    }

    /// Extracts everything into a directory. Returns the number of files.
    fn extract(&self, py: Python<'_>, target: &[u8], report: Option<Py<PyAny>>) -> PyResult<u64> {
        let target = path_of(target);
        work::run(py, report.as_ref(), &RaisedException::default(), |progress| {
            dir::extract(self.fs.image(), &target, &dir::ExtractOptions::default(), progress)
                .map(|summary| summary.files)
        })
    }

    /// Writes a tar archive to an object with a method `write`.
    fn write_tar(&self, py: Python<'_>, object: Py<PyAny>, report: Option<Py<PyAny>>) -> PyResult<()> {
        let raised = RaisedException::default();
        let mut out = StreamWriter { object, raised: raised.clone() };
        work::run(py, report.as_ref(), &raised, |progress| {
            tar::write_tar(self.fs.image(), &mut out, &tar::TarOptions::default(), progress).map(drop)
        })
    }

    /// Returns the differences between this image, the first, and another one.
    fn diff<'py>(&self, py: Python<'py>, other: &Reader) -> PyResult<Vec<FoundDifference<'py>>> {
        let found = work::run(py, None, &RaisedException::default(), |progress| {
            let mut found = Vec::new();
            let options = diff::DiffOptions::default();
            diff::diff(self.fs.image(), other.fs.image(), &options, progress, &mut |difference| {
                found.push(difference)
            })?;
            Ok::<_, Error>(found)
        })?;
        let difference =
            |found: diff::Difference| (PyBytes::new(py, &found.path), found.aspect.word(), found.first, found.second);
        Ok(found.into_iter().map(difference).collect())
    }
}

impl Reader {
    /// Returns the image as a file system, for a build from it.
    pub(crate) fn fs(&self) -> &Fs {
        &self.fs
    }

    /// Runs `work` without Python's lock. Ctrl-C ends it if it waits for a server.
    fn ask<T: Send + 'static>(&self, py: Python<'_>, work: impl FnOnce(&Fs) -> T + Send + 'static) -> PyResult<T> {
        if !self.is_remote {
            return Ok(work::detached(py, || work(&self.fs)));
        }
        let fs = self.fs.clone();
        work::run_abandonable(py, move || work(&fs))
    }

    /// Fills a buffer of the length that all requests have together.
    fn fill(
        &self,
        py: Python<'_>,
        requests: &[ReadRequest],
        buf: &mut [u8],
        threads: usize,
    ) -> PyResult<Result<(), RequestError>> {
        if !self.is_remote {
            return Ok(work::detached(py, || self.fs.read_many_into(requests, buf, threads)).map(drop));
        }
        // Into memory of its own: after Ctrl-C nothing may write to the buffer. The caller has checked the length.
        let fs = self.fs.clone().with_read_limit(u64::MAX);
        let requests = requests.to_vec();
        let read = work::run_abandonable(py, move || fs.read_many(&requests, threads))?;
        Ok(read.map(|read| buf.copy_from_slice(&read.bytes)))
    }

    /// Reads straight into an object that `new_with` makes: of a length, and filled by a function. An error comes twice: with
    /// the number of its request, and without.
    fn read_requests<'py, T>(
        &self,
        py: Python<'py>,
        requests: &[ReadRequest],
        threads: usize,
        new_with: impl FnOnce(usize, BufferFiller<'_>) -> PyResult<Bound<'py, T>>,
    ) -> Result<(Bound<'py, T>, Vec<usize>), (PyErr, PyErr)> {
        let both = |error: &packfs_image::RequestError| (request_exception(error), exception(&error.source));
        let raised = |error: PyErr| (error.clone_ref(py), error);
        let asked = requests.to_vec();
        let offsets = self.ask(py, move |fs| fs.limited_offsets(&asked)).map_err(raised)?;
        let offsets = offsets.map_err(|error| both(&error))?;
        let mut failed = None;
        let len = offsets.last().copied().unwrap_or(0);
        let mut fill = |buf: &mut [u8]| {
            // Kept apart: passed through `new_with`, the error would lose the number of its request.
            failed = self.fill(py, requests, buf, threads)?.err();
            Ok(())
        };
        let bytes = new_with(len, &mut fill);
        match (bytes, failed) {
            (_, Some(error)) => Err(both(&error)),
            (Ok(bytes), None) => Ok((bytes, offsets)),
            (Err(error), None) => Err(raised(error)),
        }
    }
}

/// All regular files of an image, as Python gets them.
#[derive(Default)]
struct FileList {
    paths: Vec<u8>,
    ends: Vec<u8>,
    nids: Vec<u8>,
    sizes: Vec<u8>,
}

fn open(bytes: Arc<dyn ReadAt>, name: PathBuf, settings: &OpenSettings) -> Result<Reader, Error> {
    let options = OpenOptions::default().set(|all| {
        all.name = name;
        all.cache_bytes = settings.cache;
    });
    let fs = Fs::with_options(ShiftedBytes::new(bytes, settings.offset), options)?;
    let fs = match settings.read_limit {
        Some(bytes) => fs.with_read_limit(bytes),
        None => fs,
    };
    Ok(Reader { fs, is_remote: false })
}

fn path_of(path: &[u8]) -> PathBuf {
    OsStr::from_bytes(path).into()
}

fn read_requests(requests: Vec<(u64, u64, u64)>) -> Vec<ReadRequest> {
    let request = |(nid, start, end)| ReadRequest { nid: Nid(nid), range: start..end };
    requests.into_iter().map(request).collect()
}

/// Makes a bytearray of which `fill` writes every byte, or fails. [`PyByteArray::new_with`] clears the bytes before, which
/// takes half as long as it takes to copy files there.
#[allow(unsafe_code, reason = "pyo3 makes no bytearray without clearing it")]
fn filled_bytearray<'py>(py: Python<'py>, len: usize, fill: BufferFiller<'_>) -> PyResult<Bound<'py, PyByteArray>> {
    let too_large = |_| PyMemoryError::new_err(format!("{len} bytes"));
    let ffi_len = ffi::Py_ssize_t::try_from(len).map_err(too_large)?;
    // SAFETY: called with Python's lock. It returns a new bytearray, or null and sets an exception.
    let made = unsafe {
        let object = ffi::PyByteArray_FromStringAndSize(std::ptr::null(), ffi_len);
        Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked::<PyByteArray>()
    };
    // SAFETY: no one else has the object yet, so nothing reads or resizes it. Its memory is allocated, with bytes of
    // whatever was there before, and `fill` reads none of them.
    fill(unsafe { made.as_bytes_mut() })?;
    Ok(made)
}

/// Returns offsets as native 64-bit numbers.
fn native_numbers<'py>(py: Python<'py>, offsets: &[usize]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = offsets.iter().flat_map(|offset| (*offset as u64).to_ne_bytes()).collect();
    PyBytes::new(py, &bytes)
}

fn attributes<'py>(py: Python<'py>, stat: &Stat) -> Attributes<'py> {
    // Seconds have 64 bits, so nanoseconds need more.
    let mtime = i128::from(stat.mtime.secs) * 1_000_000_000 + i128::from(stat.mtime.nanos);
    let size = match &stat.kind {
        FileType::File { size } => *size,
        FileType::Symlink { target } => target.len() as u64,
        _ => 0,
    };
    let target = match &stat.kind {
        FileType::Symlink { target } => Some(PyBytes::new(py, target)),
        _ => None,
    };
    let device = match &stat.kind {
        FileType::Char(device) | FileType::Block(device) => (device.major, device.minor),
        _ => (0, 0),
    };
    let letter = char::from(stat.kind.letter());
    (letter, size, stat.ino, stat.mode, stat.uid, stat.gid, mtime, stat.nlink, target, device)
}
