//! NBD clients that are right, wrong, slow and many, by messages made here: reply by reply as the protocol says.
#![allow(clippy::cast_possible_truncation, reason = "numbers of a test are small")]

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use packfs_blocks::ReadAt;
use packfs_image::image::Extent;
use packfs_serve::Error;
use packfs_serve::nbd::{HoleMap, NbdAddress, NbdExport, NbdOptions, NbdServer, NbdStopper, converse};
use proptest::prelude::*;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const WRITE_ZEROES: u16 = 6;
const STATUS: u16 = 7;
const HOLE: std::ops::Range<usize> = 300_000..2_000_000;

/// Bytes with a hole in the middle.
fn bytes() -> Vec<u8> {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(make_bytes);
    BYTES.clone()
}

fn make_bytes() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..3_000_001u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8 | 1).collect();
    bytes[HOLE].fill(0);
    bytes
}

#[derive(Debug)]
struct OneHole;

impl HoleMap for OneHole {
    fn extents_from(&self, offset: u64) -> Box<dyn Iterator<Item = Extent> + '_> {
        let all = [(0, HOLE.start, false), (HOLE.start, HOLE.len(), true), (HOLE.end, 7, false)];
        let extents = all.map(|(offset, len, hole)| Extent { offset: offset as u64, len: len as u64, hole });
        Box::new(extents.into_iter().filter(move |one| one.offset + one.len > offset))
    }
}

/// Bytes of which some cannot be read.
#[derive(Debug)]
struct Broken(Vec<u8>, u64);

impl ReadAt for Broken {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let end = offset + buf.len() as u64;
        if (offset..end).contains(&self.1) {
            Err(std::io::Error::other("the disk is broken"))
        } else {
            self.0.read_at(buf, offset)
        }
    }
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

fn exports() -> Vec<NbdExport> {
    let disk = NbdExport {
        name: "disk".into(),
        description: "with a hole".into(),
        bytes: Arc::new(bytes()),
        holes: Some(Arc::new(OneHole)),
    };
    let small =
        NbdExport { name: "small".into(), description: String::new(), bytes: Arc::new(vec![7; 100]), holes: None };
    let broken = Arc::new(Broken(bytes(), 700_000));
    vec![disk, small, NbdExport { name: "broken".into(), description: String::new(), bytes: broken, holes: None }]
}

fn option(code: u32, content: &[u8]) -> Vec<u8> {
    [&b"IHAVEOPT"[..], &code.to_be_bytes(), &(content.len() as u32).to_be_bytes(), content].concat()
}

fn named(name: &str, rest: &[u8]) -> Vec<u8> {
    [&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), rest].concat()
}

fn contexts(code: u32, name: &str, queries: &[&str]) -> Vec<u8> {
    let texts: Vec<u8> = queries.iter().flat_map(|query| named(query, b"")).collect();
    option(code, &named(name, &[&(queries.len() as u32).to_be_bytes()[..], &texts].concat()))
}

fn go(name: &str) -> Vec<u8> {
    option(7, &named(name, &[0, 0]))
}

fn request(command: u16, flags: u16, offset: u64, len: u32) -> Vec<u8> {
    let cookie = (u64::from(command) << 32).wrapping_add(offset);
    let head = [&0x2560_9513u32.to_be_bytes()[..], &flags.to_be_bytes(), &command.to_be_bytes()].concat();
    [head, cookie.to_be_bytes().to_vec(), offset.to_be_bytes().to_vec(), len.to_be_bytes().to_vec()].concat()
}

/// Bytes from the server, taken apart from their beginning.
struct Got<'b>(&'b [u8]);

impl<'b> Got<'b> {
    fn take(&mut self, len: usize) -> &'b [u8] {
        let (first, rest) = self.0.split_at_checked(len).unwrap_or_else(|| panic!("{len} of {:?}", self.0));
        self.0 = rest;
        first
    }
    fn number(&mut self, len: usize) -> u64 {
        self.take(len).iter().fold(0, |all, byte| all << 8 | u64::from(*byte))
    }
    fn greeting(&mut self) {
        assert_eq!(self.take(18), b"NBDMAGICIHAVEOPT\0\x03");
    }
    /// Takes a reply to an option: its kind and its content.
    fn option(&mut self, code: u32) -> (u32, &'b [u8]) {
        assert_eq!((self.number(8), self.number(4)), (0x0003_e889_0455_65a9, u64::from(code)));
        let (kind, len) = (self.number(4) as u32, self.number(4) as usize);
        (kind, self.take(len))
    }
    fn simple(&mut self) -> (u32, u64) {
        assert_eq!(self.number(4), 0x6744_6698);
        (self.number(4) as u32, self.number(8))
    }
    /// Takes a chunk: whether it is the last, its kind and content.
    fn chunk(&mut self) -> (bool, u16, &'b [u8]) {
        assert_eq!(self.number(4), 0x668e_33ef);
        let (last, kind, _) = (self.number(2) == 1, self.number(2) as u16, self.number(8));
        let len = self.number(4) as usize;
        (last, kind, self.take(len))
    }
    fn end(&self) {
        assert!(self.0.is_empty(), "{:?}", self.0);
    }
}

const FLAGS: &[u8] = &[0, 0, 0, 3];
const ACK: u32 = 1;
const INVALID: u32 = 1 << 31 | 3;

/// Returns what a client hears that sends these messages after its flags.
fn hear(messages: &[Vec<u8>]) -> Vec<u8> {
    converse(exports(), &[FLAGS, &messages.concat()].concat(), None)
}

#[test]
fn exports_are_listed_described_and_chosen() {
    let wanted = named("disk", b"\0\x03\0\x01\0\x02\0\x03");
    let heard = hear(&[option(3, b""), option(6, &wanted), option(6, &named("none", &[0, 0])), option(2, b"")]);
    let mut got = Got(&heard);
    got.greeting();
    assert_eq!(got.option(3), (2, &b"\0\0\0\x04diskwith a hole"[..]));
    assert_eq!(got.option(3), (2, &b"\0\0\0\x05small"[..]));
    assert_eq!(got.option(3), (2, &b"\0\0\0\x06broken"[..]));
    assert_eq!(got.option(3), (ACK, &b""[..]));
    let size = 3_000_001u64.to_be_bytes();
    // There are flags, read-only, flush, several connections, cache.
    assert_eq!(got.option(6), (3, &[&b"\0\0"[..], &size, &0b101_0000_0111u16.to_be_bytes()].concat()[..]));
    assert_eq!(got.option(6), (3, &b"\0\x01disk"[..]));
    assert_eq!(got.option(6), (3, &b"\0\x02with a hole"[..]));
    assert_eq!(got.option(6), (3, &b"\0\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0"[..]));
    assert_eq!(got.option(6), (ACK, &b""[..]));
    assert_eq!(got.option(6).0, 1 << 31 | 6);
    assert_eq!(got.option(2), (ACK, &b""[..]));
    got.end();
}

#[test]
fn the_oldest_clients_get_the_default_export() {
    for (flags, zeroes) in [([0, 0, 0, 0], 124), ([0, 0, 0, 1], 124), ([0, 0, 0, 3], 0)] {
        let heard = converse(exports(), &[&flags[..], &option(1, b""), &request(READ, 0, 1, 3)].concat(), None);
        let mut got = Got(&heard);
        got.greeting();
        assert_eq!((got.number(8), got.number(2)), (3_000_001, 0b101_0000_0111));
        assert!(got.take(zeroes).iter().all(|byte| *byte == 0));
        assert_eq!(got.simple(), (0, 1));
        assert_eq!(got.take(3), &bytes()[1..4]);
        got.end();
    }
    let heard = hear(&[option(1, b"none"), request(READ, 0, 0, 1)]);
    assert_eq!(heard.len(), 18);
}

#[test]
fn options_that_are_wrong_are_refused_and_those_unknown_are_named_so() {
    let cases = [
        (option(3, b"x"), 3, INVALID),
        (option(8, b"x"), 8, INVALID),
        (option(7, b"\0\0\0\x09disk\0\0"), 7, INVALID),
        (option(7, b""), 7, INVALID),
        (contexts(10, "disk", &["base:allocation"]), 10, INVALID),
        (option(5, b""), 5, 1 << 31 | 1),
        (option(77, b"abc"), 77, 1 << 31 | 1),
    ];
    for (message, code, kind) in cases {
        let heard = hear(&[message, option(2, b"")]);
        let mut got = Got(&heard);
        got.greeting();
        assert_eq!(got.option(code).0, kind, "{code}");
        assert_eq!(got.option(2).0, ACK, "{code}");
        got.end();
    }
    // What is too long is refused, and nothing that follows is heard.
    let heard = hear(&[option(7, &[0; 20_000]), option(2, b"")]);
    let mut got = Got(&heard);
    got.greeting();
    assert_eq!(got.option(7).0, 1 << 31 | 9);
    got.end();
    let many = hear(&vec![option(77, b""); 1000]);
    assert!(many.len() < 64 * 100, "{}", many.len());
    for silent in [
        &b"\0\0\0\x07IHAVEOPT"[..],
        b"\0\0\0\x03IHAVEOPX\0\0\0\x02\0\0\0\0",
        b"\0\0\0\x02IHAVEOPT\0\0\0\x03\0\0\0\0",
        b"",
    ] {
        assert_eq!(converse(exports(), silent, None).len(), 18);
    }
}

#[test]
fn simple_replies_have_the_data_and_refuse_what_is_not_there() {
    let messages = [
        go("disk"),
        request(READ, 0, 299_000, 2_000_000),
        request(READ, 0, 3_000_000, 1),
        request(READ, 0, 3_000_000, 2),
        request(READ, 0, u64::MAX, 2),
        request(READ, 0, 0, 0),
        request(READ, 0, 0, u32::MAX),
        // One chunk can be had with structured replies only.
        request(READ, 4, 0, 1),
        request(FLUSH, 0, 0, 0),
        request(CACHE, 0, 0, 1000),
        request(CACHE, 0, 3_000_000, 1000),
        [request(WRITE, 0, 0, 1000), vec![1; 1000]].concat(),
        request(TRIM, 0, 0, 1000),
        request(WRITE_ZEROES, 2, 0, 1000),
        request(STATUS, 0, 0, 1000),
        request(99, 0, 0, 0),
        request(DISCONNECT, 0, 0, 0),
        request(READ, 0, 0, 1),
    ];
    let heard = hear(&messages);
    let mut got = Got(&heard);
    got.greeting();
    got.option(7);
    got.option(7);
    assert_eq!(got.simple(), (0, 299_000));
    assert!(got.take(2_000_000) == &bytes()[299_000..2_299_000]);
    assert_eq!(got.simple().0, 0);
    assert_eq!(got.take(1), &bytes()[3_000_000..]);
    let errors: Vec<u32> = (0..13).map(|_| got.simple().0).collect();
    assert_eq!(errors, [22, 22, 22, 22, 22, 0, 0, 22, 1, 1, 1, 22, 22]);
    got.end();
}

#[test]
fn structured_replies_come_in_pieces_with_holes() {
    let messages = [
        option(8, b""),
        contexts(9, "disk", &[]),
        contexts(10, "disk", &["other:x", "base:allocation"]),
        go("disk"),
        request(READ, 0, 0, 3_000_001),
        request(READ, 4, 1_000_000, 4096),
        request(READ, 4, 0, 300_000),
        request(STATUS, 0, 100, 2_999_000),
        request(STATUS, 8, 100, 2_999_000),
        request(STATUS, 0, 3_000_000, 2),
        request(READ, 0, 3_000_000, 2),
    ];
    let heard = hear(&messages);
    let mut got = Got(&heard);
    got.greeting();
    assert_eq!(got.option(8), (ACK, &b""[..]));
    assert_eq!(got.option(9), (4, &b"\0\0\0\0base:allocation"[..]));
    assert_eq!(got.option(9).0, ACK);
    assert_eq!(got.option(10), (4, &b"\0\0\0\x01base:allocation"[..]));
    assert_eq!(got.option(10).0, ACK);
    got.option(7);
    got.option(7);
    let (mut disk, mut last, mut holes) = (Vec::new(), false, 0);
    while !last {
        let (is_last, kind, content) = got.chunk();
        let mut content = Got(content);
        assert_eq!(content.number(8), disk.len() as u64);
        match kind {
            1 => disk.extend(content.0),
            2 => {
                let len = content.number(4) as usize;
                (holes, disk) = (holes + len, [disk, vec![0; len]].concat());
            }
            _ => panic!("{kind}"),
        }
        last = is_last;
    }
    assert!(disk == bytes() && holes > 1_000_000, "{holes}");
    assert_eq!(got.chunk(), (true, 1, &[&1_000_000u64.to_be_bytes()[..], &[0; 4096]].concat()[..]));
    let failed = |number: u8| [&[0, 0, 0, number][..], &[0, 0]].concat();
    assert_eq!(got.chunk(), (true, 1 << 15 | 1, &failed(75)[..]));
    let status = |runs: &[(u32, u32)]| -> Vec<u8> {
        [1].into_iter().chain(runs.iter().flat_map(|(len, state)| [*len, *state])).flat_map(u32::to_be_bytes).collect()
    };
    assert_eq!(got.chunk(), (true, 5, &status(&[(299_900, 0), (1_700_000, 3), (999_100, 0)])[..]));
    assert_eq!(got.chunk(), (true, 5, &status(&[(299_900, 0)])[..]));
    assert_eq!(got.chunk(), (true, 1 << 15 | 1, &failed(22)[..]));
    assert_eq!(got.chunk(), (true, 1 << 15 | 1, &failed(22)[..]));
    got.end();
    // A context holds for its export only.
    let heard =
        hear(&[option(8, b""), contexts(10, "disk", &["base:allocation"]), go("small"), request(STATUS, 0, 0, 9)]);
    assert_eq!(&heard[heard.len() - 6..], failed(22));
}

#[test]
fn bytes_that_cannot_be_read_are_an_error_and_a_line() {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&lines);
    let report = Some(Arc::new(move |line: &str| kept.lock().unwrap().push(line.to_owned())) as _);
    let sent =
        [FLAGS, &option(8, b""), &go("broken"), &request(READ, 0, 600_000, 200_000), &request(READ, 0, 0, 9)].concat();
    let heard = converse(exports(), &sent, report);
    // An error of six bytes, then a piece of nine.
    let mut got = Got(&heard[heard.len() - (20 + 6) - (20 + 8 + 9)..]);
    assert_eq!(got.chunk(), (true, 1 << 15 | 1, &b"\0\0\0\x05\0\0"[..]));
    assert_eq!(got.chunk(), (true, 1, &[&[0; 8][..], &bytes()[..9]].concat()[..]));
    assert_eq!(*lines.lock().unwrap(), ["broken: byte 600000: the disk is broken"]);
    // With simple replies, the end of the connection tells what its beginning could not.
    let heard = hear(&[go("broken"), request(READ, 0, 0, 1_000_000), request(READ, 0, 0, 9)]);
    assert!(heard.len() < 1_000_000);
    let heard = hear(&[go("broken"), request(READ, 0, 700_000, 10), request(READ, 0, 0, 9)]);
    assert!(heard.ends_with(&bytes()[..9]));
    assert_eq!(&heard[heard.len() - 9 - 16 - 16 + 4..][..4], [0, 0, 0, 5]);
}

/// A server at a socket that ends with the test.
struct Site {
    dir: tempfile::TempDir,
    stopper: NbdStopper,
    thread: Option<JoinHandle<()>>,
}

impl Site {
    fn new(options: NbdOptions) -> Site {
        let dir = tempfile::tempdir().unwrap();
        let server = NbdServer::bind(exports(), &NbdAddress::Unix(dir.path().join("sock")), options).unwrap();
        let stopper = server.stopper();
        Site { dir, stopper, thread: Some(std::thread::spawn(move || server.serve())) }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("sock")
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Chooses the export `disk` on a new connection, with simple replies.
    fn disk(&self) -> UnixStream {
        let mut stream = self.connect();
        stream.write_all(&[FLAGS, &option(1, b"disk")].concat()).unwrap();
        stream.read_exact(&mut [0; 28]).unwrap();
        stream
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || (ended.is_some_and(|ended| ended.is_ok()) && !self.path().exists()));
    }
}

/// Takes the replies to as many reads of 1000 bytes, in any order, which are what the disk has.
fn take_replies(stream: &mut UnixStream, disk: &[u8], mut expected: Vec<u64>) {
    while !expected.is_empty() {
        let mut reply = [0; 1016];
        stream.read_exact(&mut reply).unwrap();
        let (error, cookie) = Got(&reply).simple();
        let at = expected.iter().position(|one| *one == cookie).unwrap();
        expected.swap_remove(at);
        let offset = cookie as usize;
        assert!(error == 0 && reply[16..] == disk[offset..offset + 1000], "{offset}");
    }
}

#[test]
fn eight_connections_with_many_requests_each_get_their_own_bytes() {
    let site = Site::new(NbdOptions::default());
    let disk = bytes();
    std::thread::scope(|scope| {
        for client in 0..8u64 {
            let (mut stream, disk) = (site.disk(), &disk);
            scope.spawn(move || {
                for round in 0..20u64 {
                    let offsets: Vec<u64> =
                        (0..100).map(|n| (n * 29_989 + client * 7919 + round * 101) % 2_990_000).collect();
                    stream
                        .write_all(&offsets.iter().flat_map(|at| request(READ, 0, *at, 1000)).collect::<Vec<_>>())
                        .unwrap();
                    take_replies(&mut stream, disk, offsets);
                }
                stream.write_all(&[request(READ, 0, 5, 1000), request(DISCONNECT, 0, 0, 0)].concat()).unwrap();
                // What was asked for before leaving is still answered.
                take_replies(&mut stream, disk, vec![5]);
                assert_eq!(stream.read(&mut [0]).unwrap(), 0);
            });
        }
    });
}

#[test]
fn a_client_that_takes_no_answers_hurts_nobody() {
    let site = Site::new(NbdOptions::default());
    let mut greedy: Vec<_> = (0..10).map(|_| site.disk()).collect();
    for stream in &mut greedy {
        stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let requests = request(READ, 0, 0, 3_000_000).repeat(5000);
        // The server stops to take requests whose answers nobody takes.
        assert!(stream.write_all(&requests.repeat(10)).is_err());
    }
    let mut stream = site.disk();
    stream.write_all(&request(READ, 0, 5, 1000)).unwrap();
    take_replies(&mut stream, &bytes(), vec![5]);
    // Some leave in the middle of an answer.
    greedy.truncate(5);
    stream.write_all(&request(READ, 0, 5, 1000)).unwrap();
    take_replies(&mut stream, &bytes(), vec![5]);
}

#[test]
fn more_connections_than_allowed_are_closed_and_slow_handshakes_end() {
    let site = Site::new(NbdOptions::default().set(|all| all.connections = 3));
    let begun = Instant::now();
    let mut silent: Vec<_> = (0..3).map(|_| site.connect()).collect();
    silent.iter_mut().for_each(|stream| stream.read_exact(&mut [0; 18]).unwrap());
    assert_eq!(site.connect().read(&mut [0]).unwrap(), 0);
    // One sends a byte now and then.
    let mut slow = silent.pop().unwrap();
    while slow.write_all(b"\0").is_ok() && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
    assert!((8..25).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    drop(site.disk());
}

#[test]
fn a_socket_left_behind_is_replaced_and_a_living_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sock");
    let bind = || NbdServer::bind(exports(), &NbdAddress::Unix(path.clone()), NbdOptions::default());
    // A listener that is dropped without more leaves its file behind.
    drop(UnixListener::bind(&path).unwrap());
    let server = bind().unwrap();
    let told = bind().unwrap_err().to_string();
    assert!(told.contains("another server listens there"), "{told}");
    // The file of a server that took the path is not ours to remove.
    std::fs::remove_file(&path).unwrap();
    let other = bind().unwrap();
    drop(server);
    assert!(path.exists());
    drop(other);
    assert!(!path.exists());
    std::fs::write(&path, "precious").unwrap();
    let told = bind().unwrap_err().to_string();
    assert!(told.contains("not a socket") && std::fs::read(&path).unwrap() == b"precious", "{told}");
    let elsewhere = NbdAddress::Tcp("0.0.0.0:0".parse().unwrap());
    assert!(matches!(NbdServer::bind(exports(), &elsewhere, NbdOptions::default()), Err(Error::NotLocal { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_are_survived(
        options in proptest::collection::vec(message(), 0..6),
        chosen in any::<bool>(),
        requests in proptest::collection::vec(message(), 0..6),
    ) {
        let chosen = if chosen { vec![option(8, b""), go("disk")] } else { Vec::new() };
        let heard = hear(&[chosen, options, vec![go("disk")], requests].concat());
        prop_assert!(heard.starts_with(b"NBDMAGICIHAVEOPT\0\x03"));
    }
}

/// Messages that are right or almost right.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let offset = prop_oneof![Just(0u64), 0..3_100_000u64, Just(u64::MAX), any::<u64>()];
    let len = prop_oneof![0..5000u32, 0..3_100_000u32, any::<u32>()];
    let content = prop_oneof![
        Just(named("disk", &[0, 0])),
        Just(named("disk", b"\0\0\0\x01\0\0\0\x0fbase:allocation")),
        Just(Vec::new()),
        proptest::collection::vec(any::<u8>(), 0..40),
    ];
    prop_oneof![
        (0..12u32, content).prop_map(|(code, content)| option(code, &content)),
        (0..9u16, 0..16u16, offset, len).prop_map(|(command, flags, at, len)| request(command, flags, at, len)),
        proptest::collection::vec(any::<u8>(), 0..40),
    ]
}
