//! The bytes of images, archives and parts over a matrix of options: a change of structure shows here that it changes none.
//!
//! `digests.txt` has the digest of what each command line writes. `PACKFS_DIGESTS=write` renews it; the commit of a change
//! that is meant to change bytes says why.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::common::{packfs, stderr};
use packfs_blocks::testing::noise;

/// Digests of the last run with `PACKFS_DIGESTS=write`.
const EXPECTED: &str = include_str!("digests.txt");
/// Options of every build: nothing of this machine's files gets into an image but names and contents.
const FIXED: &str = "--owner 0:0 --time 1000000000 --image-time 1000000000 --no-xattrs -q";
/// Separates commands that make one case together.
const THEN: &str = " ; ";

const SQUASHFS_CODECS: [&str; 16] = [
    "none", "gzip:1", "gzip:6", "gzip:9", "gzip:12", "lz4", "lz4hc:9", "lz4hc:12", "lzo", "zstd:1", "zstd:3",
    "zstd:15", "zstd:19", "xz:1", "xz:6", "lzma",
];
const SQUASHFS_BLOCKS: [&str; 3] = ["4K", "128K", "1M"];
/// Dense codecs with blocks of 1M, which have parsers of their own, and filters.
const SQUASHFS_DENSE: [&str; 4] = ["-c zstd:22 -b 1M", "-c zstd:22", "-c xz:9 -b 1M", "-c xz:6:bcj=auto"];
const SQUASHFS_OPTIONS: [&str; 22] = [
    "--fragments none",
    "--fragments small",
    "--no-dedup",
    "--no-sparse",
    "--no-export",
    "--plain-metadata",
    "--plain-data",
    "--plain-fragments",
    "--plain-metadata --plain-data --plain-fragments",
    "--no-pad",
    "--offset 8K",
    "--prefix in/root/dir1/small7",
    "--index",
    "--no-verify",
    "--rules in/rules.squashfs",
    "--no-hard-links",
    "--exclude dir1/*",
    "--max-depth 2",
    "--subdir dir2",
    "--exclude-regex small[0-9]$",
    "--append in/squashfs --append-below old",
    "--stream",
];

const EROFS_CODECS: [&str; 12] = [
    "none",
    "lz4",
    "lz4:acceleration=4",
    "lz4hc:9",
    "lz4hc:12",
    "zstd:1",
    "zstd:3",
    "zstd:15",
    "deflate:1",
    "deflate:9",
    "lzma:1",
    "lzma:6",
];
const EROFS_CLUSTERS: [&str; 4] = ["4K", "16K", "64K", "1M"];
const EROFS_FEATURES: [&str; 11] = [
    "^fragments,^dedupe,^ztailpacking",
    "ztailpacking",
    "fragments",
    "dedupe,^fragments",
    "dedupe,fragments",
    "all-fragments",
    "full-index,^fragments",
    "48bit,^fragments",
    "48bit,dedupe,fragments",
    "extended-inodes,compressed-dirs",
    "dot-omitted,48bit",
];
const EROFS_OPTIONS: [&str; 16] = [
    "-c none --features chunks",
    "-c none --features chunks --chunk-size 8K",
    "-c none --features chunk-indexes --chunk-size 8K",
    "-c none --no-dedup",
    "--no-sparse",
    "--no-verify",
    "--max-extent 64K",
    "--data-align 64K -c none",
    "--fs-block 512",
    "--fs-block 1K",
    "--fragment-cluster 64K",
    "--metabox 1M",
    "--label packfs",
    "--uuid 01234567-89ab-cdef-0123-456789abcdef",
    "--offset 8K",
    "--rules in/rules.erofs",
];
/// For both formats.
const COMMON: [&str; 14] = [
    "--order path",
    "--order similar",
    "--order type",
    "--preset fast",
    "--preset balanced",
    "--preset small",
    "--preset smallest",
    "--shards 2",
    "--shards 3 --order similar",
    "-j 0",
    "-j 1",
    "-j 3 --memory 64M",
    "--hot in/hot",
    "--reuse in/FORMAT",
];

/// Commands that read images, and lines of several commands. FORMAT stands for either format.
const STEPS: [&str; 15] = [
    "tar in/FORMAT -o out/a.tar -q",
    "tar in/FORMAT -o out/a.tar.gz -q",
    "tar in/FORMAT -o out/a.tar.bz2 -q",
    "tar in/FORMAT -o out/a.tar.xz -q",
    "tar in/FORMAT -o out/a.tar.zst -q",
    "tar in/FORMAT --format pseudo -o out/a.pseudo -q",
    "extract in/FORMAT -C out/a -q",
    "build in/FORMAT -o out/a --format squashfs -c gzip -q",
    "build in/FORMAT -o out/a --format erofs -c lz4hc:4 -q",
    "build in/a.tar -o out/a --format FORMAT -q",
    "build in/a.tar.xz -o out/a --format FORMAT -q",
    "build in/a.tar in/root --layers -o out/a --format FORMAT FIXED",
    "build in/root/dir2 -o out/a --append in/FORMAT --append-below more FIXED",
    "build in/root -o out/first --format FORMAT --index FIXED ; build in/root -o out/a --format FORMAT --reuse out/first FIXED",
    "plan in/root -o plan --shards 3 --format FORMAT FIXED ; shard plan 0 -o shards -q ; shard plan 1 -o shards -q ; \
     shard plan 2 -o shards -q ; assemble plan shards -o out/a -q",
];
/// Parts have a random identity, and whichever is free takes a segment: only what they are joined to is always the same.
const SPLIT_CODECS: [&str; 6] = ["lz4", "lz4hc", "zstd:3", "gzip", "snappy", "none"];
const SPLIT_OPTIONS: [&str; 3] = ["", " --dedup", " --parity 1"];

/// Returns the command lines.
fn cases() -> Vec<String> {
    let squashfs = "build in/root -o out/a --format squashfs FIXED";
    let erofs = "build in/root -o out/a --format erofs --target-kernel 6.17 FIXED";
    let mut cases = Vec::new();
    for codec in SQUASHFS_CODECS {
        cases.extend(SQUASHFS_BLOCKS.map(|block| format!("{squashfs} -c {codec} -b {block}")));
    }
    cases.extend(SQUASHFS_DENSE.map(|options| format!("{squashfs} {options}")));
    for options in SQUASHFS_OPTIONS {
        cases.extend(["lz4", "zstd:3"].map(|codec| format!("{squashfs} -c {codec} {options}")));
    }
    for codec in EROFS_CODECS {
        cases.extend(EROFS_CLUSTERS.map(|cluster| format!("{erofs} -c {codec} -b {cluster}")));
    }
    for features in EROFS_FEATURES {
        let ways = ["lz4 -b 4K", "lz4 -b 64K", "lz4hc:9 -b 4K", "lz4hc:9 -b 64K", "zstd:3 -b 64K", "lzma:1 -b 64K"];
        cases.extend(ways.map(|way| format!("{erofs} -c {way} --features {features}")));
    }
    cases.extend(EROFS_OPTIONS.map(|options| format!("{erofs} {options}")));
    for format in ["squashfs", "erofs"] {
        let common = COMMON.map(|options| format!("build in/root -o out/a --format FORMAT FIXED {options}"));
        cases.extend(common.iter().map(|case| case.replace("FORMAT", format)));
        cases.extend(STEPS.iter().map(|case| case.replace("FORMAT", format)));
    }
    for codec in SPLIT_CODECS {
        cases.extend(
            SPLIT_OPTIONS
                .map(|options| format!("split in/dump -c {codec}{options} -o x -o y -q ; join x y -o out/a -q")),
        );
    }
    cases
}

/// Returns lines that compress.
fn text(seed: u64, lines: u64) -> Vec<u8> {
    let line = |n: u64| format!("line {n} of {seed}, {}\n", (n * 7919 + seed) % 1009);
    (0..lines).map(line).collect::<String>().into_bytes()
}

/// Makes the inputs: files of one and of several blocks that share long stretches, holes, equal files, hard links, many
/// small files; images and archives of them; and a dump with zeros.
fn make_inputs(dir: &Path) {
    let root = dir.join("in/root");
    fs::create_dir_all(root.join("dir1")).unwrap();
    fs::create_dir_all(root.join("dir2/deep")).unwrap();
    let write = |name: &str, pieces: &[Vec<u8>]| fs::write(root.join(name), pieces.concat()).unwrap();
    write("text", &[text(1, 25_000)]);
    write("mixed", &[noise(150_000, 3), text(2, 9000), noise(70_000, 4)]);
    write("dir2/copy", &[noise(150_000, 3), text(2, 9000), noise(70_000, 4)]);
    write("shares", &[noise(1234, 9), noise(150_000, 3), text(2, 9000), text(5, 3000)]);
    write("noise", &[noise(200_001, 6)]);
    write("dir2/empty", &[]);
    write("dir2/deep/tail", &[text(11, 2000)]);
    for number in 0..30 {
        write(&format!("dir1/small{number}"), &[text(number, 1 + number * number % 97)]);
    }
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.write_all_at(&text(7, 100), 0).unwrap();
    sparse.write_all_at(&noise(10_000, 8), 500_000).unwrap();
    sparse.set_len(900_000).unwrap();
    fs::hard_link(root.join("text"), root.join("dir2/again")).unwrap();
    symlink("../text", root.join("dir2/link")).unwrap();
    for path in ["", "dir1", "dir2", "dir2/deep"] {
        fs::set_permissions(root.join(path), PermissionsExt::from_mode(0o755)).unwrap();
    }

    let text_file = fs::read(root.join("text")).unwrap();
    fs::write(dir.join("in/dump"), [noise(400_000, 3), vec![0; 300_000], text_file, noise(400_000, 3)].concat())
        .unwrap();
    fs::write(dir.join("in/hot"), "dir1/small3\nshares\n").unwrap();
    fs::write(
        dir.join("in/rules.squashfs"),
        "size=100K.. -> store
glob=dir1/** -> no-fragment
",
    )
    .unwrap();
    fs::write(
        dir.join("in/rules.erofs"),
        "size=300K.. -> codec=zstd:1
glob=dir1/** -> no-fragment
",
    )
    .unwrap();
    for line in [
        "build in/root -o in/squashfs --format squashfs --index FIXED",
        "build in/root -o in/erofs --format erofs --index FIXED",
        "tar in/squashfs -o in/a.tar -q",
        "tar in/squashfs -o in/a.tar.xz -q",
    ] {
        run(dir, line).unwrap();
    }
}

/// Runs the commands of a line; returns why the first that fails does.
fn run(dir: &Path, line: &str) -> Result<(), String> {
    for step in line.split(THEN) {
        let output = packfs(step.replace("FIXED", FIXED).split_whitespace()).current_dir(dir).output().unwrap();
        if !output.status.success() {
            return Err(format!("{step}: {}", stderr(&output)));
        }
    }
    Ok(())
}

/// Returns a digest of the names and contents of everything in a directory.
fn digest(dir: &Path) -> String {
    let mut files = BTreeMap::new();
    let mut left: Vec<PathBuf> = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match fs::symlink_metadata(&path).unwrap().file_type() {
                kind if kind.is_dir() => left.push(path),
                kind if kind.is_symlink() => {
                    drop(files.insert(path.clone(), fs::read_link(path).unwrap().into_os_string().into_vec()))
                }
                _ => drop(files.insert(path.clone(), fs::read(path).unwrap())),
            }
        }
    }
    let mut hasher = blake3::Hasher::new();
    for (path, contents) in files {
        hasher.update(path.strip_prefix(dir).unwrap().as_os_str().as_bytes());
        hasher.update(&(contents.len() as u64).to_le_bytes());
        hasher.update(&contents);
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

#[test]
fn no_bytes_have_changed() {
    let work = tempfile::tempdir().unwrap();
    make_inputs(work.path());
    let cases = cases();
    let found = Mutex::new(BTreeMap::new());
    let next = AtomicUsize::new(0);
    let run_cases = || {
        while let Some((number, case)) = {
            let number = next.fetch_add(1, Relaxed);
            cases.get(number).map(|case| (number, case))
        } {
            let dir = work.path().join(number.to_string());
            fs::create_dir_all(dir.join("out")).unwrap();
            symlink("../in", dir.join("in")).unwrap();
            let line = match run(&dir, case) {
                Ok(()) => format!("{} {case}\n", digest(&dir.join("out"))),
                Err(why) => format!("failed: {why}"),
            };
            found.lock().unwrap().insert(number, line);
            fs::remove_dir_all(dir).unwrap();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(run_cases);
        run_cases();
    });
    let found: Vec<String> = found.into_inner().unwrap().into_values().collect();
    let failed: Vec<&str> = found.iter().map(String::as_str).filter(|line| line.starts_with("failed")).collect();
    assert!(failed.is_empty(), "{}", failed.concat());
    if std::env::var("PACKFS_DIGESTS").is_ok_and(|what| what == "write") {
        let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/digests.txt");
        return fs::write(list, found.concat()).unwrap();
    }
    let expected: Vec<&str> = EXPECTED.split_inclusive('\n').collect();
    let changed: Vec<&String> = found.iter().filter(|line| !expected.contains(&line.as_str())).collect();
    assert!(
        changed.is_empty(),
        "{} of {} have other bytes:\n{}",
        changed.len(),
        cases.len(),
        changed.into_iter().map(String::as_str).collect::<String>()
    );
    assert_eq!(found.len(), expected.len(), "cases that are gone");
}
