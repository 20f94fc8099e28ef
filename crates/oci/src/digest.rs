//! Digests that name blobs, and the UUIDs that containerd derives from them.

use std::fmt;
use std::io::{self, Read};

use packfs_blocks::hex::to_hex;
use ring::digest::{Algorithm, Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512};
use serde::{Deserialize, Serialize};

/// Digest of a blob: `sha256:` or `sha512:` and lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobDigest {
    algorithm: DigestAlgorithm,
    hex: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum DigestAlgorithm {
    Sha256,
    Sha512,
}

impl DigestAlgorithm {
    fn name(self) -> &'static str {
        match self {
            DigestAlgorithm::Sha256 => "sha256",
            DigestAlgorithm::Sha512 => "sha512",
        }
    }

    fn implementation(self) -> &'static Algorithm {
        match self {
            DigestAlgorithm::Sha256 => &SHA256,
            DigestAlgorithm::Sha512 => &SHA512,
        }
    }
}

impl BlobDigest {
    /// Parses a digest. A digest becomes a part of paths, so nothing but hexadecimal digits is accepted.
    pub fn parse(text: &str) -> Option<Self> {
        // Runs on untrusted documents: neither `..` nor a slash may reach a path.
        let (name, hex) = text.split_once(':')?;
        let algorithm = match name {
            "sha256" => DigestAlgorithm::Sha256,
            "sha512" => DigestAlgorithm::Sha512,
            _ => return None,
        };
        let is_hex = hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_whole = hex.len() == 2 * algorithm.implementation().output_len();
        (is_hex && is_whole).then(|| BlobDigest { algorithm, hex: hex.into() })
    }

    /// Returns the SHA-256 digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = BlobHasher::new(None);
        hasher.update(bytes);
        hasher.finish()
    }

    /// Name of the algorithm, `sha256` or `sha512`.
    pub fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// Hexadecimal digits.
    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// Path of the blob in a layout.
    pub(crate) fn blob_path(&self) -> String {
        format!("blobs/{}/{}", self.algorithm(), self.hex)
    }

    /// UUID of the EROFS image of the layer with this diffID, as containerd's converter and cache have it: version 5
    /// in the name space of URLs.
    pub(crate) fn layer_uuid(&self) -> [u8; 16] {
        /// Name space of URLs in RFC 9562.
        const URLS: [u8; 16] =
            [0x6b, 0xa7, 0xb8, 0x11, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8];
        // SHA-1 is what version 5 means. Nothing relies on its strength here.
        let mut hashed = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        hashed.update(&URLS);
        // The text that containerd's converter hashes.
        hashed.update(format!("erofs:blobs/{self}").as_bytes());
        let hash = hashed.finish();
        let mut uuid: [u8; 16] = *hash.as_ref().first_chunk().expect("SHA-1 has 20 bytes");
        // Version and variant, in the bits that RFC 9562 gives them.
        uuid[6] = uuid[6] & 0x0f | 0x50;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuid
    }
}

impl fmt::Display for BlobDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm(), self.hex)
    }
}

impl TryFrom<String> for BlobDigest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        BlobDigest::parse(&text).ok_or_else(|| {
            format!("the digest {text:?} is neither sha256: with 64 nor sha512: with 128 hexadecimal digits")
        })
    }
}

impl From<BlobDigest> for String {
    fn from(digest: BlobDigest) -> String {
        digest.to_string()
    }
}

/// Computes a digest of bytes that pass by.
pub(crate) struct BlobHasher {
    algorithm: DigestAlgorithm,
    context: Context,
}

impl BlobHasher {
    /// Begins a digest by the algorithm of another one, or by SHA-256.
    pub(crate) fn new(like: Option<&BlobDigest>) -> Self {
        let algorithm = like.map_or(DigestAlgorithm::Sha256, |other| other.algorithm);
        BlobHasher { algorithm, context: Context::new(algorithm.implementation()) }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
    }

    pub(crate) fn finish(self) -> BlobDigest {
        let hex = to_hex(self.context.finish().as_ref());
        BlobDigest { algorithm: self.algorithm, hex }
    }
}

/// Reads everything, and returns its digest by the algorithm of another one, or by SHA-256.
pub(crate) fn hash_all(mut from: impl Read, like: Option<&BlobDigest>) -> io::Result<BlobDigest> {
    let mut hasher = BlobHasher::new(like);
    let mut buf = vec![0; 256 << 10];
    loop {
        match from.read(&mut buf) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(len) => hasher.update(&buf[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hexadecimal_digits_are_digests() {
        let hex = "0123456789abcdef".repeat(4);
        assert_eq!(BlobDigest::parse(&format!("sha256:{hex}")).unwrap().to_string(), format!("sha256:{hex}"));
        assert!(BlobDigest::parse(&format!("sha512:{hex}{hex}")).is_some());
        let traversal = format!("sha256:../../{}", &hex[6..]);
        for wrong in ["", "sha256", "sha256:", "md5:00", &format!("sha512:{hex}"), &traversal, &hex.to_uppercase()] {
            assert!(BlobDigest::parse(wrong).is_none(), "{wrong}");
        }
    }

    /// The digest is that of an empty string by sha256sum; the UUID comes from Python's
    /// `uuid.uuid5(uuid.NAMESPACE_URL, ...)`.
    #[test]
    fn digests_and_uuids_are_those_of_other_programs() {
        let digest = BlobDigest::of(b"");
        assert_eq!(digest.hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(to_hex(&digest.layer_uuid()), "0f8a237d48ca5305ba9fd2efb00fcd98");
    }
}
