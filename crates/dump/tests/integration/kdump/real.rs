//! A dump of a real kernel, made by `scripts/build-vmcore.sh`: crash prints the same about it in every form.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use packfs_blocks::ReadAt;
use packfs_dump::elf::ElfCore;

use super::{CODECS, options, view, written};

/// Returns the output of crash about a dump, without the dump's name.
fn crash(dir: &Path, dump: &Path) -> String {
    let mut child = Command::new("crash")
        .arg("-s")
        .args([&dir.join("vmlinux"), dump])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"sys\nps\nlog\nquit\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| !line.contains("DUMPFILE:")).flat_map(|line| [line, "\n"]).collect()
}

#[test]
#[allow(clippy::print_stderr, reason = "a test that does not run says so")]
fn a_real_dump_opens_in_crash() {
    let Some(dir) = std::env::var_os("PACKFS_VMCORE").map(PathBuf::from) else {
        eprintln!("SKIPPED a_real_dump_opens_in_crash: PACKFS_VMCORE does not name what scripts/build-vmcore.sh made");
        return;
    };
    let temp = tempfile::tempdir_in(&dir).unwrap();
    let path = temp.path().join("dump");
    let core = fs::read(dir.join("core.elf")).unwrap();
    let want = crash(&dir, &dir.join("core.elf"));
    assert!(want.contains("swapper/0") && want.contains("Linux version"), "{want}");

    for codec in CODECS {
        fs::write(&path, written(&core, &options(codec, 2))).unwrap();
        assert_eq!(crash(&dir, &path), want, "{codec}");
    }
    let view = view(&[&fs::read(dir.join("core.kdump")).unwrap()]).unwrap();
    let mut bytes = vec![0; view.len() as usize];
    view.read_exact_at(&mut bytes, 0).unwrap();
    fs::write(&path, &bytes).unwrap();
    assert_eq!(crash(&dir, &path), want, "the dump of QEMU as an ELF core");
    same_memory(&core, &bytes);
}

/// Asserts that both cores have the same memory.
fn same_memory(one: &dyn ReadAt, other: &dyn ReadAt) {
    let read = |core| ElfCore::read(Path::new("core"), core).unwrap();
    let first = read(one);
    let second = read(other);
    assert_eq!(first.memory(), second.memory());
    for range in first.memory() {
        let len = (range.end - range.start) as usize;
        let (mut a, mut b) = (vec![0; len], vec![1; len]);
        first.read_memory(one, &mut a, range.start).unwrap();
        second.read_memory(other, &mut b, range.start).unwrap();
        assert!(a == b, "memory differs within {range:x?}");
    }
}
