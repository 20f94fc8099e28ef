//! Messages of commands that a signal ends.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{packfs, succeed};

fn kill(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// Waits until the program handles signals.
fn begun(pid: u32) {
    let listens =
        || Command::new("sh").args(["-c", &format!("grep -l packfs-signals /proc/{pid}/task/*/comm")]).output();
    let since = Instant::now();
    while listens().unwrap().stdout.is_empty() {
        assert!(since.elapsed() < Duration::from_secs(60), "it never listened");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_stopped_command_says_what_it_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let make = "mkfifo part other && mkdir t cached && truncate -s 8G t/hole && head -c 9000000 /dev/urandom > big \
                && seq 1 3000000 > text && tar -cf layer.tar text && mkdir many && seq -f many/%g 1 20000 | xargs touch";
    assert!(Command::new("sh").args(["-ec", make]).current_dir(dir.path()).status().unwrap().success());
    succeed(dir.path(), &["build", "t", "-o", "t.sqfs", "-q"]);
    succeed(dir.path(), &["build", "many", "-o", "many.sqfs", "-q"]);
    succeed(dir.path(), &["build", "many", "-o", "many.erofs", "-q"]);
    // Kept open, a FIFO takes 64 KiB and then blocks. A part that blocks leaves its share to the others, so all have to.
    let hold = |part| std::fs::OpenOptions::new().read(true).write(true).open(dir.path().join(part)).unwrap();
    let _held = [hold("part"), hold("other")];
    let cases: [(&[&str], &str, i32); 7] = [
        (&["split", "big", "-o", "part", "-o", "other"], "--resume", 2),
        (&["split", "-", "-o", "part"], "--partial", 15),
        // Writing zeros for a hole of 8 GiB takes longer than stopping.
        (
            &["extract", "t.sqfs", "-C", "to", "--no-sparse"],
            "files in to may be incomplete; the same command with --force",
            2,
        ),
        // So does making 20,000 files. The program's own option replaces those that are there.
        (
            &["as", "unsquashfs", "-d", "a", "many.sqfs"],
            "files in a may be incomplete; the same command with -force",
            2,
        ),
        (&["as", "fsck.erofs", "--extract=b", "many.erofs"], "; the same command with --overwrite completes them", 2),
        (&["as", "rdsquashfs", "-u", "/", "-p", "c", "many.sqfs"], "files in c may be incomplete\n", 2),
        (&["oci", "cache", "layer.tar", "cached", "-j", "1", "--codec", "lzma:9"], "the cache keeps the layers", 2),
    ];
    for (args, told, signal) in cases {
        let mut run = packfs(args);
        run.current_dir(dir.path()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = run.spawn().unwrap();
        begun(child.id());
        kill(&format!("-{signal}"), child.id());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        // What was cancelled in order exits with the status that shells give to SIGINT.
        let ended_by = ended.status.signal().or(ended.status.code().map(|code| code - 128));
        assert_eq!(ended_by, Some(signal), "{args:?}: {said}");
        assert!(said.contains("packfs: interrupted: ") && said.contains(told), "{args:?}: {said}");
    }
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap '' HUP; exec \"$PACKFS\" split - -o part";
    let mut run = Command::new("sh");
    run.args(["-c", script]).env("PACKFS", env!("CARGO_BIN_EXE_packfs")).current_dir(dir.path());
    let mut child = run.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    begun(child.id());
    kill("-HUP", child.id());
    drop(child.stdin.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(dir.path().join("part").exists());
}
