#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| packfs_fuzz::archive_source::look(bytes));
