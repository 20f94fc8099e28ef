//! Responses, and how they go out: with a length, in parts, or in chunks.

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use packfs_blocks::ReadAt;

use super::condition::{ConditionOutcome, ContentVersion};
use super::date;
use super::range::{self, RangeSelection};
use super::request::{HttpRequest, RequestRefusal, SendMode};

/// Bytes that are read and sent at a time: the most that a response holds in memory. Not measured.
const PIECE: u64 = 256 << 10;
/// Bytes of a chunk: its frame of some ten bytes is then nothing beside it. Not measured.
const CHUNK: usize = 64 << 10;

/// An answer to a request.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    headers: Vec<(&'static str, String)>,
    body: ResponseBody,
}

/// Writes a body of unknown length.
pub(crate) type BodyWriter = Box<dyn FnOnce(&mut dyn Write) -> Result<(), crate::Error>>;

/// The bytes after the head.
enum ResponseBody {
    Bytes(Vec<u8>),
    /// Ranges of a source, each after a text, and a text at the end.
    Slices {
        source: Arc<dyn ReadAt>,
        slices: Vec<(String, Range<u64>)>,
        end: String,
    },
    Stream(BodyWriter),
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResponseBody::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            ResponseBody::Slices { slices, .. } => write!(f, "{slices:?}"),
            ResponseBody::Stream(_) => f.write_str("stream"),
        }
    }
}

/// Reason why a response was not sent completely.
#[derive(Debug)]
pub(crate) enum SendFailure {
    /// The client is gone, or too slow.
    Client,
    /// The served object cannot be read. If nothing was sent yet, another response can be.
    Content { error: crate::Error, begun: bool },
}

impl HttpResponse {
    /// Makes a response with a body in memory.
    pub(crate) fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> HttpResponse {
        HttpResponse { status, headers: Vec::new(), body: ResponseBody::Bytes(body.into()) }
            .with("Content-Type", content_type)
    }

    /// Makes a response that says in a line why there is no other.
    pub(crate) fn refuse(status: u16, why: &str) -> HttpResponse {
        let response = HttpResponse::new(
            status,
            "text/plain; charset=utf-8",
            format!("{status} {}: {why}\n", reason_phrase(status)),
        );
        if status == 405 { response.with("Allow", "GET, HEAD") } else { response }
    }

    /// Makes a response whose length shows only at its end.
    pub(crate) fn stream(content_type: &str, stream: BodyWriter) -> HttpResponse {
        HttpResponse { status: 200, headers: Vec::new(), body: ResponseBody::Stream(stream) }
            .with("Content-Type", content_type)
    }

    /// Makes the response that a request gets of a source: all of it, ranges, or none if its conditions say so.
    pub(crate) fn for_source(
        request: &HttpRequest,
        source: Arc<dyn ReadAt>,
        content_type: &str,
        version: &ContentVersion,
    ) -> HttpResponse {
        let len = source.len();
        // `If-Range` first: a range of another version is no range.
        let wanted = match request.header("range").filter(|_| version.allows_range(request)) {
            Some(header) => range::parse(header, len),
            None => RangeSelection::Whole,
        };
        let slices = |slices, end| ResponseBody::Slices { source, slices, end };
        let response = |status, body| HttpResponse { status, headers: Vec::new(), body };
        // Conditions come before ranges (RFC 9110, section 13.2.2).
        let response = match (version.judge(request), wanted) {
            (ConditionOutcome::NotModified, _) => response(304, ResponseBody::Bytes(Vec::new())),
            (ConditionOutcome::Failed, _) => HttpResponse::refuse(412, "it is another version now"),
            (ConditionOutcome::Send, RangeSelection::Unsatisfiable) => {
                let refused = HttpResponse::refuse(416, &format!("there are {len} bytes"));
                refused.with("Content-Range", format!("bytes */{len}"))
            }
            (ConditionOutcome::Send, RangeSelection::Whole) => {
                let all = response(200, slices(vec![(String::new(), 0..len)], String::new()));
                all.with("Content-Type", content_type)
            }
            (ConditionOutcome::Send, RangeSelection::Parts(parts)) => match parts.as_slice() {
                [part] => {
                    let one = response(206, slices(vec![(String::new(), part.clone())], String::new()));
                    one.with("Content-Type", content_type).with("Content-Range", content_range(part, len))
                }
                parts => {
                    let boundary = make_boundary(&version.etag);
                    let head = |part| {
                        let place = content_range(part, len);
                        format!("\r\n--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: {place}\r\n\r\n")
                    };
                    let parts = parts.iter().map(|part| (head(part), part.clone())).collect();
                    let several = response(206, slices(parts, format!("\r\n--{boundary}--\r\n")));
                    several.with("Content-Type", format!("multipart/byteranges; boundary={boundary}"))
                }
            },
        };
        let response = response.with("ETag", &version.etag).with("Accept-Ranges", "bytes");
        match &version.modified {
            Some(modified) => response.with("Last-Modified", modified),
            None => response,
        }
    }

    /// Adds a header, unless its value has control characters.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> HttpResponse {
        let value = value.into();
        // File names reach headers, and a newline in one would add headers of its own.
        if !value.bytes().any(|byte| byte.is_ascii_control()) {
            self.headers.push((name, value));
        }
        self
    }

    /// Sends it; returns whether the connection can be used again.
    pub(crate) fn send(self, mode: SendMode, out: &mut dyn Write) -> Result<bool, SendFailure> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason_phrase(self.status));
        let mut put = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
        for (name, value) in &self.headers {
            put(name, value);
        }
        let len = self.body.len();
        match len {
            // A length here would be taken for that of the 200 (RFC 9110, section 8.6).
            Some(_) if self.status == 304 => {}
            Some(len) => put("Content-Length", &len.to_string()),
            // HTTP/1.0 knows no chunks: there, the end of the connection ends the body.
            None if mode.is_1_1 => put("Transfer-Encoding", "chunked"),
            None => {}
        }
        let keep = mode.keep && (len.is_some() || mode.is_1_1);
        if !keep {
            put("Connection", "close");
        }
        if let Some(date) = current_date() {
            put("Date", &date);
        }
        head.push_str("\r\n");
        self.body.send(head, mode, out)?;
        Ok(keep)
    }
}

impl ResponseBody {
    /// Returns its length if that is known.
    fn len(&self) -> Option<u64> {
        match self {
            ResponseBody::Bytes(bytes) => Some(bytes.len() as u64),
            ResponseBody::Slices { slices, end, .. } => {
                let lens = slices.iter().map(|(before, range)| before.len() as u64 + (range.end - range.start));
                // No overflow: all ranges lie in one source and do not overlap, so headers are all that is added.
                Some(lens.sum::<u64>() + end.len() as u64)
            }
            ResponseBody::Stream(_) => None,
        }
    }

    /// Sends the head and, unless only that is wanted, the body. Contents are read before the head goes out, so that a
    /// damaged file gets a status that says so, and `HEAD` gets the status of `GET`.
    fn send(self, head: String, mode: SendMode, out: &mut dyn Write) -> Result<(), SendFailure> {
        let mut head = head.into_bytes();
        match self {
            ResponseBody::Bytes(bytes) => {
                if !mode.head_only {
                    head.extend_from_slice(&bytes);
                }
                out.write_all(&head).map_err(|_| SendFailure::Client)
            }
            ResponseBody::Slices { source, slices, end } => send_slices(&*source, &slices, &end, head, mode, out),
            // Writing a whole archive to learn that it cannot be read would cost too much for a HEAD.
            ResponseBody::Stream(_) if mode.head_only => out.write_all(&head).map_err(|_| SendFailure::Client),
            ResponseBody::Stream(stream) => {
                let mut chunks =
                    ChunkWriter { out, head, pending: Vec::new(), chunked: mode.is_1_1, begun: false, gone: false };
                let written = stream(&mut chunks);
                let ended = written.map(|()| chunks.end());
                match ended {
                    Err(error) if !chunks.gone => Err(SendFailure::Content { error, begun: chunks.begun }),
                    Ok(Ok(())) => Ok(()),
                    _ => Err(SendFailure::Client),
                }
            }
        }
    }
}

fn send_slices(
    source: &dyn ReadAt,
    slices: &[(String, Range<u64>)],
    end: &str,
    head: Vec<u8>,
    mode: SendMode,
    out: &mut dyn Write,
) -> Result<(), SendFailure> {
    let mut out_buf = head;
    let mut begun = false;
    for (before, range) in slices {
        out_buf.extend_from_slice(before.as_bytes());
        let mut at = range.start;
        // Announced in full, so that a remote source requests it in large parts.
        if !mode.head_only {
            source.will_read(range.clone());
        }
        while at < range.end {
            let len = (range.end - at).min(PIECE);
            let from = out_buf.len();
            out_buf.resize(from + usize::try_from(len).unwrap_or(0), 0);
            // Before each piece: once the image changes, nothing more is sent of it.
            let read = source.check_unchanged().and_then(|()| source.read_exact_at(&mut out_buf[from..], at));
            read.map_err(|error| SendFailure::Content { error: error.into(), begun })?;
            // The first piece was read for the status alone.
            if mode.head_only {
                out_buf.truncate(from);
                return out.write_all(&out_buf).map_err(|_| SendFailure::Client);
            }
            out.write_all(&out_buf).map_err(|_| SendFailure::Client)?;
            begun = true;
            at += len;
            out_buf.clear();
        }
    }
    out_buf.extend_from_slice(end.as_bytes());
    out.write_all(&out_buf).map_err(|_| SendFailure::Client)
}

/// Writes a body as it comes. The head waits for the first bytes.
struct ChunkWriter<'o> {
    out: &'o mut dyn Write,
    head: Vec<u8>,
    pending: Vec<u8>,
    chunked: bool,
    begun: bool,
    /// Kept apart from the errors of the content, which come through the same call.
    gone: bool,
}

impl ChunkWriter<'_> {
    fn put(&mut self) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.head);
        // An empty chunk would end the body.
        let end = if self.chunked && !self.pending.is_empty() {
            bytes.extend_from_slice(format!("{:x}\r\n", self.pending.len()).as_bytes());
            "\r\n"
        } else {
            ""
        };
        bytes.append(&mut self.pending);
        bytes.extend_from_slice(end.as_bytes());
        self.begun = true;
        self.out.write_all(&bytes)
    }

    fn end(&mut self) -> io::Result<()> {
        self.put()?;
        if self.chunked { self.out.write_all(b"0\r\n\r\n") } else { Ok(()) }
    }
}

impl Write for ChunkWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(CHUNK - self.pending.len());
        self.pending.extend_from_slice(&bytes[..len]);
        if self.pending.len() == CHUNK
            && let Err(error) = self.put()
        {
            // The error comes back through the writer of the content, which cannot tell it from its own.
            self.gone = true;
            return Err(error);
        }
        Ok(len)
    }

    /// Bytes wait until there are enough for a chunk.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<RequestRefusal> for HttpResponse {
    fn from(RequestRefusal(status, why): RequestRefusal) -> Self {
        HttpResponse::refuse(status, why)
    }
}

fn content_range(range: &Range<u64>, len: u64) -> String {
    // Ranges are never empty, so there is a last byte.
    format!("bytes {}-{}/{len}", range.start, range.end - 1)
}

/// Returns a line that separates parts. It is another one each time, so that nobody can pack it into a file.
fn make_boundary(etag: &str) -> String {
    let name: String = etag.chars().filter(char::is_ascii_alphanumeric).collect();
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("packfs{nanos:x}{}", name.get(..16).unwrap_or(&name))
}

fn current_date() -> Option<String> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    date::format(i64::try_from(since.as_secs()).ok()?)
}

fn reason_phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        301 => "Moved Permanently",
        303 => "See Other",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        416 => "Range Not Satisfiable",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}
