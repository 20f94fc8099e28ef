//! `packfs serve --nbd`, read by the clients of libnbd and QEMU.
#![cfg(feature = "serve")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::common::mounts::{ends, soon};
use crate::common::{FORMATS, fail, have, packfs, sample, stderr, succeed};
use packfs_blocks::testing::noise;

/// A server, ended with the test.
struct Server {
    child: Child,
    /// Addresses of its exports.
    uris: Vec<String>,
}

impl Server {
    fn start(dir: &Path, exports: usize, args: &[&str]) -> Server {
        let server = packfs(["serve", "--nbd"]);
        // Under nohup, the server would ignore SIGHUP as well.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP").arg(server.get_program()).args(server.get_args()).stdin(Stdio::null());
        let command = command.args(args).current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines().take(exports);
        let uris: Vec<String> = lines.map_while(Result::ok).collect();
        if uris.len() < exports {
            let output = child.wait_with_output().unwrap();
            panic!("{}", stderr(&output));
        }
        Server { child, uris }
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Sends a signal; returns the exit status and the messages.
    fn end(mut self, signal: &str) -> (i32, String) {
        self.signal(signal);
        let status = ends(&mut self.child);
        let mut text = String::new();
        self.child.stderr.as_mut().unwrap().read_to_string(&mut text).unwrap();
        (status, text)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(dir: &Path, words: &[&str]) -> Output {
    Command::new(words[0]).args(&words[1..]).current_dir(dir).output().unwrap()
}

fn said(dir: &Path, words: &[&str]) -> String {
    let output = run(dir, words);
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns true if two files are equal, whatever their length.
fn same(dir: &Path, one: &str, other: &str) -> bool {
    run(dir, &["cmp", one, other]).status.success()
}

fn images() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    std::fs::write(dir.path().join("root/noise"), noise(5 << 20, 7)).unwrap();
    for format in FORMATS {
        succeed(dir.path(), &["build", "-q", "root", "-o", format, "--format", format]);
    }
    dir
}

/// Returns bytes that do not compress.
#[test]
fn images_are_exports_that_all_clients_read() {
    let test = "images_are_exports_that_all_clients_read";
    if !have(test, "nbdinfo") || !have(test, "nbdcopy") || !have(test, "qemu-img") || !have(test, "qemu-io") {
        return;
    }
    let images = images();
    let dir = images.path();
    let server = Server::start(dir, 2, &["./nbd sock", "squashfs", "erofs"]);
    let list = said(dir, &["nbdinfo", "--list", "--json", &server.uris[0]]);
    for shown in ["\"squashfs\"", "\"erofs\"", "SquashFS image", "EROFS image"] {
        assert!(list.contains(shown), "{shown}: {list}");
    }
    for (format, uri) in FORMATS.iter().zip(&server.uris) {
        let size = dir.join(format).metadata().unwrap().len().to_string();
        assert_eq!(said(dir, &["nbdinfo", "--size", uri]).trim(), size);
        for can in ["multi-conn", "flush", "cache", "df", "structured-reply"] {
            assert!(run(dir, &["nbdinfo", "--can", can, uri]).status.success(), "{can}");
        }
        assert!(run(dir, &["nbdinfo", "--is", "read-only", uri]).status.success());
        said(dir, &["nbdcopy", "--connections=8", "--requests=64", "--threads=4", uri, "copy"]);
        assert!(same(dir, format, "copy"), "{format}");
        // A request of 16 MiB, and small ones, one after the other.
        said(dir, &["nbdcopy", "--synchronous", "--request-size=16777216", uri, "copy"]);
        assert!(same(dir, format, "copy"), "{format}");
        said(dir, &["nbdcopy", "--connections=1", "--requests=64", "--request-size=4096", uri, "copy"]);
        assert!(same(dir, format, "copy"), "{format}");
        said(dir, &["qemu-img", "convert", "-f", "raw", "-O", "raw", "-W", "-m", "16", uri, "copy"]);
        // QEMU rounds the length up to sectors.
        assert!(said(dir, &["qemu-img", "compare", "-f", "raw", "-F", "raw", uri, format]).contains("identical"));
        let wrote = run(dir, &["qemu-io", "-f", "raw", "-c", "write 0 4096", uri]);
        assert!(!wrote.status.success(), "{}", String::from_utf8_lossy(&wrote.stdout));
    }
    let none = server.uris[0].replace("squashfs", "none");
    assert!(!run(dir, &["nbdinfo", &none]).status.success());
    assert_eq!(server.end("-INT"), (0, String::new()));
    assert!(!dir.join("nbd sock").exists());
}

#[test]
fn parts_of_a_dump_are_the_disk_that_was_split() {
    let test = "parts_of_a_dump_are_the_disk_that_was_split";
    if !have(test, "nbdinfo") || !have(test, "nbdcopy") || !have(test, "qemu-img") {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let text = "All work and no play.\n".repeat(150_000).into_bytes();
    let disk = [noise(3 << 20, 7), vec![0; 12 << 20], text, vec![0; 5 << 20], noise(1000, 7), b"end".to_vec()].concat();
    std::fs::write(dir.join("disk"), &disk).unwrap();
    succeed(dir, &["split", "-q", "disk", "-o", "a", "-o", "b", "-o", "c", "--parity", "1"]);
    // One part may be lost.
    for parts in [&["a", "b", "c"][..], &["c", "a"]] {
        let server = Server::start(dir, 1, &[&["sock"], parts].concat());
        let uri = &server.uris[0];
        said(dir, &["nbdcopy", "--connections=8", "--requests=16", uri, "copy"]);
        assert!(same(dir, "disk", "copy"));
        said(dir, &["nbdcopy", "--synchronous", "--connections=1", uri, "copy"]);
        assert!(same(dir, "disk", "copy"));
        assert!(said(dir, &["qemu-img", "compare", "-f", "raw", "-F", "raw", uri, "disk"]).contains("identical"));
        let map = said(dir, &["nbdinfo", "--map", uri]);
        let holes: u64 = map
            .lines()
            .filter(|line| line.contains("hole,zero"))
            .map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap())
            .sum();
        assert!((16 << 20..=17 << 20).contains(&holes), "{map}");
        // By default, all of it is the export without a name.
        let nameless = uri.replace("///dump?", "///?");
        assert_eq!(said(dir, &["nbdinfo", "--size", &nameless]).trim(), disk.len().to_string());
        let (status, told) = server.end("-TERM");
        assert_eq!(status, 0, "{told}");
        assert!(told.lines().all(|line| line.contains("is missing; its bytes are restored")), "{told}");
    }
}

#[test]
fn devices_of_an_image_are_exports_too() {
    let test = "devices_of_an_image_are_exports_too";
    if !have(test, "nbdcopy") || !have(test, "mkfs.erofs") {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    sample(dir);
    said(dir, &["mkfs.erofs", "--chunksize=65536", "--blobdev=blob", "image", "root"]);
    let server = Server::start(dir, 2, &["sock", "image", "--device", "blob"]);
    for (file, uri) in ["image", "blob"].iter().zip(&server.uris) {
        said(dir, &["nbdcopy", uri, "copy"]);
        assert!(same(dir, file, "copy"), "{file}");
    }
}

#[test]
fn an_address_of_this_machine_serves_too() {
    if !have("an_address_of_this_machine_serves_too", "nbdcopy") {
        return;
    }
    let images = images();
    let dir = images.path();
    for listen in ["127.0.0.1:0", "localhost:0"] {
        let server = Server::start(dir, 1, &[listen, "erofs"]);
        assert!(server.uris[0].starts_with("nbd://") && server.uris[0].ends_with("/erofs"), "{}", server.uris[0]);
        said(dir, &["nbdcopy", &server.uris[0], "copy"]);
        assert!(same(dir, "erofs", "copy"));
    }
    let whole = std::fs::read(dir.join("erofs")).unwrap();
    std::fs::write(dir.join("behind"), [vec![7; 8192], whole].concat()).unwrap();
    let offset = Server::start(dir, 1, &["sock", "behind", "--offset", "8K"]);
    said(dir, &["nbdcopy", &offset.uris[0], "copy"]);
    assert!(same(dir, "erofs", "copy"));
}

#[test]
fn a_killed_server_is_replaced_and_a_living_one_is_an_error() {
    let images = images();
    let dir = images.path();
    let killed = Server::start(dir, 1, &["sock", "erofs"]);
    assert!(fail(dir, 1, &["serve", "--nbd", "sock", "erofs"]).contains("sock: cannot listen: another server"));
    assert_eq!(killed.end("-KILL").0, -1);
    assert!(dir.join("sock").exists());
    let server = Server::start(dir, 1, &["sock", "erofs"]);
    server.signal("-HUP");
    soon("removed", || !dir.join("sock").exists());
    drop(server);
}

/// A file may be cut or written to by anyone while it is served.
#[test]
fn a_changed_image_is_an_error_with_a_line_in_the_log() {
    if !have("a_changed_image_is_an_error_with_a_line_in_the_log", "nbdcopy") {
        return;
    }
    let images = images();
    let dir = images.path();
    let server = Server::start(dir, 1, &["sock", "erofs"]);
    std::fs::File::options().write(true).open(dir.join("erofs")).unwrap().set_len(100).unwrap();
    assert!(!run(dir, &["nbdcopy", &server.uris[0], "copy"]).status.success());
    let (status, log) = server.end("-TERM");
    assert!(status == 0 && log.starts_with("packfs: erofs: byte ") && log.contains("100"), "{log}");
}

#[test]
fn wrong_use_is_told_before_anything_is_served() {
    let images = images();
    let dir = images.path();
    std::fs::write(dir.join("file"), "precious").unwrap();
    std::fs::write(dir.join("text"), "text".repeat(10_000)).unwrap();
    succeed(dir, &["split", "-q", "text", "-o", "part"]);
    let cases: [(&[&str], i32, &str); 8] = [
        (&["file", "erofs"], 1, "file: cannot listen: a file that is not a socket is there"),
        (&["nowhere/sock", "erofs"], 1, "nowhere/sock: cannot listen"),
        (&["0.0.0.0:0", "erofs"], 1, "only addresses of this machine"),
        (&["sock", "text"], 1, "neither a SquashFS nor an EROFS image"),
        (&["sock", "part", "erofs"], 2, "is an image, and others are parts of a dump"),
        (&["sock", "erofs", "squashfs", "--offset", "4K"], 2, "--offset and --device are for one image"),
        (&["sock", "erofs", "--token", "file"], 2, "--token"),
        (&["sock", "erofs", "--listen", "127.0.0.1:0"], 2, "--listen"),
    ];
    for (args, status, told) in cases {
        let all = [&["serve", "--nbd"], args].concat();
        let text = fail(dir, status, &all);
        assert!(text.contains(told), "{args:?}: {text}");
    }
    assert!(!dir.join("sock").exists() && std::fs::read(dir.join("file")).unwrap() == b"precious");
}
