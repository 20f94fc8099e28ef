//! A patch costs in proportion to the change.

use packfs_image::erofs::Kernel;
use packfs_image::{Builder, Choice};

use crate::common::{build, round_trip, tree, words};

#[test]
fn one_small_file_costs_little() {
    let squashfs = || Builder::squashfs().codec("zstd:5".parse::<Choice>().unwrap());
    let erofs = || Builder::erofs().codec("lz4hc:9".parse::<Choice>().unwrap()).target_kernel(Kernel::new(6, 1));
    let builders: [&dyn Fn() -> Builder<'static>; 2] = [&squashfs, &erofs];
    for builder in builders {
        let mut files = tree();
        files.push(("usr/lib/more".into(), words(3_000_000, 8)));
        let old = build(builder(), &files);
        files[100].1.splice(10..20, *b"other words, more of them");
        let new = build(builder(), &files);
        let made = round_trip(&old, &new);
        assert!(made.bytes.len() < 60_000, "{:?}", made.summary);
    }
}
