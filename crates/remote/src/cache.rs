//! The cache on disk: for each version of an object a sparse file of its bytes, and beside it one checksum a unit.
//!
//! A checksum is written after its unit, so it also says that the unit is there; zero says that it is not. Several
//! processes may fill one entry: they write the same bytes. A unit that was torn by a crash or damaged since does not
//! match its checksum and is fetched again. Whoever uses an entry holds a shared lock on its map; entries that can be
//! locked exclusively are in nobody's use, and the oldest of them go when room is needed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use packfs_blocks::name::display;
use packfs_blocks::units::Size;
use rustix::fs::{FlockOperation, flock};

use crate::WarningReceiver;

/// Bytes that are fetched, kept and checked together.
pub(crate) const UNIT: u64 = 64 << 10;
/// Room that is made at once, ahead of writing: the directory is listed for it, which is too much for every unit. A
/// small cache makes a part of its size at once, or nothing would stay in it.
const STEP_MAX: u64 = 4 << 20;
/// The smallest limit of a cache: a unit, and the room for the next one.
const LIMIT_MIN: u64 = 2 * UNIT;
/// First bytes of a map.
const MAGIC: [u8; 8] = *b"packfsR1";
/// Bytes before the first checksum: the magic and the length of the object.
const HEADER: usize = 16;

/// The part of the cache that belongs to one version of an object.
#[derive(Debug)]
pub(crate) struct CachedVersion {
    dir: PathBuf,
    name: String,
    data: File,
    map: File,
    limit: u64,
    /// Bytes that may be written before room is made again.
    room: AtomicU64,
    /// False once writing has failed or the limit is reached.
    writes: AtomicBool,
    report: Option<WarningReceiver>,
}

impl CachedVersion {
    /// Opens the entry of an object, or makes it; `None` if the cache cannot be used, which is reported.
    pub(crate) fn open(
        dir: &Path,
        limit: u64,
        identity: &str,
        len: u64,
        report: Option<WarningReceiver>,
    ) -> Option<Self> {
        if limit == 0 || len == 0 {
            return None;
        }
        let opened = || {
            if limit < LIMIT_MIN {
                return Err(io::Error::other(format!("a cache of less than {} holds nothing", Size(LIMIT_MIN))));
            }
            private_directory(dir)?;
            Self::lock(dir, limit, identity, len)
        };
        match opened() {
            Ok(version) => Some(CachedVersion { report, ..version }),
            Err(error) => {
                if let Some(report) = report {
                    report.line(&format!("{}: reading without the cache: {error}", display(dir)));
                }
                None
            }
        }
    }

    /// Opens or makes the files of an entry, and holds a shared lock on its map.
    fn lock(dir: &Path, limit: u64, identity: &str, len: u64) -> io::Result<Self> {
        // 160 bits: no two objects get the same name.
        let name = blake3::hash(identity.as_bytes()).to_hex()[..40].to_owned();
        loop {
            let map = private_file(&dir.join(format!("{name}.map")))?;
            flock(&map, FlockOperation::LockShared)?;
            // It may have been removed between opening and locking.
            if map.metadata()?.nlink() == 0 {
                continue;
            }
            let header = [MAGIC, len.to_le_bytes()].concat();
            let mut found = [0; HEADER];
            // The file is new, or whoever made it was stopped before it had a header.
            if map.metadata()?.len() < HEADER as u64 {
                map.write_all_at(&header, 0)?;
            } else if map.read_exact_at(&mut found, 0).is_err() || found[..] != header[..] {
                return Err(io::Error::other(format!("{name}.map is not a map of this object; remove it")));
            }
            // Its time says when the entry was last used.
            map.set_modified(SystemTime::now())?;
            let data = private_file(&dir.join(format!("{name}.data")))?;
            // The file is sparse: this takes no room on the disk.
            if data.metadata()?.len() < len {
                data.set_len(len)?;
            }
            return Ok(CachedVersion {
                dir: dir.to_owned(),
                name,
                data,
                map,
                limit,
                room: AtomicU64::new(0),
                writes: AtomicBool::new(true),
                report: None,
            });
        }
    }

    /// Returns for each of some units whether it has been written.
    pub(crate) fn held(&self, units: Range<u64>) -> Vec<bool> {
        let count = usize::try_from(units.end.saturating_sub(units.start)).unwrap_or(0);
        // The map ends after the last unit that was written.
        let mut checksums = vec![0; count * 8];
        let mut read = 0;
        while let Some(rest) = checksums.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match self.map.read_at(rest, HEADER as u64 + units.start * 8 + read as u64) {
                Ok(0) | Err(_) => break,
                Ok(got) => read += got,
            }
        }
        checksums.chunks_exact(8).map(|checksum| checksum != [0; 8]).collect()
    }

    #[cfg(test)]
    fn has(&self, unit: u64) -> bool {
        self.held(unit..unit + 1) == [true]
    }

    /// Fills `bytes` with a unit; false if it is not there or damaged.
    pub(crate) fn get(&self, unit: u64, bytes: &mut [u8]) -> bool {
        let told = self.checksum(unit);
        told != 0 && self.data.read_exact_at(bytes, unit * UNIT).is_ok() && checksum(unit, bytes) == told
    }

    /// Stores a unit. If that fails, the cache is not written to any more.
    pub(crate) fn put(&self, unit: u64, bytes: &[u8]) {
        if !self.writes.load(Ordering::Relaxed) {
            return;
        }
        let written = self.make_room(bytes.len() as u64).and_then(|room| {
            if room {
                self.data.write_all_at(bytes, unit * UNIT)?;
                self.map.write_all_at(&checksum(unit, bytes).to_le_bytes(), HEADER as u64 + unit * 8)?;
            }
            Ok(())
        });
        // Of several threads that fail, only the first one reports it.
        if let Err(error) = written
            && self.writes.swap(false, Ordering::Relaxed)
            && let Some(report) = &self.report
        {
            report.line(&format!("{}: continuing without filling the cache: {error}", display(&self.dir)));
        }
    }

    fn checksum(&self, unit: u64) -> u64 {
        let mut told = [0; 8];
        let read = self.map.read_exact_at(&mut told, HEADER as u64 + unit * 8);
        read.map_or(0, |()| u64::from_le_bytes(told))
    }

    /// Takes `len` bytes from the room made so far, after making more if needed; false if the limit allows no more.
    fn make_room(&self, len: u64) -> io::Result<bool> {
        let take = |room: u64| room.checked_sub(len);
        if self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            return Ok(true);
        }
        let step = (self.limit / 4).clamp(UNIT, STEP_MAX);
        if !evict(&self.dir, self.limit.saturating_sub(step), &self.name)? {
            self.writes.store(false, Ordering::Relaxed);
            return Ok(false);
        }
        self.room.store(step.saturating_sub(len), Ordering::Relaxed);
        Ok(true)
    }
}

/// Returns a checksum that is never zero. It includes the number of the unit, so a unit in the wrong place is damaged.
fn checksum(unit: u64, bytes: &[u8]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&unit.to_le_bytes()).update(bytes);
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first).max(1)
}

/// Removes the entries that nobody uses, oldest first, until the cache takes at most `limit` bytes; false if it still
/// takes more.
fn evict(dir: &Path, limit: u64, own: &str) -> io::Result<bool> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let has_extension = |wanted: &str| path.extension().is_some_and(|extension| extension == wanted);
        // A map is made before its data: nobody uses data without one.
        if has_extension("data")
            && !path.with_extension("map").exists()
            && let Err(error) = fs::remove_file(&path)
            // Another process may have removed both.
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        if has_extension("map") {
            let data = path.with_extension("data");
            // Another process may remove it at the same time.
            let Ok(map) = path.metadata() else { continue };
            let taken = map.blocks() + data.metadata().map_or(0, |data| data.blocks());
            // By time first, as the oldest go first.
            entries.push((map.mtime(), map.mtime_nsec(), taken * 512, path));
        }
    }
    entries.sort();
    let mut total: u64 = entries.iter().map(|(_, _, taken, _)| taken).sum();
    for (_, _, taken, path) in entries {
        if total <= limit {
            break;
        }
        let is_own = path.file_stem().is_some_and(|stem| stem == own);
        if !is_own && remove(&path)? {
            total -= taken;
        }
    }
    Ok(total <= limit)
}

/// Removes an entry unless somebody uses it.
fn remove(map: &Path) -> io::Result<bool> {
    let Ok(file) = File::open(map) else { return Ok(false) };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(false);
    }
    // Another process removed it before it was locked, and a third one may have made it anew.
    if file.metadata()?.nlink() == 0 {
        return Ok(false);
    }
    let data = fs::remove_file(map.with_extension("data"));
    // A process that was stopped between both files leaves a map without data.
    let is_gone = data.map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true);
    // The map last: who opens it meanwhile waits for the lock and then sees that it is gone.
    Ok(is_gone && fs::remove_file(map).is_ok())
}

/// Makes a directory that only its owner can use, with those above it.
fn private_directory(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let found = dir.metadata()?;
    // Otherwise somebody else could put bytes of theirs under the name of an object.
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(io::Error::other("the directory belongs to, or can be written by, somebody else"));
    }
    Ok(())
}

fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(dir: &Path, limit: u64, identity: &str, len: u64) -> CachedVersion {
        CachedVersion::open(dir, limit, identity, len, None).unwrap()
    }

    fn unit(fill: u8) -> Vec<u8> {
        vec![fill; 64 << 10]
    }

    #[test]
    fn several_processes_may_make_room_at_once() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..20 {
            for number in 0..50 {
                entry(dir.path(), 1 << 30, &format!("{round} {number}"), UNIT).put(0, &unit(1));
            }
            std::thread::scope(|scope| {
                let evictions: Vec<_> = (0..4).map(|_| scope.spawn(|| evict(dir.path(), 0, "own"))).collect();
                for eviction in evictions {
                    eviction.join().unwrap().unwrap();
                }
            });
        }
    }

    #[test]
    fn units_come_back_and_damaged_ones_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        let first = entry(&path, 1 << 30, "a", 10 * UNIT);
        first.put(3, &unit(7));
        let second = entry(&path, 1 << 30, "a", 10 * UNIT);
        let mut bytes = unit(0);
        assert!(second.get(3, &mut bytes) && bytes == unit(7));
        assert!(!second.has(2) && !second.get(2, &mut bytes));
        assert!(!entry(&path, 1 << 30, "b", 10 * UNIT).has(3));
        first.data.write_all_at(b"x", 3 * UNIT + 5).unwrap();
        assert!(!second.get(3, &mut bytes));
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        assert!(fs::read_dir(&path).unwrap().all(|file| mode(&file.unwrap().path()) == 0o600));
    }

    #[test]
    fn the_oldest_unused_entries_make_room() {
        let dir = tempfile::tempdir().unwrap();
        let limit = 12 << 20;
        let fill = |entry: &CachedVersion, units: u64| (0..units).for_each(|at| entry.put(at, &unit(1)));
        for name in ["a", "b"] {
            fill(&entry(dir.path(), limit, name, 1 << 30), 60);
        }
        let used = entry(dir.path(), limit, "a", 1 << 30);
        let newest = entry(dir.path(), limit, "c", 1 << 30);
        fill(&newest, 65);
        // `b` went to make room, as somebody uses `a`.
        assert!(used.has(0) && newest.has(63) && !entry(dir.path(), limit, "b", 1 << 30).has(0));
        fill(&newest, 1000);
        let taken = |entry: &CachedVersion| entry.data.metadata().unwrap().blocks() * 512;
        assert!(taken(&used) + taken(&newest) <= limit);
        assert!(newest.has(64) && !newest.has(999));
    }

    #[test]
    fn a_small_cache_is_filled_up_to_its_limit() {
        for (limit, fewest) in [(LIMIT_MIN, 1), (1 << 20, 11), (4 << 20, 47), (6 << 20, 71)] {
            let dir = tempfile::tempdir().unwrap();
            let small = entry(dir.path(), limit, "a", 1 << 30);
            (0..200).for_each(|at| small.put(at, &unit(1)));
            let count = small.held(0..200).into_iter().filter(|is_held| *is_held).count();
            assert!(count >= fewest, "{limit}: {count}");
            assert!(small.data.metadata().unwrap().blocks() * 512 <= limit, "{limit}: {count}");
        }
    }

    #[test]
    fn parts_of_entries_are_removed_like_whole_ones() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["lone.map", "lonely.data", "both.map", "both.data"] {
            fs::write(dir.path().join(name), unit(1)).unwrap();
        }
        assert!(evict(dir.path(), 0, "own").unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_cache_that_cannot_be_used_is_reported() {
        let cases = [(0o777, 1 << 30, "somebody else"), (0o700, LIMIT_MIN - 1, "128 KiB holds nothing")];
        for (mode, limit, part) in cases {
            let dir = tempfile::tempdir().unwrap();
            let told = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
            let said = std::sync::Arc::clone(&told);
            fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            let report = WarningReceiver::new(move |line| said.lock().unwrap().push_str(line));
            assert!(CachedVersion::open(dir.path(), limit, "a", UNIT, Some(report)).is_none());
            assert!(told.lock().unwrap().contains(part), "{part}");
        }
    }
}
