//! A small tree as SquashFS and as EROFS, with options of the fuzzer: both read back as the tree, and both checks
//! find nothing.

use std::sync::Arc;

use packfs_blocks::io::Memory;
use packfs_blocks::{Output, Progress};
use packfs_image::build::{self, AnyOptions};
use packfs_image::erofs::{self, Features};
use packfs_image::squashfs::{self, Fragments};
use packfs_image::testing::{Snapshot, Spec, differences, findings, snapshot_image, snapshot_tree, whole_seconds};
use packfs_image::{AnyImage, Error, Image, OpenOptions, Plan};

use crate::take::Take;

/// Builds, reads, compares.
pub fn look(bytes: &[u8]) {
    let mut take = Take(bytes);
    let squashfs = squashfs_options(&mut take);
    let erofs = erofs_options(&mut take);
    let block = u64::from(if take.byte() & 1 == 0 { squashfs.block_size } else { erofs.cluster_size });
    let spec = crate::tree::tree(&mut take, block, false);
    let Ok(tree) = spec.tree() else { return };
    let want = whole_seconds(snapshot_tree(&tree).expect("it is in memory"));
    as_image(&spec, &want, &AnyOptions::Squashfs(squashfs));
    as_image(&spec, &want, &AnyOptions::Erofs(erofs));
}

fn squashfs_options(take: &mut Take<'_>) -> squashfs::SquashfsOptions {
    let options = squashfs::SquashfsOptions::default().set(|all| {
        all.block_size = take.one_of(&[4096, 8192]);
        all.fragments = take.one_of(&[Fragments::None, Fragments::Small, Fragments::Tails]);
        all.export = take.byte() & 1 == 1;
        all.plain_metadata = take.byte() & 1 == 1;
    });
    let codec = take.one_of(&["lz4", "zstd:1", "gzip:1", "lzo:algorithm=lzo1x_1", "none"]);
    options.with(|build| common(build, codec, take.byte()))
}

fn erofs_options(take: &mut Take<'_>) -> erofs::ErofsOptions {
    let block_size = take.one_of(&[512, 1024, 2048, 4096]);
    let options = erofs::ErofsOptions::default().set(|all| {
        all.block_size = block_size;
        all.cluster_size = block_size << (take.byte() & 3);
        all.features = Features::from_bits_truncate(take.short().into());
        all.target_kernel = take.one_of(&["6.18", "6.1", "6.10", "5.4"]).parse().expect("a kernel");
    });
    let codec = take.one_of(&["lz4", "zstd:1", "deflate:1", "none"]);
    options.with(|build| common(build, codec, take.byte()))
}

fn common(build: &mut build::SharedOptions, codec: &str, bits: u8) {
    build.codec = codec.parse().expect("a codec");
    (build.dedup, build.sparse, build.verify) = (bits & 1 == 0, bits & 2 == 0, bits & 4 == 0);
    (build.threads, build.memory) = (0, 1 << 20);
}

/// Builds it in memory, and compares what comes back.
fn as_image(spec: &Spec, want: &Snapshot, options: &AnyOptions) {
    let (tree, format) = (spec.tree().expect("it was one before"), options.format());
    let image = Arc::new(Memory::default());
    let output = Output::over(Arc::clone(&image), format);
    match options.build_to(output, &Progress::default(), |_| Ok(Plan { tree, order: Vec::new() })) {
        Ok(_) => {}
        // What cannot be held is said.
        Err(Error::InvalidOption { .. } | Error::Limit { .. }) => return,
        Err(error) => panic!("{format}: {error}"),
    }
    let bytes = std::mem::take(image.lock().expect("nothing panics there").get_mut());
    let image = AnyImage::open(Arc::new(bytes), OpenOptions::default()).expect("it was built");
    compare(format, want, image.image());
}

fn compare(format: &str, want: &Snapshot, image: &dyn Image) {
    let got = snapshot_image(image).unwrap_or_else(|error| panic!("{format}: {error}"));
    assert_eq!(differences(want, &got), Vec::<String>::new(), "{format}");
    assert_eq!(findings(image, 0), Vec::<String>::new(), "{format}");
}
