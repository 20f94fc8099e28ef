//! Updates of images: with `--rsyncable`, a changed file moves little of the data after it.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use packfs_blocks::testing::noise;

use crate::common::{fail, kernel, succeed};

/// Number of bytes that programs such as zsync look for at once.
const WINDOW: usize = 2048;

/// Writes some 1,500 files of 1 to 9 KB that shrink to about half.
fn write_tree(dir: &Path) {
    for number in 0..1500u32 {
        let folder = dir.join(format!("root/{}", number % 30));
        fs::create_dir_all(&folder).unwrap();
        let len = 500 + usize::try_from(number).unwrap() * 7919 % 4000;
        let digits = noise(len, u64::from(number)).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        fs::write(folder.join(format!("{number:04}.txt")), digits).unwrap();
    }
}

/// Returns the number of bytes of `new` that do not lie anywhere in `old`, in windows of [`WINDOW`] bytes.
fn fetched_bytes(old: &[u8], new: &[u8]) -> usize {
    let wanted: HashSet<&[u8]> = new.chunks(WINDOW).collect();
    let sums: HashSet<u64> = wanted.iter().filter(|chunk| chunk.len() == WINDOW).map(|chunk| sum(chunk)).collect();
    let mut rolling = sum(&old[..WINDOW]);
    let mut found = HashSet::new();
    for start in 0..=old.len() - WINDOW {
        if sums.contains(&rolling)
            && let Some(chunk) = wanted.get(&old[start..start + WINDOW])
        {
            found.insert(*chunk);
        }
        if let Some(next) = old.get(start + WINDOW) {
            rolling = roll(rolling, old[start], *next);
        }
    }
    new.chunks(WINDOW).filter(|chunk| !found.contains(chunk)).map(<[u8]>::len).sum()
}

/// Multiplier of the sum of a window: odd, and with its bits spread.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Factor of the first byte of a window when it leaves.
const LEAVING: u64 = {
    let mut power = 1_u64;
    let mut byte = 0;
    while byte < WINDOW {
        power = power.wrapping_mul(SPREAD);
        byte += 1;
    }
    power
};

fn sum(window: &[u8]) -> u64 {
    window.iter().fold(0, |sum, byte| sum.wrapping_mul(SPREAD).wrapping_add(u64::from(*byte)))
}

/// Moves the window of a sum by one byte.
fn roll(sum: u64, first: u8, next: u8) -> u64 {
    sum.wrapping_mul(SPREAD).wrapping_add(u64::from(next)).wrapping_sub(LEAVING.wrapping_mul(u64::from(first)))
}

/// Options of images.
const IMAGES: [&str; 4] = [
    "--codec lz4hc:3",
    "--codec zstd:3 --target-kernel 6.12",
    "--codec deflate:3 --target-kernel 6.17 --features 48bit,unaligned",
    "--codec zstd:3 --target-kernel 6.12 --features all-fragments,dedupe --block-size 16K",
];

#[test]
fn a_changed_length_moves_little_of_an_image_that_is_rsyncable() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path();
    for options in IMAGES {
        write_tree(dir);
        let plain = ["build", "root", "-f", "-q", "--format", "erofs", "--image-time", "0", "--time", "0"];
        let options: Vec<&str> = options.split(' ').collect();
        let build = |image: &str, cuts: &[&str]| {
            succeed(dir, &[&plain[..], &options, cuts, &["-o", image]].concat());
            fs::read(dir.join(image)).unwrap()
        };
        let old = [build("plain", &[]), build("cut", &["--rsyncable=64K"])];
        fs::write(dir.join("root/3/0003.txt"), "shorter").unwrap();
        let new = [build("new-plain", &[]), build("new-cut", &["--rsyncable=64K"])];
        let fetched = [fetched_bytes(&old[0], &new[0]), fetched_bytes(&old[1], &new[1])];
        assert!(fetched[1] * 2 < fetched[0], "{options:?}: the cuts save too little: {fetched:?}");
        assert!(fetched[1] < new[1].len() / 8, "{options:?}: {fetched:?} of {}", new[1].len());
        for image in ["cut", "new-cut"] {
            succeed(dir, &["check", "-q", image]);
        }
        succeed(dir, &["diff", "-q", "new-plain", "new-cut"]);
    }
}

#[test]
fn the_kernel_reads_what_is_cut_by_content() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path();
    write_tree(dir);
    for options in IMAGES {
        let options: Vec<&str> = options.split(' ').collect();
        let build = ["build", "root", "-o", "image", "-f", "-q", "--format", "erofs", "--rsyncable=16K"];
        succeed(dir, &[&build[..], &options].concat());
        let script = format!("diff -r {} m", dir.join("root").to_str().unwrap());
        kernel::inside("the_kernel_reads_what_is_cut_by_content", &dir.join("image"), &script);
    }
}

#[test]
fn a_distance_has_to_be_worth_a_cut() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("root")).unwrap();
    for (distance, why) in [("1K", "--rsyncable 1K: cuts are at least 16 KiB apart"), ("8G", "less than 4G")] {
        let option = format!("--rsyncable={distance}");
        let text = fail(place.path(), 2, &["build", "root", "-o", "image.erofs", &option]);
        assert!(text.contains(why), "{text}");
    }
}

#[test]
fn shards_are_cut_as_in_a_local_build() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path();
    write_tree(dir);
    let options = ["root", "--format", "erofs", "--rsyncable=64K", "--shards", "2", "-q", "-o"];
    succeed(dir, &[&["build"], &options[..], &["local"]].concat());
    succeed(dir, &[&["plan"], &options[..], &["job"]].concat());
    for shard in ["0", "1"] {
        succeed(dir, &["shard", "job", shard, "-o", "shards", "-q"]);
    }
    succeed(dir, &["assemble", "job", "shards", "-o", "assembled", "-q"]);
    assert!(fs::read(dir.join("local")).unwrap() == fs::read(dir.join("assembled")).unwrap());
}
