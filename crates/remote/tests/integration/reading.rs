//! Requests: round trips at opening, coalescing, reading ahead, the cache on disk.

use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::{self, Act, Object, Server, noise};
use crate::process;
use packfs_blocks::ReadAt;
use packfs_remote::{RemoteObject, RemoteOptions, WarningReceiver};

const UNIT: usize = 64 << 10;

fn options() -> RemoteOptions {
    RemoteOptions::default().set(|all| all.pause = Duration::from_millis(1))
}

fn cached(dir: &Path) -> RemoteOptions {
    options().set(|all| all.cache = Some(dir.join("cache")))
}

fn read(remote: &RemoteObject, offset: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    remote.read_exact_at(&mut bytes, offset as u64).unwrap();
    bytes
}

#[test]
fn opening_takes_one_round_trip_and_brings_both_ends() {
    let (server, bytes) = (Server::start(), noise(10_000_000));
    let address = server.give("/image", bytes.clone());
    let remote = RemoteObject::open(&address, &options()).unwrap();
    let (len, tail) = (bytes.len(), bytes.len() - 2 * UNIT);
    assert_eq!(remote.len(), len as u64);
    assert_eq!(read(&remote, 0, UNIT), bytes[..UNIT]);
    assert_eq!(read(&remote, tail, 2 * UNIT), bytes[tail..]);
    let mut asked: Vec<_> = server.requests().iter().map(|one| one.header("range").unwrap().to_owned()).collect();
    asked.sort();
    assert_eq!(asked, ["bytes=-196608", "bytes=0-65535"]);
    assert_eq!(remote.read_at(&mut [0; 8], len as u64).unwrap(), 0);
    assert_eq!(remote.read_at(&mut [0; 8], u64::MAX).unwrap(), 0);
}

#[test]
fn objects_of_any_length_are_read_exactly() {
    let server = Server::start();
    for len in [0, 1, UNIT - 1, UNIT, UNIT + 1, 3 * UNIT, 3 * UNIT + 1, 20 * UNIT + 7] {
        let bytes = noise(len);
        let remote = RemoteObject::open(&server.give("/image", bytes.clone()), &options()).unwrap();
        let mut got = vec![0; len + 10];
        assert_eq!(remote.read_at(&mut got, 0).unwrap(), len);
        assert_eq!(got[..len], bytes);
        for at in (0..len).step_by(UNIT / 2 + 1) {
            assert_eq!(read(&remote, at, (len - at).min(100)), bytes[at..(at + 100).min(len)]);
        }
    }
}

#[test]
fn large_reads_become_few_requests_and_small_gaps_none() {
    let (server, bytes) = (Server::start(), noise(40 * UNIT));
    let remote = RemoteObject::open(&server.give("/image", bytes.clone()), &options()).unwrap();
    // Two units in the middle are there already.
    assert_eq!(read(&remote, 10 * UNIT, 100), bytes[10 * UNIT..][..100]);
    server.requests();
    assert_eq!(read(&remote, 2 * UNIT, 30 * UNIT), bytes[2 * UNIT..32 * UNIT]);
    let requests = server.requests();
    assert!(requests.len() <= 3, "{requests:#?}");
    assert!(requests.iter().all(|one| one.header("if-match").is_some()));
}

#[test]
fn reading_in_order_fetches_ahead_in_parallel() {
    let (server, bytes) = (Server::start(), noise(400 * UNIT));
    let address = server.give("/image", bytes.clone());
    server.misbehave(|_, _| Act::Late(Duration::from_millis(20)));
    let remote = RemoteObject::open(&address, &options()).unwrap();
    let begun = std::time::Instant::now();
    for at in (0..bytes.len()).step_by(UNIT) {
        assert_eq!(read(&remote, at, UNIT), bytes[at..at + UNIT]);
    }
    let requests = server.requests().len();
    // A request a unit would be 400, one after the other 8 s.
    assert!(requests < 60, "{requests} requests in {:?}", begun.elapsed());
}

#[test]
fn announced_places_are_fetched_at_the_same_time() {
    let (server, bytes) = (Server::start(), noise(400 * UNIT));
    let address = server.give("/image", bytes.clone());
    let remote = RemoteObject::open(&address, &options()).unwrap();
    // Neither is answered before both have been requested.
    let both = std::sync::Barrier::new(2);
    server.misbehave(move |_, _| {
        both.wait();
        Act::Right
    });
    remote.will_read(100 * UNIT as u64..100 * UNIT as u64 + 5);
    remote.will_read(200 * UNIT as u64..200 * UNIT as u64 + 5);
    assert_eq!(read(&remote, 100 * UNIT, 5), bytes[100 * UNIT..][..5]);
}

#[test]
fn many_threads_read_the_right_bytes_in_bounded_memory() {
    let server = Server::start();
    let bytes = noise(700 * UNIT);
    let address = server.give("/image", bytes.clone());
    let remote = RemoteObject::open(&address, &options().set(|all| all.memory = 1 << 20)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let (remote, bytes) = (&remote, &bytes);
            scope.spawn(move || {
                let mut place = thread * 1_000_003;
                for _ in 0..60 {
                    place = (place * 48_271 + 11) % (bytes.len() - 300_000);
                    assert_eq!(read(remote, place, 200_000), bytes[place..place + 200_000]);
                }
            });
        }
    });
}

#[test]
fn a_second_reader_takes_everything_from_the_cache() {
    let (server, bytes, dir) = (Server::start(), noise(50 * UNIT + 3), tempfile::tempdir().unwrap());
    let address = server.give("/image", bytes.clone()) + "?X-Amz-Signature=2";
    let remote = RemoteObject::open(&address, &cached(dir.path())).unwrap();
    assert_eq!(read(&remote, 0, bytes.len()), bytes);
    drop(remote);
    server.requests();
    // The signature of the address is another one; the object is the same.
    let again = RemoteObject::open(&address.replace("=2", "=3"), &cached(dir.path())).unwrap();
    assert_eq!(read(&again, 0, bytes.len()), bytes);
    assert_eq!(server.requests().len(), 2);
    // Another version shares nothing with it.
    let other = noise(50 * UNIT + 3).iter().map(|byte| byte ^ 1).collect::<Vec<_>>();
    server.put("/image", Object::new(other.clone()));
    let new = RemoteObject::open(&address, &cached(dir.path())).unwrap();
    assert_eq!(read(&new, 0, other.len()), other);
    assert_eq!(read(&again, 5 * UNIT, 10), bytes[5 * UNIT..][..10]);
}

#[test]
fn an_object_without_a_strong_tag_is_not_cached() {
    let (server, dir) = (Server::start(), tempfile::tempdir().unwrap());
    let bytes = noise(5 * UNIT);
    for etag in [None, Some("W/\"1\"".to_owned())] {
        server.put("/image", Object { etag, ..Object::new(bytes.clone()) });
        let remote = RemoteObject::open(&server.url("/image"), &cached(dir.path())).unwrap();
        assert_eq!(read(&remote, 0, bytes.len()), bytes);
        assert!(!dir.path().join("cache").exists());
    }
    let weak = server.requests().into_iter().filter(|one| one.header("if-unmodified-since").is_some()).count();
    assert!(weak >= 2);
}

#[test]
fn damage_in_the_cache_is_fetched_again() {
    let (server, bytes, dir) = (Server::start(), noise(30 * UNIT), tempfile::tempdir().unwrap());
    let address = server.give("/image", bytes.clone());
    drop(read(&RemoteObject::open(&address, &cached(dir.path())).unwrap(), 0, bytes.len()));
    let files = std::fs::read_dir(dir.path().join("cache")).unwrap().map(|file| file.unwrap().path());
    let data = files.into_iter().find(|path| path.extension().is_some_and(|it| it == "data")).unwrap();
    let mut torn = bytes.clone();
    torn[10 * UNIT + 5..11 * UNIT].fill(0);
    std::fs::write(data, torn).unwrap();
    server.requests();
    let remote = RemoteObject::open(&address, &cached(dir.path())).unwrap();
    assert_eq!(read(&remote, 0, bytes.len()), bytes);
    let ranges: Vec<_> = server.requests().iter().skip(2).map(|one| one.header("range").unwrap().to_owned()).collect();
    assert_eq!(ranges, [format!("bytes={}-{}", 10 * UNIT, 11 * UNIT - 1)]);
}

/// Runs this test program again as another process that reads `address` and fills the cache.
#[test]
fn two_processes_fill_one_cache() {
    let (server, bytes, dir) = (Server::start(), noise(200 * UNIT + 9), tempfile::tempdir().unwrap());
    let address = server.give("/image", bytes.clone());
    server.misbehave(|_, _| Act::Late(Duration::from_millis(2)));
    let start = || {
        process::again("reading::process_that_reads")
            .env("TEST_ADDRESS", &address)
            .env("TEST_CACHE", dir.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    for mut process in [start(), start(), start()] {
        assert!(process.wait().unwrap().success());
    }
    server.requests();
    let remote = RemoteObject::open(&address, &cached(dir.path())).unwrap();
    assert_eq!(read(&remote, 0, bytes.len()), bytes);
    assert_eq!(server.requests().len(), 2);
}

#[test]
#[ignore = "started by two_processes_fill_one_cache"]
fn process_that_reads() {
    let Some(address) = std::env::var("TEST_ADDRESS").ok() else { return };
    let dir = std::env::var_os("TEST_CACHE").unwrap();
    let bytes = noise(200 * UNIT + 9);
    let remote = RemoteObject::open(&address, &cached(Path::new(&dir))).unwrap();
    assert_eq!(read(&remote, 0, bytes.len()), bytes);
}

/// A file system of its own, which is unmounted in the end.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_under_the_cache_costs_one_warning() {
    let dir = tempfile::tempdir().unwrap();
    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(dir.path());
    if !mount.status().is_ok_and(|status| status.success()) {
        return common::skip("a_full_disk_under_the_cache_costs_one_warning", "a tmpfs cannot be mounted");
    }
    let _mounted = Mounted(dir.path().to_owned());
    let (server, bytes) = (Server::start(), noise(60 * UNIT));
    let address = server.give("/image", bytes.clone());
    let (tell, told) = channel();
    let tell = std::sync::Mutex::new(tell);
    let report = WarningReceiver::new(move |line: &str| tell.lock().unwrap().send(line.to_owned()).unwrap());
    let options = cached(dir.path()).set(|all| all.report = Some(report));
    let remote = RemoteObject::open(&address, &options).unwrap();
    assert_eq!(read(&remote, 0, bytes.len()), bytes);
    drop((remote, options));
    let told: Vec<_> = told.try_iter().collect();
    assert!(told.len() == 1 && told[0].contains("continuing without filling the cache"), "{told:?}");
    // What fitted is of use.
    server.requests();
    let again = RemoteObject::open(&address, &cached(dir.path())).unwrap();
    assert_eq!(read(&again, 0, bytes.len()), bytes);
}
