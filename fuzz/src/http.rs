//! The HTTP server answers any bytes of a client with whole responses: each has a status, a length or chunks that are
//! true, and parts of the image where a part was asked for.

use std::sync::{Arc, OnceLock};

use packfs_blocks::{Progress, ReadAt};
use packfs_image::build::AnyOptions;
use packfs_image::testing::{Node, Piece, Spec};
use packfs_image::{AnyImage, OpenOptions, Plan, squashfs};
use packfs_serve::{HttpOptions, HttpServer, ServedImage};

/// Number of requests to look at: an input could ask for the whole image again and again.
const REQUESTS_MAX: usize = 20;

/// A server of one image, and the bytes of that image.
fn server() -> &'static (HttpServer, Vec<u8>) {
    static SERVER: OnceLock<(HttpServer, Vec<u8>)> = OnceLock::new();
    SERVER.get_or_init(|| {
        let bytes = image();
        let source: Arc<dyn ReadAt> = Arc::new(bytes.clone());
        let image = AnyImage::open(Arc::clone(&source), OpenOptions::default()).unwrap();
        let served = ServedImage {
            name: "i".into(),
            image: Arc::new(image),
            bytes: source,
            version: "1".into(),
            remote: false,
            older: None,
        };
        (HttpServer::bind(vec![served], HttpOptions::default()).unwrap(), bytes)
    })
}

fn image() -> Vec<u8> {
    let text = Node::file(vec![Piece::Text { seed: 1, len: 70_000 }]);
    let spec =
        Spec::of([(b"d".to_vec(), Node::dir([(b"f %".to_vec(), text)])), (b"empty".to_vec(), Node::file(vec![]))]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let plan = |_: &mut dyn packfs_image::source::Store| Ok(Plan { tree: spec.tree()?, order: Vec::new() });
    AnyOptions::from(squashfs::SquashfsOptions::default()).build(&path, &Progress::default(), plan).unwrap();
    std::fs::read(path).unwrap()
}

/// Sends requests and takes the responses apart.
pub fn look(bytes: &[u8]) {
    if bytes.windows(4).filter(|four| *four == b"\r\n\r\n" || four.ends_with(b"\n\n")).count() > REQUESTS_MAX {
        return;
    }
    let (server, image) = server();
    let mut heard = Vec::new();
    server.answer(bytes, &mut heard);
    // Answers to HEAD have no body, so where one follows only the first is taken apart.
    if !bytes.windows(4).any(|four| four == b"HEAD") {
        responses(&heard, image);
    }
}

fn responses(mut heard: &[u8], image: &[u8]) {
    while !heard.is_empty() {
        let end = find(heard, b"\r\n\r\n").expect("a head ends");
        let head = std::str::from_utf8(&heard[..end]).expect("a head is text");
        heard = &heard[end + 4..];
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).expect("a status line");
        let status: u16 = status[..3].parse().expect("a status");
        let header = |name: &str| {
            head.split("\r\n")
                .filter_map(|line| line.split_once(": "))
                .find(|(found, _)| *found == name)
                .map(|(_, value)| value)
        };
        match header("Content-Length") {
            Some(len) => {
                let (body, rest) = heard.split_at(len.parse().expect("a length"));
                if let (206, Some(range)) = (status, header("Content-Range")) {
                    part(body, range, image);
                }
                heard = rest;
            }
            None if header("Transfer-Encoding").is_some() => heard = behind_chunks(heard),
            None if status == 304 => {}
            // What has no length ends with the connection.
            None => return,
        }
    }
}

/// Compares a part with the object that it is of; the image is longer than every file in it.
fn part(body: &[u8], range: &str, image: &[u8]) {
    let (range, whole) = range.strip_prefix("bytes ").and_then(|range| range.split_once('/')).expect("a range");
    let (first, last) = range.split_once('-').expect("two ends");
    let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
    assert_eq!(body.len(), last + 1 - first);
    if whole == image.len().to_string() {
        assert!(body == &image[first..=last]);
    }
}

fn behind_chunks(mut heard: &[u8]) -> &[u8] {
    loop {
        let end = find(heard, b"\r\n").expect("a chunk has a length");
        let len = usize::from_str_radix(std::str::from_utf8(&heard[..end]).unwrap(), 16).unwrap();
        assert_eq!(&heard[end + 2 + len..][..2], b"\r\n");
        heard = &heard[end + 4 + len..];
        if len == 0 {
            return heard;
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
