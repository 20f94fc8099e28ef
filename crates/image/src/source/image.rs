//! An image as a source, for converting one image into another.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packfs_blocks::ReadAt;
use packfs_blocks::hex::to_hex;

use super::{Contents, ExcludeRules, FileReader, Source, SourceDevice, StayingData, Store, unchanged};
use crate::image::{Extent, FileType, Image, Nid, Stat, mode_without_acl};
use crate::name::display;
use crate::sink::names::NameCounts;
use crate::tree::{ConflictPolicy, FileData, Ino, InodeAttributes, Kind, ROOT, XattrSet, push_name};
use crate::{AnyImage, Error, Result, Tree, erofs};

/// An image whose files are packed into another.
#[derive(Debug)]
pub struct FromImage {
    files: Arc<ImageFiles>,
    /// Name of the device that the image becomes, if it does.
    device: Option<String>,
    exclude: ExcludeRules,
    xattrs: bool,
}

impl FromImage {
    /// Makes a source of everything in `image` that `exclude` does not match; with extended
    /// attributes if `xattrs`. `name` is for messages.
    pub fn new(image: Arc<dyn Image>, name: impl Into<PathBuf>, exclude: ExcludeRules, xattrs: bool) -> Self {
        let files = ImageFiles { image, placed: None, bytes: None, name: name.into() };
        FromImage { files: Arc::new(files), device: None, exclude, xattrs }
    }

    /// Also checks that `bytes`, which hold the image, do not change while it is read.
    #[must_use]
    pub fn of_bytes(self, bytes: Arc<dyn ReadAt>) -> Self {
        let image = self.files.image.clone();
        let name = self.files.name.clone();
        FromImage { files: Arc::new(ImageFiles { image, placed: None, bytes: Some(bytes), name }), ..self }
    }

    /// Makes a source of an EROFS image in `bytes` that another image is to refer to: it becomes a
    /// [device](Tree::devices). What follows an inode is copied.
    pub fn referred_to(
        image: AnyImage,
        bytes: Arc<dyn ReadAt>,
        name: &Path,
        exclude: ExcludeRules,
        xattrs: bool,
    ) -> Result<Self> {
        let AnyImage::Erofs(reader) = image else {
            let why = "an image can refer to EROFS images and tar archives only";
            return Err(Error::Unsupported(format!("{}: {why}", display(name))));
        };
        let tag = to_hex(&reader.superblock().uuid);
        let image = Arc::new(*reader);
        let files = ImageFiles { image: image.clone(), placed: Some(image), bytes: Some(bytes), name: name.to_owned() };
        Ok(FromImage { files: Arc::new(files), device: Some(tag), exclude, xattrs })
    }

    fn meta(&self, tree: &mut Tree, nid: Nid, stat: &Stat) -> Result<InodeAttributes> {
        let Stat { mut mode, uid, gid, mtime, .. } = *stat;
        let mut set = XattrSet::new();
        if !self.xattrs {
            mode = mode_without_acl(&*self.files.image, nid, stat)?;
        } else if stat.has_xattrs {
            set = self.files.image.xattrs(nid)?;
        }
        Ok(InodeAttributes { mode, uid, gid, mtime, xattrs: tree.xattrs.intern(set) })
    }

    fn kind(&self, nid: Nid, kind: FileType) -> Kind {
        match kind {
            FileType::Dir => Kind::Dir,
            FileType::File { size: 0 } => Kind::File { size: 0, data: FileData::Empty },
            FileType::File { size } => {
                Kind::File { size, data: FileData::Source { from: self.files.clone(), key: nid.0 } }
            }
            FileType::Symlink { target } => Kind::Symlink(target),
            FileType::Char(device) => Kind::Char(device),
            FileType::Block(device) => Kind::Block(device),
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
        }
    }
}

impl Source for FromImage {
    fn scan(&mut self, tree: &mut Tree, _: &mut dyn Store) -> Result<()> {
        let meta = self.root_meta(tree)?;
        tree.set_meta(ROOT, meta);
        self.add_to(tree, ROOT)?;
        if let (Some(tag), Some(bytes)) = (&self.device, &self.files.bytes) {
            let clusters = self.files.placed.as_ref().map(|image| image.clustered_image()).transpose()?;
            tree.devices.push(SourceDevice {
                contents: self.files.clone(),
                len: bytes.len(),
                tag: tag.clone(),
                clusters,
            });
        }
        Ok(())
    }
}

impl FromImage {
    /// Returns the names in the root of the image.
    pub fn root_names(&self) -> Result<Vec<Box<[u8]>>> {
        let entries = self.files.image.read_dir(self.files.image.root())?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    /// Adds everything to a tree that is filled already, whose entries stay. In the root, those that have a name of the
    /// image get another: NAME_1, NAME_2, ... With `below` all of it goes into a directory of that name, and an entry
    /// that has the name already gets another.
    pub fn append_to(&self, tree: &mut Tree, below: Option<&[u8]>) -> Result<()> {
        let names: HashSet<Box<[u8]>> = match below {
            Some(name) => HashSet::from([name.into()]),
            None => self.root_names()?.into_iter().collect(),
        };
        let twice: Vec<Box<[u8]>> =
            tree.entries(ROOT).map(|(name, _)| name.into()).filter(|name| names.contains(name)).collect();
        for name in twice {
            let mut others = (1u32..).map(|n| [&name[..], format!("_{n}").as_bytes()].concat());
            let free = others.find(|other| !names.contains(&other[..]) && tree.lookup(other).is_none());
            tree.rename(ROOT, &name, &free.unwrap_or_default())?;
        }
        let Some(name) = below else { return self.add_to(tree, ROOT) };
        let meta = self.root_meta(tree)?;
        let dir = tree.add(ROOT, name, meta, Kind::Dir, ConflictPolicy::Refuse)?;
        self.add_to(tree, dir)
    }

    fn root_meta(&self, tree: &mut Tree) -> Result<InodeAttributes> {
        let image = &*self.files.image;
        self.meta(tree, image.root(), &image.stat(image.root())?)
    }

    /// Adds all entries below the directory `top`.
    fn add_to(&self, tree: &mut Tree, top: Ino) -> Result<()> {
        let image = &*self.files.image;
        let root = image.root();
        let mut links: HashMap<Nid, Ino> = HashMap::new();
        let mut names = NameCounts::default();
        // A directory under two names, or within itself, would never end.
        let mut dirs = HashSet::from([root]);
        let mut path = Vec::new();
        let mut stack = vec![(image.read_dir(root)?.into_iter(), top, 0)];
        while let Some((entries, dir, len)) = stack.last_mut() {
            path.truncate(*len);
            let dir = *dir;
            let Some(entry) = entries.next() else {
                stack.pop();
                continue;
            };
            push_name(&mut path, &entry.name);
            let stat = image.stat(entry.nid)?;
            names.add(&path, &stat)?;
            if let Some(first) = links.get(&entry.nid) {
                if !self.exclude.matches(&path, false) {
                    tree.link(dir, &entry.name, *first, ConflictPolicy::Replace)?;
                }
                continue;
            }
            let is_dir = stat.kind == FileType::Dir;
            if self.exclude.matches(&path, is_dir) {
                continue;
            }
            let meta = self.meta(tree, entry.nid, &stat)?;
            let ino = tree.add(dir, &entry.name, meta, self.kind(entry.nid, stat.kind), ConflictPolicy::Replace)?;
            if is_dir {
                if !dirs.insert(entry.nid) {
                    let why = format!("the directory `/{}` has a second name", path.escape_ascii());
                    return Err(Error::corrupt("inode", entry.nid.0, why));
                }
                stack.push((image.read_dir(entry.nid)?.into_iter(), ino, path.len()));
            } else if stat.nlink > 1 {
                links.insert(entry.nid, ino);
            }
        }
        Ok(())
    }
}

/// The files of an image.
#[derive(Debug)]
struct ImageFiles {
    image: Arc<dyn Image>,
    /// The same, if another image refers to its bytes.
    placed: Option<Arc<erofs::ErofsReader>>,
    /// The bytes of the image, if they may change.
    bytes: Option<Arc<dyn ReadAt>>,
    name: PathBuf,
}

impl Contents for ImageFiles {
    fn open(&self, key: u64) -> Result<Box<dyn FileReader + '_>> {
        Ok(Box::new(ImageFileReader { files: self, nid: Nid(key), extents: None }))
    }

    fn staying_data(&self, key: u64) -> Result<Option<StayingData>> {
        self.placed.as_ref().map_or(Ok(None), |image| image.staying_data(Nid(key)))
    }

    fn path(&self, key: u64) -> PathBuf {
        PathBuf::from(format!("{}, inode {key}", display(&self.name)))
    }
}

struct ImageFileReader<'f> {
    files: &'f ImageFiles,
    nid: Nid,
    /// Read only when holes are requested.
    extents: Option<Vec<Extent>>,
}

impl FileReader for ImageFileReader<'_> {
    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        let got = self.files.image.read_at(self.nid, buf, offset)?;
        if got == buf.len() {
            return Ok(());
        }
        let why = format!("ends at byte {}, before the length its inode says", offset.saturating_add(got as u64));
        Err(Error::Changed { path: self.files.path(self.nid.0), why })
    }

    fn next_data(&mut self, offset: u64) -> Result<Option<(u64, u64)>> {
        let extents = match &mut self.extents {
            Some(extents) => extents,
            none => none.insert(self.files.image.extents(self.nid)?),
        };
        let end = |extent: &Extent| extent.offset.saturating_add(extent.len);
        let first = extents.partition_point(|extent| end(extent) <= offset);
        let mut data = extents[first..].iter().skip_while(|extent| extent.hole).take_while(|extent| !extent.hole);
        let Some(start) = data.next() else { return Ok(None) };
        Ok(Some((start.offset.max(offset), end(data.last().unwrap_or(start)))))
    }

    fn finish(&mut self) -> Result<()> {
        self.files.bytes.as_ref().map_or(Ok(()), |bytes| unchanged(&**bytes, &self.files.name))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::{Node, Piece, Shape, Spec, differences, snapshot_tree, specs};
    use crate::tree::TreeImage;

    struct NoStore;

    impl Store for NoStore {
        fn put(&mut self, _: &mut dyn Read, _: u64, _: &[(u64, u64)]) -> Result<u32> {
            unreachable!("files of an image are read later")
        }
    }

    /// Makes an image from a spec. The source requires an image with static lifetime, so this leaks
    /// a few small trees.
    fn image_of(spec: &Spec) -> Arc<dyn Image> {
        Arc::new(TreeImage::new(Box::leak(Box::new(spec.tree().unwrap()))))
    }

    fn scan(image: Arc<dyn Image>, exclude: ExcludeRules, xattrs: bool) -> Result<Tree> {
        let mut tree = Tree::default();
        FromImage::new(image, "test.img", exclude, xattrs).scan(&mut tree, &mut NoStore).map(|()| tree)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn an_image_gives_the_tree_it_was_made_from(spec in specs(Shape::default())) {
            let tree = scan(image_of(&spec), ExcludeRules::default(), true).unwrap();
            let (was, is) = (snapshot_tree(&spec.tree().unwrap()).unwrap(), snapshot_tree(&tree).unwrap());
            prop_assert_eq!(differences(&was, &is), Vec::<String>::new());
        }
    }

    #[test]
    fn excluded_entries_are_left_out() {
        let file = || Node::file(vec![Piece::Zeros(3)]);
        let mut spec = Spec::of([
            (b"a".to_vec(), Node::dir([(b"x".to_vec(), file()), (b"y.o".to_vec(), file())])),
            (b"tmp".to_vec(), Node::dir([(b"x".to_vec(), file())])),
        ]);
        spec.links = vec![(b"a/x".to_vec(), b"a/z.o".to_vec()), (b"a/y.o".to_vec(), b"y".to_vec())];
        spec.root.attrs.xattrs.insert("user.a".into(), b"v".to_vec());
        let tree = scan(image_of(&spec), ExcludeRules::new(["*.o", "/tmp"]).unwrap(), false).unwrap();
        let found = snapshot_tree(&tree).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["", "a", "a/x", "y"]);
        assert!(found[""].xattrs.is_empty());
        assert_eq!((found["a/x"].nlink, found["y"].nlink), (1, 1));
    }

    /// An image whose root contains itself.
    #[derive(Debug)]
    struct Looping(TreeImage<'static>);

    impl Image for Looping {
        fn root(&self) -> Nid {
            self.0.root()
        }
        fn stat(&self, nid: Nid) -> Result<Stat> {
            self.0.stat(nid)
        }
        fn read_dir(&self, _: Nid) -> Result<Vec<crate::image::Entry>> {
            Ok(vec![crate::image::Entry { name: b"loop"[..].into(), nid: self.root() }])
        }
        fn xattrs(&self, nid: Nid) -> Result<XattrSet> {
            self.0.xattrs(nid)
        }
        fn read_at(&self, nid: Nid, buf: &mut [u8], offset: u64) -> Result<usize> {
            self.0.read_at(nid, buf, offset)
        }
        fn extents(&self, nid: Nid) -> Result<Vec<Extent>> {
            self.0.extents(nid)
        }
        fn inode_count(&self) -> u64 {
            1
        }
        fn check_part(
            &self,
            _: crate::Part,
            _: usize,
            _: &packfs_blocks::Progress,
            _: &mut dyn FnMut(crate::Finding),
        ) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_directory_within_itself_is_refused() {
        let tree = Box::leak(Box::new(Tree::default()));
        let error = scan(Arc::new(Looping(TreeImage::new(tree))), ExcludeRules::default(), true).unwrap_err();
        assert!(error.to_string().contains("the directory `/loop` has a second name"), "{error}");
    }

    #[test]
    fn holes_are_reported() {
        let pieces = vec![Piece::Hole(10), Piece::Zeros(5), Piece::Text { seed: 0, len: 5 }, Piece::Hole(7)];
        let tree =
            scan(image_of(&Spec::of([(b"f".to_vec(), Node::file(pieces))])), ExcludeRules::default(), true).unwrap();
        let Kind::File { size: 27, data: FileData::Source { from, key } } =
            &tree.inode(tree.lookup(b"f").unwrap()).kind
        else {
            panic!("a file of 27 bytes")
        };
        let mut file = from.open(*key).unwrap();
        assert_eq!(file.next_data(0).unwrap(), Some((10, 20)));
        assert_eq!(file.next_data(12).unwrap(), Some((12, 20)));
        assert_eq!(file.next_data(20).unwrap(), None);
        assert!(file.read_exact_at(&mut [0; 8], 20).unwrap_err().to_string().contains("test.img, inode"));
    }
}
