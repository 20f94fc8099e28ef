//! POSIX ACLs: wherever one is left out, nobody gets more than the ACL gave; elsewhere they arrive.

use std::path::Path;
use std::process::Command;

use crate::common::program::sh;
use crate::common::{have, kernel, packfs, run_in, skip, stderr, succeed};

/// Modes with the ACLs of [`tree`], and without them: the group's own entry within the mask, and no more for others than
/// named users get.
const MODES: [(&str, &str, &str); 5] = [
    ("denied", "0644", "0600"),
    ("dir", "0770", "0700"),
    ("plain", "0664", "0664"),
    ("secret", "0640", "0600"),
    ("shared", "0664", "0644"),
];

/// Makes a tree of files with ACLs; `None` if a program or the file system lacks them.
fn tree(test: &str) -> Option<tempfile::TempDir> {
    if !have(test, "setfacl") {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = "mkdir -p t/dir && cd t && echo secret > secret && echo shared > shared && echo > plain &&
        echo denied > denied && setfacl -m u:12:---,m::r-- denied && chmod 600 secret && chmod 644 shared && chmod 664 plain && chmod 700 dir && echo inside > dir/file &&
        setfacl -m u:12:rw-,m::r-- secret && setfacl -m u:12:rw-,g:13:r--,m::rw- shared &&
        setfacl -m u:12:rwx,d:u:12:r-x dir && find . -exec touch -d @1700000000 {} +";
    let made = Command::new("sh").args(["-ec", script]).current_dir(dir.path()).output().unwrap();
    if !made.status.success() {
        skip(test, &format!("no ACLs here: {}", stderr(&made)));
        return None;
    }
    Some(dir)
}

/// Returns the modes of the files in [`MODES`] as an image or another source has them.
fn modes(dir: &Path, source: &str) -> Vec<String> {
    let listed: serde_json::Value = serde_json::from_str(&succeed(dir, &["list", source, "--json"])).unwrap();
    let entries = listed["entries"].as_array().unwrap();
    let mode = |path: &str| {
        let entry = entries.iter().find(|entry| entry["path"] == path);
        entry.unwrap_or_else(|| panic!("{source} has no {path}: {listed}"))["mode"].as_str().unwrap().to_owned()
    };
    MODES.iter().map(|(path, ..)| mode(path)).collect()
}

fn with_acls() -> Vec<String> {
    MODES.iter().map(|(_, with, _)| (*with).to_owned()).collect()
}

fn without_acls() -> Vec<String> {
    MODES.iter().map(|(.., without)| (*without).to_owned()).collect()
}

/// Returns the modes in a directory, as the system tells them.
fn modes_on_disk(dir: &Path, name: &str) -> Vec<String> {
    let mode = |path: &str| format!("0{}", sh(dir, &format!("stat -c %a {name}/{path}")).trim());
    MODES.iter().map(|(path, ..)| mode(path)).collect()
}

#[test]
fn whatever_leaves_out_acls_gives_nobody_more_than_they_did() {
    let Some(dir) = tree("whatever_leaves_out_acls_gives_nobody_more_than_they_did") else { return };
    let dir = dir.path();
    std::fs::write(dir.join("rules"), "glob=** -> drop-xattr=system.posix_acl_access\n").unwrap();
    std::fs::write(dir.join("list"), "tree / t\n").unwrap();
    let build = |source: &str, image: &str, options: &[&str]| {
        let output = run_in(dir, &[&["build", source, "-o", image, "-qf"], options].concat());
        assert!(output.status.success(), "{source} {options:?}: {}", stderr(&output));
    };
    build("t", "t.erofs", &[]);
    assert_eq!(modes(dir, "t.erofs"), with_acls());
    assert_eq!(modes_on_disk(dir, "t"), with_acls());
    succeed(dir, &["tar", "t.erofs", "-o", "t.tar"]);
    let sources = ["t", "@list", "t.erofs", "t.tar"];
    for source in sources {
        for options in [&["--no-xattrs"][..], &["--exclude-xattr", "system.*"], &["--rules", "rules"]] {
            build(source, "less.erofs", options);
            assert_eq!(modes(dir, "less.erofs"), without_acls(), "{source} {options:?}");
        }
        build(source, "t.sqfs", &[]);
        assert_eq!(modes(dir, "t.sqfs"), without_acls(), "{source} as SquashFS");
        build(source, "same.erofs", &[]);
        assert_eq!(modes(dir, "same.erofs"), with_acls(), "{source} as EROFS");
        // The mode that the user names counts, after the ACL has gone.
        build(source, "named.erofs", &["--no-xattrs", "--mode", "F660"]);
        assert_eq!(modes(dir, "named.erofs"), ["0660", "0700", "0660", "0660", "0660"], "{source}");
    }
    for options in [&["--no-xattrs"][..], &["--exclude-xattr", "system.*"]] {
        let args = [&["extract", "t.erofs", "-C", "out"], options].concat();
        succeed(dir, &args);
        assert_eq!(modes_on_disk(dir, "out"), without_acls(), "{args:?}");
        std::fs::remove_dir_all(dir.join("out")).unwrap();
        succeed(dir, &[&["tar", "t.erofs", "-o", "less.tar", "-f"], options].concat());
        build("less.tar", "less.erofs", &[]);
        assert_eq!(modes(dir, "less.erofs"), without_acls(), "tar {options:?}");
    }
}

#[test]
fn images_of_many_machines_leave_out_acls_as_others_do() {
    let Some(dir) = tree("images_of_many_machines_leave_out_acls_as_others_do") else { return };
    let dir = dir.path();
    let cases: [(&[&str], &[&str]); 3] =
        [(&[], &[]), (&["--exclude-xattr", "system.*"], &[]), (&["--no-xattrs"], &["--no-xattrs"])];
    for (options, scan_options) in cases {
        for (part, share) in [("part0", "0/2"), ("part1", "1/2")] {
            succeed(dir, &[&["plan", "t", "-o", part, "-qf", "--scan", share], scan_options].concat());
        }
        let merge = ["plan", "t", "-o", "job", "-qf", "--format", "squashfs", "--shards", "2"];
        succeed(dir, &[&merge, options, &["--merge", "part0", "part1"]].concat());
        for shard in ["0", "1"] {
            succeed(dir, &["shard", "job", shard, "-o", "shards", "-q"]);
        }
        succeed(dir, &["assemble", "job", "shards", "-o", "joined.sqfs", "-qf"]);
        assert_eq!(modes(dir, "joined.sqfs"), without_acls(), "{options:?}");
        std::fs::remove_dir_all(dir.join("shards")).unwrap();
    }
}

/// A file system without ACLs, or one that refuses them, gets the narrower modes.
#[test]
fn extraction_without_acls_narrows_modes() {
    let test = "extraction_without_acls_narrows_modes";
    let Some(dir) = tree(test) else { return };
    let dir = dir.path();
    if !rustix::process::geteuid().is_root() {
        return skip(test, "mounting needs root");
    }
    succeed(dir, &["build", "t", "-o", "t.erofs", "-q"]);
    sh(dir, "mkdir ram && mount -t ramfs none ram");
    let output = run_in(dir, &["extract", "t.erofs", "-C", "ram/out"]);
    let found = modes_on_disk(dir, "ram/out");
    sh(dir, "umount ram");
    assert!(stderr(&output).contains("system.posix_acl_access"), "{}", stderr(&output));
    assert_eq!(found, without_acls());
    succeed(dir, &["extract", "t.erofs", "-C", "out"]);
    assert_eq!(modes_on_disk(dir, "out"), with_acls());
    let acls = |name: &str| sh(dir, &format!("cd {name} && find . | sort | getfacl -n -"));
    assert_eq!(acls("out"), acls("t"));
}

/// ACLs that the directory of the destination passes on are not the image's.
#[test]
fn extracted_entries_inherit_no_acls() {
    let Some(dir) = tree("extracted_entries_inherit_no_acls") else { return };
    let dir = dir.path();
    sh(dir, "mkdir base base/known && setfacl -d -m u:7:rwx base base/known");
    let acls = |name: &str| sh(dir, &format!("cd {name} && find . | sort | getfacl -n -"));
    for (format, options) in [("erofs", &[][..]), ("squashfs", &[]), ("erofs", &["--shard", "0/1"])] {
        let image = format!("t.{format}");
        succeed(dir, &["build", "t", "-o", &image, "-q", "-f"]);
        for (target, force) in [("base/new", &[][..]), ("base/known", &["--force"])] {
            succeed(dir, &[&["extract", &image, "-C", target, "-q"], options, force].concat());
            let found = acls(target);
            assert!(!found.contains("user:7:"), "{format} {options:?} {target}: {found}");
            if format == "erofs" {
                assert_eq!(found, acls("t"), "{options:?} {target}");
            }
        }
        sh(dir, "rm -r base/new base/known && mkdir base/known");
    }
}

#[test]
fn other_programs_restore_the_acls_of_written_archives_and_ours_those_of_theirs() {
    let test = "other_programs_restore_the_acls_of_written_archives_and_ours_those_of_theirs";
    let Some(dir) = tree(test) else { return };
    let dir = dir.path();
    let acls = |name: &str| sh(dir, &format!("cd {name} && find . | sort | getfacl -n -"));
    succeed(dir, &["build", "t", "-o", "t.erofs", "-q"]);
    succeed(dir, &["tar", "t.erofs", "-o", "t.tar"]);
    for (program, with, without) in [("tar", "--acls", "--no-acls"), ("bsdtar", "--acls", "--no-acls")] {
        if !have(test, program) {
            continue;
        }
        sh(dir, &format!("rm -rf out && mkdir out && {program} -xpf t.tar {with} -C out"));
        assert_eq!(acls("out"), acls("t"), "{program}");
        sh(dir, &format!("rm -rf out && mkdir out && {program} -xpf t.tar {without} -C out"));
        let mut expected = without_acls();
        if program == "bsdtar" {
            // It takes the bits of others from the ACL, whatever the header says.
            expected[0] = "0644".into();
        }
        assert_eq!(modes_on_disk(dir, "out"), expected, "{program}");
        sh(dir, &format!("{program} --acls --format=pax -cf theirs.tar -C t ."));
        for (image, expected) in [("theirs.erofs", with_acls()), ("theirs.sqfs", without_acls())] {
            succeed(dir, &["build", "theirs.tar", "-o", image, "-qf"]);
            assert_eq!(modes(dir, image), expected, "{program} {image}");
        }
        succeed(dir, &["extract", "theirs.erofs", "-C", "back"]);
        assert_eq!(acls("back"), acls("t"), "{program}");
        std::fs::remove_dir_all(dir.join("back")).unwrap();
    }
}

/// A user who is only in the group of a file cannot read it if the ACL gives the group nothing.
#[test]
fn mounts_deny_what_the_acl_denies() {
    let test = "mounts_deny_what_the_acl_denies";
    let Some(dir) = tree(test) else { return };
    let dir = dir.path();
    if !rustix::process::geteuid().is_root() || !have(test, "setpriv") {
        return skip(test, "changing users needs root");
    }
    sh(dir, "chmod 755 . t && chown 0:77 t/*");
    succeed(dir, &["build", "t", "-o", "t.erofs", "-q"]);
    // The group, the named user, and the group of a file that gives it something.
    let try_all =
        "chmod 755 .; for who in '999 77 secret' '12 998 secret' '999 77 shared' '12 998 shared' '999 998 secret'; do
        set -- $who; setpriv --reuid $1 --regid $2 --clear-groups cat m/$3 2>/dev/null || echo denied; done";
    let expected = ["denied", "secret", "shared", "shared", "denied"];
    if let Some(found) = kernel::inside(test, &dir.join("t.erofs"), try_all) {
        assert_eq!(found, expected, "mounted by the kernel");
    }
    if !Path::new("/dev/fuse").exists() || !have(test, "fusermount3") {
        return skip(test, "no FUSE");
    }
    std::fs::create_dir(dir.join("m")).unwrap();
    let mounted = packfs(["mount", "t.erofs", "m", "-o", "allow_other"]).current_dir(dir).output().unwrap();
    assert!(mounted.status.success(), "{}", stderr(&mounted));
    let found = Command::new("sh").args(["-c", try_all]).current_dir(dir).output().unwrap();
    succeed(dir, &["umount", "m"]);
    assert_eq!(String::from_utf8_lossy(&found.stdout).lines().collect::<Vec<_>>(), expected, "mounted by packfs");
}

/// Where there is an ACL, Linux asks it for the permissions of the group and of others, so a new mode has to change it.
#[test]
fn a_new_mode_changes_acls_as_chmod_does() {
    let test = "a_new_mode_changes_acls_as_chmod_does";
    let Some(dir) = tree(test) else { return };
    let dir = dir.path();
    let list = |place: &str| sh(dir, &format!("cd {place} && getfacl --omit-header --numeric secret shared dir plain"));
    std::fs::write(dir.join("rules"), "glob=** -> mode=go-w,o=\n").unwrap();
    let paths = ["secret", "shared", "dir", "plain"];
    std::fs::write(dir.join("modes"), paths.map(|path| format!("mode /{path} 0751\n")).concat()).unwrap();
    std::fs::write(dir.join("grafted"), "tree / t\n").unwrap();
    for (number, (mode, options)) in [
        ("go-w,o=", &["t", "--mode", "go-w,o="][..]),
        ("0751", &["t", "--mode", "0751"]),
        ("go-w,o=", &["t", "--rules", "rules"]),
        ("0751", &["t", "@modes"]),
        ("go-w,o=", &["@grafted", "--mode", "go-w,o="]),
    ]
    .into_iter()
    .enumerate()
    {
        let place = format!("expected{number}");
        sh(dir, &format!("cp -a t {place} && chmod {mode} {place}/secret {place}/shared {place}/dir {place}/plain"));
        let image = format!("image{number}.erofs");
        succeed(dir, &[&["build"], options, &["-o", &image, "-q"]].concat());
        succeed(dir, &["extract", &image, "-C", &format!("out{number}"), "-q"]);
        assert_eq!(list(&format!("out{number}")), list(&place), "{options:?}");
    }
    // The same while an image is read.
    succeed(dir, &["build", "t", "-o", "plain.erofs", "-q"]);
    succeed(dir, &["extract", "plain.erofs", "-C", "altered", "-q", "--mode", "0751"]);
    assert_eq!(list("altered"), list("expected1"));
}

/// Some programs give a file the mode of the last member that names it.
#[test]
fn every_name_of_a_file_has_the_same_mode_in_an_archive() {
    let Some(dir) = tree("every_name_of_a_file_has_the_same_mode_in_an_archive") else { return };
    let dir = dir.path();
    sh(dir, "cd t && ln secret again && ln denied last");
    succeed(dir, &["build", "t", "-o", "t.erofs", "-q"]);
    succeed(dir, &["tar", "t.erofs", "-o", "t.tar", "-q"]);
    let listed = sh(dir, "tar -tvf t.tar");
    let modes = |names: [&str; 2]| {
        let line = |name: &str| {
            listed.lines().find(|line| line.contains(&format!(" ./{name}")) || line.contains(&format!(" {name}")))
        };
        names.map(|name| line(name).unwrap_or_else(|| panic!("{name} in {listed}"))[1..10].to_owned())
    };
    for names in [["again", "secret"], ["denied", "last"]] {
        let [first, last] = modes(names);
        assert_eq!((&*first, &*last), ("rw-------", "rw-------"), "{listed}");
    }
}
