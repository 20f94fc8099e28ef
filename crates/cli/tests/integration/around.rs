//! Surroundings of an image and its sources: bytes in front of it and after it, directories that no source describes,
//! mount points, and the list of packed entries.

use std::process::Command;

use crate::common::{fail, sample, stderr, succeed};

#[test]
fn images_end_where_their_tables_end_without_padding() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    let args = ["build", "root", "-q", "-o"];
    succeed(dir, &[&args[..], &["padded", "-c", "gzip"]].concat());
    succeed(dir, &[&args[..], &["bare", "-c", "gzip", "--no-pad"]].concat());
    let [padded, bare] = ["padded", "bare"].map(|image| std::fs::read(dir.join(image)).unwrap());
    let used = u64::from_le_bytes(bare[40..48].try_into().unwrap());
    assert_eq!((padded.len() % 4096, bare.len() as u64), (0, used));
    assert!(padded.starts_with(&bare) && padded[bare.len()..].iter().all(|byte| *byte == 0));
    succeed(dir, &["check", "bare", "-q"]);
    let told = fail(dir, 2, &[&args[..], &["new.erofs", "--no-pad"]].concat());
    assert!(told.contains("--no-pad is for squashfs images"), "{told}");
}

#[test]
fn files_come_in_front_of_images() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    let front: Vec<u8> = (0..70_000u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(dir.join("front"), &front).unwrap();
    for (name, format) in [("app", "squashfs"), ("app.erofs", "erofs")] {
        succeed(dir, &["build", "root", "-o", "plain", "-q", "-f", "--format", format]);
        let plain = std::fs::read(dir.join("plain")).unwrap();
        succeed(dir, &["build", "root", "-o", name, "-q", "--prefix", "front", "--format", format]);
        let made = std::fs::read(dir.join(name)).unwrap();
        assert!(made[..70_000] == front && made[70_000..].starts_with(&plain), "{format}");
        // Up to an offset, of the file that is replaced.
        let again = ["build", "root/etc", "-o", name, "-q", "-f", "--format", format];
        succeed(dir, &[&again[..], &["--prefix", name, "--offset", "8192"]].concat());
        assert!(std::fs::read(dir.join(name)).unwrap()[..8192] == front[..8192], "{format}");
        assert_eq!(succeed(dir, &["list", "--offset", "8192", name]), ".\nissue\nmotd\n");
        // A shorter file leaves the rest free.
        std::fs::write(dir.join("short"), "#!/bin/sh\n").unwrap();
        succeed(dir, &[&again[..], &["--prefix", "short", "--offset", "4096"]].concat());
        assert!(std::fs::read(dir.join(name)).unwrap()[..4096].starts_with(b"#!/bin/sh\n\0\0"), "{format}");
    }
    let told = fail(dir, 2, &["build", "root", "-o", "x", "--prefix", "nosuch"]);
    assert!(told.contains("--prefix nosuch: cannot read: No such file"), "{told}");
    let told = fail(dir, 2, &["build", "root", "-o", "x", "--prefix", "front", "--shards", "2"]);
    assert!(told.contains("an image in shards cannot have a prefix"), "{told}");
}

#[test]
fn implied_directories_have_the_attributes_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    let made =
        Command::new("tar").args(["-cf", "some.tar", "-C", "root", "etc/motd"]).current_dir(dir).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    std::fs::write(dir.join("list"), "slink /a/b/link 0777 0 0 x\n").unwrap();
    succeed(dir, &["build", "some.tar", "@list", "-o", "i", "-q", "--implied-dirs", "2711,5:6,1000000000"]);
    let listed = succeed(dir, &["list", "-l", "i"]);
    let dirs: Vec<&str> = listed.lines().filter(|line| line.starts_with('d')).collect();
    assert_eq!(dirs.len(), 4, "{listed}");
    assert!(dirs.iter().all(|line| line.starts_with("drwx--s--x") && line.contains("2001-09-09")), "{listed}");
    let told = fail(dir, 2, &["build", "some.tar", "-o", "x", "--implied-dirs", "0755"]);
    assert!(told.contains("expected MODE,USER:GROUP"), "{told}");
}

#[test]
fn packed_entries_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    let build = ["build", "root", "-f", "-q", "-o", "i", "--exclude", "hole"];
    let printed = succeed(dir, &[&build[..], &["--list"]].concat());
    assert_eq!(format!(".\n{printed}"), succeed(dir, &["list", "i"]));
    assert!(printed.contains("usr/share/doc/copy\n") && !printed.contains("hole"), "{printed}");
    assert_eq!(succeed(dir, &[&build[..], &["--list=listed"]].concat()), "");
    assert_eq!(std::fs::read_to_string(dir.join("listed")).unwrap(), printed);
    let told = fail(dir, 2, &[&build[..], &["--list", "--json"]].concat());
    assert!(told.contains("--list=FILE"), "{told}");
}

#[test]
fn a_list_replaces_nothing_that_it_should_not() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    let made = Command::new("tar").args(["-cf", "some.tar", "-C", "root", "etc/motd"]).current_dir(dir).output();
    assert!(made.unwrap().status.success());
    let archive = std::fs::read(dir.join("some.tar")).unwrap();
    std::fs::write(dir.join("kept"), "precious").unwrap();
    for (list, status, why) in [
        ("--list=some.tar", 2, "some.tar is a source"),
        ("--list=./some.tar", 2, "some.tar is a source"),
        ("--list=i", 2, "i is the image"),
        ("--list=kept", 1, "kept exists; --force replaces it"),
    ] {
        let told = fail(dir, status, &["build", "some.tar", "-q", "-o", "i", list]);
        assert!(told.contains(why), "{list}: {told}");
        assert!(!dir.join("i").exists(), "{list}");
    }
    assert_eq!(std::fs::read(dir.join("some.tar")).unwrap(), archive);
    assert_eq!(std::fs::read(dir.join("kept")).unwrap(), b"precious");
    succeed(dir, &["build", "some.tar", "-q", "-o", "i", "-f", "--list=kept"]);
    assert_eq!(std::fs::read(dir.join("kept")).unwrap(), b"etc\netc/motd\n");
    // A list within a source is not packed when it is replaced.
    for force in [&[][..], &["-f"], &["-f"]] {
        succeed(dir, &[&["build", "root", "-q", "-o", "j", "--list=root/list"], force].concat());
    }
    assert!(!succeed(dir, &["list", "j"]).contains("list\n"));
    let full = fail(dir, 1, &["build", "some.tar", "-q", "-o", "k", "--list=/dev/full"]);
    assert!(full.contains("/dev/full: cannot write"), "{full}");
}
