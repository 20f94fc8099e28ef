//! Plans, shards and assembly as separate steps: the bytes of a local build, and what happens to damage.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use packfs_blocks::{Digest, Progress};

use super::blob::ShardBlob;
use super::tests::{assert_reads, cases, count, spec, with};
use super::*;
use crate::Plan;
use crate::source::{Dir, Source, Store, dir};
use crate::testing;

fn scan(root: &Path, store: &mut dyn Store) -> Result<Plan> {
    let mut tree = Tree::default();
    Dir::new(root, dir::Options::default()).scan(&mut tree, store)?;
    Ok(Plan { tree, order: Vec::new() })
}

/// A planned build in a directory of its own.
struct Work {
    source: testing::Source,
    place: tempfile::TempDir,
    options: AnyOptions,
}

impl Work {
    fn new(options: &AnyOptions, shards: u32) -> Work {
        let options = with(options, |all| (all.shards, all.threads) = (Some(count(shards)), 2));
        let work = Work { source: testing::Source::new(&spec()), place: tempfile::tempdir().unwrap(), options };
        let plan = |store: &mut dyn Store| scan(&work.source.tree(), store);
        work.options.plan(&work.path("plan"), &Progress::default(), plan).unwrap();
        work
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn job(&self) -> Job {
        Job::open(&self.path("plan")).unwrap()
    }

    fn pack(&self, shard: u32) -> Result<bool> {
        self.job().pack(self.place.path(), shard, &Progress::default())
    }

    fn assemble(&self, image: &str) -> Result<Vec<u8>> {
        let image = self.path(image);
        self.job().assemble(self.place.path(), &image, &Progress::default())?;
        Ok(std::fs::read(image).unwrap())
    }

    fn local(&self) -> Vec<u8> {
        let image = self.path("local");
        self.options.build(&image, &Progress::default(), |store| scan(&self.source.tree(), store)).unwrap();
        std::fs::read(image).unwrap()
    }
}

#[test]
fn shards_packed_in_any_order_give_the_bytes_of_a_local_build() {
    for (n, options) in cases().iter().enumerate() {
        for shards in [1, 3, 17] {
            let (work, what) = (Work::new(options, shards), format!("case {n}, {shards} shards"));
            // A permutation: 5 divides none of the numbers.
            for shard in (0..shards).map(|shard| shard * 5 % shards) {
                assert!(work.pack(shard).unwrap(), "{what}");
            }
            assert!(!work.pack(shards - 1).unwrap(), "{what}: a finished shard is left alone");
            assert!(work.assemble("image").unwrap() == work.local(), "{what}");
            assert_reads(options, &work.path("image"), &what);
            let status = work.job().status(work.place.path());
            assert_eq!(
                (status.done, status.done_bytes, status.missing.len()),
                (shards, status.file_bytes, 0),
                "{what}"
            );
        }
    }
}

#[test]
fn every_flipped_byte_of_a_shard_is_found_before_the_image_has_its_name() {
    let work = Work::new(&cases()[0], 3);
    (0..3).for_each(|shard| assert!(work.pack(shard).unwrap()));
    let path = blob::path(work.place.path(), 1);
    let good = std::fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(good.len() / 40).chain([good.len() - 1]) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        std::fs::write(&path, &bad).unwrap();
        let error = work.assemble("image").unwrap_err().to_string();
        assert!(error.contains("0000001.shard") && !work.path("image").exists(), "byte {at}: {error}");
    }
    std::fs::write(&path, &good[..good.len() / 2]).unwrap();
    assert_eq!(work.job().status(work.place.path()).damaged.len(), 1);
    work.assemble("image").unwrap_err();
    assert!(work.pack(1).unwrap(), "a torn shard is packed again");
    assert_eq!(std::fs::read(&path).unwrap(), good);
    work.assemble("image").unwrap();
}

#[test]
fn a_damaged_shard_is_seen_packed_again_and_named_by_the_assembly() {
    for options in [&cases()[0], &cases()[3]] {
        let work = Work::new(options, 3);
        let dir = work.place.path();
        (0..3).for_each(|shard| assert!(work.pack(shard).unwrap()));
        // Older kernels count the times of files in ticks.
        let write_later = |path: &Path, bytes: &[u8]| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::write(path, bytes).unwrap();
        };
        let damaged = || work.job().status(dir).damaged.into_iter().map(|(shard, _)| shard).collect::<Vec<_>>();
        assert!(damaged().is_empty());
        // The first shard of a SquashFS image begins with room for the superblock.
        for shard in 0..3 {
            let path = blob::path(dir, shard);
            let good = std::fs::read(&path).unwrap();
            let written = path.metadata().unwrap().modified().unwrap();
            let data_len = ShardBlob::open(dir, &work.job(), shard).unwrap().data_len;
            let last = usize::try_from(data_len).unwrap() - 1;
            for at in [last / 2, last, good.len() - blob::TRAILER - 1] {
                let mut bad = good.clone();
                bad[at] ^= 1;
                write_later(&path, &bad);
                assert_eq!(damaged(), [shard], "byte {at}");
                let error = work.assemble("image").unwrap_err();
                assert!(matches!(error, Error::Shard { shard: named, .. } if named == shard), "byte {at}: {error}");
                assert!(work.pack(shard).unwrap(), "byte {at} of shard {shard}");
                assert!(std::fs::read(&path).unwrap() == good);
                assert!(damaged().is_empty());
            }
            // A disk may change bytes without the attributes: the assembly finds out, and says so to others.
            let mut bad = good.clone();
            bad[last / 2] ^= 1;
            std::fs::write(&path, &bad).unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
            mark::write(&mark::of_shard(dir, shard), work.job().id(), &path).unwrap();
            assert!(damaged().is_empty());
            work.assemble("image").unwrap_err();
            assert_eq!(damaged(), [shard]);
            assert!(work.pack(shard).unwrap() && damaged().is_empty());
            // Sound bytes with other attributes are verified, not packed.
            write_later(&path, &good);
            assert_eq!(damaged(), [shard]);
            assert!(!work.pack(shard).unwrap() && damaged().is_empty());
        }
        assert!(work.assemble("image").unwrap() == work.local());
    }
}

#[test]
fn a_plan_keeps_the_order_of_its_files() {
    for order in
        [None, Some(crate::build::Order::Path), Some(crate::build::Order::Type), Some(crate::build::Order::Similar)]
    {
        let work = Work::new(&with(&cases()[0], |all| all.order = order), 2);
        assert_eq!(work.job().options().common().order, order);
    }
}

#[test]
fn trusted_shards_are_joined_without_reading_their_data() {
    for options in [&cases()[0], &cases()[3]] {
        let work = Work::new(options, 3);
        (0..3).for_each(|shard| assert!(work.pack(shard).unwrap()));
        let assemble = |image: &str| {
            let mut job = work.job();
            job.trust_shards();
            job.assemble(work.place.path(), &work.path(image), &Progress::default())?;
            Ok::<_, Error>(std::fs::read(work.path(image)).unwrap())
        };
        let local = work.local();
        assert!(assemble("image").unwrap() == local);
        let path = blob::path(work.place.path(), 1);
        let good = std::fs::read(&path).unwrap();
        let flip = |at: usize| {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            std::fs::write(&path, &bad).unwrap();
        };
        flip(10);
        assert!(assemble("damaged").unwrap() != local);
        // The index is read.
        flip(good.len() - blob::TRAILER - 1);
        let error = assemble("none").unwrap_err().to_string();
        assert!(error.contains("the index at byte") && !work.path("none").exists(), "{error}");
    }
}

#[test]
fn missing_and_foreign_shards_are_named() {
    let (work, other) = (Work::new(&cases()[3], 3), Work::new(&cases()[0], 3));
    work.pack(0).unwrap();
    work.pack(2).unwrap();
    let error = work.assemble("image").unwrap_err().to_string();
    assert!(error.contains("0000001.shard") && error.contains("No such file"), "{error}");
    assert_eq!(work.job().status(work.place.path()).missing, [1]);
    other.pack(1).unwrap();
    std::fs::copy(blob::path(other.place.path(), 1), blob::path(work.place.path(), 1)).unwrap();
    let error = work.assemble("image").unwrap_err().to_string();
    assert!(error.contains("0000001.shard") && error.contains("another plan"), "{error}");
    assert!(!work.path("image").exists());
}

#[test]
fn more_data_than_addresses_reach_is_refused_before_it_is_copied() {
    let erofs = cases().remove(3);
    // A file of this length is too long for ext4, where temporary files may lie.
    let work = Work { place: tempfile::tempdir_in("/dev/shm").unwrap(), ..Work::new(&erofs, 2) };
    let plan = |store: &mut dyn Store| scan(&work.source.tree(), store);
    work.options.plan(&work.path("plan"), &Progress::default(), plan).unwrap();
    (0..2).for_each(|shard| assert!(work.pack(shard).unwrap()));
    // Each has half of what addresses reach, and more.
    let len = 9u64 << 40;
    for shard in 0..2 {
        let file =
            std::fs::OpenOptions::new().read(true).write(true).open(blob::path(work.place.path(), shard)).unwrap();
        let mut trailer = vec![0; blob::TRAILER];
        file.read_exact_at(&mut trailer, file.metadata().unwrap().len() - blob::TRAILER as u64).unwrap();
        let index_len = u64::from_le_bytes(*trailer[64..].first_chunk().unwrap());
        // The length of the data, and the start of the index.
        [48, 56].iter().for_each(|at| trailer[*at..*at + 8].copy_from_slice(&len.to_le_bytes()));
        let digest = Digest::of(&trailer[..blob::TRAILER - 32]);
        trailer[blob::TRAILER - 32..].copy_from_slice(digest.as_bytes());
        file.write_all_at(&trailer, len + index_len).unwrap();
        let packed = blob::path(work.place.path(), shard);
        mark::write(&mark::of_shard(work.place.path(), shard), work.job().id(), &packed).unwrap();
    }
    assert_eq!(work.job().status(work.place.path()).packed_bytes, 2 * len);
    let (progress, image) = (Progress::default(), work.path("image"));
    let error = work.job().assemble(work.place.path(), &image, &progress).unwrap_err().to_string();
    assert!(error.contains("18.0 TiB of data in an EROFS image") && error.contains("48bit"), "{error}");
    assert_eq!(progress.written.load(std::sync::atomic::Ordering::Relaxed), 0);
    assert!(!image.exists());
}

/// A file that became another one's copy after it was listed would be taken for that.
#[test]
fn a_file_that_changed_while_equal_files_were_looked_for_is_named() {
    for len in [6, 4096, 5000] {
        for makes_equal in [true, false] {
            let place = tempfile::tempdir().unwrap();
            let root = place.path().join("root");
            std::fs::create_dir(&root).unwrap();
            for (name, byte) in [("first", b'1'), ("last", b'2')] {
                std::fs::write(root.join(name), vec![byte; len]).unwrap();
            }
            let options = with(&cases()[0], |all| all.shards = Some(count(2)));
            let plan = |store: &mut dyn Store| {
                let scanned = scan(&root, store)?;
                std::fs::write(root.join("last"), vec![if makes_equal { b'1' } else { b'3' }; len]).unwrap();
                Ok(scanned)
            };
            options.plan(&place.path().join("plan"), &Progress::default(), plan).unwrap();
            let job = Job::open(&place.path().join("plan")).unwrap();
            let pack = |shard| job.pack(place.path(), shard, &Progress::default());
            let failed: Vec<String> = (0..2).filter_map(|shard| pack(shard).err()).map(|why| why.to_string()).collect();
            assert!(failed.len() == 1 && failed[0].contains("/last: "), "{len}, {makes_equal}: {failed:?}");
        }
    }
}

#[test]
fn a_source_that_changed_is_named_and_leaves_no_shard() {
    let work = Work::new(&cases()[0], 3);
    std::fs::write(work.source.tree().join("big"), "changed").unwrap();
    let failed: Vec<_> = (0..3).filter_map(|shard| work.pack(shard).err()).map(|error| error.to_string()).collect();
    assert!(failed.len() == 1 && failed[0].contains("/big: "), "{failed:?}");
    assert_eq!(work.job().status(work.place.path()).done, 2);
}

#[test]
fn damaged_plans_and_those_of_other_versions_are_refused() {
    let work = Work::new(&cases()[4], 3);
    let (path, good) = (work.path("plan"), std::fs::read(work.path("plan")).unwrap());
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let job = Job::open(&path)?;
        (0..3).try_for_each(|shard| job.files(shard).map(drop))?;
        job.tree().map(drop)
    };
    let version = |bytes: &mut [u8]| bytes[8] = 9;
    let mut other = good.clone();
    version(&mut other);
    let error = open(&other).unwrap_err().to_string();
    assert!(error.contains("plan of version 9"), "{error}");
    for at in (0..good.len()).step_by(97) {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(open(&bad).is_err(), "byte {at}");
    }
    (0..good.len()).step_by(1009).for_each(|len| assert!(open(&good[..len]).is_err(), "{len} bytes"));
    open(&good).unwrap();
}

#[test]
fn plans_and_shards_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let work = Work::new(&cases()[0], 1);
    work.pack(0).unwrap();
    for path in [work.path("plan"), blob::path(work.place.path(), 0)] {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn only_directories_can_be_planned() {
    let (options, place) = (with(&cases()[0], |all| all.shards = Some(count(2))), tempfile::tempdir().unwrap());
    let tree = spec().tree().unwrap();
    let plan = |_: &mut dyn Store| Ok(Plan { tree, order: Vec::new() });
    let error = options.plan(&place.path().join("plan"), &Progress::default(), plan).unwrap_err().to_string();
    assert!(error.contains("only files of directories can be planned"), "{error}");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_task_leaves_its_state_while_it_works_and_its_error_when_it_fails() {
    let work = Work::new(&cases()[0], 2);
    let (job, dir) = (work.job(), work.place.path());
    let (progress, file) = (Progress::default(), work.path("0000001.state"));
    let wait = |result| {
        Progress::add(&progress.done, 1);
        let mut running = Vec::new();
        for _ in 0..600 {
            running = job.status(dir).running;
            if running.first().is_some_and(|task| task.done_bytes == 1) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let [task] = &running[..] else { panic!("{running:?}") };
        assert_eq!((task.shard, task.pid, task.file_bytes), (1, std::process::id(), job.bytes(1)));
        assert!(task.seconds >= 1.0 && task.silent_seconds < 60.0 && !task.host.is_empty(), "{task:?}");
        result
    };
    let failed = state::told(dir, &job, 1, &progress, || wait(Err::<(), _>(Error::Misuse("no luck".into()))));
    failed.unwrap_err();
    let status = job.status(dir);
    assert!(status.running.is_empty() && status.missing == [0], "{status:?}");
    assert_eq!((status.failed[0].shard, status.failed[0].error.as_str()), (1, "no luck"));
    // A state that is torn, longer than any, or of another plan is none.
    let state = std::fs::read(&file).unwrap();
    for wrong in [&state[..20], &state[..state.len() - 1], &[&state[..], &[0; 1 << 16]].concat()] {
        std::fs::write(&file, wrong).unwrap();
        assert_eq!(job.status(dir).missing, [0, 1]);
    }
    std::fs::write(&file, &state).unwrap();
    let other = Work::new(&cases()[0], 3);
    assert!(other.job().status(dir).failed.is_empty());
    assert!(work.pack(1).unwrap() && !file.exists());
    assert_eq!(job.status(dir).missing, [0]);
}
