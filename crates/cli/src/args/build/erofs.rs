//! EROFS-specific options of `packfs build`, and how they are resolved: the defaults follow the
//! target kernel, and features beyond it are refused.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use packfs_codec::{Choice, Codec};
use packfs_image::erofs::{ALIGN_MAX, CHUNK_MAX, Feature, Features, INODE_DIGEST, Kernel, Options};

use super::features::{self, Changes};
use super::{Fragments, Shared};
use crate::args::known::{self, Known};
use crate::args::value;
use crate::output::failure::Usage;

/// Features that only compressed files can use.
const OF_COMPRESSED_FILES: [(Features, &str); 6] = [
    (Features::ALL_FRAGMENTS, "all-fragments"),
    (Features::FRAGMENTS, "fragments"),
    (Features::DEDUPE, "dedupe"),
    (Features::ZTAILPACKING, "ztailpacking"),
    (Features::FULL_INDEX, "full-index"),
    (Features::COMPRESSED_DIRS, "compressed-dirs"),
];

/// Block size for `--refer`.
const REFER_BLOCK: u32 = 512;

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "EROFS only")]
pub(super) struct ErofsArgs {
    /// Features of the format to turn on, or off with ^NAME
    ///
    /// Accepted: fragments, all-fragments, dedupe, ztailpacking, 48bit, unaligned, full-index, chunks, inline-data,
    /// chunk-indexes, extended-inodes, compact-inodes, compressed-dirs, metabox, dot-omitted, checksum. The default is
    /// inline-data and checksum; fragments if files are compressed and the target is Linux 6.1 or
    /// newer; with fragments also dedupe, except for fast codecs.
    #[arg(long, value_name = "LIST", value_parser = Known::<Changes>::of(features::words), hide_possible_values = true)]
    pub(super) features: Vec<Changes>,

    /// Compress inodes, in clusters of SIZE, with CODEC (Linux 6.17)
    ///
    /// Turns the feature metabox on. Small clusters, as 4K, are read faster; larger ones take less room. The codec is
    /// that of the image unless it is given, as in 16K,zstd:19.
    #[arg(long, value_name = "SIZE[,CODEC]", value_parser = metabox)]
    pub(super) metabox: Option<(u64, Option<Choice>)>,

    /// Pack small files and tails in clusters of SIZE [default: as --block-size]
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    fragment_cluster: Option<u64>,

    /// Store uncompressed files in chunks of SIZE [default: 128K]
    ///
    /// A power of two, at most 16M; equal chunks are stored once. Turns the feature chunks on.
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    chunk_size: Option<u64>,

    /// Let one cluster decode to at most SIZE [default: as much as fits]
    ///
    /// At least a block. A random read then decodes less, and the image becomes larger.
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    max_extent: Option<u64>,

    /// Begin the data of each file at a multiple of SIZE [default: a block]
    ///
    /// For example, the stripe of a RAID or the page of a flash chip: a multiple of the block up to 16M. Needs --codec none.
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    data_align: Option<u64>,

    /// Share attributes that more than N entries have [default: 2, and all long ones]
    #[arg(long, value_name = "N")]
    xattr_share: Option<u32>,

    /// Oldest Linux that must read the image [default: 6.1]
    #[arg(long, value_name = "VERSION", value_parser = Known::<Kernel>::of(known::kernels), hide_possible_values = true)]
    pub(super) target_kernel: Option<Kernel>,

    /// Refer to the data of archives and images, do not copy it (Linux 5.16)
    ///
    /// The image only has metadata and names the sources as additional devices, in their order: mount it with
    /// -o device=SOURCE for each, or append the sources to it. Sources are uncompressed tar archives, also `-`, and EROFS
    /// images. Data that is compressed in an image or follows an inode, and that of directories and files, is copied. Turns
    /// compression off.
    #[arg(long, conflicts_with_all = ["dry_run", "spool", "append", "reuse", "index"])]
    refer: bool,

    /// Write the data of files to FILE, an additional device (Linux 5.16)
    ///
    /// The image only has metadata: mount it with -o device=FILE, or append FILE to it. Turns compression off and the
    /// feature chunks on.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["dry_run", "refer", "reuse", "index"])]
    blob: Option<PathBuf>,

    /// Share blocks with the sources on Btrfs and XFS, instead of copying
    ///
    /// Files of 64K or more are not read: where the file system can, it shares their blocks, elsewhere the kernel copies
    /// them. Equal files are stored twice, and only holes stay holes. Turns compression off. The image has the same bytes
    /// on any file system.
    #[arg(long, conflicts_with_all = ["dry_run", "refer", "reuse", "index", "inode_digest"])]
    reflink: bool,

    /// Block size: a power of two from 512 to 4096 [default: 4096, with --refer 512]
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    fs_block: Option<u64>,

    /// UUID of the image, or `random` [default: derived from its contents]
    #[arg(long, value_name = "UUID", value_parser = uuid)]
    uuid: Option<Uuid>,

    /// Label of the image, at most 15 bytes
    #[arg(long, value_name = "LABEL", value_parser = label)]
    label: Option<String>,

    /// Store the attribute name prefix PREFIX once, as user.mime. (Linux 6.4)
    #[arg(long, value_name = "PREFIX", value_parser = xattr_prefix)]
    xattr_prefix: Vec<String>,

    /// Store the SHA-256 of each file as an attribute [default NAME: erofs.fingerprint.v1]
    ///
    /// Linux 7.0 shares the page cache of equal files of several images that are mounted with -o inode_share and the same
    /// domain_id. Only a NAME that begins with user., trusted. or security. is shown as an attribute. Needs Linux 6.4, with
    /// fragments 6.17, which also becomes the default of --target-kernel. `packfs check` compares files with their digests.
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = INODE_DIGEST)]
    inode_digest: Option<String>,
}

impl ErofsArgs {
    /// Returns the name of an option that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let options = [
            (!self.features.is_empty(), "--features"),
            (self.metabox.is_some(), "--metabox"),
            (self.fragment_cluster.is_some(), "--fragment-cluster"),
            (self.chunk_size.is_some(), "--chunk-size"),
            (self.max_extent.is_some(), "--max-extent"),
            (self.data_align.is_some(), "--data-align"),
            (self.xattr_share.is_some(), "--xattr-share"),
            (self.target_kernel.is_some(), "--target-kernel"),
            (self.refer, "--refer"),
            (self.blob.is_some(), "--blob"),
            (self.reflink, "--reflink"),
            (self.fs_block.is_some(), "--fs-block"),
            (self.uuid.is_some(), "--uuid"),
            (self.label.is_some(), "--label"),
            (!self.xattr_prefix.is_empty(), "--xattr-prefix"),
            (self.inode_digest.is_some(), "--inode-digest"),
        ];
        options.iter().find(|(given, _)| *given).map(|(_, name)| *name)
    }

    /// Resolves the options that are left open.
    pub(super) fn resolve(self, shared: Shared) -> Result<Options, Usage> {
        let defaults = Options::default();
        // The data of a tar archive lies at multiples of 512.
        let block_size = block_size(self.fs_block, if self.refer { REFER_BLOCK } else { defaults.block_size })?;
        let small = Feature::SmallBlocks.since();
        let default_target = match self.inode_digest {
            Some(_) => Feature::PlainXattrPrefixes.since(),
            None if self.refer && block_size < 4096 => small,
            None => Kernel::DEFAULT,
        };
        let target = self.target_kernel.unwrap_or(default_target);
        let refer = if self.refer { shared.sources } else { 0 };
        let uncompressed = [(self.refer, "--refer"), (self.blob.is_some(), "--blob"), (self.reflink, "--reflink")];
        let uncompressed = uncompressed.iter().find(|(given, _)| *given).map(|(_, option)| *option);
        let default_codec =
            if uncompressed.is_some() { Choice::new(Codec::None) } else { defaults.build.codec.clone() };
        let codec = codec(&shared, default_codec)?;
        if let Some(option) = uncompressed.filter(|_| codec.codec() != Codec::None) {
            return Err(Usage(format!(
                "{option} is for uncompressed data, and --codec {codec} compresses: leave one out"
            )));
        }
        let metabox = self.metabox.map(|asked| checked_metabox(asked, block_size)).transpose()?;
        let mut changes = self.features.iter().fold(Changes::default(), |earlier, later| earlier.then(*later));
        if metabox.is_some() {
            changes.turn(Features::METABOX, true);
        }
        let fragment_cluster = self.fragment_cluster.map(|size| cluster("--fragment-cluster", size, block_size));
        let fragment_cluster = fragment_cluster.transpose()?;
        let chunk_size = self.chunk_size.map(|size| chunk(size, block_size)).transpose()?;
        if chunk_size.is_some() || self.blob.is_some() {
            changes.turn(Features::CHUNKS, true);
        }
        let extent_max = self.max_extent.map(|size| extent_max(size, block_size)).transpose()?;
        let data_align = self.data_align.map(|size| data_align(size, block_size, codec.codec())).transpose()?;
        let features = features(changes, &shared, target, &codec)?;
        let cluster_size = cluster_size(shared.block_size, defaults.cluster_size, block_size, target)?;
        let build = shared.build(defaults.build.clone(), codec);
        let uuid = self.uuid.map(Uuid::bytes).transpose()?;
        let options = defaults.set(|all| {
            (all.build, all.block_size, all.cluster_size) = (build, block_size, cluster_size);
            (all.features, all.target_kernel) = (features, target);
            all.xattr_prefixes = self.xattr_prefix.into_iter().map(|prefix| prefix.into_bytes().into()).collect();
            (all.uuid, all.label) = (uuid, self.label.unwrap_or_default());
            all.inode_digest = self.inode_digest.map(|name| name.into_bytes().into());
            (all.fragment_cluster, all.xattr_share) = (fragment_cluster, self.xattr_share);
            (all.extent_max, all.data_align) = (extent_max, data_align);
            (all.refer, all.blob, all.reflink) = (refer, self.blob, self.reflink);
            all.chunk_size = chunk_size.unwrap_or(all.chunk_size);
            if let Some((cluster_size, codec)) = metabox {
                (all.metabox.cluster_size, all.metabox.codec) = (cluster_size, codec);
            }
        });
        options.check_target().map_err(|error| {
            let needed = Kernel::needed(&Feature::needed_by(&options));
            let who = if self.target_kernel.is_some() { "" } else { " (the default)" };
            let why = match &error {
                packfs_image::Error::InvalidOption { why, .. } => why,
                error => &error.to_string(),
            };
            Usage(format!("--target-kernel {target}{who}: {why}; give --target-kernel {needed}, or do without"))
        })?;
        options.check_clusters().map_err(|error| Usage(format!("--block-size: {error}")))?;
        Ok(options)
    }
}

fn codec(shared: &Shared, default: Choice) -> Result<Choice, Usage> {
    let Some(asked) = shared.codec.clone() else { return Ok(default) };
    asked.checked("EROFS", |codec| codec.erofs_id().is_some())
}

fn block_size(asked: Option<u64>, default: u32) -> Result<u32, Usage> {
    let Some(size) = asked else { return Ok(default) };
    match u32::try_from(size) {
        Ok(size) if size.is_power_of_two() && (512..=4096).contains(&size) => Ok(size),
        _ => Err(Usage(format!(
            "--fs-block {}: an EROFS block is a power of two from 512 to 4096",
            value::as_size(size)
        ))),
    }
}

/// Checks the value of `--metabox`.
fn checked_metabox((size, codec): (u64, Option<Choice>), block_size: u32) -> Result<(u32, Option<Choice>), Usage> {
    Ok((cluster("--metabox", size, block_size)?, codec))
}

/// Checks the cluster size of an option.
fn cluster(option: &str, size: u64, block_size: u32) -> Result<u32, Usage> {
    let fits = |size: &u32| size.is_multiple_of(block_size) && (block_size..=1 << 20).contains(size);
    u32::try_from(size).ok().filter(fits).ok_or_else(|| {
        let text = "a cluster is a multiple of the block (--fs-block), at most 1M";
        Usage(format!("{option} {}: {text}", value::as_size(size)))
    })
}

/// Checks the value of `--max-extent`.
fn extent_max(size: u64, block_size: u32) -> Result<u32, Usage> {
    u32::try_from(size).ok().filter(|size| *size >= block_size).ok_or_else(|| {
        let text = "an extent is at least a block (--fs-block) and less than 4G";
        Usage(format!("--max-extent {}: {text}", value::as_size(size)))
    })
}

/// Checks the value of `--data-align`.
fn data_align(size: u64, block_size: u32, codec: Codec) -> Result<u32, Usage> {
    let fits = |size: &u32| size.is_multiple_of(block_size) && (block_size..=ALIGN_MAX).contains(size);
    let size = u32::try_from(size).ok().filter(fits).ok_or_else(|| {
        let text = "files are aligned to a multiple of the block (--fs-block), at most 16M";
        Usage(format!("--data-align {}: {text}", value::as_size(size)))
    })?;
    if codec != Codec::None {
        return Err(Usage("--data-align aligns uncompressed data: it needs --codec none".into()));
    }
    Ok(size)
}

/// Checks the value of `--chunk-size`.
fn chunk(size: u64, block_size: u32) -> Result<u32, Usage> {
    let fits = |size: &u32| size.is_power_of_two() && (block_size..=CHUNK_MAX).contains(size);
    u32::try_from(size).ok().filter(fits).ok_or_else(|| {
        let text = "a chunk is a power of two from the block (--fs-block) to 16M";
        Usage(format!("--chunk-size {}: {text}", value::as_size(size)))
    })
}

/// Returns the size of the largest physical cluster in bytes.
fn cluster_size(asked: Option<u64>, default: u32, block_size: u32, target: Kernel) -> Result<u32, Usage> {
    match asked {
        None if target < Feature::BigClusters.since() => Ok(block_size),
        None => Ok(default),
        Some(size) => match u32::try_from(size) {
            Ok(size) if size.is_multiple_of(block_size) && (block_size..=1 << 20).contains(&size) => Ok(size),
            _ => {
                let text = "the largest cluster of an EROFS image is a multiple of its block (--fs-block), at most 1M";
                Err(Usage(format!("--block-size {}: {text}", value::as_size(size))))
            }
        },
    }
}

/// Returns the features to use: the requested ones, and the defaults that fit them.
fn features(mut changes: Changes, shared: &Shared, target: Kernel, choice: &Choice) -> Result<Features, Usage> {
    let codec = choice.codec();
    let fragments = Features::FRAGMENTS | Features::ALL_FRAGMENTS;
    if let Some(asked) = shared.fragments {
        if changes.mention(fragments) {
            return Err(Usage("--fragments and --features both choose the fragments: leave one out".into()));
        }
        match asked {
            Fragments::None => changes.turn(Features::FRAGMENTS, false),
            Fragments::Tails => changes.turn(Features::FRAGMENTS, true),
            Fragments::Small => {
                let text = "--fragments small: EROFS packs small files and the ends of larger ones alike; give none \
                            or tails";
                return Err(Usage(text.into()));
            }
        }
    }
    check_together(changes.on, codec)?;
    let mut defaults = Options::default().features;
    let tails_lie_elsewhere = changes.on.contains(Features::ZTAILPACKING);
    if target < Feature::FragmentsOrDedupe.since() || codec == Codec::None || tails_lie_elsewhere {
        defaults.remove(fragments);
    }
    // Fragments and shared parts of clusters are one feature to the kernel. Finding equal parts
    // takes about as long as a fast codec, and saves slower codecs work.
    if shared.dedup && changes.apply(defaults).contains(Features::FRAGMENTS) && !choice.gives_up_early() {
        defaults.insert(Features::DEDUPE);
    }
    Ok(changes.apply(defaults))
}

/// Refuses incompatible combinations of features.
fn check_together(asked: Features, codec: Codec) -> Result<(), Usage> {
    if codec == Codec::None
        && let Some((_, name)) = OF_COMPRESSED_FILES.iter().find(|(feature, _)| asked.intersects(*feature))
    {
        return Err(Usage(format!("--features {name} is for compressed files, but --codec none does not compress")));
    }
    if codec != Codec::None && asked.contains(Features::CHUNKS) {
        return Err(Usage("--features chunks (--chunk-size) is for uncompressed files: it needs --codec none".into()));
    }
    if asked.contains(Features::COMPACT_INODES | Features::EXTENDED_INODES) {
        return Err(Usage("--features: compact-inodes and extended-inodes are opposites: leave one out".into()));
    }
    let extents = "48bit uses encoded extents";
    if asked.contains(Features::BITS_48 | Features::FULL_INDEX) {
        return Err(Usage(format!("--features: {extents} and full-index an index of blocks: leave one out")));
    }
    if asked.contains(Features::BITS_48 | Features::ZTAILPACKING) {
        return Err(Usage(format!("--features: {extents}, which cannot express ztailpacking: leave one out")));
    }
    Ok(())
}

/// The value of `--uuid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Uuid {
    Given([u8; 16]),
    Random,
}

impl Uuid {
    fn bytes(self) -> Result<[u8; 16], Usage> {
        match self {
            Uuid::Given(bytes) => Ok(bytes),
            Uuid::Random => {
                let mut bytes = [0; 16];
                let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
                read.map_err(|error| Usage(format!("--uuid random: /dev/urandom: {error}")))?;
                // Version 4, the one for random UUIDs in RFC 9562.
                bytes[6] = bytes[6] & 0x0f | 0x40;
                bytes[8] = bytes[8] & 0x3f | 0x80;
                Ok(bytes)
            }
        }
    }
}

fn uuid(text: &str) -> Result<Uuid, String> {
    if text == "random" {
        return Ok(Uuid::Random);
    }
    let groups: Vec<_> = text.split('-').map(str::len).collect();
    let digits = text.replace('-', "");
    let valid = matches!(groups[..], [32] | [8, 4, 4, 4, 12]) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = valid.then(|| u128::from_str_radix(&digits, 16).ok()).flatten();
    let expected = || "expected 32 hexadecimal digits, as in 01234567-89ab-cdef-0123-456789abcdef, or `random`";
    number.map(|number| Uuid::Given(number.to_be_bytes())).ok_or_else(|| expected().into())
}

fn metabox(text: &str) -> Result<(u64, Option<Choice>), String> {
    let (size, codec) = text.split_once(',').map_or((text, None), |(size, codec)| (size, Some(codec)));
    let codec = codec.map(|codec| codec.parse::<Choice>().map_err(|error| error.to_string())).transpose()?;
    match codec {
        Some(codec) if codec.codec().erofs_id().is_none() => Err(format!("{codec} cannot be in an EROFS image")),
        codec => Ok((value::size(size)?, codec)),
    }
}

fn label(text: &str) -> Result<String, String> {
    match text.len() {
        0..=15 => Ok(text.to_owned()),
        len => Err(format!("{len} bytes; a label has at most 15")),
    }
}

fn xattr_prefix(text: &str) -> Result<String, String> {
    let classes = ["user.", "trusted.", "security."];
    match classes.iter().find_map(|class| text.strip_prefix(class)) {
        Some(rest) if (1..=255).contains(&rest.len()) => Ok(text.to_owned()),
        _ => Err("expected the beginning of an attribute's name, with its class: user., trusted. or security.".into()),
    }
}
