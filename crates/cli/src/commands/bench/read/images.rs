//! Contents of an image, and its compression as far as it is stored in the image.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use packfs_bench::format::ImageFormat;
use packfs_bench::read::{ImageFile, ImageFiles, MeasuredImage, NONE};
use packfs_image::AnyImage;
use packfs_image::erofs::{self, ErofsCompression};
use packfs_image::image::FileType;
use packfs_image::name::display;
use packfs_image::sink::Walk;
use packfs_image::squashfs;

use super::super::super::open;
use crate::args::RemoteArgs;

/// Cache for decoded directories and metadata while names are listed, in bytes.
const CACHE: u64 = 8 << 20;

/// Opens the images given by the user. One that cannot be read is an error, as it was named explicitly.
pub(super) fn describe_all(paths: &[PathBuf]) -> Result<(Vec<MeasuredImage>, usize)> {
    if let Some(dir) = paths.iter().find(|path| path.is_dir()) {
        bail!("{}: a directory, not an image; --matrix {0} makes images of it", display(dir));
    }
    let images = paths.iter().map(|path| describe_image(path)).collect::<Result<_>>()?;
    Ok((images, 0))
}

/// Describes an image from its own metadata.
pub(super) fn describe_image(path: &Path) -> Result<MeasuredImage> {
    let opened = open::path(path, CACHE, &RemoteArgs::default())?;
    let StoredCompression { format, codec, block } = match &opened {
        AnyImage::Squashfs(image) => squashfs_compression(image.superblock()),
        AnyImage::Erofs(image) => erofs_compression(image.superblock()),
    };
    let tree = list_files(&opened).with_context(|| open::name(path))?;
    let source = path.file_name().map_or_else(|| display(path).to_string(), |name| display(name).to_string());
    let len = std::fs::metadata(path).with_context(|| open::name(path))?.len();
    Ok(MeasuredImage {
        path: path.to_owned(),
        len,
        format,
        source,
        tool: String::new(),
        codec,
        block,
        features: String::new(),
        mounts: false,
        tree: Arc::new(tree),
    })
}

/// Format, codec and block size, as far as an image tells them.
struct StoredCompression {
    format: ImageFormat,
    codec: String,
    /// In bytes; 0 if the image has none, or does not store it.
    block: usize,
}

fn squashfs_compression(superblock: &squashfs::Superblock) -> StoredCompression {
    let codec = superblock.data_codec();
    let block = if codec == NONE { 0 } else { usize::try_from(superblock.block_size).unwrap_or(0) };
    StoredCompression { format: ImageFormat::Squashfs, codec, block }
}

/// In EROFS, only LZ4 images store their cluster size, and none stores the compression level.
fn erofs_compression(superblock: &erofs::Superblock) -> StoredCompression {
    let names: Vec<&str> = superblock.compression.iter().map(ErofsCompression::name).collect();
    let largest = superblock.compression.iter().find_map(|compression| match compression {
        ErofsCompression::Lz4 { max_cluster_blocks, .. } => {
            Some(u64::from((*max_cluster_blocks).max(1)) * u64::from(superblock.block_size))
        }
        _ => None,
    });
    let codec = if names.is_empty() { NONE.into() } else { names.join("+") };
    let block = largest.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
    StoredCompression { format: ImageFormat::Erofs, codec, block }
}

/// Returns a tree of its regular files.
fn list_files(opened: &AnyImage) -> Result<ImageFiles> {
    let image = opened.image();
    let mut walk = Walk::new(image, &[])?;
    let mut files = Vec::new();
    while let Some(visit) = walk.step()? {
        let FileType::File { size } = visit.stat.kind else { continue };
        let extents = image.extents(visit.nid)?;
        let data = extents.iter().filter(|extent| !extent.hole).map(|extent| extent.len).sum();
        files.push(ImageFile { path: OsStr::from_bytes(visit.path).into(), len: size, data });
    }
    Ok(ImageFiles::new(files))
}

/// Gives images of the same files the same tree: the one with the most holes, which not every image shows.
pub(super) fn share_trees(images: Vec<MeasuredImage>) -> Vec<MeasuredImage> {
    let mut trees: BTreeMap<String, Arc<ImageFiles>> = BTreeMap::new();
    for image in &images {
        let tree = trees.entry(image.tree.digest().to_owned()).or_insert_with(|| Arc::clone(&image.tree));
        if image.tree.data() < tree.data() {
            *tree = Arc::clone(&image.tree);
        }
    }
    let with = |image: MeasuredImage| {
        let tree = trees.get(image.tree.digest()).cloned();
        MeasuredImage { tree: tree.unwrap_or_else(|| Arc::clone(&image.tree)), ..image }
    };
    images.into_iter().map(with).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_the_same_files_are_read_alike() {
        let image = |path: &str, data: u64| MeasuredImage {
            path: path.into(),
            len: 1,
            format: ImageFormat::Erofs,
            source: path.into(),
            tool: String::new(),
            codec: NONE.into(),
            block: 0,
            features: String::new(),
            mounts: true,
            tree: Arc::new(ImageFiles::new(vec![
                ImageFile { path: "hole".into(), len: 9 << 20, data },
                ImageFile { path: path[..1].into(), len: 1 << 20, data: 1 << 20 },
            ])),
        };
        let images = share_trees(vec![image("a1", 9 << 20), image("a2", 0), image("b1", 9 << 20)]);
        let largest: Vec<_> =
            images.iter().map(|image| display(&image.tree.largest().unwrap().path).to_string()).collect();
        assert_eq!(largest, ["a", "a", "hole"]);
        assert_eq!(images[0].source, "a1");
    }
}
