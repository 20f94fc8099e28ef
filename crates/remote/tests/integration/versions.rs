//! Objects that are replaced while they are read: an error in every combination of marks, never a mixture of versions.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{self, Act, Object, Server, noise};
use packfs_blocks::ReadAt;
use packfs_remote::{FailureReason, RemoteObject, RemoteOptions};

const UNIT: usize = 64 << 10;
const LEN: usize = 40 * UNIT;
const MONDAY: &str = "Mon, 23 Nov 2026 10:00:00 GMT";
const TUESDAY: &str = "Tue, 24 Nov 2026 10:00:00 GMT";

fn options() -> RemoteOptions {
    RemoteOptions::default().set(|all| {
        (all.pause, all.tries) = (Duration::from_millis(1), 3);
        (all.idle_timeout, all.connect_timeout) = (Duration::from_secs(5), Duration::from_secs(5));
    })
}

fn old() -> Vec<u8> {
    noise(LEN)
}

fn new() -> Vec<u8> {
    vec![7; LEN]
}

/// An object with marks; `-` stands for none.
fn object(bytes: Vec<u8>, (tag, date): (&str, &str)) -> Object {
    let mark = |text: &str| (text != "-").then(|| text.to_owned());
    Object { etag: mark(tag), modified: mark(date), ..Object::new(bytes) }
}

fn all(remote: &RemoteObject) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(remote.len()).unwrap()];
    remote.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// The result that a combination must have.
#[derive(Debug, Clone, Copy)]
enum ExpectedResult {
    /// Both objects are the same, and it is read.
    Read,
    Changed,
    Unproven,
}

#[test]
fn a_replaced_object_is_an_error_in_every_combination_of_marks() {
    use ExpectedResult::{Changed, Read, Unproven};
    let cases = [
        (("\"1\"", MONDAY), ("\"1\"", TUESDAY), Read),
        (("\"1\"", MONDAY), ("\"2\"", MONDAY), Changed),
        (("\"1\"", "-"), ("\"2\"", "-"), Changed),
        (("\"1\"", MONDAY), ("W/\"1\"", MONDAY), Read),
        (("\"1\"", MONDAY), ("W/\"2\"", MONDAY), Changed),
        (("\"1\"", MONDAY), ("-", MONDAY), Unproven),
        (("\"1\"", MONDAY), ("-", TUESDAY), Changed),
        (("\"1\"", "-"), ("-", "-"), Unproven),
        (("W/\"1\"", "-"), ("W/\"1\"", "-"), Read),
        (("W/\"1\"", "-"), ("W/\"2\"", "-"), Changed),
        (("W/\"1\"", MONDAY), ("W/\"2\"", MONDAY), Changed),
        (("W/\"1\"", MONDAY), ("W/\"1\"", TUESDAY), Changed),
        (("W/\"1\"", "-"), ("\"2\"", "-"), Changed),
        (("W/\"1\"", "-"), ("-", "-"), Unproven),
        (("-", MONDAY), ("-", MONDAY), Read),
        (("-", MONDAY), ("-", TUESDAY), Changed),
        (("-", MONDAY), ("\"2\"", MONDAY), Unproven),
        (("-", MONDAY), ("-", "-"), Unproven),
    ];
    let server = Server::start();
    for (opened, later, expected) in cases {
        for careless in [false, true] {
            server.misbehave(|_, _| Act::Right);
            server.put("/image", object(old(), opened));
            let remote = RemoteObject::open(&server.url("/image"), &options()).unwrap();
            let mut some = vec![0; 2 * UNIT];
            remote.read_exact_at(&mut some, 5 * UNIT as u64).unwrap();
            server.put("/image", object(if matches!(expected, Read) { old() } else { new() }, later));
            server.misbehave(move |_, _| if careless { Act::Careless } else { Act::Right });
            let read = all(&remote).map_err(|error| error.to_string());
            let told = format!("{opened:?} {later:?} careless={careless}: {:?}", read.as_ref().err());
            match (expected, read) {
                (Read, Ok(bytes)) => assert!(bytes == old(), "{told}"),
                // A server that supports the condition refuses a tag that became weak.
                (Read, Err(why)) => assert!(!careless && why.contains("replaced after it was opened"), "{told}"),
                (Changed, Err(why)) => {
                    assert!(why.contains("replaced after it was opened"), "{told}");
                    // From then on nothing is read, not even from memory.
                    assert!(remote.read_exact_at(&mut some, 5 * UNIT as u64).is_err(), "{told}");
                    assert!(remote.check_unchanged().is_err(), "{told}");
                }
                (Unproven, Err(why)) => {
                    assert!(why.contains("lacks the entity tag") || why.contains("replaced after"), "{told}");
                }
                (_, Ok(_)) => panic!("{told}"),
            }
        }
    }
}

#[test]
fn an_object_of_another_length_is_another_one() {
    let server = Server::start();
    for marks in [("\"1\"", "-"), ("W/\"1\"", "-"), ("-", MONDAY)] {
        server.put("/image", object(old(), marks));
        let remote = RemoteObject::open(&server.url("/image"), &options()).unwrap();
        server.put("/image", object(new()[1..].to_vec(), marks));
        let error = all(&remote).unwrap_err().to_string();
        assert!(error.contains("replaced after it was opened"), "{marks:?}: {error}");
    }
}

#[test]
fn an_object_without_marks_is_read_only_whole_or_at_ones_own_risk() {
    let server = Server::start();
    server.put("/image", object(old(), ("-", "-")));
    let address = server.url("/image");
    let error = RemoteObject::open(&address, &options()).unwrap_err();
    assert_eq!(*error.why(), FailureReason::Unversioned);
    assert!(error.to_string().contains("--remote-unversioned"), "{error}");
    let risky = options().set(|all| all.allow_unversioned = true);
    assert!(all(&RemoteObject::open(&address, &risky).unwrap()).unwrap() == old());
    // The risk is for servers without marks; where there are some, they still count.
    server.put("/image", object(old(), ("W/\"1\"", "-")));
    let remote = RemoteObject::open(&address, &risky).unwrap();
    server.put("/image", object(new(), ("W/\"2\"", "-")));
    assert!(all(&remote).unwrap_err().to_string().contains("replaced after it was opened"));
    // The bytes of one answer are of one version.
    server.put("/image", object(noise(1000), ("-", "-")));
    assert!(all(&RemoteObject::open(&address, &options()).unwrap()).unwrap() == noise(1000));
    server.put("/image", object(old(), ("-", "-")));
    server.misbehave(|_, _| Act::Whole);
    assert!(all(&RemoteObject::open(&address, &options()).unwrap()).unwrap() == old());
}

/// Two modifications in one second have one date.
#[test]
fn an_object_that_was_just_modified_is_opened_when_its_second_is_over() {
    let server = Server::start();
    let dated = |bytes, now: &str| Object { date: Some(now.to_owned()), ..object(bytes, ("-", MONDAY)) };
    for replaced in [false, true] {
        server.put("/image", dated(old(), MONDAY));
        // Both ends are requested at once; then the object is written again in the same second.
        let content = if replaced { new() } else { old() };
        let next = Mutex::new(Some(dated(content.clone(), TUESDAY)));
        let asked = AtomicUsize::new(0);
        let address = server.url("/image");
        std::thread::scope(|scope| {
            let server = &server;
            scope.spawn(move || {
                while asked.load(Ordering::SeqCst) < 2 {
                    asked.fetch_add(server.requests().len(), Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(5));
                }
                server.put("/image", next.lock().unwrap().take().unwrap());
            });
            let remote = RemoteObject::open(&address, &options()).unwrap();
            assert!(all(&remote).unwrap() == content, "replaced={replaced}");
        });
    }
    // The date is always that of the request, as with pages that are made for each.
    server.put("/image", object(old(), ("-", "-")));
    server.misbehave(|_, number| Act::Dated(format!("Mon, 23 Nov 2026 10:00:{:02} GMT", number % 60)));
    let error = RemoteObject::open(&server.url("/image"), &options()).unwrap_err();
    assert_eq!(*error.why(), FailureReason::Unsettled, "{error}");
}

#[test]
fn servers_that_take_turns_must_agree() {
    let server = Server::start();
    let cases = [
        // The same bytes, received at other times.
        (("\"1\"", MONDAY), ("\"1\"", TUESDAY), true),
        // Tags made of inode numbers and the like: nothing proves that the bytes are the same.
        (("\"1\"", MONDAY), ("\"2\"", MONDAY), false),
        (("W/\"1\"", MONDAY), ("W/\"2\"", MONDAY), false),
    ];
    for (one, other, agree) in cases {
        server.misbehave(|_, _| Act::Right);
        server.put("/image", object(old(), one));
        let remote = RemoteObject::open(&server.url("/image"), &options()).unwrap();
        let mut turn = 0;
        let mut failed = None;
        for unit in (1..LEN / UNIT).step_by(3) {
            turn += 1;
            server.put("/image", object(old(), if turn % 2 == 0 { one } else { other }));
            server.misbehave(|_, _| Act::Careless);
            let mut bytes = vec![0; UNIT];
            match remote.read_exact_at(&mut bytes, (unit * UNIT) as u64) {
                Ok(()) => assert!(bytes == old()[unit * UNIT..(unit + 1) * UNIT]),
                Err(error) => failed = Some(error.to_string()),
            }
        }
        assert_eq!(failed.is_none(), agree, "{one:?} {other:?}: {failed:?}");
    }
}

#[test]
fn a_redirection_to_another_object_is_noticed() {
    let first = Server::start();
    let second = Server::start();
    for marks in [["\"1\"", "\"2\""], ["W/\"1\"", "W/\"2\""]] {
        second.misbehave(|_, _| Act::Right);
        second.put("/v1", object(old(), (marks[0], MONDAY)));
        second.put("/v2", object(new(), (marks[1], MONDAY)));
        let lead =
            |to: String| move |_: &common::Request, _| Act::Status(302, vec![("Location", to.clone())], "".into());
        first.misbehave(lead(second.url("/v1")));
        let remote = RemoteObject::open(&first.url("/latest"), &options()).unwrap();
        first.misbehave(lead(second.url("/v2")));
        // The first target expires.
        second.misbehave(|request, _| match request.path.as_str() {
            "/v1" => Act::Status(403, vec![], String::new()),
            _ => Act::Careless,
        });
        let error = all(&remote).unwrap_err().to_string();
        assert!(error.contains("replaced after it was opened"), "{marks:?}: {error}");
    }
}

#[test]
fn a_cache_on_disk_never_holds_what_a_weak_mark_names() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    let cached = |path: &Path| options().set(|all| all.cache = Some(path.to_owned()));
    let cases = [
        // The old version, the new one, and whether the cache keeps any.
        (("\"1\"", MONDAY), ("\"2\"", MONDAY), true),
        (("\"1\"", MONDAY), ("W/\"1\"", MONDAY), true),
        (("W/\"1\"", MONDAY), ("W/\"2\"", MONDAY), false),
        (("W/\"1\"", MONDAY), ("W/\"1\"", MONDAY), false),
        (("-", MONDAY), ("-", MONDAY), false),
    ];
    for (number, (before, after, keeps)) in cases.into_iter().enumerate() {
        let place = dir.path().join(number.to_string());
        server.put("/image", object(old(), before));
        assert!(all(&RemoteObject::open(&server.url("/image"), &cached(&place)).unwrap()).unwrap() == old());
        let kept = std::fs::read_dir(&place).is_ok_and(|mut files| files.next().is_some());
        assert_eq!(kept, keeps, "{before:?}");
        // A later process finds another object under the address.
        server.put("/image", object(new(), after));
        let read = all(&RemoteObject::open(&server.url("/image"), &cached(&place)).unwrap()).unwrap();
        assert!(read == new(), "{before:?} {after:?}: bytes of the old object");
    }
}
