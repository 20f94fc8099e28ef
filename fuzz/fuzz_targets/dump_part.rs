//! Takes any bytes for the parts of a dump and does everything a reader can do with them. Nothing may panic, hang or
//! take much memory.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../bodies/dump_part.rs"]
mod body;

fuzz_target!(|bytes: &[u8]| body::look(bytes));
