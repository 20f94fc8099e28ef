//! A regular file or block device as input: reports its holes, and whether it has changed.

use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};

use packfs_blocks::ReadAt;
use rustix::fs::{Advice, SeekFrom as RawSeek};
use rustix::io::Errno;
use xxhash_rust::xxh3::Xxh3;

use super::{Source, hash_samples};

/// A regular file or block device.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    len: u64,
    /// Size and time of the last change, for a regular file.
    version: Option<(u64, i64, i64)>,
}

impl FileSource {
    /// Wraps a file with the metadata just read.
    pub fn new(mut file: File, found: &Metadata) -> io::Result<Self> {
        // Seeking gives the size of block devices too; their metadata says 0.
        let len = file.seek(SeekFrom::End(0))?;
        // A hint only.
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::Sequential);
        let version = found.is_file().then(|| version(found));
        Ok(FileSource { file, len, version })
    }
}

fn version(found: &Metadata) -> (u64, i64, i64) {
    (found.len(), found.mtime(), found.mtime_nsec())
}

impl ReadAt for FileSource {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut got = 0;
        while got < buf.len() {
            let Some(at) = offset.checked_add(got as u64) else { break };
            match self.file.read_at(&mut buf[got..], at) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(got)
    }

    fn len(&self) -> u64 {
        self.len
    }
}

impl Source for FileSource {
    fn data_from(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        if offset >= self.len {
            return Ok(None);
        }
        let all = Ok(Some(offset..self.len));
        let start = match rustix::fs::seek(&self.file, RawSeek::Data(offset)) {
            Ok(start) => start,
            // After the last data; or the file has become shorter, which reading notices.
            Err(Errno::NXIO) if self.file.metadata()?.len() >= self.len => return Ok(None),
            // The file system does not report holes.
            Err(_) => return all,
        };
        match rustix::fs::seek(&self.file, RawSeek::Hole(start)) {
            Ok(end) if end > start => Ok(Some(start..end.min(self.len))),
            // A hole that begins at once contradicts the answer before: reading everything is always right.
            _ => all,
        }
    }

    fn fingerprint(&self) -> io::Result<u64> {
        let mut hasher = Xxh3::new();
        hasher.update(&self.len.to_le_bytes());
        if let Some((_, secs, nanos)) = self.version {
            // A device has no time of change, so its contents are sampled. For a file, samples find one that
            // was replaced and got its old time back.
            hasher.update(&secs.to_le_bytes());
            hasher.update(&nanos.to_le_bytes());
        }
        hash_samples(&mut hasher, self);
        // 0 is the fingerprint of a stream.
        Ok(hasher.digest().max(1))
    }

    fn changed(&self) -> io::Result<Option<String>> {
        let Some(before) = self.version else { return Ok(None) };
        // Without reading it again, which would take as long as the split.
        let now = version(&self.file.metadata()?);
        Ok(match (now == before, now.0 == before.0) {
            (true, _) => None,
            (false, true) => Some("it was written to while it was read".to_owned()),
            (false, false) => Some(format!("it had {} bytes and has {} now", before.0, now.0)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn open(file: &tempfile::NamedTempFile) -> FileSource {
        let file = File::open(file.path()).unwrap();
        let found = file.metadata().unwrap();
        FileSource::new(file, &found).unwrap()
    }

    #[test]
    fn holes_are_distinguished_from_data() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(64 << 20).unwrap();
        file.as_file().write_all_at(b"data", 32 << 20).unwrap();
        let source = open(&file);
        let data = source.data_from(0).unwrap().unwrap();
        assert!(data.start <= 32 << 20 && data.end > 32 << 20, "{data:?}");
        // A file system without holes reports everything as data, which is also valid.
        if data.start > 0 {
            assert_eq!(source.data_from(data.end).unwrap(), None);
        }
        assert_eq!(source.data_from(64 << 20).unwrap(), None);
    }

    #[test]
    fn a_changed_file_counts_as_another() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[5; 100_000]).unwrap();
        let source = open(&file);
        assert_eq!(source.changed().unwrap(), None);
        assert_eq!(source.fingerprint().unwrap(), open(&file).fingerprint().unwrap());
        file.as_file().set_len(99_999).unwrap();
        assert!(source.changed().unwrap().unwrap().contains("99999"));
        assert_ne!(source.fingerprint().unwrap(), open(&file).fingerprint().unwrap());
    }
}
