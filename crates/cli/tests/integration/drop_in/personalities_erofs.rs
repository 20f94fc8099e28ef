//! packfs under the name of mkfs.erofs: the same command line gives both images with the same contents.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::program::{command, is_current, link, make, sh, text};
use crate::common::{run_in, sample, skip, stderr, succeed};

const UUID: &str = "11111111-2222-3333-4444-555555555555";

#[test]
fn images_have_the_contents_that_mkfs_erofs_gives_them() {
    let test = "images_have_the_contents_that_mkfs_erofs_gives_them";
    if !is_current(test, "mkfs.erofs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    std::fs::create_dir_all(dir.join("root/var/cache/[x]")).unwrap();
    std::fs::write(dir.join("root/var/cache/[x]/a"), "a").unwrap();
    // mkfs.erofs drops fractions of the second in which it runs.
    let touched =
        Command::new("find").args("root -exec touch -h -d @1600000000.5 {} +".split(' ')).current_dir(dir).status();
    assert!(touched.unwrap().success());
    // It does not read sparse files of archives either.
    let packed =
        Command::new("tar").args("--format=pax --xattrs -cf root.tar -C root .".split(' ')).current_dir(dir).status();
    assert!(packed.unwrap().success());
    std::fs::write(
        dir.join("root.tar.gz"),
        Command::new("gzip").args(["-c", "root.tar"]).current_dir(dir).output().unwrap().stdout,
    )
    .unwrap();
    let lines = [
        "IMAGE root",
        "-zlz4hc,12 -C65536 -Efragments IMAGE root",
        "--exclude-regex=^var/[[:alpha:]]*/[][x]+$ --exclude-regex=/\\d[\\d]$ IMAGE root",
        "--exclude-path=var/cache/[x] -C 65536 -E fragments -x -1 -U 00000000-0000-0000-0000-000000000000 -T 0 IMAGE root",
        "-zlzma,6 -Eall-fragments,fragdedupe=inode -C1048576 --quiet IMAGE root",
        "-zlz4 -Ededupe,ztailpacking -L label -T1700000000 IMAGE root",
        "-zzstd,level=3 -C16384 -Elegacy-compress -T1700000000 --mkfs-time IMAGE root",
        "-zdeflate,9 --all-root -b1024 IMAGE root",
        "-Eforce-chunk-indexes --force-uid=5 --force-gid 6 IMAGE root",
        "-E^inline_data,force-inode-extended --ignore-mtime -T1700000000 IMAGE root",
        "--uid-offset=100000 --gid-offset 7 --force-uid=1 --hard-dereference IMAGE root",
        "-zlz4hc -m4096:zstd,level=9 -E48bit,dot-omitted --zD=0 -T1700000000 IMAGE root",
        "-zzstd -C16384 -m16384 -Eall-fragments --zD -T1700000000 IMAGE root",
        "-Ededupe IMAGE root",
        "--dsunit=16 -E^inline_data IMAGE root",
        "-zlz4hc -C65536 --max-extent-bytes=8192 IMAGE root",
        "-b1024 -Ededupe,^inline_data IMAGE root",
        "--chunksize=16384 -x0 -Enosbcrc,force-chunk-indexes IMAGE root",
        "-zlz4 -C65536 -Efragments=16384,force-inode-compact -x5 --all-root -T1700000000 IMAGE root",
        "--tar=f -zlz4 -T1700000000 --mkfs-time IMAGE root.tar",
        "--tar=f --ungzip --sort=none IMAGE root.tar.gz",
    ];
    let (mine, theirs) = (link(dir, "mkfs.erofs"), "mkfs.erofs");
    for line in lines {
        let expected = make(dir, theirs, line, "theirs");
        assert!(expected.status.success(), "mkfs.erofs {line}: {}", stderr(&expected));
        // Twice, as it replaces images.
        for _ in 0..2 {
            let got = make(dir, &mine, line, "ours");
            assert!(got.status.success(), "{line}: {}", stderr(&got));
            assert!(got.stdout.is_empty() || !line.contains("--quiet"), "{line}");
        }
        let different = run_in(dir, &["diff", "theirs", "ours"]);
        assert_eq!(text(&different.stdout), "", "{line}");
        let checked = Command::new("fsck.erofs").arg("ours").current_dir(dir).output().unwrap();
        assert!(checked.status.success(), "{line}: {}", stderr(&checked));
    }
}

/// SOURCE_DATE_EPOCH wins over -T and --all-time, and is the time that --ignore-mtime gives.
#[test]
fn the_time_of_the_environment_is_that_of_mkfs_erofs() {
    let test = "the_time_of_the_environment_is_that_of_mkfs_erofs";
    if !is_current(test, "mkfs.erofs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    sh(dir, "find root -exec touch -h -d @1600000000 {} +; touch -d @5 root/hole");
    let mine = link(dir, "mkfs.erofs");
    for options in ["", "--all-time ", "-T5 ", "-T5 --all-time ", "-T5 --mkfs-time ", "--ignore-mtime "] {
        for (program, image) in [(Path::new("mkfs.erofs"), "theirs"), (mine.as_path(), "ours")] {
            let mut command = command(dir, program, &format!("{options}{image} root"));
            let made = command.env("SOURCE_DATE_EPOCH", "1500000000").output().unwrap();
            assert!(made.status.success(), "{options}{image}: {}", stderr(&made));
        }
        let different = run_in(dir, &["diff", "theirs", "ours"]);
        assert_eq!(text(&different.stdout), "", "{options}");
    }
}

#[test]
fn callers_find_what_they_look_for() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    let mkfs = link(dir, "mkfs.erofs");
    let version = make(dir, &mkfs, "-V", "");
    assert!(text(&version.stdout).starts_with("mkfs.erofs (erofs-utils) 1.9.4"), "{version:?}");
    // containerd looks for the option in the help.
    let help = make(dir, &mkfs, "--help", "");
    assert!(help.status.success() && text(&help.stdout).contains("--tar"), "{help:?}");
    let made = make(dir, &mkfs, &format!("-U {UUID} --quiet IMAGE root"), "image");
    assert!(made.status.success() && made.stdout.is_empty(), "{}", stderr(&made));
    assert!(succeed(dir, &["info", "image"]).contains(UUID));
    for (line, why) in [
        ("IMAGE", "source is missing"),
        ("IMAGE nosuch", "nosuch"),
        ("-zfoo IMAGE root", "there is no compressor foo"),
        ("--blobdev=x IMAGE root", "--blobdev must be used together with --chunksize"),
    ] {
        let failed = make(dir, &mkfs, line, "failed");
        assert_eq!(failed.status.code(), Some(1), "{line}");
        assert!(stderr(&failed).contains(why), "{line}: {}", stderr(&failed));
        assert!(!dir.join("failed").exists(), "{line}");
    }
    // An archive on standard input.
    succeed(dir, &["build", "root", "-o", "root.sqfs", "-q"]);
    succeed(dir, &["tar", "root.sqfs", "-o", "root.tar", "-q"]);
    let tar = std::fs::File::open(dir.join("root.tar")).unwrap();
    let piped = Command::new(&mkfs).args(["--tar=f", "-zlz4", "piped"]).current_dir(dir).stdin(tar).output().unwrap();
    assert!(piped.status.success(), "{}", stderr(&piped));
    succeed(dir, &["diff", "root.sqfs", "piped", "-q"]);
}

#[test]
fn every_option_in_the_help_of_mkfs_erofs_is_in_the_table() {
    let test = "every_option_in_the_help_of_mkfs_erofs_is_in_the_table";
    if !is_current(test, "mkfs.erofs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let table = succeed(dir.path(), &["as", "--list", "mkfs.erofs"]);
    let cut = |word: &str| word.split(['=', '[', ',']).next().unwrap_or_default().to_owned();
    let known: BTreeSet<String> = table.lines().flat_map(|line| line.split(' ').map(cut)).collect();
    let output = Command::new("mkfs.erofs").arg("--help").output().unwrap();
    let text = text(&output.stdout);
    let options = text
        .lines()
        .flat_map(|line| line.trim_start().split([' ', ',']).take(2).map(str::to_owned).collect::<Vec<_>>());
    let options = options.filter(|word| word.starts_with('-') && word.len() > 1);
    // Of a short option only the letter counts.
    let name = |word: String| if word.starts_with("--") { cut(&word) } else { word[..2].to_owned() };
    let options: BTreeSet<String> = options.map(name).collect();
    let missing: Vec<_> = options.iter().filter(|option| !known.contains(*option)).collect();
    assert!(options.len() > 20, "{options:?}");
    assert_eq!(missing, Vec::<&String>::new());
}

#[test]
fn layers_have_the_marks_that_mkfs_erofs_gives_them() {
    if !is_current("layers_have_the_marks_that_mkfs_erofs_gives_them", "mkfs.erofs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::create_dir_all(dir.join("layer/a/b")).unwrap();
    for name in ["layer/a/.wh.gone", "layer/a/b/.wh..wh..opq", "layer/a/b/new", "layer/.wh.old"] {
        std::fs::write(dir.join(name), "").unwrap();
    }
    let tar = Command::new("tar").args(["-C", "layer", "-cf", "layer.tar", "."]).current_dir(dir).output().unwrap();
    assert!(tar.status.success(), "{}", stderr(&tar));
    // As containerd calls it.
    let line = "-b4096 --tar=f --aufs --quiet -Enoinline_data -T0 --mkfs-time --sort=none -U clear IMAGE layer.tar";
    for (program, image) in [(PathBuf::from("mkfs.erofs"), "theirs"), (link(dir, "mkfs.erofs"), "ours")] {
        let made = make(dir, &program, line, image);
        assert!(made.status.success(), "{image}: {}", stderr(&made));
    }
    let different = run_in(dir, &["diff", "theirs", "ours"]);
    assert_eq!((text(&different.stdout).as_str(), different.status.code()), ("", Some(0)));
    // An argument right after the program is the program's.
    assert!(succeed(dir, &["as", "mkfs.erofs", "--help"]).contains("--aufs"));
}

#[test]
fn images_refer_to_archives_and_images_as_those_of_mkfs_erofs_do() {
    let test = "images_refer_to_archives_and_images_as_those_of_mkfs_erofs_do";
    if !is_current(test, "mkfs.erofs") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skip(test, "only root makes whiteouts");
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    // Fractions of seconds, sparse files and roots are known to differ: docs/guide/drop-in.md.
    sh(
        dir,
        "find root -exec touch -h -d @1600000000 {} +
         tar --format=pax --xattrs -cf root.tar -C root .
         mkdir -p upper/etc upper/opaque root/opaque && echo new > upper/etc/new && chmod 0777 root upper
         echo low > root/opaque/low && echo up > upper/opaque/up && setfattr -n trusted.overlay.opaque -v y upper/opaque
         echo gone > root/gone && mknod upper/gone c 0 0
         find upper -exec touch -h -d @1600000000 {} +
         mkfs.erofs --quiet -E^inline_data a.erofs root && mkfs.erofs --quiet -E^inline_data b.erofs upper",
    );
    let mine = link(dir, "mkfs.erofs");
    let lines = [
        ("--tar=i -T1600000000 IMAGE root.tar", "root.tar"),
        ("--tar=i -b4096 -Eforce-inode-extended -U clear IMAGE root.tar", "root.tar"),
        ("-T1600000000 IMAGE a.erofs b.erofs", "a.erofs b.erofs"),
        ("--ovlfs-strip=1 -T1600000000 IMAGE a.erofs b.erofs", "a.erofs b.erofs"),
        ("--clean=data -T1600000000 IMAGE a.erofs b.erofs", ""),
        ("--ovlfs-strip=1 -T1600000000 IMAGE upper", ""),
        ("--chunksize=65536 --blobdev=IMAGE.blob -T1600000000 IMAGE root", "IMAGE.blob"),
    ];
    for (line, devices) in lines {
        for (program, image) in [(PathBuf::from("mkfs.erofs"), "theirs"), (mine.clone(), "ours")] {
            sh(dir, &format!("rm -f {image}"));
            let made = make(dir, &program, line, image);
            assert!(made.status.success(), "{image}: {line}: {}", stderr(&made));
            let devices = devices.replace("IMAGE", image);
            let given: String =
                devices.split(' ').filter(|name| !name.is_empty()).map(|name| format!(" --device={name}")).collect();
            sh(dir, &format!("fsck.erofs{given} {image} && cat {image} {devices} > {image}.flat"));
        }
        let len = std::fs::metadata(dir.join("ours")).unwrap().len();
        assert_eq!(len < 64 << 10, !line.contains("--clean=data"), "{line}: {len}");
        // mkfs.erofs marks the root of merged images for overlayfs.
        let different = run_in(dir, &["diff", "theirs.flat", "ours.flat", "--ignore=xattrs"]);
        assert_eq!((text(&different.stdout).as_str(), different.status.code()), ("", Some(0)), "{line}");
    }
    for (line, why) in [
        ("IMAGE root.tar", "not an EROFS image"),
        ("IMAGE root upper", "several sources have to be EROFS images"),
        ("--clean=rvsp IMAGE a.erofs", "--clean=rvsp: packfs cannot reserve room for data"),
        ("--tar=headerball IMAGE root.tar", "expected f or i"),
    ] {
        let failed = make(dir, &mine, line, "failed");
        assert_eq!(failed.status.code(), Some(1), "{line}");
        assert!(stderr(&failed).contains(why), "{line}: {}", stderr(&failed));
    }
}

/// A mount that ends with the test, even if it panics.
struct TestMount<'d>(&'d Path);

impl<'d> TestMount<'d> {
    fn new(place: &'d Path, kind: &str, options: &str, device: &str) -> TestMount<'d> {
        std::fs::create_dir_all(place).unwrap();
        let mounted = Command::new("mount").args(["-t", kind, "-o", options, device]).arg(place).output().unwrap();
        assert!(mounted.status.success(), "{kind} {options} {device}: {}", stderr(&mounted));
        TestMount(place)
    }
}

impl Drop for TestMount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn overlayfs_lists_no_names_that_an_image_of_a_layer_deletes() {
    let test = "overlayfs_lists_no_names_that_an_image_of_a_layer_deletes";
    if !is_current(test, "mkfs.erofs") {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skip(test, "only root makes whiteouts and mounts");
    }
    let workplace = tempfile::tempdir().unwrap();
    let dir = workplace.path();
    // A directory that no other layer has shows its whiteouts, unless it is marked.
    sh(
        dir,
        "mkdir -p layer/new/sub layer/old layer/marked lower/old oci/new && echo kept > layer/new/kept
         mknod layer/new/gone c 0 0 && mknod layer/old/gone c 0 0 && mknod layer/marked/gone c 0 0
         mknod layer/new/sub/null c 1 3 && echo gone > lower/old/gone && echo low > lower/old/low
         setfattr -n trusted.overlay.origin -v 0x00fb layer/marked
         echo kept > oci/new/kept && touch oci/new/.wh.gone
         find layer lower oci -exec touch -h -d @1600000000 {} +
         tar --xattrs --xattrs-include='*' -cf layer.tar -C layer . && tar -cf oci.tar -C oci .
         cp -a layer base && rm -r base/marked && mkfs.erofs --quiet base.erofs base",
    );
    let mine = link(dir, "mkfs.erofs");
    let upper = dir.join("upper");
    let merged = dir.join("merged");
    let listed = |image: &str, names: &str| {
        let format = if image.ends_with("sqfs") { "squashfs" } else { "erofs" };
        let _lower = TestMount::new(&upper, format, "loop,ro", dir.join(image).to_str().unwrap());
        let layers = format!("lowerdir={}:{}", upper.to_str().unwrap(), dir.join("lower").to_str().unwrap());
        let _merged = TestMount::new(&merged, "overlay", &layers, "overlay");
        assert_eq!(sh(&merged, "ls -A new").split_whitespace().collect::<Vec<_>>().join(" "), names, "{image}");
        if image != "aufs.erofs" {
            assert_eq!(sh(&merged, "ls -A old").trim(), "low", "{image}");
        }
    };
    for (line, names) in [
        ("IMAGE layer", "kept sub"),
        ("-x -1 IMAGE layer", "kept sub"),
        ("-zlz4 IMAGE layer", "kept sub"),
        ("--clean=data IMAGE base.erofs", "kept sub"),
        // mkfs.erofs marks no directories of archives, except those of whiteouts that it converts.
        ("--tar=f IMAGE layer.tar", "gone kept sub"),
    ] {
        for (program, image) in [(PathBuf::from("mkfs.erofs"), "theirs"), (mine.clone(), "ours")] {
            // Not written in place: a loop device of the mount before may still be there, with its old pages.
            sh(dir, &format!("rm -f {image}"));
            let made = make(dir, &program, line, image);
            assert!(made.status.success(), "{image}: {line}: {}", stderr(&made));
            listed(image, names);
        }
        // If a source is marked already, mkfs.erofs stores the attribute twice. If the source is an image, it makes a
        // root of its own.
        let different = run_in(dir, &["diff", "theirs", "ours"]);
        let told = text(&different.stdout);
        assert!(told.lines().all(|line| line.contains("marked") || line.starts_with(".: m")), "{line}: {told}");
    }
    let made = make(dir, &mine, "--tar=f --aufs IMAGE oci.tar", "aufs.erofs");
    assert!(made.status.success(), "{}", stderr(&made));
    listed("aufs.erofs", "kept");
    for format in ["sqfs", "erofs"] {
        for (source, way, names) in [
            ("layer", "keep", "gone kept sub"),
            ("layer", "mark-overlay", "kept sub"),
            ("layer.tar", "overlay", "kept sub"),
        ] {
            let image = format!("{way}.{format}");
            succeed(dir, &["build", source, "-o", &image, "--whiteouts", way, "--no-xattrs", "-q", "-f"]);
            listed(&image, names);
        }
    }
}

#[test]
fn owners_modes_and_capabilities_come_from_androids_lists() {
    let workplace = tempfile::tempdir().unwrap();
    let dir = workplace.path();
    std::fs::create_dir_all(dir.join("root/bin")).unwrap();
    std::fs::write(dir.join("root/bin/ping"), "ping").unwrap();
    let list = " 0 0 755 selabel=u:object_r:rootfs:s0 capabilities=0x0\nsystem/bin 0 2000 751\n\
                system/bin/ping 0 2000 755 capabilities=0x3000\nsystem/other 5 5 644\n";
    std::fs::write(dir.join("fs_config"), list).unwrap();
    std::fs::write(dir.join("contexts"), "/.* u:object_r:rootfs:s0\n/system/bin(/.*)? u:object_r:system_file:s0\n")
        .unwrap();
    let mine = link(dir, "mkfs.erofs");
    let line = "-zlz4hc,9 --mount-point /system --product-out out --fs-config-file fs_config --file-contexts contexts \
                -T 1230768000 IMAGE root";
    let made = make(dir, &mine, &line.split_whitespace().collect::<Vec<_>>().join(" "), "image");
    assert!(made.status.success(), "{}", stderr(&made));
    let listed = succeed(dir, &["list", "--pack-list", "image"]);
    for expected in [
        "dir / 0755 0 0",
        "dir bin 0751 0 2000",
        "file bin/ping 0755 0 2000",
        "xattr bin/ping security.capability=0x0100000200300000000000000000000000000000",
        // Labels, in hexadecimal digits: u:object_r:system_file:s0 and u:object_r:rootfs:s0.
        "xattr bin/ping security.selinux=0x753a6f626a6563745f723a73797374656d5f66696c653a7330",
        "xattr / security.selinux=0x753a6f626a6563745f723a726f6f7466733a7330",
    ] {
        assert!(listed.contains(expected), "{expected}: {listed}");
    }
    std::fs::write(dir.join("root/bin/unlisted"), "").unwrap();
    let failed = make(dir, &mine, "--mount-point=/system --fs-config-file=fs_config IMAGE root", "failed");
    assert_eq!(failed.status.code(), Some(1));
    assert!(stderr(&failed).contains("there is no line for `system/bin/unlisted`"), "{}", stderr(&failed));
    assert!(!dir.join("failed").exists());
}

#[test]
fn digests_of_files_are_those_of_mkfs_erofs() {
    let test = "digests_of_files_are_those_of_mkfs_erofs";
    if !is_current(test, "mkfs.erofs") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    sh(dir, "touch root/empty && find root -exec touch -h -d @1600000000 {} +");
    let (mkfs, fsck) = (link(dir, "mkfs.erofs"), link(dir, "fsck.erofs"));
    // The first name is shown as an attribute, so `packfs diff` compares the digests.
    for line in [
        "--xattr-inode-digest=user.digest IMAGE root",
        "--xattr-inode-digest=trusted.digest -x-1 -zlz4hc -C65536 -Eall-fragments IMAGE root",
        "--xattr-inode-digest -zlz4 IMAGE root",
    ] {
        for (program, image) in [(PathBuf::from("mkfs.erofs"), "theirs"), (mkfs.clone(), "ours")] {
            let made = make(dir, &program, line, image);
            assert!(made.status.success(), "{image}: {line}: {}", stderr(&made));
            for program in [PathBuf::from("fsck.erofs"), fsck.clone()] {
                let checked = make(dir, &program, "--xattr-inode-digest IMAGE", image);
                assert!(checked.status.success(), "{program:?}: {image}: {line}: {}", stderr(&checked));
            }
            assert!(succeed(dir, &["info", image]).contains("shared-inodes"), "{image}: {line}");
        }
        let different = run_in(dir, &["diff", "theirs", "ours"]);
        assert_eq!((text(&different.stdout).as_str(), different.status.code()), ("", Some(0)), "{line}");
    }
    // A wrong digest: both see it.
    let mut bytes = std::fs::read(dir.join("ours")).unwrap();
    let at = bytes.windows(7).position(|bytes| bytes == b"sha256:").unwrap();
    bytes[at + 20] ^= 1;
    std::fs::write(dir.join("ours"), bytes).unwrap();
    for program in [PathBuf::from("fsck.erofs"), fsck] {
        let checked = make(dir, &program, "--xattr-inode-digest IMAGE", "ours");
        assert!(!checked.status.success(), "{program:?}");
    }
}
