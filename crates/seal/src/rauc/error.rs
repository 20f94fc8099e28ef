//! Reasons for which RAUC refuses a bundle, or for which an image cannot become one.

use std::path::Path;

use packfs_blocks::name::display;

/// Something by which RAUC refuses a bundle, or by which an image cannot become one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// An image that has a tree and a signature already.
    #[error("it is a bundle already: seal the SquashFS image from which it was made")]
    AlreadyBundle,
    /// A file system that RAUC does not mount.
    #[error("the image is not SquashFS: RAUC mounts no other file system")]
    NotSquashfs,
    /// An image without a manifest.
    #[error("there is no manifest.raucm in the root directory of the image")]
    NoManifest,
    /// A manifest that is no key file.
    #[error("line {line} of the manifest: {why}")]
    ManifestSyntax {
        /// Number of the line, from 1 on.
        line: usize,
        /// Reason.
        why: &'static str,
    },
    /// A manifest that does not say for which systems the bundle is.
    #[error("the manifest has no compatible in [update]: it must name the systems that the bundle is for")]
    NoCompatible,
    /// A manifest of another format.
    #[error("the manifest has format={found:?} in [bundle], not format=verity")]
    ManifestFormat {
        /// The format; `plain` if there is none.
        found: String,
    },
    /// A key that is missing or has a value that RAUC refuses.
    #[error("{key} in [{section}] of the manifest {why}")]
    ManifestKey {
        /// Name of the section.
        section: String,
        /// Name of the key.
        key: &'static str,
        /// Defect of the key, as in `is missing`.
        why: &'static str,
    },
    /// A file that the manifest names, and that is not there.
    #[error("[{section}] of the manifest names {}, which is no file in the image", display(Path::new(file)))]
    MissingImage {
        /// Name of the section.
        section: String,
        /// Name of the file.
        file: String,
    },
    /// A file that is longer or shorter than the manifest says.
    #[error("{} has {len} bytes, but {size} by the manifest", display(Path::new(file)))]
    ImageSize {
        /// Name of the file.
        file: String,
        /// Length of the file in bytes.
        len: u64,
        /// Length by the manifest in bytes.
        size: u64,
    },
    /// A file with another digest than the manifest says. RAUC does not compare it, but remembers it.
    #[error(
        "{} has another SHA-256 than the manifest says, by which RAUC remembers what is installed",
        display(Path::new(file))
    )]
    ImageChecksum {
        /// Name of the file.
        file: String,
    },
}

impl BundleError {
    /// Returns the name by which programs know the mistake. It never changes.
    pub fn name(&self) -> &'static str {
        match self {
            BundleError::AlreadyBundle => "already-bundle",
            BundleError::NotSquashfs => "not-squashfs",
            BundleError::NoManifest => "no-manifest",
            BundleError::ManifestSyntax { .. } => "manifest-syntax",
            BundleError::NoCompatible => "no-compatible",
            BundleError::ManifestFormat { .. } => "manifest-format",
            BundleError::ManifestKey { .. } => "manifest-key",
            BundleError::MissingImage { .. } => "missing-image",
            BundleError::ImageSize { .. } => "image-size",
            BundleError::ImageChecksum { .. } => "image-checksum",
        }
    }
}
