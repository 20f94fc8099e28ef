//! Runs a matrix: a warm-up, then rounds in which every cell is measured once, each round in another order, so that
//! what disturbs the machine for a while disturbs all cells alike. Every sample is recorded at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::executor::{Executor, Subject};
use crate::record::{Failure, Line, Measured, Recorded};
use crate::rng::Rng;
use crate::{Error, Result};

/// How to run.
#[derive(Debug, Clone)]
pub struct Plan<S: Subject> {
    /// What to measure.
    pub cells: Vec<S>,
    /// How often each.
    pub runs: u32,
    /// Seed of the orders.
    pub seed: u64,
    /// The least time of each measurement in each direction.
    pub least: Duration,
    /// Name of the session in the lines.
    pub session: String,
    /// Measurements made before, which are not made again.
    pub done: BTreeMap<S::Key, u32>,
    /// Set when the run is to stop, after the measurement being made.
    pub stop: Arc<AtomicBool>,
}

/// What happens, for a display.
#[derive(Debug)]
pub enum Event<'e, S> {
    /// A measurement begins: its number, of how many, and of what. The first ones warm up.
    Step {
        /// From 0.
        number: usize,
        /// All, warm-ups included.
        of: usize,
        /// The cell.
        cell: &'e S,
    },
    /// After the warm-up it can be said how long the rest will take.
    Left(Duration),
    /// A cell failed and is left out from now on.
    Failed(&'e Failure),
}

/// What came of a step.
enum Outcome<T> {
    /// How long one measurement will take.
    Warm(Duration),
    Measured(T),
}

/// Runs the plan. Each line is given to `record`; an error of that ends the run, an error of a cell does not.
/// Gives the number of cells that failed; [`Error::Interrupted`] when it was asked to stop.
pub fn run<S: Subject>(
    plan: &Plan<S>,
    executor: &mut dyn Executor<S>,
    record: &mut dyn FnMut(&Line) -> Result<()>,
    watch: &mut dyn FnMut(Event<'_, S>),
) -> Result<usize> {
    let missing = |cell: &S| plan.runs.saturating_sub(plan.done.get(&cell.key()).copied().unwrap_or(0));
    let mut left: Vec<(&S, u32)> = plan.cells.iter().map(|cell| (cell, missing(cell))).collect();
    left.retain(|(_, runs)| *runs > 0);
    let of = left.iter().map(|(_, runs)| *runs as usize + 1).sum();
    let (mut number, mut failed) = (0, 0);
    for round in 0..=plan.runs {
        let warm_up = round == 0;
        Rng::of(plan.seed, u64::from(round)).shuffle(&mut left);
        let mut took = Duration::ZERO;
        let mut broken = Vec::new();
        for (cell, runs) in left.iter().filter(|(_, runs)| *runs >= round) {
            watch(Event::Step { number, of, cell });
            number += 1;
            let outcome = match warm_up {
                true => executor.warm_up(cell).map(Outcome::Warm),
                false => executor.run(cell, plan.least).map(Outcome::Measured),
            };
            // What was interrupted may have been disturbed, or have failed for no other reason.
            if plan.stop.load(Relaxed) {
                return Err(Error::Interrupted);
            }
            match outcome {
                Ok(Outcome::Warm(one)) => took += one.max(2 * plan.least) * *runs,
                Ok(Outcome::Measured(sample)) => {
                    record(&Recorded::line(Measured { session: plan.session.clone(), key: cell.key(), sample }))?
                }
                Err(error) => {
                    let (session, key) = (plan.session.clone(), cell.key().any());
                    let failure = Failure { session, key, why: error.to_string() };
                    watch(Event::Failed(&failure));
                    broken.push(cell.key());
                    record(&Line::Failure(failure))?;
                    // What is damaged is not to be trusted with anything else.
                    if matches!(error, Error::Damage(_)) {
                        return Err(error);
                    }
                }
            }
        }
        failed += broken.len();
        left.retain(|(cell, _)| !broken.contains(&cell.key()));
        if warm_up {
            watch(Event::Left(took));
        }
    }
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::Method;
    use crate::corpus::Data;
    use crate::matrix::{Cell, Matrix};
    use crate::memory::Shares;
    use crate::metrics::Sizes;
    use crate::policy::Policy;
    use crate::sample::{CodecSample, Timing};

    /// Knows every sample beforehand, and fails on one codec.
    struct Mock {
        order: Vec<String>,
        fails: &'static str,
    }

    impl Executor<Cell> for Mock {
        fn run(&mut self, cell: &Cell, _: Duration) -> Result<CodecSample> {
            self.order.push(cell.method.to_string());
            if cell.method.to_string() == self.fails {
                return Err(Error::Usage("out of order".into()));
            }
            let encode = Timing { wall: 1, cpu: 1, passes: 1 };
            Ok(CodecSample { sizes: Sizes::default(), encode, decode: None })
        }
    }

    fn plan(runs: u32) -> Plan<Cell> {
        let matrix = Matrix {
            data: vec![Arc::new(Data::memory(4096, 1, Shares::default()))],
            methods: Method::list("lz4,zstd:1,zstd:3,zstd:9,xz:6,lzo:9,snappy,lzjb").unwrap(),
            blocks: vec![4096],
            sector: 512,
            policy: Policy::Sector,
            threads: vec![1],
        };
        let cells = matrix.cells().unwrap();
        let (session, done, stop) = ("s".into(), BTreeMap::new(), Arc::default());
        Plan { cells, runs, seed: 1, least: Duration::ZERO, session, done, stop }
    }

    fn go(plan: &Plan<Cell>, fails: &'static str) -> (Vec<String>, Vec<Line>, usize) {
        let (mut mock, mut lines) = (Mock { order: Vec::new(), fails }, Vec::new());
        let mut record = |line: &Line| {
            lines.push(line.clone());
            Ok(())
        };
        let failed = run(plan, &mut mock, &mut record, &mut |_| {}).unwrap();
        (mock.order, lines, failed)
    }

    #[test]
    fn every_round_has_every_cell_once_in_an_order_of_its_own() {
        let (order, lines, failed) = go(&plan(3), "");
        assert_eq!((order.len(), lines.len(), failed), (32, 24, 0));
        let rounds: Vec<&[String]> = order.chunks(8).collect();
        for (at, round) in rounds.iter().enumerate() {
            let mut sorted = round.to_vec();
            sorted.sort();
            sorted.dedup();
            assert_eq!(sorted.len(), 8);
            assert!(!rounds[..at].contains(round), "{round:?}");
        }
        assert_eq!(go(&plan(3), "").0, order);
        assert_ne!(go(&Plan { seed: 2, ..plan(3) }, "").0, order);
    }

    #[test]
    fn a_cell_that_fails_is_told_and_left_out_and_the_rest_is_measured() {
        let (order, lines, failed) = go(&plan(2), "xz:6");
        assert_eq!((order.len(), failed), (8 + 7 + 7, 1));
        let failures: Vec<&Line> = lines.iter().filter(|line| matches!(line, Line::Failure(_))).collect();
        assert!(matches!(failures[..], [Line::Failure(failure)] if failure.why == "out of order"));
        assert_eq!(lines.len(), 15);
    }

    #[test]
    fn what_was_measured_before_is_not_measured_again() {
        let mut plan = plan(3);
        for (at, cell) in plan.cells.iter().enumerate() {
            plan.done.insert(cell.key(), [0, 1, 3, 5][at % 4]);
        }
        // Missing 3, 2, 0 and 0 runs, each twice; those that miss some warm up first.
        let (order, lines, _) = go(&plan, "");
        assert_eq!((order.len(), lines.len()), (4 + 10, 10));
    }

    #[test]
    fn a_run_that_is_to_stop_keeps_what_it_has_and_no_more() {
        let plan = plan(3);
        let (mut mock, mut lines) = (Mock { order: Vec::new(), fails: "" }, 0);
        let mut record = |_: &Line| {
            lines += 1;
            plan.stop.store(lines == 5, Relaxed);
            Ok(())
        };
        let ended = run(&plan, &mut mock, &mut record, &mut |_| {});
        assert!(matches!(ended, Err(Error::Interrupted)));
        // Eight cells warmed up, five were recorded, and the one after was being measured.
        assert_eq!((mock.order.len(), lines), (8 + 6, 5));
    }

    #[test]
    fn a_record_that_cannot_be_written_ends_the_run() {
        let mut mock = Mock { order: Vec::new(), fails: "" };
        let mut record = |_: &Line| Err(Error::Usage("disk full".into()));
        assert!(run(&plan(3), &mut mock, &mut record, &mut |_| {}).is_err());
        assert_eq!(mock.order.len(), 9);
    }
}
