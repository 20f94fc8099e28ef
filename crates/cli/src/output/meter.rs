//! Live progress: a thread that polls the counters of a [`Progress`].
//!
//! On a terminal it updates one line, ten times a second. Elsewhere it prints a plain line after
//! ten seconds and then every minute, so short operations print nothing. The operation itself never
//! waits for it.

use std::io::{IsTerminal, Write, stderr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use packfs_blocks::Progress;
use packfs_blocks::progress::Phase;
use packfs_blocks::threads;

use super::{RemarkWriter, remarks, say, units};
use crate::resources;

const REDRAW: Duration = Duration::from_millis(100);
const FIRST_PLAIN_LINE: Duration = Duration::from_secs(10);
const PLAIN_LINE: Duration = Duration::from_secs(60);
/// Number of columns if the terminal does not report it.
const COLUMNS: usize = 80;
/// Number of columns below which a line has no bar.
const NARROW: usize = 60;

/// The progress display of one operation; dropping it removes it.
#[derive(Debug)]
pub(crate) struct ProgressMeter {
    progress: Arc<Progress>,
    begun: Instant,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
    /// True unless only errors are to be printed.
    talks: bool,
}

impl ProgressMeter {
    /// Starts showing progress, unless `quiet`.
    pub(crate) fn start(quiet: bool) -> Self {
        let live = stderr().is_terminal();
        let [first, then] = if live { [REDRAW; 2] } else { [FIRST_PLAIN_LINE, PLAIN_LINE] };
        let display = move || if live { MeterDisplay::live() } else { MeterDisplay::Plain };
        ProgressMeter::showing((!quiet).then_some(display), first, then)
    }

    /// Starts printing percentages on standard output.
    pub(crate) fn percentage() -> Self {
        ProgressMeter::showing(Some(|| MeterDisplay::Percentage { out: remarks(), last: None }), REDRAW, REDRAW)
    }

    /// Starts a display, made on its thread, that is drawn after `first` and then each `interval`.
    fn showing(
        display: Option<impl FnOnce() -> MeterDisplay + Send + 'static>,
        first: Duration,
        then: Duration,
    ) -> Self {
        let progress = Arc::new(Progress::default());
        let begun = Instant::now();
        let talks = display.is_some();
        let thread = display.and_then(|display| {
            let (stop, stopped) = channel();
            let watched = Arc::clone(&progress);
            let work = move || {
                let mut display = display();
                let mut interval = first;
                while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    display.show(&ProgressSnapshot::take(&watched, begun));
                    interval = then;
                }
                display.end(&ProgressSnapshot::take(&watched, begun));
            };
            // If no thread can be started, the operation continues without a display.
            threads::named("packfs-meter").start(work).ok().map(|thread| (stop, thread))
        });
        ProgressMeter { progress, begun, thread, talks }
    }

    /// Returns the counters for the operation to update.
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Clears the display and returns the time and memory used.
    pub(crate) fn finish(self) -> SpentResources {
        SpentResources { time: self.begun.elapsed(), peak_memory: resources::resident().1 }
    }
}

/// Time and memory used by an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpentResources {
    /// Wall-clock time.
    pub(crate) time: Duration,
    /// Peak memory of the process, in bytes.
    pub(crate) peak_memory: u64,
}

impl Drop for ProgressMeter {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            // If the display panicked, that was printed; only the operation counts.
            let _ = thread.join();
        }
        if let Some(shortage) = threads::shortage().filter(|_| self.talks) {
            say(format_args!("packfs: note: worked with {shortage}"));
        }
    }
}

enum MeterDisplay {
    Live(ProgressBar),
    Plain,
    /// Numbers on standard output.
    Percentage {
        out: RemarkWriter,
        /// The number printed last.
        last: Option<u64>,
    },
}

impl MeterDisplay {
    fn live() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        MeterDisplay::Live(bar)
    }

    fn show(&mut self, now: &ProgressSnapshot) {
        match self {
            MeterDisplay::Live(bar) => {
                // First; otherwise the bar is drawn in its default style.
                let columns = columns();
                let bar_columns = bar_columns(columns);
                bar.set_style(now.style(bar_columns));
                bar.set_prefix(now.phase());
                bar.set_message(now.describe(columns.saturating_sub(now.phase().len() + 1 + bar_columns.max(2))));
                match now.share() {
                    None => bar.unset_length(),
                    Some((done, total)) => {
                        bar.set_length(total);
                        bar.set_position(done);
                    }
                }
                bar.tick();
            }
            MeterDisplay::Percentage { out, last } => {
                let Some((done, total)) = now.share() else { return };
                let percent = done.min(total).saturating_mul(100) / total.max(1);
                if last.is_none_or(|last| percent > last) {
                    *last = Some(percent);
                    print_line(out, percent);
                }
            }
            MeterDisplay::Plain => say(format_args!("packfs: {}: {}", now.phase(), now.describe(usize::MAX))),
        }
    }

    fn end(&mut self, now: &ProgressSnapshot) {
        match self {
            MeterDisplay::Live(bar) => bar.finish_and_clear(),
            MeterDisplay::Percentage { .. } => {
                self.show(now);
                // Without any data there is no share.
                if let MeterDisplay::Percentage { out, last: None } = self
                    && !matches!(now.phase, Phase::Scan)
                {
                    print_line(out, 100);
                }
            }
            MeterDisplay::Plain => {}
        }
    }
}

/// Prints a number at once. Remarks have no errors.
fn print_line(out: &mut RemarkWriter, percent: u64) {
    let _ = writeln!(out, "{percent}");
    let _ = out.flush();
}

/// Number of columns of the bar with its brackets and a space: none on a narrow terminal, which has room for figures only.
pub(super) fn bar_columns(columns: usize) -> usize {
    if columns < NARROW { 0 } else { "[] ".len() + 12 }
}

/// Returns the style of a line with a bar of so many columns, [`bar_columns`].
pub(super) fn bar_style(bar_columns: usize) -> ProgressStyle {
    let template = match bar_columns.saturating_sub("[] ".len()) {
        0 => "{prefix} {wide_msg}".into(),
        width => format!("{{prefix}} [{{bar:{width}}}] {{wide_msg}}"),
    };
    ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}

/// Returns the number of columns of the terminal.
pub(super) fn columns() -> usize {
    rustix::termios::tcgetwinsize(stderr())
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|n| *n > 0)
        .unwrap_or(COLUMNS)
}

/// The counters at one moment.
#[derive(Debug)]
struct ProgressSnapshot {
    phase: Phase,
    entries: u64,
    entries_total: u64,
    total: u64,
    done: u64,
    saved: u64,
    packed: u64,
    written: u64,
    /// Bytes of each file, if the operation spans several.
    files: Vec<u64>,
    elapsed: Duration,
    resident: u64,
}

impl ProgressSnapshot {
    fn take(progress: &Progress, begun: Instant) -> Self {
        ProgressSnapshot {
            phase: progress.phase(),
            entries: progress.entries.load(Relaxed),
            entries_total: progress.entries_total.load(Relaxed),
            total: progress.total.load(Relaxed),
            done: progress.done.load(Relaxed),
            saved: progress.saved.load(Relaxed),
            packed: progress.packed.load(Relaxed),
            written: progress.written.load(Relaxed),
            files: progress.files.bytes(),
            elapsed: begun.elapsed(),
            resident: resources::resident().0,
        }
    }

    fn style(&self, bar_columns: usize) -> ProgressStyle {
        match self.share() {
            Some(_) => bar_style(bar_columns),
            None => ProgressStyle::with_template("{prefix} {spinner} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
        }
    }

    fn phase(&self) -> &'static str {
        match self.phase {
            Phase::Scan => "scanning",
            Phase::Data => "packing",
            Phase::Metadata => "writing metadata",
            Phase::Flush => "flushing to disk",
            Phase::Read => "reading",
            _ => "finishing",
        }
    }

    /// Returns how much of everything is done, in bytes or, if their total is unknown, in entries.
    fn share(&self) -> Option<(u64, u64)> {
        match self.phase {
            Phase::Scan => None,
            _ if self.total > 0 => Some((self.done, self.total)),
            _ => self.share_of_entries(),
        }
    }

    fn share_of_entries(&self) -> Option<(u64, u64)> {
        // Additional names of files are entries too, and are not in the total.
        (self.entries_total > 0).then(|| (self.entries, self.entries_total.max(self.entries)))
    }

    /// Formats the known figures, most interesting first, as far as `columns` allow.
    fn describe(&self, columns: usize) -> String {
        let mut parts = Vec::new();
        if let Some((entries, total)) = self.share_of_entries().filter(|_| self.total == 0) {
            parts.push(format!("{} of {}", units::count(entries), units::of(total, "entry")));
        } else if matches!(self.phase, Phase::Scan) {
            parts.push(units::of(self.entries, "entry"));
        }
        if self.done > 0 {
            parts.push(match self.total {
                0 => units::bytes(self.done),
                total => format!("{} of {}", units::bytes(self.done), units::bytes(total)),
            });
        }
        if let Some(left) = self.remaining() {
            parts.push(format!("{} left", units::span(left)));
        }
        if self.files.len() > 1 {
            let speeds: Vec<_> = self.files.iter().map(|bytes| units::per_second(*bytes, self.elapsed)).collect();
            parts.push(format!("parts {}/s", units::sum(&speeds)));
        }
        if self.done > 0 {
            parts.push(units::speed(self.done, self.elapsed));
        }
        if self.packed > 0 && self.written > 0 {
            parts.push(format!("ratio {:.2}", units::ratio(self.packed, self.written)));
        }
        if self.saved > 0 {
            parts.push(format!("{} saved", units::bytes(self.saved)));
        }
        if self.resident > 0 {
            parts.push(format!("{} memory", units::bytes(self.resident)));
        }
        join_fitting(&parts, columns)
    }

    /// Estimates the remaining time from the speed so far; not in the first second.
    fn remaining(&self) -> Option<Duration> {
        let (done, total) = self.share().filter(|(done, total)| *done > 0 && done < total)?;
        if self.elapsed < Duration::from_secs(1) {
            return None;
        }
        let seconds = u128::from(total - done) * self.elapsed.as_millis() / u128::from(done) / 1000;
        Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX)))
    }
}

/// Joins the parts that fit, separated by commas: parts that do not fit are dropped rather than cut.
pub(super) fn join_fitting(parts: &[String], columns: usize) -> String {
    let mut line = String::new();
    for part in parts {
        let separator = if line.is_empty() { "" } else { ", " };
        if line.len() + separator.len() + part.len() <= columns {
            line.push_str(separator);
            line.push_str(part);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(phase: Phase) -> ProgressSnapshot {
        ProgressSnapshot {
            phase,
            entries: 7300,
            entries_total: 0,
            total: 0,
            done: 0,
            saved: 0,
            packed: 0,
            written: 0,
            files: Vec::new(),
            elapsed: Duration::from_secs(10),
            resident: 0,
        }
    }

    #[test]
    fn a_line_shows_only_known_figures() {
        let scan = snapshot(Phase::Scan);
        assert_eq!((scan.phase(), scan.describe(80)), ("scanning", "7,300 entries".into()));
        let data = ProgressSnapshot {
            total: 100 << 20,
            done: 50 << 20,
            saved: 10 << 20,
            packed: 40 << 20,
            written: 16 << 20,
            resident: 30 << 20,
            ..snapshot(Phase::Data)
        };
        assert_eq!(data.describe(80), "50.0 MiB of 100 MiB, 10 s left, 5.00 MiB/s, ratio 2.50, 10.0 MiB saved");
        assert_eq!(data.describe(usize::MAX), format!("{}, 30.0 MiB memory", data.describe(80)));
        // A terminal of 40 columns has no bar, but the time left.
        assert_eq!((bar_columns(40), data.describe(32)), (0, "50.0 MiB of 100 MiB, 10 s left".into()));
        assert_eq!(data.describe(26), "50.0 MiB of 100 MiB");
        let stream = ProgressSnapshot { done: 1 << 20, ..snapshot(Phase::Data) };
        assert_eq!(stream.describe(80), "1.00 MiB, 102 KiB/s");
        let extracting = ProgressSnapshot { entries_total: 14_600, done: 1 << 20, ..snapshot(Phase::Read) };
        assert_eq!(extracting.describe(80), "7,300 of 14,600 entries, 1.00 MiB, 10 s left, 102 KiB/s");
        // If the number of entries is unknown, there is no bar.
        let some = ProgressSnapshot { done: 1 << 20, ..snapshot(Phase::Read) };
        assert_eq!((some.share(), some.remaining()), (None, None));
        let split = ProgressSnapshot {
            total: 40 << 20,
            done: 20 << 20,
            files: vec![10 << 20, 5 << 20],
            resident: 3 << 20,
            ..snapshot(Phase::Data)
        };
        let line = "20.0 MiB of 40.0 MiB, 10 s left, parts 1.00 + 0.50 MiB/s, 2.00 MiB/s";
        assert_eq!(split.describe(80), line);
        // The speed of each disk is worth more than that of all.
        assert_eq!(split.describe(58), line.replace(", 2.00 MiB/s", ""));
        // A figure that fits is shown even if a longer one before it does not.
        let many = ProgressSnapshot { files: vec![1 << 20; 16], ..split };
        assert_eq!(many.describe(58), "20.0 MiB of 40.0 MiB, 10 s left, 2.00 MiB/s");
    }

    #[test]
    fn a_meter_ends_at_once_when_dropped() {
        let meter = ProgressMeter::start(false);
        Progress::add(&meter.progress().done, 1);
        let begun = Instant::now();
        drop(meter);
        assert!(begun.elapsed() < FIRST_PLAIN_LINE / 2);
    }
}
