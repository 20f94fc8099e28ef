//! Clients that are slow, many, or send anything but requests.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Answer, Site, bytes, image, site};
use packfs_serve::HttpOptions;
use proptest::prelude::*;

const MOTD: &[u8] = b"GET /files/etc/motd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

#[test]
fn heads_that_are_no_requests_are_refused_with_a_reason() {
    let site = site();
    let cases: [(Vec<u8>, u16); 9] = [
        (b"OHAI me\r\n\r\n".to_vec(), 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), 400),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), 400),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".to_vec(), 421),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello".to_vec(), 405),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello".to_vec(), 413),
        ([b"GET /", "a".repeat(1 << 20).as_bytes()].concat(), 431),
        ([b"GET / HTTP/1.1\r\nHost: localhost\r\n", "A: b\r\n".repeat(1 << 16).as_bytes()].concat(), 431),
        ([b"GET / HTTP/1.1\r\nHost: localhost\r\nA: ", "b".repeat(1 << 20).as_bytes(), b"\r\n\r\n"].concat(), 431),
    ];
    for (sent, status) in cases {
        let answer = Answer::parse(&site.raw(&sent));
        let shown = String::from_utf8_lossy(&sent[..sent.len().min(60)]).into_owned();
        assert_eq!(answer.status, status, "{shown}");
        assert_eq!(answer.header("Connection"), Some("close"), "{shown}");
    }
    assert_eq!(site.ask("PATCH", "/", "").header("Allow"), Some("GET, HEAD"));
    assert!(site.raw(MOTD).ends_with(b"Welcome.\n"));
}

#[test]
fn clients_that_send_nothing_make_room_for_those_that_ask() {
    let options = HttpOptions::default().set(|all| all.connections = 4);
    let site = Site::new(vec![image("x", Arc::new(bytes()))], options);
    let slow: Vec<_> = (0..12)
        .map(|n| {
            let mut stream = site.connect();
            stream.write_all(&b"GET / HT"[..n % 8]).unwrap();
            stream
        })
        .collect();
    let begun = Instant::now();
    assert!(site.raw(MOTD).ends_with(b"Welcome.\n"));
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    drop(slow);
}

#[test]
fn a_request_that_takes_too_long_is_told_so() {
    let site = site();
    let mut stream = site.connect();
    let begun = Instant::now();
    // A byte now and then does not extend the time.
    while begun.elapsed() < Duration::from_secs(8) {
        stream.write_all(b"G").unwrap();
        std::thread::sleep(Duration::from_millis(500));
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(Answer::parse(&answer).status, 408);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[test]
fn a_thousand_connections_are_all_answered() {
    let site = site();
    let streams: Vec<_> = (0..1000)
        .map(|_| {
            let mut stream = site.connect();
            stream.write_all(MOTD).unwrap();
            stream
        })
        .collect();
    for mut stream in streams {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.ends_with(b"Welcome.\n"));
    }
    assert!(site.get("/metrics").text().contains("packfs_connections_total 1001\n"));
}

#[test]
fn a_client_that_leaves_during_an_answer_hurts_nobody() {
    let site = site();
    for target in ["/image", "/tar/", "/files/noise.bin"] {
        for _ in 0..20 {
            let mut stream = site.connect();
            stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
            stream.read_exact(&mut [0; 100]).unwrap();
        }
    }
    assert!(site.get("/tar/").joined().is_some());
    assert!(site.log.lock().unwrap().is_empty(), "{:?}", site.log);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_get_a_refusal_or_silence(sent in random_head()) {
        // The end of the sending side is the end of the request.
        thread_local!(static SITE: Site = site());
        let answer = SITE.with(|site| {
            let mut stream = site.connect();
            let _ = stream.write_all(&sent);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            answer
        });
        prop_assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 "));
    }
}

/// Random bytes, and requests that are almost right.
fn random_head() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just(b"GET ".to_vec()),
        Just(b"HEAD ".to_vec()),
        Just(b"/files/".to_vec()),
        Just(b"/tar/".to_vec()),
        Just(b"/api/map?path=".to_vec()),
        Just(b"%2e%2e".to_vec()),
        Just(b" HTTP/1.1\r\nHost: localhost\r\n".to_vec()),
        Just(b"Range: bytes=".to_vec()),
        Just(b"18446744073709551615-".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\r\n\r\n".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(word, 0..20).prop_map(|words| words.concat())
}
