//! `packfs serve`, asked by curl; archives are read by bsdtar.
#![cfg(feature = "serve")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::mounts::ends;
use crate::common::{FORMATS, fail, have, packfs, sample, stderr, succeed};

/// A server, ended with the test.
pub(crate) struct ServeProcess {
    child: Child,
    pub(crate) address: String,
}

impl ServeProcess {
    pub(crate) fn start(dir: &Path, args: &[&str]) -> ServeProcess {
        let mut command = packfs(["serve"]);
        let command = command.args(args).current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        if address.is_empty() {
            let output = child.wait_with_output().unwrap();
            panic!("{}", stderr(&output));
        }
        ServeProcess { child, address: address.trim_end().to_owned() }
    }

    fn curl(&self, args: &[&str], target: &str) -> Vec<u8> {
        let mut command = Command::new("curl");
        let command = command.args(["-sS", "--noproxy", "*", "--path-as-is"]).args(args);
        let output = command.arg(format!("{}{target}", self.address)).output().unwrap();
        assert!(output.status.success(), "{target}: {}", stderr(&output));
        output.stdout
    }

    fn text(&self, args: &[&str], target: &str) -> String {
        String::from_utf8(self.curl(args, target)).unwrap()
    }

    fn status(&self, args: &[&str], target: &str) -> String {
        self.text(&[&["-o", "/dev/null", "-w", "%{http_code}"], args].concat(), target)
    }

    /// Sends a signal; returns the exit status and the messages.
    fn end(mut self, signal: &str) -> (i32, String) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
        let status = ends(&mut self.child);
        let mut text = String::new();
        std::io::Read::read_to_string(self.child.stderr.as_mut().unwrap(), &mut text).unwrap();
        (status, text)
    }
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn images() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    for format in FORMATS {
        succeed(dir.path(), &["build", "-q", "root", "-o", format, "--format", format]);
    }
    dir
}

#[test]
fn every_file_and_folder_comes_as_it_was_packed() {
    let test = "every_file_and_folder_comes_as_it_was_packed";
    if !have(test, "curl") || !have(test, "bsdtar") {
        return;
    }
    let dir = images();
    for format in FORMATS {
        let server = ServeProcess::start(dir.path(), &[format]);
        for file in ["etc/motd", "etc/issue", "usr/share/doc/text", "usr/share/doc/copy", "hole", "usr/motd"] {
            let source = std::fs::read(dir.path().join("root").join(file)).unwrap();
            assert!(server.curl(&[], &format!("files/{file}")) == source, "{format}: {file}");
            assert!(server.curl(&["-r", "1-8"], &format!("files/{file}")) == source[1..9], "{format}: {file}");
        }
        assert!(server.curl(&[], "image") == std::fs::read(dir.path().join(format)).unwrap());
        std::fs::write(dir.path().join("all.tar"), server.curl(&[], "tar/")).unwrap();
        std::fs::write(dir.path().join("usr.tar"), server.curl(&[], "tar/usr")).unwrap();
        let unpack = format!(
            "rm -rf out && mkdir out && bsdtar -xpf all.tar -C out && diff -r --no-dereference root out && \
            rm -rf out && mkdir out && bsdtar -xpf usr.tar -C out && diff -r --no-dereference root/usr out/usr && test {format}"
        );
        let ran = Command::new("sh").args(["-ec", &unpack]).current_dir(dir.path()).output().unwrap();
        assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), stderr(&ran));
        for path in ["files/../../etc/passwd", "files/%2e%2e/etc/passwd", "../etc/passwd"] {
            assert_eq!(server.status(&[], path), "400");
        }
        assert_eq!(server.status(&["-H", "Host: evil.example"], "image"), "421");
        assert_eq!(server.end("-INT"), (0, String::new()));
    }
}

/// Loads the page of a server in a browser; returns what it has become.
fn browsed(dir: &Path, server: &ServeProcess, place: &str) -> String {
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-proxy-server", "--virtual-time-budget=20000"]);
    browser.arg(format!("--user-data-dir={}", dir.join("profile").to_str().unwrap()));
    let output = browser.args(["--dump-dom", &format!("{}{place}", server.address)]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_browser_explores_the_image_under_the_policy_of_the_page() {
    if !have("a_browser_explores_the_image_under_the_policy_of_the_page", "chromium") {
        return;
    }
    let images = images();
    let dir = images.path();
    std::fs::write(dir.join("root/etc/new"), "new").unwrap();
    succeed(dir, &["build", "-q", "root", "-o", "newer"]);
    let cases: [(&[&str], &str); 3] =
        [(&["squashfs"], "/"), (&["squashfs", "erofs"], "/erofs/"), (&["newer", "--against", "squashfs"], "/")];
    for (args, place) in cases {
        let server = ServeProcess::start(dir, args);
        let headers = server.text(&["-o", "/dev/null", "-D", "-"], place);
        let policy = headers.lines().find(|line| line.starts_with("Content-Security-Policy: ")).unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        // Each answer has a nonce of its own.
        let page = server.text(&[], place);
        assert_ne!(page, server.text(&[], place));
        // The address names a file, whose panel shows its beginning.
        let seen = browsed(dir, &server, &format!("{place}#etc/motd"));
        for shown in ["class=\"ready\"", "Welcome.", "role=\"treeitem\"", "files/etc/motd"] {
            assert!(seen.contains(shown) && !page.contains(shown), "{args:?} {shown}: {seen}");
        }
        let model = server.text(&[], &format!("{place}api/model"));
        assert_eq!(!model.contains("\"changes\":null"), args.contains(&"--against"), "{model}");
    }
}

/// packfs itself reads what it serves, from its own ranges, entity tags and connections.
#[cfg(feature = "remote")]
#[test]
fn packfs_reads_the_image_that_it_serves() {
    let dir = images();
    let server = ServeProcess::start(dir.path(), &["squashfs", "erofs"]);
    for format in FORMATS {
        let address = format!("{}{format}/image", server.address);
        let mut command = packfs(["check", "--remote-cache=0", &address, "--against", "root"]);
        let output = command.current_dir(dir.path()).env("no_proxy", "*").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let reserved = ServeProcess::start(dir.path(), &["--remote-cache=0", &address]);
        assert!(reserved.address.starts_with("http://127.0.0.1:"));
    }
    assert_eq!(server.end("-TERM").0, 0);
}

#[test]
fn others_need_the_token_of_a_file_or_the_printed_one() {
    if !have("others_need_the_token_of_a_file_or_the_printed_one", "curl") {
        return;
    }
    let dir = images();
    std::fs::write(dir.path().join("secret"), "s3cret-token\n").unwrap();
    let server = ServeProcess::start(dir.path(), &["erofs", "--token", "secret", "--listen", "localhost:0"]);
    assert!(server.address.starts_with("http://localhost:") && server.address.ends_with('/'), "{}", server.address);
    assert_eq!(server.status(&[], "image"), "401");
    assert_eq!(server.text(&["-H", "Authorization: Bearer s3cret-token"], "files/etc/motd"), "Welcome.\n");
    let jar = dir.path().join("jar");
    let follow = ["-L", "-c", jar.to_str().unwrap(), "-b", ""];
    assert_eq!(server.text(&follow, "files/etc/motd?token=s3cret-token"), "Welcome.\n");
    assert_eq!(server.text(&["-b", jar.to_str().unwrap()], "files/etc/motd"), "Welcome.\n");

    let open = ServeProcess::start(dir.path(), &["erofs", "--listen", "0.0.0.0:0"]);
    let (place, token) = open.address.split_once("?token=").unwrap();
    assert_eq!(token.len(), 32);
    let curl = |args: &[&str]| Command::new("curl").args(["-sS", "--noproxy", "*"]).args(args).output().unwrap().stdout;
    assert!(curl(&[&format!("{place}files/etc/motd")]).starts_with(b"401 "));
    let bearer = format!("Authorization: Bearer {token}");
    assert_eq!(curl(&["-H", &bearer, &format!("{place}files/etc/motd")]), b"Welcome.\n");
}

/// A file may be cut or written to by anyone while it is served.
#[test]
fn a_changed_image_is_an_error_with_a_line_in_the_log() {
    if !have("a_changed_image_is_an_error_with_a_line_in_the_log", "curl") {
        return;
    }
    let dir = images();
    let server = ServeProcess::start(dir.path(), &["erofs"]);
    assert_eq!(server.status(&[], "image"), "200");
    std::fs::write(dir.path().join("erofs"), b"short").unwrap();
    assert_eq!((server.status(&[], "image"), server.status(&[], "files/etc/motd")), ("500".into(), "500".into()));
    assert!(server.text(&[], "metrics").contains("packfs_read_failures_total 2\n"));
    let (status, log) = server.end("-TERM");
    assert!(status == 0 && log.starts_with("packfs: erofs: /image: ") && log.lines().count() == 2, "{log}");
}

#[test]
fn wrong_use_is_told_before_anything_is_served() {
    let dir = images();
    std::fs::write(dir.path().join("empty"), "\n").unwrap();
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = busy.local_addr().unwrap().to_string();
    let cases: [(&[&str], i32, &str); 9] = [
        (&["erofs", "--listen", "8080"], 2, "expected HOST:PORT"),
        (&["erofs", "--listen", "127.0.0.1:x"], 2, "expected HOST:PORT"),
        (&["erofs", "--listen", &busy], 1, &busy),
        (&["erofs", "--token", "empty"], 2, "the first line is not a token"),
        (&["erofs", "--token", "none"], 1, "none: cannot open"),
        (&["erofs", "squashfs", "--offset", "4K"], 2, "--offset and --device are for one image"),
        (&["erofs", "squashfs", "--against", "erofs"], 2, "--against is for one image"),
        (&["erofs", "--against", "none"], 1, "--against none: "),
        (&["root/etc/motd"], 1, "neither a SquashFS nor an EROFS image"),
    ];
    for (args, status, told) in cases {
        let all = [&["serve"], args].concat();
        assert!(fail(dir.path(), status, &all).contains(told), "{args:?}");
    }
}
