//! The server as clients meet it: contents, ranges, conditions, several images.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::common::{Answer, Site, bytes, image, noise, site};
use packfs_image::{Builder, ReadAt};
use packfs_serve::{Error, HttpOptions, HttpServer, ServedImage};

#[test]
fn files_come_as_they_were_packed() {
    let site = site();
    let cases: [(&str, &[u8], &str); 8] = [
        ("/files/etc/motd", b"Welcome.\n", "application/octet-stream"),
        ("/files//etc//motd", b"Welcome.\n", "application/octet-stream"),
        ("/files/link", b"Welcome.\n", "application/octet-stream"),
        ("/files/absolute", b"Welcome.\n", "application/octet-stream"),
        ("/files/up/motd", b"Welcome.\n", "application/octet-stream"),
        ("/files/empty", b"", "application/octet-stream"),
        ("/files/page.html", b"<script>alert(1)</script>", "text/html; charset=utf-8"),
        ("/files/a%20b%252e%26%3C.txt", b"odd name", "text/plain; charset=utf-8"),
    ];
    for (target, content, content_type) in cases {
        let answer = site.get(target);
        assert_eq!((answer.status, answer.body.as_slice()), (200, content), "{target}");
        assert_eq!(answer.header("Content-Type"), Some(content_type));
        assert_eq!(answer.header("Content-Security-Policy"), Some("sandbox"), "{target}");
        assert_eq!(answer.header("X-Content-Type-Options"), Some("nosniff"));
        let head = site.ask("HEAD", target, "");
        assert_eq!((head.status, head.body.len()), (200, 0));
        assert_eq!(head.header("Content-Length"), Some(&*content.len().to_string()));
    }
    let noise = noise(700_000);
    assert!(site.get("/files/noise.bin").body == noise);
    let saved = site.get("/files/page.html?download");
    assert_eq!(saved.header("Content-Disposition"), Some("attachment; filename*=UTF-8''page.html"));
    let whole = site.get("/image");
    assert!(whole.body == bytes() && whole.header("Accept-Ranges") == Some("bytes"));
    assert!(site.log.lock().unwrap().is_empty());
}

#[test]
fn nothing_outside_the_image_is_ever_reached() {
    let site = site();
    let refused = [
        "/../etc/passwd",
        "/files/../../etc/passwd",
        "/files/%2e%2e/%2e%2e/etc/passwd",
        "/files/.%2e/etc/passwd",
        "/files/..%2fetc%2fpasswd",
        "/files/etc%2fmotd",
        "/files/./etc/motd",
        "/files/etc/motd%00",
        "/files/%zz",
        "files/etc/motd",
    ];
    for target in refused {
        assert_eq!(site.get(target).status, 400, "{target}");
    }
    let missing = [
        "/files/%252e%252e/etc/passwd",
        "/files/..%5cetc",
        "/files/out",
        "/files/outside",
        "/files/loop",
        "/files/pipe",
        "/files/etc/motd/x",
        "/files/nowhere",
        "/tar/etc/motd",
        "/tar/nowhere",
        "/api/map?path=../etc/motd",
        "/api/map?path=etc",
        "/api/none",
        "/image/x",
        "/x",
    ];
    for target in missing {
        assert_eq!(site.get(target).status, 404, "{target}");
    }
}

#[test]
fn ranges_give_exactly_their_bytes() {
    let (site, noise) = (site(), noise(700_000));
    let ask = |range: &str| site.ask("GET", "/files/noise.bin", &format!("Range: {range}\r\n"));
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=131071-131072", 131_071, 131_073),
        ("bytes=-5", 699_995, 700_000),
        ("bytes=699999-18446744073709551615", 699_999, 700_000),
        ("bytes=1-", 1, 700_000),
    ] {
        let answer = ask(range);
        assert_eq!(answer.status, 206, "{range}");
        assert!(answer.body == noise[from..to], "{range}");
        assert_eq!(answer.header("Content-Range"), Some(&*format!("bytes {from}-{}/700000", to - 1)));
    }
    let answer = ask("bytes=700000-");
    assert_eq!((answer.status, answer.header("Content-Range")), (416, Some("bytes */700000")));
    for whole in ["bytes=9-0", "bytes=x", "lines=1-2", &format!("bytes={}", "0-,".repeat(900))] {
        let answer = ask(whole);
        assert_eq!((answer.status, answer.body.len()), (200, 700_000), "{whole}");
    }
    assert_eq!(ask(&format!("bytes={}", "0-0,".repeat(5000))).status, 431);

    let several = ask("bytes=0-9, 600000-600003,-2");
    assert_eq!(several.status, 206);
    assert_eq!(several.header("Content-Length"), Some(&*several.body.len().to_string()));
    let boundary = several.header("Content-Type").unwrap().strip_prefix("multipart/byteranges; boundary=").unwrap();
    let mut expected = Vec::new();
    for part in [0..10, 600_000..600_004, 699_998..700_000] {
        let place = format!("bytes {}-{}/700000", part.start, part.end - 1);
        expected.extend_from_slice(
            format!("\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: {place}\r\n\r\n")
                .as_bytes(),
        );
        expected.extend_from_slice(&noise[part]);
    }
    expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    assert!(several.body == expected, "{:?}", several.text());
}

#[test]
fn conditions_spare_what_the_client_has() {
    let site = site();
    for target in ["/image", "/files/noise.bin"] {
        let first = site.ask("HEAD", target, "");
        let etag = first.header("ETag").unwrap();
        let ask = |headers: &str| site.ask("GET", target, headers);
        let same = ask(&format!("If-None-Match: {etag}\r\n"));
        assert_eq!((same.status, same.body.len(), same.header("ETag")), (304, 0, Some(etag)));
        assert_eq!(ask("If-None-Match: \"other\"\r\n").status, 200);
        assert_eq!(ask("If-Match: \"other\"\r\nRange: bytes=0-1\r\n").status, 412);
        assert_eq!(ask(&format!("If-Match: {etag}\r\nRange: bytes=0-1\r\n")).status, 206);
        assert_eq!(ask(&format!("If-Range: {etag}\r\nRange: bytes=0-1\r\n")).status, 206);
        assert_eq!(ask("If-Range: \"other\"\r\nRange: bytes=0-1\r\n").status, 200);
    }
    assert_ne!(site.ask("HEAD", "/files/empty", "").header("ETag"), site.ask("HEAD", "/image", "").header("ETag"));
}

#[test]
fn a_connection_answers_many_requests_also_if_they_come_at_once() {
    let site = site();
    let one = "GET /files/etc/motd HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let last = "HEAD /files/etc/motd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answers = site.raw(format!("{}{last}", one.repeat(50)).as_bytes());
    let answers = String::from_utf8(answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 51);
    assert_eq!(answers.matches("\r\n\r\nWelcome.\n").count(), 50);
    assert_eq!(answers.matches("Connection: close").count(), 1);

    let mut stream = site.connect();
    for _ in 0..3 {
        stream.write_all(one.as_bytes()).unwrap();
        let mut answer = vec![0; answers.find("Welcome.\n").unwrap() + 9];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(Answer::parse(&answer).body, b"Welcome.\n");
    }
    assert!(site.raw(b"GET /image HTTP/1.0\r\n\r\n").ends_with(&bytes()));
}

#[test]
fn folders_are_listed_and_mapped() {
    let site = site();
    let listing = site.get("/files/");
    let listing: serde_json::Value = serde_json::from_slice(&listing.joined().unwrap()).unwrap();
    let rows = listing["entries"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!((&row("etc")["type"], &row("etc")["url"]), (&"directory".into(), &"etc/".into()));
    assert_eq!((&row("link")["target"], &row("pipe")["type"]), (&"etc/motd".into(), &"fifo".into()));
    let odd = row("a b%252e&<.txt");
    assert_eq!(odd["size"], 8);
    assert_eq!(site.get(&format!("/files/{}", odd["url"].as_str().unwrap())).text(), "odd name");

    let map = site.get("/api/map?path=noise.bin").joined().unwrap();
    let map: serde_json::Value = serde_json::from_slice(&map).unwrap();
    let lengths = map["extents"].as_array().unwrap().iter().map(|extent| extent["length"].as_u64().unwrap());
    assert_eq!((lengths.sum::<u64>(), &map["size"]), (700_000, &700_000.into()));
    for piece in map["extents"].as_array().unwrap() {
        let at = |name: &str| usize::try_from(piece[name].as_u64().unwrap()).unwrap();
        let stored = |name: &str| usize::try_from(piece["stored"][name].as_u64().unwrap()).unwrap();
        // Noise is stored as it is, so that its bytes are found where the map says.
        if piece["fragment"].is_null() {
            let place = stored("position")..stored("position") + stored("length");
            assert!(bytes()[place] == noise(700_000)[at("offset")..at("offset") + at("length")]);
        }
    }
    let info: serde_json::Value = serde_json::from_slice(&site.get("/api/info").body).unwrap();
    assert_eq!((&info["format"], &info["bytes"]), (&"squashfs".into(), &bytes().len().into()));
}

#[test]
fn several_images_have_a_place_each() {
    let other = || Builder::erofs().entries([packfs_image::source::Entry::file("x", "other")]);
    let other = || other().write_to(io::Cursor::new(Vec::new())).unwrap().0.into_inner();
    let images =
        vec![image("a b", Arc::new(bytes())), image("metrics", Arc::new(other())), image("metrics", Arc::new(other()))];
    let site = Site::new(images, HttpOptions::default());
    assert_eq!(site.get("/a%20b/files/etc/motd").text(), "Welcome.\n");
    assert_eq!(site.get("/metrics-2/files/x").text(), "other");
    assert_eq!(site.get("/metrics-3/files/x").text(), "other");
    assert!(site.get("/metrics").text().contains("packfs_requests_total"));
    let moved = site.get("/a%20b");
    assert_eq!((moved.status, moved.header("Location")), (301, Some("/a%20b/")));
    assert!(site.get("/").text().contains("<a href=\"a%20b/\">a b</a>"));
    assert_eq!((site.get("/c/image").status, site.get("/image").status), (404, 404));
}

#[test]
fn counters_count() {
    let site = site();
    for _ in 0..3 {
        site.get("/files/etc/motd");
    }
    site.get("/nowhere");
    site.ask("PUT", "/", "");
    let text = site.get("/metrics").text();
    for line in [
        "packfs_requests_total{route=\"files\",status=\"200\"} 3",
        "packfs_requests_total{route=\"other\",status=\"404\"} 1",
        "packfs_requests_total{route=\"other\",status=\"405\"} 1",
        "packfs_connections_total 6",
        "packfs_read_failures_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

/// Bytes that cannot be read from some position on, or at all once they change.
#[derive(Debug)]
struct Failing {
    bytes: Vec<u8>,
    end: AtomicU64,
}

impl ReadAt for Failing {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let end = usize::try_from(self.end.load(Relaxed)).unwrap().min(self.bytes.len());
        self.bytes[..end].to_vec().read_at(buf, offset)
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

#[test]
fn an_image_cut_while_it_is_served_is_an_error_and_no_short_file() {
    for (remote, status) in [(false, 500), (true, 502)] {
        let bytes = Arc::new(Failing { bytes: bytes(), end: AtomicU64::new(u64::MAX) });
        let served = ServedImage { remote, ..image("cut", Arc::clone(&bytes) as Arc<dyn ReadAt>) };
        let site = Site::new(vec![served], HttpOptions::default());
        assert_eq!(site.get("/files/noise.bin").status, 200);
        bytes.end.store(400_000, Relaxed);
        let cut = site.get("/image");
        // The head was sent before the end was met: the missing bytes show by the length.
        assert_eq!((cut.status, cut.header("Content-Length")), (200, Some(&*bytes.len().to_string())));
        assert!(cut.body.len() < bytes.bytes.len());
        bytes.end.store(200, Relaxed);
        assert_eq!(site.ask("GET", "/image", "Range: bytes=500-600\r\n").status, status);
        assert_eq!(site.ask("HEAD", "/image", "Range: bytes=500-600\r\n").status, status);
        let log = site.log.lock().unwrap().join("\n");
        assert!(log.contains("cut: /image: "), "{log}");
        assert!(site.get("/metrics").text().contains("packfs_read_failures_total 3\n"));
    }
}

/// Before HTTP/1.1, a body of unknown length ends with the connection: only a reset says that it is cut short.
#[test]
fn an_archive_that_is_cut_short_is_complete_for_no_client() {
    for (version, is_reset) in [("1.0", true), ("1.1", false)] {
        let bytes = Arc::new(Failing { bytes: bytes(), end: AtomicU64::new(u64::MAX) });
        let site = Site::new(vec![image("cut", Arc::clone(&bytes) as Arc<dyn ReadAt>)], HttpOptions::default());
        let head = format!("GET /tar/ HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(site.raw(head.as_bytes()).starts_with(b"HTTP/1.1 200 "));
        bytes.end.store(400_000, Relaxed);
        let mut stream = site.connect();
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer);
        if is_reset {
            assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        } else {
            assert!(ended.is_ok() && !answer.ends_with(b"0\r\n\r\n"));
        }
    }
}

#[test]
fn an_address_for_others_needs_a_token() {
    let options = || HttpOptions::default().set(|all| all.address = "0.0.0.0:0".parse().unwrap());
    let refused = HttpServer::bind(vec![image("x", Arc::new(bytes()))], options()).unwrap_err();
    assert!(matches!(refused, Error::NeedsToken { .. }), "{refused}");
    let options = options().set(|all| all.token = Some("s3cret".into()));
    let mut site = Site::new(vec![image("x", Arc::new(bytes()))], options);
    site.address.set_ip([127, 0, 0, 1].into());
    assert_eq!(site.get("/image").status, 401);
    assert_eq!(site.ask("GET", "/files/etc/motd", "Authorization: Bearer s3cret\r\n").text(), "Welcome.\n");
    let moved = site.get("/files/etc/motd?download&token=s3cret");
    assert_eq!((moved.status, moved.header("Location")), (303, Some("/files/etc/motd?download")));
    let cookie = moved.header("Set-Cookie").unwrap().split(';').next().unwrap();
    assert_eq!(site.ask("GET", "/files/etc/motd", &format!("Cookie: {cookie}\r\n")).text(), "Welcome.\n");
    assert_eq!(site.get("/metrics").status, 401);
}
