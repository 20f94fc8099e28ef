//! Export: the way back from a layout whose layers are images to one whose layers are tar archives.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::Progress;
use packfs_image::Image;
use packfs_image::name::display;
use packfs_image::sink::compress::{StreamCompression, compressed};
use packfs_image::sink::tar;
use packfs_image::source::decompress;

use crate::destination::{DestinationOptions, ImageDestination, SOURCE_DIFF_ID, tar_record_of};
use crate::digest::{BlobDigest, BlobHasher, hash_all};
use crate::documents::{Descriptor, TAR_LAYER};
use crate::error::{Error, Result};
use crate::files::FileBytes;
use crate::layer::{LayerWarnings, open_image};
use crate::rewritten::{ConvertedImage, RewrittenPlatform, rewrite_images};
use crate::source::{ContainerSource, SourceLayer, SourcePlatform};
use crate::tar_record::rebuild_archive;
use crate::whiteouts::OciWhiteouts;

/// Bytes of an archive that wait for their writer at most: enough for any number of threads that one disk keeps up with.
const IN_FLIGHT: u64 = 16 << 20;
/// Compressions of layers that OCI has media types for.
const COMPRESSIONS: [&str; 2] = ["gzip", "zstd"];

/// Options of an export.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExportOptions {
    /// Compression of the layers, gzip or zstd; `None` for plain archives.
    pub compression: Option<StreamCompression>,
    /// True to replace images of the same names in the layout.
    pub force: bool,
    /// Number of threads that decode and compress; with 0, the calling one does.
    pub threads: usize,
    /// Number of bytes of data held at a time.
    pub memory: u64,
    /// Directory for layers that are sent to a registry.
    pub temporary_dir: PathBuf,
    /// Connections to registries.
    #[cfg(feature = "remote")]
    pub remote: packfs_remote::RemoteOptions,
}

impl Default for ExportOptions {
    fn default() -> Self {
        let tar = tar::TarOptions::default();
        ExportOptions {
            compression: None,
            force: false,
            threads: tar.threads,
            memory: tar.memory,
            temporary_dir: std::env::temp_dir(),
            #[cfg(feature = "remote")]
            remote: packfs_remote::RemoteOptions::default(),
        }
    }
}

packfs_blocks::options!(ExportOptions);

impl ExportOptions {
    fn destination(&self) -> DestinationOptions<'_> {
        DestinationOptions {
            force: self.force,
            temporary_dir: &self.temporary_dir,
            #[cfg(feature = "remote")]
            remote: &self.remote,
        }
    }

    fn media_type(&self) -> Result<String> {
        let unknown = || Error::unsupported("layers", "they are compressed with gzip or zstd, or not at all");
        layer_media_type(self.compression).ok_or_else(unknown)
    }
}

/// Returns the media type of tar layers with a compression; `None` if OCI has none for it.
pub fn layer_media_type(compression: Option<StreamCompression>) -> Option<String> {
    // Plain archives have the bare media type.
    let Some(compression) = compression else { return Some(TAR_LAYER.into()) };
    let compression = compression.to_string();
    let (name, _level) = compression.split_once(':')?;
    // The media type has no level.
    COMPRESSIONS.contains(&name).then(|| format!("{TAR_LAYER}+{name}"))
}

/// Result of an export.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ExportResult {
    /// Manifests, in the order of the source.
    pub images: Vec<ConvertedImage>,
    /// Layers, those of several images once.
    pub layers: Vec<ExportedLayer>,
    /// Warnings about layers.
    pub warnings: Vec<LayerWarnings>,
}

/// A layer that is a tar archive again.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExportedLayer {
    /// Digest of the image.
    pub source_digest: BlobDigest,
    /// Length of the image in bytes.
    pub source_bytes: u64,
    /// DiffID of the archive that the image was made of, if the layer has it.
    pub original_diff_id: Option<BlobDigest>,
    /// State of the record of that archive.
    pub record: RecordState,
    /// Digest of the archive without compression.
    pub diff_id: BlobDigest,
    /// Digest of the blob.
    pub digest: BlobDigest,
    /// Length of the blob in bytes.
    pub bytes: u64,
}

impl ExportedLayer {
    /// Returns true if the archive has the bytes of the one that the image was made of.
    pub fn is_exact(&self) -> bool {
        self.original_diff_id.as_ref() == Some(&self.diff_id)
    }
}

/// State of the record of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordState {
    /// The layer was converted without one.
    Unrecorded,
    /// The layer names one that is not in the source: programs that copy images leave it out.
    Missing,
    /// The archive was written with it.
    Used,
}

/// Writes the images of `source`, which [`ContainerSource::open_converted`] has opened, into the layout `target`, or into
/// a registry, with layers that are tar archives. A layer with a record, as a
/// [reversible](crate::ConvertOptions::reversible) conversion keeps it, has its diffID again. Others are packed by packfs:
/// the same files, with another diffID.
///
/// # Errors
/// [`Error::Damaged`] if a blob does not have its digest, or if a record does not lead to the archive that it stands for;
/// [`Error::Exists`] if the layout has an image of the same name.
pub fn export(
    source: &ContainerSource,
    target: &Path,
    options: &ExportOptions,
    progress: &Arc<Progress>,
) -> Result<ExportResult> {
    let media_type = options.media_type()?;
    // Names are checked before hours of work.
    let layout = options.destination().open(target, &source.names())?;
    let exported = ExportResult::default();
    let mut export =
        RunningExport { layout: &*layout, options, media_type, progress, archives: BTreeMap::new(), exported };
    let rewritten = rewrite_images(source, &*layout, |found| export.export_platform(found))?;
    let exported = ExportResult { images: rewritten.manifests, ..export.exported };
    packfs_image::Error::unless_cancelled(progress)?;
    layout.commit(rewritten.index)?;
    Ok(exported)
}

/// A layer that was exported.
#[derive(Clone)]
struct ArchivedLayer {
    descriptor: Descriptor,
    diff_id: BlobDigest,
}

struct RunningExport<'e> {
    layout: &'e dyn ImageDestination,
    options: &'e ExportOptions,
    media_type: String,
    progress: &'e Arc<Progress>,
    /// Layers by digest and annotations. Equal SquashFS images may be of different archives.
    archives: BTreeMap<(BlobDigest, BTreeMap<String, String>), ArchivedLayer>,
    exported: ExportResult,
}

impl RunningExport<'_> {
    /// Returns configuration and layers for one platform.
    fn export_platform(&mut self, found: &SourcePlatform) -> Result<RewrittenPlatform> {
        let mut layers = Vec::new();
        let mut diff_ids = Vec::new();
        for layer in &found.layers {
            let archive = self.export_layer(layer)?;
            diff_ids.push(archive.diff_id);
            layers.push(archive.descriptor);
        }
        let mut config = found.config.clone();
        config.set_diff_ids(&diff_ids);
        config.forget_erofs();
        let mut platform = found.platform.clone();
        platform.forget_erofs();
        Ok(RewrittenPlatform { config, platform, layers })
    }

    /// Writes the archive of a layer, unless it was written already.
    fn export_layer(&mut self, layer: &SourceLayer) -> Result<ArchivedLayer> {
        // By the digest, which is verified, where a diffID is only said. Annotations decide too: they name the archive that
        // the image was made of.
        let name = layer.digest.as_ref().unwrap_or(&layer.diff_id).clone();
        let key = (name, layer.annotations.clone());
        if let Some(known) = self.archives.get(&key) {
            return Ok(known.clone());
        }
        let number = self.archives.len();
        let mut archive = self.write_layer(layer, number)?;
        // Its own annotations tell of an image, which the layer no longer is.
        archive.descriptor.annotations = layer.foreign_annotations().collect();
        self.archives.insert(key, archive.clone());
        Ok(archive)
    }

    fn write_layer(&mut self, layer: &SourceLayer, number: usize) -> Result<ArchivedLayer> {
        let image_path = self.verified_image(layer, number)?;
        let image = open_image(&image_path)?;
        let original_diff_id = layer.annotations.get(SOURCE_DIFF_ID).and_then(|text| BlobDigest::parse(text));
        // Without a diffID, nobody could tell whether a record leads to the right archive.
        let record = layer.tar_record.as_ref().zip(original_diff_id.as_ref());
        let path = self.layout.work_path(&format!("archive-{number}"));
        let diff_id = match record {
            Some((record, original)) => {
                let name = record_name(layer);
                let diff_id =
                    self.write_archive(&path, original, |out| self.rebuild(layer, record, &name, image.image(), out))?;
                // Compared even though the record was right: the image may have changed.
                if diff_id != *original {
                    let why = format!("it does not lead to the archive with the diffID {original}, but to {diff_id}");
                    return Err(Error::damaged(name, why));
                }
                diff_id
            }
            None => {
                let mut warnings = None;
                // Some tools compare algorithms, so the diffID keeps that of the source.
                let like = original_diff_id.as_ref().unwrap_or(&layer.diff_id);
                let diff_id = self.write_archive(&path, like, |out| {
                    warnings = Some(self.pack(layer, image.image(), out)?);
                    Ok(())
                })?;
                self.exported.warnings.extend(warnings);
                diff_id
            }
        };
        let descriptor = self.layout.add_file(&path, &self.media_type)?;
        // Only a copy is removed.
        if layer.bytes.path().is_none() {
            std::fs::remove_file(&image_path).map_err(Error::io("cannot remove", &image_path))?;
        }
        let record = match (record, tar_record_of(&layer.annotations)) {
            (Some(_), _) => RecordState::Used,
            (None, Some(_)) => RecordState::Missing,
            (None, None) => RecordState::Unrecorded,
        };
        self.exported.layers.push(ExportedLayer {
            source_digest: layer.digest.clone().unwrap_or_else(|| layer.diff_id.clone()),
            source_bytes: layer.bytes.size,
            original_diff_id,
            record,
            diff_id: diff_id.clone(),
            digest: descriptor.digest.clone(),
            bytes: descriptor.size,
        });
        Ok(ArchivedLayer { descriptor, diff_id })
    }

    /// Returns a file with the image of a layer, whose digest is right: a copy, unless it is a file of this machine.
    fn verified_image(&self, layer: &SourceLayer, number: usize) -> Result<PathBuf> {
        if let Some(path) = layer.bytes.path() {
            // Hashed before it is opened as an image, so that nothing is made of a layer that was exchanged.
            let found = hash_all(layer.bytes.open()?, layer.digest.as_ref());
            layer.check_digest(&found.map_err(Error::io("cannot read", path))?)?;
            return Ok(path.to_owned());
        }
        let path = self.layout.work_path(&format!("image-{number}"));
        layer.copy_to(&path)?;
        Ok(path)
    }

    /// Writes an archive to `path`, compressed as the options say; returns its diffID, by the algorithm of `like`.
    fn write_archive(
        &self,
        path: &Path,
        like: &BlobDigest,
        write: impl FnOnce(&mut dyn Write) -> Result<()>,
    ) -> Result<BlobDigest> {
        let mut file = File::create(path).map_err(Error::io("cannot create", path))?;
        let hashed = |out: &mut dyn Write| {
            let mut out = HashedWriter { out, hasher: BlobHasher::new(Some(like)) };
            write(&mut out)?;
            Ok(out.hasher.finish())
        };
        let Some(compression) = self.options.compression else {
            // Headers and padding come in pieces of a few hundred bytes.
            let mut buffered = io::BufWriter::with_capacity(1 << 20, &mut file);
            let diff_id = hashed(&mut buffered)?;
            buffered.flush().map_err(Error::io("cannot write", path))?;
            return Ok(diff_id);
        };
        // Below the memory for one thread, one thread it is.
        let threads = compression.threads_within(self.options.threads, self.options.memory).unwrap_or(0);
        compressed(compression, &mut file, path, threads, |out| Ok(hashed(out)))?
    }

    /// Writes the archive that the image was made of.
    fn rebuild(
        &self,
        layer: &SourceLayer,
        record: &FileBytes,
        name: &str,
        image: &dyn Image,
        out: &mut dyn Write,
    ) -> Result<()> {
        let expected = tar_record_of(&layer.annotations).map(|record| record.digest);
        let stored = hash_all(record.open()?, expected.as_ref()).map_err(Error::io("cannot read", name))?;
        // Before it is decompressed: it decides about everything that is written.
        if expected.as_ref() != Some(&stored) {
            return Err(Error::damaged(name, format!("its bytes do not have this digest, but {stored}")));
        }
        let mut contents = decompress::reader(record.open()?, Path::new(name))?;
        rebuild_archive(&mut contents, name, image, out, self.progress)
    }

    /// Packs the files of the image as an archive.
    fn pack(&self, layer: &SourceLayer, image: &dyn Image, out: &mut dyn Write) -> Result<LayerWarnings> {
        let options = tar::TarOptions::default().set(|options| {
            options.threads = self.options.threads;
            // The rest of the memory belongs to the compression.
            options.memory = (self.options.memory / 2).min(IN_FLIGHT);
            options.name = layer.name.clone();
        });
        let summary = tar::write_tar(&OciWhiteouts(image), out, &options, self.progress)?;
        Ok(LayerWarnings { layer: layer.name.clone(), warnings: summary.warnings })
    }
}

/// Returns the name of the record of a layer for messages.
fn record_name(layer: &SourceLayer) -> String {
    let digest = tar_record_of(&layer.annotations).map(|record| record.digest.to_string()).unwrap_or_default();
    format!("{}: tar record {digest}", display(&layer.name))
}

/// Bytes that are hashed as they are written.
struct HashedWriter<'o> {
    out: &'o mut dyn Write,
    hasher: BlobHasher,
}

impl Write for HashedWriter<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let len = self.out.write(buf)?;
        self.hasher.update(&buf[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
