use std::io::Cursor;

use packfs_blocks::testing::noise;
use packfs_image::source::Entry;
use packfs_image::{Builder, Codec, Fs};
use serde_json::Value;

use super::*;

/// Length of a file that takes many pages.
const NOISE_LEN: usize = 3_000_000;

/// A caller as in JavaScript: makes a request until no bytes are missing. Counts the attempts and the bytes.
struct Caller {
    bytes: Vec<u8>,
    session: ImageSession,
    requests: usize,
    fetched: u64,
}

impl Caller {
    fn new(bytes: Vec<u8>) -> Self {
        let session = ImageSession::new(bytes.len() as u64);
        Caller { bytes, session, requests: 0, fetched: 0 }
    }

    fn ask(&mut self, request: &ImageRequest) -> RequestOutcome {
        loop {
            let RequestOutcome::Missing(ranges) = self.session.attempt(request) else {
                return self.session.attempt(request);
            };
            assert!(!ranges.is_empty());
            for range in ranges {
                self.requests += 1;
                self.fetched += range.end - range.start;
                let place = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                self.session.supply(range.start, &self.bytes[place]);
            }
        }
    }

    fn json(&mut self, request: &ImageRequest) -> Value {
        match self.ask(request) {
            RequestOutcome::Json(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{request:?}: {other:?}"),
        }
    }

    fn bytes(&mut self, request: &ImageRequest) -> Vec<u8> {
        match self.ask(request) {
            RequestOutcome::Bytes(bytes) => bytes,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    fn failure(&mut self, request: &ImageRequest) -> Value {
        match self.ask(request) {
            RequestOutcome::Failed(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{request:?}: {other:?}"),
        }
    }

    /// Makes a whole check; returns the number of bytes fetched after each step, and all findings.
    fn check(&mut self) -> (Vec<u64>, Vec<Value>) {
        let mut fetched = Vec::new();
        let mut findings = Vec::new();
        for step in 0.. {
            let answer = self.json(&ImageRequest::Check { step });
            fetched.push(self.fetched);
            findings.extend(answer["findings"].as_array().unwrap().iter().cloned());
            if answer["steps"] == step + 1 {
                assert_eq!(answer["checked"], self.bytes.len());
                break;
            }
        }
        (fetched, findings)
    }

    fn list(&mut self, path: &str) -> Vec<Value> {
        let request = ImageRequest::List { path: path.into(), skip: 0, count: usize::MAX };
        self.json(&request)["entries"].as_array().unwrap().clone()
    }
}

/// Makes images of both formats with links, a long file that does not shrink, and many small ones.
fn images() -> Vec<Vec<u8>> {
    let entries = || {
        let mut entries = vec![
            Entry::dir("etc"),
            Entry::file("etc/motd", "Welcome.\n").xattr("user.note", "\0binary"),
            Entry::symlink("motd", "etc/motd"),
            Entry::hard_link("etc/motd2", "etc/motd"),
            Entry::file("noise", noise(NOISE_LEN, 1)),
            Entry::dir("many"),
        ];
        entries.extend((0..2000).map(|n| Entry::file(format!("many/{n:04}"), format!("file {n}\n").repeat(n % 50))));
        entries
    };
    let builders = [Builder::squashfs(), Builder::erofs().target_kernel("6.1".parse().unwrap()).codec(Codec::None)];
    let bytes =
        |builder: Builder<'_>| builder.entries(entries()).write_to(Cursor::new(Vec::new())).unwrap().0.into_inner();
    builders.into_iter().map(bytes).collect()
}

fn read_request(nid: &Value, offset: u64, length: usize) -> ImageRequest {
    ImageRequest::Read { nid: nid.as_str().unwrap().into(), offset, length }
}

fn stat_request(path: &str) -> ImageRequest {
    ImageRequest::Stat { path: path.into(), follow: true }
}

#[test]
fn everything_is_read_from_the_bytes_that_were_asked_for() {
    for image in images() {
        let fs = Fs::from_reader(image.clone()).unwrap();
        let mut caller = Caller::new(image);
        let names: Vec<String> = caller.list("/").iter().map(|entry| entry["name"].as_str().unwrap().into()).collect();
        assert_eq!(names, ["etc", "many", "motd", "noise"]);
        for path in ["motd", "noise", "many/0000", "many/1999", "etc/motd2"] {
            let entry = caller.json(&stat_request(path));
            let size = usize::try_from(entry["size"].as_u64().unwrap()).unwrap();
            let content = fs.read(path).unwrap();
            assert_eq!(caller.bytes(&read_request(&entry["nid"], 0, READ_MAX)), content, "{path}");
            assert_eq!(
                caller.bytes(&read_request(&entry["nid"], size as u64 / 2, 7)),
                content[size / 2..][..7.min(size - size / 2)]
            );
            assert_eq!(caller.bytes(&read_request(&entry["nid"], u64::MAX, 7)), b"");
        }
        assert_eq!(caller.list("many").len(), 2000);
        let part = ImageRequest::List { path: "many".into(), skip: 1990, count: 5 };
        let part = caller.json(&part);
        assert_eq!((&part["total"], &part["entries"][0]["name"]), (&2000.into(), &"1990".into()));
        let attributes = caller.json(&ImageRequest::Xattrs { path: "motd".into() });
        assert_eq!(attributes, serde_json::json!([{"name": "user.note", "value": "AGJpbmFyeQ=="}]));
    }
}

#[test]
fn a_listing_and_a_range_fetch_little() {
    for image in images() {
        let len = image.len() as u64;
        let mut caller = Caller::new(image);
        caller.list("/");
        assert!(caller.requests <= 4 && caller.fetched <= 512 << 10, "{} requests", caller.requests);
        let noise = caller.json(&stat_request("noise"));
        caller.fetched = 0;
        caller.bytes(&read_request(&noise["nid"], 1 << 20, 1000));
        assert!(caller.fetched <= 512 << 10, "{} of {len} bytes were fetched", caller.fetched);
    }
}

/// Most of what is fetched ahead of a check, or twice because it was dropped meanwhile.
const CHECK_EXCESS: u64 = 2 * CHECK_AHEAD_LEN;

#[test]
fn a_check_fetches_everything_once_and_in_order() {
    let long = Builder::squashfs().entries([Entry::file("noise", noise(20_000_000, 1))]);
    let long = long.write_to(Cursor::new(Vec::new())).unwrap().0.into_inner();
    for image in images().into_iter().chain([long]) {
        let len = image.len() as u64;
        let mut caller = Caller::new(image);
        let (fetched, findings) = caller.check();
        assert!(findings.iter().all(|finding| finding["severity"] == "note"), "{findings:?}");
        assert_eq!(fetched.len() as u64, len.div_ceil(CHECK_STEP_LEN));
        for (step, fetched) in (1..).zip(&fetched) {
            assert!(*fetched <= (step * CHECK_STEP_LEN).min(len) + CHECK_EXCESS, "{fetched} bytes in {step} steps");
        }
        assert!(caller.requests <= 8 + fetched.len(), "{} requests", caller.requests);
        let beyond = ImageRequest::Check { step: u32::try_from(fetched.len()).unwrap() };
        assert_eq!(caller.failure(&beyond)["code"], "Failed");
    }
}

#[test]
fn a_check_names_damage() {
    let text: String = (0..50_000).map(|n| format!("line {n} of {}\n", n * 7919)).collect();
    let image = Builder::squashfs().entries([Entry::file("text", text)]);
    let mut bytes = image.write_to(Cursor::new(Vec::new())).unwrap().0.into_inner();
    // The first block of data comes after the superblock.
    bytes[96 + 1000..96 + 1200].fill(0x5a);
    let (_, findings) = Caller::new(bytes).check();
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((&finding["severity"], &finding["offset"]), (&"damage".into(), &96.into()), "{finding}");
}

#[test]
fn failures_have_codes() {
    for image in images() {
        let mut caller = Caller::new(image);
        assert_eq!(caller.failure(&stat_request("etc/none"))["code"], "NotFound");
        assert_eq!(
            caller.failure(&ImageRequest::List { path: "etc/motd".into(), skip: 0, count: 9 })["code"],
            "WrongType"
        );
        let etc = caller.json(&stat_request("etc"));
        assert_eq!(caller.failure(&read_request(&etc["nid"], 0, 1))["code"], "WrongType");
        assert_eq!(caller.failure(&read_request(&etc["nid"], 0, READ_MAX + 1))["code"], "Failed");
    }
    for bytes in [b"no image".repeat(1000), Vec::new()] {
        assert_eq!(Caller::new(bytes).failure(&ImageRequest::Info)["code"], "NoImage");
    }
}

/// Each byte of the superblock, changed: a failure or an answer, and the loop ends.
#[test]
fn damaged_images_end_in_an_answer() {
    for image in images() {
        let start = if image.starts_with(b"hsqs") { 0 } else { 1024 };
        for at in start..start + 96 {
            let mut bytes = image.clone();
            bytes[at] ^= 0xff;
            let mut caller = Caller::new(bytes);
            let _ = caller.ask(&ImageRequest::List { path: "/".into(), skip: 0, count: 100 });
            let _ = caller.ask(&stat_request("etc/motd"));
            assert!(caller.requests < 40, "byte {at}: {} requests", caller.requests);
        }
    }
}

/// Headers, contents and padding in the order of a walk are an archive that is read as the same tree.
#[test]
fn a_folder_becomes_an_archive() {
    for image in images() {
        let mut caller = Caller::new(image);
        let mut archive = Vec::new();
        for path in ["etc", "etc/motd", "etc/motd2", "noise"] {
            let first_place = (path == "etc/motd2").then(|| "top/etc/motd".into());
            let header = ImageRequest::TarHeader { path: path.into(), place: format!("top/{path}"), first_place };
            let header = caller.bytes(&header);
            assert_eq!(header.len() % 512, 0);
            archive.extend_from_slice(&header);
            // The size in the last header, in octal: 0 for all but the first name of a file.
            let digits = std::str::from_utf8(&header[header.len() - 512 + 124..][..11]).unwrap();
            let size = usize::from_str_radix(digits, 8).unwrap();
            if size > 0 {
                let entry = caller.json(&stat_request(path));
                archive.extend(caller.bytes(&read_request(&entry["nid"], 0, READ_MAX)));
                archive.resize(archive.len().next_multiple_of(512), 0);
            }
        }
        archive.extend([0; 1024]);
        let rebuilt = Builder::squashfs().tar(Cursor::new(archive)).write_to(Cursor::new(Vec::new())).unwrap().0;
        let fs = Fs::from_reader(rebuilt.into_inner()).unwrap();
        assert_eq!(fs.read("top/etc/motd2").unwrap(), b"Welcome.\n");
        assert_eq!(fs.inode("top/etc/motd").unwrap(), fs.inode("top/etc/motd2").unwrap());
        assert_eq!(fs.read("top/noise").unwrap(), noise(NOISE_LEN, 1));
        assert_eq!(fs.xattrs("top/etc/motd").unwrap().len(), 1);
    }
}
