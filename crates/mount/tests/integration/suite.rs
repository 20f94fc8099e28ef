//! A named list of what the read-only part of a suite for file systems tries. Every answer of a mount is compared with
//! that of the kernel's own mount of the same image, for both formats.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use packfs_image::build::AnyOptions;
use packfs_image::testing::{Mount, Node, Piece, Spec, skipped};
use packfs_image::{erofs, squashfs};
use packfs_mount::MountOptions;

use crate::calls;
use crate::served::{Served, build, can_mount, open};

/// Lengths around those of pages and blocks.
const LENGTHS: [u64; 7] = [0, 1, 4095, 4096, 4097, 200_000, (1 << 20) + 77];

fn spec() -> Spec {
    let text = |seed: u64, len| Node::file(vec![Piece::Text { seed, len }]);
    let files = LENGTHS.iter().map(|len| (format!("f{len}").into_bytes(), text(*len, *len)));
    let many = Node::dir((0..700).map(|n| (format!("entry {n:04}").into_bytes(), text(n, n % 7))));
    let mut named = text(5, 100);
    named.attrs.xattrs = [("user.a".into(), b"value".to_vec()), ("trusted.t".into(), b"12".to_vec())].into();
    let sparse = Node::file(vec![
        Piece::Text { seed: 1, len: 256 << 10 },
        Piece::Hole(1 << 20),
        Piece::Text { seed: 2, len: 5000 },
    ]);
    let rest = [("many", many), ("named", named), ("sparse", sparse), ("empty", Node::dir([]))];
    Spec::of(files.chain(rest.map(|(name, node)| (name.as_bytes().to_vec(), node))))
}

/// A question: its name, and all its answers below a directory.
type Question = (&'static str, fn(&Path) -> Vec<String>);

const QUESTIONS: [Question; 12] = [
    ("changes are refused", changes),
    ("changes of open files are refused", changes_of_open),
    ("odd preads", odd_preads),
    ("direct reads", direct_reads),
    ("seeking in files", seeking),
    ("mappings across the end", mappings),
    ("copies without buffers", copies),
    ("advice and read-ahead", advice),
    ("directories by places", directories),
    ("sizes of extended attributes", xattrs),
    ("attributes by both calls", attributes),
    ("names that lead nowhere", names),
];

#[test]
fn a_mount_answers_as_that_of_the_kernel() {
    let test = "a_mount_answers_as_that_of_the_kernel";
    if !can_mount(test) || !packfs_image::testing::can_mount(test) {
        return;
    }
    let squashfs = squashfs::SquashfsOptions::default().with(|all| all.codec = "zstd:1".parse().unwrap());
    let erofs = erofs::ErofsOptions::default().with(|all| all.codec = "lz4".parse().unwrap());
    let mut wrong = Vec::new();
    for (kind, options) in [("squashfs", AnyOptions::Squashfs(squashfs)), ("erofs", AnyOptions::Erofs(erofs))] {
        let bytes = build(&spec(), &options);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let kernel = match Mount::new(file.path(), kind) {
            Ok(mount) => mount,
            Err(why) => {
                packfs_image::testing::skipped(test, &format!("the kernel's {kind}: {why}"));
                continue;
            }
        };
        let ours = Served::new(open(bytes, 4 << 20).unwrap(), MountOptions::default());
        for (name, ask) in QUESTIONS {
            let (got, want) = (ask(ours.path()), ask(&kernel.path()));
            assert!(!want.is_empty(), "{name}");
            assert_eq!(got.len(), want.len(), "{kind}: {name}");
            let differ = got.iter().zip(&want).filter(|(got, want)| got != want);
            wrong.extend(differ.map(|(got, want)| format!("{kind}, {name}: {got}, but the kernel: {want}")));
        }
        together(ours.path());
        after_the_caches_are_dropped(ours.path(), &kernel.path());
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn files(root: &Path) -> Vec<(u64, PathBuf, File)> {
    let one = |len: &u64| (*len, root.join(format!("f{len}")), File::open(root.join(format!("f{len}"))).unwrap());
    LENGTHS.iter().map(one).collect()
}

fn content(len: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(len).unwrap()];
    Piece::Text { seed: len, len }.fill(&mut bytes, 0);
    bytes
}

fn sum(bytes: &[u8]) -> String {
    format!("{} bytes, {:?}", bytes.len(), packfs_blocks::Digest::of(bytes))
}

fn changes(root: &Path) -> Vec<String> {
    let (file, dir) = (root.join("f4097"), root.join("empty"));
    let of_file = calls::changes(&file, &dir, &root.join("new"));
    // In a directory that is not there, and below a file.
    let lost = calls::changes(&root.join("none/f"), &root.join("none"), &root.join("none/new"));
    let below = calls::changes(&file.join("f"), &dir, &file.join("new"));
    [of_file, lost, below].concat().into_iter().map(|(call, answer)| format!("{call}: {answer}")).collect()
}

fn changes_of_open(root: &Path) -> Vec<String> {
    let answers = calls::changes_of_open(&File::open(root.join("f4097")).unwrap());
    answers.into_iter().map(|(call, answer)| format!("{call}: {answer}")).collect()
}

fn odd_preads(root: &Path) -> Vec<String> {
    let mut answers = Vec::new();
    for (len, _, file) in files(root) {
        let (size, whole) = (i64::try_from(len).unwrap(), content(len));
        for (want, at) in [(0, 0), (1, 0), (7, 4093), (4097, 4095), (100_001, 131_071), (1 << 21, 3), (5, size - 2)] {
            for at in [at, at + size / 2, size, size + 1, i64::MAX - 10_000_000, -1] {
                let (answer, bytes) = calls::pread(&file, want, at);
                if let Some(from) = usize::try_from(at).ok().filter(|from| *from < whole.len()) {
                    assert_eq!(bytes, whole[from..whole.len().min(from + want)], "{len}: {want} at {at}");
                }
                answers.push(format!("{len}: {want} at {at}: {answer}"));
            }
        }
    }
    let dir = File::open(root).unwrap();
    answers.push(format!("of a directory: {}", calls::pread(&dir, 10, 0).0));
    answers
}

/// SquashFS of the kernel has no direct reads, and what alignment they need is up to a file system: so only data is
/// compared, and that errors are those of alignment.
fn direct_reads(root: &Path) -> Vec<String> {
    #[repr(align(4096))]
    struct Aligned([u8; 64 << 10]);
    let mut buffer = Box::new(Aligned([0; 64 << 10]));
    for (len, path, _) in files(root) {
        let Ok(file) = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path) else { continue };
        let whole = content(len);
        for (skip, want, at) in [(0, 4096, 0), (0, 64 << 10, 4096), (0, 8192, 131_072), (0, 512, 512), (3, 100, 77)] {
            match file.read_at(&mut buffer.0[skip..skip + want], at) {
                Ok(got) => {
                    let from = whole.len().min(usize::try_from(at).unwrap());
                    assert_eq!(got, want.min(whole.len() - from), "{len}: {want} at {at}");
                    assert_eq!(buffer.0[skip..skip + got], whole[from..from + got], "{len}: {want} at {at}");
                }
                Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{len}: {want} at {at}"),
            }
        }
    }
    vec!["done".into()]
}

fn seeking(root: &Path) -> Vec<String> {
    let mut answers = Vec::new();
    for (len, _, file) in files(root) {
        let size = i64::try_from(len).unwrap();
        for whence in [libc::SEEK_SET, libc::SEEK_CUR, libc::SEEK_END, libc::SEEK_DATA, libc::SEEK_HOLE, 9] {
            for at in [0, 1, size - 1, size, size + 1, -1, i64::MIN] {
                let answer = calls::lseek(&file, at, whence);
                answers.push(format!("{len}: {at} from {whence}: {answer}"));
                calls::lseek(&file, 0, libc::SEEK_SET);
            }
        }
    }
    // Where holes are is up to the file system; but what is said of them has to be true.
    let file = File::open(root.join("sparse")).unwrap();
    let (size, mut at) = (file.metadata().unwrap().len(), 0);
    while at < size {
        let found = |whence| calls::lseek(&file, i64::try_from(at).unwrap(), whence).parse::<u64>().unwrap_or(size);
        let (data, hole) = (found(libc::SEEK_DATA), found(libc::SEEK_HOLE));
        assert!(data == at || hole == at, "byte {at} is neither");
        let end = data.max(hole);
        assert!(end > at, "byte {at} is both");
        if hole == at {
            let mut bytes = vec![1; usize::try_from(end - at).unwrap()];
            file.read_exact_at(&mut bytes, at).unwrap();
            assert!(bytes.iter().all(|byte| *byte == 0), "a hole at {at} has data");
        }
        at = end;
    }
    answers
}

fn mappings(root: &Path) -> Vec<String> {
    let mut answers = Vec::new();
    for (len, _, file) in files(root) {
        let pages = usize::try_from(len.div_ceil(4096)).unwrap();
        let (touched, bytes) = calls::mapped(&file, pages + 2);
        let (mut want, end) = (content(len), pages * 4096);
        want.resize(end, 0);
        // Behind the end, up to that of the page, are zeros.
        assert!(bytes == want, "{len}: its pages have other bytes");
        answers.push(format!("{len}: {touched:?}"));
    }
    answers
}

fn copies(root: &Path) -> Vec<String> {
    let mut answers = Vec::new();
    for (len, _, file) in files(root) {
        let whole = content(len);
        for (n, copy) in calls::copied(&file, whole.len()).into_iter().enumerate() {
            assert!(copy == whole || copy.is_empty(), "{len}: call {n} copied {} bytes", copy.len());
            answers.push(format!("{len}, call {n}: {}", sum(&copy)));
        }
    }
    answers
}

fn advice(root: &Path) -> Vec<String> {
    let mut answers = Vec::new();
    for (len, _, file) in files(root) {
        for advice in [libc::POSIX_FADV_RANDOM, libc::POSIX_FADV_WILLNEED, libc::POSIX_FADV_DONTNEED, 77] {
            answers.push(format!("{len}: {}", calls::advise(&file, 1 << 20, advice)));
        }
        for at in [0, 5, i64::try_from(len).unwrap() + 1] {
            answers.push(format!("{len}: {}", calls::readahead(&file, at, 1 << 20)));
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == content(len), "{len}");
    }
    answers
}

fn directories(root: &Path) -> Vec<String> {
    let mut answers = Vec::new();
    for name in ["many", "empty", ""] {
        let dir = root.join(name);
        let (names, places) = calls::entries(&dir);
        // From the last to the first, then in leaps.
        let order: Vec<usize> = (0..names.len()).rev().chain((0..names.len()).map(|n| n * 37 % names.len())).collect();
        let asked: Vec<i64> = order.iter().map(|n| places[*n]).collect();
        let found = calls::entries_at(&dir, &asked);
        for (n, found) in order.iter().zip(&found) {
            assert_eq!(found.as_ref(), Some(&names[*n]), "{name}: entry {n}");
        }
        assert_eq!(found.last().unwrap().as_ref(), names.first(), "{name}: rewound");
        let mut sorted: Vec<String> = names.iter().map(|name| String::from_utf8_lossy(name).into()).collect();
        sorted.sort();
        answers.push(format!("{name}: {sorted:?}"));
    }
    answers
}

fn xattrs(root: &Path) -> Vec<String> {
    let mut answers = Vec::new();
    for file in ["named", "f1", "empty", "none"].map(|name| root.join(name)) {
        for name in ["user.a", "trusted.t", "user.none", "nothing", "user.", "system.none", "security.none"] {
            answers.push(format!("{name}: {:?}", calls::xattr(&file, name)));
        }
        answers.push(format!("{:?}", calls::xattrs(&file)));
    }
    answers
}

fn attributes(root: &Path) -> Vec<String> {
    let mut answers = Vec::new();
    for name in ["f0", "f4097", "many", "named", "sparse", "empty", "", "many/entry 0699"] {
        let path = root.join(name);
        let stat = path.symlink_metadata().unwrap();
        // Mounts for reading only keep no time of access.
        let asked = rustix::fs::StatxFlags::BASIC_STATS.difference(rustix::fs::StatxFlags::ATIME);
        let more = rustix::fs::statx(rustix::fs::CWD, &path, rustix::fs::AtFlags::empty(), asked).unwrap();
        assert_eq!(
            (more.stx_ino, u32::from(more.stx_mode), u64::from(more.stx_nlink), more.stx_size, more.stx_blocks),
            (stat.ino(), stat.mode(), stat.nlink(), stat.size(), stat.blocks()),
            "{name}"
        );
        assert_eq!(
            (more.stx_mtime.tv_sec, i64::from(more.stx_mtime.tv_nsec)),
            (stat.mtime(), stat.mtime_nsec()),
            "{name}"
        );
        assert!(more.stx_mask & asked.bits() == asked.bits(), "{name}: {:#x}", more.stx_mask);
        let size = if stat.is_dir() { 0 } else { stat.size() };
        let (mode, owner, time) = (stat.mode(), (stat.uid(), stat.gid()), (stat.mtime(), stat.mtime_nsec()));
        answers.push(format!("{name}: {mode:o} {owner:?} {size} {time:?} {} {}", stat.nlink(), stat.rdev()));
    }
    answers
}

fn names(root: &Path) -> Vec<String> {
    let long = |len: usize| "n".repeat(len);
    // Longer names are not found in the kernel's SquashFS, where others call them too long.
    let paths = ["none", "f1/", "f1/x", "empty/..", "empty/../none", "./f1", "many/none", &long(255)];
    let all = paths.iter().map(|path| path.to_string()).chain([format!("{}f1", "./".repeat(2100))]);
    // Twice: what is not there is remembered.
    let twice = all.clone().chain(all);
    let answer = |path: String| {
        let found = std::fs::metadata(root.join(&path)).map(|found| found.is_dir());
        format!("{:.20}: {:?}", path, found.map_err(|error| error.raw_os_error()))
    };
    let opened = |path: &str, flags: i32| {
        let file = OpenOptions::new().read(true).custom_flags(flags).open(root.join(path));
        format!("{path} with {flags:o}: {:?}", file.map(drop).map_err(|error| error.raw_os_error()))
    };
    let opens = [opened("f1", libc::O_DIRECTORY), opened("empty", libc::O_DIRECTORY), opened("f1", libc::O_NOATIME)];
    twice.map(answer).chain(opens).collect()
}

/// Reads a file through a mapping and by calls at the same time, from several threads.
fn together(root: &Path) {
    let (len, path) = (LENGTHS[6], root.join("f1048653"));
    let whole = content(len);
    let pages = whole.len().div_ceil(4096);
    std::thread::scope(|scope| {
        for thread in 0..6u64 {
            let (whole, path) = (&whole, &path);
            scope.spawn(move || {
                let file = File::open(path).unwrap();
                if thread % 2 == 0 {
                    let (_, bytes) = calls::mapped(&file, pages);
                    return assert!(bytes[..whole.len()] == **whole);
                }
                for n in 0..200u64 {
                    let at = (n * 7919 + thread * 104_729) % (len - 5000);
                    let mut bytes = [0; 5000];
                    file.read_exact_at(&mut bytes, at).unwrap();
                    assert!(bytes[..] == whole[usize::try_from(at).unwrap()..][..5000]);
                }
            });
        }
    });
}

/// Open files and directories go on once the kernel has forgotten everything.
fn after_the_caches_are_dropped(ours: &Path, kernel: &Path) {
    let open = [ours, kernel].map(files);
    let numbers = [ours, kernel].map(|root| root.join("many/entry 0003").metadata().unwrap().ino());
    // Read-only in most containers.
    if std::fs::write("/proc/sys/vm/drop_caches", "3").is_err() {
        return skipped("after_the_caches_are_dropped", "a writable /proc/sys");
    }
    for (len, _, file) in open.iter().flatten() {
        let mut bytes = vec![0; usize::try_from(*len).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == content(*len), "{len}");
    }
    let again = [ours, kernel].map(|root| root.join("many/entry 0003").metadata().unwrap().ino());
    assert_eq!(again, numbers);
}
