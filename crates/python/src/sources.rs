//! Bytes that Python holds or reads, for the library.

use std::io::{self, Read, Write};

use packfs_image::ReadAt;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::work::{RaisedException, attached};

/// An immutable bytes object.
#[derive(Debug)]
pub(crate) struct HeldBytes(pub(crate) PyBackedBytes);

impl ReadAt for HeldBytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

/// A Python object with a method `read_at(offset, size)`, which any thread may call.
#[derive(Debug)]
pub(crate) struct ObjectBytes {
    pub(crate) object: Py<PyAny>,
    pub(crate) len: u64,
}

impl ReadAt for ObjectBytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        attached(|py| {
            let bytes = self.object.bind(py).call_method1("read_at", (offset, buf.len()))?;
            copy_bytes(&bytes, buf)
        })
        // With the exception in it, which `errors` raises again.
        .map_err(io::Error::other)
    }

    fn len(&self) -> u64 {
        self.len
    }
}

/// A Python object with a method `read(size)`.
#[derive(Debug)]
pub(crate) struct StreamReader {
    pub(crate) object: Py<PyAny>,
    pub(crate) raised: RaisedException,
}

impl Read for StreamReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        self.raised.fail_if_kept()?;
        attached(|py| {
            let bytes = self.object.bind(py).call_method1("read", (buf.len(),))?;
            copy_bytes(&bytes, buf)
        })
        .map_err(|raised| self.raised.keep(raised))
    }
}

/// A Python object with a method `write(bytes)`.
#[derive(Debug)]
pub(crate) struct StreamWriter {
    pub(crate) object: Py<PyAny>,
    pub(crate) raised: RaisedException,
}

impl Write for StreamWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.raised.fail_if_kept()?;
        attached(|py| {
            let written = self.object.bind(py).call_method1("write", (PyBytes::new(py, bytes),))?;
            // A raw file may write less; other objects return anything, or nothing, for all.
            Ok(written.extract::<usize>().map_or(bytes.len(), |written| written.min(bytes.len())))
        })
        .map_err(|raised| self.raised.keep(raised))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn copy_bytes(bytes: &Bound<'_, PyAny>, buf: &mut [u8]) -> PyResult<usize> {
    let bytes = bytes.cast::<PyBytes>()?.as_bytes();
    let Some(out) = buf.get_mut(..bytes.len()) else {
        return Err(pyo3::exceptions::PyValueError::new_err("read returned more bytes than were asked for"));
    };
    out.copy_from_slice(bytes);
    Ok(bytes.len())
}
