//! System calls whose answers are compared: each returns its number, or the error as the kernel names it.
#![allow(unsafe_code, reason = "the calls are those of libc: what they refuse is what is tested")]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};

pub(crate) fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Returns the answer of a call: its number if that is not -1, or the error.
pub(crate) fn said(number: i64) -> String {
    if number >= 0 { number.to_string() } else { format!("{:?}", io::Error::last_os_error().raw_os_error()) }
}

/// Calls everything that would change a file system, for a file, a directory and a new name.
pub(crate) fn changes(file: &Path, dir: &Path, new: &Path) -> Vec<(&'static str, String)> {
    let (f, d, n) = (c(file), c(dir), c(new));
    let (f, d, n) = (f.as_ptr(), d.as_ptr(), n.as_ptr());
    let name = c"user.new".as_ptr();
    let open = |path, flags: i32| {
        // SAFETY: the path ends with a zero.
        let fd = unsafe { libc::open(path, flags | libc::O_CLOEXEC, 0o600) };
        let answer = if fd < 0 { said(-1) } else { "opened".into() };
        // SAFETY: it was just opened, or is none.
        unsafe { libc::close(fd) };
        answer
    };
    // SAFETY: all paths and names end with zeros, and no buffer is longer than told.
    unsafe {
        vec![
            ("open for writing", open(f, libc::O_WRONLY)),
            ("open for both", open(f, libc::O_RDWR)),
            ("open and truncate", open(f, libc::O_RDONLY | libc::O_TRUNC)),
            ("open and append", open(f, libc::O_WRONLY | libc::O_APPEND)),
            ("create", open(n, libc::O_RDWR | libc::O_CREAT)),
            ("create, exclusively", open(n, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)),
            ("create what is there", open(f, libc::O_RDONLY | libc::O_CREAT)),
            ("create what is there, exclusively", open(f, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)),
            ("unnamed file", open(d, libc::O_RDWR | libc::O_TMPFILE)),
            ("directory for writing", open(d, libc::O_WRONLY)),
            ("truncate", said(libc::truncate(f, 1).into())),
            ("mkdir", said(libc::mkdir(n, 0o700).into())),
            ("mkdir of what is there", said(libc::mkdir(d, 0o700).into())),
            ("rmdir", said(libc::rmdir(d).into())),
            ("rmdir of nothing", said(libc::rmdir(n).into())),
            ("unlink", said(libc::unlink(f).into())),
            ("unlink of nothing", said(libc::unlink(n).into())),
            ("rename", said(libc::rename(f, n).into())),
            ("rename over", said(libc::rename(d, f).into())),
            ("exchange", said(libc::renameat2(libc::AT_FDCWD, f, libc::AT_FDCWD, d, libc::RENAME_EXCHANGE).into())),
            ("link", said(libc::link(f, n).into())),
            ("symlink", said(libc::symlink(f, n).into())),
            ("mknod", said(libc::mknod(n, libc::S_IFIFO | 0o600, 0).into())),
            ("chmod", said(libc::chmod(f, 0o600).into())),
            ("chown", said(libc::chown(f, 1, 1).into())),
            ("lchown", said(libc::lchown(f, 1, 1).into())),
            ("utimensat", said(libc::utimensat(libc::AT_FDCWD, f, null(), 0).into())),
            ("setxattr", said(libc::setxattr(f, name, c"1".as_ptr().cast(), 1, 0).into())),
            ("removexattr", said(libc::removexattr(f, name).into())),
            ("access for writing", said(libc::access(f, libc::W_OK).into())),
            ("access for reading", said(libc::access(f, libc::R_OK).into())),
        ]
    }
}

/// Calls that change an open file, which is open for reading only.
pub(crate) fn changes_of_open(file: &File) -> Vec<(&'static str, String)> {
    let fd = file.as_raw_fd();
    // SAFETY: the descriptor is open, and the buffer is as long as told.
    unsafe {
        vec![
            ("ftruncate", said(libc::ftruncate(fd, 1).into())),
            ("fallocate", said(libc::fallocate(fd, 0, 0, 4096).into())),
            ("punch", said(libc::fallocate(fd, libc::FALLOC_FL_PUNCH_HOLE | 1, 0, 4096).into())),
            ("write", said(libc::write(fd, c"x".as_ptr().cast(), 1) as i64)),
            ("fchmod", said(libc::fchmod(fd, 0o600).into())),
            ("futimens", said(libc::futimens(fd, null()).into())),
        ]
    }
}

/// Reads at a place, with any length of buffer.
pub(crate) fn pread(file: &File, len: usize, at: i64) -> (String, Vec<u8>) {
    let mut bytes = vec![0xa5; len];
    // SAFETY: the buffer is as long as told.
    let got = unsafe { libc::pread(file.as_raw_fd(), bytes.as_mut_ptr().cast(), len, at) };
    bytes.truncate(usize::try_from(got).unwrap_or(0));
    (said(got as i64), bytes)
}

pub(crate) fn lseek(file: &File, at: i64, whence: i32) -> String {
    // SAFETY: a call without pointers.
    said(unsafe { libc::lseek(file.as_raw_fd(), at, whence) })
}

/// Advice, and the same as a call of its own.
pub(crate) fn advise(file: &File, len: i64, advice: i32) -> String {
    // SAFETY: a call without pointers.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, len, advice) }.to_string()
}

pub(crate) fn readahead(file: &File, at: i64, len: usize) -> String {
    // SAFETY: a call without pointers.
    said(unsafe { libc::readahead(file.as_raw_fd(), at, len) } as i64)
}

/// Returns the answers for an extended attribute with buffers of several lengths, and its value.
pub(crate) fn xattr(path: &Path, name: &str) -> Vec<(String, Vec<u8>)> {
    let (path, name) = (c(path), CString::new(name).unwrap());
    let get = |len: usize| {
        let mut bytes = vec![0; len.max(1)];
        // SAFETY: the buffer has at least the told length, and both texts end with zeros.
        let got = unsafe { libc::lgetxattr(path.as_ptr(), name.as_ptr(), bytes.as_mut_ptr().cast(), len) };
        bytes.truncate(if len == 0 { 0 } else { usize::try_from(got).unwrap_or(0) });
        (said(got as i64), bytes)
    };
    [0, 1, 4, 5, 6, 64, 65_536].map(get).into()
}

/// Returns the answers for the list of extended attributes with buffers of several lengths, and the sorted names.
pub(crate) fn xattrs(path: &Path) -> Vec<(String, Vec<Vec<u8>>)> {
    let path = c(path);
    let list = |len: usize| {
        let mut bytes = vec![0; len.max(1)];
        // SAFETY: the buffer has at least the told length, and the path ends with a zero.
        let got = unsafe { libc::llistxattr(path.as_ptr(), bytes.as_mut_ptr().cast(), len) };
        bytes.truncate(if len == 0 { 0 } else { usize::try_from(got).unwrap_or(0) });
        let mut names: Vec<Vec<u8>> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
        names.sort();
        (said(got as i64), names)
    };
    [0, 1, 10, 65_536].map(list).into()
}

/// Returns the names in a directory, read one by one, with the place of each.
pub(crate) fn entries(dir: &Path) -> (Vec<Vec<u8>>, Vec<i64>) {
    let (mut names, mut places) = (Vec::new(), Vec::new());
    with_dir(dir, |open| {
        loop {
            // SAFETY: the directory is open.
            let at = unsafe { libc::telldir(open) };
            let Some(name) = next(open) else { break };
            names.push(name);
            places.push(at);
        }
    });
    (names, places)
}

/// Seeks to each place in turn and returns the entry there.
pub(crate) fn entries_at(dir: &Path, places: &[i64]) -> Vec<Option<Vec<u8>>> {
    let mut found = Vec::new();
    with_dir(dir, |open| {
        for at in places {
            // SAFETY: the directory is open, and said that the place is one of its own.
            unsafe { libc::seekdir(open, *at) };
            found.push(next(open));
        }
        // SAFETY: the directory is open.
        unsafe { libc::rewinddir(open) };
        found.push(next(open));
    });
    found
}

fn with_dir(dir: &Path, work: impl FnOnce(*mut libc::DIR)) {
    // SAFETY: the path ends with a zero; what is opened is closed once.
    unsafe {
        let open = libc::opendir(c(dir).as_ptr());
        assert!(!open.is_null(), "{dir:?}: {}", io::Error::last_os_error());
        work(open);
        libc::closedir(open);
    }
}

fn next(open: *mut libc::DIR) -> Option<Vec<u8>> {
    // SAFETY: the directory is open, and its entry is read before the next call.
    unsafe {
        let entry = libc::readdir(open);
        (!entry.is_null()).then(|| std::ffi::CStr::from_ptr((*entry).d_name.as_ptr()).to_bytes().to_vec())
    }
}

/// Maps a file with some pages more than it has, touches each page by a call that reports the error, and returns the
/// answers and the bytes of the pages that are there.
pub(crate) fn mapped(file: &File, pages: usize) -> (Vec<String>, Vec<u8>) {
    const PAGE: usize = 4096;
    let (mut answers, mut bytes) = (Vec::new(), Vec::new());
    // SAFETY: the mapping is of this function alone; only pages that the kernel has populated are read, and nobody
    // changes the file.
    unsafe {
        let len = pages * PAGE;
        let map = libc::mmap(null_mut(), len, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        assert_ne!(map, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        for page in 0..pages {
            let at = map.cast::<u8>().add(page * PAGE);
            let done = libc::madvise(at.cast(), PAGE, libc::MADV_POPULATE_READ);
            answers.push(said(done.into()));
            if done == 0 {
                bytes.extend_from_slice(std::slice::from_raw_parts(at, PAGE));
            }
        }
        libc::munmap(map, len);
    }
    (answers, bytes)
}

/// Copies a file to another by three calls that need no buffer of ours; returns what arrived, of each.
pub(crate) fn copied(file: &File, len: usize) -> [Vec<u8>; 3] {
    type Call = fn(i32, i32, usize) -> isize;
    let calls: [Call; 3] = [
        // SAFETY: both descriptors are open, and no offsets are given.
        |from, to, len| unsafe { libc::copy_file_range(from, null_mut(), to, null_mut(), len, 0) },
        // SAFETY: as above.
        |from, to, len| unsafe { libc::sendfile(to, from, null_mut(), len) },
        |from, to, len| {
            let mut ends = [0; 2];
            // SAFETY: the pipe is of this call alone, and as above.
            unsafe {
                assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
                let into = libc::splice(from, null_mut(), ends[1], null_mut(), len.min(32 << 10), 0);
                let done = if into > 0 {
                    libc::splice(ends[0], null_mut(), to, null_mut(), into.unsigned_abs(), 0)
                } else {
                    into
                };
                libc::close(ends[0]);
                libc::close(ends[1]);
                done
            }
        },
    ];
    calls.map(|call| {
        let to = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(lseek(file, 0, libc::SEEK_SET), "0");
        let mut left = len;
        while left > 0 {
            match usize::try_from(call(file.as_raw_fd(), to.as_file().as_raw_fd(), left)) {
                Ok(done) if done > 0 => left -= done,
                _ => break,
            }
        }
        std::fs::read(to.path()).unwrap()
    })
}
