//! Effects of the options of `build` and the reading commands on an image, observed through the program alone.

use std::path::Path;

use packfs_blocks::testing::noise;
use serde_json::Value;

use crate::common::{FORMATS, fail, packfs, run_in, sample, sample_dir, stderr, succeed};

/// Builds `image` from `root` and returns its entries as JSON.
fn entries(dir: &Path, options: &[&str]) -> Vec<Value> {
    let build = ["build", "root", "-o", "image", "-f", "-q"];
    succeed(dir, &[&build, options].concat());
    let list: Value = serde_json::from_str(&succeed(dir, &["list", "image", "--json"])).unwrap();
    assert_eq!((&list["schema"], &list["kind"]), (&1.into(), &"list".into()));
    list["entries"].as_array().unwrap().clone()
}

fn paths(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["path"].as_str().unwrap()).collect()
}

fn info(dir: &Path) -> Value {
    serde_json::from_str(&succeed(dir, &["info", "image", "--json"])).unwrap()
}

#[test]
fn the_bytes_do_not_depend_on_the_number_of_threads() {
    let dir = sample_dir();
    let cases: [&[&str]; 8] = [
        &["-c", "zstd:3"],
        &["-c", "gzip"],
        &["-c", "none"],
        &["--format", "erofs"],
        &["--format", "erofs", "-c", "none"],
        &["--format", "erofs", "-c", "zstd:3", "--target-kernel", "6.15", "--features", "48bit,dedupe"],
        &["--format", "erofs", "-c", "deflate", "--target-kernel", "6.6", "--features", "all-fragments"],
        &["--format", "erofs", "-c", "lzma:1", "--features", "ztailpacking"],
    ];
    for options in cases {
        let mut images = Vec::new();
        for jobs in ["0", "1", "2", "7"] {
            let build = ["build", "root", "-o", "image", "-f", "-q", "-j", jobs, "-b", "16K"];
            succeed(dir.path(), &[&build, options].concat());
            images.push(std::fs::read(dir.path().join("image")).unwrap());
        }
        assert!(images.windows(2).all(|pair| pair[0] == pair[1]), "{options:?}");
    }
}

#[test]
fn attributes_can_be_set_for_everything() {
    let dir = sample_dir();
    let options = ["--owner", "7:8", "--mode", "D0700,F0600", "--time", "2026-01-02"];
    for entry in entries(dir.path(), &options) {
        let mode = match entry["type"].as_str().unwrap() {
            "directory" => "0700",
            "symlink" => "0777",
            _ => "0600",
        };
        let got = (&entry["mode"], &entry["uid"], &entry["gid"], &entry["mtime"]);
        assert_eq!(got, (&mode.into(), &7.into(), &8.into(), &1_767_312_000.into()), "{entry}");
    }
    assert_eq!(info(dir.path())["created"], 1_767_312_000);
}

#[test]
fn each_format_accepts_the_times_in_its_range() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    for (time, squashfs) in [
        ("-1", false),
        ("0", true),
        ("4294967295", true),
        ("4294967296", false),
        ("-99999999999", false),
        ("9999-12-31", false),
    ] {
        let build = |format| run_in(dir, &["build", "root", "-o", "image", "-fq", "--format", format, "--time", time]);
        let (of_squashfs, of_erofs) = (build("squashfs"), build("erofs"));
        assert_eq!(of_squashfs.status.code(), Some(if squashfs { 0 } else { 2 }), "{}", stderr(&of_squashfs));
        assert!(squashfs || stderr(&of_squashfs).contains("1970 to 2106-02-07"), "{}", stderr(&of_squashfs));
        assert!(of_erofs.status.success(), "{time}: {}", stderr(&of_erofs));
        let listed: serde_json::Value = serde_json::from_str(&succeed(dir, &["list", "image", "--json"])).unwrap();
        let times: Vec<_> = listed["entries"].as_array().unwrap().iter().map(|entry| entry["mtime"].as_i64()).collect();
        let want = time.parse().unwrap_or(253_402_214_400);
        assert!(times.iter().all(|time| *time == Some(want)), "{time}: {times:?}");
    }
}

#[test]
fn source_date_epoch_lowers_later_times_and_yields_to_the_option() {
    let dir = sample_dir();
    let build = |epoch: &str, options: &[&str]| {
        let args = [&["build", "root", "-o", "image", "-f", "-q"], options].concat();
        let output = packfs(args).current_dir(dir.path()).env("SOURCE_DATE_EPOCH", epoch).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        info(dir.path())["created"].clone()
    };
    assert_eq!(build("1000000000", &[]), 1_000_000_000);
    let list = succeed(dir.path(), &["list", "-l", "image"]);
    assert!(list.lines().all(|line| line.contains("2001-09-09 01:46:40")), "{list}");
    assert_eq!(build("1000000000", &["--time", "5"]), 5);
}

#[test]
fn selection_leaves_out_what_matches() {
    let dir = sample_dir();
    let all = entries(dir.path(), &[]);
    let expected = [
        "",
        "etc",
        "etc/issue",
        "etc/motd",
        "hole",
        "usr",
        "usr/motd",
        "usr/share",
        "usr/share/doc",
        "usr/share/doc/copy",
    ];
    assert_eq!(paths(&all)[..expected.len()], expected);
    let some = entries(dir.path(), &["--exclude", "motd", "--exclude", "usr/share/doc"]);
    assert_eq!(paths(&some), ["", "etc", "etc/issue", "hole", "usr", "usr/share"]);
    assert!(fail(dir.path(), 2, &["build", "root", "-o", "x", "--exclude", "a["]).contains("a["));
    let listed = succeed(dir.path(), &["list", "image", "usr", "etc/issue"]);
    assert_eq!(listed, "etc/issue\nusr\nusr/share\n");
}

#[test]
fn format_options_show_in_the_image() {
    let dir = sample_dir();
    let with = |options: &[&str]| {
        entries(dir.path(), options);
        succeed(dir.path(), &["check", "image", "--against", "root", "-q"]);
        info(dir.path())
    };
    let plain = with(&[]);
    assert_eq!(
        (&plain["codec"], &plain["block_size"], &plain["exportable"]),
        (&"zstd".into(), &131_072.into(), &true.into())
    );
    assert_eq!(with(&["--no-export"])["exportable"], false);
    assert_eq!(with(&["-b", "4K"])["block_size"], 4096);
    assert_eq!(with(&["--fragments", "none"])["fragments"], 0);
    for (option, flag) in
        [("--plain-metadata", "raw-inodes"), ("--plain-data", "raw-data"), ("--plain-fragments", "raw-fragments")]
    {
        let about = with(&[option]);
        let is_raw = |flag: &&str| about["flags"].as_array().unwrap().contains(&(*flag).into());
        let raw: Vec<_> = ["raw-inodes", "raw-data", "raw-fragments"].into_iter().filter(is_raw).collect();
        assert_eq!(raw, [flag]);
    }
    assert_eq!(with(&["-c", "xz:dict=64K"])["codec_options"]["dictionary"], 65_536);
    for (codec, linux) in [
        ("none", "2.6.29"),
        ("gzip", "2.6.29"),
        ("lzo", "2.6.36"),
        ("xz", "2.6.38"),
        ("lz4hc", "3.19"),
        ("zstd", "4.14"),
    ] {
        assert_eq!(with(&["-c", codec, "--no-xattrs"])["needs_linux"], linux, "{codec}");
    }
    assert!(with(&["--no-dedup"])["bytes_used"].as_u64() > plain["bytes_used"].as_u64());
    with(&["--no-sparse"]);
    with(&["--no-verify", "--memory", "1M"]);
}

/// A fragment block that loses a replaced file is written again, and is still uncompressed.
#[test]
fn plain_fragments_stay_plain_without_replaced_files() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut archive = tar::Builder::new(std::fs::File::create(dir.join("a.tar")).unwrap());
    for (name, text) in [("x", "old "), ("y", "kept "), ("x", "new ")] {
        let text = text.repeat(200);
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap();
    for (option, is_plain) in [("--plain-fragments", true), ("--plain-data", false)] {
        succeed(dir, &["build", "a.tar", "-o", "image.sqfs", "--force", option]);
        assert_eq!(succeed(dir, &["cat", "image.sqfs", "x", "y"]), "new ".repeat(200) + &"kept ".repeat(200));
        let image = std::fs::read(dir.join("image.sqfs")).unwrap();
        let holds = |text: &str| image.windows(text.len()).any(|part| part == text.as_bytes());
        let text = |word: &str| holds(&word.repeat(200));
        assert_eq!((text("old "), text("kept "), text("new ")), (false, is_plain, is_plain), "{option}");
    }
}

#[test]
fn options_of_erofs_show_in_the_image() {
    let dir = sample_dir();
    let with = |options: &[&str]| {
        entries(dir.path(), &[&["--format", "erofs"], options].concat());
        succeed(dir.path(), &["check", "image", "--against", "root", "-q"]);
        info(dir.path())
    };
    let has = |about: &Value, feature: &str| about["features"].as_array().unwrap().contains(&feature.into());
    let plain = with(&[]);
    assert_eq!((&plain["format"], &plain["block_size"]), (&"erofs".into(), &4096.into()));
    assert_eq!((&plain["algorithms"][0]["name"], &plain["needs_linux"]), (&"lz4".into(), &"6.1".into()));
    assert!(has(&plain, "fragments") && has(&plain, "big-clusters"), "{plain}");
    assert!(plain["flags"].as_array().unwrap().contains(&"checksum".into()), "{plain}");
    let old = with(&["--target-kernel", "5.4", "-c", "lz4"]);
    assert_eq!((&old["needs_linux"], has(&old, "big-clusters")), (&"5.4".into(), false), "{old}");
    let bare = with(&["-c", "none", "--target-kernel", "5.4"]);
    assert_eq!((&bare["algorithms"], &bare["needs_linux"]), (&Value::Array(Vec::new()), &"5.4".into()), "{bare}");
    // Holes are supported from 5.15 on.
    assert_eq!(with(&["-c", "none"])["needs_linux"], "5.15");
    let small = with(&["--target-kernel", "6.8", "--fs-block", "1K"]);
    assert_eq!((&small["block_size"], &small["needs_linux"]), (&1024.into(), &"6.8".into()), "{small}");
    let new = with(&["--target-kernel", "6.15", "--features", "48bit", "-c", "zstd"]);
    assert!(has(&new, "48bit") && new["needs_linux"] == "6.15", "{new}");
    let uuid = "01234567-89ab-cdef-0123-456789abcdef";
    let named = with(&["--label", "root", "--uuid", uuid]);
    assert_eq!((&named["label"], &named["uuid"]), (&"root".into(), &uuid.into()));
    assert_eq!(with(&[])["uuid"], plain["uuid"]);
    for options in [
        &["--features", "dedupe"][..],
        &["--features", "all-fragments"],
        &["--features", "ztailpacking,^inline-data"],
        &["--features", "full-index,extended-inodes"],
        &["-c", "none", "--features", "chunks"],
        &["--no-dedup", "--no-sparse", "--no-verify"],
    ] {
        with(options);
    }
}

#[test]
fn no_linux_reads_lz4_clusters_of_too_many_blocks() {
    let dir = sample_dir();
    entries(dir.path(), &["--format", "erofs", "-c", "lz4", "--fs-block", "512", "--target-kernel", "6.8"]);
    let place = dir.path().join("image");
    let pristine = std::fs::read(&place).unwrap();
    for (blocks, fits) in [(256u16, true), (257, false), (512, false)] {
        let mut image = pristine.clone();
        // Without a checksum; the record of LZ4 after the superblock has length, distance, blocks.
        image[1024 + 8] &= !1;
        image[1024 + 128 + 4..][..2].copy_from_slice(&blocks.to_le_bytes());
        std::fs::write(&place, image).unwrap();
        let (about, text) = (info(dir.path()), succeed(dir.path(), &["info", "image"]));
        let check = run_in(dir.path(), &["check", "image", "-q"]);
        assert_eq!((about["needs_linux"] == "6.8", check.status.code()), (fits, Some(i32::from(!fits))), "{about}");
        if !fits {
            assert!(
                about["needs_linux"].is_null() && text.contains("no Linux reads it: LZ4 clusters"),
                "{about}\n{text}"
            );
            let said = format!("LZ4 clusters of {blocks} blocks: Linux mounts images with up to 256");
            assert!([stderr(&check), String::from_utf8(check.stdout.clone()).unwrap()].concat().contains(&said));
        }
    }
}

#[test]
fn no_image_needs_more_than_its_target_kernel() {
    let dir = sample_dir();
    // Holes between data, and pieces that are stored elsewhere already but not consecutively.
    let mut mixed = std::fs::read(dir.path().join("root/usr/share/doc/text")).unwrap();
    mixed.resize(5 << 20, 0);
    mixed.extend_from_within(..400_000);
    std::fs::write(dir.path().join("root/mixed"), &mixed).unwrap();
    let version = |text: &str| -> Vec<u16> { text.split('.').map(|part| part.parse().unwrap()).collect() };
    for target in ["5.4", "5.12", "5.14", "5.16", "5.19", "6.1", "6.5", "6.9", "6.14", "6.15"] {
        for codec in ["none", "lz4", "lz4hc", "lzma", "deflate", "zstd"] {
            let build = ["build", "root", "-o", "image.erofs", "-f", "-q", "--target-kernel", target, "-c", codec];
            let output = run_in(dir.path(), &build);
            if output.status.code() == Some(2) {
                assert!(stderr(&output).contains("this kernel cannot read"), "{}", stderr(&output));
                continue;
            }
            assert!(output.status.success(), "{target} {codec}: {}", stderr(&output));
            succeed(dir.path(), &["check", "image.erofs", "--against", "root", "-q"]);
            let about: Value = serde_json::from_str(&succeed(dir.path(), &["info", "image.erofs", "--json"])).unwrap();
            let needs = about["needs_linux"].as_str().unwrap();
            assert!(version(needs) <= version(target), "{codec} for {target} needs {needs}: {}", about["features"]);
        }
    }
}

#[test]
fn the_build_summary_of_erofs_is_json_on_request() {
    let dir = sample_dir();
    let build = ["build", "root", "-o", "image.erofs", "--json", "-q", "--time", "5"];
    let report: Value = serde_json::from_str(&succeed(dir.path(), &build)).unwrap();
    let size = std::fs::metadata(dir.path().join("image.erofs")).unwrap().len();
    assert_eq!((&report["format"], &report["image_bytes"]), (&"erofs".into(), &size.into()));
    assert_eq!((&report["codec"], &report["block_size"]), (&"lz4hc:9".into(), &65_536.into()));
    assert_eq!((&report["files"], &report["directories"]), (&4.into(), &5.into()));
    assert!(report["data"]["duplicate_bytes"].as_u64() >= Some(440_000), "{report}");
    assert!(report["data"]["hole_bytes"].as_u64() >= Some(2_900_000), "{report}");
    assert_eq!(report["kernel"], "6.1");
    let image = ["info", "image.erofs", "--json"];
    let about: Value = serde_json::from_str(&succeed(dir.path(), &image)).unwrap();
    assert_eq!((&about["uuid"], &about["created"]), (&report["uuid"], &5.into()));
}

/// The error for an AppImage says where its image begins.
#[test]
fn the_image_after_a_program_is_named() {
    if !cfg!(feature = "mount") {
        return;
    }
    let dir = sample_dir();
    // The head of an ELF program whose section table, of one entry, ends at byte 128.
    let mut runtime = [0; 128];
    runtime[..6].copy_from_slice(b"\x7fELF\x02\x01");
    runtime[0x28] = 64;
    runtime[0x3a] = 64;
    runtime[0x3c] = 1;
    std::fs::write(dir.path().join("runtime"), runtime).unwrap();
    succeed(dir.path(), &["build", "root", "-o", "app", "--prefix", "runtime", "-q"]);
    let error = fail(dir.path(), 1, &["info", "app"]);
    assert!(error.contains("(one begins further on: use --offset 128)"), "{error}");
    assert!(succeed(dir.path(), &["list", "app", "--offset", "128"]).contains("etc/motd\n"));
}

#[test]
fn an_image_may_begin_anywhere_in_a_file() {
    let dir = sample_dir();
    for format in FORMATS {
        succeed(dir.path(), &["build", "root", "-o", "image", "--offset", "8K", "-f", "-q", "--format", format]);
        assert!(fail(dir.path(), 1, &["list", "image"]).contains("--offset if one begins further on"));
        assert!(succeed(dir.path(), &["list", "image", "--offset", "8K"]).contains("etc/motd\n"));
        let cat = ["cat", "image", "etc/motd", "usr/motd", "--offset", "8192"];
        assert_eq!(succeed(dir.path(), &cat), "Welcome.\nWelcome.\n");
    }
}

#[test]
fn a_sort_file_places_data_and_keeps_contents() {
    let dir = sample_dir();
    std::fs::write(dir.path().join("sort"), "usr/share/doc/text 100\nno/such/file 1\n").unwrap();
    for format in FORMATS {
        let build = ["build", "root", "-o", "image", "-f", "--sort", "sort", "--format", format];
        let output = run_in(dir.path(), &build);
        assert!(output.status.success() && stderr(&output).contains("no/such/file"), "{}", stderr(&output));
        succeed(dir.path(), &["check", "image", "--against", "root", "-q"]);
    }
    std::fs::write(dir.path().join("sort"), "usr/share/doc/text high\n").unwrap();
    let message = fail(dir.path(), 1, &["build", "root", "-o", "image", "-f", "-q", "--sort", "sort"]);
    assert!(message.contains("sort") && message.contains("-32768 to 32767"), "{message}");
}

#[test]
fn the_build_summary_is_json_on_request() {
    let dir = sample_dir();
    let report: Value =
        serde_json::from_str(&succeed(dir.path(), &["build", "root", "-o", "image", "--json", "-q"])).unwrap();
    let size = std::fs::metadata(dir.path().join("image")).unwrap().len();
    assert_eq!((&report["schema"], &report["kind"], &report["image"]), (&1.into(), &"build".into(), &"image".into()));
    assert_eq!((&report["padded_bytes"], &report["codec"]), (&size.into(), &"zstd:15".into()));
    assert_eq!((&report["files"], &report["directories"]), (&4.into(), &5.into()));
    assert!(report["data"]["duplicate_bytes"].as_u64() >= Some(440_000), "{report}");
    assert!(report["data"]["hole_bytes"].as_u64() >= Some(2_900_000), "{report}");
}

#[test]
fn differences_are_listed_and_are_status_1() {
    let dir = sample_dir();
    succeed(dir.path(), &["build", "root", "-o", "image", "-q"]);
    assert_eq!(succeed(dir.path(), &["diff", "image", "root", "-q"]), "");
    std::fs::write(dir.path().join("root/etc/new"), "new").unwrap();
    std::fs::write(dir.path().join("root/usr/share/doc/copy"), "All work and some play.\n").unwrap();
    let output = run_in(dir.path(), &["diff", "image", "root", "-q"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("etc/new: only in root") && text.contains("usr/share/doc/copy: size"), "{text}");
    let output = run_in(dir.path(), &["diff", "image", "root", "-q", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["same"]), (Some(1), &false.into()));
    assert_eq!(report["differences"]["count"], report["differences"]["shown"].as_array().unwrap().len());
    let checked = run_in(dir.path(), &["check", "image", "--against", "root", "-q", "--json"]);
    let report: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!((checked.status.code(), &report["sound"]), (Some(1), &false.into()));
}

#[test]
fn a_check_reports_time_and_bytes_of_each_phase() {
    let dir = sample_dir();
    let dir = dir.path();
    std::fs::write(dir.join("root/noise"), noise(3 << 20, 1)).unwrap();
    let phases = |args: &[&str]| -> Vec<(String, u64)> {
        let report: Value =
            serde_json::from_str(&succeed(dir, &[&["check", "image", "--json"], args].concat())).unwrap();
        let phases = report["phases"].as_array().unwrap().iter();
        let figures = phases.map(|phase| {
            assert!(phase["seconds"].as_f64().unwrap() >= 0.0, "{report}");
            (phase["phase"].as_str().unwrap().to_owned(), phase["read_bytes"].as_u64().unwrap())
        });
        figures.collect()
    };
    for format in FORMATS {
        let built = succeed(dir, &["build", "root", "-o", "image", "-fq", "--json", "--format", format]);
        let built: Value = serde_json::from_str(&built).unwrap();
        let data_bytes = built["data_bytes"].as_u64().unwrap();
        let image_bytes = built["image_bytes"].as_u64().unwrap();
        let whole = phases(&[]);
        let [(metadata, metadata_read), (data, data_read)] = &whole[..] else { panic!("{whole:?}") };
        assert_eq!((metadata.as_str(), data.as_str()), ("metadata", "data"));
        assert!((data_bytes..image_bytes).contains(data_read), "{format}: {whole:?} of {data_bytes}");
        assert!((1..1 << 20).contains(metadata_read), "{format}: {whole:?}");
        // Each part reads all metadata, and its part of the data.
        let part = phases(&["--shard", "1/2"]);
        assert!(part[1].1 < data_read * 3 / 4, "{format}: {part:?} of {whole:?}");
        let compared = phases(&["--against", "root"]);
        assert_eq!((&compared[..2], compared[2].0.as_str()), (&whole[..], "compare"), "{format}");
        // The noise is in more blocks than are kept decoded with this limit.
        let compared = phases(&["--against", "root", "--memory", "1M"]);
        assert!(compared[2].1 > 1 << 20, "{format}: {compared:?}");
    }
}

#[test]
fn damage_is_found_and_is_status_1() {
    let dir = sample_dir();
    succeed(dir.path(), &["build", "root", "-o", "image", "-q"]);
    assert_eq!(succeed(dir.path(), &["check", "image", "-q"]), "");
    let mut bytes = std::fs::read(dir.path().join("image")).unwrap();
    // In the frame header of the first data block: the format has no checksums that would reveal other damage.
    bytes[97] ^= 0x55;
    std::fs::write(dir.path().join("image"), bytes).unwrap();
    let output = run_in(dir.path(), &["check", "image"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}{}", stderr(&output));
    assert!(text.contains("byte"), "{text}");
    assert!(stderr(&output).contains("1 finding"), "{}", stderr(&output));
    let output = run_in(dir.path(), &["check", "image", "--against", "root", "-q"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("block at byte 96") && text.contains("prevents comparing"), "{text}");
}

#[test]
fn notes_are_reported_and_do_not_fail() {
    let dir = sample_dir();
    succeed(dir.path(), &["build", "root", "-o", "image", "-q"]);
    let info: Value = serde_json::from_str(&succeed(dir.path(), &["info", "image", "--json"])).unwrap();
    let image = std::fs::OpenOptions::new().write(true).open(dir.path().join("image")).unwrap();
    image.set_len(info["bytes_used"].as_u64().unwrap()).unwrap();
    let output = run_in(dir.path(), &["check", "image"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.starts_with("note: superblock at byte 0: a loop device cuts off"), "{text}");
    assert!(stderr(&output).contains("sound; 1 note"), "{}", stderr(&output));
    let report = succeed(dir.path(), &["check", "image", "-q", "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let counts = (&report["findings"]["count"], &report["notes"]["count"]);
    assert_eq!((&report["sound"], counts), (&true.into(), (&0.into(), &1.into())), "{report}");
}

#[test]
fn archives_and_directories_round_trip() {
    for format in FORMATS {
        let dir = sample_dir();
        succeed(dir.path(), &["build", "root", "-o", "image", "-q", "--format", format]);
        succeed(dir.path(), &["tar", "image", "-o", "image.tar", "-q"]);
        assert!(fail(dir.path(), 1, &["tar", "image", "-o", "image.tar", "-q"]).contains("--force"));
        succeed(dir.path(), &["check", "image", "--against", "image.tar", "-q"]);
        succeed(dir.path(), &["extract", "image", "-C", "out", "-q"]);
        assert_eq!(succeed(dir.path(), &["diff", "image", "out", "-q"]), "");
        assert!(fail(dir.path(), 1, &["extract", "image", "-C", "out", "-q"]).contains("out"));
        succeed(dir.path(), &["extract", "image", "-C", "out", "-q", "--force"]);
        succeed(dir.path(), &["extract", "image", "etc", "-C", "some", "-q"]);
        assert!(dir.path().join("some/etc/motd").exists() && !dir.path().join("some/usr").exists());
    }
}

#[test]
fn every_preset_makes_an_image_of_either_format() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    for preset in ["fast", "balanced", "small", "smallest"] {
        for format in FORMATS {
            let build = ["build", "root", "-o", "image", "--format", format, "--preset", preset, "-f", "-q"];
            succeed(dir.path(), &build);
            succeed(dir.path(), &["check", "image", "--against", "root"]);
        }
    }
    assert!(fail(dir.path(), 2, &["build", "root", "-o", "new", "--preset", "tiny"]).contains("smallest"));
}

#[test]
fn statistics_add_up_to_the_image() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    for format in FORMATS {
        let image = format!("root.{format}");
        succeed(dir.path(), &["build", "root", "-o", &image, "--format", format]);
        let document = succeed(dir.path(), &["info", &image, "--stats", "--json"]);
        let stats = serde_json::from_str::<Value>(&document).unwrap()["stats"].clone();
        let number = |name: &str| stats[name].as_u64().unwrap();
        let len = std::fs::metadata(dir.path().join(&image)).unwrap().len();
        assert_eq!(number("image_bytes"), len);
        assert_eq!(number("file_bytes") + number("metadata_bytes") + number("unused_bytes"), len);
        for groups in ["types", "folders", "ratios"] {
            let rows = stats[groups].as_array().unwrap();
            let stored: u64 = rows.iter().map(|row| row["stored"].as_u64().unwrap()).sum();
            assert_eq!(stored, number("file_bytes"), "{groups}");
        }
        let text = succeed(dir.path(), &["info", &image, "--stats"]);
        for title in
            ["TYPE", "FOLDER", "STORED OF DATA", "LEAST COMPRESSED FOLDERS", "LARGEST FILES", "unused or padding"]
        {
            assert!(text.contains(title), "{text}");
        }
    }
    assert!(!succeed(dir.path(), &["info", "root.erofs"]).contains("LARGEST"));
}

/// Metadata that is damaged ends the comparison, and not the report.
#[test]
fn a_check_against_a_source_loses_no_finding() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    for format in FORMATS {
        succeed(dir, &["build", "root", "-o", "image", "-qf", "--format", format, "--codec", "none"]);
        let image = std::fs::read(dir.join("image")).unwrap();
        // Metadata lies around the name of an entry.
        let name = image.windows(5).position(|bytes| bytes == b"issue").unwrap();
        let mut compared = 0;
        for at in (0..20).flat_map(|n| [name + 13 * n, name - 13 * n]) {
            let mut damaged = image.clone();
            damaged[at] ^= 0x55;
            std::fs::write(dir.join("damaged"), damaged).unwrap();
            let check = |more: &[&str]| {
                let output = run_in(dir, &[&["check", "damaged", "--json", "-q"], more].concat());
                let report = serde_json::from_slice::<Value>(&output.stdout).ok();
                (output.status.code(), report.map(|report| report["findings"]["count"].as_u64().unwrap()))
            };
            let (status, Some(count)) = check(&[]) else { continue };
            let (status_against, count_against) = check(&["--against", "root"]);
            if status == Some(1) {
                assert!(status_against == status && count_against >= Some(count), "{format}: byte {at}");
                compared += 1;
            }
        }
        assert!(compared > 3, "{format}: {compared}");
    }
}
