//! `packfs mount` and `packfs umount`: going to the background, being ready, ending in every way.
#![cfg(feature = "mount")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};

use crate::common::mounts::{Place, ends, soon};
use crate::common::{self, FORMATS, fail, have, packfs, run_in, stderr, succeed};
use packfs_blocks::testing::noise;

/// Returns 300,000 bytes that do not compress, so that files with them share no block, and others for another name.
fn named_noise(name: &str) -> Vec<u8> {
    let seed = name.bytes().fold(1, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    noise(300_000, seed)
}

/// Starts `packfs mount` in the foreground and waits until it is mounted.
fn foreground(place: &Place, args: &[&str]) -> Child {
    let mut command = packfs(["mount", "--foreground"]);
    let child = command.args(args).current_dir(place.path()).stderr(Stdio::piped()).spawn().unwrap();
    soon("mounted", || place.is_mounted());
    child
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn in_the_background_it_is_there_when_the_command_returns() {
    let Some(place) = Place::new("in_the_background_it_is_there_when_the_command_returns") else { return };
    for format in FORMATS {
        succeed(place.path(), &["mount", format, "m"]);
        let diff =
            Command::new("diff").args(["-r", "--no-dereference", "root", "m"]).current_dir(place.path()).output();
        assert_eq!(String::from_utf8_lossy(&diff.unwrap().stdout), "");
        let link = |name: &str| place.at(name).metadata().unwrap();
        assert_eq!((link("m/etc/motd").ino(), link("m/etc/motd").nlink()), (link("m/etc/issue").ino(), 2));
        succeed(place.path(), &["umount", "m"]);
        assert!(!place.is_mounted());
    }
}

#[test]
fn a_byte_tells_that_it_is_ready() {
    let Some(place) = Place::new("a_byte_tells_that_it_is_ready") else { return };
    for foreground in [false, true] {
        // The shell passes the pipe as descriptor 5.
        let program = env!("CARGO_BIN_EXE_packfs");
        let more = if foreground { "--foreground" } else { "" };
        let line = format!("exec 5>&1 >/dev/null; {program} mount {more} --ready-fd 5 squashfs m");
        let mut shell = Command::new("sh");
        let mut child = shell.args(["-c", &line]).current_dir(place.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut byte = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        assert!(place.at("m/etc/motd").is_file());
        succeed(place.path(), &["umount", "m"]);
        assert_eq!(ends(&mut child), 0);
    }
    assert!(fail(place.path(), 1, &["mount", "--ready-fd", "77", "--foreground", "squashfs", "m"]).contains("77"));
    assert!(!place.is_mounted());
}

/// The process that served the first mount may end after the second was made at the same place.
#[test]
fn a_mount_that_ends_leaves_the_next_one_alone() {
    let Some(place) = Place::new("a_mount_that_ends_leaves_the_next_one_alone") else { return };
    for _ in 0..40 {
        succeed(place.path(), &["mount", "squashfs", "m"]);
        succeed(place.path(), &["umount", "m"]);
        succeed(place.path(), &["mount", "erofs", "m"]);
        assert!(place.at("m/etc/motd").is_file());
        succeed(place.path(), &["umount", "m"]);
    }
}

#[test]
fn signals_unmount_also_what_is_in_use() {
    let Some(place) = Place::new("signals_unmount_also_what_is_in_use") else { return };
    for (name, used) in [("-INT", false), ("-TERM", false), ("-TERM", true)] {
        let mut child = foreground(&place, &["erofs", "m"]);
        let file = used.then(|| File::open(place.at("m/etc/motd")).unwrap());
        signal(&child, name);
        assert_eq!(ends(&mut child), 0, "{name}");
        assert!(!place.is_mounted());
        drop(file);
    }
}

#[test]
fn what_a_killed_program_leaves_is_named_and_cleared() {
    let Some(place) = Place::new("what_a_killed_program_leaves_is_named_and_cleared") else { return };
    let mut child = foreground(&place, &["squashfs", "m"]);
    let file = File::open(place.at("m/usr/share/doc/text")).unwrap();
    signal(&child, "-KILL");
    ends(&mut child);
    assert!(place.is_mounted() && std::fs::read_dir(place.at("m")).is_err());
    assert!(fail(place.path(), 1, &["mount", "squashfs", "m"]).contains("packfs umount"));
    drop(file);
    succeed(place.path(), &["umount", "m"]);
    assert!(!place.is_mounted());
    assert!(fail(place.path(), 1, &["umount", "m"]).contains("nothing is mounted"));
}

#[test]
fn time_without_use_unmounts() {
    let Some(place) = Place::new("time_without_use_unmounts") else { return };
    succeed(place.path(), &["mount", "squashfs", "m", "-o", "timeout=1"]);
    soon("unmounted", || !place.is_mounted());
}

#[test]
fn what_is_in_use_is_unmounted_only_when_told() {
    let Some(place) = Place::new("what_is_in_use_is_unmounted_only_when_told") else { return };
    succeed(place.path(), &["mount", "squashfs", "m"]);
    let file = File::open(place.at("m/etc/motd")).unwrap();
    assert!(fail(place.path(), 1, &["umount", "m"]).contains("in use"));
    succeed(place.path(), &["umount", "--lazy", "m"]);
    assert_eq!(std::io::read_to_string(file).unwrap(), "Welcome.\n");
    assert!(!place.is_mounted());
}

#[test]
fn an_image_that_is_cut_short_is_an_error_and_a_line_in_the_log() {
    let Some(place) = Place::new("an_image_that_is_cut_short_is_an_error_and_a_line_in_the_log") else { return };
    for format in FORMATS {
        succeed(place.path(), &["mount", format, "m", "--log", "log"]);
        File::options().write(true).open(place.at(format)).unwrap().set_len(100).unwrap();
        let error = std::fs::read(place.at("m/usr/share/doc/text")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5), "{format}: {error}");
        let log = std::fs::read_to_string(place.at("log")).unwrap();
        assert!(log.contains(format) && log.contains("has 100 now"), "{log}");
        std::fs::remove_file(place.at("log")).unwrap();
        succeed(place.path(), &["umount", "m"]);
    }
}

#[test]
fn an_image_that_is_overwritten_in_place_is_an_error_and_one_line_in_the_log() {
    let Some(place) = Place::new("an_image_that_is_overwritten_in_place_is_an_error_and_one_line_in_the_log") else {
        return;
    };
    let files: Vec<String> = (0..20).map(|number| format!("large{number}")).collect();
    for name in &files {
        std::fs::write(place.at("root").join(name), named_noise(name)).unwrap();
    }
    for format in FORMATS {
        succeed(place.path(), &["build", "-q", "--force", "root", "-o", format, "--format", format]);
        let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        File::options().write(true).open(place.at(format)).unwrap().set_modified(hour_ago).unwrap();
        succeed(place.path(), &["mount", format, "m", "--log", "log", "--cache", "1M"]);
        assert!(std::fs::read(place.at("m/large0")).unwrap() == named_noise("large0"));
        // The same bytes: even that may be another image by the time of the next read.
        let image = std::fs::read(place.at(format)).unwrap();
        File::options().write(true).open(place.at(format)).unwrap().write_all(&image[..4096]).unwrap();
        for name in &files[10..] {
            let error = std::fs::read(place.at("m").join(name)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(5), "{format}: {error}");
        }
        let log = std::fs::read_to_string(place.at("log")).unwrap();
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains(format) && log.contains("was written to after it was opened"), "{log}");
        assert!(log.contains("until the image is mounted again"), "{log}");
        std::fs::remove_file(place.at("log")).unwrap();
        succeed(place.path(), &["umount", "m"]);
    }
}

#[test]
fn a_damaged_file_is_named_in_the_log() {
    let Some(place) = Place::new("a_damaged_file_is_named_in_the_log") else { return };
    std::fs::create_dir(place.at("root/deep")).unwrap();
    std::fs::write(place.at("root/deep/text"), "All work and no play.\n".repeat(50_000)).unwrap();
    let build = ["build", "-q", "root", "-o", "damaged", "-c", "gzip", "-b", "128K", "--fragments", "none"];
    succeed(place.path(), &build);
    // The data of files lies between the superblock with the options of gzip, which take 10 bytes, and the table of
    // inodes, whose place the superblock has.
    let mut image = std::fs::read(place.at("damaged")).unwrap();
    let table = u64::from_le_bytes(image[64..72].try_into().unwrap());
    image[106..usize::try_from(table).unwrap()].fill(0xff);
    std::fs::write(place.at("damaged"), image).unwrap();
    succeed(place.path(), &["mount", "damaged", "m", "--log", "log"]);
    let mut read = Command::new("find");
    read.args(["m", "-type", "f", "-exec", "cat", "{}", "+"]).current_dir(place.path());
    assert!(stderr(&read.output().unwrap()).contains("Input/output error"));
    let log = std::fs::read_to_string(place.at("log")).unwrap();
    assert!(!log.is_empty() && log.lines().all(|line| line.contains("/damaged: /")), "{log}");
}

#[test]
fn an_image_that_is_replaced_is_still_read() {
    let Some(place) = Place::new("an_image_that_is_replaced_is_still_read") else { return };
    succeed(place.path(), &["mount", "squashfs", "m"]);
    std::fs::rename(place.at("erofs"), place.at("squashfs")).unwrap();
    assert_eq!(std::fs::read_to_string(place.at("m/etc/motd")).unwrap(), "Welcome.\n");
}

#[test]
fn options_change_what_is_shown() {
    let Some(place) = Place::new("options_change_what_is_shown") else { return };
    let whole = std::fs::read(place.at("erofs")).unwrap();
    std::fs::write(place.at("behind"), [vec![7; 8192], whole].concat()).unwrap();
    succeed(place.path(), &["mount", "behind", "m", "-o", "offset=8K,ro,uid=7,gid=8", "-o", "subdir=etc"]);
    let motd = place.at("m/motd").metadata().unwrap();
    assert_eq!((motd.uid(), motd.gid()), (7, 8));
    succeed(place.path(), &["umount", "m"]);
    assert!(
        fail(place.path(), 1, &["mount", "behind", "m", "-o", "offset=auto"]).contains("no SquashFS or EROFS image")
    );
    succeed(place.path(), &["mount", "erofs", "m", "-o", "offset=auto", "--trace", "used"]);
    std::fs::read(place.at("m/usr/share/doc/text")).unwrap();
    assert_eq!(std::fs::read_to_string(place.at("used")).unwrap(), "/usr/share/doc/text\n");
    succeed(place.path(), &["umount", "m"]);
    succeed(place.path(), &["build", "-q", "root", "-o", "sorted.sqfs", "--hot", "used", "--strict"]);
}

#[test]
fn a_trace_that_could_not_be_written_is_a_failure() {
    let test = "a_trace_that_could_not_be_written_is_a_failure";
    let Some(place) = Place::new(test) else { return };
    if !have(test, "prlimit") {
        return;
    }
    // The first name fits.
    let program = packfs(["mount", "--foreground", "squashfs", "m", "--trace", "used"]);
    let mut command = Command::new("prlimit");
    command.arg("--fsize=10").arg(program.get_program()).args(program.get_args());
    let child = command.current_dir(place.path()).stderr(Stdio::piped()).spawn().unwrap();
    soon("mounted", || place.is_mounted());
    for name in ["m/etc/motd", "m/usr/share/doc/text"] {
        std::fs::read(place.at(name)).unwrap();
    }
    succeed(place.path(), &["umount", "m"]);
    let ended = child.wait_with_output().unwrap();
    let told = stderr(&ended);
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("used: cannot write: ") && told.contains("ulimit -f"), "{told}");
    assert_eq!(std::fs::read_to_string(place.at("used")).unwrap(), "/etc/motd\n");
}

#[test]
fn parts_of_a_dump_are_one_file() {
    let Some(place) = Place::new("parts_of_a_dump_are_one_file") else { return };
    let text = "All work and no play.\n".repeat(100_000);
    std::fs::write(place.at("core"), &text).unwrap();
    succeed(place.path(), &["split", "-q", "core", "-o", "a", "-o", "b"]);
    succeed(place.path(), &["mount", "b", "a", "m"]);
    assert!(std::fs::read_to_string(place.at("m/dump")).unwrap() == text);
    succeed(place.path(), &["umount", "m"]);
    let mounted = run_in(place.path(), &["mount", "b", "m"]);
    let told = stderr(&mounted);
    assert!(mounted.status.success(), "{told}");
    // The faster part took the segments, perhaps all of them.
    let lost = ["cannot be read", "are restored"].iter().any(|end| told.contains(end));
    assert!(told.contains("warning: part 1 of 2 is missing; ") && lost, "{told}");
    succeed(place.path(), &["umount", "m"]);
    succeed(place.path(), &["split", "-q", "core", "--parity", "1", "-o", "c", "-o", "d", "-o", "e"]);
    let told = stderr(&run_in(place.path(), &["mount", "c", "e", "m"]));
    assert!(told.contains("part 2 of 3 is missing; its bytes are restored"), "{told}");
    assert!(std::fs::read_to_string(place.at("m/dump")).unwrap() == text);
    succeed(place.path(), &["umount", "m"]);
    assert!(fail(place.path(), 2, &["mount", "-o", "offset=4K", "a", "b", "m"]).contains("-o offset"));
}

#[test]
fn wrong_use_is_told() {
    let Some(place) = Place::new("wrong_use_is_told") else { return };
    let told = |status, args: &[&str], word: &str| {
        let text = fail(place.path(), status, args);
        assert!(text.contains(word), "{args:?}: {text}");
        assert!(!place.is_mounted());
    };
    told(2, &["mount", "squashfs", "m", "-o", "nonsense"], "nonsense");
    told(2, &["mount", "squashfs", "erofs", "m"], "one image at a time");
    told(1, &["mount", "squashfs", "none"], "none");
    told(1, &["mount", "squashfs", "erofs"], "not a directory");
    told(1, &["mount", "squashfs", "m", "-o", "subdir=nowhere"], "nowhere");
    told(1, &["mount", "root/etc/motd", "m"], "neither a SquashFS nor an EROFS image (use -o offset=auto if");
    told(2, &["mount", "squashfs", "m", "-o", "subdir=../.."], "subdir=../..");
    told(2, &["mount", "squashfs", "m", "-o", "uid=4294967295"], "no user");
    told(1, &["mount", "squashfs", "/dev/fd/99"], "/dev/fd/99");
    let without = run_in(place.path(), &["mount", "squashfs", "m", "--trace", "squashfs"]);
    assert!(stderr(&without).contains("exists"), "{}", stderr(&without));
    // The list of a mount that failed is in the way of none.
    for wrong in [&["squashfs", "missing"][..], &["squashfs", "root/etc/motd"], &["squashfs", "m", "-o", "subdir=no"]] {
        fail(place.path(), 1, &[&["mount", "--trace", "used"], wrong].concat());
        assert!(!place.at("used").exists(), "{wrong:?}");
    }
}

#[test]
fn without_a_fuse_device_it_says_what_is_missing() {
    let test = "without_a_fuse_device_it_says_what_is_missing";
    let Some(place) = Place::new(test) else { return };
    if !common::have(test, "unshare") {
        return;
    }
    // A mount namespace in which /dev has nothing but what a shell needs.
    let script = "mount -t tmpfs none /dev; mknod /dev/null c 1 3; exec \"$0\" mount squashfs m";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", script, env!("CARGO_BIN_EXE_packfs")]);
    let out = command.current_dir(place.path()).output().unwrap();
    let said = stderr(&out);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("no /dev/fuse") && said.contains("kernel's module fuse"), "{said}");
    assert!(!place.is_mounted());
}
