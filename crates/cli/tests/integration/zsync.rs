//! Updates over HTTP: `build --delta-index`, `update`, `diff --update-size`, and zsync itself.
#![cfg(feature = "remote")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::common::program::sh;
use crate::common::{FORMATS, fail, have, packfs, run_in, sample, stderr, succeed};
use crate::server::{Act, Object, Request, Server};

/// A directory with an old and a new image, and a server that has the new one and its index.
struct UpdateSite {
    dir: tempfile::TempDir,
    server: Server,
}

impl UpdateSite {
    fn new(format: &str) -> Self {
        let site = UpdateSite { dir: tempfile::tempdir().unwrap(), server: Server::start() };
        let dir = site.path();
        sample(dir);
        fs::write(dir.join("root/noise"), packfs_blocks::testing::noise(600_000, 5)).unwrap();
        succeed(dir, &["build", "root", "-o", "old", "--format", format, "-q"]);
        fs::write(dir.join("root/other"), packfs_blocks::testing::noise(200_000, 6)).unwrap();
        sh(dir, "echo changed >root/etc/motd");
        succeed(dir, &["build", "root", "-o", "new", "--format", format, "-q", "--delta-index", "zsync"]);
        site.give("new");
        site.give("new.zsync");
        site
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path().join(name)).unwrap()
    }

    fn give(&self, name: &str) {
        self.server.give(&format!("/{name}"), self.read(name));
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = packfs(args);
        command.current_dir(self.path()).env("XDG_CACHE_HOME", self.path().join("caches"));
        command.env("http_proxy", "").env("no_proxy", "*").output().unwrap()
    }

    /// Updates `old` to `made`, with further arguments.
    fn update(&self, more: &[&str]) -> Output {
        let index = self.server.url("/new.zsync");
        self.run(&[&["update", &index, "--from", "old", "-o", "made"], more].concat())
    }

    fn fail(&self, more: &[&str]) -> String {
        let output = self.update(more);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        stderr(&output)
    }

    fn figures(&self, more: &[&str]) -> serde_json::Value {
        let output = self.update(&[&["--json", "-q"], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Returns the number of bytes that a request for a part of the image asks for; 0 for other requests.
fn requested_len(request: &Request) -> u64 {
    let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    match range.map(|(first, last)| (first.parse::<u64>(), last.parse::<u64>())) {
        Some((Ok(first), Ok(last))) if request.path == "/new" => last - first + 1,
        _ => 0,
    }
}

#[test]
fn an_update_fetches_what_changed_as_diff_predicts() {
    for format in FORMATS {
        let site = UpdateSite::new(format);
        let predicted = site.run(&["diff", "old", "new", "--update-size", "--json", "-q"]);
        let predicted: serde_json::Value = serde_json::from_slice(&predicted.stdout).unwrap();
        let made = site.figures(&[]);
        assert!(site.read("made") == site.read("new"));
        for field in ["fetched_bytes", "requests", "new_bytes", "index_bytes"] {
            assert_eq!(made[field], predicted["update"][field], "{format}: {field}: {made}");
        }
        let fetched = made["fetched_bytes"].as_u64().unwrap();
        assert!((200_000..330_000).contains(&fetched), "{format}: {made}");
        assert_eq!(made["kept_blocks"], 0);
        assert!(!site.path().join("made.part").exists());
        let told = run_in(site.path(), &["diff", "old", "new", "--update-size", "-q"]);
        let told = String::from_utf8(told.stdout).unwrap();
        assert!(told.lines().last().unwrap().starts_with("update: "), "{told}");
    }
}

#[test]
fn the_index_is_the_same_each_time_and_appears_with_the_image_only() {
    let site = UpdateSite::new("squashfs");
    let index = site.read("new.zsync");
    for jobs in ["0", "3"] {
        succeed(site.path(), &["build", "root", "-o", "new", "-qf", "--delta-index", "zsync", "-j", jobs]);
        assert!(site.read("new.zsync") == index);
    }
    let text = String::from_utf8_lossy(&index);
    assert!(text.starts_with("zsync: 0.6.2\nFilename: new\nBlocksize: 2048\nLength: "), "{text}");
    assert!(text.contains("\nURL: new\nSHA-1: ") && !text.contains("MTime"), "{text}");
    succeed(site.path(), &["build", "root", "-o", "b", "-q", "--delta-index", "zsync=https://example.com/x?y=z"]);
    assert!(String::from_utf8_lossy(&site.read("b.zsync")).contains("\nURL: https://example.com/x?y=z\n"));
    // A taken name ends the build before it begins.
    sh(site.path(), "touch c.zsync");
    let told = fail(site.path(), 1, &["build", "root", "-o", "c", "-q", "--delta-index", "zsync"]);
    assert!(told.contains("c.zsync exists; --force replaces it") && !site.path().join("c").exists(), "{told}");
    fail(site.path(), 1, &["build", "missing", "-o", "d", "-q", "--delta-index", "zsync"]);
    assert!(!site.path().join("d.zsync").exists());
    for (option, told) in [("rsync", "expected zsync"), ("zsync=", "expected an address")] {
        let message = fail(site.path(), 2, &["build", "root", "-o", "e", "--delta-index", option]);
        assert!(message.contains(told), "{message}");
    }
    let message = fail(site.path(), 2, &["build", "root", "-o", "-", "--delta-index", "zsync"]);
    assert!(message.contains("without --delta-index"), "{message}");
}

/// Cuts the connection of the longest range, a cluster of 128 KiB, in the middle. Its rest and another range are refused,
/// but not before it has begun: after an error no other begins.
fn interrupt(site: &UpdateSite) {
    let has_begun = AtomicBool::new(false);
    site.server.misbehave(move |request, _| match requested_len(request) {
        131_072.. if !has_begun.swap(true, Relaxed) => Act::Cut(100_000),
        20_000.. => {
            (0..1000).take_while(|_| !has_begun.load(Relaxed)).for_each(|_| thread::sleep(Duration::from_millis(10)));
            Act::Status(403, Vec::new(), String::new())
        }
        _ => Act::Right,
    });
}

#[test]
fn what_has_come_is_for_those_who_may_read_the_file_before() {
    for mode in [0o600, 0o640, 0o644] {
        let site = UpdateSite::new("erofs");
        let made = site.path().join("made");
        fs::write(&made, "before").unwrap();
        fs::set_permissions(&made, fs::Permissions::from_mode(mode)).unwrap();
        interrupt(&site);
        site.fail(&["-q", "--force"]);
        let part = site.path().join("made.part").metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(part & !mode, 0, "{part:o} of {mode:o}");
    }
}

#[test]
fn an_interrupted_update_goes_on_with_what_has_come() {
    let site = UpdateSite::new("erofs");
    interrupt(&site);
    let told = site.fail(&["-q"]);
    assert!(told.contains("made.part keeps what has come; the same command goes on from there"), "{told}");
    assert!(told.contains("403") && !site.path().join("made").exists(), "{told}");
    let predicted = site.run(&["diff", "old", "new", "--update-size", "--json", "-q"]);
    let predicted: serde_json::Value = serde_json::from_slice(&predicted.stdout).unwrap();
    let all_bytes = predicted["update"]["fetched_bytes"].as_u64().unwrap();
    let part = site.read("made.part");
    assert_eq!(part.len(), site.read("new").len());
    site.server.misbehave(|_, _| Act::Right);
    let made = site.figures(&[]);
    assert!(site.read("made") == site.read("new") && !site.path().join("made.part").exists());
    // 100,000 bytes are 48 whole blocks.
    assert!(made["fetched_bytes"].as_u64().unwrap() <= all_bytes - 48 * 2048, "{made} {all_bytes}");
    assert_eq!(made["reused_blocks"], 0, "all of the old file was copied already: {made}");
    // A part with nothing of it is no help and no harm.
    fs::write(site.path().join("made.part"), packfs_blocks::testing::noise(2_000_000, 9)).unwrap();
    site.figures(&["--force"]);
    assert!(site.read("made") == site.read("new"));
}

#[test]
fn the_old_image_may_be_replaced_and_its_mode_stays() {
    let site = UpdateSite::new("squashfs");
    fs::set_permissions(site.path().join("old"), fs::Permissions::from_mode(0o640)).unwrap();
    let index = site.server.url("/new.zsync");
    let output = site.run(&["update", &index, "--from", "old", "-o", "old", "-q", "--force"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(site.read("old") == site.read("new"));
    assert_eq!(fs::metadata(site.path().join("old")).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn an_index_in_a_file_needs_the_address_of_the_image() {
    let site = UpdateSite::new("squashfs");
    let update =
        |more: &[&str]| site.run(&[&["update", "new.zsync", "--from", "old", "-o", "made", "-q"], more].concat());
    let told = stderr(&update(&[]));
    assert!(told.contains("new.zsync: the image is at `new` beside the index, which is a file here"), "{told}");
    let output = update(&["--image-url", &site.server.url("/new")]);
    assert!(output.status.success() && site.read("made") == site.read("new"), "{}", stderr(&output));
}

#[test]
fn servers_that_answer_otherwise_are_noticed() {
    let site = UpdateSite::new("squashfs");
    let new = site.read("new");
    let is_image = |path: &str| path == "/new";
    // Without ranges, a small image comes as a whole, and a large one is refused.
    site.server.misbehave(move |request, _| if is_image(&request.path) { Act::Whole } else { Act::Right });
    site.figures(&["--force"]);
    assert!(site.read("made") == new);
    fs::write(site.path().join("large"), packfs_blocks::testing::noise(5 << 20, 7)).unwrap();
    fs::remove_file(site.path().join("made")).unwrap();
    site.give("large");
    let large = site.server.url("/large");
    site.server.misbehave(|request, _| if request.path == "/large" { Act::Whole } else { Act::Right });
    let told = site.fail(&["-q", "--image-url", &large]);
    assert!(told.contains("the server ignores requests for ranges"), "{told}");
    site.server.misbehave(|_, _| Act::Right);
    let told = site.fail(&["-q", "--image-url", &large]);
    assert!(told.contains("it has 5242880 bytes, but the index"), "{told}");
    // Other bytes of the same length, from the beginning or from some request on.
    let mut other = new.clone();
    other.iter_mut().for_each(|byte| *byte ^= 1);
    site.server.give("/new", other.clone());
    let told = site.fail(&["-q"]);
    assert!(told.contains("is not the one that the index describes") && told.contains("/new: "), "{told}");
    site.server.put("/new", Object { etag: Some("\"a\"".into()), ..Object::new(new.clone()) });
    site.server.misbehave(|request, _| match request.header("if-match") {
        Some(_) => Act::Status(412, Vec::new(), String::new()),
        None => Act::Right,
    });
    fs::remove_file(site.path().join("made.part")).unwrap();
    let told = site.fail(&["-q"]);
    assert!(told.contains("the object was replaced after it was opened"), "{told}");
    assert!(!site.path().join("made").exists());
}

#[test]
fn mistakes_are_explained_and_leave_nothing() {
    let site = UpdateSite::new("squashfs");
    let index = site.server.url("/new.zsync");
    sh(
        site.path(),
        "touch taken; mkdir dir; printf 'zsync: 0.6.2\\nBlocksize: 0\\n\\n' >zero.zsync; ln -s x linked.part",
    );
    site.server.give("/short.zsync", site.read("new.zsync")[..700].to_vec());
    let short = site.server.url("/short.zsync");
    let gone = site.server.url("/gone.zsync");
    let cases = [
        (vec!["update", &index, "--from", "none", "-o", "x"], 1, "none: cannot open"),
        (vec!["update", &index, "--from", "old", "-o", "taken"], 1, "taken exists; --force replaces it"),
        (vec!["update", &index, "--from", "old", "-o", "dir"], 1, "dir: is a directory"),
        (vec!["update", &index, "--from", "old", "-o", "linked"], 1, "linked.part"),
        (vec!["update", &gone, "--from", "old", "-o", "x"], 1, "404"),
        (vec!["update", &short, "--from", "old", "-o", "x"], 1, "bytes of sums follow"),
        (vec!["update", "old", "--from", "old", "-o", "x"], 1, "old: index of zsync at byte 0"),
        (vec!["update", "zero.zsync", "--from", "old", "-o", "x"], 1, "`Blocksize: 0`"),
        (vec!["diff", "root", "old", "--update-size"], 2, "--update-size: root is not an image"),
    ];
    for (args, status, told) in cases {
        let output = site.run(&args);
        let message = stderr(&output);
        assert!(output.status.code() == Some(status) && message.contains(told), "{args:?}: {message}");
        assert!(!site.path().join("x").exists() && !site.path().join("x.part").exists(), "{args:?}");
    }
}

#[test]
fn two_updates_do_not_write_one_file() {
    let site = UpdateSite::new("squashfs");
    let part = fs::File::create(site.path().join("made.part")).unwrap();
    rustix::fs::flock(&part, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let told = site.fail(&["-q"]);
    assert!(told.contains("made.part: another packfs update writes it"), "{told}");
}

#[test]
fn a_device_is_written_in_place() {
    let test = "a_device_is_written_in_place";
    if !rustix::process::geteuid().is_root() || !have(test, "losetup") {
        return eprintln!("SKIPPED {test}: loop devices need root");
    }
    let site = UpdateSite::new("erofs");
    sh(site.path(), "truncate -s 4M disk && losetup --find --show disk >device");
    let device = String::from_utf8(site.read("device")).unwrap();
    let device = device.trim();
    let index = site.server.url("/new.zsync");
    let update = |from: &str| site.run(&["update", &index, "--from", from, "-o", device, "--force", "--json", "-q"]);
    let over_itself = update(device);
    let first = update("old");
    let second = update("old");
    sh(site.path(), &format!("losetup --detach {device}"));
    assert!(stderr(&over_itself).contains("is OLD") && over_itself.status.code() == Some(2));
    assert!(first.status.success() && second.status.success(), "{}", stderr(&first));
    assert!(site.read("disk").starts_with(&site.read("new")));
    let second: serde_json::Value = serde_json::from_slice(&second.stdout).unwrap();
    assert_eq!(second["fetched_bytes"], 0, "it has the new image already");
}

#[test]
fn zsync_uses_our_index_and_we_use_that_of_zsyncmake() {
    let test = "zsync_uses_our_index_and_we_use_that_of_zsyncmake";
    if !have(test, "zsync") || !have(test, "zsyncmake") {
        return;
    }
    let site = UpdateSite::new("squashfs");
    let dir = site.path();
    // Beside the lines that only one of them has, the indexes are the same.
    sh(dir, "zsyncmake -e -b 2048 -u new -o theirs.zsync new 2>/dev/null");
    let without = |name: &str| {
        let index = site.read(name);
        let end = index.windows(2).position(|two| two == b"\n\n").unwrap();
        let header = String::from_utf8(index[..end].to_vec()).unwrap();
        let only = ["MTime", "Safe", "SHA-256"];
        let lines: Vec<String> =
            header.lines().filter(|line| !only.iter().any(|name| line.starts_with(name))).map(str::to_owned).collect();
        (lines, index[end..].to_vec())
    };
    let (our_lines, our_sums) = without("new.zsync");
    let (their_lines, their_sums) = without("theirs.zsync");
    assert_eq!(our_lines, their_lines);
    assert!(our_sums == their_sums);
    // We use theirs.
    site.give("theirs.zsync");
    let output =
        site.run(&["update", &site.server.url("/theirs.zsync"), "--from", "old", "-o", "made", "--json", "-q"]);
    assert!(output.status.success() && site.read("made") == site.read("new"), "{}", stderr(&output));
    let made: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(made["sha256"].is_null(), "{made}");
    // zsync uses ours, even where nothing is to be fetched.
    sh(dir, "cat old new >both; zsync -q -i both -o theirs new.zsync 2>zsync.log || { cat zsync.log >&2; exit 1; }");
    assert!(site.read("theirs") == site.read("new"));
}

/// zsync requests several ranges at once, which `packfs serve` answers.
#[cfg(feature = "serve")]
#[test]
fn zsync_fetches_by_our_index_from_our_server() {
    let test = "zsync_fetches_by_our_index_from_our_server";
    if !have(test, "zsync") {
        return;
    }
    let site = UpdateSite::new("squashfs");
    let served = crate::serve::ServeProcess::start(site.path(), &["new"]);
    let index = format!("zsync={}image", served.address);
    succeed(site.path(), &["build", "root", "-o", "again", "-q", "--delta-index", &index]);
    // zsync takes an empty proxy for one whose name it cannot find.
    sh(
        site.path(),
        "unset http_proxy; zsync -q -i old -o theirs again.zsync >zsync.log 2>&1 || { cat zsync.log >&2; exit 1; }",
    );
    assert!(site.read("theirs") == site.read("new"));
}
