//! Data to compress: files, directories and generated data, read into memory before anything is timed.
//!
//! The files of a data set are concatenated, as the metrics require: padding at the ends of small files is the same for
//! all codecs and would hide their savings. Large data sets are sampled evenly.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::progress::Phase;
use packfs_blocks::{Digest, Progress};
use packfs_image::name::display;

use crate::memory::{MemoryReader, PageShares};
use crate::rng::SeededRng;
use crate::{Error, Result};

/// Maximum length of a piece of a sample: the largest block of any file system, so that every block size sees whole
/// blocks.
const MAX_PIECE_LEN: u64 = 1 << 20;
/// Minimum length of a piece, so that small samples still come from many places.
const MIN_PIECE_LEN: u64 = 64 << 10;
/// Maximum bytes of incompressible data, enough to measure the speed of any codec.
const MAX_NOISE_LEN: usize = 8 << 20;
/// Name of the incompressible data set.
pub const INCOMPRESSIBLE: &str = "incompressible";

/// A data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSet {
    /// Name in tables.
    pub name: String,
    /// Pieces that are cut into blocks separately.
    pub files: Vec<Vec<u8>>,
    /// Size of the data set before sampling.
    pub total: u64,
    /// Digest of the sample; results with the same digest are comparable.
    pub digest: String,
    /// Messages about files that could not be read.
    pub left_out: Vec<String>,
}

impl DataSet {
    fn new(name: String, files: Vec<Vec<u8>>, total: u64) -> Self {
        let digests: Vec<Digest> = files.iter().map(|file| Digest::of(file)).collect();
        let digest = Digest::of_all(&digests).short();
        DataSet { name, files, total, digest, left_out: Vec::new() }
    }

    /// Returns the size of the sample.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len() as u64).sum()
    }

    /// Generates memory-like data.
    pub fn memory(len: usize, seed: u64, shares: PageShares) -> Self {
        Self::new("memory".into(), vec![MemoryReader::bytes(seed, shares, len)], len as u64)
    }

    /// Generates incompressible data, which shows how early a codec gives up.
    pub fn incompressible(max_len: usize, seed: u64) -> Self {
        let mut bytes = vec![0; max_len.min(MAX_NOISE_LEN)];
        SeededRng::new(seed).fill(&mut bytes);
        let total = bytes.len() as u64;
        Self::new(INCOMPRESSIBLE.into(), vec![bytes], total)
    }

    /// Reads a file, or all files below a directory sorted by name: about `max_len` bytes at most, sampled evenly.
    /// Symbolic links are not followed. `progress` counts the bytes.
    pub fn read(path: &Path, max_len: u64, progress: &Progress) -> Result<Self> {
        let mut found = Vec::new();
        let mut left_out = Vec::new();
        let metadata = fs::metadata(path).map_err(Error::io(path))?;
        if metadata.is_dir() {
            list_files(path, &mut found, &mut left_out, progress);
        } else {
            found.push((path.to_owned(), metadata.len()));
        }
        let total: u64 = found.iter().map(|(_, len)| len).sum();
        let mut sampler = ShareSampler { total, max_len, seen: 0, taken: 0 };
        let piece_len = (max_len / 16).clamp(MIN_PIECE_LEN, MAX_PIECE_LEN);
        // All lengths are known before anything is read, so progress has an end.
        let select = |(path, len): (PathBuf, u64)| {
            let lens = (0..len.div_ceil(piece_len)).map(|number| (len - number * piece_len).min(piece_len));
            let pieces: Vec<bool> = lens.map(|len| sampler.take(len)).collect();
            pieces.contains(&true).then_some((path, pieces))
        };
        let selected: Vec<_> = found.into_iter().filter_map(select).collect();
        progress.enter(Phase::Read);
        Progress::add(&progress.total, sampler.taken);
        let mut files = Vec::new();
        for (path, pieces) in selected {
            match read_pieces(&path, piece_len, &pieces, progress) {
                Ok(read) => files.extend(read),
                Err(error) => left_out.push(format!("{}: {error}", display(&path))),
            }
        }
        files.retain(|file| !file.is_empty());
        if files.is_empty() {
            let why = left_out.first().map_or("there is no data in it", |_| "none of its files can be read");
            return Err(Error::Usage(format!("{}: {why}", display(path))));
        }
        Ok(DataSet { left_out, ..Self::new(shown_name(path), vec![files.concat()], total) })
    }
}

/// Reads only the selected pieces of a file, since a dump can have terabytes.
fn read_pieces(path: &Path, piece_len: u64, selected: &[bool], progress: &Progress) -> io::Result<Vec<Vec<u8>>> {
    let mut file = File::open(path)?;
    let mut pieces = Vec::new();
    for (number, _) in (0..).zip(selected).filter(|(_, selected)| **selected) {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(number * piece_len))?;
        file.by_ref().take(piece_len).read_to_end(&mut bytes)?;
        Progress::add(&progress.done, bytes.len() as u64);
        pieces.push(bytes);
    }
    Ok(pieces)
}

/// Numbers data sets with the same name, so that tables can distinguish them.
pub fn number_same_names(mut sets: Vec<DataSet>) -> Vec<Arc<DataSet>> {
    for at in 1..sets.len() {
        let same = sets[..at].iter().filter(|set| set.name == sets[at].name).count();
        if same > 0 {
            sets[at].name = format!("{} ({})", sets[at].name, same + 1);
        }
    }
    sets.into_iter().map(Arc::new).collect()
}

/// Selects pieces so that their share of the data so far stays constant.
struct ShareSampler {
    total: u64,
    max_len: u64,
    seen: u64,
    taken: u64,
}

impl ShareSampler {
    fn take(&mut self, len: u64) -> bool {
        self.seen += len;
        // 128 bits: lengths of dumps multiplied by sizes of samples exceed 64.
        let share = u128::from(self.seen) * u128::from(self.max_len) / u128::from(self.total.max(1));
        // Rounded to the nearest, so that one long piece does not use up the share of those after it.
        let take = self.total <= self.max_len || self.taken == 0 || u128::from(self.taken + len / 2) < share;
        self.taken += if take { len } else { 0 };
        take
    }
}

/// Returns the paths in a directory, sorted by name: directories list their entries in any order, and digests depend on
/// it.
pub(crate) fn sorted_paths(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    Ok(paths)
}

/// Returns the name of a file or directory for tables; its path if it has none.
pub(crate) fn shown_name(path: &Path) -> String {
    path.file_name().map_or_else(|| display(path).to_string(), |name| display(name).to_string())
}

/// Lists regular files below a directory with their lengths, sorted by name.
fn list_files(dir: &Path, found: &mut Vec<(PathBuf, u64)>, left_out: &mut Vec<String>, progress: &Progress) {
    let paths = match sorted_paths(dir) {
        Ok(paths) => paths,
        Err(error) => return left_out.push(format!("{}: {error}", display(dir))),
    };
    for path in paths {
        Progress::add(&progress.entries, 1);
        // Links are not followed: files would count twice, and a loop would never end.
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => list_files(&path, found, left_out, progress),
            Ok(metadata) if metadata.is_file() => found.push((path, metadata.len())),
            Ok(_) => {}
            Err(error) => left_out.push(format!("{}: {error}", display(&path))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    fn read(path: &Path, most: u64) -> Result<DataSet> {
        DataSet::read(path, most, &Progress::default())
    }

    #[test]
    fn files_are_read_in_order_one_after_the_other() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        for (name, text) in [("c", "three"), ("b/x", "two"), ("a", "one"), ("empty", "")] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        let data = read(dir.path(), 1 << 20).unwrap();
        assert_eq!(data.files, [b"onetwothree".to_vec()]);
        assert_eq!((data.bytes(), data.total), (11, 11));
        let progress = Progress::default();
        DataSet::read(dir.path(), 1 << 20, &progress).unwrap();
        assert_eq!([&progress.done, &progress.total].map(|bytes| bytes.load(Relaxed)), [11, 11]);
        assert_eq!(progress.entries.load(Relaxed), 6);
        assert_eq!(data.digest, read(dir.path(), 1 << 30).unwrap().digest);
        fs::write(dir.path().join("a"), "One").unwrap();
        assert_ne!(data.digest, read(dir.path(), 1 << 20).unwrap().digest);
    }

    #[test]
    fn of_much_an_even_sample_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..200u8 {
            fs::write(dir.path().join(format!("{number:03}")), vec![number; 10_000]).unwrap();
        }
        let data = read(dir.path(), 500_000).unwrap();
        assert!((490_000..=510_000).contains(&data.bytes()), "{}", data.bytes());
        let mean = data.files[0].iter().map(|byte| f64::from(*byte)).sum::<f64>() / data.bytes() as f64;
        assert!((95.0..105.0).contains(&mean), "{mean}");
        // A large file is sampled in pieces.
        let large: Vec<u8> = (0..10u8).flat_map(|piece| vec![piece; 1 << 20]).collect();
        fs::write(dir.path().join("large"), large).unwrap();
        let data = read(&dir.path().join("large"), 1 << 20).unwrap();
        assert!((15 << 16..=17 << 16).contains(&data.bytes()));
        assert!((0..10u8).all(|piece| data.files[0].contains(&piece)));
        assert_eq!(read(&dir.path().join("large"), 1).unwrap().bytes(), 64 << 10);
        // Other pieces are not read.
        File::create(dir.path().join("hole")).unwrap().set_len(1 << 36).unwrap();
        let data = read(&dir.path().join("hole"), 1 << 20).unwrap();
        assert!((15 << 16..=17 << 16).contains(&data.bytes()));
    }

    #[test]
    fn no_data_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let error = read(dir.path(), 1 << 20).unwrap_err().to_string();
        assert!(error.contains("no data"), "{error}");
        assert!(read(&dir.path().join("missing"), 1).unwrap_err().to_string().contains("missing"));
    }

    #[test]
    fn sets_of_one_name_get_numbers() {
        let set = |name: &str| DataSet::new(name.into(), vec![vec![1]], 1);
        let names: Vec<_> =
            number_same_names(vec![set("a"), set("b"), set("a")]).iter().map(|set| set.name.clone()).collect();
        assert_eq!(names, ["a", "b", "a (2)"]);
    }
}
