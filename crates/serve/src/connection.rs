//! A connection: requests come in one after the other, each gets its response.
//!
//! Every step has a deadline, so that a client that sends or takes a byte a minute keeps no place.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use crate::http::request::{HEAD_MAX, HttpRequest, RequestRefusal, SendMode};
use crate::http::response::{HttpResponse, SendFailure};
use crate::routes::RoutedAnswer;
use crate::server::HttpServerState;
use crate::slots::ConnectionSlot;

/// Time for the head of a request, from its first byte on or since the connection was made. Not measured; a head is one
/// packet.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Time that a connection may stay unused between two requests.
const IDLE_TIME: Duration = Duration::from_secs(15);
/// Time for a piece of a response. Pieces have at most a few hundred KiB, so even a slow line manages one.
const PIECE_TIME: Duration = Duration::from_secs(60);
/// Bytes to read and forget after a refusal: closing a connection with unread bytes would take the answer away from
/// the client.
const FORGET: usize = 64 << 10;

/// State of a connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterAnswer {
    /// Another request may come.
    Open,
    /// The answer is complete, or the client can see that it is not.
    Ended,
    /// The answer is cut short, and nothing in it says so: only a reset does.
    CutShort,
}

/// Serves a connection until one side ends it.
pub(crate) fn serve(shared: &HttpServerState, slot: &ConnectionSlot<TcpStream>) {
    shared.metrics.connections.fetch_add(1, Relaxed);
    // Answers are written in whole pieces, which need not wait to be collected.
    let _ = slot.stream.set_nodelay(true);
    let mut out = ClientOutput { stream: &slot.stream, shared };
    let mut buffer = Vec::new();
    let mut first = true;
    loop {
        slot.set_waiting(true);
        // A first request is expected at once, another one perhaps never.
        let head = read_head(&slot.stream, &mut buffer, if first { HEAD_TIME } else { IDLE_TIME });
        slot.set_waiting(false);
        let after = match head {
            Ok(Some(request)) => answer(shared, &request, &mut out),
            Ok(None) | Err(None) => return,
            Err(Some(refusal)) => {
                if refuse(shared, refusal, &mut out) {
                    // Otherwise the system resets the connection, and the answer is lost on the way.
                    drain_unread(&slot.stream);
                }
                AfterAnswer::Ended
            }
        };
        match after {
            AfterAnswer::Open => first = false,
            AfterAnswer::Ended => {
                let _ = slot.stream.shutdown(Shutdown::Write);
                return;
            }
            AfterAnswer::CutShort => {
                // Closing then resets the connection.
                let _ = sockopt::set_socket_linger(&*slot.stream, Some(Duration::ZERO));
                return;
            }
        }
    }
}

/// Answers requests that are in memory, up to the first that is incomplete or ends the connection.
pub(crate) fn converse(shared: &HttpServerState, mut requests: &[u8], out: &mut dyn Write) {
    loop {
        let after = match HttpRequest::parse(requests) {
            Ok(Some((request, len))) => {
                requests = &requests[len..];
                answer(shared, &request, out)
            }
            Ok(None) => AfterAnswer::Ended,
            Err(refusal) => {
                refuse(shared, refusal, out);
                AfterAnswer::Ended
            }
        };
        if after != AfterAnswer::Open {
            return;
        }
    }
}

/// Says why a request is not answered; returns whether the client could be told.
fn refuse(shared: &HttpServerState, refusal: RequestRefusal, out: &mut dyn Write) -> bool {
    shared.metrics.count("other", refusal.0);
    // The request was not understood, so neither is what the client takes: the plainest answer.
    let mode = SendMode { head_only: false, is_1_1: true, keep: false };
    shared.protect(refusal.into()).send(mode, out).is_ok()
}

/// Answers a request.
fn answer(shared: &HttpServerState, request: &HttpRequest, out: &mut dyn Write) -> AfterAnswer {
    let mut mode = request.mode;
    // With many connections each ends after its answer, so that others get a turn.
    mode.keep &= !shared.slots.is_crowded();
    let RoutedAnswer { route, served, response } = match shared.access.check(request) {
        Ok(()) => shared.routes.answer(request, &shared.metrics, shared.slots.open()),
        Err(refused) => RoutedAnswer::without_image("other", Ok(refused)),
    };
    // Who reads the status wants to know whose fault it is.
    let status_of_failure = if served.is_some_and(|served| served.remote) { 502 } else { 500 };
    let fail = |error: &crate::Error| {
        let name = served.map(|served| served.name.as_str()).unwrap_or_default();
        shared.report_failure(name, request, error);
        shared.protect(HttpResponse::refuse(status_of_failure, "the image cannot be read; the server's log says why"))
    };
    let response = response.map_or_else(|error| fail(&error), |response| shared.protect(response));
    let status = response.status;
    let keep = match response.send(mode, out) {
        Ok(keep) => {
            // Counted once it is sent, when the status is certain.
            shared.metrics.count(route, status);
            keep
        }
        Err(SendFailure::Client) => {
            shared.metrics.count(route, status);
            false
        }
        Err(SendFailure::Content { error, begun: true }) => {
            // Ending the connection early is the only way to say that the rest is missing. Before HTTP/1.1 that is how
            // bodies of unknown length end.
            shared.metrics.count(route, status);
            fail(&error);
            return if mode.is_1_1 { AfterAnswer::Ended } else { AfterAnswer::CutShort };
        }
        // Nothing was sent yet, so another status can still be sent.
        Err(SendFailure::Content { error, begun: false }) => {
            shared.metrics.count(route, status_of_failure);
            fail(&error).send(mode, out).unwrap_or(false)
        }
    };
    if keep { AfterAnswer::Open } else { AfterAnswer::Ended }
}

/// Reads the head of the next request, in time; leaves what follows it in the buffer. Returns `None` if the client is
/// done, no refusal if nobody is there to be told.
fn read_head(
    stream: &TcpStream,
    buffer: &mut Vec<u8>,
    patience: Duration,
) -> Result<Option<HttpRequest>, Option<RequestRefusal>> {
    let mut deadline = Instant::now() + patience;
    // The end of a request may have come with the one before.
    let mut begun = !buffer.is_empty();
    loop {
        if let Some((request, len)) = HttpRequest::parse(buffer)? {
            buffer.drain(..len);
            return Ok(Some(request));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let mut piece = [0; 4096];
        // Never more than a head may have, as the rest would be kept in memory.
        let room = piece.len().min(HEAD_MAX - buffer.len().min(HEAD_MAX - 1));
        let mut stream = stream;
        let got = if left.is_zero() {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            stream.set_read_timeout(Some(left)).and_then(|()| stream.read(&mut piece[..room]))
        };
        match got {
            Ok(0) => return Ok(None),
            Ok(len) => buffer.extend_from_slice(&piece[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) && begun => {
                // Only if something was sent: a client that is silent expects nothing.
                return Err(Some(RequestRefusal(408, "the request took too long")));
            }
            Err(_) => return Err(None),
        }
        if !begun {
            // From the first byte on there is a new deadline, which later bytes do not move.
            begun = true;
            deadline = Instant::now() + HEAD_TIME;
        }
    }
}

/// Reads what the client still sends, for a short time.
fn drain_unread(mut stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
    let mut piece = [0; 4096];
    let mut rest = FORGET;
    while let Ok(len @ 1..) = stream.read(&mut piece) {
        rest = rest.saturating_sub(len);
        if rest == 0 {
            break;
        }
    }
}

/// The way to the client: counts bytes, and gives each piece a deadline.
struct ClientOutput<'c> {
    stream: &'c TcpStream,
    shared: &'c HttpServerState,
}

impl Write for ClientOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        // For the whole piece, so that a client that takes byte after byte gains nothing.
        let deadline = Instant::now() + PIECE_TIME;
        let mut stream = self.stream;
        while !bytes.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_write_timeout(Some(left))?;
            match stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => {
                    self.shared.metrics.bytes.fetch_add(len as u64, Relaxed);
                    bytes = bytes.get(len..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
