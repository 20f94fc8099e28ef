//! Announced ranges: requested at once, bounded by memory and by their ends, and with the errors of other reads.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{Act, Object, Server, noise};
use packfs_blocks::ReadAt;
use packfs_image::image::{FileType, Nid};
use packfs_image::{AnyImage, Fs, OpenOptions, ReadRequest, erofs, sink, squashfs};
use packfs_remote::{FailureReason, RemoteObject, RemoteOptions};

const UNIT: u64 = 64 << 10;

fn options() -> RemoteOptions {
    RemoteOptions::default().set(|all| {
        (all.pause, all.tries) = (Duration::from_millis(1), 3);
        // Long enough for a right answer on a busy machine.
        all.idle_timeout = Duration::from_millis(1500);
    })
}

/// Returns the ranges requested since the last call, in order.
fn asked(server: &Server) -> Vec<Range<u64>> {
    let range = |text: &str| {
        let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
        Some(first.parse().ok()?..last.parse::<u64>().ok()? + 1)
    };
    let mut all: Vec<_> = server.requests().iter().filter_map(|one| range(one.header("range")?)).collect();
    all.sort_by_key(|range| range.start);
    all
}

fn len(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

fn read(remote: &RemoteObject, range: Range<u64>) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap()];
    for (piece, at) in bytes.chunks_mut(1 << 20).zip(range.step_by(1 << 20)) {
        remote.read_exact_at(piece, at)?;
    }
    Ok(bytes)
}

#[test]
fn all_of_a_range_and_nothing_beyond_is_requested() {
    let (server, bytes) = (Server::start(), noise(1000 * 65536));
    let remote = RemoteObject::open(&server.give("/image", bytes.clone()), &options()).unwrap();
    server.requests();
    let range = 100 * UNIT + 5..800 * UNIT + 5;
    remote.will_read(range.clone());
    let got = read(&remote, range.clone()).unwrap();
    assert!(got == bytes[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()]);
    std::thread::sleep(Duration::from_millis(50));
    let asked = asked(&server);
    assert_eq!((asked[0].start, asked.last().unwrap().end), (100 * UNIT, 801 * UNIT));
    assert_eq!(len(&asked), 701 * UNIT, "each unit once");
    assert!(asked.len() < 80, "{} requests", asked.len());
}

#[test]
fn a_range_that_nobody_reads_costs_a_window_of_memory() {
    let (server, bytes) = (Server::start(), noise(1600 * 65536));
    let address = server.give("/image", bytes);
    for (memory, most) in [(72 << 20, 24 << 20), (12 << 20, 6 << 20)] {
        let remote = RemoteObject::open(&address, &options().set(|all| all.memory = memory)).unwrap();
        server.requests();
        remote.will_read(0..u64::MAX);
        remote.will_read(100 * UNIT..1500 * UNIT);
        // On a busy machine the requests may come late.
        let (begun, mut last, mut sum) = (Instant::now(), Instant::now(), 0);
        while last.elapsed() < Duration::from_millis(300)
            || (sum < 4 << 20 && begun.elapsed() < Duration::from_secs(20))
        {
            std::thread::sleep(Duration::from_millis(10));
            let more = len(&asked(&server));
            if more > 0 {
                last = Instant::now();
            }
            sum += more;
        }
        assert!((4 << 20..=most).contains(&sum), "{sum} bytes with {memory}");
    }
}

#[test]
fn failures_amid_a_range_are_got_over_or_told() {
    let (server, bytes) = (Server::start(), noise(300 * 65536));
    let address = server.give("/image", bytes.clone());
    for act in [Act::Cut(70_000), Act::Stall(Duration::from_millis(2000)), Act::Status(503, vec![], String::new())] {
        let remote = RemoteObject::open(&address, &options()).unwrap();
        let (fails, seen) = (act.clone(), Mutex::new(HashSet::new()));
        // The first request for each range.
        server.misbehave(move |request, _| {
            let range = request.header("range").unwrap_or_default().to_owned();
            if seen.lock().unwrap().insert(range) { fails.clone() } else { Act::Right }
        });
        remote.will_read(0..300 * UNIT);
        assert!(read(&remote, 0..300 * UNIT).unwrap() == bytes, "{act:?}");
        server.misbehave(|_, _| Act::Right);
    }
    // What never comes is an error of the read, not of the announcement.
    let remote = RemoteObject::open(&address, &options()).unwrap();
    server.misbehave(|request, _| {
        let first =
            request.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-')?.0.parse().ok());
        if first.is_some_and(|first: u64| first >= 100 * UNIT) { Act::Cut(0) } else { Act::Right }
    });
    remote.will_read(0..300 * UNIT);
    assert!(read(&remote, 0..60 * UNIT).unwrap() == bytes[..60 * 65536]);
    let error = read(&remote, 0..300 * UNIT).unwrap_err().to_string();
    assert!(error.contains("was cut (tried 3 times"), "{error}");
}

#[test]
fn an_object_that_changes_amid_a_range_ends_all_reading() {
    let (server, bytes) = (Server::start(), noise(900 * 65536));
    let address = server.give("/image", bytes.clone());
    let remote = RemoteObject::open(&address, &options()).unwrap();
    remote.will_read(0..900 * UNIT);
    assert!(read(&remote, 0..50 * UNIT).unwrap() == bytes[..50 * 65536]);
    server.put("/image", Object::new(bytes.iter().map(|byte| byte ^ 1).collect()));
    let error = read(&remote, 50 * UNIT..900 * UNIT).unwrap_err().to_string();
    assert!(error.contains(&FailureReason::Changed.to_string()), "{error}");
    assert!(remote.check_unchanged().is_err());
}

#[test]
fn a_file_of_an_image_is_fetched_to_its_end_and_no_further() {
    let root = tempfile::tempdir().unwrap();
    let noise = noise(40 << 20);
    for (name, range) in [("a", 0..3 << 20), ("large", 3 << 20..23 << 20), ("z", 23 << 20..40 << 20)] {
        std::fs::write(root.path().join(name), &noise[range]).unwrap();
    }
    let (server, place) = (Server::start(), tempfile::tempdir().unwrap());
    for (name, announced) in [("s", true), ("s", false), ("e", true), ("e", false)] {
        let file = place.path().join(name);
        if !file.exists() {
            build(name, root.path(), &file);
        }
        let remote = RemoteObject::open(&server.give("/image", std::fs::read(&file).unwrap()), &options()).unwrap();
        let opened = AnyImage::open(Arc::new(remote), OpenOptions::default()).unwrap();
        let image = opened.image();
        let nid = sink::resolve(image, b"large").unwrap().unwrap();
        let FileType::File { size } = image.stat(nid).unwrap().kind else { panic!("not a file") };
        // Besides metadata.
        let mut first = vec![0; 4096];
        image.read_at(nid, &mut first, 0).unwrap();
        server.requests();
        if announced {
            image.will_read(nid, 0..size);
        }
        let mut buf = vec![0; 128 << 10];
        for at in (0..size).step_by(buf.len()) {
            image.read_at(nid, &mut buf, at).unwrap();
            assert!(buf == noise[usize::try_from((3 << 20) + at).unwrap()..][..buf.len()], "{name} at {at}");
        }
        std::thread::sleep(Duration::from_millis(50));
        let asked = asked(&server);
        let sum = len(&asked);
        assert!(sum <= size + 4 * UNIT, "{name}, {announced}: {sum} bytes for a file of {size}: {asked:?}");
        assert!(asked.len() <= 40, "{name}, {announced}: {} requests", asked.len());
    }
}

/// Builds an image of files of noise, and opens it behind a server; returns the files' inodes as well.
fn open_files(server: &Server, format: &str, count: usize) -> (Fs, Vec<Nid>) {
    let root = tempfile::tempdir().unwrap();
    let noise = noise(count * 30_000);
    for (n, bytes) in noise.chunks(30_000).enumerate() {
        std::fs::write(root.path().join(format!("{n:04}")), bytes).unwrap();
    }
    let file = root.path().join("image");
    build(format, root.path(), &file);
    let remote = RemoteObject::open(&server.give("/image", std::fs::read(&file).unwrap()), &options()).unwrap();
    let fs = Fs::from_reader(remote).unwrap();
    let nids: Vec<_> = (0..count).map(|n| fs.inode(format!("{n:04}")).unwrap()).collect();
    // So that metadata is there, and only data is counted.
    nids.iter().for_each(|nid| drop(fs.image().extents(*nid).unwrap()));
    (fs, nids)
}

#[test]
fn many_reads_request_neighbours_together_and_several_ranges_at_once() {
    let server = Server::start();
    for format in ["s", "e"] {
        // Four neighbourhoods of 20 files, in the order of no image.
        let chosen: Vec<usize> = (0..80).map(|n| n * 7 % 4 * 300 + 100 + n * 13 % 20).collect();
        let (fs, nids) = open_files(&server, format, 1200);
        server.requests();
        for n in &chosen {
            fs.read_inode(nids[*n]).unwrap();
        }
        let single = asked(&server);

        let (fs, nids) = open_files(&server, format, 1200);
        let requests: Vec<_> = chosen.iter().map(|n| ReadRequest::whole(nids[*n])).collect();
        let in_flight = AtomicUsize::new(0);
        let most = Arc::new(AtomicUsize::new(0));
        let most_seen = Arc::clone(&most);
        server.requests();
        server.misbehave(move |_, _| {
            // The first waits for another: one reader alone would not send it.
            let now = in_flight.fetch_add(1, Ordering::SeqCst) + 1;
            most_seen.fetch_max(now, Ordering::SeqCst);
            let waiting = Instant::now();
            while most_seen.load(Ordering::SeqCst) < 3 && waiting.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(1));
            }
            in_flight.fetch_sub(1, Ordering::SeqCst);
            Act::Right
        });
        let many = fs.read_many(&requests, 0).unwrap();
        server.misbehave(|_, _| Act::Right);
        assert!(most.load(Ordering::SeqCst) >= 3, "{format}: one request after the other");
        for (n, nid) in chosen.iter().map(|n| nids[*n]).enumerate() {
            assert!(many.get(n).unwrap() == fs.read_inode(nid).unwrap(), "{format}: request {n}");
        }
        let many = asked(&server);
        // 600 KB each; a request has half a megabyte to one and a half.
        assert!(many.len() <= 12, "{format}: {} requests: {many:?}", many.len());
        assert!(single.len() >= 3 * many.len(), "{format}: {} requests one by one", single.len());
        // Blocks and units at the ends of the neighbourhoods, and nothing read ahead.
        let needed = chosen.len() as u64 * 30_000;
        assert!(len(&many) <= needed + 32 * UNIT, "{format}: {} bytes for {needed}", len(&many));
    }
}

fn build(format: &str, root: &std::path::Path, file: &std::path::Path) {
    use packfs_image::source::{Dir, Source, Store, dir};
    let fill = |store: &mut dyn Store| {
        let mut tree = packfs_image::Tree::default();
        Dir::new(root, dir::Options::default()).scan(&mut tree, store)?;
        Ok(packfs_image::Plan { tree, order: Vec::new() })
    };
    let set = |build: &mut packfs_image::build::SharedOptions| build.codec = "none".parse().unwrap();
    let progress = packfs_image::Progress::default();
    match format {
        "s" => drop(squashfs::build(file, &squashfs::SquashfsOptions::default().with(set), &progress, fill).unwrap()),
        _ => drop(erofs::build(file, &erofs::ErofsOptions::default().with(set), &progress, fill).unwrap()),
    }
}
