//! Refuses options that do not fit each other, and trees that do not fit them, before any work.

use packfs_blocks::units::Size;
use packfs_codec::Codec;

use crate::build::AnyOptions;
use crate::build::option::check_shards;
use crate::erofs::format;
use crate::erofs::kernel::Feature;
use crate::erofs::writer::decide::content_cuts::CUT_DISTANCE_MIN;
use crate::erofs::writer::emit::epoch::ImageEpoch;
use crate::erofs::writer::emit::xattr;
use crate::erofs::writer::options::{ALIGN_MAX, CHUNK_MAX, ErofsOptions, Features};
use crate::tree::{DataHandling, Ino, Kind, Time, Tree};
use crate::{Error, Result};

/// Maximum number of additional devices: half of what fields of 16 bits hold, some bits of which may get other uses.
pub(super) const DEVICES_MAX: u16 = 1 << 15;

/// Checks the options that concern file data.
pub(super) fn options(options: &ErofsOptions) -> Result<()> {
    let block_size = options.block_size;
    // Linux refuses blocks longer than a page, and 4 KiB is the smallest page.
    if !block_size.is_power_of_two() || !(512..=4096).contains(&block_size) {
        return Err(Error::option(
            "fs-block",
            Size(block_size.into()),
            "an EROFS block is a power of two from 512 to 4K",
        ));
    }
    check_cluster("block-size", options.cluster_size, block_size)?;
    for cluster_size in options.build.recipes.clusters() {
        check_cluster("cluster of a rule", *cluster_size, block_size)?;
    }
    if options.features.contains(Features::METABOX) {
        check_cluster("metabox", options.metabox.cluster_size, block_size)?;
    }
    if let Some(cluster_size) = options.fragment_cluster {
        check_cluster("fragment-cluster", cluster_size, block_size)?;
    }
    if !options.chunk_size.is_power_of_two() || !(block_size..=CHUNK_MAX).contains(&options.chunk_size) {
        let why = format!("a chunk is a power of two from the block ({}) to 16 MiB", Size(block_size.into()));
        return Err(Error::option("chunk-size", Size(options.chunk_size.into()), why));
    }
    features(options)?;
    data(options)?;
    cuts(options)?;
    devices(options)?;
    reflink(options)?;
    check_shards(&AnyOptions::Erofs(options.clone()))?;
    options.check_target()?;
    options.check_clusters()
}

/// Checks the largest size of clusters that an option asks for.
fn check_cluster(option: &'static str, cluster_size: u32, block_size: u32) -> Result<()> {
    if cluster_size == 0 || !cluster_size.is_multiple_of(block_size) || u64::from(cluster_size) > format::CLUSTER_MAX {
        let block = Size(block_size.into());
        let why = format!("a cluster of an EROFS image is a multiple of the block ({block}) up to 1 MiB");
        return Err(Error::option(option, Size(cluster_size.into()), why));
    }
    Ok(())
}

/// Checks the distance of cuts by content.
fn cuts(options: &ErofsOptions) -> Result<()> {
    let Some(distance) = options.rsyncable else { return Ok(()) };
    let refuse = |why: &str| Err(Error::option("rsyncable", Size(distance.into()), why));
    if distance < CUT_DISTANCE_MIN {
        return refuse("cuts are at least 16 KiB apart");
    }
    if !options.features.intersects(Features::FRAGMENTS | Features::ALL_FRAGMENTS) {
        return refuse("only what is packed together is cut: it needs the feature fragments, and a codec");
    }
    Ok(())
}

/// Checks the length of extents and the alignment of data.
fn data(options: &ErofsOptions) -> Result<()> {
    let block = options.block_size;
    if let Some(max) = options.extent_max.filter(|max| *max < block) {
        let why = format!("an extent is at least as long as a block ({})", Size(block.into()));
        return Err(Error::option("max-extent", Size(max.into()), why));
    }
    let Some(align) = options.data_align else { return Ok(()) };
    let refuse = |why: String| Err(Error::option("data-align", Size(align.into()), why));
    if align == 0 || align % block != 0 || align > ALIGN_MAX {
        return refuse(format!("files are aligned to a multiple of the block ({}) up to 16 MiB", Size(block.into())));
    }
    if options.build.codec.codec() != Codec::None {
        return refuse("only uncompressed data is aligned: the codec has to be none".into());
    }
    Ok(())
}

/// Refuses what needs the bytes of files that are not read.
fn reflink(options: &ErofsOptions) -> Result<()> {
    let needs_bytes = [
        (options.build.codec.codec() != Codec::None, "compressed files have to be read: the codec has to be none"),
        (
            options.build.index.is_some() || options.build.reuse.is_some(),
            "an index has digests of files, which are not read",
        ),
        (options.inode_digest.is_some(), "digests of files need their bytes"),
    ];
    let refused = needs_bytes.iter().find(|(asked, _)| options.reflink && *asked);
    refused.map_or(Ok(()), |(_, why)| Err(Error::switch("reflink", *why)))
}

/// Refuses features without others that they need.
fn features(options: &ErofsOptions) -> Result<()> {
    let refuse = |feature: &str, why: &str| Err(Error::option("features", feature, why));
    let wide = options.features.contains(Features::BITS_48);
    let need_wide =
        [(Features::UNALIGNED, "unaligned"), (Features::METABOX, "metabox"), (Features::DOT_OMITTED, "dot-omitted")];
    if let Some((_, name)) = need_wide.iter().find(|(feature, _)| options.features.contains(*feature) && !wide) {
        return refuse(name, "it needs the feature 48bit");
    }
    if options.features.contains(Features::COMPACT_INODES | Features::EXTENDED_INODES) {
        return refuse("compact-inodes", "extended-inodes is the opposite");
    }
    if options.features.contains(Features::METABOX) && options.metabox_codec().codec() == Codec::None {
        return refuse("metabox", "it needs a codec: that of the image, or one of its own");
    }
    if options.build.codec.codec() != Codec::None {
        return Ok(());
    }
    if options.features.contains(Features::COMPRESSED_DIRS) {
        return refuse("compressed-dirs", "directories have the codec of files, which is none");
    }
    if !options.build.recipes.is_empty() {
        let why = "an image without compression has no compressed files: choose a codec, and `store` the other files";
        return Err(Error::option("codec", "none", why));
    }
    Ok(())
}

/// Checks that the attributes of each inode fit after it.
pub(in crate::erofs) fn xattrs(options: &ErofsOptions, tree: &Tree) -> Result<()> {
    xattr::EncodedXattrs::encode(options, tree, options.xattr_share).map(drop)
}

/// Refuses rules about the data of single files that no layout fulfils.
pub(super) fn handling(options: &ErofsOptions, tree: &Tree) -> Result<()> {
    let wishes = tree.inos().fold(DataHandling::empty(), |all, ino| all | tree.inode(ino).handling);
    let refuse = |effect: &str, why: String| Err(Error::option("rule", effect, why));
    let of_squashfs = [
        (DataHandling::NO_DEDUP, "no-dedup"),
        (DataHandling::SMALL, "fragments=small"),
        (DataHandling::TAILS, "fragments=tails"),
        (DataHandling::NO_SPARSE, "no-sparse"),
        (DataHandling::ALIGN, "align"),
    ];
    if let Some((_, effect)) = of_squashfs.iter().find(|(wish, _)| wishes.contains(*wish)) {
        return refuse(effect, "an EROFS image cannot treat single files this way: leave it out".into());
    }
    if options.build.codec.codec() == Codec::None || !wishes.contains(DataHandling::STORE) {
        return Ok(());
    }
    // Files with holes need chunks, which such images do not have.
    let chunks = Feature::Chunks.since();
    if options.target_kernel < chunks {
        return refuse("store", format!("it needs Linux {chunks}: choose that as the oldest kernel, or leave it out"));
    }
    // The first ones need the last one, so the user may have named only them.
    let wide = [
        (Features::METABOX, "metabox"),
        (Features::UNALIGNED, "unaligned"),
        (Features::DOT_OMITTED, "dot-omitted"),
        (Features::BITS_48, "48bit"),
    ];
    if let Some((_, feature)) = wide.iter().find(|(feature, _)| options.features.contains(*feature)) {
        let why = format!("an image with {feature} cannot store single files uncompressed: leave one of the two out");
        return refuse("store", why);
    }
    Ok(())
}

/// Refuses options that do not go with additional devices.
fn devices(options: &ErofsOptions) -> Result<()> {
    let count = options.devices();
    let refuse = |why: &str| Err(Error::option("additional devices", count, why));
    if count == 0 {
        return Ok(());
    }
    if count > DEVICES_MAX {
        return Err(Error::TooMany { what: "additional devices", max: DEVICES_MAX.into() });
    }
    if options.build.codec.codec() != Codec::None {
        return refuse("files on other devices are not compressed: the codec has to be none");
    }
    if options.blob.is_none() {
        return Ok(());
    }
    if options.refer > 0 {
        return refuse("data either goes to a device of its own or stays in the sources");
    }
    if !options.features.contains(Features::CHUNKS) {
        return refuse("only files in chunks can be on another device: it needs the feature chunks");
    }
    Ok(())
}

/// Fails for the first entry that only an extended inode can store.
pub(super) fn compact_inodes(options: &ErofsOptions, tree: &Tree) -> Result<()> {
    if !options.features.contains(Features::COMPACT_INODES) {
        return Ok(());
    }
    let otherwise = Time { secs: 0, nanos: 0 };
    let epoch = ImageEpoch::choose(tree.times().collect(), options.features.contains(Features::BITS_48), otherwise);
    tree.walk(|ino, _| match why_extended(tree, ino, &epoch) {
        Some(why) => {
            let why = format!("{why}, which a compact inode cannot store: do without compact-inodes");
            Err(Error::Limit { path: tree.path_of(ino), why: why.into() })
        }
        None => Ok(()),
    })
}

/// Returns the reason why an inode has to be extended.
fn why_extended(tree: &Tree, ino: Ino, epoch: &ImageEpoch) -> Option<String> {
    let inode = tree.inode(ino);
    let links = match inode.kind {
        Kind::Dir => tree.entries(ino).filter(|(_, ino)| tree.is_dir(*ino)).count() + 2,
        _ => inode.links as usize,
    };
    let most = u32::from(u16::MAX);
    match &inode.kind {
        _ if inode.uid > most || inode.gid > most => Some(format!("owner {}:{}", inode.uid, inode.gid)),
        _ if links > most as usize => Some(format!("{links} links")),
        Kind::File { size, .. } if *size > u32::MAX.into() => Some(format!("{size} bytes")),
        _ if epoch.offset(inode.mtime).is_none() => {
            Some("its time beside those of the others (one time for all fits)".into())
        }
        _ => None,
    }
}
