//! Servers that are slow, wrong, or changed: each is an error that says so, or is got over.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{Act, Object, Server, noise};
use packfs_blocks::ReadAt;
use packfs_remote::{FailureReason, RemoteObject, RemoteOptions, WarningReceiver};

const UNIT: usize = 64 << 10;

fn options() -> RemoteOptions {
    RemoteOptions::default().set(|all| {
        (all.pause, all.tries) = (Duration::from_millis(1), 4);
        (all.idle_timeout, all.connect_timeout) = (Duration::from_millis(300), Duration::from_secs(5));
    })
}

fn all(remote: &RemoteObject) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(remote.len()).unwrap()];
    remote.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Returns the message of reading everything after opening, which works.
fn fails_later(server: &Server, address: &str, act: Act) -> String {
    let remote = RemoteObject::open(address, &options()).unwrap();
    server.misbehave(move |_, _| act.clone());
    let error = all(&remote).unwrap_err().to_string();
    server.misbehave(|_, _| Act::Right);
    error
}

fn fails_to_open(server: &Server, address: &str, act: Act) -> String {
    server.misbehave(move |_, _| act.clone());
    let error = RemoteObject::open(address, &options()).unwrap_err().to_string();
    server.misbehave(|_, _| Act::Right);
    error
}

#[test]
fn passing_failures_are_got_over() {
    let (server, bytes) = (Server::start(), noise(60 * UNIT + 1));
    let address = server.give("/image", bytes.clone());
    let after = ("Retry-After", "0".to_owned());
    let acts = [
        Act::Status(500, vec![], String::new()),
        Act::Status(503, vec![after.clone()], "busy".into()),
        Act::Status(429, vec![after], String::new()),
        Act::Cut(0),
        Act::Cut(100_000),
        Act::Stall(Duration::from_millis(600)),
    ];
    for act in acts {
        let shown = format!("{act:?}");
        // The first request for each range fails.
        let seen = Mutex::new(HashSet::new());
        server.misbehave(move |request, _| {
            let range = request.header("range").unwrap_or_default().to_owned();
            if seen.lock().unwrap().insert(range) { act.clone() } else { Act::Right }
        });
        let remote = RemoteObject::open(&address, &options()).unwrap_or_else(|error| panic!("{shown}: {error}"));
        assert_eq!(all(&remote).unwrap(), bytes, "{shown}");
    }
}

#[test]
fn what_does_not_pass_is_an_error_after_a_bounded_number_of_attempts() {
    let (server, bytes) = (Server::start(), noise(5 * UNIT));
    let address = server.give("/image", bytes);
    for (act, told) in [
        (Act::Status(503, vec![], String::new()), "503 Service Unavailable (tried 4 times; try again later)"),
        (Act::Cut(0), "was cut (tried 4 times"),
        (Act::Stall(Duration::from_millis(900)), "in time (tried 4 times"),
        (Act::Status(404, vec![], String::new()), "404 Not Found (check the address)"),
        (Act::Status(403, vec![], String::new()), "403 Forbidden (check the credentials; a signed address may"),
        (Act::Drip(Duration::from_millis(50)), " bytes came in 1 s (tried 4 times"),
        (Act::DripHead(Duration::from_millis(50)), "in time (tried 4 times"),
        (
            Act::Status(503, vec![("Retry-After", "86400".into())], String::new()),
            "503 Service Unavailable and asks to wait 24 hours; run the command again",
        ),
    ] {
        server.requests();
        let error = fails_to_open(&server, &address, act.clone());
        assert!(error.contains(told) && error.starts_with(&format!("{address}: ")), "{act:?}: {error}");
        assert!(server.requests().len() <= 5);
    }
    assert!(RemoteObject::open("http://127.0.0.1:1/x", &options()).unwrap_err().to_string().contains("tried 4 times"));
}

#[test]
fn a_connection_that_delivers_a_little_each_time_goes_on() {
    let (server, bytes) = (Server::start(), noise(40 * UNIT));
    let address = server.give("/image", bytes.clone());
    // Of four tries, 16 KiB have to come.
    for act in [Act::Cut(20_000), Act::Cut(4096), Act::Endless] {
        let shown = format!("{act:?}");
        server.misbehave(move |_, _| act.clone());
        let remote = RemoteObject::open(&address, &options()).unwrap_or_else(|error| panic!("{shown}: {error}"));
        assert_eq!(all(&remote).unwrap(), bytes, "{shown}");
    }
    for len in [1, 4095] {
        server.requests();
        let error = fails_to_open(&server, &address, Act::Cut(len));
        assert!(error.contains("was cut (tried 4 times"), "{error}");
        assert!(server.requests().len() <= 5, "{len}");
    }
}

/// The first bytes come in parts of one version. Without a mark of the version, each try begins anew.
#[test]
fn the_first_request_goes_on_where_it_was_cut() {
    let server = Arc::new(Server::start());
    let marked = Object::new(noise(2 * UNIT));
    let unmarked = Object { etag: None, modified: None, ..marked.clone() };
    let other = Object { etag: Some("\"other\"".into()), ..marked.clone() };
    for (before, after, allow_unversioned, asked, told) in [
        (&marked, &marked, false, "bytes=1000-65535", ""),
        (&unmarked, &unmarked, true, "bytes=1000-65535", ""),
        (&unmarked, &marked, false, "bytes=0-65535", ""),
        (&marked, &other, false, "bytes=1000-65535", "replaced"),
    ] {
        server.put("/image", before.clone());
        server.requests();
        let inside = Arc::clone(&server);
        let after = after.clone();
        let was_cut = Mutex::new(false);
        server.misbehave(move |request, _| {
            let is_of_end = request.header("range").is_some_and(|range| range.starts_with("bytes=-"));
            if !is_of_end && !std::mem::replace(&mut *was_cut.lock().unwrap(), true) {
                return Act::Cut(1000);
            }
            if !is_of_end {
                inside.put("/image", after.clone());
            }
            Act::Right
        });
        let options = options().set(|all| all.allow_unversioned = allow_unversioned);
        let opened = RemoteObject::open(&server.url("/image"), &options);
        server.misbehave(|_, _| Act::Right);
        let requests = server.requests();
        let ranges = requests.iter().filter_map(|request| request.header("range"));
        let of_begin: Vec<&str> = ranges.filter(|range| !range.starts_with("bytes=-")).collect();
        assert_eq!(of_begin, ["bytes=0-65535", asked]);
        match opened {
            Ok(remote) => assert!(told.is_empty() && all(&remote).unwrap() == *marked.bytes),
            Err(error) => assert!(!told.is_empty() && error.to_string().contains(told), "{error}"),
        }
    }
}

#[test]
fn a_server_without_ranges_serves_small_objects_only() {
    let server = Server::start();
    let (small, large) = (noise(3 << 20), noise((4 << 20) + 1));
    for act in [Act::Whole, Act::WholeUntold] {
        let address = server.give("/small", small.clone());
        let whole = act.clone();
        server.misbehave(move |_, _| whole.clone());
        let remote = RemoteObject::open(&address, &options()).unwrap();
        server.requests();
        assert_eq!(all(&remote).unwrap(), small);
        assert!(server.requests().is_empty());
        let error = fails_to_open(&server, &server.give("/large", large.clone()), act);
        assert!(error.contains("ignores requests for ranges") && error.contains("download it first"), "{error}");
    }
    let error = fails_later(&server, &server.give("/large", large), Act::Whole);
    assert!(error.contains("bytes 65536 to") && error.contains("the whole object"), "{error}");
}

#[test]
fn a_server_that_lies_is_an_error() {
    let server = Server::start();
    let address = server.give("/image", noise(40 * UNIT));
    for (act, told) in [
        (Act::Range("bytes 0-65535/2621440"), "bytes 0 to 65536 of 2621440"),
        (Act::Range("bytes 65536-70000/2621440"), "requested"),
        (Act::Range("bytes nonsense"), "without saying which"),
        (Act::Range("bytes 65536-1114111/9999999"), "replaced"),
        (Act::Length(100), "in 100 bytes"),
        (Act::Length(3_000_000), "in 3000000 bytes"),
        (Act::Header("Content-Encoding", "gzip"), "encoded as gzip"),
    ] {
        let error = fails_later(&server, &address, act.clone());
        assert!(error.contains(told), "{act:?}: {error}");
        assert!(error.starts_with("bytes "), "{act:?}: {error}");
    }
    for act in [Act::Range("bytes 5-65535/2621440"), Act::Length(10), Act::Header("Content-Encoding", "br")] {
        let error = fails_to_open(&server, &address, act);
        assert!(error.contains("not consistent"), "{error}");
    }
}

#[test]
fn redirections_are_followed_without_the_credentials() {
    let (first, second) = (Server::start(), Server::start());
    let bytes = noise(20 * UNIT);
    second.put("/real", Object::new(bytes.clone()));
    let to = second.url("/real?token=secret");
    first.misbehave(move |_, _| Act::Status(302, vec![("Location", to.clone())], String::new()));
    let address = first.url("/image").replace("http://", "http://me:secret@");
    let remote = RemoteObject::open(&address, &options()).unwrap();
    assert_eq!(all(&remote).unwrap(), bytes);
    // The target is remembered: both ends are asked for at the first server, unless one is late and knows the target, the
    // rest at the second alone.
    let asked = first.requests();
    assert!((1..=2).contains(&asked.len()), "{}", asked.len());
    assert!(asked.iter().all(|one| one.header("authorization") == Some("Basic bWU6c2VjcmV0")));
    let asked = second.requests();
    assert!(asked.len() > 2 && asked.iter().all(|one| one.header("authorization").is_none()));
    // A target that has expired is asked for again.
    second.misbehave(|request, _| match request.path.as_str() {
        "/real?token=secret" => Act::Status(403, vec![], String::new()),
        _ => Act::Right,
    });
    let to = second.url("/real?token=new");
    first.misbehave(move |_, _| Act::Status(302, vec![("Location", to.clone())], String::new()));
    let remote = RemoteObject::open(&address, &options()).unwrap();
    assert_eq!(all(&remote).unwrap(), bytes);
    let around = first.url("/image");
    let error = fails_to_open(&first, &address, Act::Status(301, vec![("Location", around)], String::new()));
    assert!(error.contains("more than 10 times"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

/// Where a redirection once led is no longer reached, and the address leads elsewhere.
#[test]
fn a_target_that_is_gone_is_looked_for_again() {
    let bytes = noise(20 * UNIT);
    let redirect = |server: &Server, to: String| {
        server.misbehave(move |_, _| Act::Status(302, vec![("Location", to.clone())], String::new()));
    };
    for act in [
        Act::Late(Duration::from_secs(2)),
        Act::DripHead(Duration::from_secs(1)),
        Act::Status(503, vec![], String::new()),
        Act::Status(403, vec![], String::new()),
    ] {
        let first = Server::start();
        let second = Server::start();
        let third = Server::start();
        redirect(&first, second.give("/real", bytes.clone()));
        let remote = RemoteObject::open(&first.url("/image"), &options()).unwrap();
        redirect(&first, third.give("/real", bytes.clone()));
        let does = act.clone();
        second.misbehave(move |_, _| does.clone());
        assert_eq!(all(&remote).unwrap_or_else(|error| panic!("{act:?}: {error}")), bytes);
    }
}

#[test]
fn no_message_holds_a_secret() {
    let server = Server::start();
    let address = server.give("/image", noise(10 * UNIT));
    let secret = address.replace("http://", "http://user:hunter2@") + "?X-Amz-Signature=hunter2";
    let shown = server.url("/image");
    let acts =
        [Act::Status(403, vec![], "hunter2".into()), Act::Cut(0), Act::Whole, Act::Header("Content-Encoding", "x")];
    for act in acts {
        server.misbehave(move |_, _| act.clone());
        match RemoteObject::open(&secret, &options()) {
            Ok(remote) => assert_eq!(remote.name(), shown),
            Err(error) => {
                let text = format!("{error} {error:?}");
                assert!(text.contains(&shown) && !text.contains("hunter2"), "{text}");
            }
        }
    }
    let wrong = RemoteObject::open("http://user:hunter2@host:port/?hunter2", &options()).unwrap_err();
    assert!(matches!(wrong.why(), FailureReason::Address(_)) && !wrong.to_string().contains("hunter2"), "{wrong}");
}

#[test]
fn one_failure_reaches_all_who_wait() {
    let server = Server::start();
    let address = server.give("/image", noise(40 * UNIT));
    let remote = Arc::new(RemoteObject::open(&address, &options()).unwrap());
    server.misbehave(|_, _| Act::Status(500, vec![], String::new()));
    let begun = Instant::now();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let remote = Arc::clone(&remote);
            std::thread::spawn(move || remote.read_exact_at(&mut [0; 100], 10 * UNIT as u64).is_err())
        })
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    assert!(begun.elapsed() < Duration::from_secs(60));
    // It is tried again after a while.
    std::thread::sleep(Duration::from_millis(1100));
    server.misbehave(|_, _| Act::Right);
    remote.read_exact_at(&mut [0; 100], 10 * UNIT as u64).unwrap();
}

#[test]
fn attempts_that_take_long_are_reported() {
    let server = Server::start();
    let address = server.give("/image", noise(5 * UNIT));
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let options = options().set(|all| {
        all.quiet = Duration::from_millis(500);
        all.report = Some(WarningReceiver::new(move |line| kept.lock().unwrap().push(line.to_owned())));
    });
    server.misbehave(|_, _| Act::Stall(Duration::from_millis(900)));
    assert!(RemoteObject::open(&address, &options).is_err());
    let told = lines.lock().unwrap().clone();
    assert!((1..=2).contains(&told.len()), "{told:?}");
    assert!(told[0].starts_with(&format!("{address}: no answer in time; attempt ")), "{told:?}");
    assert!(told[0].contains(" of 4 follows in "), "{told:?}");
}
