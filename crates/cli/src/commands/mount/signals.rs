//! Signals that would end the program unmount first.

use std::path::Path;
use std::process;

use packfs_blocks::threads;
use packfs_mount::{Error, UnmountMode, unmount};
use signal_hook::iterator::Signals;

use crate::output::interrupt::ending_signals;

/// Signals that would end the program, from now on kept until [`unmount_on`] reacts: one that comes as soon as the mount
/// is seen would otherwise leave it without anyone who serves it.
pub(super) fn hold() -> Option<Signals> {
    Signals::new(ending_signals()).ok()
}

/// Unmounts `place` when a signal comes; serving then ends. Programs that still use the mount do not keep this one
/// alive: the mount is detached, and the program ends.
pub(super) fn unmount_on(signals: Option<Signals>, place: Option<&Path>) {
    let Some(mut signals) = signals else { return };
    let place = place.map(Path::to_owned);
    let wait = move || {
        for _ in signals.forever() {
            let Some(place) = &place else { process::exit(0) };
            match unmount(place, UnmountMode::Now) {
                // Serving ends by itself, as it does where somebody else was faster.
                Ok(()) | Err(Error::Place { .. }) => {}
                Err(_) => {
                    let _ = unmount(place, UnmountMode::Detach);
                    process::exit(0);
                }
            }
        }
    };
    let _ = threads::named("packfs-signals").start(wait);
}
