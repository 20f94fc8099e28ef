//! Builds with an older image give the same bytes as builds without, whatever is wrong with that image.

use std::collections::{BTreeMap, HashSet};
use std::fs;

use packfs_blocks::Progress;
use packfs_blocks::testing::Random;
use proptest::prelude::*;

use super::*;
use crate::build::{AnyOptions, BuildSummary, Plan};
use crate::erofs::{self, Features};
use crate::squashfs::{self, Fragments};
use crate::testing::{
    Mount, Node, Piece, Shape, Spec, What, can_mount, differences, disagreements, findings, snapshot_image,
    snapshot_tree, specs, whole_seconds,
};
use crate::{AnyImage, OnError, OpenOptions};

/// A directory of images with their indexes.
struct Bench {
    dir: tempfile::TempDir,
    options: AnyOptions,
}

impl Bench {
    fn new(options: &AnyOptions) -> Self {
        Bench { dir: tempfile::tempdir().unwrap(), options: options.clone() }
    }

    fn image(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn index(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.index"))
    }

    fn reuse(&self, name: &str) -> ReusedImage {
        ReusedImage { image: self.image(name), index: self.index(name) }
    }

    /// Builds an image with an index.
    fn build(&self, spec: &Spec, name: &str, reuse: Option<&str>, threads: usize) -> BuildSummary {
        self.try_build(spec, name, reuse, threads).unwrap_or_else(|e| panic!("{:?}: {e}", self.options))
    }

    fn try_build(&self, spec: &Spec, name: &str, reuse: Option<&str>, threads: usize) -> Result<BuildSummary> {
        self.build_strictly(spec, (name, reuse), threads, false)
    }

    fn build_strictly(
        &self,
        spec: &Spec,
        (name, reuse): (&str, Option<&str>),
        threads: usize,
        strict: bool,
    ) -> Result<BuildSummary> {
        let mut options = self.options.clone();
        let all = options.common_mut();
        (all.threads, all.index, all.reuse) = (threads, Some(self.index(name)), reuse.map(|name| self.reuse(name)));
        all.force = true;
        options.build(&self.image(name), &Progress::default(), |_| {
            let mut tree = spec.tree()?;
            tree.warnings = Warnings::new(strict);
            Ok(Plan { tree, order: Vec::new() })
        })
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.image(name)).unwrap()
    }

    /// Asserts that two images and their indexes are equal.
    fn assert_same(&self, a: &str, b: &str) {
        assert!(self.bytes(a) == self.bytes(b), "{:?}: {a} and {b} differ", self.options);
        let indexes = [a, b].map(|name| fs::read(self.index(name)).unwrap());
        assert!(indexes[0] == indexes[1], "{:?}: the indexes of {a} and {b} differ", self.options);
    }
}

/// A file that compresses to about half.
fn half(seed: u64, len: u64) -> Node {
    let pieces = (0..len.div_ceil(1000)).flat_map(|n| {
        let len = (len - n * 1000).min(1000);
        [Piece::Noise { seed: seed * 10_000 + n, len: len / 2 }, Piece::Text { seed: n % 90, len: len - len / 2 }]
    });
    Node::file(pieces.collect())
}

fn name(name: impl Into<String>) -> Vec<u8> {
    name.into().into_bytes()
}

/// Small files, files of several blocks and pieces, files with holes, and equal files.
fn before() -> Spec {
    let small = (0..60).map(|n| (name(format!("small-{n:02}")), half(n, 300 + n * 97)));
    let medium = (0..20).map(|n| (name(format!("medium-{n:02}")), half(100 + n, 30_000 + n * 9_000)));
    let large = [
        (name("large"), half(200, 2_700_000)),
        (name("large-twin"), half(200, 2_700_000)),
        (name("noise"), Node::file(vec![Piece::Noise { seed: 9, len: 300_000 }])),
        (
            name("sparse"),
            Node::file(vec![
                Piece::Text { seed: 1, len: 70_000 },
                Piece::Hole(1 << 20),
                Piece::Text { seed: 2, len: 99 },
            ]),
        ),
        (name("zeros"), Node::file(vec![Piece::Zeros(500_000)])),
    ];
    Spec::of(small.chain(medium).chain(large))
}

/// The same, with a file of each kind changed, one removed and one added.
fn after() -> Spec {
    let mut spec = before();
    let What::Dir(entries) = &mut spec.root.what else { panic!("the root is a directory") };
    entries.insert(name("small-31"), half(301, 3_000));
    entries.insert(name("medium-07"), half(302, 93_000));
    entries.insert(name("medium-new"), half(303, 50_000));
    entries.remove(&name("small-50"));
    spec
}

fn squashfs(codec: &str, block_size: u32, fragments: Fragments) -> AnyOptions {
    let options = squashfs::SquashfsOptions { block_size, fragments, ..squashfs::SquashfsOptions::default() };
    AnyOptions::Squashfs(options.with(|build| build.codec = codec.parse().unwrap()))
}

fn erofs(codec: &str, cluster_size: u32, features: Features) -> AnyOptions {
    let target_kernel = "6.18".parse().unwrap();
    let options = erofs::ErofsOptions { cluster_size, features, target_kernel, ..erofs::ErofsOptions::default() };
    AnyOptions::Erofs(options.with(|build| build.codec = codec.parse().unwrap()))
}

fn cases() -> Vec<AnyOptions> {
    vec![
        squashfs("zstd:3", 128 << 10, Fragments::Tails),
        squashfs("gzip:6", 32 << 10, Fragments::Small),
        squashfs("xz:0:bcj=auto", 64 << 10, Fragments::Tails),
        squashfs("lz4", 4 << 10, Fragments::None),
        squashfs("lzo", 16 << 10, Fragments::Tails),
        erofs("lz4hc:3", 64 << 10, Features::FRAGMENTS),
        erofs("lz4", 4 << 10, Features::empty()),
        erofs("zstd:3", 64 << 10, Features::FRAGMENTS | Features::DEDUPE),
        erofs("deflate:3", 16 << 10, Features::ALL_FRAGMENTS),
        erofs("lzma:1", 64 << 10, Features::ZTAILPACKING),
        erofs("zstd:1", 16 << 10, Features::BITS_48 | Features::UNALIGNED | Features::FRAGMENTS),
    ]
}

/// Cases for tests that are the same for both formats.
fn few() -> [AnyOptions; 2] {
    [squashfs("zstd:1", 32 << 10, Fragments::Tails), erofs("lz4", 16 << 10, Features::FRAGMENTS)]
}

#[test]
fn no_byte_changes_with_any_number_of_threads() {
    for options in cases() {
        let bench = Bench::new(&options);
        bench.build(&before(), "old", None, 2);
        let fresh = bench.build(&after(), "fresh", None, 2);
        assert_eq!(fresh.reused, None);
        for threads in [0, 1, 2, 7] {
            let summary = bench.build(&after(), "new", Some("old"), threads);
            bench.assert_same("fresh", "new");
            let reused = summary.reused.unwrap();
            assert!(reused.taken > 0 && reused.damaged == 0, "{options:?}: {reused:?}");
            assert!(reused.content_bytes * 3 > 2 * 1_000_000, "{options:?}: {reused:?}");
        }
        // Nothing changed: only units that depend on more than one piece are compressed.
        let summary = bench.build(&after(), "again", Some("new"), 2);
        bench.assert_same("fresh", "again");
        let reused = summary.reused.unwrap();
        assert_eq!(reused.damaged, 0, "{options:?}");
        assert!(reused.update_bytes * 2 < summary.image_bytes, "{options:?}: {reused:?} of {}", summary.image_bytes);
    }
}

#[test]
fn an_image_is_rebuilt_in_its_own_place() {
    for options in few() {
        let bench = Bench::new(&options);
        bench.build(&before(), "image", None, 2);
        bench.build(&after(), "image", Some("image"), 2);
        bench.build(&after(), "fresh", None, 2);
        bench.assert_same("image", "fresh");
    }
}

#[test]
fn offsets_of_both_images_count() {
    for options in few() {
        let mut bench = Bench::new(&options);
        bench.options.common_mut().offset = 12_288;
        bench.build(&before(), "old", None, 2);
        bench.build(&after(), "fresh", None, 2);
        let reused = bench.build(&after(), "new", Some("old"), 2).reused.unwrap();
        assert!(reused.taken > 0, "{reused:?}");
        bench.assert_same("fresh", "new");
        bench.options.common_mut().offset = 0;
        bench.build(&after(), "fresh", None, 2);
        let elsewhere = bench.build(&after(), "new", Some("old"), 2).reused.unwrap();
        assert_eq!(elsewhere.taken, reused.taken);
        bench.assert_same("fresh", "new");
    }
}

#[test]
fn of_a_damaged_image_nothing_wrong_is_taken() {
    type Harm = fn(&mut Vec<u8>);
    let harms: [(&str, Harm); 3] = [
        ("flipped", |bytes| bytes.iter_mut().skip(5000).step_by(2003).for_each(|byte| *byte ^= 0x10)),
        ("cut", |bytes| bytes.truncate(bytes.len() / 3)),
        ("cleared", |bytes| bytes[4096..].fill(0)),
    ];
    for options in cases() {
        let bench = Bench::new(&options);
        bench.build(&before(), "old", None, 2);
        bench.build(&after(), "fresh", None, 2);
        let whole = bench.bytes("old");
        for (what, harm) in harms {
            let mut bytes = whole.clone();
            harm(&mut bytes);
            fs::write(bench.image("old"), bytes).unwrap();
            let summary = bench.build(&after(), "new", Some("old"), 2);
            bench.assert_same("fresh", "new");
            let reused = summary.reused.unwrap();
            assert!(reused.damaged > 0, "{options:?}, {what}: {reused:?}");
            assert_eq!(summary.warnings.count(WarningKind::ReuseDamaged), 1, "{options:?}, {what}");
        }
    }
}

#[test]
fn what_is_no_index_of_the_image_is_refused() {
    for options in few() {
        let bench = Bench::new(&options);
        let error = |what: &str| {
            let error = bench.try_build(&after(), "new", Some("old"), 0).expect_err(what);
            assert!(!bench.image("new").exists() && !bench.index("new").exists(), "{what}");
            error.to_string()
        };
        assert!(error("no image").contains("cannot open"));
        bench.build(&before(), "old", None, 0);
        fs::rename(bench.index("old"), bench.index("away")).unwrap();
        assert!(error("no index").contains("no such index"));
        fs::rename(bench.index("away"), bench.index("old")).unwrap();
        let whole = fs::read(bench.index("old")).unwrap();
        for (n, len) in [(0, 0), (1, 79), (2, whole.len() - 1), (3, whole.len() / 2)] {
            fs::write(bench.index("old"), &whole[..len]).unwrap();
            assert!(error("cut").contains("index"), "{n}");
        }
        for at in [0, 9, 13, 20, 45, 70, 75, 100, whole.len() / 2, whole.len() - 40, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            fs::write(bench.index("old"), &bytes).unwrap();
            let error = error("flipped");
            assert!(error.contains("old.index") && error.contains("index"), "{at}: {error}");
        }
    }
}

/// A build that ends between writing image and index leaves no image without an index.
#[test]
fn an_index_gets_its_name_before_the_image() {
    for options in few() {
        let bench = Bench::new(&options);
        let mut options = options.clone();
        (options.common_mut().index, options.common_mut().force) = (Some(bench.index("new")), true);
        let built = options.build(&bench.image("new"), &Progress::default(), |_| {
            // A directory cannot be replaced, so renaming the image fails.
            fs::create_dir(bench.image("new")).unwrap();
            Ok(Plan { tree: before().tree()?, order: Vec::new() })
        });
        assert!(built.expect_err("a directory is in the way").to_string().contains("cannot finish"));
        assert!(bench.index("new").is_file());
    }
}

/// A build that is killed between the two leaves the old image with the new index.
#[test]
fn of_an_image_with_the_index_of_another_nothing_is_taken() {
    for options in few() {
        let bench = Bench::new(&options);
        bench.build(&before(), "old", None, 0);
        let index = fs::read(bench.index("old")).unwrap();
        bench.build(&after(), "old", Some("old"), 0);
        fs::write(bench.index("old"), index).unwrap();
        assert_nothing_taken(&bench, WarningKind::ReuseOtherImage);
        // The old image is empty.
        fs::write(bench.image("old"), b"").unwrap();
        assert_nothing_taken(&bench, WarningKind::ReuseOtherImage);
    }
}

/// Changes the name of the encoder in an index.
fn renamed(index: &[u8], change: impl Fn(&str) -> String) -> Vec<u8> {
    let index = UnitIndex::parse(index.to_vec()).unwrap();
    let (units, name) = (index.units(), change(&index.encoder()));
    units.emit(&index.head(), &name)
}

#[test]
fn of_other_encoders_nothing_is_taken() {
    let [squashfs, erofs] = few();
    let other = |options: &AnyOptions, change: fn(&mut SharedOptions)| {
        let mut options = options.clone();
        change(options.common_mut());
        options
    };
    let level = |options: &mut SharedOptions| options.codec = "zstd:2".parse().unwrap();
    let pairs = [
        (other(&squashfs, level), squashfs.clone()),
        (super::tests::squashfs("zstd:1", 64 << 10, Fragments::Tails), squashfs.clone()),
        (super::tests::erofs("lz4", 32 << 10, Features::FRAGMENTS), erofs.clone()),
        (squashfs.clone(), erofs.clone()),
        (erofs.clone(), squashfs.clone()),
    ];
    for (old, new) in pairs {
        let mut bench = Bench::new(&old);
        bench.build(&before(), "old", None, 2);
        bench.options = new;
        assert_nothing_taken(&bench, WarningKind::ReuseOtherEncoder);
    }
    for options in few() {
        let bench = Bench::new(&options);
        bench.build(&before(), "old", None, 2);
        let index = fs::read(bench.index("old")).unwrap();
        let version = renamed(&index, |name| name.replacen("packfs ", "packfs 99.", 1));
        fs::write(bench.index("old"), version).unwrap();
        assert_nothing_taken(&bench, WarningKind::ReuseOtherEncoder);
    }
}

fn assert_nothing_taken(bench: &Bench, why: WarningKind) {
    bench.build(&after(), "fresh", None, 2);
    let summary = bench.build(&after(), "new", Some("old"), 2);
    bench.assert_same("fresh", "new");
    let reused = summary.reused.unwrap();
    assert_eq!((reused.taken, reused.update_bytes), (0, summary.padded_bytes()), "{:?}", bench.options);
    assert_eq!(summary.warnings.count(why), 1, "{:?}", bench.options);
    let refused = bench.build_strictly(&after(), ("new", Some("old")), 2, true);
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
}

#[test]
fn without_compression_there_is_nothing_to_reuse() {
    for mut options in few() {
        options.common_mut().codec = "none".parse().unwrap();
        let error = Bench::new(&options).try_build(&before(), "image", None, 0).unwrap_err();
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
    }
}

#[test]
fn an_index_that_lies_costs_time_only() {
    for options in cases() {
        let bench = Bench::new(&options);
        bench.build(&before(), "old", None, 2);
        let want = whole_seconds(snapshot_tree(&after().tree().unwrap()).unwrap());
        let whole = UnitIndex::parse(fs::read(bench.index("old")).unwrap()).unwrap();
        for seed in 0..3 {
            let mut units = whole.units();
            units.distort(seed);
            fs::write(bench.index("old"), units.emit(&whole.head(), &whole.encoder())).unwrap();
            bench.build(&after(), "new", Some("old"), 2);
            let image = AnyImage::open(Arc::new(bench.bytes("new")), OpenOptions::default()).unwrap().into_image();
            let found = whole_seconds(snapshot_image(&*image).unwrap());
            assert_eq!(differences(&want, &found), Vec::<String>::new(), "{options:?}, {seed}");
            assert_eq!(findings(&*image, 0), Vec::<String>::new(), "{options:?}, {seed}");
        }
    }
}

/// Bytes of aligned blocks of `new` that do not occur in `old`.
fn missing(old: &[u8], new: &[u8]) -> u64 {
    let block = usize::try_from(update::BLOCK).unwrap();
    let wanted: HashSet<&[u8]> = new.chunks(block).filter(|chunk| chunk.len() == block).collect();
    // A rolling sum of the bytes in the window.
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte) * u64::from(*byte)).sum::<u64>();
    let sums: HashSet<u64> = wanted.iter().map(|chunk| sum(chunk)).collect();
    let (mut found, mut rolling) = (HashSet::<&[u8]>::new(), sum(&old[..block]));
    for at in 0..=old.len() - block {
        if sums.contains(&rolling) {
            found.extend(wanted.get(&old[at..at + block]));
        }
        let square = |byte: u8| u64::from(byte) * u64::from(byte);
        rolling = rolling - square(old[at]) + old.get(at + block).map_or(0, |byte| square(*byte));
    }
    new.chunks(block).filter(|chunk| !found.contains(chunk)).map(|chunk| chunk.len() as u64).sum()
}

#[test]
fn an_update_never_fetches_more_than_is_told() {
    for options in [&few()[..], &cases()[..1], &cases()[5..6], &cases()[9..]].concat() {
        let bench = Bench::new(&options);
        bench.build(&before(), "old", None, 2);
        let summary = bench.build(&after(), "new", Some("old"), 2);
        let (reused, real) = (summary.reused.unwrap(), missing(&bench.bytes("old"), &bench.bytes("new")));
        assert!(real <= reused.update_bytes, "{options:?}: {real} of {reused:?}");
        // Except for metadata and the ends of runs, all equal data is known beforehand.
        let slack = summary.metadata_bytes + 64 * update::BLOCK;
        assert!(reused.update_bytes <= real + slack, "{options:?}: {real} of {reused:?}");
        assert!(reused.update_bytes < summary.padded_bytes(), "{options:?}: {reused:?}");
    }
}

#[test]
fn what_is_taken_keeps_its_order() {
    for options in few() {
        let bench = Bench::new(&options);
        bench.build(&before(), "old", None, 2);
        bench.build(&after(), "new", Some("old"), 2);
        let starts = |name: &str| UnitIndex::parse(fs::read(bench.index(name)).unwrap()).unwrap().starts();
        let (old, new): (BTreeMap<_, _>, BTreeMap<_, _>) = (starts("old"), starts("new"));
        let mut both: Vec<_> = old.iter().filter_map(|(key, old)| Some((*old, *new.get(key)?))).collect();
        both.sort_unstable();
        // The position of a block of tails depends on the number of blocks before.
        let back = both.windows(2).filter(|pair| pair[0].1 > pair[1].1).count();
        assert!(both.len() > 10 && back * 50 <= both.len(), "{options:?}: {both:?}");
    }
}

#[test]
fn the_kernel_reads_what_was_taken() {
    let test = "the_kernel_reads_what_was_taken";
    if !can_mount(test) {
        return;
    }
    let want = snapshot_tree(&after().tree().unwrap()).unwrap();
    for (options, kind) in cases().into_iter().map(|options| (options.clone(), options.format())) {
        let bench = Bench::new(&options);
        bench.build(&before(), "old", None, 2);
        let reused = bench.build(&after(), "new", Some("old"), 2).reused.unwrap();
        assert!(reused.taken > 0);
        let image = bench.image("new");
        drop(Mount::new(&image, kind).unwrap());
        let opened = AnyImage::open(Arc::new(bench.bytes("new")), OpenOptions::default()).map(AnyImage::into_image);
        assert_eq!(disagreements(&want, &image, opened, kind), Vec::<String>::new(), "{options:?}");
    }
}

/// Changes, removes and adds files of a tree by a random number.
fn mutate(node: &mut Node, random: &mut Random) {
    let mut draw = |limit: u64| random.number() % limit;
    match &mut node.what {
        What::File(pieces) if draw(4) == 0 => {
            let at = usize::try_from(draw(pieces.len() as u64 + 1)).unwrap();
            pieces.insert(at, Piece::Noise { seed: draw(1000), len: 1 + draw(9000) });
        }
        What::Dir(entries) => {
            if draw(3) == 0 {
                entries.insert(name(format!("new{}", draw(9))), half(draw(1000), draw(40_000)));
            }
            entries.values_mut().for_each(|node| mutate(node, random));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn random_trees_and_changes(
        spec in specs(Shape::default()),
        case in 0..cases().len(),
        seed in any::<u64>(),
        threads in proptest::sample::select(vec![0, 1, 2, 7]),
        dedup in any::<bool>(),
    ) {
        let mut options = cases().swap_remove(case);
        options.common_mut().dedup = dedup;
        options.common_mut().on_error = OnError::Stop;
        let bench = Bench::new(&options);
        let mut changed = spec.clone();
        mutate(&mut changed.root, &mut Random::new(seed));
        let links = std::mem::take(&mut changed.links);
        changed.links = links.into_iter().filter(|(_, new)| changed.tree().is_ok_and(|tree| tree.lookup(new).is_none())).collect();
        bench.build(&spec, "old", None, 2);
        bench.build(&changed, "fresh", None, 1);
        let reused = bench.build(&changed, "new", Some("old"), threads).reused.unwrap();
        bench.assert_same("fresh", "new");
        prop_assert_eq!(reused.damaged, 0);
    }
}
