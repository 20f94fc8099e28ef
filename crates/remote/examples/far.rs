//! Measures reading an image from a far server:
//!
//!     far [--delay MS] [--mbit N] [--window KIB] [--silent] [--program PACKFS] IMAGE
//!
//! The server runs here. Its connections behave like TCP over a line of that round trip and rate, which all share: a
//! round trip to connect, another until an answer begins, and windows that begin with ten packets (of an Ethernet;
//! `--window 640` is what loopback has) and double with each round trip. Loopback with a delay of the kernel's would be alike, but few machines offer it.

#[path = "../tests/integration/common/mod.rs"]
mod server;

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use packfs_image::image::FileType;
use packfs_image::sink::Walk;
use packfs_image::{AnyImage, OpenOptions};
use packfs_remote::{RemoteObject, RemoteOptions};

/// Largest window: that of Linux's default buffers for sending.
const WINDOW_MAX: usize = 4 << 20;
/// Bytes that pass the line at once.
const CHUNK: usize = 32 << 10;

/// The line that all connections share.
struct Line {
    round_trip: Duration,
    bytes_per_second: f64,
    /// First window of a connection.
    window: usize,
    free: Mutex<Instant>,
    sent: AtomicU64,
    connections: AtomicU64,
}

impl Line {
    /// Waits until `len` bytes have passed the line.
    fn pass(&self, len: usize) {
        let end = {
            let mut free = self.free.lock().unwrap();
            *free = (*free).max(Instant::now()) + Duration::from_secs_f64(len as f64 / self.bytes_per_second);
            *free
        };
        thread::sleep(end.saturating_duration_since(Instant::now()));
        self.sent.fetch_add(len as u64, Ordering::SeqCst);
    }
}

/// The server's end of a connection over the line.
struct Far {
    stream: TcpStream,
    line: Arc<Line>,
    connected: bool,
    window: usize,
    /// Bytes sent in this round trip, and its beginning.
    round: (usize, Instant),
    asked: bool,
}

impl Read for Far {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = self.stream.read(buf)?;
        if !self.connected {
            thread::sleep(self.line.round_trip);
            self.line.connections.fetch_add(1, Ordering::SeqCst);
        }
        (self.connected, self.asked) = (true, true);
        Ok(got)
    }
}

impl Write for Far {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.asked {
            thread::sleep(self.line.round_trip);
            (self.asked, self.round) = (false, (0, Instant::now()));
        }
        if self.round.0 >= self.window {
            thread::sleep((self.round.1 + self.line.round_trip).saturating_duration_since(Instant::now()));
            self.window = (2 * self.window).min(WINDOW_MAX);
            self.round = (0, Instant::now());
        }
        let len = buf.len().min(CHUNK).min(self.window - self.round.0);
        self.line.pass(len);
        self.round.0 += len;
        self.stream.write(&buf[..len])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

struct Args {
    delay: u64,
    mbit: u64,
    window: usize,
    program: Option<String>,
    /// True to read without announcing it.
    silent: bool,
    image: String,
}

fn args() -> Option<Args> {
    let mut all = Args { delay: 50, mbit: 1000, window: 14, program: None, silent: false, image: String::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--delay" => all.delay = words.next()?.parse().ok()?,
            "--mbit" => all.mbit = words.next()?.parse().ok()?,
            "--window" => all.window = words.next()?.parse().ok()?,
            "--silent" => all.silent = true,
            "--program" => all.program = Some(words.next()?),
            _ => all.image = word,
        }
    }
    (!all.image.is_empty()).then_some(all)
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(args) = args() else {
        return Err("far [--delay MS] [--mbit N] [--window KIB] [--silent] [--program PACKFS] IMAGE".into());
    };
    let line = Arc::new(Line {
        round_trip: Duration::from_millis(args.delay),
        bytes_per_second: args.mbit as f64 * 125_000.0,
        window: args.window << 10,
        free: Mutex::new(Instant::now()),
        sent: AtomicU64::new(0),
        connections: AtomicU64::new(0),
    });
    let far = Arc::clone(&line);
    let server = server::Server::with(move |stream| Far {
        stream,
        line: Arc::clone(&far),
        connected: false,
        window: far.window,
        round: (0, Instant::now()),
        asked: false,
    });
    let address = server.give("/image", std::fs::read(&args.image)?);
    let told = |what: &str, begun: Instant| {
        let (time, sent) = (begun.elapsed(), line.sent.swap(0, Ordering::SeqCst));
        let rounds = time.as_secs_f64() / line.round_trip.as_secs_f64();
        let share = sent as f64 / time.as_secs_f64() / line.bytes_per_second;
        println!(
            "{what}: {:.3} s = {rounds:.1} round trips, {} requests, {} new connections, {} KiB, {:.0} % of the line",
            time.as_secs_f64(),
            server.requests().len(),
            line.connections.swap(0, Ordering::SeqCst),
            sent / 1024,
            share * 100.0
        );
    };

    let begun = Instant::now();
    let remote = RemoteObject::open(&address, &RemoteOptions::default())?;
    told("open the object", begun);
    let opened = AnyImage::open(Arc::new(remote), OpenOptions::default())?;
    let image = opened.image();
    let names = image.read_dir(image.root())?.len();
    told(&format!("with the image and its root of {names} entries"), begun);

    let (mut largest, mut walk) = ((0, image.root(), Vec::new()), Walk::new(image, &[])?);
    while let Some(visit) = walk.step()? {
        if let Some(nid) = packfs_image::sink::resolve(image, visit.path)?
            && let FileType::File { size } = image.stat(nid)?.kind
            && size > largest.0
        {
            largest = (size, nid, visit.path.to_vec());
        }
    }
    told("walk over all entries", begun);

    let (size, nid, path) = largest;
    let (begun, mut piece, mut at) = (Instant::now(), vec![0; 1 << 20], 0);
    if !args.silent {
        image.will_read(nid, 0..size);
    }
    while at < size {
        at += image.read_at(nid, &mut piece, at)? as u64;
    }
    told(&format!("stream the largest file, {} KiB", size / 1024), begun);

    let Some(program) = args.program else { return Ok(()) };
    let path = String::from_utf8_lossy(&path).into_owned();
    for command in [vec!["cat", &address, &path], vec!["tar", "-q", &address]] {
        let begun = Instant::now();
        let mut process = Command::new(&program);
        process.args(&command).args(["--remote-cache", "0"]).stdout(Stdio::null()).status()?;
        told(&format!("packfs {}", command[0]), begun);
    }
    Ok(())
}
