//! `FileWatch`: notices that a file was written to after it was opened, so that two versions are never mixed.
//!
//! A write sets the time of modification before its bytes can be read, so attributes that are read after the bytes
//! prove that these are of the version that was opened. It cannot see a change within the clock tick of opening on
//! kernels before 6.13, writes through a mapping whose pages were dirty before, and writes to block devices, which have
//! no such attributes.

use std::error::Error;
use std::fs::{File, Metadata};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::system::{self, FileExt};

/// Bytes compared at each end of a file if its attributes changed but not its length and time of modification. The
/// first ones hold the superblock of an image and the last ones its last table; both differ in practically every other
/// image.
const COMPARED: usize = 4096;

/// Error of a source that changed after it was opened. It is wrapped in an [`io::Error`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SourceChanged(String);

impl SourceChanged {
    /// Makes an error that says how the source changed, as in "was written to after it was opened".
    pub fn new(why: impl Into<String>) -> Self {
        SourceChanged(why.into())
    }

    /// Returns true if `error` is this error, or was caused by it.
    pub fn is_cause_of(error: &(dyn Error + 'static)) -> bool {
        let mut next = Some(error);
        while let Some(error) = next {
            if error.is::<SourceChanged>() {
                return true;
            }
            // The source of an `io::Error` is that of its content: the content itself would be left out.
            next = match error.downcast_ref::<io::Error>() {
                Some(wrapper) => wrapper.get_ref().map(|inner| inner as &(dyn Error + 'static)),
                None => error.source(),
            };
        }
        false
    }
}

impl From<SourceChanged> for io::Error {
    fn from(changed: SourceChanged) -> Self {
        io::Error::other(changed)
    }
}

/// The version of a regular file that was opened.
#[derive(Debug)]
pub(super) struct FileWatch {
    opened: FileVersion,
    /// Time of the last harmless change of attributes, in nanoseconds.
    status_time: AtomicI64,
    /// Digest of both ends of the file; `None` if they cannot be read. The rest of the image may still be readable.
    ends: Option<blake3::Hash>,
    /// The first change that was noticed. It is never forgotten, because a time of modification can be set back.
    change: OnceLock<SourceChanged>,
}

/// Attributes that change when a file is written to.
#[derive(Debug, PartialEq, Eq)]
struct FileVersion {
    device: u64,
    inode: u64,
    len: u64,
    modified: i64,
}

impl FileVersion {
    fn of(stat: &Metadata) -> Self {
        let (device, inode) = system::identity(stat);
        FileVersion { device, inode, len: stat.len(), modified: nanoseconds(system::modification_time(stat)) }
    }
}

impl FileWatch {
    /// Notes the version of an open file; `None` if it is not a regular file.
    pub(super) fn start(file: &File) -> io::Result<Option<Self>> {
        let stat = file.metadata()?;
        if !stat.is_file() {
            return Ok(None);
        }
        Ok(Some(FileWatch {
            opened: FileVersion::of(&stat),
            status_time: AtomicI64::new(nanoseconds(system::change_time(&stat))),
            ends: digest_ends(file, stat.len()).ok(),
            change: OnceLock::new(),
        }))
    }

    /// Fails with [`SourceChanged`] if the file was written to since [`FileWatch::start`]. If it succeeds, all bytes
    /// read before the call are of the opened version.
    pub(super) fn check(&self, file: &File) -> io::Result<()> {
        if let Some(change) = self.change.get() {
            return Err(change.clone().into());
        }
        let stat = file.metadata()?;
        let now = FileVersion::of(&stat);
        let status_time = nanoseconds(system::change_time(&stat));
        if now == self.opened && status_time == self.status_time.load(Ordering::Relaxed) {
            return Ok(());
        }
        let why = if now.len != self.opened.len {
            format!("was {} bytes long when it was opened and has {} now", self.opened.len, now.len)
        } else if now != self.opened {
            "was written to after it was opened".to_owned()
        } else if self.ends.is_some() && self.ends != Some(digest_ends(file, now.len)?) {
            "was written to after it was opened, and its time of modification was set back".to_owned()
        } else {
            // Links, owner, permissions: an image may be renamed or removed while it is read.
            self.status_time.store(status_time, Ordering::Relaxed);
            return Ok(());
        };
        Err(self.change.get_or_init(|| SourceChanged::new(why)).clone().into())
    }
}

fn nanoseconds((seconds, nanoseconds): (i64, i64)) -> i64 {
    seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds)
}

/// Returns a digest of the first and the last bytes of a file.
fn digest_ends(file: &File, len: u64) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    let mut bytes = [0; COMPARED];
    for offset in [0, len.saturating_sub(COMPARED as u64)] {
        let got = file.read_at(&mut bytes, offset)?;
        hasher.update(&bytes[..got]);
    }
    Ok(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::io::{FileAt, ReadAt};

    const LEN: usize = 100_000;

    /// Makes a file that was last written to an hour ago.
    fn old_file(path: &Path) -> SystemTime {
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        fs::write(path, vec![7; LEN]).unwrap();
        set_time(path, hour_ago);
        hour_ago
    }

    fn set_time(path: &Path, time: SystemTime) {
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    fn write_byte(path: &Path, offset: usize) {
        fs::File::options().write(true).open(path).unwrap().write_all_at(b"x", offset as u64).unwrap();
    }

    #[test]
    fn a_file_that_is_written_to_is_not_read_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        type FileChange = fn(&Path, SystemTime);
        let cases: [(&str, FileChange, Option<&str>); 9] = [
            ("nothing", |_, _| (), None),
            ("written in place", |path, _| write_byte(path, LEN / 2), Some("was written to")),
            ("touched", |path, _| set_time(path, SystemTime::now()), Some("was written to")),
            (
                "appended to",
                |path, _| write_byte(path, LEN),
                Some("was 100000 bytes long when it was opened and has 10"),
            ),
            ("truncated", |path, _| drop(fs::write(path, b"x")), Some("and has 1 now")),
            (
                "written with its time set back",
                |path, time| {
                    write_byte(path, 1024);
                    set_time(path, time);
                },
                Some("set back"),
            ),
            ("renamed", |path, _| fs::rename(path, path.with_extension("moved")).unwrap(), None),
            ("removed", |path, _| fs::remove_file(path).unwrap(), None),
            (
                "made read-only",
                |path, _| {
                    let mut permissions = path.metadata().unwrap().permissions();
                    permissions.set_readonly(true);
                    fs::set_permissions(path, permissions).unwrap();
                },
                None,
            ),
        ];
        for (name, change, told) in cases {
            let _ = fs::remove_file(&path);
            let time = old_file(&path);
            let file = FileAt::open(&path, 0).unwrap();
            let mut bytes = [0; 10];
            file.read_exact_at(&mut bytes, 50).unwrap();
            change(&path, time);
            // Twice: a change that was noticed stays noticed, a harmless one stays harmless.
            for _ in 0..2 {
                match (file.read_exact_at(&mut bytes, 50), told) {
                    (Ok(()), None) => assert_eq!(bytes, [7; 10], "{name}"),
                    (Err(error), Some(told)) => {
                        assert!(error.to_string().contains(told), "{name}: {error}");
                        assert!(SourceChanged::is_cause_of(&error), "{name}");
                        assert!(file.check_unchanged().is_err(), "{name}");
                    }
                    (read, _) => panic!("{name}: {read:?}"),
                }
            }
        }
    }

    #[test]
    fn a_change_that_was_noticed_counts_though_the_time_is_set_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let time = old_file(&path);
        let file = FileAt::open(&path, 0).unwrap();
        write_byte(&path, LEN / 2);
        assert!(file.read_exact_at(&mut [0], 0).is_err());
        set_time(&path, time);
        assert!(file.read_exact_at(&mut [0], 0).is_err());
    }

    #[test]
    fn a_changed_source_is_found_below_other_errors() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot read the chunk")]
        struct WrappingError {
            source: io::Error,
        }
        let inner = || io::Error::from(SourceChanged::new("was written to"));
        assert!(SourceChanged::is_cause_of(&io::Error::other(WrappingError { source: inner() })));
        assert!(SourceChanged::is_cause_of(&WrappingError { source: io::Error::other(inner()) }));
        assert!(!SourceChanged::is_cause_of(&WrappingError { source: io::Error::other("was written to") }));
        assert!(!SourceChanged::is_cause_of(&io::Error::from(io::ErrorKind::NotFound)));
    }
}
