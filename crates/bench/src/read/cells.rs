//! Images to read, and ways to read them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::Digest;

use super::fio::{self, FioPattern};
use super::programs::ReadTool;
use crate::executor::MeasuredCell;
use crate::format::ImageFormat;
use crate::keys::read::{FIO, KERNEL, ReadKey};

/// A regular file in an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageFile {
    /// Path from the root.
    pub path: PathBuf,
    /// Length in bytes.
    pub len: u64,
    /// Bytes outside holes.
    pub data: u64,
}

/// The files in an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageFiles {
    /// Regular files, sorted by path.
    files: Vec<ImageFile>,
    /// Digest of their names and lengths.
    digest: String,
}

impl ImageFiles {
    /// Creates a tree from regular files in any order.
    pub fn new(mut files: Vec<ImageFile>) -> Self {
        files.sort();
        let digest_of = |file: &ImageFile| {
            let path = file.path.as_os_str().as_encoded_bytes();
            Digest::of(&[&file.len.to_le_bytes(), path].concat())
        };
        let digests: Vec<Digest> = files.iter().map(digest_of).collect();
        ImageFiles { digest: Digest::of_all(&digests).short(), files }
    }

    /// Returns the regular files, sorted by path.
    pub fn files(&self) -> &[ImageFile] {
        &self.files
    }

    /// Returns the digest; trees with the same files have the same.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the bytes of all files outside holes, as far as the image records them.
    pub fn data(&self) -> u64 {
        self.files.iter().map(|file| file.data).sum()
    }

    /// Returns the length of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }

    /// Returns the file with the most data, if it is large enough to read in pieces.
    pub fn largest(&self) -> Option<&ImageFile> {
        // In reverse, as `max_by_key` returns the last of equal ones: the first by path is the choice.
        let largest = self.files.iter().rev().max_by_key(|file| file.data);
        largest.filter(|file| file.data >= fio::MIN_FILE_LEN)
    }
}

/// An image to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredImage {
    /// Path of the image.
    pub path: PathBuf,
    /// Length in bytes.
    pub len: u64,
    /// The format.
    pub format: ImageFormat,
    /// Name of its source, or its own.
    pub source: String,
    /// Program that made it; empty if unknown.
    pub tool: String,
    /// The codec in the user's spelling.
    pub codec: String,
    /// Size of a block or cluster in bytes; 0 if nothing is compressed or the image does not say.
    pub block: usize,
    /// Features other than compression.
    pub features: String,
    /// True if it can be mounted here.
    pub mounts: bool,
    /// Files in the image.
    pub tree: Arc<ImageFiles>,
}

/// Which files are read, in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOrder {
    /// All, in directory order.
    Sequential,
    /// A few hundred, in random order.
    Small,
    /// All, in random order.
    Full,
}

impl ReadOrder {
    /// All orders.
    pub const ALL: [ReadOrder; 3] = [ReadOrder::Sequential, ReadOrder::Small, ReadOrder::Full];
}

/// One way to read an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadWork {
    /// The contents of files on a mount.
    Data(ReadOrder),
    /// The attributes of files, on a mount.
    Metadata(ReadOrder),
    /// The largest file on a mount, by fio.
    Fio(FioPattern),
    /// A program writes an archive of everything.
    Tar(ReadTool),
    /// A program extracts everything.
    Extract(ReadTool),
}

impl fmt::Display for ReadWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadWork::Data(ReadOrder::Sequential) => "sequential data",
            ReadWork::Data(ReadOrder::Small) => "small random data",
            ReadWork::Data(ReadOrder::Full) => "full random data",
            ReadWork::Metadata(ReadOrder::Sequential) => "sequential metadata",
            ReadWork::Metadata(ReadOrder::Small) => "small random metadata",
            ReadWork::Metadata(ReadOrder::Full) => "full random metadata",
            ReadWork::Fio(FioPattern::Sequential) => "sequential 4K",
            ReadWork::Fio(FioPattern::Random) => "random 4K",
            ReadWork::Fio(FioPattern::Twentieth) => "random 4K of 5 %",
            ReadWork::Tar(_) => "tar",
            ReadWork::Extract(_) => "extract",
        })
    }
}

/// Programs available for reading.
#[derive(Debug, Clone, Default)]
pub struct ReadTools {
    /// fio, if it is installed.
    pub fio: Option<PathBuf>,
    /// Programs that read images.
    pub tools: Vec<ReadTool>,
}

impl ReadTools {
    /// Returns all ways to read an image.
    fn works(&self, image: &MeasuredImage) -> Vec<ReadWork> {
        let mut works = Vec::new();
        if image.mounts {
            for order in ReadOrder::ALL {
                works.extend([ReadWork::Data(order), ReadWork::Metadata(order)]);
            }
            if self.fio.is_some() && image.tree.largest().is_some() {
                works.extend(FioPattern::ALL.map(ReadWork::Fio));
            }
        }
        for tool in self.tools.iter().filter(|tool| tool.reads(image.format)) {
            works.extend(tool.archives().then(|| ReadWork::Tar(tool.clone())));
            works.extend(tool.extracts().then(|| ReadWork::Extract(tool.clone())));
        }
        works
    }
}

/// One read to measure.
#[derive(Debug, Clone)]
pub struct ReadCell {
    /// Image to read.
    pub image: Arc<MeasuredImage>,
    /// Way to read it.
    pub work: ReadWork,
}

impl MeasuredCell for ReadCell {
    type Key = ReadKey;

    fn key(&self) -> ReadKey {
        let MeasuredImage { format, source, tool, codec, block, features, tree, .. } = &*self.image;
        let reader = match &self.work {
            ReadWork::Data(_) | ReadWork::Metadata(_) => KERNEL,
            ReadWork::Fio(_) => FIO,
            ReadWork::Tar(tool) | ReadWork::Extract(tool) => tool.name(),
        };
        ReadKey {
            source: source.clone(),
            digest: tree.digest.clone(),
            tool: tool.clone(),
            format: format.name().into(),
            codec: codec.clone(),
            block: *block,
            features: features.clone(),
            reader: reader.into(),
            work: self.work.to_string(),
        }
    }
}

/// Returns all ways to read all images.
pub fn cells(images: &[Arc<MeasuredImage>], readers: &ReadTools) -> Vec<ReadCell> {
    let mut cells = Vec::new();
    for image in images {
        let works = readers.works(image).into_iter();
        cells.extend(works.map(|work| ReadCell { image: Arc::clone(image), work }));
    }
    cells
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::read::NONE;

    pub(crate) fn image(format: ImageFormat, files: &[(&str, u64)]) -> Arc<MeasuredImage> {
        let files = files.iter().map(|(path, len)| ImageFile { path: path.into(), len: *len, data: *len }).collect();
        Arc::new(MeasuredImage {
            path: "a.img".into(),
            len: 1000,
            format,
            source: "root".into(),
            tool: "packfs".into(),
            codec: "lz4hc:12".into(),
            block: 65_536,
            features: String::new(),
            mounts: true,
            tree: Arc::new(ImageFiles::new(files)),
        })
    }

    #[test]
    fn readers_do_what_they_can() {
        let tools = vec![ReadTool::packfs("packfs".into())];
        let mut readers = ReadTools { fio: Some("fio".into()), tools };
        let large = image(ImageFormat::Erofs, &[("a", 10), ("b", 1 << 20)]);
        let keys = |readers: &ReadTools, image: &Arc<MeasuredImage>| {
            let cells = cells(std::slice::from_ref(image), readers);
            cells.iter().map(|cell| format!("{} {}", cell.key().reader, cell.work)).collect::<Vec<_>>()
        };
        assert_eq!(
            keys(&readers, &large),
            [
                "kernel sequential data",
                "kernel sequential metadata",
                "kernel small random data",
                "kernel small random metadata",
                "kernel full random data",
                "kernel full random metadata",
                "fio sequential 4K",
                "fio random 4K",
                "fio random 4K of 5 %",
                "packfs tar",
                "packfs extract",
            ]
        );
        // No file is large enough for fio.
        assert_eq!(keys(&readers, &image(ImageFormat::Erofs, &[("a", 10)])).len(), 8);
        readers.fio = None;
        assert_eq!(keys(&readers, &large).len(), 8);
        let not_mounted = Arc::new(MeasuredImage { mounts: false, ..(*large).clone() });
        assert_eq!(keys(&readers, &not_mounted), ["packfs tar", "packfs extract"]);
    }

    #[test]
    fn trees_of_the_same_names_and_lengths_are_the_same() {
        let file = |path: &str, len: u64, data: u64| ImageFile { path: path.into(), len, data };
        let tree = ImageFiles::new(vec![file("b", 2, 2), file("a", 1, 1)]);
        assert_eq!(tree, ImageFiles::new(vec![file("a", 1, 1), file("b", 2, 2)]));
        assert_eq!((tree.bytes(), tree.files()[0].path.as_os_str()), (3, "a".as_ref()));
        for other in [vec![file("a", 1, 1)], vec![file("a", 2, 2), file("b", 1, 1)]] {
            assert_ne!(tree.digest, ImageFiles::new(other).digest);
        }
        // Digests ignore holes, because not every program keeps them.
        assert_eq!(tree.digest, ImageFiles::new(vec![file("a", 1, 0), file("b", 2, 2)]).digest);
        let most =
            ImageFiles::new(vec![file("hole", 9 << 20, 0), file("y", 1 << 20, 1 << 20), file("x", 1 << 20, 1 << 20)]);
        assert_eq!(most.largest().unwrap().path.as_os_str(), "x");
    }

    #[test]
    fn keys_are_shown_in_words() {
        let cell = |block, tool: &str, features: &str| {
            let codec = if block == 0 { NONE } else { "lz4hc:12" }.into();
            let tool = tool.into();
            let features = features.into();
            let image = MeasuredImage { block, codec, tool, features, ..(*image(ImageFormat::Erofs, &[])).clone() };
            ReadCell { image: Arc::new(image), work: ReadWork::Data(ReadOrder::Small) }.key().to_string()
        };
        assert_eq!(
            cell(65_536, "packfs", "fragments"),
            "kernel: small random data of root as erofs by packfs, lz4hc:12 in blocks of 64K, fragments"
        );
        assert_eq!(cell(0, "", ""), "kernel: small random data of root as erofs, not compressed");
    }
}
