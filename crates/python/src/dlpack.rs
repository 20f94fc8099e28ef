//! Memory that a Python object holds, as DLPack capsules, which array libraries take without a copy.
//!
//! A capsule named "dltensor" points to a `DLManagedTensor`. Whoever takes it renames the capsule, and calls the
//! deleter when the memory is no longer used. The deleter of a capsule that nobody took is called when the capsule
//! goes.
//!
//! Python code cannot make capsules, so they are made here, with the structs of DLPack's header, version 0.8. Every
//! consumer takes these, those of version 1 as well. They cannot mark memory as read-only, so such memory is not
//! exported.
#![allow(unsafe_code, reason = "DLPack and capsules are interfaces of C, which pass ownership by raw pointers")]

use std::ffi::{CStr, c_void};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

const NAME: &CStr = c"dltensor";
/// Main memory.
const CPU: i32 = 1;
/// Unsigned integers.
const UNSIGNED: u8 = 1;

#[repr(C)]
struct DLDevice {
    device_type: i32,
    device_id: i32,
}

#[repr(C)]
struct DLDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DLTensor {
    data: *mut c_void,
    device: DLDevice,
    ndim: i32,
    dtype: DLDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DLManagedTensor {
    dl_tensor: DLTensor,
    manager_ctx: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// Target of a capsule. The tensor is first: a pointer to it is one to all of this.
#[repr(C)]
struct ExportedMemory {
    tensor: DLManagedTensor,
    /// The only dimension, to which `shape` points.
    len: i64,
    /// While it exists, the memory stays where it is.
    _owner: Py<PyAny>,
}

/// Returns a capsule with the `len` bytes of writable memory at `address`, which stay there while `owner` exists.
#[pyfunction]
pub(crate) fn dlpack_capsule(
    py: Python<'_>,
    owner: Py<PyAny>,
    address: usize,
    len: usize,
) -> PyResult<Bound<'_, PyAny>> {
    let len = i64::try_from(len).map_err(|_| PyBufferError::new_err("more bytes than DLPack can count"))?;
    let tensor = DLTensor {
        data: std::ptr::with_exposed_provenance_mut(address),
        device: DLDevice { device_type: CPU, device_id: 0 },
        ndim: 1,
        dtype: DLDataType { code: UNSIGNED, bits: 8, lanes: 1 },
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let tensor = DLManagedTensor { dl_tensor: tensor, manager_ctx: std::ptr::null_mut(), deleter: Some(release) };
    let memory = Box::into_raw(Box::new(ExportedMemory { tensor, len, _owner: owner }));
    // SAFETY: `memory` comes from a box and is not shared yet. It stays at its address until `release`, so that `shape` may
    // point into it. It is `release`d by the capsule's destructor or by a consumer, never by both: a consumer renames the
    // capsule first. If there is no capsule, nothing else knows of the memory.
    unsafe {
        (*memory).tensor.dl_tensor.shape = &raw mut (*memory).len;
        let capsule = ffi::PyCapsule_New(memory.cast(), NAME.as_ptr(), Some(release_unused));
        Bound::from_owned_ptr_or_err(py, capsule).inspect_err(|_| drop(Box::from_raw(memory)))
    }
}

/// Releases the memory of a capsule that nobody took. Python calls it when the capsule goes.
unsafe extern "C" fn release_unused(capsule: *mut ffi::PyObject) {
    // SAFETY: Python passes the capsule, and is attached. A capsule that still has its name has the pointer of
    // `dlpack_capsule`, which nobody else releases. Asking for the name sets no exception, of which one may be pending.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) == 1 {
            release(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}

/// Releases exported memory. Consumers call it once, from any thread, attached to Python or not.
unsafe extern "C" fn release(tensor: *mut DLManagedTensor) {
    // SAFETY: `tensor` is the first field of an `ExportedMemory` that came from a box in `dlpack_capsule`, whose pointer was
    // for all of it; the protocol allows one call.
    let mut memory = Some(unsafe { Box::from_raw(tensor.cast::<ExportedMemory>()) });
    if Python::try_attach(|_| drop(memory.take())).is_none() {
        // The interpreter is gone, and its objects with it.
        std::mem::forget(memory);
    }
}
