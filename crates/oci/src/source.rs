//! Container images to convert: in an OCI layout, in an archive of `docker save`, or made of tar layers.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_image::name::display;
use packfs_image::source::decompress;
use serde::Deserialize;

use crate::destination::{OWN_ANNOTATIONS, tar_record_of};
use crate::digest::{BlobDigest, hash_all};
use crate::documents::{
    Descriptor, EROFS_LAYER, INDEXES, ImageConfig, Index, KeptFields, Manifest, Platform, REF_NAME, SQUASHFS_LAYER,
    TAR_LAYER,
};
use crate::error::{Error, Result};
use crate::files::{FileBytes, FileSet};
use crate::layer::HashedReader;

/// Greatest depth of nested indexes. Layouts have one below `index.json`; a few more do no harm, and recursion ends.
const NESTING_MAX: usize = 4;
/// Length in bytes of all documents of a source at most. A layout of 500 images for ten platforms has about 60 MB of
/// them. A list may name another one a thousand times, and that the next: without a limit, reading would never end.
const ALL_DOCUMENTS_MAX: u64 = 128 << 20;
/// Bytes that even the smallest document, and the smallest entry of a list, count for in [`ALL_DOCUMENTS_MAX`].
const DOCUMENT_MIN: u64 = 4 << 10;
/// Number of layers of an image at most, far more than overlayfs takes: each becomes a file.
const LAYERS_MAX: usize = 4096;
/// Media types of layers that are tar archives, without the ending that names their compression.
const TAR_LAYERS: [&str; 2] = [TAR_LAYER, "application/vnd.docker.image.rootfs.diff.tar"];
/// Media types of layers that are images.
const IMAGE_LAYERS: [&str; 2] = [EROFS_LAYER, SQUASHFS_LAYER];
/// Schemes of addresses of registries.
const REGISTRY_SCHEMES: [&str; 2] = ["oci", "oci+http"];
/// Architecture and operating system of manifests that are attached to others, as attestations.
const UNKNOWN: &str = "unknown";

/// Which images of a source to take.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SourceOptions {
    /// Name of the only image to take; without, all images are taken.
    pub image: Option<String>,
    /// Platforms to take; none for all.
    pub platforms: Vec<Platform>,
    /// Directory for copies of what cannot be read twice.
    pub temporary_dir: PathBuf,
    /// Form of the layers of images.
    pub(crate) layer_form: LayerForm,
    /// Connections to registries.
    #[cfg(feature = "remote")]
    pub remote: packfs_remote::RemoteOptions,
}

/// Form of the layers that are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum LayerForm {
    /// Tar archives, possibly compressed.
    #[default]
    Tar,
    /// EROFS images.
    Erofs,
    /// Images of any format, as a conversion writes them.
    Image,
}

impl Default for SourceOptions {
    fn default() -> Self {
        SourceOptions {
            image: None,
            platforms: Vec::new(),
            temporary_dir: std::env::temp_dir(),
            layer_form: LayerForm::default(),
            #[cfg(feature = "remote")]
            remote: packfs_remote::RemoteOptions::default(),
        }
    }
}

packfs_blocks::options!(SourceOptions);

/// Container images, with layers that were not read yet.
#[derive(Debug)]
pub struct ContainerSource {
    pub(crate) images: Vec<SourceImage>,
    /// Fields of the `index.json`.
    pub(crate) layout: KeptFields,
    /// Digests of the documents and layers, which a conversion replaces.
    pub(crate) digests: BTreeSet<BlobDigest>,
}

/// An image for one platform or more.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceImage {
    pub(crate) name: Option<String>,
    /// Fields of its entry in the `index.json`.
    pub(crate) entry: KeptFields,
    /// True if an index lists the platforms.
    pub(crate) is_index: bool,
    /// Fields of that index.
    pub(crate) index: KeptFields,
    pub(crate) platforms: Vec<Arc<SourcePlatform>>,
    /// Platforms that are not wanted, for messages.
    others: Vec<Platform>,
}

impl SourceImage {
    fn new(name: Option<String>) -> Self {
        SourceImage { name, ..SourceImage::default() }
    }

    /// Notes a platform that is not among those `wanted`; returns true if it is one of them.
    fn wants(&mut self, platform: &Platform, wanted: &[Platform]) -> bool {
        // Without a list, every platform is wanted.
        let is_wanted = wanted.is_empty() || wanted.iter().any(|wanted| platform.is_meant_by(wanted));
        if !is_wanted {
            // Kept for the message: whoever named the wrong platform sees which there are.
            self.others.push(platform.clone());
        }
        is_wanted
    }
}

/// An image for one platform.
#[derive(Debug)]
pub(crate) struct SourcePlatform {
    pub(crate) platform: Platform,
    pub(crate) config: ImageConfig,
    /// Fields of the entry in the index.
    pub(crate) entry: KeptFields,
    /// Fields of the manifest.
    pub(crate) manifest: KeptFields,
    /// Fields of the manifest's entry for the configuration.
    pub(crate) config_entry: KeptFields,
    pub(crate) layers: Vec<SourceLayer>,
}

impl SourcePlatform {
    /// Makes a platform without a manifest.
    fn new(platform: Platform, config: ImageConfig, layers: Vec<SourceLayer>) -> Self {
        SourcePlatform {
            platform,
            config,
            entry: KeptFields::default(),
            manifest: KeptFields::default(),
            config_entry: KeptFields::default(),
            layers,
        }
    }
}

/// A tar archive, possibly compressed.
#[derive(Debug, Clone)]
pub(crate) struct SourceLayer {
    /// Name for messages.
    pub(crate) name: PathBuf,
    pub(crate) bytes: FileBytes,
    /// Digest of the bytes as stored, if the source has one.
    pub(crate) digest: Option<BlobDigest>,
    /// Digest of the archive without compression.
    pub(crate) diff_id: BlobDigest,
    pub(crate) annotations: BTreeMap<String, String>,
    /// The record of the archive that an image was made of. It is looked for only if images are wanted.
    pub(crate) tar_record: Option<FileBytes>,
}

impl SourceLayer {
    /// Makes a layer without documents of its own.
    fn new(name: PathBuf, bytes: FileBytes, diff_id: BlobDigest) -> Self {
        SourceLayer { name, bytes, digest: None, diff_id, annotations: BTreeMap::new(), tar_record: None }
    }

    /// Returns the annotations that packfs did not write: its own tell of this blob.
    pub(crate) fn foreign_annotations(&self) -> impl Iterator<Item = (String, String)> {
        let foreign = self.annotations.iter().filter(|(name, _)| !name.starts_with(OWN_ANNOTATIONS));
        foreign.map(|(name, value)| (name.clone(), value.clone()))
    }

    /// Copies the blob to `path`; returns the layer with the copy in its place. Fails if its digest is another one.
    pub(crate) fn copy_to(&self, path: &Path) -> Result<Self> {
        let mut from = HashedReader::new(self.bytes.open()?, self.digest.as_ref());
        let mut file = File::create(path).map_err(Error::io("cannot create", path))?;
        io::copy(&mut from, &mut file).map_err(Error::io("cannot copy", &self.name))?;
        self.check_digest(&from.into_digest())?;
        let bytes = FileBytes::of_file(path)?.ok_or_else(|| missing_file(path))?;
        Ok(SourceLayer { bytes, ..self.clone() })
    }

    /// Fails if the blob has a digest, and it is another one than that of the bytes that were read.
    pub(crate) fn check_digest(&self, found: &BlobDigest) -> Result<()> {
        match &self.digest {
            Some(expected) if expected != found => {
                let why = format!("its bytes do not have the digest {expected}, but {found}");
                Err(Error::damaged(display(&self.name), why))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the address of an image in a registry, if `path` is one.
pub(crate) fn registry_address(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    // Schemes are compared without case (RFC 3986, 3.1).
    REGISTRY_SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)).then_some(text)
}

impl ContainerSource {
    /// Opens an OCI layout (a directory or a tar archive), an archive of `docker save`, an image in a registry
    /// (`oci://REGISTRY/NAME:TAG`), or tar layers, the lowest first. All documents are read and verified; layers are not.
    pub fn open(paths: &[PathBuf], options: &SourceOptions) -> Result<Self> {
        let source = match paths {
            #[cfg(feature = "remote")]
            [path] if registry_address(path).is_some() => open_registry(path, options)?,
            [path] if path.is_dir() => OpenSource::new(FileSet::Directory(path.clone()), options).read_layout()?,
            [path] => open_file(path, options)?,
            layers => of_layers(layers, options)?,
        };
        source.choose(&paths.first().cloned().unwrap_or_default(), options)
    }

    /// Opens a layout (a directory or a tar archive of it) or an image in a registry whose layers are images, as
    /// [`convert`](crate::convert()) writes them. All documents are read and verified; layers are not.
    pub fn open_converted(path: &Path, options: &SourceOptions) -> Result<Self> {
        let mut options = options.clone();
        options.layer_form = LayerForm::Image;
        Self::open(&[path.to_owned()], &options)
    }

    /// Keeps the images that are wanted; fails if one of them has no wanted platform.
    fn choose(mut self, source_name: &Path, options: &SourceOptions) -> Result<Self> {
        let no_match = |wanted: String, available: Vec<String>, nothing: &str| {
            let available = if available.is_empty() { nothing.to_owned() } else { available.join(", ") };
            Err(Error::NoMatch { source_name: source_name.to_owned(), wanted, available })
        };
        let images = &mut self.images;
        if let Some(wanted) = &options.image {
            let names = images.iter().filter_map(|image| image.name.clone()).collect();
            images.retain(|image| image.name.as_ref() == Some(wanted));
            if images.is_empty() {
                return no_match(wanted.clone(), names, "no names");
            }
        }
        if images.is_empty() {
            return Err(Error::unsupported(display(source_name), "its index lists no images"));
        }
        if let Some(image) = images.iter().find(|image| image.platforms.is_empty()) {
            let wanted: Vec<String> = options.platforms.iter().map(Platform::to_string).collect();
            if wanted.is_empty() {
                let name = image.name.as_deref().unwrap_or("without a name");
                let why =
                    format!("the image {name} has nothing but attachments of other images: choose another --image");
                return Err(Error::unsupported(display(source_name), why));
            }
            let available = image.others.iter().map(Platform::to_string).collect();
            return no_match(format!("for {}", wanted.join(" or ")), available, "no platforms");
        }
        Ok(self)
    }

    /// Makes a source whose documents have no digests.
    fn of_images(images: Vec<SourceImage>) -> Self {
        ContainerSource { images, layout: KeptFields::default(), digests: BTreeSet::new() }
    }

    /// Returns the names of the images.
    pub(crate) fn names(&self) -> Vec<Option<&str>> {
        self.images.iter().map(|image| image.name.as_deref()).collect()
    }

    /// Returns all layers, those of several images once, in the order of the images.
    pub(crate) fn unique_layers(&self) -> Vec<&SourceLayer> {
        let mut layers: Vec<&SourceLayer> = Vec::new();
        let mut known = BTreeSet::new();
        for layer in self.images.iter().flat_map(|image| &image.platforms).flat_map(|found| &found.layers) {
            if known.insert(&layer.diff_id) {
                layers.push(layer);
            }
        }
        layers
    }
}

/// Opens a file: an archive that holds images, or else a layer.
fn open_file(path: &Path, options: &SourceOptions) -> Result<ContainerSource> {
    if FileBytes::of_file(path)?.is_none() {
        return Err(missing_file(path));
    }
    let marks = ["index.json", "manifest.json"];
    let opened = FileSet::of_archive(path, &marks, &options.temporary_dir).map_err(|error| match error {
        // It knows the place in the bytes, and not whose bytes they are.
        Error::Image(corrupt @ packfs_image::Error::Corrupt { .. }) => {
            Error::damaged(display(path), format!("neither a container image nor a tar layer: {corrupt}"))
        }
        other => other,
    });
    let no_layout = || {
        let why = "it is no OCI layout: only layouts and registries have layers that are images";
        Err(Error::unsupported(display(path), why))
    };
    let are_images_wanted = options.layer_form == LayerForm::Image;
    let Some(files) = opened? else {
        return if are_images_wanted { no_layout() } else { of_layers(&[path.to_owned()], options) };
    };
    let opened = OpenSource::new(files, options);
    // Newer archives of docker save have both, and are layouts.
    match opened.files.find("index.json")? {
        Some(_) => opened.read_layout(),
        None if are_images_wanted => no_layout(),
        None => opened.read_docker_archive(),
    }
}

/// Returns the error for a file that is not there, in the system's words.
fn missing_file(path: &Path) -> Error {
    let reason = std::fs::metadata(path).err().unwrap_or_else(|| std::io::ErrorKind::NotFound.into());
    Error::io("cannot open", path)(reason)
}

#[cfg(feature = "remote")]
fn open_registry(path: &Path, options: &SourceOptions) -> Result<ContainerSource> {
    let address = registry_address(path).unwrap_or_default();
    OpenSource::new(crate::registry::open(address, &options.remote)?, options).read_registry()
}

/// Makes an image of tar archives. They are read for their digests first: the UUID of an EROFS layer depends on it.
fn of_layers(paths: &[PathBuf], options: &SourceOptions) -> Result<ContainerSource> {
    let mut layers = Vec::new();
    for path in paths {
        let bytes = FileBytes::of_file(path)?.ok_or_else(|| missing_file(path))?;
        let diff_id =
            hash_all(decompress::reader(bytes.open()?, path)?, None).map_err(Error::io("cannot read", path))?;
        layers.push(SourceLayer::new(path.clone(), bytes, diff_id));
    }
    let platform = match options.platforms.as_slice() {
        [] => Platform::of_this_machine(),
        [platform] => platform.clone(),
        _ => return Err(Error::unsupported("tar layers", "they are for one platform: name only one")),
    };
    let diff_ids: Vec<BlobDigest> = layers.iter().map(|layer| layer.diff_id.clone()).collect();
    let config = ImageConfig::of_layers(&platform, &diff_ids);
    let mut image = SourceImage::new(None);
    image.platforms.push(Arc::new(SourcePlatform::new(platform, config, layers)));
    Ok(ContainerSource::of_images(vec![image]))
}

/// An image in the manifest of `docker save`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    #[serde(default)]
    layers: Vec<String>,
}

/// Files of a source, of which the documents are read.
struct OpenSource<'o> {
    files: FileSet,
    options: &'o SourceOptions,
    /// Bytes of documents that may still be read.
    bytes_left: Cell<u64>,
    /// Digests of the documents and layers so far.
    digests: RefCell<BTreeSet<BlobDigest>>,
}

impl<'o> OpenSource<'o> {
    fn new(files: FileSet, options: &'o SourceOptions) -> Self {
        OpenSource { files, options, bytes_left: Cell::new(ALL_DOCUMENTS_MAX), digests: RefCell::default() }
    }

    /// Counts a document or an entry of a list; fails if there are too many.
    fn count_document(&self, bytes: u64) -> Result<()> {
        let Some(left) = self.bytes_left.get().checked_sub(bytes.max(DOCUMENT_MIN)) else {
            let max = ALL_DOCUMENTS_MAX >> 20;
            let why = format!("its indexes, manifests and configurations have more than {max} MiB; choose one --image");
            return Err(Error::unsupported(display(self.files.name()), why));
        };
        self.bytes_left.set(left);
        Ok(())
    }

    fn read_layout(self) -> Result<ContainerSource> {
        let name = self.files.name_of("index.json");
        let no_layout = || {
            let why = "no OCI layout: it has no index.json; give a layout, an archive of docker save, or tar layers";
            Error::unsupported(display(self.files.name()), why)
        };
        let bytes = self.files.find("index.json")?.ok_or_else(no_layout)?.read_document(&name, None)?;
        let index: Index = parse(&name, &bytes)?;
        let mut images = Vec::new();
        for descriptor in &index.manifests {
            let name = descriptor.annotations.get(REF_NAME).cloned();
            if self.options.image.is_some() && name != self.options.image {
                // Only its name is needed, for a message.
                images.push(SourceImage::new(name));
                continue;
            }
            images.push(self.read_image(descriptor, name)?);
        }
        let layout = KeptFields { annotations: index.annotations, others: index.others };
        Ok(ContainerSource { images, layout, digests: self.digests.into_inner() })
    }

    fn read_image(&self, descriptor: &Descriptor, name: Option<String>) -> Result<SourceImage> {
        let mut image = SourceImage::new(name);
        image.entry = descriptor.kept_fields();
        image.is_index = INDEXES.contains(&descriptor.media_type.as_str());
        self.read_manifests(descriptor, 0, &mut image)?;
        Ok(image)
    }

    #[cfg(feature = "remote")]
    fn read_registry(self) -> Result<ContainerSource> {
        let FileSet::Registry { repository, .. } = &self.files else { unreachable!("the source is a registry") };
        let found = crate::registry::read_manifest(repository)?;
        let descriptor = Descriptor::new(&found.media_type, BlobDigest::of(&found.bytes), found.bytes.len() as u64);
        let mut image = SourceImage::new(repository.tag());
        image.is_index = INDEXES.contains(&found.media_type.as_str());
        self.take_manifests(&descriptor, &found.bytes, 0, &mut image)?;
        Ok(ContainerSource { digests: self.digests.into_inner(), ..ContainerSource::of_images(vec![image]) })
    }

    /// Reads the manifest that a descriptor names, or those of an index.
    fn read_manifests(&self, descriptor: &Descriptor, depth: usize, image: &mut SourceImage) -> Result<()> {
        let found = self.files.find_manifest(descriptor)?;
        let bytes = self.read_found(descriptor, &found)?;
        self.take_manifests(descriptor, &bytes, depth, image)
    }

    /// Takes a manifest, or those of an index.
    fn take_manifests(
        &self,
        descriptor: &Descriptor,
        bytes: &[u8],
        depth: usize,
        image: &mut SourceImage,
    ) -> Result<()> {
        let name = self.files.name_of_blob(&descriptor.digest);
        self.note_digest(&descriptor.digest);
        if !INDEXES.contains(&descriptor.media_type.as_str()) {
            let manifest: Manifest = parse(&name, bytes)?;
            return self.read_platform(descriptor, manifest, image);
        }
        if depth == NESTING_MAX {
            return Err(Error::damaged(name, format!("indexes are nested more than {NESTING_MAX} deep")));
        }
        let index: Index = parse(&name, bytes)?;
        if depth == 0 {
            image.index.others = index.others;
        }
        // The manifests of an index in it are listed with all others: what that one says of them has no other place.
        for (name, value) in index.annotations {
            image.index.annotations.entry(name).or_insert(value);
        }
        for listed in &index.manifests {
            match &listed.platform {
                // Attestations of BuildKit: they describe an image by its digest, which a conversion changes.
                Some(platform) if platform.os == UNKNOWN => {}
                // Skipped by the index alone, so that manifests of a large image are not even requested.
                Some(platform) if !image.wants(platform, &self.options.platforms) => {}
                _ => self.read_manifests(listed, depth + 1, image)?,
            }
        }
        Ok(())
    }

    fn note_digest(&self, digest: &BlobDigest) {
        self.digests.borrow_mut().insert(digest.clone());
    }

    /// Reads a document, which has to be what its descriptor says.
    fn read_found(&self, descriptor: &Descriptor, found: &FileBytes) -> Result<Vec<u8>> {
        let name = self.files.name_of_blob(&descriptor.digest);
        // Before the bytes are read: a descriptor that lies about the length must not cost the reading.
        check_size(&name, found.size, descriptor.size)?;
        self.count_document(found.size)?;
        found.read_document(&name, Some(&descriptor.digest))
    }

    /// Reads the configuration that a manifest names; adds it with its layers to the image if its platform is wanted.
    fn read_platform(&self, descriptor: &Descriptor, manifest: Manifest, image: &mut SourceImage) -> Result<()> {
        let bytes = self.read_found(&manifest.config, &self.files.find_blob(&manifest.config)?)?;
        self.note_digest(&manifest.config.digest);
        let config_name = self.files.name_of_blob(&manifest.config.digest);
        let config = ImageConfig::parse(&bytes).map_err(|why| Error::damaged(&config_name, why))?;
        let diff_ids = config.diff_ids().map_err(|why| Error::unsupported(&config_name, why))?;
        let platform = match &descriptor.platform {
            Some(listed) => Some(listed.completed_by(config.platform())),
            None => config.platform(),
        };
        let platform = platform.ok_or_else(|| Error::damaged(&config_name, "it names no architecture or no os"))?;
        // Once more, as an index need not name platforms, and a manifest without an index never does.
        if !image.wants(&platform, &self.options.platforms) {
            return Ok(());
        }
        check_layers(&self.files.name_of_blob(&descriptor.digest), manifest.layers.len(), diff_ids.len())?;
        let mut layers = Vec::new();
        for (descriptor, diff_id) in manifest.layers.into_iter().zip(diff_ids) {
            self.options.layer_form.check(&descriptor)?;
            let bytes = self.files.find_blob(&descriptor)?;
            let name = self.files.name_of_blob(&descriptor.digest);
            check_size(&name, bytes.size, descriptor.size)?;
            let tar_record = self.find_tar_record(&descriptor)?;
            self.note_digest(&descriptor.digest);
            self.note_digest(&diff_id);
            layers.push(SourceLayer {
                name: name.into(),
                bytes,
                digest: Some(descriptor.digest),
                diff_id,
                annotations: descriptor.annotations,
                tar_record,
            });
        }
        let found = SourcePlatform {
            platform,
            config,
            entry: descriptor.kept_fields(),
            manifest: KeptFields { annotations: manifest.annotations, others: manifest.others },
            config_entry: manifest.config.kept_fields(),
            layers,
        };
        image.platforms.push(Arc::new(found));
        Ok(())
    }

    /// Finds the record of the archive that a layer was made of. Programs that copy images leave it out: no manifest lists
    /// it.
    fn find_tar_record(&self, layer: &Descriptor) -> Result<Option<FileBytes>> {
        let record = tar_record_of(&layer.annotations).filter(|_| self.options.layer_form == LayerForm::Image);
        let Some(record) = record else { return Ok(None) };
        let found = self.files.find_optional_blob(&record)?;
        if let Some(found) = &found {
            check_size(&self.files.name_of_blob(&record.digest), found.size, record.size)?;
        }
        Ok(found)
    }

    fn read_docker_archive(&self) -> Result<ContainerSource> {
        let name = self.files.name_of("manifest.json");
        let bytes = self.read_named("manifest.json")?;
        let listed: Vec<DockerImage> = parse(&name, &bytes)?;
        let mut images = Vec::new();
        for image in listed {
            let unnamed = self.read_docker_image(&name, &image)?;
            let tags = image.repo_tags.unwrap_or_default();
            // `docker save` of an image by its ID leaves the list of names empty.
            if tags.is_empty() {
                images.push(unnamed);
                continue;
            }
            for tag in tags {
                // Each name multiplies what is held of the image, so it counts like an entry of a list.
                self.count_document(0)?;
                let mut named = unnamed.clone();
                named.name = Some(tag);
                images.push(named);
            }
        }
        Ok(ContainerSource::of_images(images))
    }

    fn read_docker_image(&self, manifest: &str, image: &DockerImage) -> Result<SourceImage> {
        let mut unnamed = SourceImage::new(None);
        let config_name = self.files.name_of(&image.config);
        let bytes = self.read_named(&image.config)?;
        let config = ImageConfig::parse(&bytes).map_err(|why| Error::damaged(&config_name, why))?;
        let diff_ids = config.diff_ids().map_err(|why| Error::unsupported(&config_name, why))?;
        check_layers(manifest, image.layers.len(), diff_ids.len())?;
        // Some tools leave both empty.
        let platform = config.platform().unwrap_or_else(Platform::of_this_machine);
        let mut layers = Vec::new();
        for (path, diff_id) in image.layers.iter().zip(diff_ids) {
            let name = self.files.name_of(path);
            let bytes = self.files.find(path)?.ok_or_else(|| Error::damaged(&name, "the layer is missing"))?;
            layers.push(SourceLayer::new(name.into(), bytes, diff_id));
        }
        let found = SourcePlatform::new(platform, config, layers);
        if unnamed.wants(&found.platform, &self.options.platforms) {
            unnamed.platforms.push(Arc::new(found));
        }
        Ok(unnamed)
    }

    fn read_named(&self, path: &str) -> Result<Vec<u8>> {
        let name = self.files.name_of(path);
        let found = self.files.find(path)?.ok_or_else(|| Error::damaged(&name, "the file is missing"))?;
        self.count_document(found.size)?;
        found.read_document(&name, None)
    }
}

fn parse<'b, T: Deserialize<'b>>(name: &str, bytes: &'b [u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| Error::damaged(name, format!("no document of an image: {error}")))
}

fn check_size(name: &str, found: u64, declared: u64) -> Result<()> {
    if found == declared {
        return Ok(());
    }
    Err(Error::damaged(name, format!("it has {found} bytes, and its descriptor says {declared}")))
}

fn check_layers(name: &str, layers: usize, diff_ids: usize) -> Result<()> {
    // zip() would silently drop the rest.
    if layers != diff_ids {
        return Err(Error::damaged(name, format!("{layers} layers, and the configuration has {diff_ids} diff_ids")));
    }
    if layers > LAYERS_MAX {
        return Err(Error::unsupported(name, format!("{layers} layers are more than {LAYERS_MAX}")));
    }
    Ok(())
}

impl LayerForm {
    /// Refuses layers of another form.
    fn check(self, layer: &Descriptor) -> Result<()> {
        let refuse = |why: &str| {
            let why = format!("a layer of the type {:?}, {why}", layer.media_type);
            Err(Error::unsupported(&layer.digest, why))
        };
        match self {
            LayerForm::Erofs if layer.media_type == EROFS_LAYER => Ok(()),
            LayerForm::Image if IMAGE_LAYERS.contains(&layer.media_type.as_str()) => Ok(()),
            LayerForm::Image => refuse("not an image that can be mounted: there is nothing to export"),
            LayerForm::Erofs => refuse("not an EROFS image as it is: convert it first"),
            LayerForm::Tar => {
                let ending = TAR_LAYERS.iter().find_map(|prefix| layer.media_type.strip_prefix(prefix));
                match ending {
                    // `.gzip` is docker's spelling, `+gzip` that of OCI.
                    Some("" | "+gzip" | ".gzip" | "+zstd" | ".zstd") => Ok(()),
                    _ => refuse("not a tar archive: it cannot be converted"),
                }
            }
        }
    }
}
