//! A running server with an image, and a client that sends any bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use packfs_image::source::Entry;
use packfs_image::{AnyImage, Builder, OpenOptions, ReadAt};
use packfs_serve::{HttpOptions, HttpServer, HttpStopper, ServedImage};

/// A server that ends with the test.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    stopper: HttpStopper,
    thread: Option<JoinHandle<()>>,
}

impl Site {
    pub(crate) fn new(images: Vec<ServedImage>, options: HttpOptions) -> Site {
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = Arc::clone(&log);
        let report = Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
        let server = HttpServer::bind(images, options.set(|all| all.report = Some(report))).unwrap();
        let (address, stopper) = (server.address(), server.stopper());
        Site { address, log, stopper, thread: Some(std::thread::spawn(move || server.serve())) }
    }

    /// Connects; reading gives up after a long time.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends bytes and returns everything that comes until the server ends the connection.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // The server may refuse before it has read everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    /// Asks for a target with further headers, each with its end of line.
    pub(crate) fn ask(&self, method: &str, target: &str, headers: &str) -> Answer {
        let head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
        Answer::parse(&self.raw(head.as_bytes()))
    }

    pub(crate) fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, "")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn parse(bytes: &[u8]) -> Answer {
        let shown = String::from_utf8_lossy(bytes);
        let at = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let at = at.unwrap_or_else(|| panic!("no head: {shown:?}"));
        let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: bytes[at + 4..].to_vec() }
    }

    /// Returns the value of a header, given with its usual capitals.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns a body that was sent in chunks; `None` if its end is missing.
    pub(crate) fn joined(&self) -> Option<Vec<u8>> {
        assert_eq!(self.header("Transfer-Encoding"), Some("chunked"));
        let (mut rest, mut out) = (self.body.as_slice(), Vec::new());
        loop {
            let end = rest.windows(2).position(|two| two == b"\r\n")?;
            let len = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?, 16).ok()?;
            rest = &rest[end + 2..];
            out.extend_from_slice(rest.get(..len)?);
            rest = rest.get(len + 2..)?;
            if len == 0 {
                return rest.is_empty().then_some(out);
            }
        }
    }
}

/// Returns bytes that do not compress.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    packfs_blocks::testing::noise(len, 1)
}

/// Returns the entries of the image of most tests.
pub(crate) fn entries() -> Vec<Entry<'static>> {
    vec![
        Entry::file("etc/motd", "Welcome.\n"),
        Entry::file("page.html", "<script>alert(1)</script>"),
        Entry::file("noise.bin", noise(700_000)),
        Entry::file("empty", ""),
        Entry::file("a b%2e&<.txt", "odd name"),
        Entry::symlink("link", "etc/motd"),
        Entry::symlink("absolute", "/etc/motd"),
        Entry::symlink("out", "../../../../../../etc/passwd"),
        Entry::symlink("outside", "/proc/self/environ"),
        Entry::symlink("loop", "/loop"),
        Entry::symlink("up", "../../../etc"),
        Entry::fifo("pipe"),
    ]
}

pub(crate) fn image(name: &str, bytes: Arc<dyn ReadAt>) -> ServedImage {
    let image = AnyImage::open(Arc::clone(&bytes), OpenOptions::default()).unwrap();
    ServedImage { name: name.into(), image: Arc::new(image), bytes, version: "v1".into(), remote: false, older: None }
}

/// Returns the bytes of an image of [`entries`].
pub(crate) fn bytes() -> Vec<u8> {
    Builder::squashfs().entries(entries()).write_to(std::io::Cursor::new(Vec::new())).unwrap().0.into_inner()
}

/// Starts a server of one image.
pub(crate) fn site() -> Site {
    Site::new(vec![image("root.sqfs", Arc::new(bytes()))], HttpOptions::default())
}
