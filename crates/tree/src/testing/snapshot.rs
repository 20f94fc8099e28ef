//! Records everything about the entries of a directory, a tree or an image, to compare any two of them.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};

use super::spec::join;
use crate::Contents;
use crate::image::{self, Image, Nid};
use crate::tree::{DeviceNumber, FileData, Ino, Inode, Kind, ROOT, Time, XattrSet};
use crate::{Error, Result, Tree};

/// One entry. Fields that its type does not have are zero or empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// Type as `ls -l` shows it: `d`, `-`, `l`, `c`, `b`, `p`, `s`.
    pub kind: char,
    /// Permission bits; 0777 for symbolic links.
    pub mode: u16,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Time of last modification.
    pub mtime: Time,
    /// Link count; 1 for directories, on whose count file systems disagree.
    pub nlink: u64,
    /// The first path, in byte order, of the same inode, if it is a different one.
    pub same_as: Option<String>,
    /// Length of a regular file.
    pub size: u64,
    /// BLAKE3 of a regular file's bytes.
    pub hash: String,
    /// Target of a symbolic link.
    pub target: String,
    /// Device number as major, minor.
    pub device: (u32, u32),
    /// Extended attributes.
    pub xattrs: BTreeMap<String, String>,
}

/// Entries by path (bytes that are not printable are escaped); the root is the empty path.
pub type Snapshot = BTreeMap<String, Entry>;

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// Returns a copy without fractions of seconds, for formats that do not store them.
pub fn whole_seconds(mut snapshot: Snapshot) -> Snapshot {
    snapshot.values_mut().for_each(|entry| entry.mtime.nanos = 0);
    snapshot
}

/// Lists where two snapshots differ, one per line: empty if they are equal.
pub fn differences(left: &Snapshot, right: &Snapshot) -> Vec<String> {
    let mut out = Vec::new();
    for (path, a) in left {
        match right.get(path) {
            None => out.push(format!("/{path}: only on the left")),
            Some(b) if a != b => out.push(format!("/{path}:{}", fields(a, b))),
            Some(_) => {}
        }
    }
    let only = right.keys().filter(|path| !left.contains_key(*path));
    out.extend(only.map(|path| format!("/{path}: only on the right")));
    out
}

fn fields(a: &Entry, b: &Entry) -> String {
    let mut out = String::new();
    let mut field = |name: &str, a: String, b: String| {
        if a != b {
            let _ = write!(out, " {name} {a} / {b};");
        }
    };
    field("type", a.kind.to_string(), b.kind.to_string());
    field("mode", format!("{:04o}", a.mode), format!("{:04o}", b.mode));
    field("owner", format!("{:?}", a.owner), format!("{:?}", b.owner));
    field("mtime", format!("{}.{:09}", a.mtime.secs, a.mtime.nanos), format!("{}.{:09}", b.mtime.secs, b.mtime.nanos));
    field("nlink", a.nlink.to_string(), b.nlink.to_string());
    field("same inode as", format!("{:?}", a.same_as), format!("{:?}", b.same_as));
    field("size", a.size.to_string(), b.size.to_string());
    field("hash", a.hash.clone(), b.hash.clone());
    field("target", a.target.clone(), b.target.clone());
    field("device", format!("{:?}", a.device), format!("{:?}", b.device));
    field("xattrs", format!("{:?}", a.xattrs), format!("{:?}", b.xattrs));
    out
}

/// Links the paths of one inode: `ids` lists all paths with the identity of their inodes.
fn group<K: std::hash::Hash + Eq>(out: &mut Snapshot, ids: impl IntoIterator<Item = (String, K)>) {
    let mut paths: Vec<(String, K)> = ids.into_iter().collect();
    paths.sort_by(|a, b| a.0.cmp(&b.0));
    let mut first = HashMap::new();
    for (path, id) in paths {
        let known = first.entry(id).or_insert_with(|| path.clone());
        if *known != path
            && let Some(entry) = out.get_mut(&path)
        {
            entry.same_as = Some(known.clone());
        }
    }
}

/// Records a real directory. No symbolic link is followed and no mount point is special.
pub fn snapshot(dir: &Path) -> std::io::Result<Snapshot> {
    record(dir, true)
}

/// As [`snapshot`], without asking for extended attributes, which some file systems list and then do not have.
pub fn snapshot_without_xattrs(dir: &Path) -> std::io::Result<Snapshot> {
    record(dir, false)
}

fn record(dir: &Path, has_xattrs: bool) -> std::io::Result<Snapshot> {
    let root = fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    let mut walk = DirWalk { out: Snapshot::new(), ids: Vec::new(), has_xattrs };
    walk.entry(root.as_fd(), b".", b"")?;
    group(&mut walk.out, walk.ids);
    Ok(walk.out)
}

struct DirWalk {
    out: Snapshot,
    ids: Vec<(String, (u64, u64))>,
    /// True to ask for extended attributes.
    has_xattrs: bool,
}

impl DirWalk {
    fn entry(&mut self, dir: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> std::io::Result<()> {
        let stat = fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let through_proc = [format!("/proc/self/fd/{}/", dir.as_raw_fd()).as_bytes(), name].concat();
        let kind = FileType::from_raw_mode(stat.st_mode);
        #[allow(clippy::useless_conversion, reason = "a count of links has 32 bits on arm64 and x86 of 32 bits")]
        let nlink = u64::from(stat.st_nlink);
        let mut entry = Entry {
            mode: u16::try_from(stat.st_mode & 0o7777).expect("12 bits"),
            owner: (stat.st_uid, stat.st_gid),
            mtime: Time { secs: stat.st_mtime, nanos: u32::try_from(stat.st_mtime_nsec).expect("below 10^9") },
            nlink: if kind == FileType::Directory { 1 } else { nlink },
            xattrs: if self.has_xattrs { read_xattrs(&through_proc)? } else { BTreeMap::new() },
            ..Entry::default()
        };
        let device = (fs::major(stat.st_rdev), fs::minor(stat.st_rdev));
        match kind {
            FileType::Directory => entry.kind = 'd',
            FileType::RegularFile => {
                entry.kind = '-';
                entry.size = u64::try_from(stat.st_size).expect("no negative sizes");
                entry.hash = hash_file(dir, name)?;
            }
            FileType::Symlink => {
                (entry.kind, entry.mode) = ('l', 0o777);
                entry.target = text(fs::readlinkat(dir, name, Vec::new())?.as_bytes());
            }
            FileType::CharacterDevice => (entry.kind, entry.device) = ('c', device),
            FileType::BlockDevice => (entry.kind, entry.device) = ('b', device),
            FileType::Fifo => entry.kind = 'p',
            FileType::Socket => entry.kind = 's',
            FileType::Unknown => entry.kind = '?',
        }
        self.out.insert(text(path), entry);
        if kind == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            let inner = fs::openat(dir, name, flags, Mode::empty())?;
            for found in fs::Dir::read_from(&inner)? {
                let found = found?;
                let name = found.file_name().to_bytes();
                if name != b"." && name != b".." {
                    self.entry(inner.as_fd(), name, &join(path, name))?;
                }
            }
        } else {
            self.ids.push((text(path), (stat.st_dev, stat.st_ino)));
        }
        Ok(())
    }
}

fn hash_file(dir: BorrowedFd<'_>, name: &[u8]) -> std::io::Result<String> {
    let mut file = File::from(fs::openat(dir, name, OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty())?);
    let mut hasher = blake3::Hasher::new();
    let mut buf = vec![0; 1 << 18];
    loop {
        match file.read(&mut buf)? {
            0 => return Ok(hasher.finalize().to_hex().to_string()),
            n => hasher.update(&buf[..n]),
        };
    }
}

fn read_xattrs(path: &[u8]) -> std::io::Result<BTreeMap<String, String>> {
    let mut names = vec![0u8; 1 << 16];
    let len = match fs::llistxattr(path, &mut names) {
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        other => other?,
    };
    let mut out = BTreeMap::new();
    for name in names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0u8; 1 << 16];
        let len = fs::lgetxattr(path, name, &mut value)?;
        out.insert(text(name), text(&value[..len]));
    }
    Ok(out)
}

fn show_xattrs(set: &XattrSet) -> BTreeMap<String, String> {
    set.iter().map(|(name, value)| (text(name), text(value))).collect()
}

/// Records a tree, reading its files; those already stored by a writer have no hash.
pub fn snapshot_tree(tree: &Tree) -> Result<Snapshot> {
    fn visit(tree: &Tree, ino: Ino, path: &[u8], out: &mut Snapshot, ids: &mut Vec<(String, Ino)>) -> Result<()> {
        let entry = tree_entry(tree, &tree.inode(ino))?;
        if entry.kind != 'd' {
            ids.push((text(path), ino));
        }
        out.insert(text(path), entry);
        tree.entries(ino).try_for_each(|(name, child)| visit(tree, child, &join(path, name), out, ids))
    }
    let mut out = Snapshot::new();
    let mut ids = Vec::new();
    visit(tree, ROOT, b"", &mut out, &mut ids)?;
    group(&mut out, ids);
    Ok(out)
}

fn tree_entry(tree: &Tree, inode: &Inode<'_>) -> Result<Entry> {
    let mut entry = Entry {
        mode: inode.mode,
        owner: (inode.uid, inode.gid),
        mtime: inode.mtime,
        nlink: inode.links.into(),
        xattrs: show_xattrs(tree.xattrs.get(inode.xattrs)),
        ..Entry::default()
    };
    let number = |device: &DeviceNumber| (device.major, device.minor);
    match &inode.kind {
        Kind::Dir => (entry.kind, entry.nlink) = ('d', 1),
        Kind::File { size, data } => {
            (entry.kind, entry.size) = ('-', *size);
            entry.hash = hash_data(*size, data)?;
        }
        Kind::Symlink(target) => (entry.kind, entry.mode, entry.target) = ('l', 0o777, text(target)),
        Kind::Char(device) => (entry.kind, entry.device) = ('c', number(device)),
        Kind::Block(device) => (entry.kind, entry.device) = ('b', number(device)),
        Kind::Fifo => entry.kind = 'p',
        Kind::Socket => entry.kind = 's',
    }
    Ok(entry)
}

/// Reads as a writer does: skips holes.
fn hash_data(size: u64, data: &FileData<&Arc<dyn Contents>>) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    match data {
        FileData::Empty => {}
        FileData::Stored(_) => return Ok(String::new()),
        FileData::Source { from, key } => {
            let mut file = from.open(*key)?;
            let mut at = 0;
            while at < size {
                let (start, end) = file.next_data(at)?.unwrap_or((size, size));
                zeros(&mut hasher, start - at);
                pieces(start, end, |offset, buf| {
                    file.read_exact_at(buf, offset)?;
                    hasher.update(buf);
                    Ok(())
                })?;
                at = end;
            }
            file.finish()?;
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}

fn zeros(hasher: &mut blake3::Hasher, len: u64) {
    let zeros = vec![0; usize::try_from(len.min(1 << 18)).expect("small")];
    let mut left = len;
    while left > 0 {
        let n = left.min(1 << 18);
        hasher.update(&zeros[..usize::try_from(n).expect("small")]);
        left -= n;
    }
}

fn pieces(start: u64, end: u64, mut each: impl FnMut(u64, &mut [u8]) -> Result<()>) -> Result<()> {
    let mut buf = vec![0; usize::try_from((end - start).min(1 << 18)).expect("small")];
    let mut at = start;
    while at < end {
        let n = usize::try_from(end - at).map_or(buf.len(), |n| n.min(buf.len()));
        each(at, &mut buf[..n])?;
        at += n as u64;
    }
    Ok(())
}

/// Records an image through its reader, reading its files.
pub fn snapshot_image(image: &dyn Image) -> Result<Snapshot> {
    fn visit(image: &dyn Image, nid: Nid, path: &[u8], out: &mut Snapshot, ids: &mut Vec<(String, u64)>) -> Result<()> {
        let (entry, ino) = image_entry(image, nid)?;
        let is_dir = entry.kind == 'd';
        if !is_dir {
            ids.push((text(path), ino));
        }
        out.insert(text(path), entry);
        if is_dir {
            for found in image.read_dir(nid)? {
                visit(image, found.nid, &join(path, &found.name), out, ids)?;
            }
        }
        Ok(())
    }
    let mut out = Snapshot::new();
    let mut ids = Vec::new();
    visit(image, image.root(), b"", &mut out, &mut ids)?;
    group(&mut out, ids);
    Ok(out)
}

fn image_entry(image: &dyn Image, nid: Nid) -> Result<(Entry, u64)> {
    let stat = image.stat(nid)?;
    let mut entry = Entry {
        mode: stat.mode,
        owner: (stat.uid, stat.gid),
        mtime: stat.mtime,
        nlink: stat.nlink.into(),
        xattrs: show_xattrs(&image.xattrs(nid)?),
        ..Entry::default()
    };
    let number = |device: &DeviceNumber| (device.major, device.minor);
    match &stat.kind {
        image::FileType::Dir => (entry.kind, entry.nlink) = ('d', 1),
        image::FileType::File { size } => {
            let mut hasher = blake3::Hasher::new();
            pieces(0, *size, |offset, buf| {
                let got = image.read_at(nid, buf, offset)?;
                let path = "image file".into();
                if got < buf.len() {
                    return Err(Error::Changed {
                        path,
                        why: format!("ends before byte {}", offset + buf.len() as u64),
                    });
                }
                hasher.update(buf);
                Ok(())
            })?;
            (entry.kind, entry.size, entry.hash) = ('-', *size, hasher.finalize().to_hex().to_string());
        }
        image::FileType::Symlink { target } => (entry.kind, entry.mode, entry.target) = ('l', 0o777, text(target)),
        image::FileType::Char(device) => (entry.kind, entry.device) = ('c', number(device)),
        image::FileType::Block(device) => (entry.kind, entry.device) = ('b', number(device)),
        image::FileType::Fifo => entry.kind = 'p',
        image::FileType::Socket => entry.kind = 's',
    }
    Ok((entry, stat.ino))
}

#[cfg(test)]
mod tests {
    use super::super::{Node, Piece, Spec, specs};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn differences_name_the_field() {
        let spec = |len| Spec::of([(b"a".to_vec(), Node::file(vec![Piece::Zeros(len)]))]);
        let one = spec(3).tree().unwrap();
        let two = spec(4).tree().unwrap();
        let one = snapshot_tree(&one).unwrap();
        let mut two = snapshot_tree(&two).unwrap();
        assert_eq!(differences(&one, &one), Vec::<String>::new());
        two.insert("b".into(), Entry::default());
        let lines = differences(&one, &two);
        assert!(lines[0].starts_with("/a: size 3 / 4; hash "), "{lines:?}");
        assert_eq!(lines[1..], ["/b: only on the right"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn a_tree_on_disk_and_in_memory_are_the_same(spec in specs(super::super::Shape::default())) {
            let dir = tempfile::tempdir().unwrap();
            spec.create(dir.path()).unwrap();
            let disk = snapshot(dir.path()).unwrap();
            let memory = snapshot_tree(&spec.tree().unwrap()).unwrap();
            prop_assert_eq!(differences(&disk, &memory), Vec::<String>::new());
        }
    }
}
