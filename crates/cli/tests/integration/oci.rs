//! `packfs oci`: layouts that umoci and skopeo make, and what Linux makes of the converted layers.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use packfs_blocks::testing::noise;
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::common::mounts::soon;
use crate::common::program::{sh, text};
use crate::common::{fail, have, packfs, run_in, sample, skip, stderr, succeed};

/// A layout of three layers: files; deletions and replacements; an opaque directory and a deleted hard link. umoci lists
/// directories whose times have changed: here all of them, in the second layer, too.
const LAYERS: &str = r#"
umoci init --layout layout
umoci new --image layout:t
umoci unpack --image layout:t bundle
root=bundle/rootfs
mkdir -p $root/etc/old $root/usr/bin $root/var/cache/deep/er
echo base > $root/etc/motd; echo gone > $root/etc/gone; echo a > $root/etc/old/a; echo b > $root/etc/old/b
cp noise $root/usr/bin/tool; ln $root/usr/bin/tool $root/usr/bin/tool2; ln -s tool $root/usr/bin/link
echo x > $root/var/cache/deep/er/x; chmod 700 $root/var/cache; setfattr -n user.note -v hello $root/etc/motd
find $root -type d -exec touch -d @1000 {} +
umoci repack --refresh-bundle --image layout:t bundle
rm -r $root/etc/gone $root/etc/old $root/usr/bin/tool2
echo change > $root/etc/motd; echo new > $root/etc/new
find $root -type d -exec touch -d @2000 {} +
umoci repack --refresh-bundle --image layout:t bundle
mkdir -p top/var/cache/deep; touch top/var/cache/deep/.wh..wh..opq; echo y > top/var/cache/deep/y
mkdir -p top/etc; touch top/etc/.wh.new
tar --sort=name --owner=0 --group=0 --numeric-owner -C top -cf top.tar etc var
umoci raw add-layer --image layout:t top.tar
"#;

/// Makes the layout `layout` with the image `t`; `None` where the programs for it are missing.
fn layered(test: &str) -> Option<tempfile::TempDir> {
    if !["umoci", "setfattr", "tar"].iter().all(|tool| have(test, tool)) {
        return None;
    }
    if !rustix::process::geteuid().is_root() {
        skip(test, "umoci unpacks as root");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("noise"), noise(300_000, 7)).unwrap();
    sh(dir.path(), &format!("set -e\nexec 2>&1\n{LAYERS}"));
    Some(dir)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Converts, and returns the digests of the layers.
fn converted(dir: &Path, args: &[&str]) -> Vec<String> {
    let report = json(&succeed(dir, &[&["oci", "convert"], args, &["--json", "-q"]].concat()));
    let layers = report["layers"].as_array().unwrap();
    layers.iter().map(|layer| layer["digest"].as_str().unwrap().to_owned()).collect()
}

fn blob(layout: &Path, digest: &str) -> PathBuf {
    layout.join("blobs").join(digest.replace(':', "/"))
}

/// Reads index, manifest and configuration of the first image in a layout.
fn documents(layout: &Path) -> [Value; 3] {
    let read = |path: PathBuf| json(&fs::read_to_string(path).unwrap());
    let index = read(layout.join("index.json"));
    let manifest = read(blob(layout, index["manifests"][0]["digest"].as_str().unwrap()));
    let config = read(blob(layout, manifest["config"]["digest"].as_str().unwrap()));
    [index, manifest, config]
}

#[test]
fn a_layout_becomes_one_of_erofs_layers() {
    let Some(dir) = layered("a_layout_becomes_one_of_erofs_layers") else { return };
    let dir = dir.path();
    let digests = converted(dir, &["layout", "converted"]);
    assert_eq!(digests.len(), 3);
    let [index, manifest, config] = documents(&dir.join("converted"));
    assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "t");
    assert_eq!(index["manifests"][0]["platform"]["os.features"][0], "erofs");
    assert_eq!(config["os.features"][0], "erofs");
    for (number, digest) in digests.iter().enumerate() {
        let layer = &manifest["layers"][number];
        assert_eq!(layer["mediaType"], "application/vnd.erofs.layer.v1");
        assert_eq!(layer["digest"], digest.as_str());
        assert_eq!(config["rootfs"]["diff_ids"][number], digest.as_str());
        let path = blob(&dir.join("converted"), digest);
        let summed = sh(dir, &format!("sha256sum {}", text(path.as_os_str().as_encoded_bytes())));
        assert_eq!(summed.split(' ').next(), digest.strip_prefix("sha256:"));
        succeed(dir, &["check", path.to_str().unwrap(), "-q"]);
    }
    // Deleted files and opaque directories are what overlayfs has for them.
    let layer = |digest: &str| blob(Path::new("converted"), digest).to_str().unwrap().to_owned();
    let listed = |digest: &str| text(&run_in(dir, &["tar", &layer(digest), "--format", "pseudo"]).stdout);
    for (digest, entry) in [
        (&digests[1], "etc/gone C 0 0 0 0 0 0"),
        (&digests[1], "usr/bin/tool2 C 0 0 0 0 0 0"),
        (&digests[2], "var/cache/deep x trusted.overlay.opaque=y"),
    ] {
        assert!(listed(digest).lines().any(|line| line == entry), "{entry}: {}", listed(digest));
    }
    let left: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".packfs")), "{left:?}");
}

/// Mounts the converted layers as containerd does, and compares the result with what umoci unpacks.
#[test]
fn overlayfs_over_the_layers_shows_what_umoci_unpacks() {
    let test = "overlayfs_over_the_layers_shows_what_umoci_unpacks";
    let Some(dir) = layered(test) else { return };
    if !["erofs", "squashfs", "overlay"].iter().all(|name| kernel_has(test, name)) {
        return;
    }
    let dir = dir.path();
    sh(dir, "umoci unpack --image layout:t expected 2>&1");
    sh(dir, "tar --sort=name --xattrs --xattrs-include='user.*' -C expected/rootfs -cf expected.tar .");
    without_root_time(dir, "expected.tar", "expected.image");
    for format in ["erofs", "squashfs"] {
        let layout = format!("converted-{format}");
        let digests = converted(dir, &["layout", &layout, "--format", format]);
        let mut script = String::new();
        let mut lower = Vec::new();
        for (number, digest) in digests.iter().enumerate() {
            let path = blob(Path::new(&layout), digest);
            script += &format!(
                "mkdir -p m/{number}; mount -t {format} -o ro,loop {} m/{number}\n",
                text(path.as_os_str().as_encoded_bytes())
            );
            lower.insert(0, format!("m/{number}"));
        }
        script += &format!("mkdir -p m/all; mount -t overlay -o ro,lowerdir={} overlay m/all\n", lower.join(":"));
        script += "tar --sort=name --xattrs --xattrs-include='user.*' -C m/all -cf seen.tar .\n";
        let inside = Command::new("unshare").args(["-m", "sh", "-ec", &script]).current_dir(dir).output().unwrap();
        assert!(inside.status.success(), "{}", stderr(&inside));
        without_root_time(dir, "seen.tar", "seen.image");
        succeed(dir, &["diff", "seen.image", "expected.image"]);
        // The same in one layer.
        let flat = converted(dir, &["layout", &format!("flat-{format}"), "--format", format, "--flatten"]);
        assert_eq!(flat.len(), 1);
        let flat = blob(Path::new(&format!("flat-{format}")), &flat[0]);
        without_root_time(dir, flat.to_str().unwrap(), "flat.image");
        succeed(dir, &["diff", "flat.image", "expected.image"]);
    }
}

/// A layer of a program that lists no directories, as some that make layers without unpacking others.
const LAYER_OF_FILES: &str = r#"
mkdir -p base/usr/lib base/tmp base/srv/deep; ln -s usr/lib base/lib; ln -s ../usr base/srv/up; chmod 1777 base/tmp
echo old > base/usr/lib/old; echo gone > base/srv/deep/gone
mkdir -p top/lib top/tmp top/srv/up/share top/srv/deep
echo old > top/lib/old; ln top/lib/old top/linked; echo new > top/lib/new; echo t > top/tmp/t; echo s > top/srv/up/share/s
touch top/srv/deep/.wh.gone
find base top -exec touch -h -d @1000 {} +
tar --sort=name --owner=0 --group=0 --numeric-owner -C base -cf base.tar .
# The first name of the hard link comes with the data, and the archive then loses it.
tar --owner=0 --group=0 --numeric-owner -C top -cf top.tar lib/old linked lib/new tmp/t srv/up/share/s srv/deep/.wh.gone
tar --delete -f top.tar lib/old
mkdir expected; tar -C expected -xpf base.tar; tar -C expected -xpf top.tar
rm expected/srv/deep/gone expected/srv/deep/.wh.gone
"#;

/// GNU tar, which follows links on the way to a file as container engines do, says what the layers are together.
#[test]
fn layers_without_directories_are_flattened_as_they_are_unpacked() {
    let test = "layers_without_directories_are_flattened_as_they_are_unpacked";
    if !have(test, "tar") || !rustix::process::geteuid().is_root() {
        return skip(test, "tar unpacks as root");
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sh(dir, &format!("set -e\nexec 2>&1\n{LAYER_OF_FILES}"));
    let error = fail(dir, 1, &["oci", "convert", "base.tar", "top.tar", "layered"]);
    assert!(
        error.contains("linked: a hard link to `lib/old`, which no earlier member is") && error.contains("--flatten"),
        "{error}"
    );
    assert!(!dir.join("layered").exists());
    for format in ["erofs", "squashfs"] {
        let layout = format!("flat-{format}");
        let digests = converted(dir, &["base.tar", "top.tar", &layout, "--format", format, "--flatten"]);
        let image = blob(Path::new(&layout), &digests[0]);
        let image = image.to_str().unwrap();
        succeed(dir, &["check", image, "-q"]);
        // Also the names of hard links; only times of directories are those of unpacking.
        succeed(dir, &["diff", image, "expected", "--ignore", "time"]);
    }
}

/// Merges converted layers, and compares what packfs and Linux read with what umoci unpacks.
#[test]
fn merged_metadata_shows_what_umoci_unpacks() {
    let test = "merged_metadata_shows_what_umoci_unpacks";
    let Some(dir) = layered(test) else { return };
    if !kernel_has(test, "erofs") {
        return;
    }
    let dir = dir.path();
    sh(dir, "umoci unpack --image layout:t expected 2>&1");
    sh(dir, "tar --sort=name --xattrs --xattrs-include='user.*' -C expected/rootfs -cf expected.tar .");
    without_root_time(dir, "expected.tar", "expected.image");
    for (number, options) in [
        &["--codec", "none"][..],
        &["--codec", "lz4"],
        &["--codec", "zstd:3", "--target-kernel", "6.12", "--features", "all-fragments"],
        &["--codec", "deflate:1", "--target-kernel", "6.12", "--features", "ztailpacking"],
        &["--codec", "lz4", "--target-kernel", "6.15", "--features", "48bit"],
    ]
    .into_iter()
    .enumerate()
    {
        let layout = format!("layers-{number}");
        let digests = converted(dir, &[&["layout", &layout], options].concat());
        let layers: Vec<String> =
            digests.iter().map(|digest| blob(Path::new(&layout), digest).to_str().unwrap().to_owned()).collect();
        let layers: Vec<&str> = layers.iter().map(String::as_str).collect();
        let merge = [&["oci", "merge"], &layers[..], &["-o", "merged", "-f", "-q", "--json"]].concat();
        let report = json(&succeed(dir, &merge));
        assert!(report["referred_bytes"].as_u64().unwrap() >= 290_000, "{options:?}: {report}");
        assert!(report["image_bytes"].as_u64().unwrap() <= 32 << 10, "{options:?}: {report}");
        let before = fs::read(dir.join("merged")).unwrap();
        let of_layout = json(&succeed(dir, &["oci", "merge", &layout, "-o", "merged", "-f", "-q", "--json"]));
        assert_eq!(of_layout["layers"].as_array().unwrap().len(), layers.len());
        assert!(fs::read(dir.join("merged")).unwrap() == before, "{options:?}: another image the second time");

        let devices: Vec<&str> = layers.iter().flat_map(|layer| ["--device", layer]).collect();
        succeed(dir, &[&["check", "merged", "-q"], &devices[..]].concat());
        succeed(dir, &[&["tar", "merged", "-o", "read.tar", "-f", "-q"], &devices[..]].concat());
        without_root_time(dir, "read.tar", "read.image");
        succeed(dir, &["diff", "read.image", "expected.image"]);
        // Mounted with loop devices, and as one file.
        let script = format!(
            "mkdir -p m/devices m/whole
            cat merged {layers} > whole; mount -t erofs -o ro,loop whole m/whole
            for layer in {layers}; do device=$(losetup -f --show -r $layer); devices=\"$devices $device\"; \
            options=$options,device=$device; done
            mount -t erofs -o ro,loop$options merged m/devices
            for place in devices whole; do
            tar --sort=name --xattrs --xattrs-include='user.*' -C m/$place -cf $place.tar . || failed=1; done
            umount m/devices m/whole; losetup -d $devices; exit $failed",
            layers = layers.join(" "),
        );
        let inside = Command::new("unshare").args(["-m", "sh", "-ec", &script]).current_dir(dir).output().unwrap();
        assert!(inside.status.success(), "{options:?}: {}", stderr(&inside));
        for mounted in ["devices", "whole"] {
            without_root_time(dir, &format!("{mounted}.tar"), "seen.image");
            succeed(dir, &["diff", "seen.image", "expected.image"]);
        }
    }
}

#[test]
fn layers_that_cannot_be_merged_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    for (image, options) in [
        ("a", &["--codec", "lz4"][..]),
        ("small", &["--codec", "none", "--fs-block", "512", "--target-kernel", "6.4"]),
        ("sqfs", &["--format", "squashfs"]),
        ("zstd", &["--codec", "zstd", "--target-kernel", "6.12"]),
        ("deflate", &["--codec", "deflate", "--target-kernel", "6.12"]),
    ] {
        let format: &[&str] = if image == "sqfs" { &[] } else { &["--format", "erofs"] };
        succeed(dir, &[&["build", "root", "-o", image, "-q"], format, options].concat());
    }
    succeed(dir, &["oci", "merge", "a", "-o", "merged", "-q"]);
    for (layers, part) in [
        (&["a", "small"][..], "small: its blocks have 512 bytes, and those of a have 4096"),
        (&["sqfs", "a"], "sqfs: a layer to merge is an EROFS image"),
        (&["merged"], "merged: its data lies in other files"),
        (
            &["a", "zstd", "deflate"],
            "small files of more than two codecs: build those of a third with --fragments none",
        ),
        (&["a", "gone"], "gone: cannot open"),
    ] {
        let error = fail(dir, 1, &[&["oci", "merge"], layers, &["-o", "refused"]].concat());
        assert!(error.contains(part), "{layers:?}: {error}");
        assert!(!dir.join("refused").exists());
    }
    let error = fail(dir, 1, &["oci", "merge", "a", "-o", "merged"]);
    assert!(error.contains("merged exists") && error.contains("--force"), "{error}");
    // The merged image would have none of the data of the layer that it replaces.
    let layer = fs::read(dir.join("a")).unwrap();
    std::os::unix::fs::symlink("a", dir.join("link")).unwrap();
    fs::hard_link(dir.join("a"), dir.join("name")).unwrap();
    for output in ["a", "./a", "link", "name"] {
        let error = fail(dir, 1, &["oci", "merge", "a", "-o", output, "--force"]);
        assert!(error.contains("a: its data stays in it, and the merged image would replace it"), "{error}");
        assert!(fs::read(dir.join("a")).unwrap() == layer);
    }
}

/// Returns true if Linux can mount a file system; otherwise the test is skipped.
fn kernel_has(test: &str, name: &str) -> bool {
    let is_known = || fs::read_to_string("/proc/filesystems").unwrap().lines().any(|line| line.ends_with(name));
    // A module appears in the list when it is loaded.
    let has = is_known() || Command::new("modprobe").arg(name).status().is_ok_and(|done| done.success()) && is_known();
    if !has {
        skip(test, &format!("the kernel has no {name}"));
    }
    has
}

/// Packs a source again with a fixed time of its root: no layer says when the root was changed, so each program has its own.
fn without_root_time(dir: &Path, source: &str, image: &str) {
    succeed(dir, &["build", source, "-o", image, "-f", "-q", "--rule", "path=/ -> time=0"]);
}

/// A layer has the bytes of an image that is built by hand with the same options.
#[test]
fn layers_take_the_options_of_builds() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    sh(dir, "touch root/.wh.gone; tar --sort=name -C root -cf base.tar .");
    for options in [
        &["--codec", "lz4"][..],
        &["--codec", "zstd:3", "--target-kernel", "6.12", "--block-size", "128K", "--features", "^dedupe"],
        &["--fragments", "none", "--order", "path", "--label", "layer"],
        &["--format", "squashfs", "--codec", "xz:1", "--no-export"],
    ] {
        sh(dir, "rm -rf converted");
        let digest = converted(dir, &[&["base.tar", "converted"], options].concat()).remove(0);
        let layer = blob(Path::new("converted"), &digest);
        let info = json(&succeed(dir, &["info", "--json", layer.to_str().unwrap()]));
        let by_hand = [&["build", "base.tar", "-o", "by-hand", "-f", "-q", "--whiteouts", "overlay"], options].concat();
        let uuid = info["uuid"].as_str().unwrap_or_default();
        let format: &[&str] = if options[0] == "--format" { &[] } else { &["--format", "erofs", "--uuid", uuid] };
        succeed(dir, &[&by_hand[..], format].concat());
        assert!(fs::read(dir.join(layer)).unwrap() == fs::read(dir.join("by-hand")).unwrap(), "{options:?}");
    }
    for (options, parts) in [
        (&["--codec", "xz"][..], ["--codec xz", "EROFS"]),
        (&["--uuid", "random"], ["unexpected argument", "--uuid"]),
        (&["--blob", "x"], ["unexpected argument", "--blob"]),
        (&["--metabox", "4K", "--format", "squashfs"], ["--metabox is for erofs", "--format erofs"]),
        (&["--no-export"], ["--no-export is for squashfs", "--format squashfs"]),
        (&["--block-size", "5000"], ["--block-size 5000", "multiple"]),
        (&["--platform", "linux"], ["--platform linux", "OS/ARCHITECTURE"]),
    ] {
        let error = fail(dir, 2, &[&["oci", "convert", "base.tar", "refused"], options].concat());
        assert!(parts.iter().all(|part| error.contains(part)), "{options:?}: {error}");
        assert!(!dir.join("refused").exists());
    }
}

/// An empty directory may be a mount point, which cannot be replaced.
#[test]
fn empty_directories_become_layouts() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    sh(dir, "tar -C root -cf base.tar .; mkdir -p empty/.packfs-oci-1-0/layout; ln -s empty link");
    let inode = fs::metadata(dir.join("empty")).unwrap().ino();
    let digest = converted(dir, &["base.tar", "link"]).remove(0);
    assert_eq!(fs::metadata(dir.join("empty")).unwrap().ino(), inode);
    assert_eq!(sh(dir, "ls -A empty").lines().collect::<Vec<_>>(), ["blobs", "index.json", "oci-layout"]);
    assert!(blob(&dir.join("empty"), &digest).is_file());
    let again = json(&succeed(dir, &["oci", "convert", "base.tar", "empty", "--json", "-q"]));
    assert_eq!(again["layers"][0]["is_reused"], true);
    // A layer that was damaged meanwhile is made again.
    sh(
        dir,
        &format!(
            "printf x | dd of={} conv=notrunc status=none",
            text(blob(Path::new("empty"), &digest).as_os_str().as_encoded_bytes())
        ),
    );
    let again = json(&succeed(dir, &["oci", "convert", "base.tar", "empty", "--json", "-q"]));
    assert_eq!(again["layers"][0]["is_reused"], false);
    assert!(
        sh(dir, &format!("sha256sum {}", text(blob(Path::new("empty"), &digest).as_os_str().as_encoded_bytes())))
            .starts_with(&digest[7..])
    );
}

/// Neither a full disk nor Ctrl-C leaves anything.
#[test]
fn nothing_is_left_after_a_failure() {
    let test = "nothing_is_left_after_a_failure";
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // Text of random letters takes LZMA many seconds.
    sh(dir, "mkdir out; head -c 36M /dev/urandom | base64 > letters; tar -cf letters.tar letters");
    let mut command = packfs(["oci", "convert", "letters.tar", "out/x", "-j", "1", "--codec", "lzma:9", "-b", "1M"]);
    let mut child = command.current_dir(dir).stderr(Stdio::piped()).spawn().unwrap();
    let is_empty = |place: &str| fs::read_dir(dir.join(place)).unwrap().next().is_none();
    soon("begun", || !is_empty("out"));
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{told}");
    assert!(told.contains("interrupted: nothing was written") && is_empty("out"), "{told}");

    if !rustix::process::geteuid().is_root() {
        return skip(test, "a small file system needs root");
    }
    let script = "mkdir small; mount -t tmpfs -o size=2m none small
status=0; \"$0\" oci convert letters.tar small/x -q 2> told || status=$?; ls -A small; exit $status";
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "sh", "-ec", script]).arg(packfs([""; 0]).get_program()).current_dir(dir);
    let ran = unshare.output().unwrap();
    let told = fs::read_to_string(dir.join("told")).unwrap();
    assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(1), &b""[..]), "{told} {}", stderr(&ran));
    assert!(told.contains("No space left"), "{told}");
}

#[test]
fn archives_tar_layers_and_threads_give_the_same_layers() {
    let test = "archives_tar_layers_and_threads_give_the_same_layers";
    let Some(dir) = layered(test) else { return };
    let dir = dir.path();
    let expected = converted(dir, &["layout", "a", "-j", "1"]);
    assert_eq!(converted(dir, &["layout", "b", "-j", "4"]), expected);
    sh(dir, "tar -C layout -cf layout.tar .");
    assert_eq!(converted(dir, &["layout.tar", "c"]), expected);
    assert_eq!(fs::read(dir.join("a/index.json")).unwrap(), fs::read(dir.join("c/index.json")).unwrap());
    assert_eq!(converted(dir, &["top.tar", "tops"]), expected[2..]);
    if have(test, "skopeo") {
        sh(dir, "skopeo copy -q oci:layout:t docker-archive:docker.tar:example.com/a:v1 2>&1");
        assert_eq!(converted(dir, &["docker.tar", "d"]), expected);
        let [index, ..] = documents(&dir.join("d"));
        assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "example.com/a:v1");
        assert!(sh(dir, "skopeo inspect --raw oci:a:t").contains("vnd.erofs.layer.v1"));
    }
}

#[test]
fn a_layout_takes_more_images_and_makes_no_layer_again() {
    let Some(dir) = layered("a_layout_takes_more_images_and_makes_no_layer_again") else { return };
    let dir = dir.path();
    let first = converted(dir, &["layout", "converted"]);
    let before = fs::read(dir.join("converted/index.json")).unwrap();
    let error = fail(dir, 1, &["oci", "convert", "layout", "converted"]);
    assert!(error.contains("already has an image named t") && error.contains("--force"), "{error}");
    assert_eq!(fs::read(dir.join("converted/index.json")).unwrap(), before);
    let again = json(&succeed(dir, &["oci", "convert", "layout", "converted", "--force", "--json", "-q"]));
    for (layer, digest) in again["layers"].as_array().unwrap().iter().zip(&first) {
        assert_eq!(layer["digest"], digest.as_str());
        assert_eq!(layer["is_reused"], true);
    }
    assert_eq!(fs::read(dir.join("converted/index.json")).unwrap(), before);
    // Another codec makes other layers, and another image is added.
    sh(dir, "umoci tag --image layout:t u");
    let other = converted(dir, &["layout", "converted", "--image", "u", "--codec", "none"]);
    assert_ne!(other, first);
    let [index, ..] = documents(&dir.join("converted"));
    assert_eq!(index["manifests"].as_array().unwrap().len(), 2);
    for (args, part) in [
        (["--image", "gone"], "no image is gone; it has t, u"),
        (["--platform", "linux/none"], "no image is for linux/none; it has linux/"),
    ] {
        let error = fail(dir, 1, &[&["oci", "convert", "layout", "x"], &args[..]].concat());
        assert!(error.contains(part), "{error}");
    }
    assert!(!dir.join("x").exists());
}

/// Writes a document as a blob; returns its descriptor with further fields.
fn add_document(layout: &Path, document: &Value, fields: Value) -> Value {
    let bytes = document.to_string();
    fs::write(layout.join("document"), &bytes).unwrap();
    let digest = format!("sha256:{}", &sh(layout, "sha256sum document")[..64]);
    fs::rename(layout.join("document"), blob(layout, &digest)).unwrap();
    let mut descriptor = fields;
    descriptor["digest"] = digest.into();
    descriptor["size"] = bytes.len().into();
    descriptor
}

/// Returns `document` without what a conversion replaces.
fn without_bytes(mut document: Value) -> Value {
    let replaced = ["digest", "size", "mediaType", "config", "layers", "manifests", "schemaVersion"];
    document.as_object_mut().unwrap().retain(|name, _| !replaced.contains(&name.as_str()));
    document
}

/// All that a layout says of its images stays true when their layers become others, but for what it says of the old bytes.
#[test]
fn annotations_and_unknown_fields_stay() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    sh(dir, "tar --sort=name -C root -cf base.tar .");
    succeed(dir, &["oci", "convert", "base.tar", "plain", "-q"]);
    succeed(dir, &["oci", "export", "plain", "layout", "-q"]);
    let layout = dir.join("layout");
    let [_, plain, config] = documents(&layout);
    let other = format!("sha256:{}", "0".repeat(64));
    // What is kept, and further fields that are not.
    let manifest_fields = serde_json::json!({
        "annotations": {"of": "manifest", "base": other},
        "artifactType": "application/x.manifest",
        "subject": {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": other, "size": 3},
        "unknown": {"a": [1]},
    });
    let mut manifest = manifest_fields.clone();
    manifest["schemaVersion"] = 2.into();
    manifest["annotations"]["config"] = plain["config"]["digest"].clone();
    manifest["replaced"] = plain["layers"][0].clone();
    manifest["config"] = plain["config"].clone();
    manifest["config"]["annotations"] = serde_json::json!({"of": "config"});
    manifest["layers"] = plain["layers"].clone();
    manifest["layers"][0]["urls"] = serde_json::json!(["https://example.com/layer"]);
    manifest["layers"][0]["annotations"] = serde_json::json!({
        "of": "layer",
        "containerd.io/uncompressed": config["rootfs"]["diff_ids"][0],
        "containerd.io/snapshot/stargz/toc.digest": other,
        "io.github.containers.zstd-chunked.manifest-checksum": other,
    });
    let entry_fields = serde_json::json!({
        "annotations": {"of": "entry", "org.opencontainers.image.ref.name": "one"},
        "artifactType": "application/x.manifest",
        "platform": {"os": "linux", "architecture": "amd64", "os.version": "10.1"},
    });
    let mut entry = entry_fields.clone();
    entry["mediaType"] = "application/vnd.oci.image.manifest.v1+json".into();
    entry["urls"] = serde_json::json!(["https://example.com/manifest"]);
    entry["data"] = "aGk=".into();
    let entry = add_document(&layout, &manifest, entry);
    let index_fields = serde_json::json!({
        "annotations": {"of": "index"}, "artifactType": "application/x.index", "unknown": 1
    });
    let mut index = index_fields.clone();
    index["schemaVersion"] = 2.into();
    index["manifests"] = serde_json::json!([entry]);
    let index_entry_fields = serde_json::json!({
        "annotations": {"of": "index entry", "org.opencontainers.image.ref.name": "many"}
    });
    let mut index_entry = index_entry_fields.clone();
    index_entry["mediaType"] = "application/vnd.oci.image.index.v1+json".into();
    index_entry["annotations"]["manifest"] = entry["digest"].clone();
    let index_entry = add_document(&layout, &index, index_entry);
    let top_fields = serde_json::json!({"annotations": {"of": "layout"}, "unknown": [2]});
    let mut top = top_fields.clone();
    top["schemaVersion"] = 2.into();
    top["manifests"] = serde_json::json!([entry, index_entry]);
    fs::write(layout.join("index.json"), top.to_string()).unwrap();

    succeed(dir, &["oci", "convert", "layout", "converted", "-q"]);
    succeed(dir, &["oci", "export", "converted", "exported", "-q"]);
    for (name, has_erofs) in [("converted", true), ("exported", false)] {
        let layout = dir.join(name);
        let mut listed = entry_fields.clone();
        if has_erofs {
            listed["platform"]["os.features"] = serde_json::json!(["erofs"]);
        }
        let [top, manifest, _] = documents(&layout);
        assert_eq!(without_bytes(top.clone()), top_fields, "{name}");
        assert_eq!(without_bytes(top["manifests"][0].clone()), listed, "{name}");
        assert_eq!(without_bytes(manifest.clone()), manifest_fields, "{name}");
        assert_eq!(without_bytes(manifest["config"].clone()), serde_json::json!({"annotations": {"of": "config"}}));
        let mut layer = without_bytes(manifest["layers"][0].clone());
        layer["annotations"].as_object_mut().unwrap().retain(|name, _| !name.starts_with("packfs."));
        assert_eq!(layer, serde_json::json!({"annotations": {"of": "layer"}}), "{name}");
        assert_eq!(without_bytes(top["manifests"][1].clone()), index_entry_fields, "{name}");
        let digest = top["manifests"][1]["digest"].as_str().unwrap();
        let index = json(&fs::read_to_string(blob(&layout, digest)).unwrap());
        assert_eq!(without_bytes(index.clone()), index_fields, "{name}");
        assert_eq!(without_bytes(index["manifests"][0].clone()), listed, "{name}");
    }
    // The same layer in another image has other annotations, also where it is found again.
    manifest["layers"][0]["annotations"] = serde_json::json!({"of": "layer of another image"});
    let mut entry = add_document(&layout, &manifest, entry);
    entry["annotations"] = serde_json::json!({"org.opencontainers.image.ref.name": "two"});
    let top = serde_json::json!({"schemaVersion": 2, "manifests": [entry], "annotations": {"of": "another layout"}});
    fs::write(layout.join("index.json"), top.to_string()).unwrap();
    let again = json(&succeed(dir, &["oci", "convert", "layout", "converted", "--json", "-q"]));
    assert_eq!(again["layers"][0]["is_reused"], true);
    let [top, ..] = documents(&dir.join("converted"));
    assert_eq!(without_bytes(top.clone()), top_fields, "a layout that was there stays what it is");
    let digest = top["manifests"][2]["digest"].as_str().unwrap();
    let manifest = json(&fs::read_to_string(blob(&dir.join("converted"), digest)).unwrap());
    assert_eq!(manifest["layers"][0]["annotations"]["of"], "layer of another image");
}

/// umoci and skopeo, which change the layers of an image too, keep the same of a layout.
#[test]
fn what_other_programs_keep_of_a_layout_stays() {
    let test = "what_other_programs_keep_of_a_layout_stays";
    let Some(dir) = layered(test) else { return };
    if !have(test, "skopeo") {
        return;
    }
    let dir = dir.path();
    let layout = dir.join("layout");
    let [mut top, mut manifest, _] = documents(&layout);
    manifest["annotations"] = serde_json::json!({"of": "manifest"});
    let digest = format!("sha256:{}", "0".repeat(64));
    manifest["subject"] =
        serde_json::json!({"mediaType": manifest["config"]["mediaType"], "digest": digest, "size": 3});
    top["manifests"][0] = add_document(&layout, &manifest, top["manifests"][0].clone());
    top["annotations"] = serde_json::json!({"of": "layout"});
    top["manifests"][0]["annotations"]["of"] = "entry".into();
    top["manifests"][0]["artifactType"] = "application/x".into();
    fs::write(layout.join("index.json"), top.to_string()).unwrap();
    succeed(dir, &["oci", "convert", "layout", "converted", "-q"]);
    let [converted_top, converted, _] = documents(&dir.join("converted"));
    sh(dir, "skopeo copy -q --dest-decompress oci:layout:t dir:copied 2>&1");
    let copied = json(&fs::read_to_string(dir.join("copied/manifest.json")).unwrap());
    assert_eq!(without_bytes(converted), without_bytes(copied));
    sh(dir, "umoci raw add-layer --image layout:t top.tar 2>&1");
    let [added_top, ..] = documents(&layout);
    assert_eq!(without_bytes(converted_top.clone()), without_bytes(added_top.clone()));
    let without_platform = |top: &Value| {
        let mut entry = without_bytes(top["manifests"][0].clone());
        // umoci adds none, and packfs always does.
        entry.as_object_mut().unwrap().remove("platform");
        entry
    };
    assert_eq!(without_platform(&converted_top), without_platform(&added_top));
}

#[test]
fn the_cache_has_layers_by_their_diff_id() {
    let Some(dir) = layered("the_cache_has_layers_by_their_diff_id") else { return };
    let dir = dir.path();
    let [.., config] = documents(&dir.join("layout"));
    let expected = converted(dir, &["layout", "converted"]);
    for is_reused in [false, true] {
        let report = json(&succeed(dir, &["oci", "cache", "layout", "cache", "--json", "-q"]));
        for (number, layer) in report["layers"].as_array().unwrap().iter().enumerate() {
            assert_eq!(layer["is_reused"], is_reused);
            assert_eq!(layer["digest"], expected[number].as_str());
            let diff_id = config["rootfs"]["diff_ids"][number].as_str().unwrap();
            assert_eq!(layer["source_diff_id"], diff_id);
            let hex = diff_id.strip_prefix("sha256:").unwrap();
            let path = dir.join("cache/sha256").join(&hex[..2]).join(format!("{hex}.erofs"));
            assert_eq!(fs::read(path).unwrap(), fs::read(blob(&dir.join("converted"), &expected[number])).unwrap());
        }
    }
}

/// Layouts that lie are refused, and nothing is left.
#[test]
fn hostile_layouts_are_refused() {
    let Some(dir) = layered("hostile_layouts_are_refused") else { return };
    let dir = dir.path();
    let [index, manifest, _] = documents(&dir.join("layout"));
    let layer = manifest["layers"][0]["digest"].as_str().unwrap();
    let manifest_digest = index["manifests"][0]["digest"].as_str().unwrap();
    let layer_path = blob(Path::new("layout"), layer);
    let layer_path = layer_path.to_str().unwrap();
    let cases = [
        (format!("printf x | dd of={layer_path} bs=1 seek=100 conv=notrunc status=none"), "do not have the digest"),
        (format!("truncate -s -1 {layer_path}"), "its descriptor says"),
        (format!("truncate -s 1T {layer_path}"), "its descriptor says"),
        (format!("rm {layer_path}"), "the blob is missing"),
        (format!("rm {layer_path}; mkfifo {layer_path}"), "no regular file"),
        (format!("sed -i 's/{manifest_digest}/sha256:..\\/..\\/x/' layout/index.json"), "neither sha256: with 64"),
        ("echo '{}' > layout/index.json".into(), "missing field"),
        ("rm layout/index.json".into(), "no OCI layout"),
        ("echo text > layout/index.json".into(), "layout/index.json: no document of an image: expected"),
        ("truncate -s 5G layout/index.json".into(), "too many for a document"),
    ];
    fs::rename(dir.join("layout"), dir.join("sound")).unwrap();
    for (damage, part) in cases {
        sh(dir, &format!("rm -rf layout; cp -a sound layout; {damage}"));
        let error = fail(dir, 1, &["oci", "convert", "layout", "converted", "-q"]);
        assert!(error.contains(part), "{damage}: {error}");
        assert!(!dir.join("converted").exists(), "{damage}");
    }
    // A layer that is another one than the configuration says.
    sh(dir, "rm -rf layout; mkdir -p layout other; echo x > other/x; tar -C other -cf other.tar x");
    let fake = "set -e
put() { d=$(sha256sum < $1 | cut -d' ' -f1); mkdir -p layout/blobs/sha256; cp $1 layout/blobs/sha256/$d; echo \"\\\"digest\\\":\\\"sha256:$d\\\",\\\"size\\\":$(stat -c %s $1)\"; }
l=$(put other.tar)
zeros=$(printf '0%.0s' $(seq 64))
echo \"{\\\"os\\\":\\\"linux\\\",\\\"architecture\\\":\\\"amd64\\\",\\\"rootfs\\\":{\\\"diff_ids\\\":[\\\"sha256:$zeros\\\"]}}\" > c
c=$(put c)
echo \"{\\\"schemaVersion\\\":2,\\\"config\\\":{$c},\\\"layers\\\":[{\\\"mediaType\\\":\\\"application/vnd.oci.image.layer.v1.tar\\\",$l}]}\" > m
m=$(put m)
echo \"{\\\"schemaVersion\\\":2,\\\"manifests\\\":[{$m}]}\" > layout/index.json";
    sh(dir, fake);
    let error = fail(dir, 1, &["oci", "convert", "layout", "converted", "-q"]);
    assert!(error.contains("does not have the diffID"), "{error}");
    // Indexes that name each other a thousand times, and indexes in indexes without end.
    for (copies, depth, part) in [(3000, 4, "more than 128 MiB"), (1, 6, "nested more than 4 deep")] {
        sh(dir, "rm -rf layout; mkdir -p layout/blobs/sha256");
        let mut inner = String::from("[]");
        for _ in 0..depth {
            fs::write(dir.join("document"), format!("{{\"schemaVersion\":2,\"manifests\":{inner}}}")).unwrap();
            let digest = sh(dir, "sha256sum document")[..64].to_owned();
            fs::copy(dir.join("document"), dir.join("layout/blobs/sha256").join(&digest)).unwrap();
            let size = fs::metadata(dir.join("document")).unwrap().len();
            let kind = "application/vnd.oci.image.index.v1+json";
            let entry = format!("{{\"mediaType\":\"{kind}\",\"digest\":\"sha256:{digest}\",\"size\":{size}}}");
            inner = format!("[{}]", vec![entry; copies].join(","));
        }
        fs::write(dir.join("layout/index.json"), format!("{{\"schemaVersion\":2,\"manifests\":{inner}}}")).unwrap();
        let error = fail(dir, 1, &["oci", "convert", "layout", "converted", "-q"]);
        assert!(error.contains(part), "{error}");
    }
    // A directory with other files is not touched.
    fs::create_dir(dir.join("full")).unwrap();
    fs::write(dir.join("full/x"), "x").unwrap();
    for (target, part) in [("full", "no OCI layout"), ("none/x", "none: cannot write to the directory: No such file")] {
        let error = fail(dir, 1, &["oci", "convert", "sound", target, "-q"]);
        assert!(error.contains(part), "{error}");
    }
    fs::write(dir.join("text"), "no archive ".repeat(500)).unwrap();
    sh(dir, "truncate -s 4M ext4; echo x >> ext4; gzip -k ext4");
    succeed(dir, &["build", "other.tar", "-o", "erofs", "--format", "erofs", "-q"]);
    for (source, part) in [
        ("text", "text: neither a container image nor a tar layer"),
        ("erofs", "after zeros comes something else than a member"),
        ("ext4.gz", "after zeros comes something else than a member"),
        ("none", "none: cannot open: No such file or directory"),
    ] {
        let error = fail(dir, 1, &["oci", "convert", source, "x"]);
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(fs::read_dir(dir.join("full")).unwrap().count(), 1);
}

/// Archives of GNU tar in its formats, with what is odd in them.
const ODD_ARCHIVES: &str = r#"
mkdir -p root/d
head -c 70000 noise > root/d/big; echo x > root/small; ln root/small root/zlink; ln -s small root/symlink; : > root/empty
mkfifo root/fifo
long=$(printf 'n%.0s' $(seq 120))
mkdir -p root/$long; echo long > root/$long/$long; ln -s $long/$long root/$long.link; ln root/$long/$long root/$long/again
truncate -s 3M root/sparse; dd if=noise of=root/sparse bs=4k seek=200 count=3 conv=notrunc status=none
setfattr -n user.note -v hello root/small || true
for format in gnu oldgnu pax; do tar --format=$format -cf $format.tar root; done
for format in ustar v7; do tar --format=$format --exclude="$long*" --exclude=fifo -cf $format.tar root; done
for version in 0.0 0.1 1.0; do tar --format=pax -S --sparse-version=$version -cf sparse-$version.tar root; done
tar --format=gnu -S -cf sparse-gnu.tar root
tar --format=pax --xattrs -b 1 -cf xattrs.tar root
tar --format=gnu --owner=big:2147483000 --group=big:3000000000 -cf base256.tar root/d
tar -cf twice.tar root; echo other > root/small; tar -rf twice.tar root/small root/d
head -c -1000 gnu.tar > odd-end.tar
(cat v7.tar; head -c 999 noise) > garbage.tar
cat pax.tar ustar.tar > two.tar
mkdir -p marks/gone; echo why > marks/gone/.wh.file; touch marks/.wh..wh..opq; tar -C marks -cf marks.tar .
gzip -k pax.tar; gzip -9 -k twice.tar
touch -d '1920-01-01 00:00:00.123' root/old; tar --format=pax -cf old.tar root/old
"#;

/// Archives come back byte for byte from images of both formats, however the layers are compressed.
#[test]
fn exported_layers_are_the_archives_that_were_converted() {
    let test = "exported_layers_are_the_archives_that_were_converted";
    if !["tar", "setfattr"].iter().all(|tool| have(test, tool)) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("noise"), noise(300_000, 7)).unwrap();
    sh(dir, &format!("set -e\nexec 2>&1\n{ODD_ARCHIVES}"));
    let sources = sh(dir, "ls *.tar *.gz");
    let plain: Vec<&str> = sources.lines().filter(|name| name.ends_with(".tar")).collect();
    assert_eq!(plain.len(), 17, "{plain:?}");
    // SquashFS cannot hold a file of 1920.
    let since_1970: Vec<&str> = plain.iter().copied().filter(|name| *name != "old.tar").collect();
    let compressed = ["pax.tar.gz", "twice.tar.gz"];
    for (format, layers, compress, decompress) in [
        ("erofs", &plain[..], "none", "cat"),
        ("squashfs", &since_1970[..], "gzip:1", "gzip -dc"),
        ("erofs", &compressed[..], "zstd", "cat"),
    ] {
        sh(dir, "rm -rf converted exported");
        let convert = [&["oci", "convert"], layers, &["converted", "--reversible", "--format", format, "-q"]].concat();
        succeed(dir, &convert);
        let export = ["oci", "export", "converted", "exported", "--compress", compress, "--json", "-q"];
        let report = json(&succeed(dir, &export));
        let exported = report["layers"].as_array().unwrap();
        assert_eq!(exported.len(), layers.len());
        let [_, manifest, config] = documents(&dir.join("exported"));
        assert_eq!(config.get("os.features"), None);
        for (number, (layer, name)) in exported.iter().zip(layers).enumerate() {
            let archive = name.trim_end_matches(".gz");
            let diff_id = format!("sha256:{}", &sh(dir, &format!("sha256sum {archive}"))[..64]);
            assert_eq!(layer["diff_id"], diff_id.as_str(), "{name}: {layer}");
            assert_eq!([&layer["is_exact"], &layer["record"]], [&Value::from(true), &Value::from("used")]);
            assert_eq!(config["rootfs"]["diff_ids"][number], diff_id.as_str());
            let stored = &manifest["layers"][number];
            assert_eq!(stored["digest"], layer["digest"]);
            assert_eq!(stored.get("annotations"), None, "{stored}");
            let kind = compress.split(':').next().map(|name| format!("+{name}")).filter(|kind| kind != "+none");
            let kind = format!("application/vnd.oci.image.layer.v1.tar{}", kind.unwrap_or_default());
            assert_eq!(stored["mediaType"], kind.as_str());
            if decompress != "cat" || compress == "none" {
                let path = blob(Path::new("exported"), layer["digest"].as_str().unwrap());
                sh(dir, &format!("{decompress} < {} | cmp - {archive}", path.to_str().unwrap()));
            }
        }
    }
    // What packfs converts again is the same.
    succeed(dir, &["oci", "convert", "exported", "again", "-q"]);
    for (arguments, part) in [
        (&["converted", "x", "--compress", "xz"][..], "gzip or zstd"),
        (&["exported", "x"], "there is nothing to export"),
        (&["pax.tar", "x"], "it is no OCI layout"),
        (&["converted", "x", "--image", "none"], "no image is none"),
    ] {
        let is_usage = arguments.contains(&"--compress");
        let error = fail(dir, if is_usage { 2 } else { 1 }, &[&["oci", "export"], arguments].concat());
        assert!(error.contains(part), "{arguments:?}: {error}");
        assert!(!dir.join("x").exists());
    }
    let error = fail(dir, 2, &["oci", "convert", "pax.tar", "x", "--reversible", "--flatten"]);
    assert!(error.contains("--flatten"), "{error}");
}

/// umoci unpacks the same files from layers that are exported, with records and without.
#[test]
fn umoci_unpacks_exported_layouts() {
    let test = "umoci_unpacks_exported_layouts";
    let Some(dir) = layered(test) else { return };
    let dir = dir.path();
    sh(dir, "umoci unpack --image layout:t expected 2>&1");
    let [_, manifest, original] = documents(&dir.join("layout"));
    for (options, is_exact) in [(&["--reversible"][..], true), (&[], false)] {
        sh(dir, "rm -rf converted exported unpacked");
        converted(dir, &[&["layout", "converted"], options].concat());
        let told = stderr(&run_in(dir, &["oci", "export", "converted", "exported"]));
        assert_eq!(told.matches(": exact, with the diffID").count(), if is_exact { 3 } else { 0 }, "{told}");
        assert_eq!(told.matches("converted without --reversible").count(), if is_exact { 0 } else { 3 }, "{told}");
        let [index, exported, config] = documents(&dir.join("exported"));
        assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "t");
        assert_eq!(config["rootfs"] == original["rootfs"], is_exact);
        assert_eq!(exported["layers"].as_array().unwrap().len(), manifest["layers"].as_array().unwrap().len());
        sh(dir, "umoci unpack --image exported:t unpacked 2>&1");
        sh(dir, "diff -r --no-dereference expected/rootfs unpacked/rootfs");
        if have(test, "skopeo") {
            sh(dir, "rm -f docker.tar; skopeo copy -q oci:exported:t docker-archive:docker.tar:example.com/a:v1 2>&1");
            succeed(dir, &["oci", "convert", "docker.tar", "from-docker", "-q", "-f"]);
        }
    }
}

/// A registry of Debian's docker-registry, ended when dropped.
struct Registry {
    child: Child,
    /// Host and port.
    host: String,
}

impl Registry {
    fn start(dir: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        drop(listener);
        let store = text(dir.join("store").as_os_str().as_encoded_bytes());
        let config =
            format!("version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {store}\nhttp:\n  addr: {host}\n");
        fs::write(dir.join("registry.yml"), config).unwrap();
        let mut command = Command::new("docker-registry");
        command.args(["serve", "registry.yml"]).current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        soon("answered", || TcpStream::connect(&host).is_ok());
        Registry { child, host }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn registries_are_read_and_written() {
    let test = "registries_are_read_and_written";
    if !["docker-registry", "skopeo"].iter().all(|tool| have(test, tool)) {
        return;
    }
    let Some(dir) = layered(test) else { return };
    let dir = dir.path();
    let registry = Registry::start(dir);
    let host = &registry.host;
    let source = format!("oci://{host}/team/app:v1");
    let target = format!("oci://{host}/team/app:v1-erofs");
    sh(dir, &format!("skopeo copy -q --dest-tls-verify=false oci:layout:t docker://{host}/team/app:v1"));
    let expected = converted(dir, &["layout", "converted"]);
    // Out of a registry, into one, and from one name to another.
    assert_eq!(converted(dir, &[&source, "from-registry"]), expected);
    assert_eq!(converted(dir, &["layout", &target]), expected);
    assert_eq!(converted(dir, &[&source, &format!("oci://{host}/other/app")]), expected);
    let [index, ..] = documents(&dir.join("converted"));
    let digest = index["manifests"][0]["digest"].as_str().unwrap();
    let manifest = fs::read_to_string(blob(&dir.join("converted"), digest)).unwrap();
    for name in ["team/app:v1-erofs", "other/app:latest"] {
        let found = sh(dir, &format!("skopeo inspect --raw --tls-verify=false docker://{host}/{name}"));
        assert_eq!(found, manifest, "{name}");
    }
    // All blobs are there.
    sh(dir, &format!("skopeo copy -q --src-tls-verify=false docker://{host}/team/app:v1-erofs oci:back:t"));
    for digest in &expected {
        let back = fs::read(blob(&dir.join("back"), digest)).unwrap();
        assert!(back == fs::read(blob(&dir.join("converted"), digest)).unwrap());
    }
    let error = fail(dir, 1, &["oci", "convert", "layout", &target]);
    assert!(error.contains("already has an image named v1-erofs") && error.contains("--force"), "{error}");
    let again = json(&succeed(dir, &["oci", "convert", &source, &target, "--force", "--json", "-q"]));
    assert!(again["layers"].as_array().unwrap().iter().all(|layer| layer["is_reused"] == true), "{again}");
    let merged = json(&succeed(dir, &["oci", "merge", &target, "-o", "from-registry.erofs", "--json", "-q"]));
    assert_eq!(merged["layers"], serde_json::json!(expected));
    succeed(dir, &["oci", "merge", "converted", "-o", "from-layout.erofs", "-q"]);
    let images = ["from-registry.erofs", "from-layout.erofs"].map(|name| fs::read(dir.join(name)).unwrap());
    assert!(images[0] == images[1]);
    let error = fail(dir, 1, &["oci", "merge", &source, "-o", "tar-layers.erofs"]);
    assert!(error.contains("not an EROFS image as it is: convert it first"), "{error}");
    let with_password = format!("oci://me:hunter2@{host}/team/app:v1-erofs");
    let error = fail(dir, 1, &["oci", "merge", &with_password, &target, "-o", "two.erofs"]);
    assert!(error.contains("is merged alone") && !error.contains("hunter2"), "{error}");
    let cached = json(&succeed(dir, &["oci", "cache", &source, "cache", "--json", "-q"]));
    assert_eq!(cached["layers"][0]["digest"], expected[0].as_str());
    sh(dir, "umoci tag --image layout:t u");
    for (arguments, part) in [
        ([&*format!("oci://me:hunter2@{host}/team/none:v1"), "x"], "the registry has no such image"),
        ([&*format!("oci://{host}/team/app@sha256:12"), "x"], "its digest is neither"),
        (["layout", &*format!("oci://{host}/team/two:v1")], "the source has 2 images"),
        ([&target, "x"], "not a tar archive"),
    ] {
        let error = fail(dir, 1, &[&["oci", "convert"], &arguments[..]].concat());
        assert!(error.contains(part) && !error.contains("hunter2"), "{arguments:?}: {error}");
        assert!(!dir.join("x").exists());
    }
    let left = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let names: Vec<String> = left.map(|entry| text(entry.file_name().as_encoded_bytes())).collect();
    assert!(!names.iter().any(|name| name.starts_with(".packfs-push-")), "{names:?}");
}

/// Blobs and manifests of a small registry, by their paths.
type Stored = Arc<Mutex<BTreeMap<String, (String, Vec<u8>)>>>;

/// Answers the requests of a connection as a registry that asks for tokens, one to read and another one to write. The
/// first blob that is sent meets a server that is busy.
fn answer_requests(stream: TcpStream, stored: &Stored, was_busy: &AtomicBool) -> std::io::Result<()> {
    let host = stream.local_addr()?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let words: Vec<&str> = first.split_whitespace().collect();
        let [method, path] = [words[0], words[1]];
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let len = headers.get("content-length").map_or(0, |len| len.parse().unwrap());
        let mut body = vec![0; len];
        reader.read_exact(&mut body)?;
        let kind = headers.get("content-type").cloned().unwrap_or_default();
        let token = headers.get("authorization").map_or("", String::as_str);
        let writes = !["GET", "HEAD"].contains(&method);
        let is_allowed = token == "Bearer writing" || token == "Bearer reading" && !writes;
        let found = stored.lock().unwrap().get(path).cloned();
        let mut answer = |status: &str, header: &str, body: &[u8]| {
            write!(stream, "HTTP/1.1 {status} X\r\n{header}\r\nContent-Length: {}\r\n\r\n", body.len())?;
            stream.write_all(if method == "HEAD" { b"" } else { body })
        };
        if let Some((_, query)) = path.split_once("/token?") {
            let token = if query.contains("push") { "writing" } else { "reading" };
            answer("200", "X: y", format!("{{\"token\": \"{token}\"}}").as_bytes())?;
        } else if !is_allowed {
            let actions = if writes { "pull,push" } else { "pull" };
            let scope = format!("scope=\"repository:team/app:{actions}\"");
            answer("401", &format!("WWW-Authenticate: Bearer realm=\"http://{host}/token\",{scope}"), b"")?;
        } else if method == "POST" {
            answer("202", "Location: /upload?state=1", b"")?;
        } else if let Some((_, digest)) = path.split_once("/upload?state=1&digest=") {
            if was_busy.swap(true, Relaxed) {
                stored.lock().unwrap().insert(format!("/v2/team/app/blobs/{digest}"), (kind, body));
                answer("201", "X: y", b"")?;
            } else {
                answer("503", "Retry-After: 0", b"")?;
            }
        } else if method == "PUT" {
            stored.lock().unwrap().insert(path.to_owned(), (kind, body));
            answer("201", "X: y", b"")?;
        } else if let Some((kind, bytes)) = found {
            answer("200", &format!("Content-Type: {kind}"), &bytes)?;
        } else {
            answer("404", "X: y", b"")?;
        }
    }
}

#[test]
fn a_registry_with_tokens_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    sh(dir, "tar --sort=name -C root -cf base.tar .");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap();
    let stored = Stored::default();
    let was_busy = Arc::new(AtomicBool::new(false));
    let state = (Arc::clone(&stored), Arc::clone(&was_busy));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (stored, was_busy) = state.clone();
            // A client may leave at any time.
            std::thread::spawn(move || drop(answer_requests(stream, &stored, &was_busy)));
        }
    });
    let expected = converted(dir, &["base.tar", "converted"]);
    let address = format!("oci://{host}/team/app:v1");
    assert_eq!(converted(dir, &["base.tar", &address]), expected);
    assert!(was_busy.load(Relaxed));
    let blobs = stored.lock().unwrap();
    let [index, ..] = documents(&dir.join("converted"));
    let digest = index["manifests"][0]["digest"].as_str().unwrap();
    let manifest = fs::read(blob(&dir.join("converted"), digest)).unwrap();
    for reference in ["v1", digest] {
        let (kind, bytes) = &blobs[&format!("/v2/team/app/manifests/{reference}")];
        assert_eq!(kind, "application/vnd.oci.image.manifest.v1+json");
        assert!(*bytes == manifest, "{reference}");
    }
    let layer = fs::read(blob(&dir.join("converted"), &expected[0])).unwrap();
    assert!(blobs[&format!("/v2/team/app/blobs/{}", expected[0])].1 == layer);
    drop(blobs);
    let again = json(&succeed(dir, &["oci", "convert", "base.tar", &address, "--force", "--json", "-q"]));
    assert_eq!(again["layers"][0]["is_reused"], true);
    // Out of it and into it again, as a tar layer.
    let refused = fail(dir, 1, &["oci", "convert", "base.tar", &address, "--force", "--reversible"]);
    assert!(refused.contains("registries delete blobs that no manifest lists"), "{refused}");
    let exported = json(&succeed(dir, &["oci", "export", &address, "exported", "--json", "-q"]));
    let layer = &exported["layers"][0];
    assert_eq!([&layer["source_digest"], &layer["record"]], [&Value::from(expected[0].as_str()), &Value::from("none")]);
    let sent = json(&succeed(dir, &["oci", "export", &address, &address, "--force", "--json", "-q"]));
    assert_eq!(sent["layers"][0]["digest"], layer["digest"]);
    assert!(stored.lock().unwrap().contains_key(&format!("/v2/team/app/blobs/{}", layer["digest"].as_str().unwrap())));
    // An archive that is only in a registry is read several times for its record, and requested once.
    let kept = json(&succeed(dir, &["oci", "convert", &address, "kept", "--reversible", "--json", "-q"]));
    assert_eq!(kept["layers"][0]["source_diff_id"], layer["diff_id"]);
    let back = json(&succeed(dir, &["oci", "export", "kept", "back", "--json", "-q"]));
    assert_eq!([&back["layers"][0]["diff_id"], &back["layers"][0]["digest"]], [&layer["diff_id"], &layer["digest"]]);
}
