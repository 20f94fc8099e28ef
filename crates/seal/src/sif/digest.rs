//! Digests of objects as signatures name them: `sha256:` and hexadecimal digits.

use std::collections::BTreeMap;
use std::sync::Arc;

use packfs_blocks::{Progress, ReadAt};
use sha2::digest::DynDigest;
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};

use crate::error::{Error, Result};
use crate::hex::to_hex;

/// Bytes that are read and hashed at a time.
const PIECE_LEN: usize = 1 << 20;

/// The function with which packfs signs, as Apptainer does.
pub(super) const USUAL_NAME: &str = "sha256";

/// Returns a hash function by its name in a digest; `None` for one that Apptainer does not know either.
fn hasher(name: &str) -> Option<Box<dyn DynDigest>> {
    Some(match name {
        "sha224" => Box::new(Sha224::default()),
        "sha256" => Box::new(Sha256::default()),
        "sha384" => Box::new(Sha384::default()),
        "sha512" => Box::new(Sha512::default()),
        "sha512_224" => Box::new(Sha512_224::default()),
        "sha512_256" => Box::new(Sha512_256::default()),
        _ => return None,
    })
}

/// Returns the digest of bytes by a function, with its name before it; `None` for an unknown one.
pub(super) fn digest_bytes(name: &str, bytes: &[u8]) -> Option<String> {
    let mut hasher = hasher(name)?;
    hasher.update(bytes);
    Some(finish(name, hasher))
}

/// Returns the digest of what was hashed, with the name of the function before it.
fn finish(name: &str, mut hasher: Box<dyn DynDigest>) -> String {
    let mut digest = vec![0; hasher.output_size()];
    hasher.finalize_into_reset(&mut digest).expect("the buffer has the length of a digest");
    format!("{name}:{}", to_hex(&digest))
}

/// Returns the name of the function of a digest.
pub(crate) fn function_of(digest: &str) -> &str {
    digest.split_once(':').map_or(digest, |(name, _)| name)
}

/// Digests of objects. Each object is read once for each function, however many signatures name it.
#[derive(Debug)]
pub(crate) struct ObjectDigests<'p> {
    file: Arc<dyn ReadAt>,
    progress: &'p Progress,
    /// By function and byte range.
    known: BTreeMap<(String, u64, u64), String>,
}

impl<'p> ObjectDigests<'p> {
    pub(crate) fn new(file: &Arc<dyn ReadAt>, progress: &'p Progress) -> Self {
        ObjectDigests { file: Arc::clone(file), progress, known: BTreeMap::new() }
    }

    /// Returns the digest of the `len` bytes from `start` on; `None` for an unknown function.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Interrupted`].
    pub(crate) fn of_range(&mut self, name: &str, start: u64, len: u64) -> Result<Option<String>> {
        let range = (name.to_owned(), start, len);
        if let Some(digest) = self.known.get(&range) {
            return Ok(Some(digest.clone()));
        }
        let Some(mut hasher) = hasher(name) else { return Ok(None) };
        let mut piece = vec![0; PIECE_LEN];
        let mut done = 0;
        while done < len {
            if self.progress.is_cancelled() {
                return Err(Error::Interrupted);
            }
            let piece_len = usize::try_from(len - done).map_or(PIECE_LEN, |rest| rest.min(PIECE_LEN));
            let bytes = &mut piece[..piece_len];
            self.file.read_exact_at(bytes, start + done).map_err(Error::io("cannot read the image"))?;
            hasher.update(bytes);
            done += piece_len as u64;
        }
        let digest = finish(name, hasher);
        self.known.insert(range, digest.clone());
        Ok(Some(digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_its_own_digest_and_unknown_ones_none() {
        let data: Arc<dyn ReadAt> = Arc::new(b"xabcx".to_vec());
        let progress = Progress::default();
        let mut digests = ObjectDigests::new(&data, &progress);
        let names = ["sha224", "sha256", "sha384", "sha512", "sha512_224", "sha512_256"];
        let mut texts: Vec<String> = Vec::new();
        for name in names {
            let digest = digests.of_range(name, 1, 3).unwrap().unwrap();
            assert_eq!(Some(&digest), digest_bytes(name, b"abc").as_ref());
            assert_eq!(digests.of_range(name, 1, 3).unwrap(), Some(digest.clone()));
            assert_eq!(function_of(&digest), name);
            texts.push(digest[name.len()..].to_owned());
        }
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), names.len());
        assert_eq!(digests.of_range("md5", 0, 1).unwrap(), None);
        progress.cancel();
        assert!(matches!(digests.of_range("sha256", 0, 5), Err(Error::Interrupted)));
    }
}
