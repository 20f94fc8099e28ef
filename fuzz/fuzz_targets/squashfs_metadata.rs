#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| packfs_fuzz::squashfs_metadata::look(bytes));
