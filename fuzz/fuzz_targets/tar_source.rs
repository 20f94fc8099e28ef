//! Reads any bytes as a tar archive, both as a file and as a stream that may be compressed. Nothing may
//! panic, hang or take much memory.

#![no_main]

use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use packfs_image::source::{Source, Store, tar};
use packfs_image::{Error, Result, Tree};

/// Enough of each file; more would only find decompression slow.
const FILE_MAX: u64 = 1 << 20;

struct Drain(u32);

impl Store for Drain {
    fn put(&mut self, from: &mut dyn Read, _size: u64, _data: &[(u64, u64)]) -> Result<u32> {
        let read = std::io::copy(&mut from.take(FILE_MAX), &mut std::io::sink());
        if read.map_err(Error::io("cannot read", "input"))? == FILE_MAX {
            return Err(Error::Usage("long enough".into()));
        }
        self.0 += 1;
        Ok(self.0)
    }
}

fn scan(mut source: Box<dyn Source>) {
    let _ = source.scan(&mut Tree::default(), &mut Drain(0));
}

fuzz_target!(|bytes: &[u8]| {
    let name = Path::new("input");
    scan(tar::from_bytes(Arc::new(bytes.to_vec()), name, tar::Options::default()));
    if let Ok(source) = tar::from_stream(Box::new(Cursor::new(bytes.to_vec())), name, tar::Options::default()) {
        scan(source);
    }
});
