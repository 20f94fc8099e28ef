//! The data to split: an existing file, or generated data.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use packfs_blocks::Digest;
use packfs_image::name::display;

use crate::corpus::{INCOMPRESSIBLE, shown_name};
use crate::memory::{MemoryReader, PageShares};
use crate::{Error, Result};

/// Bytes hashed at once. The digest is that of the digests of these pieces, so the length is a part of its definition.
const PIECE_LEN: usize = 1 << 20;

/// A file to split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitSource {
    /// Name in tables.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Length in bytes.
    pub bytes: u64,
    /// Digest: identifies the data, and verifies joined dumps.
    pub digest: String,
    /// True for an ELF core, the only input that makedumpfile splits.
    pub is_core: bool,
}

impl SplitSource {
    /// Opens an existing file.
    pub fn open(path: &Path) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(Error::io(path))?;
        if !metadata.is_file() {
            let path = display(path);
            return Err(Error::Usage(format!("{path}: not a regular file: it has to be read again and again")));
        }
        // An absolute path cannot be taken for an option.
        Self::of(std::path::absolute(path).map_err(Error::io(path))?, shown_name(path))
    }

    /// Creates a file of memory-like data.
    pub fn memory(path: PathBuf, bytes: u64, seed: u64, shares: PageShares) -> Result<Self> {
        generate(&path, bytes, seed, shares).map_err(Error::io(&path))?;
        let name = if shares == PageShares::default() { "memory".into() } else { format!("memory ({shares})") };
        Self::of(path, name)
    }

    /// Creates a file of incompressible data.
    pub fn incompressible(path: PathBuf, bytes: u64, seed: u64) -> Result<Self> {
        generate(&path, bytes, seed, "random=1".parse()?).map_err(Error::io(&path))?;
        Self::of(path, INCOMPRESSIBLE.into())
    }

    fn of(path: PathBuf, name: String) -> Result<Self> {
        let digest = digest(&path)?;
        let bytes = fs::metadata(&path).map_err(Error::io(&path))?.len();
        if bytes == 0 {
            return Err(Error::Usage(format!("{}: there is no data in it", display(&path))));
        }
        let is_core = is_core(&path).map_err(Error::io(&path))?;
        Ok(SplitSource { name, path, bytes, digest, is_core })
    }
}

fn generate(path: &Path, bytes: u64, seed: u64, shares: PageShares) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(PIECE_LEN, File::create_new(path)?);
    io::copy(&mut MemoryReader::new(seed, shares).take(bytes), &mut file)?;
    file.flush()
}

/// Returns the digest of a file in hexadecimal digits.
pub(super) fn digest(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(Error::io(path))?;
    let mut digests = Vec::new();
    let mut piece = Vec::with_capacity(PIECE_LEN);
    loop {
        piece.clear();
        (&mut file).take(PIECE_LEN as u64).read_to_end(&mut piece).map_err(Error::io(path))?;
        if piece.is_empty() {
            break;
        }
        digests.push(Digest::of(&piece));
    }
    Ok(Digest::of_all(&digests).short())
}

/// Returns true for an ELF core: a file with the class and byte order of this machine's cores and the type of a core.
fn is_core(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(18).read_to_end(&mut head)?;
    // `ET_CORE` in `e_type`.
    Ok(head.starts_with(b"\x7fELF") && head.get(16..18) == Some(&4u16.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_known_by_what_is_in_them() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let memory = SplitSource::memory(at("a"), 2_500_000, 1, PageShares::default()).unwrap();
        assert_eq!((memory.name.as_str(), memory.bytes, memory.is_core), ("memory", 2_500_000, false));
        assert_eq!(fs::read(at("a")).unwrap(), MemoryReader::bytes(1, PageShares::default(), 2_500_000));
        fs::copy(at("a"), at("core")).unwrap();
        let copy = SplitSource::open(&at("core")).unwrap();
        assert_eq!((copy.name.as_str(), &copy.digest), ("core", &memory.digest));
        let noise = SplitSource::incompressible(at("b"), 2_500_000, 1).unwrap();
        assert_ne!(noise.digest, memory.digest);
        let text = SplitSource::memory(at("c"), 5000, 1, "text=1".parse().unwrap()).unwrap();
        assert_eq!((text.name.as_str(), text.bytes), ("memory (text=1)", 5000));
    }

    #[test]
    fn cores_are_told_from_other_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut head = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x04\0".to_vec();
        fs::write(&path, &head).unwrap();
        assert!(SplitSource::open(&path).unwrap().is_core);
        head[16] = 2;
        fs::write(&path, &head).unwrap();
        assert!(!SplitSource::open(&path).unwrap().is_core);
    }

    #[test]
    fn what_cannot_be_split_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("empty"), "").unwrap();
        for (name, why) in [("empty", "no data"), (".", "not a regular file"), ("missing", "No such file")] {
            let error = SplitSource::open(&dir.path().join(name)).unwrap_err().to_string();
            assert!(error.contains(why), "{name}: {error}");
        }
    }
}
