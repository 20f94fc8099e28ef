//! Errors of the library as exceptions of `packfs._errors`.

use std::os::unix::ffi::OsStrExt;

use packfs_image::{Error, RequestError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::work;

/// An error of a library.
pub(crate) trait LibraryError: Send {
    /// Returns the exception for it.
    fn exception(&self) -> PyErr;
}

impl LibraryError for Error {
    fn exception(&self) -> PyErr {
        exception(self)
    }
}

impl LibraryError for packfs_dump::Error {
    fn exception(&self) -> PyErr {
        dump_exception(self)
    }
}

/// Returns the exception for an error: `packfs._errors.make` knows the class for each kind.
pub(crate) fn exception(error: &Error) -> PyErr {
    exception_of(error, None)
}

/// Returns the exception for one of many requests that failed.
pub(crate) fn request_exception(error: &RequestError) -> PyErr {
    exception_of(&error.source, Some(error.request))
}

/// Returns the exception for an argument that Python code passed, which `message` explains.
pub(crate) fn invalid_argument(message: impl Into<String>) -> PyErr {
    exception(&Error::Misuse(message.into()))
}

/// Takes an argument of Python code from a dictionary. Unlike the errors of derived conversions, which name structs of
/// Rust, its errors have the name that the caller knows.
pub(crate) fn argument<'py, T: FromPyObject<'py>>(arguments: &Bound<'py, PyAny>, name: &str) -> PyResult<T> {
    let py = arguments.py();
    let named = |error: PyErr| PyErr::from_type(error.get_type(py), format!("{name}: {}", error.value(py)));
    arguments.get_item(name)?.extract().map_err(named)
}

/// Returns the exception for an address that cannot be read.
pub(crate) fn remote_exception(error: &packfs_remote::Error) -> PyErr {
    let kind = match error.why() {
        packfs_remote::FailureReason::Status { status: 404 | 410, .. } => "NotFound",
        packfs_remote::FailureReason::Status { status: 401 | 403, .. } => "PermissionDenied",
        packfs_remote::FailureReason::Address(_) => "InvalidArgument",
        _ => "SystemFailure",
    };
    made(&FoundError { kind, message: error.to_string(), ..FoundError::default() })
}

fn dump_exception(error: &packfs_dump::Error) -> PyErr {
    use packfs_dump::Error::{
        Cancelled, Changed, Codec, Corrupt, Exists, Incomplete, InvalidOption, Io, Lost, NoPartLeft, NotResumable,
        TooSmall, Unproven, Unsuitable, Unsupported,
    };
    let mut found = FoundError { message: error.to_string(), ..FoundError::default() };
    found.kind = match error {
        Io { source, .. } if source.kind() == std::io::ErrorKind::OutOfMemory => "OutOfMemory",
        Io { .. } | NoPartLeft { .. } => "SystemFailure",
        Corrupt { .. } | Unproven { .. } => "Damaged",
        Lost { .. } | Incomplete { .. } => "Incomplete",
        Changed { .. } => "Changed",
        Exists { .. } => "Exists",
        InvalidOption { .. } | Unsuitable { .. } | NotResumable(_) | TooSmall { .. } | Codec(_) => "InvalidArgument",
        Unsupported(_) => "Unsupported",
        Cancelled => "Cancelled",
        _ => "Error",
    };
    match error {
        Io { path, source, .. } => {
            found.path = Some(path.as_os_str().as_bytes());
            found.errno = source.raw_os_error();
        }
        Corrupt { path, structure, offset, .. } => {
            found.path = Some(path.as_os_str().as_bytes());
            found.structure = Some(structure);
            found.offset = Some(*offset);
        }
        Changed { path, .. } | Exists { path, .. } | Unsuitable { path, .. } | TooSmall { path, .. } => {
            found.path = Some(path.as_os_str().as_bytes());
        }
        _ => (),
    }
    made(&found)
}

/// An error as `packfs._errors.make` takes it.
#[derive(Default)]
struct FoundError<'e> {
    /// Name of the class.
    kind: &'static str,
    message: String,
    path: Option<&'e [u8]>,
    /// Damaged structure of the format.
    structure: Option<&'static str>,
    /// Position of that structure in the image, in bytes.
    offset: Option<u64>,
    errno: Option<i32>,
    /// Number of the request in a call that had many.
    request: Option<usize>,
}

fn exception_of(error: &Error, request: Option<usize>) -> PyErr {
    if let Some(raised) = raised_by_source(error) {
        return raised;
    }
    let mut found = FoundError {
        kind: class_of(error),
        message: error.to_string(),
        path: error.path().map(|path| path.as_os_str().as_bytes()),
        request,
        ..FoundError::default()
    };
    let place = match error {
        Error::Entry { source, .. } => source,
        other => other,
    };
    match place {
        Error::Corrupt { structure, offset, .. } => {
            found.structure = Some(structure);
            found.offset = Some(*offset);
        }
        Error::Io { source, .. } => found.errno = source.raw_os_error(),
        _ => (),
    }
    made(&found)
}

/// Returns the exception of a file object that was read from, if that is the error.
fn raised_by_source(error: &Error) -> Option<PyErr> {
    let Error::Io { source, .. } = error else { return None };
    let raised = source.get_ref()?.downcast_ref::<PyErr>()?;
    Some(Python::attach(|py| raised.clone_ref(py)))
}

/// Returns the name of the exception's class.
fn class_of(error: &Error) -> &'static str {
    match error {
        Error::Corrupt { .. } | Error::Damaged { .. } | Error::Codec(_) | Error::Shard { .. } | Error::Entry { .. } => {
            "Damaged"
        }
        Error::NoImage { .. } => "NoImage",
        Error::NotFound { .. } | Error::NoMatch { .. } => "NotFound",
        Error::WrongType { expected: "directory", .. } => "NotADirectory",
        Error::WrongType { .. } => "WrongType",
        Error::LinkLoop { .. } => "LinkLoop",
        Error::Exists { .. } => "Exists",
        Error::Unsupported(_) => "Unsupported",
        Error::Changed { .. } => "Changed",
        Error::Limit { .. } | Error::TooMany { .. } => "LimitExceeded",
        Error::InvalidOption { .. }
        | Error::BadPattern { .. }
        | Error::BadName { .. }
        | Error::Duplicate { .. }
        | Error::Syntax { .. }
        | Error::Misuse(_) => "InvalidArgument",
        Error::Cancelled => "Cancelled",
        Error::ReadLimit { .. } => "OutOfMemory",
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::OutOfMemory => "OutOfMemory",
        Error::Io { .. } => "SystemFailure",
        _ => "Error",
    }
}

fn made(found: &FoundError<'_>) -> PyErr {
    Python::attach(|py| {
        let make = || {
            let errors = py.import("packfs._errors")?;
            let path = found.path.map(|path| PyBytes::new(py, path));
            let arguments =
                (found.kind, &found.message, path, found.structure, found.offset, found.errno, found.request);
            errors.call_method1("make", arguments)
        };
        work::still_attached(py, make).map_or_else(|failed| failed, PyErr::from_value)
    })
}
