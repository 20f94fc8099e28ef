//! Code shared by the tests of the program: running it, and reporting missing oracles.

pub(crate) mod kernel;
pub(crate) mod mounts;
pub(crate) mod program;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The formats, as values of `--format`.
pub(crate) const FORMATS: [&str; 2] = ["squashfs", "erofs"];

/// Returns the program under test, with arguments, standard input closed, and no environment that affects images.
pub(crate) fn packfs<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(args: I) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_packfs"));
    command.args(args).stdin(Stdio::null()).env_remove("SOURCE_DATE_EPOCH").env("LC_ALL", "C");
    command
}

/// Runs the program in `dir` and returns its output.
pub(crate) fn run_in(dir: &Path, args: &[&str]) -> Output {
    packfs(args).current_dir(dir).output().expect("packfs starts")
}

/// Runs the program in `dir`, which must succeed; returns its standard output.
pub(crate) fn succeed(dir: &Path, args: &[&str]) -> String {
    let output = run_in(dir, args);
    assert!(output.status.success(), "packfs {args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Runs the program in `dir`, which must fail with `status`; returns its standard error.
pub(crate) fn fail(dir: &Path, status: i32, args: &[&str]) -> String {
    let output = run_in(dir, args);
    assert_eq!(output.status.code(), Some(status), "packfs {args:?}: {}", stderr(&output));
    stderr(&output)
}

/// Returns the shorter of two parts of a dump: alone it is incomplete. Whichever part was free took
/// a segment, so one may have none.
pub(crate) fn shorter<'p>(dir: &Path, parts: [&'p str; 2]) -> &'p str {
    let [one, other] = parts;
    let len = |part| std::fs::metadata(dir.join(part)).expect("a part").len();
    if len(one) <= len(other) { one } else { other }
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Makes a directory `root` in `dir` with entries of every kind that need no privilege.
pub(crate) fn sample(dir: &Path) {
    let root = dir.join("root");
    std::fs::create_dir_all(root.join("etc")).unwrap();
    std::fs::create_dir_all(root.join("usr/share/doc")).unwrap();
    std::fs::write(root.join("etc/motd"), "Welcome.\n").unwrap();
    std::fs::write(root.join("usr/share/doc/text"), "All work and no play.\n".repeat(20_000)).unwrap();
    std::fs::write(root.join("usr/share/doc/copy"), "All work and no play.\n".repeat(20_000)).unwrap();
    std::fs::hard_link(root.join("etc/motd"), root.join("etc/issue")).unwrap();
    std::os::unix::fs::symlink("../etc/motd", root.join("usr/motd")).unwrap();
    let hole = std::fs::File::create(root.join("hole")).unwrap();
    hole.set_len(3_000_000).unwrap();
}

/// Makes a directory with the `root` of [`sample`].
pub(crate) fn sample_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    dir
}

/// Makes a directory and runs a shell script in it.
pub(crate) fn script_dir(script: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new("sh").args(["-ec", script]).current_dir(dir.path()).status().unwrap();
    assert!(made.success(), "{script}");
    dir
}

/// Returns true if a program needed by the test is installed; otherwise reports that, or fails if
/// none may be missing.
pub(crate) fn have(test: &str, tool: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&paths).any(|dir| dir.join(tool).is_file()) {
        return true;
    }
    skip(test, &format!("{tool} is not installed"));
    false
}

/// Returns the script of axe, which finds accessibility problems. `scripts/get-axe.sh` fetches it; its licence (MPL-2.0)
/// keeps it out of the repository.
pub(crate) fn axe(test: &str) -> Option<String> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/axe/axe.min.js");
    let path = std::env::var_os("PACKFS_AXE").map_or(fetched, PathBuf::from);
    let script = std::fs::read_to_string(path).ok();
    if script.is_none() {
        skip(test, "axe is not there (scripts/get-axe.sh)");
    }
    script
}

/// Reports that a test is skipped, or fails if none may be.
pub(crate) fn skip(test: &str, why: &str) {
    assert!(std::env::var_os("PACKFS_REQUIRE_ORACLES").is_none(), "{test}: {why}");
    eprintln!("SKIPPED {test}: {why}");
}
