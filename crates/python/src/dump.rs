//! Splits a dump over parts, and joins them again.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use packfs_blocks::progress::Phase;
use packfs_blocks::{Output, Progress, pipeline};
use packfs_codec::Choice;
use packfs_dump::join::{JoinOptions, JoinReport, to_output, to_stream};
use packfs_dump::set::{LostRange, SetOptions};
use packfs_dump::{Error, Input, Set, SplitOptions, SplitReport, fastest_form, kdump};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::errors::{argument, invalid_argument};
use crate::sources::StreamWriter;
use crate::work::{self, RaisedException};

/// A dump may contain the memory of programs: only its owner may read it.
const DUMP_MODE: u32 = 0o600;

/// Options of a split; those that are absent have the library's defaults.
#[derive(Debug)]
pub(crate) struct SplitSettings {
    codec: String,
    chunk_size: Option<u32>,
    parity: u16,
    threads: Option<usize>,
    memory: u64,
    checkpoint: Option<u64>,
    dedup: bool,
    direct: bool,
    resume: bool,
    verify: bool,
    force: bool,
    /// True to store the bytes of a file of makedumpfile, not the ELF core in it.
    as_is: bool,
}

impl<'py> FromPyObject<'py> for SplitSettings {
    fn extract_bound(settings: &Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(SplitSettings {
            codec: argument(settings, "codec")?,
            chunk_size: argument(settings, "chunk_size")?,
            parity: argument(settings, "parity")?,
            threads: argument(settings, "threads")?,
            memory: argument(settings, "memory")?,
            checkpoint: argument(settings, "checkpoint")?,
            dedup: argument(settings, "dedup")?,
            direct: argument(settings, "direct")?,
            resume: argument(settings, "resume")?,
            verify: argument(settings, "verify")?,
            force: argument(settings, "force")?,
            as_is: argument(settings, "as_is")?,
        })
    }
}

/// Options of a join.
#[derive(Debug)]
pub(crate) struct JoinSettings {
    partial: bool,
    threads: Option<usize>,
    memory: u64,
    force: bool,
}

impl<'py> FromPyObject<'py> for JoinSettings {
    fn extract_bound(settings: &Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(JoinSettings {
            partial: argument(settings, "partial")?,
            threads: argument(settings, "threads")?,
            memory: argument(settings, "memory")?,
            force: argument(settings, "force")?,
        })
    }
}

/// Result of a split, a dictionary in Python.
#[derive(Debug, IntoPyObject)]
pub(crate) struct SplitResult<'py> {
    set: String,
    size: u64,
    resumed_bytes: u64,
    decoded: bool,
    complete: bool,
    input_error: Option<String>,
    suspect: Vec<(u64, u64)>,
    weak_stripes: u64,
    notes: Vec<String>,
    /// Path, length and error of each part.
    parts: Vec<(Bound<'py, PyBytes>, u64, Option<String>)>,
}

/// Result of a join, a dictionary in Python.
#[derive(Debug, IntoPyObject)]
pub(crate) struct JoinResult<'py> {
    size: u64,
    hole_bytes: u64,
    lost: Vec<(u64, u64, String)>,
    open_end: Option<&'static str>,
    /// Damaged part, or `None` for all missing ones, with the number of bytes that were restored and the first of them.
    repaired: Vec<(Option<Bound<'py, PyBytes>>, u64, u64)>,
}

/// Target of a join.
enum JoinTarget {
    /// A file or block device.
    Path(PathBuf),
    /// An object with a method `write`.
    Object(StreamWriter),
}

/// Splits the file at `source` over parts.
#[pyfunction]
pub(crate) fn split<'py>(
    py: Python<'py>,
    source: &[u8],
    parts: Vec<PyBackedBytes>,
    settings: SplitSettings,
    report: Option<Py<PyAny>>,
) -> PyResult<SplitResult<'py>> {
    let source = path_of(source);
    let parts: Vec<PathBuf> = parts.iter().map(|part| path_of(part)).collect();
    let codec: Choice = fastest_form(&settings.codec)
        .parse()
        .map_err(|error: packfs_codec::Error| invalid_argument(error.to_string()))?;
    let options = SplitOptions::default().set(|all| {
        all.codec = codec;
        all.chunk = settings.chunk_size.unwrap_or(all.chunk);
        all.parity = settings.parity;
        all.threads = settings.threads.unwrap_or_else(pipeline::cores);
        all.memory = settings.memory;
        all.checkpoint = settings.checkpoint.unwrap_or(all.checkpoint);
        all.dedup = settings.dedup;
        all.direct = settings.direct;
        all.resume = settings.resume;
        all.verify = settings.verify;
        all.force = settings.force;
    });
    let (done, decoded) = work::run(py, report.as_ref(), &RaisedException::default(), |progress| {
        let core = if settings.as_is { None } else { kdump::input(&source)? };
        let is_decoded = core.is_some();
        let input = core.map_or_else(|| Input::open(&source), Ok)?;
        Ok::<_, Error>((packfs_dump::split(input, &parts, &options, progress)?, is_decoded))
    })?;
    Ok(split_result(py, done, decoded))
}

fn split_result(py: Python<'_>, done: SplitReport, decoded: bool) -> SplitResult<'_> {
    let parts = done.parts.into_iter().map(|part| (bytes_of(py, &part.path), part.bytes, part.error));
    SplitResult {
        set: done.set,
        size: done.bytes,
        resumed_bytes: done.resumed_bytes,
        decoded,
        complete: done.complete,
        input_error: done.input_error,
        suspect: done.suspect,
        weak_stripes: done.weak_stripes,
        notes: done.notes,
        parts: parts.collect(),
    }
}

/// Joins parts. `target` is the path of a file or block device, or an object with a method `write`.
#[pyfunction]
pub(crate) fn join<'py>(
    py: Python<'py>,
    parts: Vec<PyBackedBytes>,
    target: Bound<'py, PyAny>,
    settings: JoinSettings,
    report: Option<Py<PyAny>>,
) -> PyResult<JoinResult<'py>> {
    let parts: Vec<PathBuf> = parts.iter().map(|part| path_of(part)).collect();
    let raised = RaisedException::default();
    let target = match target.cast::<PyBytes>() {
        Ok(path) => JoinTarget::Path(path_of(path.as_bytes())),
        Err(_) => JoinTarget::Object(StreamWriter { object: target.unbind(), raised: raised.clone() }),
    };
    // A quarter is for the parts that are read, as in the program.
    let options = JoinOptions::default().set(|all| {
        all.threads = settings.threads.unwrap_or(all.threads);
        all.memory = settings.memory / 4 * 3;
        all.partial = settings.partial;
    });
    let (done, set) = work::run(py, report.as_ref(), &raised, |progress| {
        // Begun before anything is read, so that obstacles are reported first.
        let begun = match target {
            JoinTarget::Path(path) => BegunJoin::File(create(&path, settings.force)?),
            JoinTarget::Object(writer) => BegunJoin::Stream(writer),
        };
        let set = Set::open(&parts, &SetOptions::default().set(|all| all.cache_bytes = settings.memory / 4))?;
        let done = begun.write(&set, &options, progress)?;
        Ok::<_, Error>((done, set))
    })?;
    Ok(join_result(py, done, &set))
}

/// A target that is ready to be written.
enum BegunJoin {
    File(Output),
    Stream(StreamWriter),
}

impl BegunJoin {
    fn write(self, set: &Set, options: &JoinOptions, progress: &Progress) -> Result<JoinReport, Error> {
        match self {
            BegunJoin::Stream(mut writer) => to_stream(set, &mut writer, options, progress),
            BegunJoin::File(output) => {
                let done = to_output(set, &output, options, progress)?;
                progress.enter(Phase::Flush);
                let path = output.target().to_owned();
                output.commit().map_err(|error| refused_target(&path, "cannot finish", error))?;
                Ok(done)
            }
        }
    }
}

fn create(path: &Path, force: bool) -> Result<Output, Error> {
    Output::create(path, DUMP_MODE, force).map_err(|error| refused_target(path, "cannot create", error))
}

/// Returns the error for a target, which may exist from the start, or appear while it is written.
fn refused_target(path: &Path, what: &'static str, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Exists { path: path.to_owned(), device: false },
        _ => Error::io(what, path)(error),
    }
}

fn join_result<'py>(py: Python<'py>, done: JoinReport, set: &Set) -> JoinResult<'py> {
    let repaired = set.repairs().into_iter().map(|repair| {
        let part = repair.part.map(|part| bytes_of(py, &part));
        (part, repair.bytes, repair.start)
    });
    JoinResult {
        size: done.size,
        hole_bytes: done.hole_bytes,
        lost: done.lost.into_iter().map(|LostRange { start, end, why }| (start, end, why)).collect(),
        open_end: set.open_end(),
        repaired: repaired.collect(),
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

fn bytes_of<'py>(py: Python<'py>, path: &Path) -> Bound<'py, PyBytes> {
    PyBytes::new(py, path.as_os_str().as_bytes())
}
