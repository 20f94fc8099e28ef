//! Destination of messages while an image is served: a file, standard error, or the system's log once nobody looks at
//! standard error any more.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use packfs_image::name::display;

use crate::output::say;

/// Socket of the system's log.
const SYSLOG: &str = "/dev/log";
/// Facility and severity of messages: an error of a daemon.
const PRIORITY: u8 = 3 << 3 | 3;

/// Takes messages; clones are the same log.
#[derive(Debug, Clone)]
pub(super) struct MessageLog {
    file: Option<Arc<File>>,
    in_background: Arc<AtomicBool>,
}

impl MessageLog {
    /// Opens a log that goes to the end of a file, if one is named.
    pub(super) fn open(path: Option<&Path>) -> Result<MessageLog> {
        let open = |path: &Path| {
            let file = OpenOptions::new().append(true).create(true).open(path);
            file.with_context(|| format!("{}: cannot open", display(path)))
        };
        Ok(MessageLog { file: path.map(open).transpose()?.map(Arc::new), in_background: Arc::default() })
    }

    /// Nobody reads standard error from now on.
    pub(super) fn leave_terminal(&self) {
        self.in_background.store(true, Ordering::Relaxed);
    }

    /// Writes a line. Errors are ignored: there is nobody to tell.
    pub(super) fn write(&self, line: &str) {
        if let Some(file) = &self.file {
            // Lines may hold names from an image, whose control characters could forge other lines.
            let line: String = line.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
            let _ = (&**file).write_all(format!("packfs: {line}\n").as_bytes());
        } else if self.in_background.load(Ordering::Relaxed) {
            let message = format!("<{PRIORITY}>packfs[{}]: {line}", process::id());
            let _ = UnixDatagram::unbound().and_then(|socket| socket.send_to(message.as_bytes(), SYSLOG));
        } else {
            say(format_args!("packfs: {line}"));
        }
    }
}
