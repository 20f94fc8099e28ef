//! Signals that would end the program, for operations that would leave something behind: a message before the end, or a
//! clean end.

use std::process;
use std::sync::{Arc, mpsc};

use packfs_blocks::{Progress, threads};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::say;

/// Returns the signals that would end the program, except those ignored since its start, as by `nohup`.
pub(crate) fn ending_signals() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

/// Makes the first signal that would end the program print `word` before it does. This holds as
/// long as the program runs; if no thread can be started for it, signals end the program without a
/// message.
pub(crate) fn explain_end(word: String) {
    start_waiting(move |mut signals| {
        if let Some(signal) = signals.forever().next() {
            say(format_args!("packfs: interrupted: {word}"));
            end_by(signal);
        }
    });
}

/// Makes the first signal that would end the program cancel an operation, which then removes what it has written. The
/// second one ends the program at once, and so does the first if no thread can be started to wait for it.
pub(crate) fn cancel_on_signal(progress: &Arc<Progress>) {
    let progress = Arc::clone(progress);
    start_waiting(move |mut signals| {
        let mut signals = signals.forever();
        if signals.next().is_some() {
            progress.cancel();
        }
        if let Some(signal) = signals.next() {
            end_by(signal);
        }
    });
}

/// Starts a thread that waits for signals, and returns once they reach it: what is begun afterwards is cleaned up. The
/// thread registers for them itself: without it, they would be ignored.
fn start_waiting(wait: impl FnOnce(Signals) + Send + 'static) {
    let (registered, registration) = mpsc::channel::<()>();
    let work = move || {
        if let Ok(signals) = Signals::new(ending_signals()) {
            drop(registered);
            wait(signals);
        }
    };
    let _ = threads::named("packfs-signals").start(work);
    // It ends when the sender is dropped, which a thread that cannot start does too.
    let _ = registration.recv();
}

fn end_by(signal: i32) -> ! {
    // It returns only if the signal cannot be sent.
    let _ = emulate_default_handler(signal);
    process::abort()
}
