//! Live progress of steps whose share of the work is known: a bar on a terminal, nothing elsewhere.

use std::fmt::Display;
use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressDrawTarget};

use super::meter::{bar_columns, bar_style, columns, join_fitting};
use super::say;

/// Resolution of the bar, in steps.
const PARTS: u64 = 1000;
/// Number of columns of the next step that are worth showing.
const LEAST: usize = 12;

/// The display of one operation.
#[derive(Debug)]
pub(crate) struct StepDisplay(Option<ProgressBar>);

impl StepDisplay {
    /// Makes a display that names the operation, unless `quiet`.
    pub(crate) fn new(doing: &'static str, quiet: bool) -> Self {
        let live = stderr().is_terminal() && !quiet;
        StepDisplay(live.then(|| {
            let bar = ProgressBar::with_draw_target(Some(PARTS), ProgressDrawTarget::stderr());
            bar.with_style(bar_style(bar_columns(columns()))).with_prefix(doing)
        }))
    }

    /// Shows the share of work that is done, further figures, and the next step, as far as the line allows.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1")]
    pub(crate) fn show(&self, done: f64, figures: &[String], next: impl Display) {
        let Some(bar) = &self.0 else { return };
        // The width of the terminal may have changed.
        let bar_columns = bar_columns(columns());
        let columns = columns();
        bar.set_style(bar_style(bar_columns));
        let room = columns.saturating_sub(bar.prefix().len() + 1 + bar_columns);
        bar.set_message(step_line(done, figures, &next.to_string(), room));
        bar.set_position((done * PARTS as f64) as u64);
    }

    /// Returns true on a terminal.
    pub(crate) fn is_live(&self) -> bool {
        self.0.is_some()
    }

    /// Prints a line beside it.
    pub(crate) fn say(&self, line: impl Display) {
        match &self.0 {
            Some(bar) => bar.suspend(|| say(line)),
            None => say(line),
        }
    }

    /// Clears it.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Formats the share of work that is done, the figures that fit, and the next step, cut between words.
fn step_line(done: f64, figures: &[String], next: &str, columns: usize) -> String {
    let percent = format!("{:.0} %", (100.0 * done).floor());
    let mut line = join_fitting(&[&[percent], figures].concat(), columns);
    let room = columns.saturating_sub(line.len() + ", ".len());
    if next.len() <= room {
        return line + ", " + next;
    }
    let end = next.char_indices().rfind(|(at, c)| *c == ' ' && at + "...".len() <= room);
    // One word of it tells nothing.
    if let Some((end, _)) = end.filter(|(end, _)| *end >= LEAST) {
        line = line + ", " + next[..end].trim_end_matches([',', ':']) + "...";
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_between_words_and_never_in_a_number() {
        let figures = ["4 min 12 s left".to_owned(), "3 of 576 done".to_owned()];
        let shown = |columns| step_line(0.126, &figures, "run 1: lz4 on usr, blocks of 128K", columns);
        assert_eq!(shown(80), "12 %, 4 min 12 s left, 3 of 576 done, run 1: lz4 on usr, blocks of 128K");
        assert_eq!(shown(64), "12 %, 4 min 12 s left, 3 of 576 done, run 1: lz4 on usr...");
        // 40 columns without "measuring ".
        assert_eq!(shown(30), "12 %, 4 min 12 s left");
        assert_eq!(shown(3), "");
        assert!((0..80).all(|columns| shown(columns).len() <= columns));
    }
}
