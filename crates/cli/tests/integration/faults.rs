//! Failures: one clear error, status 1, nothing lost, no files left behind.

use packfs_image::name::display;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::common::{FORMATS, fail, have, packfs, run_in, sample, skip, stderr, succeed};
use packfs_blocks::testing::noise;

const OLD: &[u8] = b"the old image";

/// A directory with `root` and an old `image` in it.
fn with_old_image() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    std::fs::write(dir.path().join("image"), OLD).unwrap();
    dir
}

/// Asserts that the old image is whole and no other file exists.
fn nothing_happened(dir: &Path) {
    assert_eq!(std::fs::read(dir.join("image")).unwrap(), OLD);
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["image", "root"]);
}

/// Returns the first bytes of a tar archive that announces one large file.
fn beginning_of_a_tar() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let large = std::fs::File::create(dir.path().join("large")).unwrap();
    large.set_len(8 << 20).unwrap();
    let tar = Command::new("tar").args(["-cf", "-", "large"]).current_dir(dir.path()).output().unwrap();
    assert!(tar.status.success(), "{}", stderr(&tar));
    tar.stdout[..4 << 20].to_vec()
}

/// Starts a build that has read some of its input and waits for more, which never comes.
fn build_from_a_slow_pipe(dir: &Path, format: &str) -> Child {
    let mut child = packfs(["build", "-", "-o", "image", "--force", "-q", "--format", format])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Once everything is consumed, the program has long opened its output.
    child.stdin.as_mut().unwrap().write_all(&beginning_of_a_tar()).unwrap();
    child
}

#[test]
fn an_existing_target_is_kept_without_force() {
    for format in FORMATS {
        let dir = with_old_image();
        let build = ["build", "root", "-o", "image", "-q", "--format", format];
        let message = fail(dir.path(), 1, &build);
        assert!(message.contains("image") && message.contains("--force"), "{message}");
        nothing_happened(dir.path());
        succeed(dir.path(), &[&build[..], &["--force"]].concat());
        succeed(dir.path(), &["check", "image", "--against", "root", "-q"]);
    }
}

#[test]
fn a_missing_source_is_named() {
    let dir = with_old_image();
    let message = fail(dir.path(), 1, &["build", "root", "nowhere", "-o", "image", "--force", "-q"]);
    assert!(message.contains("nowhere") && message.contains("No such file"), "{message}");
    nothing_happened(dir.path());
}

#[test]
fn killed_at_any_moment_the_old_image_is_whole() {
    if !have("killed_at_any_moment_the_old_image_is_whole", "tar") {
        return;
    }
    for format in FORMATS {
        for (signal, number) in [("KILL", 9), ("INT", 2), ("TERM", 15)] {
            let dir = with_old_image();
            let mut child = build_from_a_slow_pipe(dir.path(), format);
            let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
            assert!(kill.success());
            assert_eq!(child.wait().unwrap().signal(), Some(number), "{format}: SIG{signal}");
            nothing_happened(dir.path());
        }
    }
}

#[test]
fn a_truncated_archive_makes_no_image() {
    if !have("a_truncated_archive_makes_no_image", "tar") {
        return;
    }
    for format in FORMATS {
        let dir = with_old_image();
        let mut child = build_from_a_slow_pipe(dir.path(), format);
        drop(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        let message = stderr(&output);
        assert_eq!((output.status.code(), message.lines().count()), (Some(1), 1), "{format}: {message}");
        assert!(message.contains("standard input") || message.contains("large"), "{format}: {message}");
        nothing_happened(dir.path());
    }
}

#[test]
fn a_tar_on_standard_input_becomes_an_image() {
    if !have("a_tar_on_standard_input_becomes_an_image", "tar") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let tar = Command::new("tar")
        .args(["--format=pax", "-cf", "-", "-C", "root", "."])
        .current_dir(dir.path())
        .output()
        .unwrap();
    for format in FORMATS {
        let build = ["build", "-", "-o", "image", "-f", "-q", "--format", format];
        let mut build = packfs(build).current_dir(dir.path()).stdin(Stdio::piped()).spawn().unwrap();
        build.stdin.take().unwrap().write_all(&tar.stdout).unwrap();
        assert!(build.wait().unwrap().success(), "{format}");
        succeed(dir.path(), &["check", "image", "--against", "root", "-q"]);
    }
}

#[test]
fn a_full_disk_leaves_the_old_image() {
    let test = "a_full_disk_leaves_the_old_image";
    if !have(test, "mount") || !have(test, "umount") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "small"]).arg(dir.path()).output();
    if !mount.as_ref().is_ok_and(|m| m.status.success()) {
        return skip(test, "a tmpfs cannot be mounted here");
    }
    let mounted = Mounted(dir.path());
    std::fs::write(dir.path().join("image"), OLD).unwrap();
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("noise"), noise(2 << 20, 1)).unwrap();
    for (jobs, format) in [("0", "squashfs"), ("2", "squashfs"), ("0", "erofs"), ("2", "erofs")] {
        let source = source.path().to_str().unwrap();
        let build = ["build", source, "-o", "image", "--force", "-q", "-j", jobs, "--format", format];
        let message = fail(dir.path(), 1, &build);
        assert!(message.contains("No space left") && message.lines().count() == 1, "{message}");
        assert_eq!(std::fs::read(dir.path().join("image")).unwrap(), OLD);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
    drop(mounted);
}

struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "cannot unmount {}", display(&self.0));
    }
}

#[test]
fn a_truncated_image_is_an_error_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    for format in FORMATS {
        succeed(dir.path(), &["build", "root", "-o", "image", "-f", "-q", "--format", format]);
        let info: serde_json::Value = serde_json::from_str(&succeed(dir.path(), &["info", "image", "--json"])).unwrap();
        let number = |name: &str| info[name].as_u64().map(|n| usize::try_from(n).unwrap());
        let used = number("bytes_used").unwrap_or_else(|| number("blocks").unwrap() * number("block_size").unwrap());
        let whole = std::fs::read(dir.path().join("image")).unwrap();
        let lens = [0, 50, 96, 1100, used / 2, used - 1];
        for len in lens.into_iter().filter(|len| *len < used) {
            std::fs::write(dir.path().join("cut"), &whole[..len]).unwrap();
            let commands: [&[&str]; 6] = [
                &["check", "cut", "-q"],
                &["info", "cut"],
                &["list", "cut"],
                &["cat", "cut", "etc/motd"],
                &["extract", "cut", "-C", "out", "-q"],
                &["tar", "cut", "-o", "out.tar", "-q"],
            ];
            // The last byte of an EROFS image is only padding.
            let noticed = if format == "erofs" && len == used - 1 { 1 } else { commands.len() };
            for args in &commands[..noticed] {
                let output = run_in(dir.path(), args);
                let what = format!("packfs {args:?} at {len} bytes of {format}: {}", stderr(&output));
                assert_eq!(output.status.code(), Some(1), "{what}");
                assert!(args[0] == "check" || stderr(&output).contains("cut"), "{what}");
            }
            assert!(!dir.path().join("out.tar").exists());
        }
    }
}

#[test]
fn an_image_inside_its_own_source_is_not_packed_into_itself() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    for _ in 0..2 {
        succeed(dir.path(), &["build", "root", "-o", "root/image", "--force", "-q"]);
        assert!(!succeed(dir.path(), &["list", "root/image"]).contains("image"));
    }
}

#[test]
fn an_unreadable_file_stops_the_build_or_is_left_out() {
    let test = "an_unreadable_file_stops_the_build_or_is_left_out";
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::set_permissions(dir.path().join("root/etc/motd"), PermissionsExt::from_mode(0o000)).unwrap();
    let program = env!("CARGO_BIN_EXE_packfs");
    let build = |options: &[&str]| {
        let mut args = vec![program, "build", "root", "-o", "image", "-q"];
        args.extend(options);
        // Root may read everything, so the test must run as another user.
        let mut command = match rustix::process::getuid().is_root() {
            true => Command::new("setpriv"),
            false => Command::new("env"),
        };
        if rustix::process::getuid().is_root() {
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        command.args(args).current_dir(dir.path()).output().unwrap()
    };
    if !have(test, "setpriv") {
        return;
    }
    if !build(&["--version"]).status.success() {
        return skip(test, "another user cannot run the program where it is");
    }
    let stopped = build(&[]);
    let message = stderr(&stopped);
    assert_eq!((stopped.status.code(), message.lines().count()), (Some(1), 1), "{message}");
    assert!(message.contains("etc/") && message.contains("Permission denied"), "{message}");
    assert!(!dir.path().join("image").exists());
    let skipped = build(&["--on-error", "skip"]);
    let message = stderr(&skipped);
    assert_eq!(skipped.status.code(), Some(1), "{message}");
    assert!(message.contains("left out") && message.contains("etc/"), "{message}");
    let listed = succeed(dir.path(), &["list", "image"]);
    assert!(listed.contains("usr/share/doc/text\n") && !listed.contains("etc/motd\n"), "{listed}");
    succeed(dir.path(), &["check", "image", "-q"]);
}

#[test]
fn a_target_that_appears_meanwhile_is_kept() {
    let test = "a_target_that_appears_meanwhile_is_kept";
    if !have(test, "tar") {
        return;
    }
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        sample(dir.path());
        let tar = Command::new("tar").args(["-cf", "-", "root"]).current_dir(dir.path()).output().unwrap().stdout;
        let mut child = packfs(["build", "-", "-o", "image", "-q", "--format", format])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (first, rest) = tar.split_at(tar.len() - 512);
        // More than a pipe holds: the program has opened its output.
        child.stdin.as_mut().unwrap().write_all(first).unwrap();
        std::fs::write(dir.path().join("image"), OLD).unwrap();
        child.stdin.as_mut().unwrap().write_all(rest).unwrap();
        let output = child.wait_with_output().unwrap();
        let message = stderr(&output);
        assert_eq!((output.status.code(), message.lines().count()), (Some(1), 1), "{format}: {message}");
        assert!(message.contains("image exists; --force replaces it"), "{format}: {message}");
        nothing_happened(dir.path());
    }
}

/// Runs the program with absolute paths below `dir`, on a file system without `O_TMPFILE` in `place`.
fn run_without_unnamed(dir: &Path, place: &Path, args: &[&str]) -> Output {
    // The first file opened there; the name of the call depends on the machine.
    let call = if cfg!(target_arch = "x86_64") { "open" } else { "openat" };
    let inject = format!("inject={call}:error=EOPNOTSUPP:when=1");
    Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject, "-P"])
        .arg(place)
        .arg(env!("CARGO_BIN_EXE_packfs"))
        .args(args)
        .current_dir(dir)
        .env("TMPDIR", place)
        .output()
        .unwrap()
}

/// Returns true if tests that need strace can run; reports it otherwise.
fn can_trace(test: &str) -> bool {
    if !have(test, "strace") {
        return false;
    }
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).status().unwrap().success();
    if !traced {
        skip(test, "strace may not trace here");
    }
    traced
}

#[test]
fn a_file_system_without_o_tmpfile_suffices() {
    let test = "a_file_system_without_o_tmpfile_suffices";
    if !can_trace(test) {
        return;
    }
    for format in FORMATS {
        let dir = with_old_image();
        let image = dir.path().join("image").canonicalize().unwrap();
        let args = ["build", "root", "-j", "0", "-q", "--format", format, "-o", image.to_str().unwrap()];
        let run = |args: &[&str]| run_without_unnamed(dir.path(), image.parent().unwrap(), args);
        // Left by a killed run; its lock is gone, so it belongs to nobody.
        std::fs::write(image.with_file_name(".image.packfs-0123456789abcdef"), "litter").unwrap();
        let built = run(&[&args[..], &["--force"]].concat());
        assert!(built.status.success(), "{format}: {}", stderr(&built));
        let hidden = std::fs::read(&image).unwrap();
        std::fs::write(&image, OLD).unwrap();
        nothing_happened(dir.path());
        succeed(dir.path(), &[&args[..], &["--force"]].concat());
        assert!(std::fs::read(&image).unwrap() == hidden, "{format}");
        std::fs::remove_file(&image).unwrap();
        let built = run(&args);
        assert!(built.status.success() && std::fs::read(&image).unwrap() == hidden, "{format}: {}", stderr(&built));
        std::fs::write(&image, OLD).unwrap();
        nothing_happened(dir.path());
    }
}

#[test]
fn a_hidden_output_inside_its_own_source_is_not_packed() {
    let test = "a_hidden_output_inside_its_own_source_is_not_packed";
    if !can_trace(test) {
        return;
    }
    for format in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        sample(dir.path());
        let root = dir.path().join("root").canonicalize().unwrap();
        let image = root.join("image");
        let args = ["build", "root", "-j", "0", "-q", "-f", "--format", format, "-o", image.to_str().unwrap()];
        for _ in 0..2 {
            let built = run_without_unnamed(dir.path(), &root, &args);
            assert!(built.status.success(), "{format}: {}", stderr(&built));
            let listed = succeed(dir.path(), &["list", "root/image"]);
            assert!(listed.contains("etc/motd") && !listed.contains("image"), "{format}: {listed}");
        }
    }
}

#[test]
fn a_spool_needs_no_o_tmpfile() {
    let test = "a_spool_needs_no_o_tmpfile";
    if !can_trace(test) || !have(test, "tar") || !have(test, "gzip") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let (root, place) = (dir.path().join("root"), dir.path().join("place"));
    std::fs::create_dir(&place).unwrap();
    let tar =
        Command::new("tar").args(["-czf", "root.tar.gz", "-C"]).arg(root).arg(".").current_dir(dir.path()).status();
    assert!(tar.unwrap().success());
    succeed(dir.path(), &["build", "root", "-o", "image", "-q"]);
    std::fs::write(place.join(".scratch.packfs-0123456789abcdef"), "litter").unwrap();
    let place = place.canonicalize().unwrap();
    let args = ["check", "image", "--against", "root.tar.gz", "-q", "-j", "0"];
    let checked = run_without_unnamed(dir.path(), &place, &args);
    assert!(checked.status.success(), "{}", stderr(&checked));
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
}

/// Whichever system call fails, extracted files are whole, and the command ends with an error.
#[test]
fn an_extraction_stops_at_whichever_call_fails() {
    let test = "an_extraction_stops_at_whichever_call_fails";
    if !can_trace(test) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    succeed(dir.path(), &["build", "root", "-o", "image", "-q"]);
    let strace = |call: &str, number: usize| {
        let inject = format!("inject={call}:error=ENOSPC:when={number}");
        let strace = ["-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject];
        let extract = ["extract", "image", "-C", "out", "-q", "-j", "0"];
        let mut command = Command::new("strace");
        command.args(strace).arg(env!("CARGO_BIN_EXE_packfs")).args(extract).current_dir(dir.path());
        command.output().unwrap()
    };
    for call in ["mkdirat", "pwrite64", "ftruncate", "symlinkat", "linkat"] {
        for number in 1.. {
            let output = strace(call, number);
            let message = stderr(&output);
            for name in ["etc/motd", "etc/issue", "usr/share/doc/text", "usr/share/doc/copy", "hole"] {
                if let Ok(found) = std::fs::read(dir.path().join("out").join(name)) {
                    let whole = std::fs::read(dir.path().join("root").join(name)).unwrap();
                    assert!(found == whole, "{name} after {call} {number} failed: {message}");
                }
            }
            std::fs::remove_dir_all(dir.path().join("out")).unwrap_or_default();
            if output.status.success() {
                assert!(number > 1, "{call} is never called");
                break;
            }
            assert_eq!((output.status.code(), message.lines().count()), (Some(1), 1), "{call}: {message}");
            assert!(message.contains("No space left"), "{call}: {message}");
        }
    }
}
