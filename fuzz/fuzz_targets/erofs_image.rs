//! Opens any bytes as an image and does everything a reader can do with it. Nothing may panic, hang or
//! take much memory.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use packfs_blocks::Progress;
use packfs_image::Image;
use packfs_image::image::FileType;
use packfs_image::sink::Walk;
use packfs_image::erofs::{ReadOptions, Reader};

fuzz_target!(|bytes: &[u8]| {
    let options = ReadOptions { cache_bytes: 1 << 20, ..ReadOptions::default() };
    let Ok(image) = Reader::open(Arc::new(bytes.to_vec()), options) else { return };
    let _ = image.check(0, &Progress::default(), &mut |_| {});
    let Ok(mut walk) = Walk::new(&image, &[]) else { return };
    let mut piece = [0; 5000];
    while let Ok(Some(visit)) = walk.step() {
        let (nid, stat) = (visit.nid, visit.stat);
        let _ = image.xattrs(nid);
        if let FileType::File { size } = stat.kind {
            let _ = image.extents(nid);
            for offset in [0, size / 2, size.saturating_sub(1), size] {
                let _ = image.read_at(nid, &mut piece, offset);
            }
        }
    }
});
