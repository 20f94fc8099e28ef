//! `build --hot` and `trace`, seen through the program alone.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{self, FORMATS, fail, packfs, run_in, sample_dir, stderr, succeed};

fn bytes(dir: &Path, name: &str) -> Vec<u8> {
    std::fs::read(dir.join(name)).unwrap()
}

#[test]
fn a_hot_list_changes_the_layout_and_not_the_tree() {
    for format in FORMATS {
        let workplace = sample_dir();
        let dir = workplace.path();
        let build = |options: &[&str]| run_in(dir, &[&["build", "root", "--format", format], options].concat());
        assert!(build(&["-o", "plain"]).status.success());
        std::fs::write(dir.join("list"), "/usr/share/doc/text\nusr/motd\nno/such/path\n").unwrap();
        let hot = build(&["-o", "hot", "--hot", "list"]);
        assert!(hot.status.success(), "{}", stderr(&hot));
        let told = stderr(&hot);
        assert!(told.contains("hot list") && told.contains("line 3: `no/such/path`"), "{told}");
        assert_ne!(bytes(dir, "plain"), bytes(dir, "hot"), "{format}");
        succeed(dir, &["diff", "plain", "hot"]);
        succeed(dir, &["check", "hot"]);
        // An archive that can be read only once is copied first, and gives the same image.
        let archive = packfs(["tar", "plain"]).current_dir(dir).output().unwrap().stdout;
        let mut piped = packfs(["build", "-", "--format", format, "-o", "piped", "--hot", "list", "-q"]);
        let mut piped = piped.current_dir(dir).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        piped.stdin.take().unwrap().write_all(&archive).unwrap();
        let piped = piped.wait_with_output().unwrap();
        assert!(piped.status.success(), "{}", stderr(&piped));
        succeed(dir, &["diff", "hot", "piped"]);
        fail(dir, 1, &["build", "root", "-o", "new", "--hot", "list", "--strict"]);
        assert!(fail(dir, 2, &["build", "root", "-o", "new", "--hot", "gone"]).contains("gone"));
        assert!(!dir.join("new").exists());
    }
}

/// Returns true if fanotify may be used; says so if not.
fn can_trace(test: &str) -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    common::skip(test, "fanotify needs root");
    false
}

#[test]
fn a_trace_lists_what_a_command_opens_in_order() {
    if !can_trace("a_trace_lists_what_a_command_opens_in_order") {
        return;
    }
    let workplace = sample_dir();
    let dir = workplace.path();
    std::fs::write(dir.join("root/new\nline"), "x").unwrap();
    std::fs::write(dir.join("outside"), "x").unwrap();
    let script = "cat root/usr/share/doc/text outside root/etc/issue root/usr/motd 'root/new\nline'; ls root/usr; \
                  cat root/usr/share/doc/text; echo x > root/gone; rm root/gone; cat root/hole; exit 3";
    let trace = ["trace", "-o", "list", "--mount", "root", "--", "sh", "-c", script];
    let traced = run_in(dir, &trace);
    assert_eq!(traced.status.code(), Some(1), "{}", stderr(&traced));
    let told = stderr(&traced);
    assert!(
        told.contains("sh ended with exit status: 3") && told.contains("1 path with a newline in the name"),
        "{told}"
    );
    let list = String::from_utf8(bytes(dir, "list")).unwrap();
    // A hard link has the name that it was opened by, a symbolic link the one it leads to.
    let lines: Vec<_> = list.lines().collect();
    assert_eq!(lines, ["/usr/share/doc/text", "/etc/issue", "/etc/motd", "/usr", "/hole"]);
    assert!(fail(dir, 1, &trace).contains("exists"));
    succeed(dir, &["build", "root", "-o", "image", "--hot", "list", "--strict", "-q"]);
    let none = run_in(dir, &["trace", "-q", "-o", "none", "--mount", "root", "--", "true"]);
    assert!(none.status.success() && stderr(&none).contains("nothing below root was opened"), "{}", stderr(&none));
    assert!(fail(dir, 1, &["trace", "-o", "new", "--mount", "root", "--", "./no-program"]).contains("no-program"));
    assert!(fail(dir, 1, &["trace", "-o", "new", "--mount", "gone", "--", "true"]).contains("gone"));
    assert!(!dir.join("new").exists());
    fail(dir, 2, &["trace", "-o", "new", "--mount", "root"]);
}

#[test]
fn an_interrupted_trace_ends_the_command_and_keeps_the_list() {
    if !can_trace("an_interrupted_trace_ends_the_command_and_keeps_the_list") {
        return;
    }
    let workplace = sample_dir();
    let dir = workplace.path();
    let script = "cat root/etc/motd; touch begun; exec sleep 600";
    let mut child = packfs(["trace", "-o", "list", "--mount", "root", "--", "sh", "-c", script]);
    let mut child = child.current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !dir.join("begun").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(bytes(dir, "list"), b"/etc/motd\n");
}

#[test]
fn without_root_a_trace_says_what_it_needs() {
    let workplace = sample_dir();
    let dir = workplace.path();
    let mut command = packfs(["trace", "-o", "list", "--mount", "root", "--", "true"]);
    if rustix::process::geteuid().is_root() {
        if !common::have("without_root_a_trace_says_what_it_needs", "setpriv") {
            return;
        }
        let (program, trace) = (command.get_program().to_owned(), command.get_args().map(OsStr::to_owned));
        let mut without = Command::new("setpriv");
        without.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(program).args(trace.collect::<Vec<_>>());
        command = without;
    }
    let output = command.current_dir(dir).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("run as root") && !dir.join("list").exists(), "{}", stderr(&output));
}
