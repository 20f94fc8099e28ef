//! `build --rules`: what the kernel shows of the image, what lies in it as it is, and what is told.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{FORMATS, fail, kernel, packfs, run_in, script_dir, stderr, succeed};

/// A directory with `root` in it.
fn workplace() -> tempfile::TempDir {
    let script = "mkdir -p root/boot root/usr/lib root/etc && seq 1 60000 > root/boot/vmlinuz && seq 1 60000 > root/usr/copy &&
        seq -f s%g 500 | tee root/etc/small > root/etc/twin && seq -f o%g 700 > root/etc/other && echo o > root/usr/lib/a.o &&
        echo k > root/etc/hostkey && ln -s small root/etc/link && ln root/usr/copy root/usr/lib/linked &&
        printf '\\211PNG\\r\\n\\032\\n' > root/usr/picture && seq 1 90000 >> root/usr/picture &&
        find root -exec touch -h -d @1700000000 {} +";
    script_dir(script)
}

fn read(dir: &Path, name: &str) -> Vec<u8> {
    std::fs::read(dir.join(name)).unwrap()
}

/// Returns the offset of a file's bytes in an image, if they lie there as they are.
fn plain(dir: &Path, image: &str, file: &str) -> Option<usize> {
    let (image, file) = (read(dir, image), read(dir, file));
    // A file is cut into blocks, but its blocks follow each other; its tail may follow its inode.
    let file = if file.len() < 4096 { &file[..] } else { &file[..file.len() / 4096 * 4096] };
    image.windows(file.len()).position(|part| part == file)
}

#[test]
fn the_kernel_shows_what_rules_made_of_entries() {
    let test = "the_kernel_shows_what_rules_made_of_entries";
    let dir = workplace();
    let dir = dir.path();
    let rules = "glob=*.o -> exclude\nglob=etc/** !type=symlink -> owner=7 group=8\nregex=key$ -> mode=0600 stop\n\
                 !type=symlink -> xattr=user.all=yes\npath=/etc/small -> drop-xattr=user.* xattr=user.only=0x6869 time=5 owner=9\n";
    std::fs::write(dir.join("rules"), rules).unwrap();
    for format in FORMATS {
        // Rules win over --owner.
        succeed(
            dir,
            &["build", "root", "-o", "image", "-fq", "--format", format, "--rules", "rules", "--owner", "1:1"],
        );
        let script = "cd m; find . | sort | tr '\\n' ' '; echo; stat -c '%n %a %u:%g %Y' etc etc/small etc/hostkey etc/link usr/copy; \
                      getfattr -d -m user etc/small etc/hostkey usr/copy";
        let Some(lines) = kernel::inside(test, &dir.join("image"), script) else { return };
        let expected = [
            ". ./boot ./boot/vmlinuz ./etc ./etc/hostkey ./etc/link ./etc/other ./etc/small ./etc/twin ./usr ./usr/copy \
             ./usr/lib ./usr/lib/linked ./usr/picture ",
            "etc 755 1:1 1700000000",
            "etc/small 644 9:8 5",
            "etc/hostkey 600 7:8 1700000000",
            "etc/link 777 1:1 1700000000",
            "usr/copy 644 1:1 1700000000",
            "# file: etc/small",
            "user.only=\"hi\"",
            "",
            "# file: usr/copy",
            "user.all=\"yes\"",
            "",
        ];
        assert_eq!(lines, expected, "{format}");
        succeed(dir, &["check", "image"]);
    }
}

#[test]
fn stored_files_lie_in_the_image_as_they_are() {
    let test = "stored_files_lie_in_the_image_as_they_are";
    let dir = workplace();
    let dir = dir.path();
    std::fs::write(
        dir.join("rules"),
        "path=boot/vmlinuz -> store\nmagic=compressed -> store\npath=etc/twin -> store\n",
    )
    .unwrap();
    let tar = Command::new("tar").args(["-C", "root", "-cf", "root.tar", "."]).current_dir(dir).status().unwrap();
    assert!(tar.success());
    let sum = |root: &str| format!("cd {root} && find . -type f | sort | xargs sha256sum");
    let wanted = Command::new("sh").args(["-ec", &sum("root")]).current_dir(dir).output().unwrap().stdout;
    let wanted: Vec<String> = String::from_utf8(wanted).unwrap().lines().map(str::to_owned).collect();
    for options in [
        &["--format", "squashfs", "-c", "gzip"][..],
        &["--format", "squashfs", "-b", "4K", "--no-sparse", "--fragments", "none"],
        &["--format", "erofs"],
        &[
            "--format",
            "erofs",
            "-c",
            "zstd:3",
            "--target-kernel",
            "6.10",
            "--features",
            "dedupe,^fragments",
            "--order",
            "similar",
        ],
        &["--format", "erofs", "-c", "lz4", "--features", "all-fragments"],
        &["--format", "erofs", "-c", "none"],
    ] {
        let mut images: Vec<Vec<u8>> = Vec::new();
        for (source, jobs) in [("root", "0"), ("root", "1"), ("root", "4"), ("root.tar", "2"), ("-", "3")] {
            let mut build = packfs(["build", source, "-o", "image", "-fq", "--rules", "rules", "-j", jobs]);
            if source == "-" {
                build.stdin(std::fs::File::open(dir.join("root.tar")).unwrap());
            }
            let made = build.args(options).current_dir(dir).output().unwrap();
            assert!(made.status.success(), "{options:?}: {}", stderr(&made));
            images.push(read(dir, "image"));
        }
        assert!(images[..3].windows(2).all(|pair| pair[0] == pair[1]), "{options:?}: threads");
        assert_eq!(images[3], images[4], "{options:?}: an archive from a pipe");
        succeed(dir, &["check", "image"]);
        let Some(lines) = kernel::inside(test, &dir.join("image"), &sum("m")) else { return };
        assert_eq!(lines, wanted, "{options:?}");
        for file in ["root/boot/vmlinuz", "root/usr/picture", "root/etc/twin"] {
            assert!(plain(dir, "image", file).is_some(), "{options:?}: {file}");
        }
    }
    // Its equal is compressed all the same.
    succeed(dir, &["build", "root", "-o", "image", "-fq", "--rule", "path=etc/twin -> store", "-c", "gzip"]);
    assert!(plain(dir, "image", "root/etc/twin").is_some());
    let all = read(dir, "image").len();
    succeed(dir, &["build", "root", "-o", "image", "-fq", "--rule", "glob=etc/* -> store", "-c", "gzip"]);
    assert!(all < read(dir, "image").len());
}

#[test]
fn fragments_dedup_and_order_follow_rules() {
    let dir = workplace();
    let dir = dir.path();
    let build = |rule: &str| {
        succeed(dir, &["build", "root", "-o", "image", "-fq", "-c", "none", "--rule", rule]);
        let info: serde_json::Value = serde_json::from_str(&succeed(dir, &["info", "image", "--json"])).unwrap();
        (read(dir, "image").len(), info["fragments"].as_u64().unwrap())
    };
    let (usual, fragments) = build("path=/ -> owner=0");
    assert!(fragments > 0);
    assert_eq!(build("type=file -> no-fragment").1, 0);
    // boot/vmlinuz and usr/copy are equal; etc/small and etc/twin, too.
    let len = read(dir, "root/usr/copy").len();
    assert!(build("path=usr/copy -> no-dedup").0 >= usual + len / (128 << 10) * (128 << 10));
    // Positions of the data.
    let order = |rule: &str| {
        let rules = ["--rule", "type=file -> store", "--rule", rule];
        succeed(dir, &[&["build", "root", "-o", "image", "-fq"][..], &rules].concat());
        ["root/usr/picture", "root/boot/vmlinuz", "root/etc/other"].map(|file| plain(dir, "image", file).unwrap())
    };
    let [picture, kernel, other] = order("path=usr/picture -> priority=5");
    assert!(picture < kernel && kernel < other, "{picture} {kernel} {other}");
    let [picture, kernel, other] = order("glob=etc/oth* -> priority=-5");
    assert!(picture < other && kernel < other, "{other} {picture} {kernel}");
}

#[test]
fn rules_are_explained_and_mistakes_told() {
    let dir = workplace();
    let dir = dir.path();
    std::fs::write(dir.join("rules"), "# none\nglob=*.o -> exclude\ntype=file -> mode=go-w\nglob=nosuch -> exclude\n")
        .unwrap();
    let build = ["build", "root", "-o", "image", "--rules", "rules", "-f"];
    let dry = run_in(dir, &[&build[..], &["--dry-run"]].concat());
    let text = String::from_utf8_lossy(&dry.stdout).into_owned();
    assert!(text.contains("rule        rules:2 matches 1 entry: glob=*.o -> exclude"), "{text}");
    assert!(text.contains("rule        rules:3 matches 8 entries: type=file -> mode=go-w"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&succeed(dir, &[&build[..], &["--dry-run", "--json"]].concat())).unwrap();
    assert_eq!((&json["rules"][2]["line"], &json["rules"][2]["entries"]), (&4.into(), &0.into()));
    let made = run_in(dir, &build);
    assert!(made.status.success(), "{}", stderr(&made));
    assert!(stderr(&made).contains("rules (line 4: glob=nosuch -> exclude)"), "{}", stderr(&made));
    assert!(fail(dir, 1, &[&build[..], &["--strict"]].concat()).contains("the rule matches no entry"));
    std::fs::write(dir.join("wrong"), "all -> stop\nname=x -> exclude\n").unwrap();
    for (status, options, why) in [
        (1, &["--rules", "wrong"][..], "wrong:2: unknown test `name`"),
        (2, &["--rule", "all -> codec=none"], "--rule:1: codec=none: the effect `store`"),
        (2, &["--rule", "foo"], "--rule:1: "),
        (2, &["--rule", "all -> codec=lz4", "--format", "squashfs"], "a SquashFS image has one codec"),
        (
            2,
            &["--rule", "all -> codec=zstd", "--format", "erofs"],
            "zstd (since Linux 6.10); give --target-kernel 6.10",
        ),
        (2, &["--rule", "all -> codec=xz", "--format", "erofs"], "EROFS"),
        (2, &["--rule", "all -> cluster=5000", "--format", "erofs"], "a multiple of the block (4 KiB) up to 1 MiB"),
        (2, &["--rule", "all -> cluster=8K", "--format", "erofs", "-c", "none"], "without compression has no"),
        (2, &["--rules", "none"], "--rules none: cannot read"),
        (2, &["--rule", "type=file -> store", "--shards", "2"], "cannot be used with shards"),
        (
            2,
            &["--rule", "type=file -> no-dedup", "--format", "erofs"],
            "--rule no-dedup: an EROFS image cannot treat single files this way",
        ),
        (
            2,
            &["--rule", "type=file -> store", "--format", "erofs", "--target-kernel", "5.10"],
            "--rule store: it needs Linux 5.15",
        ),
        (
            2,
            &["--rule", "type=file -> store", "--format", "erofs", "--metabox", "8K", "--target-kernel", "6.17"],
            "--rule store: an image with metabox cannot store single files uncompressed: leave one of the two out",
        ),
        (
            2,
            &["--rule", "type=file -> store", "--format", "erofs", "--features", "48bit", "--target-kernel", "6.17"],
            "--rule store: an image with 48bit cannot",
        ),
    ] {
        let args = [&["build", "root", "-o", "new"][..], options].concat();
        let output = packfs(&args).stdin(Stdio::null()).current_dir(dir).output().unwrap();
        let told = stderr(&output);
        assert_eq!((output.status.code(), told.contains(why)), (Some(status), true), "{options:?}: {told}");
        assert!(!dir.join("new").exists());
    }
}

/// Returns the extents of a file of an image.
fn extents(dir: &Path, image: &str, file: &str) -> Vec<serde_json::Value> {
    let shown = succeed(dir, &["info", image, "--inode", file, "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    shown["inode"]["extents"].as_array().unwrap().clone()
}

#[test]
fn single_files_are_packed_in_other_ways() {
    let test = "single_files_are_packed_in_other_ways";
    let dir = workplace();
    let dir = dir.path();
    let holes = std::fs::File::create(dir.join("root/etc/holes")).unwrap();
    holes.set_len(300_000).unwrap();
    let picture = std::fs::read(dir.join("root/usr/picture")).unwrap();
    std::fs::write(dir.join("root/boot/zz"), &picture[..100_001]).unwrap();
    for (fragments, rule, in_fragment) in [
        ("none", "glob=/etc/* -> fragments=small", [true, false]),
        ("none", "type=file -> fragments=tails", [true, true]),
        ("small", "type=file -> fragments=tails", [true, true]),
        ("tails", "type=file -> fragments=small", [true, false]),
        ("tails", "type=file -> fragments=none", [false, false]),
        ("tails", "type=file -> no-fragment fragments=tails", [true, true]),
    ] {
        succeed(dir, &["build", "root", "-o", "x.sqfs", "-fq", "--fragments", fragments, "--rule", rule]);
        for (file, is_in) in ["etc/other", "usr/picture"].into_iter().zip(in_fragment) {
            let last = extents(dir, "x.sqfs", file).pop().unwrap();
            assert_eq!(last.get("fragment").is_some_and(|at| !at.is_null()), is_in, "{fragments}, {rule}: {file}");
        }
        succeed(dir, &["diff", "root", "x.sqfs"]);
        succeed(dir, &["check", "x.sqfs", "-q"]);
    }
    let rules = [
        "--rule",
        "glob=/boot/* -> align",
        "--rule",
        "path=/usr/picture -> align",
        "--rule",
        "path=/etc/holes -> no-sparse",
    ];
    for stream in [&[][..], &["--stream"]] {
        let args = ["build", "root", "-o", "x.sqfs", "-fq", "--fragments=none", "-b", "16K", "-c", "zstd:1"];
        succeed(dir, &[&args[..], &rules, stream].concat());
        for file in ["boot/vmlinuz", "boot/zz", "usr/picture"] {
            let extents = extents(dir, "x.sqfs", file);
            assert_eq!(extents[0]["position"].as_u64().unwrap() % 4096, 0, "{file}");
            // The others follow each other, or readers would not find them.
            for pair in extents.windows(2) {
                let end = pair[0]["position"].as_u64().unwrap() + pair[0]["stored"].as_u64().unwrap();
                assert_eq!(pair[1]["position"].as_u64().unwrap(), end, "{file}");
            }
        }
        let stored = extents(dir, "x.sqfs", "etc/holes");
        assert!(stored.iter().all(|extent| extent["stored"].as_u64().unwrap() > 0), "{stored:?}");
        succeed(dir, &["diff", "root", "x.sqfs"]);
        succeed(dir, &["check", "x.sqfs", "-q"]);
    }
    succeed(dir, &["check", "--complete", "x.sqfs", "-q"]);
    let told = fail(dir, 1, &["check", "--complete", "/dev/null"]);
    assert!(told.contains("not a regular file") && told.contains("complete the image in a file"), "{told}");
    let sums = "cd m && find . -type f | sort | xargs cksum";
    if let Some(lines) = kernel::inside(test, &dir.join("x.sqfs"), sums) {
        let here =
            Command::new("sh").args(["-c", "cd root && find . -type f | sort | xargs cksum"]).current_dir(dir).output();
        assert_eq!(lines.join("\n"), String::from_utf8(here.unwrap().stdout).unwrap().trim_end());
    }
    for effect in ["fragments=tails", "no-sparse", "align"] {
        let rule = format!("type=file -> {effect}");
        assert!(
            fail(dir, 2, &["build", "root", "-o", "x.erofs", "-fq", "--rule", &rule]).contains("an EROFS image cannot")
        );
    }
}
