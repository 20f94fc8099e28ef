//! What the measured stages of a build say about more threads than the machine has.
//!
//! With `n` workers beside the thread that conducts, a build takes `T(n) = s + max(c, w / n)`:
//!
//! - `s`, the serial part: what happens before and after file data goes through, as listing the source, metadata and
//!   flushing;
//! - `c`, conducting: what one thread does with file data while the others work, as ordering and writing it;
//! - `w`, the work that is shared: reading, hashing and compressing, all threads together.
//!
//! It is Amdahl's law (1967), `T(n) = serial + parallel / n`, for a pipeline, in which conducting goes on beside the
//! work and is hidden by it until `n` exceeds `w / c`. What threads cost one another is in `w` as far as it was
//! measured, and memory and devices are taken to keep up.

use std::collections::BTreeMap;

/// The parts of a build, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// Before and after file data goes through: s.
    pub serial: f64,
    /// Ordering and reading streams while others work.
    pub order: f64,
    /// Writing. One file is written by one thread at a time, whoever that is.
    pub write: f64,
    /// Reading files.
    pub read: f64,
    /// Hashing and compressing.
    pub compute: f64,
}

/// What keeps a build from being faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// What is done before and after file data goes through.
    Serial,
    /// The conductor's ordering.
    Order,
    /// The conductor's writing.
    Write,
    /// The workers' reading.
    Read,
    /// The workers' hashing and compressing.
    Compute,
}

impl Model {
    /// Of the stages of one build with workers, as `packfs build --json` tells them, that took so many seconds.
    pub fn of(stages: &BTreeMap<String, f64>, seconds: f64) -> Option<Self> {
        let stage = |name: &str| stages.get(name).copied();
        let (order, write) = (stage("order")? + stage("stream")?, stage("write")?);
        let flowing = order + write + stage("wait")?;
        Some(Model {
            serial: (seconds - flowing).max(0.0),
            order,
            write,
            read: stage("read")?,
            compute: stage("hash")? + stage("compress")?,
        })
    }

    /// c.
    pub fn conducting(&self) -> f64 {
        self.order + self.write
    }

    /// w.
    pub fn work(&self) -> f64 {
        self.read + self.compute
    }

    /// Seconds with so many workers; 0 is one thread that does everything.
    pub fn seconds(&self, threads: usize) -> f64 {
        let flowing = match threads {
            0 => self.conducting() + self.work(),
            n => self.conducting().max(self.work() / n as f64),
        };
        self.serial + flowing
    }

    /// Workers from which on more of them change nothing.
    pub fn enough(&self) -> Option<f64> {
        (self.conducting() > 0.0).then(|| (self.work() / self.conducting()).max(1.0))
    }

    /// What takes most of the time with so many workers.
    pub fn limit(&self, threads: usize) -> Limit {
        let flowing = self.seconds(threads) - self.serial;
        let larger = |a: f64, b: f64, then: Limit, other: Limit| if a >= b { then } else { other };
        if self.serial >= flowing {
            Limit::Serial
        } else if flowing <= self.conducting() {
            larger(self.write, self.order, Limit::Write, Limit::Order)
        } else {
            larger(self.compute, self.read, Limit::Compute, Limit::Read)
        }
    }
}

impl Limit {
    /// In words that go behind "the limit is".
    pub fn words(self) -> &'static str {
        match self {
            Limit::Serial => "the serial part, before and after file data goes through",
            Limit::Order => "the ordering that one thread does",
            Limit::Write => "the writing that one thread does",
            Limit::Read => "reading files",
            Limit::Compute => "compressing and hashing still",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(all: [(&str, f64); 8]) -> BTreeMap<String, f64> {
        all.map(|(name, seconds)| (name.to_owned(), seconds)).into()
    }

    #[test]
    fn times_are_those_computed_by_hand() {
        // Two workers: 16 s of work between them, 8 s by the clock, of which the conductor waits 6 s.
        let measured = stages([
            ("scan", 0.5),
            ("stream", 0.0),
            ("read", 1.0),
            ("hash", 1.0),
            ("compress", 14.0),
            ("order", 0.5),
            ("wait", 6.0),
            ("write", 1.5),
        ]);
        let model = Model::of(&measured, 9.0).unwrap();
        assert_eq!(model, Model { serial: 1.0, order: 0.5, write: 1.5, read: 1.0, compute: 15.0 });
        assert_eq!((model.conducting(), model.work(), model.enough()), (2.0, 16.0, Some(8.0)));
        let cases = [(0, 19.0), (1, 17.0), (2, 9.0), (4, 5.0), (8, 3.0), (64, 3.0)];
        for (threads, seconds) in cases {
            assert!((model.seconds(threads) - seconds).abs() < 1e-12, "{threads}");
        }
        assert_eq!((model.limit(4), model.limit(64)), (Limit::Compute, Limit::Write));
    }

    #[test]
    fn the_limit_is_the_largest_part() {
        let model = Model { serial: 1.0, order: 0.5, write: 0.25, read: 3.0, compute: 29.0 };
        let cases = [
            (model, 2, Limit::Compute),
            (model, 64, Limit::Serial),
            (Model { serial: 0.1, ..model }, 64, Limit::Order),
            (Model { read: 30.0, ..model }, 4, Limit::Read),
        ];
        for (model, threads, limit) in cases {
            assert_eq!(model.limit(threads), limit, "{model:?}");
        }
    }

    #[test]
    fn without_stages_or_conducting_there_is_little_to_say() {
        assert_eq!(Model::of(&BTreeMap::new(), 1.0), None);
        let free = Model { serial: 0.0, order: 0.0, write: 0.0, read: 0.0, compute: 1.0 };
        assert_eq!(free.enough(), None);
    }
}
