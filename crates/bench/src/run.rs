//! Runs a matrix: a warm-up, then rounds that measure every cell once in a new random order, so that disturbances
//! affect all cells alike. Every sample is recorded at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use std::time::Instant;

use crate::executor::{CellExecutor, MeasuredCell};
use crate::record::{FailedCell, MeasuredSample, RecordLine, RecordedKey};
use crate::rng::SeededRng;
use crate::{Error, Result};

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct RunPlan<C: MeasuredCell> {
    /// Cells to measure.
    pub cells: Vec<C>,
    /// Number of runs of each cell.
    pub runs: u32,
    /// Seed of the orders.
    pub seed: u64,
    /// Minimum duration of each measurement.
    pub min_time: Duration,
    /// Name of the session in the results.
    pub session: String,
    /// Number of samples that each cell already has.
    pub done: BTreeMap<C::Key, u32>,
    /// Set to stop the run after the current measurement.
    pub stop: Arc<AtomicBool>,
}

/// Progress of a run.
#[derive(Debug)]
pub enum RunEvent<'e, C> {
    /// The run begins.
    Begun {
        /// Number of cells to measure.
        cells: usize,
        /// Number of steps, including warm-ups.
        steps: usize,
    },
    /// A step begins: the warm-up or a measurement of one cell.
    Step {
        /// Number of the step, from 0.
        number: usize,
        /// Number of all steps, including warm-ups, without those that a failed cell will not have.
        steps: usize,
        /// Number of the round; 0 is the warm-up.
        round: u32,
        /// Expected remaining time, from the second step on.
        left: Option<Duration>,
        /// Cell of the step.
        cell: &'e C,
    },
    /// The warm-up is over. Contains the expected time of the measurements.
    WarmedUp(Duration),
    /// A cell failed and is not measured any more.
    Failed(&'e FailedCell),
}

/// Result of a step.
enum StepOutcome<T> {
    /// The cell is warmed up; expected time of a measurement.
    Warm(Duration),
    Measured(T),
}

/// Expected time of the remaining steps. Cells without a warm-up so far are assumed to be average.
#[derive(Default)]
struct TimeForecast {
    /// Number of cells without a warm-up so far.
    cold_cells: u32,
    /// Number of their measurements.
    cold_runs: u32,
    /// Number of warm-ups so far.
    warm_ups: u32,
    /// Time of these warm-ups.
    warm_up_time: Duration,
    /// Number of measurements of all cells that were warmed up, including those that are done.
    warm_runs: u32,
    /// Expected time of these measurements.
    warm_run_time: Duration,
    /// Number of these measurements that remain.
    remaining_warm_runs: u32,
}

impl TimeForecast {
    fn of(runs: impl Iterator<Item = u32>) -> Self {
        let mut forecast = TimeForecast::default();
        for runs in runs {
            forecast.cold_cells += 1;
            forecast.cold_runs += runs;
        }
        forecast
    }

    /// Counts the warm-up of a cell, which took `took`; each of its `runs` is expected to take `run_time`.
    fn warmed(&mut self, took: Duration, run_time: Duration, runs: u32) {
        self.remove_cold_cell(runs);
        self.warm_ups += 1;
        self.warm_up_time += took;
        self.warm_runs += runs;
        self.warm_run_time += run_time * runs;
        self.remaining_warm_runs += runs;
    }

    /// Removes a cell that is warmed up or failed to be.
    fn remove_cold_cell(&mut self, runs: u32) {
        self.cold_cells = self.cold_cells.saturating_sub(1);
        self.cold_runs = self.cold_runs.saturating_sub(runs);
    }

    /// Removes measurements of average duration: one that is done, or those that a failed cell will not have.
    fn remove_warm_runs(&mut self, runs: u32) {
        self.remaining_warm_runs = self.remaining_warm_runs.saturating_sub(runs);
    }

    /// Returns the expected time of all measurements of warm cells.
    fn measuring(&self) -> Duration {
        let run_time = self.warm_run_time.checked_div(self.warm_runs).unwrap_or_default();
        run_time * self.remaining_warm_runs
    }

    /// Returns the expected remaining time; unknown before the first warm-up.
    fn left(&self) -> Option<Duration> {
        let warm_up_time = self.warm_up_time.checked_div(self.warm_ups)?;
        let run_time = self.warm_run_time.checked_div(self.warm_runs)?;
        Some(warm_up_time * self.cold_cells + run_time * self.cold_runs + self.measuring())
    }
}

/// Runs the plan, and passes each line to `record`. An error of `record` ends the run, an error of a cell does not.
/// Returns the number of failed cells, or [`Error::Interrupted`] after a request to stop.
pub fn run<C: MeasuredCell>(
    plan: &RunPlan<C>,
    executor: &mut dyn CellExecutor<C>,
    record: &mut dyn FnMut(&RecordLine) -> Result<()>,
    watch: &mut dyn FnMut(RunEvent<'_, C>),
) -> Result<usize> {
    let missing_runs = |cell: &C| plan.runs.saturating_sub(plan.done.get(&cell.key()).copied().unwrap_or(0));
    // An interrupted run goes on: only the samples that are missing are measured.
    let mut left: Vec<(&C, u32)> = plan.cells.iter().map(|cell| (cell, missing_runs(cell))).collect();
    left.retain(|(_, runs)| *runs > 0);
    let mut steps: usize = left.iter().map(|(_, runs)| *runs as usize + 1).sum();
    let mut number = 0;
    let mut failed = 0;
    watch(RunEvent::Begun { cells: left.len(), steps });
    let mut forecast = TimeForecast::of(left.iter().map(|(_, runs)| *runs));
    for round in 0..=plan.runs {
        let warm_up = round == 0;
        // Another order in each round: a disturbance, or a cache left by a neighbour, then hits different cells.
        SeededRng::for_item(plan.seed, u64::from(round)).shuffle(&mut left);
        let mut broken = Vec::new();
        // Cells with fewer runs left sit out the last rounds.
        for (cell, runs) in left.iter().filter(|(_, runs)| *runs >= round) {
            watch(RunEvent::Step { number, steps, round, left: forecast.left(), cell });
            number += 1;
            let begun = Instant::now();
            let outcome = match warm_up {
                true => executor.warm_up(cell).map(StepOutcome::Warm),
                false => executor.run(cell, plan.min_time).map(StepOutcome::Measured),
            };
            // An interrupted measurement may be disturbed or have failed because of the interruption.
            if plan.stop.load(Relaxed) {
                return Err(Error::Interrupted);
            }
            match outcome {
                Ok(StepOutcome::Warm(run_time)) => {
                    // Measurements last `min_time` at least, once for encoding and once for decoding.
                    forecast.warmed(begun.elapsed(), run_time.max(2 * plan.min_time), *runs);
                }
                Ok(StepOutcome::Measured(sample)) => {
                    forecast.remove_warm_runs(1);
                    let session = plan.session.clone();
                    record(&RecordedKey::make_line(MeasuredSample { session, key: cell.key(), sample }))?;
                }
                Err(error) => {
                    let later_runs = *runs - round;
                    steps -= later_runs as usize;
                    match warm_up {
                        true => forecast.remove_cold_cell(*runs),
                        false => forecast.remove_warm_runs(later_runs + 1),
                    }
                    let session = plan.session.clone();
                    let key = cell.key().into_any();
                    let failure = FailedCell { session, key, why: error.to_string() };
                    watch(RunEvent::Failed(&failure));
                    broken.push(cell.key());
                    record(&RecordLine::Failure(failure))?;
                    // A codec that corrupts data is not measured further.
                    if matches!(error, Error::Damage(_)) {
                        return Err(error);
                    }
                }
            }
        }
        failed += broken.len();
        // After the round, as the loop borrows the list.
        left.retain(|(cell, _)| !broken.contains(&cell.key()));
        if warm_up {
            watch(RunEvent::WarmedUp(forecast.measuring()));
        }
    }
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::CodecMethod;
    use crate::corpus::DataSet;
    use crate::matrix::{CodecCell, CodecMatrix};
    use crate::memory::PageShares;
    use crate::metrics::PassSizes;
    use crate::policy::StoragePolicy;
    use crate::sample::{CodecSample, PassTiming};

    /// Has predetermined samples, and fails for one codec.
    struct Mock {
        order: Vec<String>,
        fails: &'static str,
        /// Number of times that this codec succeeds before.
        successes: usize,
    }

    impl CellExecutor<CodecCell> for Mock {
        fn run(&mut self, cell: &CodecCell, _: Duration) -> Result<CodecSample> {
            let method = cell.method.to_string();
            let earlier_runs = self.order.iter().filter(|earlier| **earlier == method).count();
            let fails = method == self.fails && earlier_runs == self.successes;
            self.order.push(method);
            if fails {
                return Err(Error::Usage("out of order".into()));
            }
            let encode = PassTiming { wall: 1, cpu: 1, passes: 1 };
            Ok(CodecSample { sizes: PassSizes::default(), encode, decode: None })
        }
    }

    fn plan(runs: u32) -> RunPlan<CodecCell> {
        let matrix = CodecMatrix {
            data: vec![Arc::new(DataSet::memory(4096, 1, PageShares::default()))],
            methods: CodecMethod::list("lz4,zstd:1,zstd:3,zstd:9,xz:6,lzo:9,snappy,lzjb").unwrap(),
            blocks: vec![4096],
            sector: 512,
            policy: StoragePolicy::Sector,
            threads: vec![1],
        };
        let cells = matrix.cells().unwrap();
        let session = "s".into();
        let done = BTreeMap::new();
        let stop = Arc::default();
        RunPlan { cells, runs, seed: 1, min_time: Duration::ZERO, session, done, stop }
    }

    fn go(plan: &RunPlan<CodecCell>, fails: &'static str) -> (Vec<String>, Vec<RecordLine>, usize) {
        let mut mock = Mock { order: Vec::new(), fails, successes: 0 };
        let mut lines = Vec::new();
        let mut record = |line: &RecordLine| {
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
        assert_ne!(go(&RunPlan { seed: 2, ..plan(3) }, "").0, order);
    }

    #[test]
    fn the_time_left_is_told_from_the_second_step_on() {
        let second = Duration::from_secs(1);
        // Three cells with two runs each: a warm-up takes a second, a measurement two.
        let mut forecast = TimeForecast::of([2, 2, 2].into_iter());
        assert_eq!(forecast.left(), None);
        forecast.warmed(second, 2 * second, 2);
        assert_eq!(forecast.left(), Some((2 + 4 * 2 + 2 * 2) * second));
        forecast.remove_cold_cell(2);
        assert_eq!(forecast.left(), Some((1 + 2 * 2 + 2 * 2) * second));
        forecast.warmed(second, 4 * second, 2);
        assert_eq!((forecast.measuring(), forecast.left()), (12 * second, Some(12 * second)));
        forecast.remove_warm_runs(1);
        assert_eq!(forecast.left(), Some(9 * second));
        forecast.remove_warm_runs(2);
        assert_eq!(forecast.left(), Some(3 * second));
        forecast.remove_warm_runs(1);
        assert_eq!(forecast.left(), Some(Duration::ZERO));
    }

    #[test]
    fn every_step_is_told_before_it_begins() {
        let mut mock = Mock { order: Vec::new(), fails: "", successes: 0 };
        let mut told = Vec::new();
        let mut watch = |event: RunEvent<'_, CodecCell>| match event {
            RunEvent::Begun { cells, steps } => told.push((cells, steps, true)),
            RunEvent::Step { number, steps, left, .. } => told.push((number, steps, left.is_some())),
            _ => {}
        };
        run(&plan(2), &mut mock, &mut |_| Ok(()), &mut watch).unwrap();
        assert_eq!((told.len(), told[0], told[1], told[2]), (25, (8, 24, true), (0, 24, false), (1, 24, true)));
        assert_eq!(told.last(), Some(&(23, 24, true)));
    }

    #[test]
    fn the_last_step_is_told_as_the_last_if_a_cell_failed() {
        for (successes, steps) in [(0, 8 + 7 + 7), (1, 8 + 8 + 7), (2, 24)] {
            let mut mock = Mock { order: Vec::new(), fails: "xz:6", successes };
            let mut last = None;
            let mut watch = |event: RunEvent<'_, CodecCell>| {
                if let RunEvent::Step { number, steps, .. } = event {
                    last = Some((number + 1, steps));
                }
            };
            run(&plan(2), &mut mock, &mut |_| Ok(()), &mut watch).unwrap();
            assert_eq!(last, Some((steps, steps)));
        }
    }

    #[test]
    fn a_cell_that_fails_is_told_and_left_out_and_the_rest_is_measured() {
        let (order, lines, failed) = go(&plan(2), "xz:6");
        assert_eq!((order.len(), failed), (8 + 7 + 7, 1));
        let failures: Vec<&RecordLine> = lines.iter().filter(|line| matches!(line, RecordLine::Failure(_))).collect();
        assert!(matches!(failures[..], [RecordLine::Failure(failure)] if failure.why == "out of order"));
        assert_eq!(lines.len(), 15);
    }

    #[test]
    fn what_was_measured_before_is_not_measured_again() {
        let mut plan = plan(3);
        for (at, cell) in plan.cells.iter().enumerate() {
            plan.done.insert(cell.key(), [0, 1, 3, 5][at % 4]);
        }
        // The cells lack 3, 2, 0 and 0 runs, each twice; those that lack some are warmed up first.
        let (order, lines, _) = go(&plan, "");
        assert_eq!((order.len(), lines.len()), (4 + 10, 10));
    }

    #[test]
    fn a_run_that_is_to_stop_keeps_what_it_has_and_no_more() {
        let plan = plan(3);
        let mut mock = Mock { order: Vec::new(), fails: "", successes: 0 };
        let mut lines = 0;
        let mut record = |_: &RecordLine| {
            lines += 1;
            plan.stop.store(lines == 5, Relaxed);
            Ok(())
        };
        let ended = run(&plan, &mut mock, &mut record, &mut |_| {});
        assert!(matches!(ended, Err(Error::Interrupted)));
        // Eight warm-ups, five recorded samples, and one measurement in progress.
        assert_eq!((mock.order.len(), lines), (8 + 6, 5));
    }

    #[test]
    fn a_record_that_cannot_be_written_ends_the_run() {
        let mut mock = Mock { order: Vec::new(), fails: "", successes: 0 };
        let mut record = |_: &RecordLine| Err(Error::Usage("disk full".into()));
        assert!(run(&plan(3), &mut mock, &mut record, &mut |_| {}).is_err());
        assert_eq!(mock.order.len(), 9);
    }
}
