//! Live progress of steps whose share of the work is known: a bar on a terminal, nothing elsewhere.

use std::fmt::Display;
use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::meter::{bar_width, columns};
use super::say;

/// Resolution of the bar, in steps.
const PARTS: u64 = 1000;

/// The display of one operation.
#[derive(Debug)]
pub(crate) struct Steps(Option<ProgressBar>);

impl Steps {
    /// Makes a display that names the operation, unless `quiet`.
    pub(crate) fn new(doing: &'static str, quiet: bool) -> Self {
        let live = stderr().is_terminal() && !quiet;
        Steps(live.then(|| {
            let bar = ProgressBar::with_draw_target(Some(PARTS), ProgressDrawTarget::stderr());
            let width = bar_width(columns());
            let template = format!("{{prefix}} [{{bar:{width}}}] {{percent}} %, {{elapsed}}{{wide_msg}}");
            let style = ProgressStyle::with_template(&template);
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ");
            bar.with_style(style).with_prefix(doing)
        }))
    }

    /// Shows the share of work that is done, and the next step.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1")]
    pub(crate) fn show(&self, done: f64, next: impl Display) {
        let Some(bar) = &self.0 else { return };
        bar.set_position((done * PARTS as f64) as u64);
        bar.set_message(format!(", {next}"));
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
