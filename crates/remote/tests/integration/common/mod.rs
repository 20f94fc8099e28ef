//! An HTTP server that counts requests and misbehaves as it is told.
#![allow(dead_code, unreachable_pub)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A running server; it stops with the value.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    objects: Mutex<HashMap<String, Object>>,
    requests: Mutex<Vec<Request>>,
    fault: Mutex<Fault>,
    closed: AtomicBool,
}

/// An object served under a path.
#[derive(Clone)]
pub struct Object {
    pub bytes: Arc<Vec<u8>>,
    pub etag: Option<String>,
    pub modified: Option<String>,
    /// The server's clock.
    pub date: Option<String>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
}

/// A fault: something done instead of, or with, the right answer. It is told the number of the request.
type Fault = Arc<dyn Fn(&Request, usize) -> Act + Send + Sync>;

#[derive(Debug, Clone)]
pub enum Act {
    Right,
    /// Another status, with headers and body.
    Status(u16, Vec<(&'static str, String)>, String),
    /// The right answer until so many bytes of the body are sent, then the connection is closed.
    Cut(usize),
    /// The right answer in one chunk, without the last chunk, which marks the end.
    Endless,
    /// The right headers, and then nothing for so long.
    Stall(Duration),
    /// The right headers, and then a byte each time.
    Drip(Duration),
    /// The right answer, of whose head a byte comes each time.
    DripHead(Duration),
    /// The right answer after so long.
    Late(Duration),
    /// The whole object, whatever was requested.
    Whole,
    /// The whole object without its length.
    WholeUntold,
    /// The right answer with another `Content-Range`.
    Range(&'static str),
    /// The right answer with another `Content-Length`, and a body of so many bytes.
    Length(usize),
    /// The right answer with a further header.
    Header(&'static str, &'static str),
    /// The right answer with this as its date and as that of the modification.
    Dated(String),
    /// The right answer although the condition is not met.
    Careless,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    fn range(&self, len: u64) -> Option<Range<u64>> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some(match first {
            "" => len.saturating_sub(last.parse().ok()?)..len,
            first => first.parse().ok()?..last.parse::<u64>().map_or(len, |last| len.min(last + 1)),
        })
    }
}

impl Object {
    pub fn new(bytes: Vec<u8>) -> Self {
        let etag = format!("\"{:x}-{}\"", bytes.len(), bytes.iter().map(|&b| u64::from(b)).sum::<u64>());
        let modified = Some("Mon, 23 Nov 2026 10:00:00 GMT".into());
        Object { bytes: Arc::new(bytes), etag: Some(etag), modified, date: None }
    }
}

/// Reports that a test cannot run here; an error where nothing may be skipped.
pub fn skip(test: &str, why: &str) {
    assert!(std::env::var_os("PACKFS_REQUIRE_ORACLES").is_none(), "{test}: {why}");
    eprintln!("SKIPPED {test}: {why}");
}

/// Returns bytes that look like no others.
pub fn noise(len: usize) -> Vec<u8> {
    packfs_blocks::testing::noise(len, 1)
}

impl Server {
    pub fn start() -> Self {
        Self::with(|stream| stream)
    }

    /// Starts a server that speaks through what `wrap` makes of a connection.
    pub fn with<S: Read + Write>(wrap: impl Fn(TcpStream) -> S + Send + Sync + 'static) -> Self {
        let (listener, wrap) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(wrap));
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            objects: Mutex::default(),
            requests: Mutex::default(),
            fault: Mutex::new(Arc::new(|_, _| Act::Right)),
            closed: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.closed.load(Ordering::SeqCst) {
                    break;
                }
                let shared = Arc::clone(&serving);
                let wrap = Arc::clone(&wrap);
                thread::spawn(move || {
                    let stream = stream?;
                    stream.set_nodelay(true)?;
                    shared.serve(wrap(stream))
                });
            }
        });
        Server { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn put(&self, path: &str, object: Object) {
        self.shared.objects.lock().unwrap().insert(path.into(), object);
    }

    /// Serves `bytes` under `path` and returns the address.
    pub fn give(&self, path: &str, bytes: Vec<u8>) -> String {
        self.put(path, Object::new(bytes));
        self.url(path)
    }

    pub fn misbehave(&self, fault: impl Fn(&Request, usize) -> Act + Send + Sync + 'static) {
        *self.shared.fault.lock().unwrap() = Arc::new(fault);
    }

    /// Returns the requests since the last call.
    pub fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.shared.requests.lock().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, stream: impl Read + Write) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        while let Some(request) = read(&mut reader)? {
            let number = {
                let mut requests = self.requests.lock().unwrap();
                requests.push(request.clone());
                requests.len()
            };
            let fault = Arc::clone(&self.fault.lock().unwrap());
            let act = fault(&request, number);
            if !self.answer(reader.get_mut(), &request, &act)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns true if the connection stays.
    fn answer(&self, out: &mut impl Write, request: &Request, act: &Act) -> std::io::Result<bool> {
        if let Act::Late(time) = act {
            thread::sleep(*time);
        }
        if let Act::Status(status, headers, body) = act {
            let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            write!(out, "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())?;
            return Ok(true);
        }
        let path = request.path.split('?').next().unwrap_or_default();
        let Some(object) = self.objects.lock().unwrap().get(path).cloned() else {
            write!(out, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
            return Ok(true);
        };
        let other =
            |name, have: &Option<String>| request.header(name).is_some_and(|want| Some(want) != have.as_deref());
        if !matches!(act, Act::Careless)
            && (other("if-match", &object.etag) || other("if-unmodified-since", &object.modified))
        {
            write!(out, "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n")?;
            return Ok(true);
        }
        let total = object.bytes.len() as u64;
        let range = request.range(total).filter(|_| !matches!(act, Act::Whole | Act::WholeUntold));
        if range.as_ref().is_some_and(|range| range.start >= range.end) {
            write!(out, "HTTP/1.1 416 X\r\nContent-Range: bytes */{total}\r\nContent-Length: 0\r\n\r\n")?;
            return Ok(true);
        }
        let (start, end) = range.as_ref().map_or((0, total), |range| (range.start, range.end));
        let mut body = object.bytes[usize::try_from(start).unwrap()..usize::try_from(end).unwrap()].to_vec();
        let mut head = match &range {
            None => "HTTP/1.1 200 OK\r\n".to_owned(),
            Some(_) => {
                let said = format!("bytes {start}-{}/{total}", end - 1);
                let said = if let Act::Range(other) = act { other } else { said.as_str() };
                format!("HTTP/1.1 206 Partial Content\r\nContent-Range: {said}\r\n")
            }
        };
        for (name, value) in [("ETag", &object.etag), ("Last-Modified", &object.modified), ("Date", &object.date)] {
            value.iter().for_each(|value| head.push_str(&format!("{name}: {value}\r\n")));
        }
        let mut close = false;
        match act {
            Act::Length(len) => body.resize(*len, 0),
            Act::Header(name, value) => head.push_str(&format!("{name}: {value}\r\n")),
            Act::Dated(date) => head.push_str(&format!("Date: {date}\r\nLast-Modified: {date}\r\n")),
            Act::WholeUntold => close = true,
            _ => {}
        }
        if matches!(act, Act::Endless) {
            head.push_str("Transfer-Encoding: chunked\r\n");
            body = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n"].concat();
            close = true;
        } else if !close {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        if let Act::DripHead(pause) = act {
            drip(out, head.as_bytes(), *pause)?;
        } else {
            out.write_all(head.as_bytes())?;
        }
        match act {
            Act::Drip(pause) => drip(out, &body, *pause)?,
            Act::Cut(len) => {
                out.write_all(&body[..(*len).min(body.len())])?;
                return Ok(false);
            }
            Act::Stall(time) => thread::sleep(*time),
            _ => out.write_all(&body)?,
        }
        out.flush()?;
        Ok(!close && !matches!(act, Act::Stall(_)))
    }
}

/// Sends a byte each time.
fn drip(out: &mut impl Write, bytes: &[u8], pause: Duration) -> std::io::Result<()> {
    for byte in bytes {
        out.write_all(&[*byte])?;
        out.flush()?;
        thread::sleep(pause);
    }
    Ok(())
}

fn read(from: &mut impl BufRead) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        from.take(64 << 10).read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
            None => return Ok(Some(Request { method, path, headers })),
        }
    }
}
