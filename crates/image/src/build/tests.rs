//! Builds, in every format, from files that fail while being read and from files that are almost all holes.

use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_blocks::io::Memory;
use proptest::prelude::*;

use super::*;
use crate::erofs::{self, Features};
use crate::source::FileReader;
use crate::squashfs::{self, Fragments};
use crate::testing::probe::{holds, noise, probe};
use crate::testing::{
    Node, Piece, Shape, Spec, differences, findings, snapshot_image, snapshot_tree, specs, whole_seconds,
};
use crate::{AnyImage, OnError, OpenOptions};

const MIB: u64 = 1 << 20;

/// Files that cannot be read from a given byte on.
struct Failing {
    from: Arc<dyn Contents>,
    at: u64,
}

impl Contents for Failing {
    fn open(&self, key: u64) -> Result<Box<dyn FileReader + '_>> {
        Ok(Box::new(FailingReader { from: self.from.open(key)?, at: self.at }))
    }

    fn path(&self, key: u64) -> PathBuf {
        self.from.path(key)
    }
}

struct FailingReader<'c> {
    from: Box<dyn FileReader + 'c>,
    at: u64,
}

impl FileReader for FailingReader<'_> {
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        if !buf.is_empty() && offset + buf.len() as u64 > self.at {
            return Err(Error::Changed { path: "failing".into(), why: "no more".into() });
        }
        self.from.read_exact_at(buf, offset)
    }

    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        self.from.next_data(offset)
    }

    fn finish(&mut self) -> Result<()> {
        self.from.finish()
    }
}

/// Options of both formats that store files in every possible way.
fn cases() -> Vec<AnyOptions> {
    let common = |build: &mut SharedOptions, codec: &str| {
        build.codec = codec.parse().expect("a codec");
        build.on_error = OnError::Skip;
        build.threads = 2;
    };
    let squashfs = [("none", Fragments::Tails), ("lz4", Fragments::None), ("gzip:1", Fragments::Small)];
    let squashfs = squashfs.map(|(codec, fragments)| {
        let options = squashfs::SquashfsOptions { fragments, ..squashfs::SquashfsOptions::default() };
        AnyOptions::Squashfs(options.with(|build| common(build, codec)))
    });
    let reflink = erofs::ErofsOptions { reflink: true, ..erofs::ErofsOptions::default() };
    let reflink = AnyOptions::Erofs(reflink.with(|build| common(build, "none")));
    let erofs = [
        ("none", Features::empty()),
        ("none", Features::CHUNKS),
        ("lz4", Features::empty()),
        ("lz4", Features::FRAGMENTS),
        ("lz4", Features::ALL_FRAGMENTS),
        ("lz4", Features::ZTAILPACKING),
        ("deflate:1", Features::BITS_48 | Features::UNALIGNED | Features::FRAGMENTS),
    ];
    let erofs = erofs.map(|(codec, features)| {
        let target_kernel = "6.18".parse().expect("a kernel");
        let options =
            erofs::ErofsOptions { features, target_kernel, cluster_size: 16 << 10, ..erofs::ErofsOptions::default() };
        AnyOptions::Erofs(options.with(|build| common(build, codec)))
    });
    squashfs.into_iter().chain(erofs).chain([reflink]).collect()
}

#[test]
fn files_that_fail_leave_nothing_behind_and_do_not_affect_others() {
    let name = |name: &str| name.as_bytes().to_vec();
    let failing = [("b-large", 5 * MIB, 9 * MIB / 2, 1), ("c-small", 3000, 2000, 2), ("d-medium", MIB, MIB / 2, 3)];
    let live = [
        (name("a-live"), noise(4, 9000)),
        (name("e-live"), Node::file(vec![Piece::Text { seed: 5, len: 70_000 }, Piece::Noise { seed: 6, len: 100 }])),
        // Data that a failing file shares with another file stays.
        (name("f-twin"), noise(1, 2 * MIB)),
    ];
    let want = whole_seconds(snapshot_tree(&Spec::of(live.clone()).tree().unwrap()).unwrap());
    let all = failing.iter().map(|(path, len, _, seed)| (name(path), noise(*seed, *len))).chain(live);
    let spec = Spec::of(all);
    for options in cases() {
        let mut tree = spec.tree().unwrap();
        for (path, _, at, _) in failing {
            let ino = tree.lookup(path.as_bytes()).expect("a file of the tree");
            let Kind::File { data: FileData::Source { from, key }, .. } = tree.inode(ino).kind else {
                panic!("{path} is a file");
            };
            let from: Arc<dyn Contents> = Arc::new(Failing { from: Arc::clone(from), at });
            tree.set_data(ino, FileData::Source { from, key }).unwrap();
        }
        let what = format!("{options:?}");
        let image = Arc::new(Memory::default());
        let output = Output::over(Arc::clone(&image), "image");
        let order = Vec::new();
        let summary = options.build_to(output, &Progress::default(), |_| Ok(Plan { tree, order })).unwrap();
        let left_out: Vec<_> = summary.left_out.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(left_out, failing.map(|(path, ..)| path), "{what}");
        let bytes = image.lock().unwrap().get_ref().clone();
        for (seed, at) in [(1, 2 * MIB + 5000), (1, 3 * MIB), (2, 100), (3, 100), (3, MIB / 4)] {
            assert!(!holds(&bytes, probe(seed, at)), "{what}: byte {at} of file {seed}, which failed, is there");
        }
        let image = AnyImage::open(Arc::new(bytes), OpenOptions::default()).unwrap().into_image();
        let found = whole_seconds(snapshot_image(&*image).unwrap());
        assert_eq!(differences(&want, &found), Vec::<String>::new(), "{what}");
        assert_eq!(findings(&*image, 0), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn the_number_of_holes_is_limited() {
    let sparse = Spec::of([(b"f".to_vec(), Node::file(vec![Piece::Text { seed: 1, len: 9 }, Piece::Hole(200 << 40)]))]);
    let plan = |_: &mut dyn Store| Ok(Plan { tree: sparse.tree()?, order: Vec::new() });
    let progress = Progress::default();
    let memory = || Output::over(Memory::default(), "image");
    let mut errors = vec![
        squashfs::build_to(memory(), &squashfs::SquashfsOptions::default(), &progress, plan).unwrap_err().to_string(),
    ];
    let of_erofs = [
        ("none", Features::empty(), false),
        ("none", Features::empty(), true),
        ("lz4", Features::empty(), false),
        ("zstd:1", Features::BITS_48, false),
    ];
    for (codec, features, reflink) in of_erofs {
        let target_kernel = "6.18".parse().unwrap();
        let options = erofs::ErofsOptions { features, target_kernel, reflink, ..erofs::ErofsOptions::default() };
        let options = options.with(|build| build.codec = codec.parse().unwrap());
        errors.push(erofs::build_to(memory(), &options, &progress, plan).unwrap_err().to_string());
    }
    assert!(errors.iter().all(|error| error.contains("GiB of holes")), "{errors:?}");
}

/// Returns wishes for the data of a file that an image with these options can fulfil.
fn any_handling(options: &AnyOptions, seed: u64, ino: Ino) -> DataHandling {
    let random = DataHandling::from_bits_truncate(
        blake3::hash(&[seed, ino.0.into()].map(u64::to_le_bytes).concat()).as_bytes()[0],
    );
    match options {
        AnyOptions::Squashfs(_) => random,
        AnyOptions::Erofs(options) if options.features.contains(Features::BITS_48) => {
            random & DataHandling::NO_FRAGMENT
        }
        AnyOptions::Erofs(_) => random & (DataHandling::STORE | DataHandling::NO_FRAGMENT),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn wishes_about_single_files_change_no_content(spec in specs(Shape::default()), seed in any::<u64>()) {
        let want = whole_seconds(snapshot_tree(&spec.tree().unwrap()).unwrap());
        for options in cases() {
            let build = |threads, memory| {
                let mut options = options.clone();
                (options.common_mut().threads, options.common_mut().memory) = (threads, memory);
                let mut tree = spec.tree().unwrap();
                for ino in tree.inos() {
                    tree.set_storing(ino, any_handling(&options, seed, ino), tree.inode(ino).recipe);
                }
                let image = Arc::new(Memory::default());
                let output = Output::over(Arc::clone(&image), "image");
                let plan = Plan { tree, order: Vec::new() };
                options.build_to(output, &Progress::default(), |_| Ok(plan)).map(|_| image.lock().unwrap().get_ref().clone())
            };
            let bytes = build(0, 64 << 20).unwrap();
            prop_assert!(bytes == build(3, 1).unwrap(), "{options:?}: threads");
            let image = AnyImage::open(Arc::new(bytes), OpenOptions::default()).unwrap().into_image();
            let found = whole_seconds(snapshot_image(&*image).unwrap());
            prop_assert_eq!(differences(&want, &found), Vec::<String>::new(), "{:?}", options);
            prop_assert_eq!(findings(&*image, 0), Vec::<String>::new(), "{:?}", options);
        }
    }
}
