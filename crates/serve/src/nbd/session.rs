//! One client from its first byte to its last.

use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use packfs_blocks::trouble::{LineReceiver, TroubleReporter};

use super::exports::{ExportList, NbdExport};
use super::handshake::negotiate;
use super::stream::{ClientStream, DeadlineStream, ReplyWriter, RequestReader};
use super::transmission::transmit;

/// Time for the whole handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Bytes of requests to read at once: more than a hundred of them.
const REQUESTS: usize = 4096;

/// Serves a client until it leaves or does what the protocol forbids.
pub(super) fn serve(
    exports: &ExportList,
    stream: &ClientStream,
    threads: usize,
    trouble: &TroubleReporter,
) -> io::Result<()> {
    stream.send_at_once();
    let mut timed = DeadlineStream { stream, deadline: Instant::now() + HANDSHAKE_TIME };
    let Some(agreed) = negotiate(exports, &mut timed)? else { return Ok(()) };
    let mut requests = BufReader::with_capacity(REQUESTS, RequestReader::new(stream)?);
    transmit(agreed, &mut requests, ReplyWriter(stream), threads, trouble, &|| stream.hang_up())
}

/// Talks with a client whose bytes are all known, for tests and fuzzing: one thread, no time.
#[doc(hidden)]
pub fn converse(exports: Vec<NbdExport>, sent: &[u8], report: Option<LineReceiver>) -> Vec<u8> {
    struct ScriptedClient<'b>(&'b [u8], Vec<u8>);
    impl Read for ScriptedClient<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.read(buf)
        }
    }
    impl Write for ScriptedClient<'_> {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.1.write(buf)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let exports = Arc::new(ExportList::new(exports));
    let trouble = TroubleReporter::new(report);
    let mut known = ScriptedClient(sent, Vec::new());
    if let Ok(Some(agreed)) = negotiate(&exports, &mut known) {
        // The client hears nothing of an error: it finds the connection closed.
        let _ = transmit(agreed, &mut known.0, &mut known.1, 0, &trouble, &|| {});
    }
    known.1
}
