//! `RemoteObject`: the units of an object in memory, what is being fetched, and the threads that fetch.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use packfs_blocks::mutex;
use packfs_blocks::{ReadAt, threads};

use crate::RemoteOptions;
use crate::cache::{CachedVersion, UNIT};
use crate::error::{Error, FailureReason, Result};
use crate::object::{OpenedObject, VersionedObject};
use crate::origin::{self, ObjectOrigin};
use crate::scattered::{self, ScatteredUnits};
use crate::stream::{RUN, SequentialReaders};

/// Number of requests at the same time.
const CONNECTIONS: usize = 16;
/// Bytes requested at opening, from the beginning and from the end: the superblock, and the tables of most images.
const HEAD: u64 = UNIT;
const TAIL: u64 = 3 * UNIT;
/// Gaps of unwanted units that are fetched to save a request: 128 KiB.
const GAP: u64 = 2;
/// Units that one read makes wanted at the same time.
const SPAN: usize = 128;
/// Units to have ahead of a reader, at most: 24 MiB, more than are on the way in all requests together. At 1 Gbit/s and
/// 50 ms, 6 MB are.
const WINDOW: u64 = 3 * CONNECTIONS as u64 * RUN / 2;
/// Time for which all readers of a unit hear of its failure before it is fetched again.
const BLAME: Duration = Duration::from_secs(1);

/// An object behind an address, read by ranges.
///
/// Bytes that were read are kept in memory up to a limit, and on disk if the options name a cache and the server
/// identifies versions. Every range is checked to be of the version that was opened.
pub struct RemoteObject {
    shared: Arc<RemoteState>,
}

impl fmt::Debug for RemoteObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteObject").field("name", &self.name()).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct RemoteState {
    object: VersionedObject,
    cache: Option<CachedVersion>,
    /// Units to keep in memory.
    capacity: usize,
    state: Mutex<FetchState>,
    /// Signalled when a unit has come or failed.
    came: Condvar,
    /// Signalled when a unit is wanted.
    work: Condvar,
}

#[derive(Debug, Default)]
struct FetchState {
    units: HashMap<u64, UnitState>,
    /// Units to fetch.
    wanted: BTreeMap<u64, FetchPriority>,
    streams: SequentialReaders,
    scattered: ScatteredUnits,
    clock: u64,
    /// Number of runs taken so far.
    taken: u64,
    workers: usize,
    idle: usize,
    closed: bool,
    /// The error that ended all reading: the object was replaced.
    over: Option<Error>,
}

#[derive(Debug)]
enum UnitState {
    /// In memory; last used at this time.
    Here(Arc<[u8]>, u64),
    /// A thread fetches it.
    Coming,
    Failed(Error, Instant),
}

impl UnitState {
    /// Returns true for a failure after which another attempt is due.
    fn is_forgivable(&self) -> bool {
        matches!(self, UnitState::Failed(_, since) if since.elapsed() > BLAME)
    }
}

/// What the cache on disk has of some units.
struct CachedUnits {
    /// Units that were read, with their bytes.
    read: Vec<(u64, Vec<u8>)>,
    /// Units that have to be fetched.
    missing: Vec<u64>,
}

/// The order in which units are fetched: those that a reader waits for first, then the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FetchPriority {
    ahead: bool,
    since: u64,
}

impl RemoteObject {
    /// Opens the object at an address: `http://`, `https://`, `s3://bucket/key` or `oci://registry/name:tag`, where
    /// `@digest` may stand for the tag.
    ///
    /// User and password in the address become a header. The proxy comes from the environment.
    pub fn open(address: &str, options: &RemoteOptions) -> Result<Self> {
        RemoteObject::from_origin(origin::of_address(address)?, options)
    }

    /// Opens the object of an origin.
    pub(crate) fn from_origin(origin: Box<dyn ObjectOrigin>, options: &RemoteOptions) -> Result<Self> {
        let OpenedObject { object, bytes } = VersionedObject::open(origin, options, HEAD, TAIL)?;
        let cache = options.cache.as_deref().zip(object.identity()).and_then(|(dir, identity)| {
            CachedVersion::open(dir, options.cache_bytes, &identity, object.len(), options.report.clone())
        });
        // Two spans at least, or units would have to leave before they are read.
        let capacity = usize::try_from(options.memory / UNIT).unwrap_or(usize::MAX).max(2 * SPAN);
        let shared = RemoteState {
            object,
            cache,
            capacity,
            state: Mutex::default(),
            came: Condvar::new(),
            work: Condvar::new(),
        };
        for (offset, bytes) in bytes {
            shared.keep_units(offset, &bytes);
        }
        Ok(RemoteObject { shared: Arc::new(shared) })
    }

    /// Returns the address as it may be shown.
    pub fn name(&self) -> &str {
        self.shared.object.name()
    }
}

impl Drop for RemoteObject {
    fn drop(&mut self) {
        mutex::lock(&self.shared.state).closed = true;
        self.shared.work.notify_all();
    }
}

impl ReadAt for RemoteObject {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = self.len().min(offset.saturating_add(buf.len() as u64));
        if offset >= end {
            return Ok(0);
        }
        self.shared.read(buf, offset..end)?;
        Ok(usize::try_from(end - offset).unwrap_or(buf.len()))
    }

    fn len(&self) -> u64 {
        self.shared.object.len()
    }

    fn will_read(&self, range: Range<u64>) {
        let first = range.start / UNIT;
        let end = range.end.min(self.len()).div_ceil(UNIT);
        let mut state = mutex::lock(&self.shared.state);
        let most = self.shared.window();
        // A short range is no stream: it comes as a whole, while there is room for it.
        let now = match end.saturating_sub(first) {
            0..=RUN if state.wanted.len() as u64 >= most => return,
            0..=RUN => first..end,
            _ => state.streams.announce(first, end, most),
        };
        drop(self.shared.request_units(state, now, true));
    }

    fn will_read_ranges(&self, ranges: &[Range<u64>]) {
        let len = self.len();
        let units_of = |range: &Range<u64>| range.start / UNIT..range.end.min(len).div_ceil(UNIT);
        let mut state = mutex::lock(&self.shared.state);
        let most = usize::try_from(self.shared.window()).unwrap_or(usize::MAX);
        let now = state.scattered.announce(ranges.iter().flat_map(units_of), most);
        drop(self.shared.request_ahead(state, &now));
    }

    fn has_delay(&self) -> bool {
        true
    }

    fn check_unchanged(&self) -> io::Result<()> {
        mutex::lock(&self.shared.state).over.clone().map_or(Ok(()), |error| Err(error.into()))
    }
}

impl RemoteState {
    /// Returns the number of units to have ahead of all readers together.
    fn window(&self) -> u64 {
        (self.capacity as u64 / 3).min(WINDOW)
    }

    /// Returns the number of units of the object.
    fn units(&self) -> u64 {
        self.object.len().div_ceil(UNIT)
    }

    /// Returns the bytes of a unit.
    fn bytes_of(&self, unit: u64) -> Range<u64> {
        unit * UNIT..(unit + 1).saturating_mul(UNIT).min(self.object.len())
    }

    /// Keeps the whole units in some bytes of the object.
    fn keep_units(&self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        for unit in offset.div_ceil(UNIT)..self.units() {
            let Range { start, end: stop } = self.bytes_of(unit);
            if stop > end {
                break;
            }
            let from = usize::try_from(start - offset);
            let to = usize::try_from(stop - offset);
            let (Ok(from), Ok(to)) = (from, to) else { break };
            self.put(unit, bytes[from..to].into());
        }
    }

    /// Stores a unit that has come, on disk and in memory.
    fn put(&self, unit: u64, bytes: Arc<[u8]>) {
        if let Some(cache) = &self.cache {
            cache.put(unit, &bytes);
        }
        mutex::lock(&self.state).insert(unit, bytes, self.capacity);
        self.came.notify_all();
    }

    fn read(self: &Arc<Self>, buf: &mut [u8], range: Range<u64>) -> Result<()> {
        let first = range.start / UNIT;
        let end = range.end.div_ceil(UNIT);
        let mut state = mutex::lock(&self.state);
        let ahead = match state.scattered.note(first..end) {
            Some(units) => {
                state = self.request_ahead(state, &units);
                0..0
            }
            None => state.streams.note(first, end, self.window()),
        };
        let mut asked = first;
        for unit in first..end {
            if unit >= asked {
                asked = (unit + SPAN as u64).min(end);
                state = self.request_units(state, unit..asked, false);
                if asked == end {
                    state = self.request_units(state, ahead.start.max(end)..ahead.end.min(self.units()), true);
                }
            }
            let bytes;
            (state, bytes) = self.wait(state, unit)?;
            // Copying takes longer than everything else under the lock.
            drop(state);
            let Range { start, .. } = self.bytes_of(unit);
            let from = range.start.max(start);
            let to = range.end.min(start + bytes.len());
            let at = usize::try_from(from - range.start);
            let skip = usize::try_from(from - start);
            let len = usize::try_from(to - from);
            if let (Ok(at), Ok(skip), Ok(len)) = (at, skip, len) {
                buf[at..at + len].copy_from_slice(&bytes[skip..skip + len]);
            }
            state = mutex::lock(&self.state);
        }
        Ok(())
    }

    /// Has announced units fetched, in their order, that are not in memory.
    fn request_ahead<'s>(
        self: &'s Arc<Self>,
        state: MutexGuard<'s, FetchState>,
        units: &[u64],
    ) -> MutexGuard<'s, FetchState> {
        let ranges = scattered::join(units);
        ranges.into_iter().fold(state, |state, range| self.request_units(state, range, true))
    }

    /// Has units fetched that are not in memory.
    fn request_units<'s>(
        self: &'s Arc<Self>,
        mut state: MutexGuard<'s, FetchState>,
        units: Range<u64>,
        ahead: bool,
    ) -> MutexGuard<'s, FetchState> {
        let mut missing: Vec<u64> = Vec::new();
        for unit in units.clone() {
            state.forgive(unit);
            if !state.units.contains_key(&unit) {
                missing.push(unit);
            }
        }
        if let Some(cache) = &self.cache
            && !missing.is_empty()
        {
            // Nothing is read from the disk under the lock.
            drop(state);
            let found = self.read_cached(cache, units, missing, ahead);
            missing = found.missing;
            state = mutex::lock(&self.state);
            for (unit, bytes) in found.read {
                state.insert(unit, bytes.into(), self.capacity);
            }
        }
        let mut wanted = false;
        for unit in missing {
            // Another reader may have been faster.
            if state.units.contains_key(&unit) {
                continue;
            }
            state.clock += 1;
            let want = FetchPriority { ahead, since: state.clock };
            let old = state.wanted.entry(unit).or_insert(want);
            *old = (*old).min(want);
            wanted = true;
        }
        if wanted {
            self.start_workers(&mut state);
        }
        state
    }

    /// Reads those of the `missing` units, all of which are in `units`, that the cache on disk has. What is read `ahead`
    /// stays on the disk until it is needed.
    fn read_cached(&self, cache: &CachedVersion, units: Range<u64>, missing: Vec<u64>, ahead: bool) -> CachedUnits {
        let held = cache.held(units.clone());
        let is_held = |unit: u64| usize::try_from(unit - units.start).is_ok_and(|at| held[at]);
        let (cached, missing): (Vec<u64>, Vec<u64>) = missing.into_iter().partition(|unit| is_held(*unit));
        let mut found = CachedUnits { read: Vec::new(), missing };
        if ahead {
            return found;
        }
        for unit in cached {
            let range = self.bytes_of(unit);
            let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
            if cache.get(unit, &mut bytes) {
                found.read.push((unit, bytes));
            } else {
                found.missing.push(unit);
            }
        }
        found
    }

    /// Wakes the threads that fetch; starts one for each run of wanted units, up to the limit.
    fn start_workers(self: &Arc<Self>, state: &mut FetchState) {
        self.work.notify_all();
        let runs = state.runs();
        while state.workers < CONNECTIONS && state.idle < runs {
            let shared = Arc::clone(self);
            if threads::named("packfs-remote").start(move || shared.work()).is_err() {
                // Readers fetch themselves if there is no thread at all.
                return;
            }
            state.workers += 1;
            state.idle += 1;
        }
    }

    /// Waits until a unit is in memory; fetches it if there is no thread for that.
    fn wait<'s>(
        self: &'s Arc<Self>,
        mut state: MutexGuard<'s, FetchState>,
        unit: u64,
    ) -> Result<(MutexGuard<'s, FetchState>, Arc<[u8]>)> {
        loop {
            if let Some(over) = &state.over {
                return Err(over.clone());
            }
            state.clock += 1;
            let now = state.clock;
            match state.units.get_mut(&unit) {
                Some(UnitState::Here(bytes, used)) => {
                    *used = now;
                    let bytes = Arc::clone(bytes);
                    return Ok((state, bytes));
                }
                Some(UnitState::Failed(error, _)) => return Err(error.clone()),
                Some(UnitState::Coming) => {}
                // It came and had to leave again before it was read here.
                None => state = self.request_units(state, unit..unit + 1, false),
            }
            if matches!(state.units.get(&unit), Some(UnitState::Here(..))) {
                continue;
            }
            if state.workers == 0
                && let Some(run) = state.take()
            {
                drop(state);
                self.fetch(run);
                state = mutex::lock(&self.state);
                continue;
            }
            state = mutex::wait(&self.came, state);
        }
    }

    /// Fetches wanted units until the reader is closed. Runs on threads of its own, which start as idle.
    fn work(&self) {
        let mut state = mutex::lock(&self.state);
        while !state.closed {
            match state.take() {
                Some(run) => {
                    state.idle -= 1;
                    drop(state);
                    self.fetch(run);
                    state = mutex::lock(&self.state);
                    state.idle += 1;
                }
                None => state = mutex::wait(&self.work, state),
            }
        }
        state.workers -= 1;
        state.idle -= 1;
    }

    /// Fetches a run of units.
    fn fetch(&self, run: Range<u64>) {
        let range = self.bytes_of(run.start).start..self.bytes_of(run.end - 1).end;
        let mut unit = run.start;
        let mut part = Vec::new();
        let fetched = self.object.fetch(&range, &mut |mut bytes| {
            while !bytes.is_empty() {
                let Range { start, end } = self.bytes_of(unit);
                let missing = usize::try_from(end - start).unwrap_or(usize::MAX) - part.len();
                let (now, rest) = bytes.split_at(missing.min(bytes.len()));
                part.extend_from_slice(now);
                bytes = rest;
                if now.len() == missing {
                    self.put(unit, std::mem::take(&mut part).into());
                    unit += 1;
                }
            }
        });
        let Err(error) = fetched else { return };
        let mut state = mutex::lock(&self.state);
        for unit in unit..run.end {
            if matches!(state.units.get(&unit), Some(UnitState::Coming)) {
                state.units.insert(unit, UnitState::Failed(error.clone(), Instant::now()));
            }
        }
        if *error.why() == FailureReason::Changed {
            state.over = Some(error);
        }
        drop(state);
        self.came.notify_all();
    }
}

impl FetchState {
    /// Takes the units that are to be fetched next: around the one wanted most, as many as make one request.
    fn take(&mut self) -> Option<Range<u64>> {
        let (&first, _) = self.wanted.iter().min_by_key(|(_, want)| **want)?;
        // Requests of one length would end at the same time, and the line would be idle until the next begin to be
        // answered, again and again.
        self.taken += 1;
        let most = RUN / 2 + self.taken * 5 % (RUN + 1);
        let mut run = first..first + 1;
        for (&unit, _) in self.wanted.range(..first).rev() {
            if unit + 1 + GAP < run.start || run.end - unit > most {
                break;
            }
            run.start = unit;
        }
        for (&unit, _) in self.wanted.range(first + 1..) {
            if unit > run.end + GAP || unit + 1 - run.start > most {
                break;
            }
            run.end = unit + 1;
        }
        for unit in run.clone() {
            self.wanted.remove(&unit);
            self.units.entry(unit).or_insert(UnitState::Coming);
        }
        Some(run)
    }

    /// Returns the number of requests that would fetch all wanted units.
    fn runs(&self) -> usize {
        let mut runs = 0;
        let mut begin = 0;
        let mut next = 0;
        for &unit in self.wanted.keys() {
            if runs == 0 || unit > next + GAP || unit >= begin + RUN {
                runs += 1;
                begin = unit;
            }
            next = unit + 1;
        }
        runs
    }

    /// Keeps a unit in memory. If there are too many, the eighth that was not used for longest goes.
    fn insert(&mut self, unit: u64, bytes: Arc<[u8]>, capacity: usize) {
        self.clock += 1;
        self.wanted.remove(&unit);
        self.units.insert(unit, UnitState::Here(bytes, self.clock));
        if self.units.len() > capacity {
            // Failures of an outage are forgotten only when somebody asks again: they must not take the room of bytes.
            self.units.retain(|_, one| !one.is_forgivable());
        }
        if self.units.len() <= capacity {
            return;
        }
        let here = |(&unit, one): (&u64, &UnitState)| match one {
            UnitState::Here(_, used) => Some((*used, unit)),
            _ => None,
        };
        // Many go at once, because all have to be sorted to find the oldest.
        let mut used: Vec<_> = self.units.iter().filter_map(here).collect();
        used.sort_unstable();
        for (_, unit) in used.iter().take(used.len() / 8 + 1) {
            self.units.remove(unit);
        }
    }

    /// Forgets the failure of a unit after a while.
    fn forgive(&mut self, unit: u64) {
        if self.units.get(&unit).is_some_and(UnitState::is_forgivable) {
            self.units.remove(&unit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_failures_take_no_room_from_units() {
        let capacity = 8;
        for failures in [0, 1, 8, 100] {
            let mut state = FetchState::default();
            let Some(since) = Instant::now().checked_sub(2 * BLAME) else { return };
            for unit in 0..failures {
                let error = Error::new("http://host/x", FailureReason::Changed);
                state.units.insert(1000 + unit, UnitState::Failed(error, since));
            }
            for unit in 0..4 {
                state.insert(unit, Arc::from([0; 4]), capacity);
            }
            let kept = (0..4).filter(|unit| matches!(state.units.get(unit), Some(UnitState::Here(..)))).count();
            assert_eq!(kept, 4, "{failures} failures");
        }
    }
}
