//! The source of a build benchmark: a directory, its statistics, and a subset of it for the warm-up.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use packfs_blocks::Digest;
use packfs_image::name::display;

use crate::corpus::{shown_name, sorted_paths};
use crate::memory::{MemoryReader, PageShares};
use crate::rng::SeededRng;
use crate::{Error, Result};

/// A directory to pack.
#[derive(Debug, Clone)]
pub struct BuildSource {
    /// Path of the directory.
    pub path: PathBuf,
    /// Name in tables.
    pub name: String,
    /// Digest of the names, sizes and times of its entries.
    pub digest: String,
    /// Total size of all files; hard links count once.
    pub bytes: u64,
    /// Path and length of each file.
    files: Vec<(PathBuf, u64)>,
}

impl BuildSource {
    /// Scans a directory.
    pub fn of(path: &Path) -> Result<Self> {
        if !fs::metadata(path).map_err(Error::io(path))?.is_dir() {
            return Err(Error::Usage(format!("{}: not a directory; accepted: a directory to pack", display(path))));
        }
        let path = path.canonicalize().map_err(Error::io(path))?;
        let mut listing = SourceListing::default();
        listing.add(&path)?;
        let bytes = listing.files.iter().map(|(_, len)| len).sum();
        if bytes == 0 {
            return Err(Error::Usage(format!("{}: there is no data in it", display(&path))));
        }
        let digest = Digest::of(&listing.described).short();
        Ok(BuildSource { name: shown_name(&path), digest, bytes, files: listing.files, path })
    }

    /// Creates a directory of memory-like files. The same seed gives the same files.
    pub fn generate(path: &Path, len: u64, seed: u64) -> Result<()> {
        fs::create_dir_all(path).map_err(Error::io(path))?;
        let mut memory = MemoryReader::new(seed, PageShares::default());
        let mut rng = SeededRng::for_item(seed, 1);
        let mut left = len;
        let mut number = 0;
        while left > 0 {
            // As in most trees, each power of two has about as many files: as many of 1 to 2 KiB as of 512 to 1024
            // bytes.
            let min_len = 256 << rng.below(13);
            let file_len = ((min_len + rng.below(min_len)) as u64).min(left);
            left -= file_len;
            let target = path.join(format!("{number:05}"));
            number += 1;
            copy(&mut memory, file_len, &target)?;
            // Fixed times, because the digest covers them.
            let file = File::options().append(true).open(&target).map_err(Error::io(&target))?;
            file.set_modified(std::time::UNIX_EPOCH).map_err(Error::io(&target))?;
        }
        Ok(())
    }

    /// Creates a directory with every n-th file, at most `max_len` bytes in total.
    pub fn sample(&self, path: &Path, max_len: u64) -> Result<BuildSource> {
        fs::create_dir_all(path).map_err(Error::io(path))?;
        let step = usize::try_from(self.bytes.div_ceil(max_len.max(1))).unwrap_or(usize::MAX).max(1);
        let every = self.files.iter().step_by(step);
        let mut left = max_len;
        // If these few files are all empty, add the largest one.
        let largest = self.files.iter().max_by_key(|(_, len)| len);
        for (number, (file, len)) in every.chain(largest).enumerate() {
            let len = left.min(*len);
            if len > 0 {
                let target = path.join(number.to_string());
                copy(&mut File::open(file).map_err(Error::io(file))?, len, &target)?;
                left -= len;
            }
        }
        BuildSource::of(path)
    }
}

fn copy(from: &mut impl io::Read, len: u64, target: &Path) -> Result<()> {
    let mut file = File::create(target).map_err(Error::io(target))?;
    io::copy(&mut from.take(len), &mut file).map(|_| ()).map_err(Error::io(target))
}

/// Entries of a source.
#[derive(Default)]
struct SourceListing {
    /// Path and length of each file; of hard links, only the first.
    files: Vec<(PathBuf, u64)>,
    /// Names, modes, sizes and times of all entries, for the digest.
    described: Vec<u8>,
    /// Device and inode number of files with several names.
    linked: BTreeSet<(u64, u64)>,
}

impl SourceListing {
    /// Adds everything below a directory, sorted by name.
    fn add(&mut self, dir: &Path) -> Result<()> {
        for path in sorted_paths(dir).map_err(Error::io(dir))? {
            let metadata = path.symlink_metadata().map_err(Error::io(&path))?;
            self.describe(&path, &metadata);
            if metadata.is_dir() {
                self.add(&path)?;
            } else if metadata.is_file() && self.is_new(&metadata) {
                self.files.push((path, metadata.len()));
            }
        }
        Ok(())
    }

    fn describe(&mut self, path: &Path, metadata: &Metadata) {
        let len = if metadata.is_file() { metadata.len() } else { 0 };
        // Names and not paths: the same tree at another place is the same source.
        self.described.extend_from_slice(path.file_name().unwrap_or_default().as_encoded_bytes());
        self.described.extend_from_slice(&metadata.mode().to_le_bytes());
        self.described.extend_from_slice(&len.to_le_bytes());
        self.described.extend_from_slice(&metadata.mtime().to_le_bytes());
    }

    fn is_new(&mut self, metadata: &Metadata) -> bool {
        // A file with one name needs no entry in the set.
        metadata.nlink() == 1 || self.linked.insert((metadata.dev(), metadata.ino()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_known_by_what_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tree");
        fs::create_dir_all(path.join("sub")).unwrap();
        assert!(BuildSource::of(&path).unwrap_err().to_string().contains("no data"));
        fs::write(path.join("sub/a"), "12345").unwrap();
        fs::hard_link(path.join("sub/a"), path.join("b")).unwrap();
        std::os::unix::fs::symlink("nowhere", path.join("link")).unwrap();
        let source = BuildSource::of(&path).unwrap();
        assert_eq!((source.name.as_str(), source.bytes), ("tree", 5));
        assert_eq!(BuildSource::of(&path).unwrap().digest, source.digest);
        fs::write(path.join("c"), "1").unwrap();
        assert_ne!(BuildSource::of(&path).unwrap().digest, source.digest);
        assert!(BuildSource::of(&path.join("c")).unwrap_err().to_string().contains("not a directory"));
        assert!(BuildSource::of(&path.join("missing")).is_err());
    }

    #[test]
    fn what_is_made_is_the_same_for_the_same_seed() {
        let dir = tempfile::tempdir().unwrap();
        let made = |name: &str, seed| {
            let path = dir.path().join(name).join("made");
            BuildSource::generate(&path, 3_000_000, seed).unwrap();
            BuildSource::of(&path).unwrap()
        };
        let a = made("a", 1);
        let b = made("b", 1);
        let c = made("c", 2);
        assert_eq!((a.bytes, &a.name, &a.digest), (3_000_000, &b.name, &b.digest));
        assert_ne!(a.digest, c.digest);
        assert!(a.files.len() > 3, "{:?}", a.files);
    }

    #[test]
    fn samples_are_small_and_never_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tree");
        fs::create_dir(&path).unwrap();
        for n in 0..100 {
            fs::write(path.join(format!("{n:03}")), vec![1; 1000]).unwrap();
        }
        let sample = BuildSource::of(&path).unwrap().sample(&dir.path().join("sample"), 10_000).unwrap();
        assert!((9000..=10_000).contains(&sample.bytes), "{}", sample.bytes);
        let whole = BuildSource::of(&path).unwrap().sample(&dir.path().join("whole"), 1 << 20).unwrap();
        assert!(whole.bytes >= 100_000, "{}", whole.bytes);
        // A large file that the sample omits.
        fs::write(path.join("large"), vec![1; 1 << 20]).unwrap();
        (0..100).for_each(|n| fs::write(path.join(format!("{n:03}")), "").unwrap());
        let sample = BuildSource::of(&path).unwrap().sample(&dir.path().join("one"), 5000).unwrap();
        assert_eq!(sample.bytes, 5000);
    }
}
