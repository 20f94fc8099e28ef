//! The loop that takes connections, of HTTP and of NBD, and its end.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use packfs_blocks::threads::ThreadStarter;
use rustix::net::{Shutdown, shutdown};

use crate::slots::{ConnectionSlot, ConnectionSlots};

/// Time to wait if the system has no room for another connection: short for clients, long enough not to spin.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes connections until [`stop_serving`], and serves each in a thread of its own.
pub(crate) fn serve_connections<Stream: AsFd + Send + Sync + 'static>(
    slots: &Arc<ConnectionSlots<Stream>>,
    accept: impl Fn() -> io::Result<Stream>,
    starter: &ThreadStarter,
    serve: impl FnOnce(ConnectionSlot<Stream>) + Clone + Send + 'static,
) {
    while !slots.is_stopped() {
        match accept() {
            Ok(stream) => {
                let Some(slot) = slots.enter(stream) else { continue };
                // Without a thread the others wait until this connection ends.
                if let Err((slot, _)) = starter.clone().start_with(slot, serve.clone()) {
                    (serve.clone())(slot);
                }
            }
            Err(error) if is_over(&error) => {}
            // Out of descriptors, or of memory: some will be free soon.
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

/// Returns true if a connection ended before it was taken, or no more are to be taken.
fn is_over(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, InvalidInput};
    matches!(error.kind(), ConnectionAborted | Interrupted | InvalidInput)
}

/// Ends all connections; [`serve_connections`] returns.
pub(crate) fn stop_serving<Stream: AsFd>(slots: &ConnectionSlots<Stream>, listener: impl AsFd) {
    slots.stop();
    // Wakes the thread that waits for a connection, with an error; closing the socket would not. Connecting to it would
    // take a descriptor, and there may be none.
    let _ = shutdown(listener, Shutdown::Both);
}
