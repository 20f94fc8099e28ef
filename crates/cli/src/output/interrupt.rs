//! Prints a message before a signal ends the program, for operations that leave something behind.

use std::process;

use packfs_blocks::threads;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::say;

/// Returns the signals that would end the program, except those ignored since its start, as by `nohup`.
pub(crate) fn heeded() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

/// Makes the first signal that would end the program print `word` before it does. This holds as
/// long as the program runs; if no thread can be started for it, signals end the program without a
/// message.
pub(crate) fn explain(word: String) {
    let Ok(mut signals) = Signals::new(heeded()) else { return };
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            say(format_args!("packfs: interrupted: {word}"));
            // It does not return.
            let _ = emulate_default_handler(signal);
            process::abort();
        }
    };
    let _ = threads::named("packfs-signals").start(wait);
}
