//! The facts about an image that its page shows, as columns: one array for each attribute of the entries.

use std::collections::BTreeMap;

use packfs_image::image::{FileType, Stat};
use packfs_image::name::encode;
use packfs_image::stats::{self, EntryType, MeasuredImage, RATIOS, Stats};
use packfs_image::{AnyImage, diff::Difference};
use serde::Serialize;

use super::changes::ImageChanges;
use crate::Result;

/// Everything that the page knows about an image, to be serialised. It takes about 100 bytes for each entry besides its
/// name. Names are text as [`encode`] makes it.
#[derive(Debug, Serialize)]
pub struct ImageModel {
    name: String,
    format: &'static str,
    codecs: Vec<&'static str>,
    block_size: u32,
    /// Seconds since 1970.
    created: i64,
    features: Vec<&'static str>,
    image_bytes: u64,
    unused_bytes: u64,
    fragment_bytes: u64,
    /// Kinds of metadata, and their bytes.
    metadata: Vec<(&'static str, u64)>,
    /// Classes of ratios: the least stored bytes for 100 bytes of data, and the name.
    ratios: Vec<(u64, &'static str)>,
    /// Types of files, by the extensions of their names; `type` counts in these.
    types: Vec<String>,
    entries: EntryColumns,
    /// Targets of symbolic links.
    targets: BTreeMap<usize, String>,
    /// First names of the files that have several.
    links: BTreeMap<usize, usize>,
    changes: Option<ImageChanges>,
}

/// The entries, in the order of their paths: each directory before its entries, the root first.
#[derive(Debug, Default, Serialize)]
struct EntryColumns {
    parent: Vec<usize>,
    name: Vec<String>,
    kind: Vec<u8>,
    #[serde(rename = "type")]
    extension: Vec<usize>,
    size: Vec<u64>,
    data: Vec<u64>,
    stored: Vec<u64>,
    duplicate: Vec<u64>,
    fragment: Vec<u64>,
    mode: Vec<u16>,
    uid: Vec<u32>,
    gid: Vec<u32>,
    mtime: Vec<i64>,
}

impl ImageModel {
    /// Collects the facts about an image. `name` is its name on the page, of any bytes.
    ///
    /// # Errors
    /// Damaged inodes.
    pub fn new(name: &[u8], image: &AnyImage, stats: &Stats) -> Result<ImageModel> {
        let mut model = ImageModel::of_superblock(name, image);
        (model.image_bytes, model.unused_bytes) = (stats.image_bytes, stats.unused_bytes);
        (model.fragment_bytes, model.metadata) = (stats.fragment_bytes, stats.metadata.clone());
        let mut types = BTreeMap::new();
        for (n, entry) in stats.entries.iter().enumerate() {
            // Statistics do not have owners and times, so each inode is looked up once more.
            let stat = image.image().stat(entry.nid)?;
            if let EntryType::Link(first) = entry.kind {
                model.links.insert(n, first);
            }
            if let FileType::Symlink { target } = &stat.kind {
                model.targets.insert(n, encode(target).into_owned());
            }
            let extension = match stat.kind {
                FileType::File { .. } => stats::extension(&entry.name),
                _ => Vec::new(),
            };
            // Types are numbered as they first appear.
            let next = types.len();
            model.entries.add(entry, &stat, *types.entry(extension).or_insert(next));
        }
        let mut types: Vec<_> = types.into_iter().collect();
        types.sort_unstable_by_key(|(_, place)| *place);
        model.types = types.into_iter().map(|(name, _)| encode(&name).into_owned()).collect();
        Ok(model)
    }

    fn of_superblock(name: &[u8], image: &AnyImage) -> ImageModel {
        let (format, codecs, block_size, created, features) = match image {
            AnyImage::Squashfs(reader) => {
                let about = reader.superblock();
                let codecs = vec![about.codec.name()];
                ("SquashFS 4.0", codecs, about.block_size, about.mkfs_time.into(), about.flag_names())
            }
            AnyImage::Erofs(reader) => {
                let about = reader.superblock();
                let codecs = about.compression.iter().map(|one| one.name()).collect();
                ("EROFS", codecs, about.block_size, about.build_time, about.feature_names())
            }
        };
        ImageModel {
            name: encode(name).into_owned(),
            format,
            codecs,
            block_size,
            created,
            features,
            image_bytes: 0,
            unused_bytes: 0,
            fragment_bytes: 0,
            metadata: Vec::new(),
            ratios: RATIOS.to_vec(),
            types: Vec::new(),
            entries: EntryColumns::default(),
            targets: BTreeMap::new(),
            links: BTreeMap::new(),
            changes: None,
        }
    }

    /// Adds the differences from an older image, as [`diff`](packfs_image::diff::diff) finds them with the older one
    /// first. `name` is that of the older image.
    ///
    /// # Errors
    /// Damaged metadata.
    pub fn compare(
        &mut self,
        name: &[u8],
        older: MeasuredImage<'_>,
        newer: MeasuredImage<'_>,
        differences: &[Difference],
    ) -> Result<()> {
        self.changes = Some(ImageChanges::new(name, older, newer, differences)?);
        Ok(())
    }
}

impl EntryColumns {
    fn add(&mut self, entry: &stats::EntryStats, stat: &Stat, extension: usize) {
        self.parent.push(entry.parent);
        self.name.push(encode(&entry.name).into_owned());
        self.kind.push(type_number(&stat.kind));
        self.extension.push(extension);
        self.size.push(entry.size);
        self.data.push(entry.data);
        self.stored.push(entry.stored);
        self.duplicate.push(entry.duplicate);
        self.fragment.push(entry.fragment);
        self.mode.push(stat.mode);
        self.uid.push(stat.uid);
        self.gid.push(stat.gid);
        self.mtime.push(stat.mtime.secs);
    }
}

/// Returns the number of a type; `KINDS` in `assets/model.js` has their names.
fn type_number(kind: &FileType) -> u8 {
    match kind {
        FileType::Dir => 0,
        FileType::File { .. } => 1,
        FileType::Symlink { .. } => 2,
        FileType::Char(_) => 3,
        FileType::Block(_) => 4,
        FileType::Fifo => 5,
        FileType::Socket => 6,
    }
}
