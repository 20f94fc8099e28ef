//! Other programs, and packfs under their names: running command lines of theirs.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{have, skip};

const PACKFS: &str = env!("CARGO_BIN_EXE_packfs");

/// Makes a link to packfs in `dir` called like another program.
pub(crate) fn link(dir: &Path, program: &str) -> PathBuf {
    let link = dir.join(program);
    symlink(PACKFS, &link).unwrap();
    link
}

/// Returns the path of packfs's link in `dir`, or the name of the program itself.
pub(crate) fn either(dir: &Path, program: &str, ours: bool) -> PathBuf {
    if ours { dir.join(program) } else { program.into() }
}

/// Returns a program with the words of a command line, to run in `dir`. Blanks separate words.
pub(crate) fn command(dir: &Path, program: impl AsRef<Path>, line: &str) -> Command {
    let mut command = Command::new(program.as_ref());
    command.args(line.split(' ')).current_dir(dir).stdin(Stdio::null());
    command.env_remove("SOURCE_DATE_EPOCH").env("TZ", "Europe/Paris");
    command
}

/// Runs a command line in `dir`.
pub(crate) fn run(dir: &Path, program: impl AsRef<Path>, line: &str) -> Output {
    command(dir, program, line).output().unwrap()
}

/// Runs a command line in `dir` with `image` for the word `IMAGE`.
pub(crate) fn make(dir: &Path, program: impl AsRef<Path>, line: &str, image: &str) -> Output {
    run(dir, program, &line.replace("IMAGE", image))
}

/// Runs a script of the shell in `dir`, which must succeed; returns its standard output.
pub(crate) fn sh(dir: &Path, script: &str) -> String {
    let ran = Command::new("sh").args(["-ec", script]).current_dir(dir).output().unwrap();
    assert!(ran.status.success(), "{script}: {}", text(&ran.stderr));
    text(&ran.stdout)
}

/// Makes a script that can be run at once. The shell writes it: what is open for writing in this process is, for a moment,
/// also open in a child that another test starts, and Linux runs no file that is open for writing.
pub(crate) fn write_script(path: &Path, script: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-ec", "cat > \"$0\"; chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success(), "{path:?}");
}

/// Copies packfs, so that it can be run at once, as with [`write_script`].
pub(crate) fn copy_packfs(to: &Path) {
    assert!(Command::new("cp").arg(PACKFS).arg(to).status().unwrap().success(), "{to:?}");
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Beginning of the version of squashfs-tools whose options and output are ours.
pub(crate) const SQUASHFS_TOOLS: &str = "version 4.7";
/// Beginning of the version of erofs-utils whose options and output are ours.
pub(crate) const EROFS_UTILS: &str = "1.9";

/// Returns true if a program is installed and its version line contains `version`; otherwise reports the version that it
/// needs, or fails if none may be missing. Older programs lack options and print other lines.
pub(crate) fn have_version(test: &str, program: &str, version: &str) -> bool {
    if !have(test, program) {
        return false;
    }
    let asked = if program.ends_with(".erofs") { "-V" } else { "-version" };
    let told = Command::new(program).arg(asked).output().unwrap();
    let is_new = text(&told.stdout).contains(version);
    if !is_new {
        let told = text(&[told.stdout, told.stderr].concat());
        let line = told.lines().next().unwrap_or_default();
        skip(test, &format!("{program} is too old: it has to be {version}, and says `{line}`"));
    }
    is_new
}

/// Returns true if a program of squashfs-tools or erofs-utils is installed in the version whose options are ours; of other
/// programs any version will do.
pub(crate) fn is_current(test: &str, program: &str) -> bool {
    match program {
        "mksquashfs" | "sqfstar" | "unsquashfs" | "sqfscat" => have_version(test, program, SQUASHFS_TOOLS),
        _ if program.ends_with(".erofs") => have_version(test, program, EROFS_UTILS),
        _ => have(test, program),
    }
}

/// Returns true if unsquashfs is installed in the version whose output is ours.
pub(crate) fn have_unsquashfs(test: &str) -> bool {
    is_current(test, "unsquashfs")
}
