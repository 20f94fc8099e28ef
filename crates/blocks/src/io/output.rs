//! `Output`: a file that appears whole under its name, or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::ReadAt;
use super::file_system::{FileSystem, SystemFiles};
use super::replaced::{is_forbidden, overwrite};
use super::storage::{BlockDevice, Storage};
use super::temporary::{Scratch, TemporaryName, directory};
use crate::Buffers;
use crate::mutex;
use crate::system::{self, FileTypeExt, identity};

/// Bytes copied at once.
const COPY_LEN: usize = 1 << 20;
/// Bytes copied at once if somebody looks at them: they stay in the processor's cache until they are written.
const SEEN_LEN: usize = 1 << 16;

/// An output being written. Until [`commit`](Output::commit) the target is untouched. If the output
/// is dropped before, or the process is killed, nothing is left behind.
///
/// The bytes go to a file without a name (`O_TMPFILE`) in the target's directory, which gets its
/// name at the end. If the file system has no such files, a hidden `.NAME.packfs-` with random
/// digits beside the target is used instead. It is removed on drop; after a kill, the next output
/// for the same target removes it. A block device is written in place, and so is a [`Storage`]
/// passed by the caller.
///
/// A file that replaces another one gets its permissions and, where the system allows it, its owner. If no file can be
/// created in the directory, or the existing one cannot be replaced, its contents are overwritten on commit. Only then
/// can a failure lose them; a full disk does not, where the file system can set aside room.
#[derive(Debug)]
pub struct Output {
    storage: Arc<dyn Storage>,
    target: PathBuf,
    arrival: CommitMethod,
    own_files: Vec<(u64, u64)>,
    /// Offset and length of the bytes to clear before the first write.
    stale: Mutex<Option<(u64, u64)>>,
}

/// Way in which an output reaches its target on commit.
#[derive(Debug)]
enum CommitMethod {
    /// The bytes are written to the target itself.
    InPlace,
    /// The new file gets the name of the target.
    Named(OutputNaming),
    /// The bytes replace the contents of this file, the target.
    Copied(Box<dyn Storage>),
}

/// Naming of an output on commit.
#[derive(Debug)]
struct OutputNaming {
    files: Arc<dyn FileSystem>,
    temporary: Option<TemporaryName>,
    replace: bool,
    /// True if only the owner may read the file: it is never copied into an existing file.
    is_private: bool,
}

impl Output {
    /// Begins an output at `target` with permissions `mode` (minus the umask), or with those of the file that it
    /// replaces. A private file, one for its owner only, stays private whatever it replaces.
    ///
    /// Without `replace`, an existing target is an error of kind [`io::ErrorKind::AlreadyExists`]:
    /// here if it exists already, in [`commit`](Output::commit) if it appears in the meantime.
    pub fn create(target: &Path, mode: u32, replace: bool) -> io::Result<Self> {
        Output::create_on(Arc::new(SystemFiles), target, mode, replace)
    }

    /// As [`Output::create`], on a file system passed by the caller, such as one that fails.
    pub fn create_on(files: Arc<dyn FileSystem>, target: &Path, mode: u32, replace: bool) -> io::Result<Self> {
        // Before `replace` counts: it does not help against other kinds of files.
        Output::check_target(target)?;
        let found = std::fs::metadata(target);
        // A dangling symbolic link counts as existing.
        if !replace && (found.is_ok() || target.is_symlink()) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if found.as_ref().is_ok_and(|found| found.file_type().is_block_device()) {
            return Output::on_device(&*files, target);
        }
        let replaced = found.ok();
        let is_private = mode & 0o077 == 0;
        // Renaming over a symlink would replace the link, so write to the file it points to.
        let target = std::fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        // Nobody who could not read the old file may open the new one before it has the same access.
        let first_mode = replaced.as_ref().filter(|_| !is_private).map_or(mode, |old| mode & system::mode(old));
        let (storage, arrival) = match begin_file(&files, &target, first_mode) {
            Ok((storage, temporary)) => {
                let files = Arc::clone(&files);
                (storage, CommitMethod::Named(OutputNaming { files, temporary, replace, is_private }))
            }
            Err(error) if replaced.is_some() && !is_private && is_forbidden(&error) => {
                let existing = open_existing(&*files, &target, error)?;
                let storage = Scratch::on(files, vec![std::env::temp_dir()]).file()?;
                (storage, CommitMethod::Copied(existing))
            }
            Err(error) => return Err(error),
        };
        if let (Some(old), Some(new), CommitMethod::Named(_), false) = (&replaced, storage.file(), &arrival, is_private)
        {
            system::keep_access(&target, old, new);
        }
        let new = storage.file().and_then(|file| file.metadata().ok());
        let own_files = [new, replaced].iter().flatten().map(identity).collect();
        Ok(Output { storage: storage.into(), target, arrival, own_files, stale: Mutex::default() })
    }

    /// Fails if `target` exists and is neither a regular file nor a block device, so that no output can be written
    /// there.
    ///
    /// # Errors
    /// [`io::ErrorKind::IsADirectory`] for a directory. [`io::ErrorKind::NotSeekable`] for a FIFO, a socket or a
    /// character device, whose message names which of them it is.
    pub fn check_target(target: &Path) -> io::Result<()> {
        let Ok(found) = std::fs::metadata(target) else { return Ok(()) };
        let kind = found.file_type();
        if kind.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let name = if kind.is_char_device() {
            "a character device"
        } else if kind.is_fifo() {
            "a FIFO"
        } else if kind.is_socket() {
            "a socket"
        } else {
            return Ok(());
        };
        let why = format!("it is {name}, not a regular file or a block device");
        Err(io::Error::new(io::ErrorKind::NotSeekable, why))
    }

    fn on_device(files: &dyn FileSystem, target: &Path) -> io::Result<Self> {
        let storage = files.adopt(Box::new(BlockDevice(system::open_device(target)?)));
        Ok(Output::in_place(storage, target.into()))
    }

    /// Makes an output that is written in place: to memory or to a writer of the caller's. `name` is for messages.
    pub fn over(storage: impl Storage + 'static, name: impl Into<PathBuf>) -> Self {
        Output::in_place(Box::new(storage), name.into())
    }

    fn in_place(storage: Box<dyn Storage>, target: PathBuf) -> Self {
        Output {
            storage: storage.into(),
            target,
            arrival: CommitMethod::InPlace,
            own_files: Vec::new(),
            stale: Mutex::default(),
        }
    }

    /// Returns the path of the target; in messages it names the output.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Returns device and inode numbers of the file being written and of the one it replaces:
    /// neither may be read as input.
    pub fn own_files(&self) -> &[(u64, u64)] {
        &self.own_files
    }

    /// On a block device, has the `len` bytes at `offset` cleared and flushed before anything else is written. They
    /// hold the old superblock, which would make a mixture of old and new data look like an image if writing stopped
    /// early. Write the new superblock last.
    #[must_use]
    pub fn clearing(mut self, offset: u64, len: u64) -> Self {
        self.stale = Mutex::new(self.storage.is_fixed().then_some((offset, len)));
        self
    }

    fn clear_stale(&self) -> io::Result<()> {
        // Other threads wait here until it is on disk.
        let mut stale = mutex::lock(&self.stale);
        if let Some((offset, len)) = *stale {
            self.storage.zero_at(offset, len.min(self.storage.len()?.saturating_sub(offset)))?;
            self.storage.sync_data()?;
            *stale = None;
        }
        Ok(())
    }

    /// Writes all of `bytes` at `offset`.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.clear_stale()?;
        self.storage.write_all_at(bytes, offset)
    }

    /// Copies `len` bytes at `start` of a file to `offset`. File systems that can share blocks between files do so.
    pub fn copy_from(&self, file: &File, start: u64, len: u64, offset: u64) -> io::Result<()> {
        let mut done = self.copy_unread(file, start, len, offset)?;
        let mut piece = vec![0; usize::try_from(len - done).unwrap_or(COPY_LEN).min(COPY_LEN)];
        while done < len {
            let piece_len = usize::try_from(len - done).unwrap_or(COPY_LEN).min(COPY_LEN);
            Storage::read_exact_at(file, &mut piece[..piece_len], start + done)?;
            self.storage.write_all_at(&piece[..piece_len], offset + done)?;
            done += piece_len as u64;
        }
        Ok(())
    }

    /// Has the kernel copy the beginning of `len` bytes at `start` of a file to `offset`, as far as it can; returns the
    /// number of bytes that it copied. Why it copied no more is left for the caller to find, who reads and writes the rest;
    /// an error means that the output cannot be written.
    pub fn copy_unread(&self, file: &File, start: u64, len: u64, offset: u64) -> io::Result<u64> {
        self.clear_stale()?;
        let Some(own) = self.storage.file() else { return Ok(0) };
        let mut done = 0;
        while done < len {
            let left = usize::try_from(len - done).unwrap_or(COPY_LEN);
            match system::copy_range(file, start + done, own, offset + done, left) {
                Ok(copied) if copied > 0 => done += copied as u64,
                // The file systems cannot do it, or the file ends, which reading finds again.
                Ok(_) | Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Returns true if the file system may copy ranges of files by itself: [`Output::copy_from`] is then best.
    pub fn copies_by_itself(&self) -> bool {
        self.storage.file().is_some_and(system::copies_by_itself)
    }

    /// As [`Output::copy_from`], through memory: `see` gets all bytes in order, as they are written.
    pub fn copy_seen(
        &self,
        file: &File,
        start: u64,
        len: u64,
        offset: u64,
        see: &mut dyn FnMut(&[u8]),
    ) -> io::Result<()> {
        self.clear_stale()?;
        // The kernel copies to a page boundary in less time than to any other address.
        let mut buffer = Buffers::new(SEEN_LEN).take(SEEN_LEN);
        let mut done = 0;
        while done < len {
            let piece_len = usize::try_from(len - done).unwrap_or(SEEN_LEN).min(SEEN_LEN);
            let piece = &mut buffer[..piece_len];
            Storage::read_exact_at(file, piece, start + done)?;
            self.storage.write_all_at(piece, offset + done)?;
            see(piece);
            done += piece_len as u64;
        }
        Ok(())
    }

    /// Reads back bytes that were written.
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.storage.read_exact_at(buf, offset)
    }

    /// Returns a reader of the bytes written from `start` on. Bytes that are written later may be missing.
    pub fn reader(&self, start: u64) -> io::Result<Arc<dyn ReadAt>> {
        let len = self.storage.len()?.saturating_sub(start);
        Ok(Arc::new(WrittenBytes { storage: Arc::clone(&self.storage), start, len }))
    }

    /// Sets the length; does nothing on a block device.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        self.storage.set_len(len)
    }

    /// Returns the length of a block device, which cannot be changed; `None` for a file.
    pub fn device_len(&self) -> io::Result<Option<u64>> {
        self.storage.is_fixed().then(|| self.storage.len()).transpose()
    }

    /// Makes the `len` bytes at `offset`, which were never written, read as zeros. In a file they
    /// stay a hole. A device, which holds old bytes there, zeros them, or is overwritten
    /// if it does not support that.
    pub fn leave_zeros_at(&self, offset: u64, len: u64) -> io::Result<()> {
        self.clear_stale()?;
        self.storage.zero_at(offset, len)
    }

    /// Returns a place for temporary files: beside the target, or if that fails in the system's
    /// temporary directory.
    pub fn scratch(&self) -> Scratch {
        let elsewhere = std::env::temp_dir();
        match &self.arrival {
            CommitMethod::Named(OutputNaming { files, .. }) => {
                Scratch::on(Arc::clone(files), vec![directory(&self.target).to_owned(), elsewhere])
            }
            CommitMethod::InPlace | CommitMethod::Copied(_) => Scratch::new(elsewhere),
        }
    }

    /// Copies the whole output to `writer`, for writers that cannot seek.
    pub fn copy_to(&self, writer: &mut dyn Write) -> io::Result<()> {
        let len = self.storage.len()?;
        let mut piece = vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(COPY_LEN)];
        let mut at = 0;
        while at < len {
            let piece_len = usize::try_from(len - at).unwrap_or(usize::MAX).min(piece.len());
            self.storage.read_exact_at(&mut piece[..piece_len], at)?;
            writer.write_all(&piece[..piece_len])?;
            at += piece_len as u64;
        }
        writer.flush()
    }

    /// Returns a writer that starts at the first byte. It does not buffer, so writes should be large.
    pub fn appender(&self) -> OutputAppender<'_> {
        OutputAppender { output: self, at: 0 }
    }

    /// Flushes the data to disk, gives the file its name, then flushes the directory.
    pub fn commit(self) -> io::Result<()> {
        let Output { storage, target, arrival, .. } = self;
        let naming = match arrival {
            CommitMethod::InPlace => return storage.sync_all(),
            CommitMethod::Copied(existing) => return overwrite(&*existing, &*storage),
            CommitMethod::Named(naming) => naming,
        };
        storage.sync_all()?;
        let OutputNaming { files, temporary, replace, is_private } = naming;
        let named = match temporary {
            // Only a rename can replace.
            None if replace => {
                TemporaryName::link(&files, &*storage, &target).and_then(|name| name.rename(&target, true))
            }
            None => files.link(&*storage, &target),
            Some(name) => name.rename(&target, replace),
        };
        match named {
            // A file in a directory with the sticky bit, or one that is a mount point, can only be overwritten.
            Err(error) if replace && !is_private && is_forbidden(&error) => {
                overwrite(&*open_existing(&*files, &target, error)?, &*storage)
            }
            named => named.and_then(|()| files.sync_dir(directory(&target))),
        }
    }
}

/// Creates the file that becomes `target`, with its temporary name if it has to have one.
fn begin_file(
    files: &Arc<dyn FileSystem>,
    target: &Path,
    mode: u32,
) -> io::Result<(Box<dyn Storage>, Option<TemporaryName>)> {
    match files.create_unnamed(directory(target), mode) {
        Ok(storage) => Ok((storage, None)),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            let (storage, name) = TemporaryName::create(files, target, mode)?;
            Ok((storage, Some(name)))
        }
        Err(error) => Err(error),
    }
}

/// Opens a file to overwrite it. If it is not writable, fails with `forbidden`, the reason why it cannot be replaced.
fn open_existing(files: &dyn FileSystem, target: &Path, forbidden: io::Error) -> io::Result<Box<dyn Storage>> {
    match OpenOptions::new().write(true).open(target) {
        Ok(file) => Ok(files.adopt(Box::new(file))),
        Err(_) => Err(forbidden),
    }
}

/// Written bytes of an output, from `start` on.
#[derive(Debug)]
struct WrittenBytes {
    storage: Arc<dyn Storage>,
    start: u64,
    len: u64,
}

impl ReadAt for WrittenBytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.len.saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        self.storage.read_exact_at(&mut buf[..len], self.start + offset)?;
        Ok(len)
    }

    fn len(&self) -> u64 {
        self.len
    }
}

/// Writes an [`Output`] from front to back.
#[derive(Debug)]
pub struct OutputAppender<'o> {
    output: &'o Output,
    at: u64,
}

impl Write for OutputAppender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write_all_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::io::Memory;
    use crate::io::faults::{FaultKind, FaultyFiles};

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn nothing_is_seen_before_commit_and_nothing_left_without_it() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("image");
        let output = Output::create(&target, 0o644, false).unwrap();
        output.write_all_at(b"new", 0).unwrap();
        assert_eq!(names(dir.path()), Vec::<String>::new());
        drop(output);
        assert_eq!(names(dir.path()), Vec::<String>::new());
        let output = Output::create(&target, 0o600, false).unwrap();
        output.write_all_at(b"new", 0).unwrap();
        output.commit().unwrap();
        assert_eq!((names(dir.path()), std::fs::read(&target).unwrap()), (vec!["image".into()], b"new".to_vec()));
    }

    #[test]
    fn an_existing_target_is_refused_or_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("image");
        std::fs::write(&target, b"old contents").unwrap();
        let refused = Output::create(&target, 0o644, false).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        let output = Output::create(&target, 0o644, true).unwrap();
        output.write_all_at(b"x", 0).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"old contents");
        output.commit().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"x");
    }

    #[test]
    fn a_symlink_keeps_pointing_at_the_file_written() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        let link = dir.path().join("link");
        std::fs::write(&real, b"old").unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        let output = Output::create(&link, 0o644, true).unwrap();
        output.write_all_at(b"new", 0).unwrap();
        output.commit().unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read(&real).unwrap(), b"new");
    }

    /// File systems with and without `O_TMPFILE`.
    fn both() -> [Arc<dyn FileSystem>; 2] {
        [Arc::new(SystemFiles), Arc::new(FaultyFiles::new().without_unnamed())]
    }

    #[test]
    fn a_target_that_appears_meanwhile_is_not_replaced_unasked() {
        for files in both() {
            let dir = tempfile::tempdir().unwrap();
            let target = dir.path().join("image");
            let begin = |replace| Output::create_on(Arc::clone(&files), &target, 0o644, replace).unwrap();
            let output = begin(false);
            output.write_all_at(b"new", 0).unwrap();
            std::fs::write(&target, b"of somebody else").unwrap();
            assert_eq!(output.commit().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(std::fs::read(&target).unwrap(), b"of somebody else");
            let output = begin(true);
            output.write_all_at(b"new", 0).unwrap();
            output.commit().unwrap();
            assert_eq!((names(dir.path()), std::fs::read(&target).unwrap()), (vec!["image".into()], b"new".to_vec()));
        }
    }

    #[test]
    fn a_file_keeps_the_access_of_the_file_that_it_replaces() {
        use std::os::unix::fs::{PermissionsExt, chown};
        let is_root = rustix::process::geteuid().is_root();
        for files in both() {
            for (old_mode, asked_mode, kept_mode) in [
                (0o600, 0o666, 0o600),
                (0o664, 0o666, 0o664),
                (0o755, 0o666, 0o755),
                (0o444, 0o666, 0o444),
                // A private file has secrets of this run, not of the one before.
                (0o644, 0o600, 0o600),
            ] {
                let dir = tempfile::tempdir().unwrap();
                let target = dir.path().join("image");
                std::fs::write(&target, b"old").unwrap();
                std::fs::set_permissions(&target, std::fs::Permissions::from_mode(old_mode)).unwrap();
                if is_root {
                    chown(&target, Some(7), Some(8)).unwrap();
                }
                let owner = std::fs::metadata(&target).map(|old| (old.uid(), old.gid())).unwrap();
                let output = Output::create_on(Arc::clone(&files), &target, asked_mode, true).unwrap();
                output.write_all_at(b"new", 0).unwrap();
                output.commit().unwrap();
                let new = std::fs::metadata(&target).unwrap();
                assert_eq!(new.mode() & 0o7777, kept_mode, "{old_mode:o} replaced as {asked_mode:o}");
                if asked_mode != 0o600 {
                    assert_eq!((new.uid(), new.gid()), owner, "{old_mode:o}");
                }
            }
        }
    }

    #[test]
    fn access_control_lists_are_kept_and_never_replaced_by_those_of_the_directory() {
        // Version 2: the owner, user 7, the group, the mask and others, each with its permissions.
        let list = |user: u8, mask: u8| -> Vec<u8> {
            let entry = |tag: u8, bits: u8, id: u32| [&[tag, 0, bits, 0][..], &id.to_le_bytes()].concat();
            let nobody = u32::MAX;
            let rest = [entry(0x04, 0, nobody), entry(0x10, mask, nobody)].concat();
            [vec![2, 0, 0, 0], entry(0x01, 6, nobody), entry(0x02, user, 7), rest, entry(0x20, 0, nobody)].concat()
        };
        let attribute = |path: &Path| {
            let mut value = [0; 256];
            rustix::fs::getxattr(path, "system.posix_acl_access", &mut value[..]).ok().map(|len| value[..len].to_vec())
        };
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("image");
        let flags = rustix::fs::XattrFlags::empty();
        std::fs::write(&target, b"old").unwrap();
        if rustix::fs::setxattr(&target, "system.posix_acl_access", &list(6, 4), flags).is_err() {
            return; // This file system has no such lists.
        }
        rustix::fs::setxattr(dir.path(), "system.posix_acl_default", &list(7, 7), flags).unwrap();
        let old = attribute(&target);
        assert!(old.is_some());
        Output::create(&target, 0o666, true).unwrap().commit().unwrap();
        assert_eq!(attribute(&target), old);
        rustix::fs::removexattr(&target, "system.posix_acl_access").unwrap();
        Output::create(&target, 0o666, true).unwrap().commit().unwrap();
        assert_eq!(attribute(&target), None, "the list of the directory is not that of the replaced file");
    }

    #[test]
    fn a_writable_file_that_cannot_be_replaced_is_overwritten_unless_the_new_one_is_private() {
        // Public and private files, with and without unnamed ones, and the operations after whose failure they are
        // copied.
        let cases: [(u32, bool, &[&str]); 4] = [
            (0o666, true, &["create a file without a name", "link", "rename"]),
            (0o666, false, &["create a file", "rename"]),
            (0o600, true, &[]),
            (0o600, false, &[]),
        ];
        for (mode, unnamed, expected) in cases {
            let mut overwritten = Vec::new();
            for number in 0.. {
                let dir = tempfile::tempdir().unwrap();
                let target = dir.path().join("image");
                std::fs::write(&target, b"old contents").unwrap();
                let old = identity(&std::fs::metadata(&target).unwrap());
                let faults = FaultyFiles::failing(number, FaultKind::Forbidden);
                let faults = if unnamed { faults } else { faults.without_unnamed() };
                let finished = Output::create_on(Arc::new(faults.clone()), &target, mode, true).and_then(|output| {
                    output.write_all_at(b"new", 0)?;
                    output.commit()
                });
                assert_eq!(names(dir.path()), ["image"], "{mode:o}, {number}");
                let Some(failed) = faults.failed() else { break };
                let new = std::fs::metadata(&target).unwrap();
                match std::fs::read(&target).unwrap().as_slice() {
                    b"new" if identity(&new) == old && finished.is_ok() => overwritten.push(failed),
                    b"new" => assert_eq!(failed, "flush the directory"),
                    contents => assert!(finished.is_err() && contents == b"old contents", "{mode:o}, {failed}"),
                }
            }
            assert_eq!(overwritten, expected, "{mode:o}, unnamed: {unnamed}");
        }
    }

    #[test]
    fn a_dangling_link_counts_as_existing() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert_eq!(Output::create(&link, 0o644, false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn other_kinds_of_files_are_refused_by_name_with_and_without_replacing() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir(path("dir")).unwrap();
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        std::os::unix::fs::symlink("fifo", path("link")).unwrap();
        let cases = [
            (path("dir"), io::ErrorKind::IsADirectory, "directory"),
            (path("fifo"), io::ErrorKind::NotSeekable, "it is a FIFO, not a regular file or a block device"),
            (path("link"), io::ErrorKind::NotSeekable, "it is a FIFO"),
            (path("socket"), io::ErrorKind::NotSeekable, "it is a socket"),
            ("/dev/null".into(), io::ErrorKind::NotSeekable, "it is a character device"),
        ];
        for (target, kind, text) in cases {
            for replace in [false, true] {
                let error = Output::create(&target, 0o644, replace).unwrap_err();
                assert_eq!(error.kind(), kind, "{target:?}, {replace}");
                assert!(error.to_string().contains(text), "{target:?}, {replace}: {error}");
            }
        }
    }

    #[test]
    fn an_output_knows_its_own_files() {
        for files in both() {
            let dir = tempfile::tempdir().unwrap();
            let target = dir.path().join("image");
            std::fs::write(&target, b"old").unwrap();
            let old = identity(&std::fs::metadata(&target).unwrap());
            let output = Output::create_on(files, &target, 0o644, true).unwrap();
            let own = output.own_files().to_vec();
            output.commit().unwrap();
            assert_eq!(own, [identity(&std::fs::metadata(&target).unwrap()), old]);
        }
    }

    #[test]
    fn the_old_superblock_of_a_device_is_cleared_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        std::fs::write(&path, [0xee; 100]).unwrap();
        let device = || BlockDevice(OpenOptions::new().read(true).write(true).open(&path).unwrap());
        // The end of a device may come before that of what is cleared.
        for (offset, len) in [(10, 20), (90, 20), (200, 20)] {
            std::fs::write(&path, [0xee; 100]).unwrap();
            let output = Output::over(device(), "device").clearing(offset, len);
            assert_eq!(std::fs::read(&path).unwrap(), [0xee; 100], "before the first write");
            assert!(output.write_all_at(b"x", 1).is_ok());
            let mut want = [0xee; 100];
            let end = usize::try_from(offset + len).unwrap().min(100);
            want[usize::try_from(offset).unwrap().min(end)..end].fill(0);
            want[1] = b'x';
            assert_eq!(std::fs::read(&path).unwrap(), want);
            output.write_all_at(b"head", 12).unwrap();
            output.commit().unwrap();
            assert_eq!(std::fs::read(&path).unwrap()[12..16], *b"head");
        }
        let output = Output::over(Memory::default(), "memory").clearing(10, 20);
        output.write_all_at(b"x", 0).unwrap();
        assert_eq!(output.storage.len().unwrap(), 1, "only devices have old bytes");
    }

    #[test]
    fn after_any_failure_the_target_is_whole_or_unchanged() {
        for unnamed in [true, false] {
            for old in [None, Some(b"the old contents")] {
                for fault in FaultKind::ALL {
                    (0..).take_while(|number| fails_safely(*number, fault, unnamed, old)).for_each(drop);
                }
            }
        }
    }

    /// Writes an output on which operation `number` fails. Returns false if there were fewer operations.
    fn fails_safely(number: u64, fault: FaultKind, unnamed: bool, old: Option<&[u8; 16]>) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("image");
        if let Some(old) = old {
            std::fs::write(&target, old).unwrap();
        }
        let faults = FaultyFiles::failing(number, fault);
        let faults = if unnamed { faults } else { faults.without_unnamed() };
        let write = || {
            let output = Output::create_on(Arc::new(faults.clone()), &target, 0o644, old.is_some())?;
            output.write_all_at(b"the new ", 0)?;
            output.write_all_at(b"contents", 8)?;
            output.commit()
        };
        let done = write();
        let what = format!("{fault:?} in operation {number} ({:?})", faults.failed());
        assert_eq!(done.is_err(), faults.failed().is_some(), "{what}");
        let found = std::fs::read(&target).ok();
        // Only flushing the directory can fail once the file has its name.
        let whole = done.is_ok() || faults.failed() == Some("flush the directory");
        let expected = if whole { Some(&b"the new contents"[..]) } else { old.map(|old| &old[..]) };
        assert_eq!(found.as_deref(), expected, "{what}");
        assert_eq!(names(dir.path()).len(), usize::from(expected.is_some()), "{what}");
        faults.failed().is_some()
    }

    #[test]
    fn memory_and_writers_accept_the_same_as_a_file() {
        let memory = Arc::new(Memory::default());
        let output = Output::over(Arc::clone(&memory), "memory");
        output.write_all_at(b"behind a gap", 3).unwrap();
        output.leave_zeros_at(15, 3).unwrap();
        assert_eq!((output.device_len().unwrap(), output.own_files()), (None, &[][..]));
        output.scratch().file().unwrap().write_all_at(b"kept", 0).unwrap();
        let mut copy = Vec::new();
        output.copy_to(&mut copy).unwrap();
        output.commit().unwrap();
        assert_eq!(copy, b"\0\0\0behind a gap\0\0\0");
        assert_eq!(Arc::into_inner(memory).unwrap().into_inner().unwrap().into_inner(), copy);
    }

    #[test]
    fn ranges_of_files_are_copied_into_files_and_memory() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..(3 << 20) + 5u32).map(|n| n.to_le_bytes()[1]).collect();
        std::fs::write(dir.path().join("from"), &bytes).unwrap();
        let from = File::open(dir.path().join("from")).unwrap();
        let outputs =
            [Output::create(&dir.path().join("to"), 0o644, false).unwrap(), Output::over(Memory::default(), "memory")];
        for output in outputs {
            for (start, len, offset) in [(0, 5000, 10_000), (4096, 2 << 20, 1 << 20), (7, 0, 0)] {
                output.copy_from(&from, start, len, offset).unwrap();
                let len = usize::try_from(len).unwrap();
                let mut copied = vec![0; len];
                output.read_exact_at(&mut copied, offset).unwrap();
                assert!(copied == bytes[usize::try_from(start).unwrap()..][..len]);
                let mut seen = Vec::new();
                output.copy_seen(&from, start, len as u64, offset + 3, &mut |piece| seen.extend(piece)).unwrap();
                output.read_exact_at(&mut copied, offset + 3).unwrap();
                assert!(copied == seen && seen == bytes[usize::try_from(start).unwrap()..][..len]);
            }
            let beyond = output.copy_from(&from, 3 << 20, 6, 0).unwrap_err();
            assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn a_directory_is_no_target() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Output::create(dir.path(), 0o644, true).is_err());
    }
}
