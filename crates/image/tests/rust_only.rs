//! Images made by other programs, read in a build without a C compiler, where all decoders are in Rust: `CC=false cargo test
//! -p packfs-image --no-default-features --features rust-only --test rust_only`, which `.ci/run` runs. Tests of the readers
//! have such images for decoders in C.
#![cfg(not(any(feature = "gzip", feature = "lz4", feature = "xz", feature = "zstd")))]

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;

use packfs_blocks::testing::noise;
use packfs_image::name::display;
use packfs_image::source::{Dir, Source, dir};
use packfs_image::{Choice, Codec, Error, Finding, Fs, Plan, Progress, Severity, Tree, erofs, sink, squashfs};

/// Makes a directory with files that end in fragments, share clusters, repeat themselves and do not shrink.
fn source() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    (0..40u32).for_each(|n| write(&format!("sub/{n}"), &mixed(n as usize * 700, n)));
    write("long", &mixed(3_000_000, 99));
    write("again", &[&mixed(1_000_000, 99)[..], &mixed(70_000, 7)].concat());
    write("zeros", &vec![0; 400_000]);
    write("noise", &noise(300_000, 5));
    // Calls of several processors, for filters of machine code.
    let code = noise(200_000, 6);
    let call = |byte: &u8| [0xe8, *byte, 0, 0, if byte.is_multiple_of(2) { 0 } else { 0xff }, 0x90, 0x94, 0xeb];
    write("code", &code[..40_000].iter().flat_map(call).collect::<Vec<_>>());
    write("empty", b"");
    dir
}

/// Lines that resemble each other.
fn mixed(len: usize, seed: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 80);
    for n in noise(len / 8 + 1, u64::from(seed)) {
        bytes.extend(format!("line {n} of {}\n", u32::from(n) * seed).bytes());
        if bytes.len() >= len {
            break;
        }
    }
    bytes.resize(len, b'.');
    bytes
}

/// Runs an image builder; returns false, with a message, if it is missing or lacks an option.
fn make(program: &str, args: &[&str], image: &Path, root: &Path) -> bool {
    let mut command = Command::new(program);
    match program {
        "mksquashfs" => command.arg(root).arg(image).args(["-noappend", "-no-progress", "-quiet"]).args(args),
        _ => command.args(args).arg("--quiet").arg(image).arg(root),
    };
    let made = command.output().is_ok_and(|output| output.status.success());
    if !made {
        assert!(std::env::var_os("PACKFS_REQUIRE_ORACLES").is_none(), "{program} {args:?} made no image");
        eprintln!("SKIPPED {program} {args:?}: it made no image");
    }
    made
}

fn files(root: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> = (0..40).map(|n| PathBuf::from(format!("sub/{n}"))).collect();
    names.extend(["long", "again", "zeros", "noise", "code", "empty"].map(PathBuf::from));
    assert!(names.iter().all(|name| root.join(name).is_file()));
    names
}

/// Compares every file, whole and in parts, and checks the image.
fn compare(image: &Path, root: &Path, what: &str) {
    let fs = Fs::open(image).unwrap_or_else(|error| panic!("{what}: {error}"));
    for name in files(root) {
        let want = std::fs::read(root.join(&name)).unwrap();
        let mut file = fs.open_file(&name).unwrap();
        let mut got = Vec::new();
        file.read_to_end(&mut got).unwrap_or_else(|error| panic!("{what}: {}: {error}", display(&name)));
        assert!(got == want, "{what}: {}", display(&name));
        for at in [1, want.len() / 3, want.len().saturating_sub(10)] {
            let mut part = Vec::new();
            file.seek(SeekFrom::Start(at as u64)).unwrap();
            Read::by_ref(&mut file).take(5000).read_to_end(&mut part).unwrap();
            assert!(part[..] == want[at.min(want.len())..want.len().min(at + 5000)], "{what}: {}", display(&name));
        }
    }
    let mut findings = Vec::new();
    fs.image().check(1, &Progress::default(), &mut |finding| findings.push(finding)).unwrap();
    // Linux does not read the legacy lzma codec, which a check says of every such image.
    let is_damage = |finding: &Finding| finding.severity == Severity::Damage && !finding.text.contains("legacy lzma");
    assert!(!findings.iter().any(is_damage), "{what}: {findings:?}");
}

#[test]
fn squashfs_of_mksquashfs_is_read() {
    let (root, place) = (source(), tempfile::tempdir().unwrap());
    for args in [
        &["-comp", "gzip"][..],
        &["-comp", "gzip", "-Xwindow-size", "9", "-Xcompression-level", "1", "-b", "1M"],
        &["-comp", "lz4"],
        &["-comp", "lz4", "-Xhc", "-b", "256K"],
        &["-comp", "zstd"],
        &["-comp", "zstd", "-Xcompression-level", "22", "-b", "1M"],
        &["-comp", "xz"],
        &["-comp", "xz", "-b", "1M", "-Xdict-size", "50%", "-Xbcj", "x86,arm,armthumb,powerpc,sparc,ia64"],
        &["-comp", "lzma"],
        &["-comp", "lzo", "-b", "64K"],
        &["-noI", "-noD", "-noF", "-noX"],
    ] {
        let image = place.path().join("image");
        if make("mksquashfs", args, &image, root.path()) {
            compare(&image, root.path(), &format!("{args:?}"));
        }
    }
}

#[test]
fn erofs_of_mkfs_erofs_is_read() {
    let (root, place) = (source(), tempfile::tempdir().unwrap());
    for args in [
        &[][..],
        &["-zlz4", "-C65536"],
        &["-zlz4hc,12", "-C131072", "-Efragments,dedupe"],
        &["-zdeflate,9", "-C65536"],
        &["-zdeflate,1", "-Eall-fragments,dedupe"],
        &["-zzstd,3", "-C65536"],
        &["-zzstd,19", "-C131072", "-Efragments,dedupe"],
        &["-zlzma"],
        &["-zlzma,9", "-C131072", "-Efragments,dedupe"],
    ] {
        let image = place.path().join("image");
        if make("mkfs.erofs", args, &image, root.path()) {
            compare(&image, root.path(), &format!("{args:?}"));
        }
    }
}

/// Without encoders images are stored uncompressed; they extract and convert like any other.
#[test]
fn uncompressed_images_are_built_and_extracted() {
    let (root, place) = (source(), tempfile::tempdir().unwrap());
    let progress = Progress::default();
    let plan = |store: &mut dyn packfs_image::source::Store| {
        let mut tree = Tree::default();
        Dir::new(root.path(), dir::Options::default()).scan(&mut tree, store)?;
        Ok(Plan { tree, order: Vec::new() })
    };
    let (sqfs, erofs) = (place.path().join("a.sqfs"), place.path().join("a.erofs"));
    let options = squashfs::SquashfsOptions::default().with(|build| build.codec = Choice::new(Codec::None));
    squashfs::build(&sqfs, &options, &progress, plan).unwrap();
    let options = erofs::ErofsOptions::default().with(|build| build.codec = Choice::new(Codec::None));
    erofs::build(&erofs, &options, &progress, plan).unwrap();
    for (image, out) in [(sqfs, "sqfs.out"), (erofs, "erofs.out")] {
        compare(&image, root.path(), "built");
        let out = place.path().join(out);
        let fs = Fs::open(&image).unwrap();
        sink::dir::extract(fs.image(), &out, &sink::dir::ExtractOptions::default(), &progress).unwrap();
        for name in files(root.path()) {
            assert!(std::fs::read(out.join(&name)).unwrap() == std::fs::read(root.path().join(&name)).unwrap());
        }
    }
}

/// A missing codec is reported by name, with the feature that adds it, before anything is written.
#[test]
fn codecs_that_were_left_out_are_named() {
    let place = tempfile::tempdir().unwrap();
    for (name, feature, built, reads) in [
        ("gzip", "gzip", false, cfg!(feature = "gzip-rust")),
        ("lz4hc", "lz4", false, cfg!(feature = "lz4-rust")),
        ("zstd", "zstd", false, cfg!(feature = "zstd-rust")),
        ("xz", "xz", false, cfg!(feature = "xz-rust")),
        ("lzo", "lzo", cfg!(feature = "lzo"), false),
    ] {
        let image = place.path().join(name);
        let options = squashfs::SquashfsOptions::default().with(|build| build.codec = name.parse().unwrap());
        let result = squashfs::build(&image, &options, &Progress::default(), |_| {
            Ok(Plan { tree: Tree::default(), order: vec![] })
        });
        let told = result.as_ref().err().map(Error::to_string).unwrap_or_default();
        let want = match (built, reads) {
            (true, _) => String::new(),
            (_, true) => format!("this build only reads {name}: writing needs the cargo feature `{feature}`"),
            _ => format!("{name} is not part of this build: it needs the cargo feature `{feature}`"),
        };
        assert_eq!(told, want);
        assert_eq!(image.exists(), built);
    }
}
