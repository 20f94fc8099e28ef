#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| packfs_fuzz::sif_file::look(bytes));
