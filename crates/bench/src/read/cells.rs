//! Images to read, and ways to read them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use packfs_blocks::Digest;

use super::fio::{self, Pattern};
use super::programs::Program;
use crate::executor::Subject;
use crate::format::Format;
use crate::keys::read::{FIO, KERNEL, Key};

/// A regular file in an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct File {
    /// Path from the root.
    pub path: PathBuf,
    /// Length in bytes.
    pub len: u64,
    /// Bytes outside holes.
    pub data: u64,
}

/// The files in an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    /// Regular files, sorted by path.
    files: Vec<File>,
    /// Digest of their names and lengths.
    digest: String,
}

impl Tree {
    /// Creates a tree from regular files in any order.
    pub fn new(mut files: Vec<File>) -> Self {
        files.sort();
        let digests = files.iter().map(|file| {
            let path = file.path.as_os_str().as_encoded_bytes();
            Digest::of(&[&file.len.to_le_bytes(), path].concat())
        });
        let digest = Digest::of_all(&digests.collect::<Vec<_>>());
        Tree { files, digest: digest.short() }
    }

    /// Returns the regular files, sorted by path.
    pub fn files(&self) -> &[File] {
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
    pub fn largest(&self) -> Option<&File> {
        let largest = self.files.iter().rev().max_by_key(|file| file.data);
        largest.filter(|file| file.data >= fio::LEAST)
    }
}

/// An image to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Path of the image.
    pub path: PathBuf,
    /// Length in bytes.
    pub len: u64,
    /// The format.
    pub format: Format,
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
    pub tree: Arc<Tree>,
}

/// Which files are read, in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All, in directory order.
    Sequential,
    /// A few hundred, in random order.
    Small,
    /// All, in random order.
    Full,
}

impl Order {
    /// All orders.
    pub const ALL: [Order; 3] = [Order::Sequential, Order::Small, Order::Full];
}

/// One way to read an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// The contents of files on a mount.
    Data(Order),
    /// The attributes of files, on a mount.
    Metadata(Order),
    /// The largest file on a mount, by fio.
    Fio(Pattern),
    /// A program writes an archive of everything.
    Tar(Program),
    /// A program extracts everything.
    Extract(Program),
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Work::Data(Order::Sequential) => "sequential data",
            Work::Data(Order::Small) => "small random data",
            Work::Data(Order::Full) => "full random data",
            Work::Metadata(Order::Sequential) => "sequential metadata",
            Work::Metadata(Order::Small) => "small random metadata",
            Work::Metadata(Order::Full) => "full random metadata",
            Work::Fio(Pattern::Sequential) => "sequential 4K",
            Work::Fio(Pattern::Random) => "random 4K",
            Work::Fio(Pattern::Twentieth) => "random 4K of 5 %",
            Work::Tar(_) => "tar",
            Work::Extract(_) => "extract",
        })
    }
}

/// Programs available for reading.
#[derive(Debug, Clone, Default)]
pub struct Readers {
    /// fio, if it is installed.
    pub fio: Option<PathBuf>,
    /// Programs that read images.
    pub programs: Vec<Program>,
}

impl Readers {
    /// Returns all ways to read an image.
    fn works(&self, image: &Image) -> Vec<Work> {
        let mut works = Vec::new();
        if image.mounts {
            works.extend(Order::ALL.into_iter().flat_map(|order| [Work::Data(order), Work::Metadata(order)]));
            if self.fio.is_some() && image.tree.largest().is_some() {
                works.extend(Pattern::ALL.map(Work::Fio));
            }
        }
        for program in self.programs.iter().filter(|program| program.reads(image.format)) {
            works.extend(program.archives().then(|| Work::Tar(program.clone())));
            works.extend(program.extracts().then(|| Work::Extract(program.clone())));
        }
        works
    }
}

/// One read to measure.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Image to read.
    pub image: Arc<Image>,
    /// Way to read it.
    pub work: Work,
}

impl Subject for Cell {
    type Key = Key;

    fn key(&self) -> Key {
        let Image { format, source, tool, codec, block, features, tree, .. } = &*self.image;
        let reader = match &self.work {
            Work::Data(_) | Work::Metadata(_) => KERNEL,
            Work::Fio(_) => FIO,
            Work::Tar(program) | Work::Extract(program) => program.name(),
        };
        Key {
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
pub fn cells(images: &[Arc<Image>], readers: &Readers) -> Vec<Cell> {
    let of = |image: &Arc<Image>| {
        let works = readers.works(image).into_iter();
        works.map(|work| Cell { image: Arc::clone(image), work }).collect::<Vec<_>>()
    };
    images.iter().flat_map(of).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::read::NONE;

    pub(crate) fn image(format: Format, files: &[(&str, u64)]) -> Arc<Image> {
        let files = files.iter().map(|(path, len)| File { path: path.into(), len: *len, data: *len }).collect();
        Arc::new(Image {
            path: "a.img".into(),
            len: 1000,
            format,
            source: "root".into(),
            tool: "packfs".into(),
            codec: "lz4hc:12".into(),
            block: 65_536,
            features: String::new(),
            mounts: true,
            tree: Arc::new(Tree::new(files)),
        })
    }

    #[test]
    fn readers_do_what_they_can() {
        let programs = vec![Program::packfs("packfs".into())];
        let mut readers = Readers { fio: Some("fio".into()), programs };
        let large = image(Format::Erofs, &[("a", 10), ("b", 1 << 20)]);
        let keys = |readers: &Readers, image: &Arc<Image>| {
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
        assert_eq!(keys(&readers, &image(Format::Erofs, &[("a", 10)])).len(), 8);
        readers.fio = None;
        assert_eq!(keys(&readers, &large).len(), 8);
        let not_mounted = Arc::new(Image { mounts: false, ..(*large).clone() });
        assert_eq!(keys(&readers, &not_mounted), ["packfs tar", "packfs extract"]);
    }

    #[test]
    fn trees_of_the_same_names_and_lengths_are_the_same() {
        let file = |path: &str, len: u64, data: u64| File { path: path.into(), len, data };
        let tree = Tree::new(vec![file("b", 2, 2), file("a", 1, 1)]);
        assert_eq!(tree, Tree::new(vec![file("a", 1, 1), file("b", 2, 2)]));
        assert_eq!((tree.bytes(), tree.files()[0].path.as_os_str()), (3, "a".as_ref()));
        for other in [vec![file("a", 1, 1)], vec![file("a", 2, 2), file("b", 1, 1)]] {
            assert_ne!(tree.digest, Tree::new(other).digest);
        }
        // Digests ignore holes, because not every program keeps them.
        assert_eq!(tree.digest, Tree::new(vec![file("a", 1, 0), file("b", 2, 2)]).digest);
        let most = Tree::new(vec![file("hole", 9 << 20, 0), file("y", 1 << 20, 1 << 20), file("x", 1 << 20, 1 << 20)]);
        assert_eq!(most.largest().unwrap().path.as_os_str(), "x");
    }

    #[test]
    fn keys_are_shown_in_words() {
        let cell = |block, tool: &str, features: &str| {
            let codec = if block == 0 { NONE } else { "lz4hc:12" }.into();
            let tool = tool.into();
            let features = features.into();
            let image = Image { block, codec, tool, features, ..(*image(Format::Erofs, &[])).clone() };
            Cell { image: Arc::new(image), work: Work::Data(Order::Small) }.key().to_string()
        };
        assert_eq!(
            cell(65_536, "packfs", "fragments"),
            "kernel: small random data of root as erofs by packfs, lz4hc:12 in blocks of 64K, fragments"
        );
        assert_eq!(cell(0, "", ""), "kernel: small random data of root as erofs, not compressed");
    }
}
