//! `packfs build --composefs`: what overlayfs shows of image and objects, and what the command refuses.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{fail, sample_dir, script_dir, skip, stderr, succeed};

/// Makes a tree with all types, attributes of overlayfs, and names of directories of objects.
const TREE: &str = "
    mkdir -p root/dir/deep root/ab root/many; cd root
    for n in $(seq 300); do echo $n > many/a-name-that-takes-some-room-$n; done
    seq 5000 > large; cp large dir/same; seq 40 > dir/over-64; printf x > small; : > empty
    head -c 64 /dev/zero > dir/limit; head -c 65 /dev/zero > dir/above
    ln large dir/deep/link; ln -s large to-large; ln -s $(printf %0900d 0) dir/long; mkfifo dir/fifo
    mknod dir/null c 1 3; mknod dir/disk b 8 1; mknod dir/deep/gone c 0 0
    setfattr -n trusted.overlay.opaque -v y dir; setfattr -n user.mine -v value large; setfattr -n trusted.t -v t ab
    chown 70000:3 dir/same; chmod 4751 dir/over-64; touch -h -d @-5.25 dir/over-64; touch -d @1.000000001 dir";

/// Prints all that a tree has, sorted. The root's own attribute is overlayfs's affair, and so are the file that stands for a
/// whiteout and the mark of the directory around it, both for overlays on top of this one.
const SHOW: &str = "
    show() { (cd $1; find . -mindepth 1 ! -name gone -printf '%P %y %#m %U:%G %T@ %l\\n' | sort
        find . -type f ! -name gone -printf '%P %s %n\\n' | sort
        find . -type f ! -name gone -print0 | sort -z | xargs -0 md5sum
        find . -mindepth 1 ! -name gone ! -name deep -print0 | sort -z | xargs -0 getfattr -h -d -m -) 2>&1 | grep -v 'overlay.whiteout\\|opaque=\\|^$'; }";

fn report(dir: &Path, args: &[&str]) -> serde_json::Value {
    let json = succeed(dir, &[&["build", "root", "--composefs", "--json", "-q"], args].concat());
    serde_json::from_str(&json).unwrap()
}

#[test]
fn overlayfs_shows_the_tree() {
    if !rustix::process::geteuid().is_root() {
        return skip("overlayfs_shows_the_tree", "mounting needs root");
    }
    let dir = script_dir(TREE);
    let dir = dir.path();
    let first = report(dir, &["-o", "image", "--objects", "objects"]);
    assert_eq!((&first["objects"], &first["new_objects"]), (&3.into(), &3.into()), "{first}");
    succeed(dir, &["check", "image", "-q"]);
    let script = format!(
        "{SHOW}
        mkdir meta all; mount -o loop,ro image meta
        mount -t overlay -o ro,metacopy=on,redirect_dir=on,lowerdir=$PWD/meta::$PWD/objects overlay all
        show root > want; show all > have; diff want have; test -f all/dir/deep/gone; cmp root/large all/large"
    );
    let ran = Command::new("unshare").args(["-m", "sh", "-ec", &script]).current_dir(dir).output().unwrap();
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), stderr(&ran));

    // The same again: the same bytes, and all objects are there.
    let again = report(dir, &["-o", "again", "--objects", "objects", "-j", "0"]);
    assert_eq!((&again["digest"], &again["new_objects"]), (&first["digest"], &0.into()));
    assert!(fs::read(dir.join("image")).unwrap() == fs::read(dir.join("again")).unwrap());
}

#[test]
fn objects_have_the_digests_by_which_they_are_known() {
    let dir = sample_dir();
    let dir = dir.path();
    for hash in ["sha256", "sha512"] {
        let option = format!("--composefs={hash}");
        let json = succeed(dir, &["build", "root", "-o", hash, &option, "--objects", "objects", "--json", "-q"]);
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        let digest = succeed(dir, &["seal", hash, "--fs-verity", "--algorithm", hash]);
        assert!(digest.contains(report["digest"].as_str().unwrap()), "{digest} {json}");
        assert!(report["objects"].as_u64() > Some(0), "{json}");
    }
    let mut seen = 0;
    for folder in fs::read_dir(dir.join("objects")).unwrap().map(|entry| entry.unwrap()) {
        for object in fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap()) {
            let name = [folder.file_name(), object.file_name()].map(|part| part.into_string().unwrap()).concat();
            let path = object.path();
            let hash = if name.len() == 64 { "sha256" } else { "sha512" };
            let digest = succeed(dir, &["seal", path.to_str().unwrap(), "--fs-verity", "--algorithm", hash]);
            assert!(digest.contains(&name), "{digest} is called {name}");
            seen += 1;
        }
    }
    assert!(seen > 0);
    // A damaged object, here one that is too short, is replaced.
    let folder = fs::read_dir(dir.join("objects")).unwrap().next().unwrap().unwrap().path();
    let object = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&object).unwrap();
    fs::write(&object, "").unwrap();
    for hash in ["sha256", "sha512"] {
        let option = format!("--composefs={hash}");
        succeed(dir, &["build", "root", "-o", hash, &option, "--objects", "objects", "--force", "-q"]);
    }
    assert!(fs::read(object).unwrap() == whole);
}

/// Workers that come to the same object at once must not count it twice.
#[test]
fn equal_files_are_one_new_object() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::create_dir(dir.join("root")).unwrap();
    for number in 0..400 {
        fs::write(dir.join(format!("root/{number}")), [b'x'; 1000]).unwrap();
    }
    for (name, new_objects) in [("first", 1), ("second", 0)] {
        let report = report(dir, &["-o", name, "--objects", "objects", "-j", "8"]);
        assert_eq!((&report["objects"], &report["new_objects"]), (&1.into(), &new_objects.into()), "{report}");
    }
}

#[test]
fn what_the_format_decides_cannot_be_chosen() {
    let dir = sample_dir();
    for options in [
        &["--codec", "zstd"][..],
        &["-b", "4K"],
        &["--label", "x"],
        &["--preset", "small"],
        &["--format", "squashfs"],
        &["--offset", "4K"],
        &["--image-time", "0"],
        &["--shards", "2"],
        &["--index"],
        &["--dry-run"],
    ] {
        let said = fail(dir.path(), 2, &[&["build", "root", "-o", "x.erofs", "--composefs"], options].concat());
        assert!(said.contains("--composefs"), "{options:?}: {said}");
        assert!(!dir.path().join("x.erofs").exists());
    }
    let said = fail(dir.path(), 2, &["build", "root", "-o", "-", "--composefs"]);
    assert!(said.contains("name a file"), "{said}");
    let said = fail(dir.path(), 2, &["build", "root", "-o", "x.erofs", "--objects", "objects"]);
    assert!(said.contains("--composefs"), "{said}");
}
