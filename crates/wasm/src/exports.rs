//! The functions that JavaScript calls. Requests and bytes of the image go through one buffer, answers through another.
//! Each call may replace both, so callers ask for addresses after it.
#![allow(unsafe_code, reason = "functions have to keep their names to be found")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::session::{ImageSession, RequestOutcome};

/// The request was answered in JSON. This number and the next three are known to `npm/reader.js`.
const JSON: u32 = 0;
/// The request was answered by bytes.
const BYTES: u32 = 1;
/// Bytes are missing: the answer is a JSON list of ranges, each a list of first byte and end.
const MISSING: u32 = 2;
/// The request failed: the answer is JSON with `code` and `message`.
const FAILED: u32 = 3;

/// The one image of an instance, and what it exchanges.
#[derive(Debug)]
struct InstanceState {
    session: Option<ImageSession>,
    input: Vec<u8>,
    output: Vec<u8>,
}

// A static needs a lock; an instance has one thread, so nobody ever waits for it.
static EXCHANGE: Mutex<InstanceState> =
    Mutex::new(InstanceState { session: None, input: Vec::new(), output: Vec::new() });

fn exchange() -> MutexGuard<'static, InstanceState> {
    EXCHANGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins with an image of `len` bytes.
// SAFETY of the name: nothing else in this module has it; so below.
#[unsafe(no_mangle)]
pub extern "C" fn packfs_open(len: u64) {
    exchange().session = Some(ImageSession::new(len));
}

/// Makes room for `len` bytes of input and returns its address.
#[unsafe(no_mangle)]
pub extern "C" fn packfs_input(len: usize) -> *mut u8 {
    let mut exchange = exchange();
    exchange.input = vec![0; len];
    exchange.input.as_mut_ptr()
}

/// Takes the input as bytes of the image from `offset` on.
#[unsafe(no_mangle)]
pub extern "C" fn packfs_supply(offset: u64) {
    let mut exchange = exchange();
    let input = std::mem::take(&mut exchange.input);
    if let Some(session) = &exchange.session {
        session.supply(offset, &input);
    }
}

/// Takes the input as a request in JSON, and tries it. Returns the kind of the answer, which is the output.
#[unsafe(no_mangle)]
pub extern "C" fn packfs_attempt() -> u32 {
    let mut exchange = exchange();
    let input = std::mem::take(&mut exchange.input);
    let outcome = match (serde_json::from_slice(&input), &mut exchange.session) {
        (Ok(request), Some(session)) => session.attempt(&request),
        (Err(error), _) => {
            RequestOutcome::Failed(crate::describe_error(&packfs_image::Error::Misuse(error.to_string())))
        }
        (_, None) => {
            RequestOutcome::Failed(crate::describe_error(&packfs_image::Error::Misuse("no image was opened".into())))
        }
    };
    let (kind, output) = match outcome {
        RequestOutcome::Json(text) => (JSON, text.into_bytes()),
        RequestOutcome::Bytes(bytes) => (BYTES, bytes),
        RequestOutcome::Missing(ranges) => {
            let pairs: Vec<[u64; 2]> = ranges.iter().map(|range| [range.start, range.end]).collect();
            (MISSING, serde_json::to_vec(&pairs).unwrap_or_default())
        }
        RequestOutcome::Failed(text) => (FAILED, text.into_bytes()),
    };
    exchange.output = output;
    kind
}

/// Returns the address of the output.
#[unsafe(no_mangle)]
pub extern "C" fn packfs_output() -> *const u8 {
    exchange().output.as_ptr()
}

/// Returns the length of the output.
#[unsafe(no_mangle)]
pub extern "C" fn packfs_output_len() -> usize {
    exchange().output.len()
}
