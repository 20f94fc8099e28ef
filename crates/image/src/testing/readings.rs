//! Reads files of a mounted image in every way in which the kernel takes another path through its decoder: page by page
//! or far ahead, in order or not, from the beginning or in the middle of what is cached already.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise, major, minor, stat};

use super::{Mount, mix};
use crate::tree::{FileData, Ino, Kind, ROOT};
use crate::{Result, Tree};

/// Longer files are not read: random trees have them only if they consist of holes.
const FILE_MAX: u64 = 64 << 20;
/// Reads of each file in random order. Each may decode a cluster of 1 MiB, so that more would take seconds.
const READS: u64 = 40;
/// Bytes of a read in order, which is not a multiple of a page.
const STEP: usize = 50_001;

/// A way to read the files of a mounted image.
struct ReadMethod {
    name: &'static str,
    /// Read from a block device; otherwise the kernel reads the image's file itself, which only EROFS does.
    device: bool,
    /// Have the kernel read ahead.
    ahead: bool,
    /// The order of reads, one after the other.
    passes: &'static [ReadOrder],
}

/// Order of reads of a file.
enum ReadOrder {
    InOrder,
    /// At random, in another order for each seed.
    AtRandom(u64),
}

const WAYS: [ReadMethod; 5] = [
    ReadMethod { name: "in order, page by page", device: true, ahead: false, passes: &[ReadOrder::InOrder] },
    ReadMethod { name: "at random, page by page", device: true, ahead: false, passes: &[ReadOrder::AtRandom(1)] },
    ReadMethod {
        name: "at random, then in order",
        device: true,
        ahead: true,
        passes: &[ReadOrder::AtRandom(2), ReadOrder::InOrder],
    },
    ReadMethod { name: "in order, from a file", device: false, ahead: true, passes: &[ReadOrder::InOrder] },
    ReadMethod {
        name: "at random, from a file, then in order",
        device: false,
        ahead: false,
        passes: &[ReadOrder::AtRandom(3), ReadOrder::InOrder],
    },
];

/// A file with the bytes that it must have.
struct ExpectedFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

/// Mounts an image of `tree` once for each way to read its files, which begins with empty caches. Returns what is
/// wrong.
pub fn misreadings(tree: &Tree, image: &Path, kind: &str) -> Vec<String> {
    let files = match expected(tree) {
        Ok(files) => files,
        Err(error) => return vec![format!("the tree itself: {error}")],
    };
    let mut wrong = Vec::new();
    for way in WAYS.iter().filter(|way| way.device || kind == "erofs") {
        let mounted = if way.device { Mount::new(image, kind) } else { Mount::of_file(image, kind) };
        let found = match mounted {
            Ok(mount) => read(&files, &mount, way).unwrap_or_else(|error| vec![error.to_string()]),
            Err(error) => vec![error],
        };
        wrong.extend(found.iter().map(|line| format!("kernel, {}: {line}", way.name)));
    }
    wrong
}

/// Returns the contents of the files of a tree.
fn expected(tree: &Tree) -> Result<Vec<ExpectedFile>> {
    fn visit(tree: &Tree, ino: Ino, path: &Path, out: &mut Vec<ExpectedFile>) -> Result<()> {
        if let Kind::File { size, data: FileData::Source { from, key } } = tree.inode(ino).kind
            && size <= FILE_MAX
        {
            let mut bytes = vec![0; usize::try_from(size).expect("64 MiB at most")];
            from.open(key)?.read_exact_at(&mut bytes, 0)?;
            out.push(ExpectedFile { path: path.to_owned(), bytes });
        }
        let inside = |name| path.join(std::ffi::OsStr::from_bytes(name));
        tree.entries(ino).try_for_each(|(name, child)| visit(tree, child, &inside(name), out))
    }
    let mut out = Vec::new();
    visit(tree, ROOT, Path::new(""), &mut out)?;
    Ok(out)
}

fn read(files: &[ExpectedFile], mount: &Mount, way: &ReadMethod) -> io::Result<Vec<String>> {
    // Without a device, the advice of each file has to do.
    let _readahead = if way.device && !way.ahead { Some(DisabledReadahead::off(&mount.path())?) } else { None };
    let mut wrong = Vec::new();
    for expected in files {
        let file = File::open(mount.path().join(&expected.path))?;
        if !way.ahead {
            fadvise(&file, 0, None, Advice::Random)?;
        }
        // One is enough: the others of a file have the same cause.
        let found = way.passes.iter().find_map(|pass| misread(&file, &expected.bytes, pass));
        wrong.extend(found.map(|what| format!("/{}: {what}", packfs_blocks::name::display(&expected.path))));
    }
    Ok(wrong)
}

/// Reads a file that must contain `expected`; returns the first failure.
fn misread(file: &File, expected: &[u8], pass: &ReadOrder) -> Option<String> {
    match pass {
        ReadOrder::InOrder => (0..expected.len()).step_by(STEP).find_map(|at| {
            let len = STEP.min(expected.len() - at);
            differs(file, expected, at, len)
        }),
        ReadOrder::AtRandom(seed) => (0..READS).find_map(|n| {
            let random = mix(mix(*seed).wrapping_add(n));
            let at = below(random, expected.len());
            // Lengths of which each power of two up to 256 KiB is as frequent.
            let len = below(mix(random), 2 << ((random >> 32) % 18)) + 1;
            differs(file, expected, at, len.min(expected.len() - at))
        }),
    }
}

fn below(random: u64, limit: usize) -> usize {
    usize::try_from(random % limit.max(1) as u64).expect("less than a length")
}

fn differs(file: &File, expected: &[u8], at: usize, len: usize) -> Option<String> {
    let mut got = vec![0; len];
    if let Err(error) = file.read_exact_at(&mut got, at as u64) {
        return Some(format!("{len} bytes at {at}: {error}"));
    }
    let expected = &expected[at..at + len];
    // At once: byte by byte, unoptimised code takes longer to compare than the kernel to read.
    if got == expected {
        return None;
    }
    let first = got.iter().zip(expected).position(|(one, other)| one != other)?;
    Some(format!("{len} bytes at {at}: differ at {}", at + first))
}

/// Keeps the kernel from reading ahead in a mounted file system, until it is dropped: devices keep the setting.
struct DisabledReadahead {
    setting: PathBuf,
    before: String,
}

impl DisabledReadahead {
    fn off(mount: &Path) -> io::Result<DisabledReadahead> {
        let device = stat(mount)?.st_dev;
        let setting = format!("/sys/class/bdi/{}:{}/read_ahead_kb", major(device), minor(device)).into();
        let before = std::fs::read_to_string(&setting)?;
        std::fs::write(&setting, "0")?;
        Ok(DisabledReadahead { setting, before })
    }
}

impl Drop for DisabledReadahead {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.setting, &self.before);
    }
}
