//! The table of EROFS options: what `packfs build` and plans of shards need to know of the fields of [`ErofsOptions`].

use std::ffi::{OsStr, OsString};

use packfs_blocks::hex::{from_hex, to_hex};
use packfs_blocks::system;
use packfs_codec::Choice;

use super::decide::content_cuts::CUT_DISTANCE;
use super::features::{self, FeatureChanges};
use super::options::{ErofsOptions, Features, INODE_DIGEST};
use crate::build::option::{bounded_size, size, size_text, text};
use crate::build::{AnyOptions, BuildOption, OptionDraft, ValueForm};
use crate::erofs::kernel::Kernel;
use crate::tree::path_of;

type SetResult = std::result::Result<(), String>;

/// Classes of attributes whose names have a number in an image.
const XATTR_CLASSES: [&str; 3] = ["user.", "trusted.", "security."];

/// Options that only EROFS images have.
pub static OPTIONS: &[BuildOption] = &[
    BuildOption {
        name: "features",
        form: ValueForm::Repeated("LIST"),
        words: features::words,
        help: "Features of the format to turn on, or off with ^NAME",
        details: "Accepted: fragments, all-fragments, dedupe, ztailpacking, 48bit, unaligned, full-index, chunks, \
                  inline-data, chunk-indexes, extended-inodes, compact-inodes, compressed-dirs, metabox, dot-omitted, \
                  checksum. The default is inline-data and checksum; fragments if files are compressed and the target is \
                  Linux 6.1 or newer; with fragments also dedupe, except for fast codecs.",
        set: |draft, value| {
            let changes: FeatureChanges = text(value)?.parse()?;
            change(draft, |options| options.features = changes.apply(options.features))
        },
        get: |target| of_erofs(target, |options| Some(features::in_words(options.features).into())),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "metabox",
        form: ValueForm::One("SIZE[,CODEC]"),
        help: "Compress inodes, in clusters of SIZE, with CODEC (Linux 6.17)",
        details: "Turns the feature metabox on. Small clusters such as 4K are read faster; larger ones take less space. \
                  The default codec is that of the image; 16K,zstd:19 gives another one.",
        set: set_metabox,
        get: |target| of_erofs(target, metabox_text),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "fragment-cluster",
        form: ValueForm::One("SIZE"),
        default: "as --block-size",
        help: "Pack small files and tails in clusters of SIZE",
        set: |draft, value| {
            let size = bounded_size(value)?;
            change(draft, |options| options.fragment_cluster = Some(size))
        },
        get: |target| of_erofs(target, |options| options.fragment_cluster.map(size_text)),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "rsyncable",
        form: ValueForm::Optional("SIZE", CUT_DISTANCE),
        help: "Keep unchanged data the same in an updated image, for zsync and casync",
        details: "Small files and tails of files are packed together. With this option, about every SIZE a new cluster of \
                  them begins at a place that depends on the content. A changed length then moves only data before the next \
                  such place. The default is 1M, the minimum 16K; smaller values make updates smaller and images larger. \
                  Needs the feature fragments.",
        set: |draft, value| {
            let distance = size(value)?;
            change(draft, |options| options.rsyncable = Some(distance))
        },
        get: |target| of_erofs(target, |options| options.rsyncable.map(size_text)),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "chunk-size",
        form: ValueForm::One("SIZE"),
        default: "128K",
        help: "Store uncompressed files in chunks of SIZE",
        details: "A power of two, at most 16M; equal chunks are stored once. Turns the feature chunks on.",
        set: |draft, value| {
            let size = bounded_size(value)?;
            change(draft, |options| options.chunk_size = size)
        },
        get: |target| {
            let has_chunks = |options: &&ErofsOptions| options.features.contains(Features::CHUNKS);
            of_erofs(target, |options| Some(options).filter(has_chunks).map(|options| size_text(options.chunk_size)))
        },
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "max-extent",
        form: ValueForm::One("SIZE"),
        default: "as much as fits",
        help: "Let one cluster decode to at most SIZE",
        details: "At least a block. A random read then decodes less, and the image becomes larger.",
        no_shards: Some("shards have extents of any length"),
        set: |draft, value| {
            let size = size(value)?;
            change(draft, |options| options.extent_max = Some(size))
        },
        get: |target| of_erofs(target, |options| options.extent_max.map(size_text)),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "data-align",
        form: ValueForm::One("SIZE"),
        default: "a block",
        help: "Begin the data of each file at a multiple of SIZE",
        details: "For example, the stripe of a RAID or the page of a flash chip: a multiple of the block up to 16M. Needs \
                  --codec none.",
        no_shards: Some("the data of shards is not aligned"),
        set: |draft, value| {
            let size = bounded_size(value)?;
            change(draft, |options| options.data_align = Some(size))
        },
        get: |target| of_erofs(target, |options| options.data_align.map(size_text)),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "xattr-share",
        form: ValueForm::One("N"),
        default: "2, and all long ones",
        help: "Share attributes that more than N entries have",
        set: |draft, value| {
            let above = text(value)?.parse::<u32>().map_err(|_| "expected a whole number, 0 or more")?;
            change(draft, |options| options.xattr_share = Some(above))
        },
        get: |target| of_erofs(target, |options| options.xattr_share.map(|above| above.to_string().into())),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "target-kernel",
        form: ValueForm::One("VERSION"),
        words: Kernel::known,
        default: "6.1",
        help: "Oldest Linux that must read the image",
        set: |draft, value| {
            let kernel = text(value)?.parse::<Kernel>()?;
            change(draft, |options| options.target_kernel = kernel)
        },
        get: |target| of_erofs(target, |options| Some(options.target_kernel.to_string().into())),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "refer",
        help: "Refer to the data of archives and images, do not copy it (Linux 5.16)",
        details: "The image contains only metadata; the sources are its additional devices, in their order. Mount it with -o \
                  device=SOURCE for each, or append the sources to it. Sources are uncompressed tar archives, also `-`, and \
                  EROFS images. Compressed data of images stays if the target kernel reads it and the block is that of the \
                  image. Data is copied if it follows an inode, or comes from directories and files. Turns compression off.",
        conflicts: &["dry-run", "spool", "append", "reuse", "index"],
        no_shards: Some("an image in shards holds all of its data"),
        no_layers: Some("a layer holds all of its data"),
        set: |draft, _| {
            let sources = draft.sources;
            change(draft, |options| options.refer = sources)
        },
        get: |target| of_erofs(target, |options| (options.refer > 0).then(OsString::new)),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "blob",
        form: ValueForm::One("FILE"),
        help: "Write the data of files to FILE, an additional device (Linux 5.16)",
        details: "The image contains only metadata: mount it with -o device=FILE, or append FILE to it. Turns compression off \
                  and the feature chunks on.",
        conflicts: &["dry-run", "refer", "reuse", "index"],
        no_shards: Some("an image in shards holds all of its data"),
        no_layers: Some("a layer holds all of its data"),
        set: |draft, value| change(draft, |options| options.blob = Some(value.into())),
        get: |target| of_erofs(target, |options| options.blob.as_ref().map(OsString::from)),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "reflink",
        help: "Share blocks with the sources on Btrfs and XFS, instead of copying",
        details: "Files of 64K or more are not read. A file system that can do so shares their blocks; otherwise the kernel \
                  copies them. Equal files are then stored twice, and zeros are stored unless they are holes in the source. \
                  Turns compression off. The image has the same bytes on any file system.",
        conflicts: &["dry-run", "refer", "reuse", "index", "inode-digest"],
        no_shards: Some("shards are packed from files that are read"),
        no_layers: Some("layers are packed from archives"),
        set: |draft, _| change(draft, |options| options.reflink = true),
        get: |target| of_erofs(target, |options| options.reflink.then(OsString::new)),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "fs-block",
        form: ValueForm::One("SIZE"),
        default: "4096; 512 to refer to archives",
        help: "Block size: a power of two from 512 to 4096",
        set: |draft, value| {
            let size = bounded_size(value)?;
            change(draft, |options| options.block_size = size)
        },
        get: |target| of_erofs(target, |options| Some(size_text(options.block_size))),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "uuid",
        form: ValueForm::One("UUID"),
        default: "derived from its contents",
        help: "UUID of the image, or `random`",
        no_layers: Some("the UUID of a layer is derived from its digest, as containerd does"),
        set: |draft, value| {
            let uuid = uuid_of(text(value)?)?;
            change(draft, |options| options.uuid = Some(uuid))
        },
        get: |target| of_erofs(target, |options| options.uuid.map(|uuid| uuid_text(uuid).into())),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "label",
        form: ValueForm::One("LABEL"),
        help: "Label of the image, at most 15 bytes",
        set: |draft, value| {
            let label = text(value)?;
            if label.len() > 15 {
                return Err(format!("{} bytes; a label has at most 15", label.len()));
            }
            change(draft, |options| options.label = label.into())
        },
        get: |target| of_erofs(target, |options| (!options.label.is_empty()).then(|| options.label.clone().into())),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "xattr-prefix",
        form: ValueForm::Repeated("PREFIX"),
        help: "Store the attribute name prefix PREFIX once, as user.mime. (Linux 6.4)",
        set: |draft, value| {
            let prefix = value.as_encoded_bytes();
            let rest = XATTR_CLASSES.iter().find_map(|class| prefix.strip_prefix(class.as_bytes()));
            if !rest.is_some_and(|rest| (1..=255).contains(&rest.len())) {
                let why = "expected the beginning of an attribute's name, with its class: user., trusted. or security.";
                return Err(why.into());
            }
            change(draft, |options| options.xattr_prefixes.push(prefix.into()))
        },
        get: |target| of_erofs(target, |options| options.xattr_prefixes.iter().map(|prefix| path_of(prefix).into())),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "inode-digest",
        form: ValueForm::Optional("NAME", INODE_DIGEST),
        help: "Store the SHA-256 of each file as an attribute [default NAME: erofs.fingerprint.v1]",
        details: "Linux 7.0 shares the page cache of equal files of several images that are mounted with -o inode_share and \
                  the same domain_id. Only a NAME that begins with user., trusted. or security. is shown as an attribute. \
                  Needs Linux 6.4, with fragments 6.17, which also becomes the default of --target-kernel. `packfs check` \
                  compares files with their digests.",
        set: |draft, value| change(draft, |options| options.inode_digest = Some(value.as_encoded_bytes().into())),
        get: |target| of_erofs(target, |options| options.inode_digest.as_ref().map(|name| path_of(name).into())),
        ..BuildOption::BLANK
    },
];

/// Changes the options of a draft, whose target has to be EROFS.
fn change(draft: &mut OptionDraft, change: impl FnOnce(&mut ErofsOptions)) -> SetResult {
    let AnyOptions::Erofs(options) = &mut draft.target else { return Err("only EROFS images have it".into()) };
    change(options);
    Ok(())
}

/// Returns the values of an option if the target is EROFS.
fn of_erofs<'o, V: IntoIterator<Item = OsString>>(
    target: &'o AnyOptions,
    values: impl FnOnce(&'o ErofsOptions) -> V,
) -> Vec<OsString> {
    match target {
        AnyOptions::Erofs(options) => values(options).into_iter().collect(),
        AnyOptions::Squashfs(_) => Vec::new(),
    }
}

fn set_metabox(draft: &mut OptionDraft, value: &OsStr) -> SetResult {
    let value = text(value)?;
    let (cluster, codec) = value.split_once(',').map_or((value, None), |(cluster, codec)| (cluster, Some(codec)));
    let codec = codec.map(|codec| codec.parse::<Choice>().map_err(|error| error.to_string())).transpose()?;
    if let Some(codec) = codec.as_ref().filter(|codec| codec.codec().erofs_id().is_none()) {
        return Err(format!("{codec} cannot be in an EROFS image"));
    }
    let cluster_size = bounded_size(OsStr::new(cluster))?;
    change(draft, |options| {
        options.metabox.cluster_size = cluster_size;
        options.metabox.codec = codec;
    })
}

fn metabox_text(options: &ErofsOptions) -> Option<OsString> {
    if !options.features.contains(Features::METABOX) {
        return None;
    }
    let mut text = size_text(options.metabox.cluster_size);
    if let Some(codec) = &options.metabox.codec {
        text.push(format!(",{codec}"));
    }
    Some(text)
}

/// Parses a UUID, or makes one for the word `random`.
fn uuid_of(text: &str) -> std::result::Result<[u8; 16], String> {
    if text == "random" {
        return random_uuid().map_err(|error| format!("/dev/urandom: {error}"));
    }
    let groups: Vec<_> = text.split('-').map(str::len).collect();
    let digits = text.replace('-', "");
    let valid = matches!(groups[..], [32] | [8, 4, 4, 4, 12]);
    let bytes = from_hex(&digits).filter(|_| valid).and_then(|bytes| bytes.try_into().ok());
    let expected = "expected 32 hexadecimal digits, as in 01234567-89ab-cdef-0123-456789abcdef, or `random`";
    bytes.ok_or_else(|| expected.into())
}

fn random_uuid() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    system::fill_random(&mut bytes)?;
    // Version 4, the one for random UUIDs in RFC 9562.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(bytes)
}

/// Formats a UUID in the usual groups of hexadecimal digits.
pub fn uuid_text(bytes: [u8; 16]) -> String {
    let digits = to_hex(&bytes);
    let groups = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    groups.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_the_usual_form() {
        let bytes = std::array::from_fn(|at| u8::try_from(at * 17).unwrap());
        assert_eq!(uuid_text(bytes), "00112233-4455-6677-8899-aabbccddeeff");
    }
}
