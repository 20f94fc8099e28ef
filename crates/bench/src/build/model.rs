//! A model that predicts builds with more threads than the machine has. It is fitted to measured stages.
//!
//! With `n` workers besides the conductor, on `p` processors, a build takes `T(n) = s + max(c, o, w / n, (c + w) / p)`:
//!
//! - `s`, serial: work before and after the file data, such as scanning, metadata and flushing;
//! - `c`, conductor: work of one thread on file data, in parallel to the others: ordering, and in old results writing;
//! - `w`, workers: reading, hashing, compressing and writing, summed over all threads;
//! - `o`, output: all writing, because only one thread at a time can write to a file.
//!
//! This is Amdahl's law (1967), `T(n) = serial + parallel / n`, for a pipeline: the conductor runs in parallel to the
//! workers and is hidden until `n` exceeds `w / c`, or `w / c + 1` if the conductor has no processor to itself. `w`
//! includes contention as far as it was measured. The model assumes that memory and devices keep up, and that there are
//! as many processors as threads if there are more threads than processors.

use std::collections::BTreeMap;

/// Parts of a build in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScalingModel {
    /// Work before and after the file data (`s`).
    pub serial: f64,
    /// Ordering and reading of streams, on the conductor.
    pub order: f64,
    /// Writing by the conductor: only in results of packfs 0.1 and 0.2.
    pub write: f64,
    /// Writing by workers.
    pub write_apart: f64,
    /// Reading files.
    pub read: f64,
    /// Hashing and compressing.
    pub compute: f64,
    /// Number of processors.
    pub processors: usize,
}

/// The part that limits the speed of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalingLimit {
    /// Work before and after the file data.
    Serial,
    /// Ordering, by the conductor.
    Order,
    /// Writing the image.
    Write,
    /// Reading, by workers.
    Read,
    /// Hashing and compressing, by workers.
    Compute,
}

impl ScalingModel {
    /// Fits the model to the stages of one parallel build, as `packfs build --json` reports them. `seconds` is its
    /// duration, `processors` the number of processors of the machine.
    pub fn of(stages: &BTreeMap<String, f64>, seconds: f64, processors: usize) -> Option<Self> {
        let stage = |name: &str| stages.get(name).copied();
        // `write` includes what workers wrote, which old results do not name.
        let write_apart = stage("write_apart").unwrap_or(0.0);
        let order = stage("order")? + stage("stream")?;
        let write = stage("write")? - write_apart;
        let flowing = order + write + stage("wait")?;
        Some(ScalingModel {
            // Rounding of the stages may exceed the whole.
            serial: (seconds - flowing).max(0.0),
            order,
            write,
            write_apart,
            read: stage("read")?,
            compute: stage("hash")? + stage("compress")?,
            processors,
        })
    }

    /// Returns `c`.
    pub fn conducting(&self) -> f64 {
        self.order + self.write
    }

    /// Returns `w`.
    pub fn work(&self) -> f64 {
        self.read + self.compute + self.write_apart
    }

    /// Returns the time that cannot be parallelised: the larger of `c` and `o`.
    pub fn alone(&self) -> f64 {
        self.conducting().max(self.writing())
    }

    /// Returns `o`.
    pub fn writing(&self) -> f64 {
        self.write + self.write_apart
    }

    /// Returns the predicted seconds with `threads` workers; 0 is one thread that does everything.
    pub fn seconds(&self, threads: usize) -> f64 {
        let flowing = match threads {
            0 => self.conducting() + self.work(),
            n => {
                // With more threads than processors, as many processors as threads are assumed.
                let shared = (self.conducting() + self.work()) / self.processors.max(n) as f64;
                self.alone().max(self.work() / n as f64).max(shared)
            }
        };
        self.serial + flowing
    }

    /// Returns the number of workers above which more of them have no effect.
    pub fn enough(&self) -> Option<f64> {
        let all = self.conducting() + self.work();
        // With a processor of its own, the conductor takes no time from the workers.
        let shared = if all <= self.alone() * self.processors as f64 { self.work() } else { all };
        (self.alone() > 0.0).then(|| (shared / self.alone()).max(1.0))
    }

    /// Returns the part that limits the build with `threads` workers.
    pub fn limit(&self, threads: usize) -> ScalingLimit {
        let flowing = self.seconds(threads) - self.serial;
        let larger = |a: f64, b: f64, then: ScalingLimit, other: ScalingLimit| if a >= b { then } else { other };
        if self.serial >= flowing {
            ScalingLimit::Serial
        } else if flowing <= self.alone() {
            larger(self.writing(), self.order, ScalingLimit::Write, ScalingLimit::Order)
        } else {
            larger(self.compute, self.read, ScalingLimit::Compute, ScalingLimit::Read)
        }
    }
}

impl ScalingLimit {
    /// Returns the phrase that follows "the limit is".
    pub fn words(self) -> &'static str {
        match self {
            ScalingLimit::Serial => "the serial part, before and after file data goes through",
            ScalingLimit::Order => "the ordering that one thread does",
            ScalingLimit::Write => "writing one file, which one thread does at a time",
            ScalingLimit::Read => "reading files",
            ScalingLimit::Compute => "compressing and hashing still",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(all: [(&str, f64); 9]) -> BTreeMap<String, f64> {
        all.map(|(name, seconds)| (name.to_owned(), seconds)).into()
    }

    #[test]
    fn times_are_those_computed_by_hand() {
        // Two workers: 16 s of work in total, 8 s elapsed, of which the conductor waits 6 s.
        let measured = stages([
            ("scan", 0.5),
            ("stream", 0.0),
            ("read", 1.0),
            ("hash", 1.0),
            ("compress", 14.0),
            ("order", 0.5),
            ("wait", 6.0),
            ("write", 1.5),
            ("write_apart", 0.0),
        ]);
        let model = ScalingModel::of(&measured, 9.0, 3).unwrap();
        assert_eq!(model, ScalingModel { serial: 1.0, write: 1.5, processors: 3, ..LONG });
        assert_eq!((model.conducting(), model.work(), model.enough()), (2.0, 16.0, Some(9.0)));
        // On three processors, two workers have one each.
        let cases = [(0, 19.0), (1, 17.0), (2, 9.0), (4, 5.5), (8, 3.25), (9, 3.0), (64, 3.0)];
        for (threads, seconds) in cases {
            assert!((model.seconds(threads) - seconds).abs() < 1e-12, "{threads}");
        }
        assert_eq!((model.limit(4), model.limit(64)), (ScalingLimit::Compute, ScalingLimit::Write));
        // With a processor of its own, the conductor is hidden by one worker less.
        let apart = ScalingModel { processors: 9, ..model };
        assert_eq!((apart.enough(), apart.seconds(8), apart.seconds(7) > 3.0), (Some(8.0), 3.0, true));
        // On two processors, the conductor takes time from the workers.
        assert!((ScalingModel { processors: 2, ..model }.seconds(2) - 10.0).abs() < 1e-12);
    }

    const LONG: ScalingModel = ScalingModel {
        serial: 1.0,
        order: 0.5,
        write: 0.25,
        write_apart: 0.0,
        read: 1.0,
        compute: 15.0,
        processors: 64,
    };

    #[test]
    fn what_workers_write_is_work_but_not_at_once() {
        let model = ScalingModel { serial: 0.0, order: 0.25, write: 0.0, write_apart: 2.0, ..LONG };
        assert_eq!((model.conducting(), model.writing(), model.work()), (0.25, 2.0, 18.0));
        assert_eq!((model.enough(), model.limit(64)), (Some(9.0), ScalingLimit::Write));
        for (threads, seconds) in [(0, 18.25), (1, 18.0), (6, 3.0), (64, 2.0)] {
            assert!((model.seconds(threads) - seconds).abs() < 1e-12, "{threads}");
        }
        let measured = [("order", 0.25), ("stream", 0.0), ("write", 2.0), ("write_apart", 2.0), ("wait", 17.75)];
        let measured = measured.into_iter().chain([("read", 1.0), ("hash", 5.0), ("compress", 10.0)]);
        let measured = measured.map(|(name, seconds)| (name.to_owned(), seconds)).collect();
        assert_eq!(ScalingModel::of(&measured, 18.0, 64), Some(model));
    }

    #[test]
    fn the_limit_is_the_largest_part() {
        let model = ScalingModel { read: 3.0, compute: 29.0, ..LONG };
        let cases = [
            (model, 2, ScalingLimit::Compute),
            (model, 64, ScalingLimit::Serial),
            (ScalingModel { serial: 0.1, ..model }, 64, ScalingLimit::Order),
            (ScalingModel { read: 30.0, ..model }, 4, ScalingLimit::Read),
        ];
        for (model, threads, limit) in cases {
            assert_eq!(model.limit(threads), limit, "{model:?}");
        }
    }

    #[test]
    fn without_stages_or_conducting_there_is_little_to_say() {
        assert_eq!(ScalingModel::of(&BTreeMap::new(), 1.0, 1), None);
        let free = ScalingModel { order: 0.0, write: 0.0, ..LONG };
        assert_eq!(free.enough(), None);
    }
}
