//! `packfs cat` on images: whole files and ranges of them.

use std::path::Path;

use crate::common::{FORMATS, fail, run_in, stderr, succeed};
use packfs_blocks::testing::noise;

const LEN: usize = 3_000_000;

/// Makes incompressible bytes that differ from place to place.
/// Makes images of both formats with a file of noise and a short one.
fn images(dir: &Path) -> Vec<u8> {
    let bytes = noise(LEN, 1);
    std::fs::create_dir(dir.join("root")).unwrap();
    std::fs::write(dir.join("root/large"), &bytes).unwrap();
    std::fs::write(dir.join("root/short"), "short").unwrap();
    for format in FORMATS {
        succeed(dir, &["build", "root", "-o", format, "--format", format, "-q"]);
    }
    bytes
}

#[test]
fn ranges_are_written_in_the_order_given_of_each_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let bytes = images(dir);
    let table: [(&[&str], Vec<u8>); 6] = [
        (&["large"], bytes.clone()),
        (&["large", "--range", "0:0"], vec![]),
        (&["large", "--range", "131071:2"], bytes[131_071..131_073].to_vec()),
        (&["large", "--range", "1M:1500K"], bytes[1 << 20..(1 << 20) + (1500 << 10)].to_vec()),
        (&["large", "--range", "2999999:1", "--range", "5:3"], [&bytes[LEN - 1..], &bytes[5..8]].concat()),
        (&["large", "short", "--range", "1:2"], [&bytes[1..3], b"ho"].concat()),
    ];
    for format in FORMATS {
        for (args, want) in &table {
            let some = run_in(dir, &[&["cat", format], *args].concat());
            assert!(some.status.success() && some.stdout == *want, "{format} {args:?}: {}", stderr(&some));
        }
    }
}

#[test]
fn a_range_beyond_the_end_of_one_file_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    images(dir.path());
    for format in FORMATS {
        let args = ["cat", format, "large", "short", "--range", "0:3", "--range", "3:3"];
        let output = run_in(dir.path(), &args);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        let message = stderr(&output);
        assert_eq!(message, "packfs: short: ends at byte 5, before the requested byte 6\n");
        assert!(fail(dir.path(), 2, &["cat", format, "large", "--range", "1-2"]).contains("OFFSET:LENGTH"));
    }
}

#[test]
fn only_the_blocks_of_a_range_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let bytes = images(dir);
    for format in FORMATS {
        // The first blocks of the file, which are stored uncompressed, get lost.
        let image = std::fs::read(dir.join(format)).unwrap();
        let at = image.windows(32).position(|window| window == &bytes[..32]).expect("noise is stored as it is");
        let file = std::fs::OpenOptions::new().write(true).open(dir.join(format)).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[0; 4096], at as u64).unwrap();
        let some = run_in(dir, &["cat", format, "large", "--range", "2M:4K"]);
        assert!(some.stdout == bytes[2 << 20..(2 << 20) + 4096], "{format}: {}", stderr(&some));
        let start = run_in(dir, &["cat", format, "large", "--range", "0:4K"]);
        assert!(start.stdout != bytes[..4096], "{format}");
    }
}

#[test]
fn expressions_select_files_after_the_paths() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let bytes = images(dir);
    for format in FORMATS {
        let some = run_in(dir, &["cat", format, "short", "--regex", "^lar", "--regex", "t$", "--range", "0:5"]);
        assert!(some.stdout == [b"short", &bytes[..5], b"short"].concat(), "{format}: {}", stderr(&some));
        let told = fail(dir, 1, &["cat", format, "--regex", "^large", "--regex", "^arge"]);
        assert!(told.contains("^arge"), "{told}");
        assert!(fail(dir, 2, &["cat", format]).contains("no file named"));
        assert!(fail(dir, 2, &["cat", format, "--regex", "("]).contains("("));
    }
}
