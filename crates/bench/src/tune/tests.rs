//! Tuning with made-up builds through to the report, and real builds of made-up trees against their predictions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use packfs_image::build::AnyOptions;
use packfs_image::source::{Dir, Source, Spool, dir};
use packfs_image::{Tree, erofs, squashfs};

use super::choose::choose;
use super::real::TuneMachine;
use super::*;
use crate::memory::{MemoryReader, PageShares};
use crate::report::{BenchReport, text};
use crate::rng::SeededRng;
use crate::sample::PassTiming;

fn squashfs_of(codec: &str, block_size: u32) -> TuneCandidate {
    let codec = codec.parse().unwrap();
    TuneCandidate::new(AnyOptions::Squashfs(squashfs::SquashfsOptions::default().set(|all| {
        all.block_size = block_size;
        (all.build.codec, all.build.threads) = (codec, 2);
    })))
}

fn erofs_of(codec: &str, cluster_size: u32) -> TuneCandidate {
    let codec = codec.parse().unwrap();
    TuneCandidate::new(AnyOptions::Erofs(erofs::ErofsOptions::default().set(|all| {
        all.cluster_size = cluster_size;
        (all.build.codec, all.build.threads) = (codec, 2);
    })))
}

fn plan(candidates: Vec<TuneCandidate>, sample: u64, (bytes, inodes): (u64, u64)) -> TunePlan {
    TunePlan { candidates, sample, bytes, inodes, scan: PassTiming::default(), stop: Arc::default() }
}

/// Knows what each codec makes of a byte, and how long it takes for a million.
struct Mock {
    total: u64,
    calls: Vec<(String, SourcePart)>,
    stop: Option<Arc<AtomicBool>>,
}

impl TrialBuilder for Mock {
    fn build(&mut self, candidate: &TuneCandidate, part: SourcePart, read: bool) -> Result<BuiltImage> {
        self.calls.push((candidate.settings.codec.clone(), part));
        if let Some(stop) = &self.stop {
            stop.store(self.calls.len() == 3, Relaxed);
        }
        let known: BTreeMap<&str, (u64, u64, f64)> = [
            ("lz4", (60, 2, 1000.0)),
            ("zstd:1", (50, 4, 600.0)),
            ("zstd:9", (40, 200, 500.0)),
            ("xz:6", (35, 400, 60.0)),
        ]
        .into();
        let Some((percent, ms, speed)) = known.get(candidate.settings.codec.as_str()) else {
            return Err(Error::Usage("unheard of".into()));
        };
        let bytes = if let SourcePart::Sample(bytes) = part { bytes } else { self.total };
        let cpu = bytes * ms;
        let time = PassTiming { wall: cpu / 2, cpu, passes: 1 };
        let reading = ImageReading { speed: *speed, random: 1.0 / speed };
        let data = bytes * percent / 100;
        Ok(BuiltImage { bytes, inodes: 100, data, metadata: 1000, packed: bytes, time, read: read.then_some(reading) })
    }
}

fn mock(total: u64) -> Mock {
    Mock { total, calls: Vec::new(), stop: None }
}

#[test]
fn references_are_built_once_and_predictions_come_of_them() {
    let codecs = ["lz4", "zstd:9", "xz:6"];
    let plan = plan(codecs.map(|codec| squashfs_of(codec, 131_072)).into(), 1_000_000, (100_000_000, 100));
    let mut mock = mock(100_000_000);
    let predictions = tune(&plan, &mut mock, &mut |_| {}).unwrap();
    let part = |codec: &str, part| (codec.to_owned(), part);
    let want = [
        part("zstd:1", SourcePart::Whole),
        part("zstd:1", SourcePart::Sample(2_000_000)),
        part("zstd:1", SourcePart::Sample(1_000_000)),
        part("lz4", SourcePart::Whole),
        part("zstd:9", SourcePart::Sample(2_000_000)),
        part("xz:6", SourcePart::Sample(1_000_000)),
    ];
    assert_eq!(mock.calls, want);
    let sizes: Vec<u64> = predictions.iter().map(|one| one.size).collect();
    assert_eq!(sizes, [60_001_000u64, 40_001_000, 35_001_000].map(|size| size.next_multiple_of(4096)));
    // 100 MB at 200 and 400 ms a MB, by two threads.
    assert!((predictions[1].cpu_seconds - 20.0).abs() < 1e-6 && (predictions[1].seconds - 10.0).abs() < 1e-6);
    assert!((predictions[2].cpu_seconds - 40.0).abs() < 1e-6, "{:?}", predictions[2]);
    assert!(predictions[0].measured && !predictions[1].measured);
}

#[test]
fn a_candidate_that_fails_is_told_and_the_rest_is_tried() {
    let plan = plan(vec![squashfs_of("gzip:6", 4096), squashfs_of("xz:6", 4096)], 1 << 20, (100, 1));
    let mut failed = Vec::new();
    let mut watch = |event: TuneEvent<'_>| {
        if let TuneEvent::Failed(settings, why) = event {
            failed.push(format!("{settings}: {why}"));
        }
    };
    let predictions = tune(&plan, &mut mock(100), &mut watch).unwrap();
    assert_eq!(failed, ["squashfs gzip:6 4K: unheard of"]);
    assert_eq!(predictions.len(), 1);
    // Less than a sample: everything is measured.
    assert!(predictions[0].measured);
}

#[test]
fn it_stops_when_asked() {
    let plan = plan(["lz4", "zstd:9", "xz:6"].map(|codec| squashfs_of(codec, 4096)).into(), 1000, (1 << 20, 1));
    let mut mock = Mock { stop: Some(Arc::clone(&plan.stop)), ..mock(1 << 20) };
    assert!(matches!(tune(&plan, &mut mock, &mut |_| {}), Err(Error::Interrupted)));
    assert_eq!(mock.calls.len(), 3);
}

#[test]
fn what_tuning_has_to_say() {
    let plan =
        plan(["lz4", "zstd:9", "xz:6"].map(|codec| squashfs_of(codec, 131_072)).into(), 1_000_000, (100_000_000, 100));
    let predictions = tune(&plan, &mut mock(100_000_000), &mut |_| {}).unwrap();
    let limits = TuneLimits { size: Some(30_000_000), seconds: Some(60.0), read: None };
    let command = ["packfs", "build", "it's here", "-o", "x.sqfs"].map(Into::into).to_vec();
    let tuning = TuneResult {
        source: "it's here".into(),
        bytes: 100_000_000,
        inodes: 100,
        goal: TuneGoal::Size,
        choice: choose(&predictions, TuneGoal::Size, &limits),
        limits,
        predictions,
        command,
    };
    insta::assert_snapshot!(text(&BenchReport::of_tuning(&tuning).brief()));
}

/// A tree of a few megabytes of all kinds of data.
fn generated(dir: &Path) {
    let mut rng = SeededRng::new(5);
    let kinds = ["text=1", "code=1", "pointers=1", "random=1", "text=3,random=1"];
    for number in 0..160u64 {
        let shares: PageShares = kinds[rng.below(kinds.len())].parse().unwrap();
        let len = if number % 20 == 0 { 700_000 + rng.below(900_000) } else { 100 + rng.below(60_000) };
        let path: PathBuf = dir.join(format!("d{}", number % 7));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join(format!("f{number}.bin")), MemoryReader::bytes(number, shares, len)).unwrap();
    }
    // Found to be there already, whatever the sample.
    std::fs::copy(dir.join("d0/f0.bin"), dir.join("d1/copy")).unwrap();
    std::fs::hard_link(dir.join("d0/f0.bin"), dir.join("d1/link")).unwrap();
}

fn scanned(dir: &Path) -> Tree {
    let mut tree = Tree::default();
    let mut spool = Spool::new(dir).unwrap();
    Dir::new(dir, dir::Options::default()).scan(&mut tree, &mut spool).unwrap();
    tree
}

fn tried(tree: &Tree, dir: &Path, sample: u64) -> Vec<ImagePrediction> {
    let candidates = vec![
        squashfs_of("lz4hc:9", 131_072),
        squashfs_of("gzip:6", 131_072),
        squashfs_of("xz:1", 32_768),
        erofs_of("lz4hc:9", 65_536),
        erofs_of("lzma:1", 65_536),
    ];
    let plan = plan(candidates, sample, sample::measure(tree));
    let mut machine = TuneMachine::new(tree, 1, dir, Arc::default()).unwrap();
    let predictions = tune(&plan, &mut machine, &mut |_| {}).unwrap();
    assert!(machine.left_out().is_empty());
    predictions
}

#[test]
fn predicted_sizes_are_near_those_of_real_builds_and_repeatable() {
    let root = tempfile::tempdir().unwrap();
    let work = tempfile::tempdir().unwrap();
    generated(root.path());
    let tree = scanned(root.path());
    let real = tried(&tree, work.path(), 1 << 30);
    let predicted = tried(&tree, work.path(), 400_000);
    for (real, predicted) in real.iter().zip(&predicted) {
        assert!(real.measured && !predicted.measured);
        let off = predicted.size as f64 / real.size as f64 - 1.0;
        assert!(off.abs() < 0.08, "{}: {} for {}", real.settings, predicted.size, real.size);
        assert!(predicted.read_speed > 0.0 && predicted.random_read > 0.0 && predicted.tried < real.tried);
    }
    let sizes = |all: &[ImagePrediction]| all.iter().map(|one| one.size).collect::<Vec<_>>();
    assert_eq!(sizes(&tried(&tree, work.path(), 400_000)), sizes(&predicted));
    assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn trees_without_data_and_with_little_are_measured() {
    let root = tempfile::tempdir().unwrap();
    let work = tempfile::tempdir().unwrap();
    for tiny in [false, true] {
        if tiny {
            std::fs::write(root.path().join("tiny"), "Hello.").unwrap();
        }
        let tree = scanned(root.path());
        for one in tried(&tree, work.path(), 1000) {
            assert!(one.measured && one.size > 0, "{one:?}");
        }
    }
}
