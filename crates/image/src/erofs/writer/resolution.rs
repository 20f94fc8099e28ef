//! Decides the options that were left open: the defaults follow the target kernel and the codec, and what does not go
//! together is refused.

use packfs_blocks::name;
use packfs_codec::table::checked_for;
use packfs_codec::{Choice, Codec};

use super::check;
use super::features::FeatureChanges;
use super::options::{ErofsOptions, Features};
use crate::build::OptionDraft;
use crate::build::option::text;
use crate::erofs::kernel::{Feature, Kernel, TARGET_KERNEL};
use crate::{Error, Result};

/// Features that only compressed files can use.
const OF_COMPRESSED_FILES: [(Features, &str); 6] = [
    (Features::ALL_FRAGMENTS, "all-fragments"),
    (Features::FRAGMENTS, "fragments"),
    (Features::DEDUPE, "dedupe"),
    (Features::ZTAILPACKING, "ztailpacking"),
    (Features::FULL_INDEX, "full-index"),
    (Features::COMPRESSED_DIRS, "compressed-dirs"),
];

/// Block size of images that refer to archives: the data of a tar archive lies at multiples of 512.
const REFER_BLOCK: u32 = 512;

/// Resolves the options of a draft, which has applied those that were given to `options`.
pub(crate) fn resolve(mut options: ErofsOptions, draft: &OptionDraft) -> Result<ErofsOptions> {
    if options.refer > 0 && !draft.is_given("fs-block") {
        options.block_size = REFER_BLOCK;
    }
    if !draft.is_given(TARGET_KERNEL) {
        options.target_kernel = default_target(&options);
    }
    resolve_codec(&mut options, draft)?;
    options.features = resolve_features(&options, draft)?;
    if options.target_kernel < Feature::BigClusters.since() && !draft.is_given("block-size") {
        options.cluster_size = options.block_size;
    }
    check::options(&options).map_err(|error| explain_target(error, &options, draft))?;
    Ok(options)
}

fn default_target(options: &ErofsOptions) -> Kernel {
    if options.inode_digest.is_some() {
        Feature::PlainXattrPrefixes.since()
    } else if options.refer > 0 && options.block_size < 4096 {
        Feature::SmallBlocks.since()
    } else {
        Kernel::DEFAULT
    }
}

/// Turns compression off for options that need uncompressed data, unless a codec was given.
fn resolve_codec(options: &mut ErofsOptions, draft: &OptionDraft) -> Result<()> {
    let is_codec_given = draft.is_given("codec");
    let codec = &options.build.codec;
    if is_codec_given {
        checked_for("EROFS", codec.codec(), |codec| codec.erofs_id().is_some())
            .map_err(|why| Error::option("codec", codec.codec().name(), why))?;
    }
    let Some(option) = ["refer", "blob", "reflink"].into_iter().find(|option| draft.is_given(option)) else {
        return Ok(());
    };
    if !is_codec_given {
        options.build.codec = Choice::new(Codec::None);
    } else if codec.codec() != Codec::None {
        let why = format!("it is for uncompressed data, and the codec {codec} compresses: leave one out");
        return Err(Error::switch(option, why));
    }
    Ok(())
}

/// Returns the features to use: the requested ones, and the defaults that fit them.
fn resolve_features(options: &ErofsOptions, draft: &OptionDraft) -> Result<Features> {
    let changes = asked_features(draft)?;
    let codec = options.build.codec.codec();
    check_together(changes.on, codec)?;
    let mut defaults = ErofsOptions::default().features;
    let tails_lie_elsewhere = changes.on.contains(Features::ZTAILPACKING);
    if options.target_kernel < Feature::FragmentsOrDedupe.since() || codec == Codec::None || tails_lie_elsewhere {
        defaults.remove(Features::FRAGMENTS | Features::ALL_FRAGMENTS);
    }
    // Fragments and shared parts of clusters are one feature to the kernel. Finding equal parts
    // takes about as long as a fast codec, and saves slower codecs work.
    let has_fragments = changes.apply(defaults).contains(Features::FRAGMENTS);
    if options.build.dedup && has_fragments && !options.build.codec.gives_up_early() {
        defaults.insert(Features::DEDUPE);
    }
    Ok(changes.apply(defaults))
}

/// Returns the features that were asked for by name, or by an option that needs them.
fn asked_features(draft: &OptionDraft) -> Result<FeatureChanges> {
    let mut changes = FeatureChanges::default();
    for value in draft.values("features") {
        let refuse = |why: String| Error::option("features", name::display(value), why);
        let later = text(value).and_then(str::parse::<FeatureChanges>).map_err(refuse)?;
        changes = changes.then(later);
    }
    if draft.is_given("metabox") {
        changes.turn(Features::METABOX, true);
    }
    if draft.is_given("chunk-size") || draft.is_given("blob") {
        changes.turn(Features::CHUNKS, true);
    }
    if let Some(fragments) = draft.values("fragments").last() {
        if changes.mention(Features::FRAGMENTS | Features::ALL_FRAGMENTS) {
            let why = "a feature chooses the fragments, too: leave one out";
            return Err(Error::option("fragments", name::display(fragments), why));
        }
        changes.turn(Features::FRAGMENTS, fragments != "none");
    }
    Ok(changes)
}

/// Refuses incompatible combinations of features.
fn check_together(asked: Features, codec: Codec) -> Result<()> {
    let refuse = |feature: &str, why: &str| Err(Error::option("features", feature, why));
    let unused = OF_COMPRESSED_FILES.iter().find(|(feature, _)| asked.intersects(*feature));
    if let Some((_, name)) = unused.filter(|_| codec == Codec::None) {
        return refuse(name, "it is for compressed files, but the codec none does not compress");
    }
    if codec != Codec::None && asked.contains(Features::CHUNKS) {
        return refuse("chunks", "it is for uncompressed files, as is a chunk size: it needs the codec none");
    }
    let opposites = Features::COMPACT_INODES | Features::EXTENDED_INODES;
    if asked.contains(opposites) {
        return refuse("compact-inodes,extended-inodes", "these are opposites: leave one out");
    }
    if asked.contains(Features::BITS_48 | Features::FULL_INDEX) {
        return refuse("48bit,full-index", "48bit uses encoded extents, full-index an index of blocks: leave one out");
    }
    if asked.contains(Features::BITS_48 | Features::ZTAILPACKING) {
        let why = "48bit uses encoded extents, which cannot express ztailpacking: leave one out";
        return refuse("48bit,ztailpacking", why);
    }
    Ok(())
}

/// Adds to an error about the target kernel which one would do.
fn explain_target(error: Error, options: &ErofsOptions, draft: &OptionDraft) -> Error {
    let target = options.target_kernel;
    match error {
        Error::InvalidOption { option: TARGET_KERNEL, why, .. } => {
            let needed = Kernel::needed(&Feature::needed_by(options));
            let who = if draft.is_given(TARGET_KERNEL) { "" } else { " (the default)" };
            let value = format!("{target}{who}");
            Error::option(TARGET_KERNEL, value, format!("{why}; choose {needed}, or do without"))
        }
        error => error,
    }
}
