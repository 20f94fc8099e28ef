//! Inputs of a split: anything with positional reads, and streams.

mod file;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::ReadAt;
use xxhash_rust::xxh3::Xxh3;

use crate::{Error, Result};

pub use file::FileSource;

/// Number of places that a fingerprint samples, spread over the input, and number of bytes at each.
const SAMPLES: u64 = 16;
const SAMPLE_LEN: usize = 4096;

/// Adds samples of an input to its fingerprint, spread evenly from the first byte to the last.
pub(crate) fn hash_samples(hasher: &mut Xxh3, source: &dyn ReadAt) {
    let mut sample = [0; SAMPLE_LEN];
    for n in 0..SAMPLES {
        let at = source.len().saturating_sub(SAMPLE_LEN as u64) / (SAMPLES - 1) * n;
        match source.read_at(&mut sample, at) {
            Ok(got) => hasher.update(&sample[..got]),
            // What cannot be read must not prevent saving what can.
            Err(_) => hasher.update(b"unreadable"),
        }
    }
}

/// An input with positional reads, which can be read again.
pub trait Source: ReadAt {
    /// Returns the next range at or after `offset` that may contain other bytes than zeros; `None`
    /// if only zeros follow.
    fn data_from(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        Ok((offset < self.len()).then(|| offset..self.len()))
    }

    /// Returns a number other than 0 that identifies the input when a run is resumed.
    fn fingerprint(&self) -> io::Result<u64>;

    /// Describes how the input has changed since it was opened, if that can be determined.
    fn changed(&self) -> io::Result<Option<String>> {
        Ok(None)
    }
}

/// Input of a split.
#[derive(Debug)]
pub struct Input {
    name: PathBuf,
    kind: InputOrigin,
    /// Identity of the underlying file, which no part may have.
    identity: Option<FileIdentity>,
}

#[derive(Debug)]
pub(crate) enum InputOrigin {
    Source(Arc<dyn Source>),
    Stream(File),
}

/// Identity of a file: device and inode, or the number of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FileIdentity {
    File(u64, u64),
    Device(u64),
}

impl FileIdentity {
    pub(crate) fn of(found: &std::fs::Metadata) -> Self {
        if found.file_type().is_block_device() {
            FileIdentity::Device(found.rdev())
        } else {
            FileIdentity::File(found.dev(), found.ino())
        }
    }
}

impl Input {
    /// Opens a file, block device or FIFO; `-` is standard input.
    ///
    /// Files with length 0 may not report their length, as many below `/proc`: they are read as
    /// streams, to their end.
    pub fn open(path: &Path) -> Result<Self> {
        let (name, file) = if path == Path::new("-") {
            // A copy, so that dropping the input does not close the descriptor of the process.
            let own = io::stdin().as_fd().try_clone_to_owned().map_err(Error::io("cannot read", "standard input"))?;
            (PathBuf::from("standard input"), File::from(own))
        } else {
            (path.to_owned(), File::open(path).map_err(Error::io("cannot open", path))?)
        };
        let found = file.metadata().map_err(Error::io("cannot open", &name))?;
        let kind = found.file_type();
        if kind.is_dir() {
            return Err(Error::unsuitable(name, "a directory cannot be split; build an image of it"));
        }
        let identity = Some(FileIdentity::of(&found));
        // Standard input may be positioned anywhere in its file: the bytes before were read by others.
        let fresh = rustix::fs::tell(&file).is_ok_and(|at| at == 0);
        if fresh && (kind.is_block_device() || (kind.is_file() && found.len() > 0)) {
            let source = FileSource::new(file, &found).map_err(Error::io("cannot read its size", &name))?;
            return Ok(Input { name, kind: InputOrigin::Source(Arc::new(source)), identity });
        }
        Ok(Input { name, kind: InputOrigin::Stream(file), identity })
    }

    /// Makes an input from another source, such as the pages of a crash dump; `name` is for messages.
    pub fn from_source(name: impl Into<PathBuf>, source: Arc<dyn Source>) -> Self {
        let name = name.into();
        // Without it a part would only not be compared with the input. The name need not be that of a file.
        let identity = std::fs::metadata(&name).ok().map(|found| FileIdentity::of(&found));
        Input { name, kind: InputOrigin::Source(source), identity }
    }

    /// Returns the name for messages.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Returns the length, if it is known before reading.
    pub fn size(&self) -> Option<u64> {
        match &self.kind {
            InputOrigin::Source(source) => Some(source.len()),
            InputOrigin::Stream(_) => None,
        }
    }

    /// Returns the fingerprint that identifies it when a run is resumed; 0 for a stream, which
    /// cannot be read again.
    pub(crate) fn fingerprint(&self) -> Result<u64> {
        match &self.kind {
            InputOrigin::Source(source) => source.fingerprint().map_err(Error::io("cannot read", &self.name)),
            InputOrigin::Stream(_) => Ok(0),
        }
    }

    pub(crate) fn identity(&self) -> Option<FileIdentity> {
        self.identity
    }

    /// Describes how it has changed since it was opened, or why that cannot be determined.
    pub(crate) fn changed(&self) -> Option<String> {
        match &self.kind {
            InputOrigin::Source(source) => source.changed().unwrap_or_else(|error| Some(error.to_string())),
            InputOrigin::Stream(_) => None,
        }
    }

    pub(crate) fn kind(&mut self) -> &mut InputOrigin {
        &mut self.kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Bytes of which a range cannot be read.
    #[derive(Debug)]
    struct BadSectors(Vec<u8>, Range<u64>);

    impl ReadAt for BadSectors {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            if offset < self.1.end && self.1.start < offset + buf.len() as u64 {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            self.0.read_at(buf, offset)
        }

        fn len(&self) -> u64 {
            ReadAt::len(&self.0)
        }
    }

    #[test]
    fn a_fingerprint_does_not_need_every_sample() {
        let bytes = packfs_blocks::testing::noise(1 << 20, 5);
        let len = bytes.len() as u64;
        let fingerprint = |bad: &Range<u64>| {
            let mut hasher = Xxh3::new();
            hash_samples(&mut hasher, &BadSectors(bytes.clone(), bad.clone()));
            hasher.digest()
        };
        let sound = fingerprint(&(0..0));
        let seventh = (len - SAMPLE_LEN as u64) / (SAMPLES - 1) * 6;
        for bad in [0..4096, seventh..seventh + 1, len - 4096..len, 0..len] {
            let damaged = fingerprint(&bad);
            assert_eq!(damaged, fingerprint(&bad), "{bad:?}");
            assert_ne!(damaged, sound, "{bad:?}");
        }
    }

    #[test]
    fn files_are_sources_and_those_of_unknown_length_are_streams() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"bytes").unwrap();
        assert_eq!(Input::open(file.path()).unwrap().size(), Some(5));
        assert_eq!(Input::open(Path::new("/proc/self/maps")).unwrap().size(), None);
        assert_eq!(Input::open(Path::new("/dev/null")).unwrap().size(), None);
        assert!(matches!(Input::open(Path::new("/")), Err(Error::Unsuitable { .. })));
        assert!(matches!(Input::open(Path::new("/nowhere")), Err(Error::Io { .. })));
    }
}
