//! One layer: a tar archive that is verified while it becomes an image.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use packfs_blocks::mutex;
use packfs_blocks::{Progress, ReadAt};
use packfs_image::build::{AnyOptions, Plan};
use packfs_image::name::display;
use packfs_image::source::{Source, Store, archive, decompress};
use packfs_image::tree::WhiteoutPolicy;
use packfs_image::{AnyImage, Error as ImageError, FileAt, OnError, OpenOptions, Tree, Warnings};

use crate::digest::{BlobDigest, BlobHasher, hash_all};
use crate::error::{Error, Result};
use crate::files::FileBytes;
use crate::source::SourceLayer;

/// Bytes that are copied at a time: more than a pipe holds, and few enough to stay in the cache of a processor.
const COPY_LEN: usize = 256 << 10;

/// A layer of a converted image.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConvertedLayer {
    /// Digest of the uncompressed archive.
    pub source_diff_id: BlobDigest,
    /// Length in bytes of the archive as stored.
    pub source_bytes: u64,
    /// Digest of the image, which is also its diffID.
    pub digest: BlobDigest,
    /// Length of the image in bytes.
    pub bytes: u64,
    /// True if the image was there already.
    pub is_reused: bool,
}

/// Builds the image of a layer at `target`. Deleted files become what overlayfs has for them.
pub(crate) fn build_layer(
    layer: &SourceLayer,
    target: &Path,
    options: &AnyOptions,
    progress: &Progress,
) -> Result<Warnings> {
    let mut options = options.clone();
    if let AnyOptions::Erofs(erofs) = &mut options {
        // As containerd names the image of a layer, so that its cache finds it.
        erofs.uuid = Some(layer.diff_id.layer_uuid());
    }
    let summary = options.build(target, progress, |store| {
        let mut tree = Tree::default();
        read_verified(layer, |contents| {
            let archive = archive::from_stream(contents, &layer.name, archive::Options::default())?;
            let advice = "; if a lower layer has it, make one layer of all (`--flatten`)";
            scan_whole(archive, layer, advice, &mut tree, store)
        })?;
        // After all members: a whiteout may come before what it hides.
        WhiteoutPolicy::Overlay.apply(&mut tree)?;
        Ok(Plan { tree, order: Vec::new() })
    })?;
    Ok(summary.warnings)
}

/// Builds one image of layers at `target`, the lowest first, with nothing in it that a layer deletes. Each layer is in a file
/// without compression, as [`decompress_layer`] writes it: what a later layer replaces is then never packed.
pub(crate) fn build_flattened(
    layers: &[SourceLayer],
    files: &[PathBuf],
    target: &Path,
    options: &AnyOptions,
    progress: &Progress,
) -> Result<Warnings> {
    let summary = options.build(target, progress, |store| {
        let mut tree = Tree::default();
        for (layer, file) in layers.iter().zip(files) {
            // Marks for deleted files act at once, as when layers are unpacked one over the other.
            tree.begin_layer(WhiteoutPolicy::Strip);
            let bytes = FileAt::open(file, 0).map_err(ImageError::io("cannot open", file))?;
            let archive = archive::from_bytes(Arc::new(bytes), &layer.name, archive::Options::default())?;
            scan_whole(archive, layer, "", &mut tree, store)?;
        }
        WhiteoutPolicy::Strip.apply(&mut tree)?;
        // There is no layer below, so those of overlayfs have nothing to hide.
        WhiteoutPolicy::StripOverlay.apply(&mut tree)?;
        Ok(Plan { tree, order: Vec::new() })
    })?;
    Ok(summary.warnings)
}

/// Writes a layer to a file without compression; fails unless its bytes have the digests that the image names.
pub(crate) fn decompress_layer(layer: &SourceLayer, target: &Path, progress: &Progress) -> Result<()> {
    let mut file = File::create(target).map_err(Error::io("cannot create", target))?;
    read_verified(layer, |contents| copy_contents(contents, layer, &mut file, target, progress))?;
    Ok(())
}

/// Copies the decompressed bytes of a layer, until it is cancelled.
fn copy_contents(
    contents: Box<dyn Read + Send>,
    layer: &SourceLayer,
    file: &mut File,
    target: &Path,
    progress: &Progress,
) -> packfs_image::Result<()> {
    let mut contents = contents;
    let mut buffer = vec![0; COPY_LEN];
    loop {
        ImageError::unless_cancelled(progress)?;
        let len = contents.read(&mut buffer).map_err(ImageError::io("cannot read", &layer.name))?;
        if len == 0 {
            return Ok(());
        }
        file.write_all(&buffer[..len]).map_err(ImageError::io("cannot write", target))?;
    }
}

/// Lists the archive of a layer; fails if it cannot be listed as a whole, with `advice` after the reason.
fn scan_whole(
    archive: Box<dyn Source>,
    layer: &SourceLayer,
    advice: &str,
    tree: &mut Tree,
    store: &mut dyn Store,
) -> packfs_image::Result<()> {
    let mut archive = archive;
    archive.scan(tree, store)?;
    match archive.left_out().first() {
        None => Ok(()),
        // A layer with a file missing would be a different one, and nobody reads warnings of containers.
        Some(reason) => Err(ImageError::Unsupported(format!("{}: {reason}{advice}", display(&layer.name)))),
    }
}

/// Calls `read` with the decompressed bytes of a layer; fails unless its bytes have the digests that the image names.
fn read_verified(
    layer: &SourceLayer,
    read: impl FnOnce(Box<dyn Read + Send>) -> packfs_image::Result<()>,
) -> packfs_image::Result<()> {
    let damaged = |why: String| ImageError::Damaged { path: layer.name.clone(), why };
    let stored = layer.bytes.open().map_err(|error| error.into_image_error(&layer.name))?;
    let stored = SharedReader::new(HashedReader::new(stored, layer.digest.as_ref()));
    let hashed = hash_contents(layer, stored.clone(), read);
    if let Err(error) = &hashed
        && !shows_damage(error)
    {
        return hashed.map(drop);
    }
    // What follows the compressed archive belongs to the blob. And damage is best told by the digest, wherever it
    // shows.
    let drained = stored.drain();
    let digest = stored.into_digest();
    if let (Ok(()), Some(expected), Some(found)) = (&drained, &layer.digest, digest)
        && found != *expected
    {
        return Err(damaged(format!("its bytes do not have the digest {expected}, but {found}")));
    }
    let found = hashed?;
    drained.map_err(ImageError::io("cannot read", &layer.name))?;
    if found != layer.diff_id {
        let expected = &layer.diff_id;
        return Err(damaged(format!("without compression it does not have the diffID {expected}, but {found}")));
    }
    Ok(())
}

/// Returns false for errors that have nothing to do with the bytes of a layer, as on a full disk: the rest of the layer
/// then need not be read.
fn shows_damage(error: &ImageError) -> bool {
    OnError::Skip.skips(error)
}

/// Calls `read` with the decompressed bytes of a layer; returns the digest of all of them.
fn hash_contents(
    layer: &SourceLayer,
    stored: SharedReader,
    read: impl FnOnce(Box<dyn Read + Send>) -> packfs_image::Result<()>,
) -> packfs_image::Result<BlobDigest> {
    let contents = decompress::reader(Box::new(stored), &layer.name)?;
    let contents = SharedReader::new(HashedReader::new(contents, Some(&layer.diff_id)));
    read(Box::new(contents.clone()))?;
    // The digest counts all bytes, also those past the end of the archive.
    contents.drain().map_err(ImageError::io("cannot read", &layer.name))?;
    contents.into_digest().ok_or_else(|| ImageError::Misuse("a layer was hashed twice".into()))
}

/// Bytes that are hashed as they are read.
pub(crate) struct HashedReader {
    from: Box<dyn Read + Send>,
    hasher: BlobHasher,
}

impl HashedReader {
    /// Reads `from`; computes a digest by the algorithm of another one, or by SHA-256.
    pub(crate) fn new(from: Box<dyn Read + Send>, like: Option<&BlobDigest>) -> Self {
        HashedReader { from, hasher: BlobHasher::new(like) }
    }

    /// Returns the digest of all that was read.
    pub(crate) fn into_digest(self) -> BlobDigest {
        self.hasher.finish()
    }
}

impl Read for HashedReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.from.read(buf)?;
        self.hasher.update(&buf[..len]);
        Ok(len)
    }
}

/// A reader that is still there after whoever read it is gone.
#[derive(Clone)]
struct SharedReader(Arc<Mutex<Option<HashedReader>>>);

impl SharedReader {
    fn new(reader: HashedReader) -> Self {
        SharedReader(Arc::new(Mutex::new(Some(reader))))
    }

    /// Reads what is left.
    fn drain(&self) -> io::Result<()> {
        io::copy(&mut self.clone(), &mut io::sink()).map(drop)
    }

    /// Returns the digest of all that was read; `None` if it was taken already.
    fn into_digest(self) -> Option<BlobDigest> {
        let reader = mutex::lock(&self.0).take();
        reader.map(HashedReader::into_digest)
    }
}

impl Read for SharedReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut reader = mutex::lock(&self.0);
        // A panic in another thread leaves a reader that is still sound: its next error tells more.
        reader.as_mut().map_or(Ok(0), |reader| reader.read(buf))
    }
}

/// Opens the image of a layer in a file.
pub(crate) fn open_image(path: &Path) -> Result<AnyImage> {
    let bytes = FileAt::open(path, 0).map_err(Error::io("cannot open", path))?;
    open_image_bytes(path, Arc::new(bytes))
}

/// Opens the image of a layer; `name` is for messages.
pub(crate) fn open_image_bytes(name: &Path, bytes: Arc<dyn ReadAt>) -> Result<AnyImage> {
    let options = OpenOptions::default().set(|options| options.name = name.to_owned());
    Ok(AnyImage::open(bytes, options)?)
}

/// Returns digest and length of a file that was built.
pub(crate) fn hash_file(path: &Path) -> Result<(BlobDigest, u64)> {
    // It can only have been removed by another program.
    let missing = || Error::damaged(display(path), "it was built, and is gone");
    let bytes = FileBytes::of_file(path)?.ok_or_else(missing)?;
    let digest = hash_all(bytes.open()?, None).map_err(Error::io("cannot read", path))?;
    Ok((digest, bytes.size))
}

/// Warnings about a layer, with its name.
#[derive(Debug)]
#[non_exhaustive]
pub struct LayerWarnings {
    /// The layer; of a flattened image, its last one.
    pub layer: PathBuf,
    /// Its warnings.
    pub warnings: Warnings,
}
