//! `packfs build --dry-run`: it says what would happen, and writes nothing.

use std::path::Path;

use packfs_blocks::testing::Random;

use crate::common::{fail, packfs, run_in, sample, stderr, succeed};

fn dry(dir: &Path, status: i32, args: &[&str]) -> serde_json::Value {
    let output = run_in(dir, &[&["build", "root", "--dry-run", "--json", "-q"], args].concat());
    assert_eq!(output.status.code(), Some(status), "{args:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn little_is_built_whole_and_the_estimate_is_what_a_build_gives() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    for image in ["x.sqfs", "x.erofs"] {
        let told = dry(dir.path(), 0, &["-o", image]);
        assert_eq!(names(dir.path()), ["root"], "nothing is written");
        let counts = ["inodes", "files", "directories", "symlinks", "devices"].map(|kind| told[kind].as_u64().unwrap());
        assert_eq!(counts, [10, 4, 5, 1, 0]);
        assert_eq!((&told["kind"], &told["estimate"]["measured"]), (&"build-dry-run".into(), &true.into()));
        assert!(told["file_bytes"].as_u64().unwrap() - told["data_bytes"].as_u64().unwrap() >= 2_900_000, "{told}");
        // The options in full, given as they are printed, build the image that was announced.
        let options: Vec<&str> =
            told["options"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        let built = succeed(dir.path(), &[&["build", "root", "-o", image, "--json", "-q"], &options[..]].concat());
        let built: serde_json::Value = serde_json::from_str(&built).unwrap();
        assert_eq!(built["file_bytes"], told["file_bytes"]);
        let length = std::fs::metadata(dir.path().join(image)).unwrap().len();
        assert_eq!(told["estimate"]["image_bytes"].as_u64(), Some(length));
        std::fs::remove_file(dir.path().join(image)).unwrap();
    }
}

#[test]
fn people_are_told_counts_options_and_an_estimate() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let told = succeed(dir.path(), &["build", "root", "-o", "x.erofs", "--dry-run", "-j", "1"]);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "image       x.erofs (erofs)");
    assert!(lines[1].starts_with("options     --format erofs --codec lz4hc:9 --block-size 64K "), "{told}");
    assert!(lines[1].contains(" --fs-block 4K"), "{told}");
    assert_eq!(lines[2], "entries     10 (4 files, 5 directories, 1 symlink)");
    assert!(lines[3].starts_with("data        ") && lines[3].ends_with(" of holes"), "{told}");
    assert!(lines[4].contains(" on 1 thread (within ") && lines[4].ends_with("all of it was built"), "{told}");
    assert_eq!(lines[5..], ["nothing was written"]);
}

#[test]
fn more_is_estimated_from_a_sample_within_what_is_said() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("root")).unwrap();
    // 40 MiB, of which each file shrinks otherwise.
    let mut random = Random::new(1);
    for number in 0..160_u64 {
        let mut bytes = Vec::with_capacity(256 << 10);
        while bytes.len() < 256 << 10 {
            let word = random.number().to_le_bytes();
            bytes.extend_from_slice(&word[..if number % 3 == 0 { 4 } else { 1 }]);
            let letter = b'a' + u8::try_from(random.below(32)).unwrap();
            bytes.extend(std::iter::repeat_n(letter, random.below(8) * (number % 5) as usize));
        }
        std::fs::write(dir.path().join(format!("root/f{number}")), &bytes).unwrap();
    }
    let told = dry(dir.path(), 0, &["-o", "x.sqfs", "-c", "lz4hc:12"]);
    let estimate = &told["estimate"];
    assert_eq!(estimate["measured"], false);
    assert!(estimate["tried"].as_u64().unwrap() < told["file_bytes"].as_u64().unwrap() * 2 / 3, "{told}");
    succeed(dir.path(), &["build", "root", "-o", "x.sqfs", "-c", "lz4hc:12", "-q"]);
    let length = std::fs::metadata(dir.path().join("x.sqfs")).unwrap().len() as f64;
    let off = (estimate["image_bytes"].as_f64().unwrap() / length - 1.0).abs();
    assert!(100.0 * off <= estimate["size_error_percent"].as_f64().unwrap(), "{off}: {told}");
}

#[test]
fn what_is_in_the_way_is_told_all_at_once() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    std::fs::write(dir.path().join("x.sqfs"), "old").unwrap();
    let whys = |told: &serde_json::Value| {
        let all = told["obstacles"].as_array().unwrap();
        all.iter().map(|why| why.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(whys(&dry(dir.path(), 1, &["-o", "x.sqfs"])), ["x.sqfs exists; --force replaces it"]);
    assert!(whys(&dry(dir.path(), 0, &["-o", "x.sqfs", "--force"])).is_empty());
    assert_eq!(std::fs::read(dir.path().join("x.sqfs")).unwrap(), b"old");
    // Files that a build writes beside the image, and no file at all.
    std::fs::write(dir.path().join("y.sqfs.index"), "old").unwrap();
    let index = ["-o", "y.sqfs", "--index"];
    assert_eq!(whys(&dry(dir.path(), 1, &index)), ["y.sqfs.index exists; --force replaces it"]);
    assert!(whys(&dry(dir.path(), 0, &[&index[..], &["--force"]].concat())).is_empty());
    std::fs::write(dir.path().join("-"), "old").unwrap();
    succeed(dir.path(), &["build", "root", "--dry-run", "-o", "-"]);
    let stream = whys(&dry(dir.path(), 1, &["-o", "/dev/null"]));
    assert!(stream[0].ends_with("; use -o - and redirect standard output"), "{stream:?}");
    assert!(whys(&dry(dir.path(), 1, &["-o", "no/x.sqfs"]))[0].starts_with("no/x.sqfs: cannot create: No such file"));
    let told =
        dry(dir.path(), 1, &["-o", "x.sqfs", "--time", "keep"].map(|word| if word == "keep" { "@5" } else { word }));
    assert_eq!(whys(&told).len(), 1, "{told}");
    // What the format cannot hold, with the way out; the target is told as well, and nothing is estimated.
    let old = std::fs::File::options().write(true).open(dir.path().join("root/hole")).unwrap();
    old.set_modified(std::time::UNIX_EPOCH - std::time::Duration::from_secs(9)).unwrap();
    let told = dry(dir.path(), 1, &["-o", "x.sqfs"]);
    let told_whys = whys(&told);
    assert!(told_whys[1].contains("1970 to 2106") && told_whys[1].contains("--time sets one"), "{told}");
    assert_eq!(told["estimate"], serde_json::Value::Null);
    assert_eq!(whys(&dry(dir.path(), 0, &["-o", "x.erofs"])).len(), 0);
    // Warnings, with --strict.
    std::fs::write(dir.path().join("order"), "etc/motd 5\nnowhere 1\n").unwrap();
    let told = dry(dir.path(), 0, &["-o", "y.erofs", "--sort", "order"]);
    assert_eq!(told["warnings"][0]["kind"], "sort-path-missing", "{told}");
    let told = dry(dir.path(), 1, &["-o", "y.erofs", "--sort", "order", "--strict"]);
    assert_eq!(whys(&told), ["--strict stops at the first warning"]);
    assert!(fail(dir.path(), 2, &["build", "root", "-o", "x.erofs", "--dry-run", "-c", "xz"]).contains("no xz"));
    assert!(fail(dir.path(), 1, &["build", "nosuch", "-o", "x.erofs", "--dry-run"]).starts_with("packfs: nosuch: "));
}

#[test]
fn a_stream_is_tried_as_well() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    succeed(dir.path(), &["build", "root", "-o", "i.sqfs", "-q"]);
    succeed(dir.path(), &["tar", "i.sqfs", "-o", "a.tar", "-q"]);
    let archive = std::fs::File::open(dir.path().join("a.tar")).unwrap();
    let ran =
        packfs(["build", "-", "-o", "x.erofs", "--dry-run"]).current_dir(dir.path()).stdin(archive).output().unwrap();
    assert!(ran.status.success(), "{}", stderr(&ran));
    assert!(
        String::from_utf8_lossy(&ran.stdout).contains("entries     10 (4 files"),
        "{}",
        String::from_utf8_lossy(&ran.stdout)
    );
    assert_eq!(names(dir.path()), ["a.tar", "i.sqfs", "root"]);
}
