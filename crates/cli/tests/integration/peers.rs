//! Images made by mkfs.erofs, read by every command.

use std::path::Path;
use std::process::Command;

use crate::common::program::sh;
use crate::common::{fail, have, run_in, sample, sample_dir, succeed};

fn mkfs(dir: &Path, options: &[&str], image: &str) -> bool {
    let made = Command::new("mkfs.erofs").args(options).args([image, "root"]).current_dir(dir).output().unwrap();
    made.status.success()
}

/// Makes a tree with times in whole seconds of the past: mkfs.erofs drops fractions of the second in which it runs.
fn old_sample(dir: &Path) {
    sample(dir);
    let touch = ["root", "-depth", "-exec", "touch", "-h", "-d", "@1700000000", "{}", "+"];
    assert!(Command::new("find").args(touch).current_dir(dir).status().unwrap().success());
}

#[test]
fn images_of_mkfs_erofs_are_read() {
    if !have("images_of_mkfs_erofs_are_read", "mkfs.erofs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    old_sample(dir);
    // Options of every version; the last ones are missing in Debian 12.
    let needed: [&[&str]; 4] = [&[], &["-zlz4hc"], &["-zlz4", "-C65536", "-Eztailpacking"], &["--chunksize=4096"]];
    let newer: [&[&str]; 3] = [
        &["-zlz4", "-Efragments,dedupe"],
        &["-zzstd", "-C65536", "-E48bit"],
        &["-zlzma", "-Eall-fragments", "-C131072"],
    ];
    for (options, old) in needed.iter().map(|o| (*o, true)).chain(newer.iter().map(|o| (*o, false))) {
        let _ = std::fs::remove_file(dir.join("image"));
        if !mkfs(dir, options, "image") {
            assert!(!old, "mkfs.erofs {options:?}");
            eprintln!("SKIPPED mkfs.erofs {options:?}: not in this version");
            continue;
        }
        succeed(dir, &["check", "image", "--against", "root", "-q"]);
        assert_eq!(succeed(dir, &["diff", "image", "root", "-q"]), "", "{options:?}");
        assert_eq!(succeed(dir, &["cat", "image", "usr/motd"]), "Welcome.\n");
        assert!(succeed(dir, &["info", "image"]).contains("needs        Linux "), "{options:?}");
        succeed(dir, &["extract", "image", "-C", "out", "-q", "--force"]);
        succeed(dir, &["tar", "image", "-o", "out.tar", "-q", "--force"]);
        succeed(dir, &["build", "image", "-o", "again.sqfs", "-q", "--force"]);
        for other in ["out", "out.tar", "again.sqfs"] {
            assert_eq!(succeed(dir, &["diff", "image", other, "-q"]), "", "{other} of {options:?}");
        }
    }
}

#[test]
fn additional_devices_are_named_in_their_order() {
    if !have("additional_devices_are_named_in_their_order", "mkfs.erofs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    old_sample(dir);
    assert!(mkfs(dir, &["--chunksize=65536", "--blobdev=blob"], "image"), "mkfs.erofs --blobdev");
    succeed(dir, &["check", "image", "--device", "blob", "--against", "root", "-q"]);
    assert_eq!(succeed(dir, &["cat", "image", "--device", "blob", "etc/motd"]), "Welcome.\n");
    assert!(
        fail(dir, 2, &["list", "image", "--device", "blob", "--device", "blob"])
            .contains("number of devices 2: the image has additional devices: 1")
    );
}

#[test]
fn a_device_that_is_not_named_is_one_finding() {
    let dir = sample_dir();
    let dir = dir.path();
    sh(
        dir,
        "tar -cf a.tar -C root . && mkdir more && seq 30000 >more/b && seq 40000 >more/c && tar -cf b.tar -C more .",
    );
    succeed(dir, &["build", "--refer", "a.tar", "b.tar", "-o", "both.erofs", "--features", "^checksum", "-q"]);
    succeed(dir, &["check", "both.erofs", "--device", "a.tar", "--device", "b.tar", "-q"]);
    let findings = |image: &str| {
        let checked = run_in(dir, &["check", image]);
        assert_eq!(checked.status.code(), Some(1));
        String::from_utf8(checked.stdout).unwrap()
    };
    let told =
        |number| format!("additional device {number} of 2: not given; name the files of all with --device, in order\n");
    assert_eq!(findings("both.erofs"), format!("{}{}", told(1), told(2)));
    // Devices may follow the image in its file.
    sh(dir, "cat both.erofs a.tar >one.erofs && cat one.erofs b.tar >whole.erofs");
    assert_eq!(findings("one.erofs"), told(2));
    succeed(dir, &["check", "whole.erofs", "-q"]);
    // Other findings stay.
    sh(dir, "LC_ALL=C sed 's|motd|mo/d|' both.erofs >damaged.erofs");
    let all = findings("damaged.erofs");
    assert!(all.contains(&told(1)) && all.contains("mo/d"), "{all}");
}
