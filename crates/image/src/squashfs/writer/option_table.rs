//! The table of SquashFS options: what `packfs build` and plans of shards need to know of the fields of
//! [`SquashfsOptions`].

use packfs_codec::table::checked_for;

use super::{Fragments, SquashfsOptions, checked_block_len};
use crate::build::option::switch;
use crate::build::{AnyOptions, BuildOption, OptionDraft};
use crate::{Error, Result};

/// Options that only SquashFS images have.
pub static OPTIONS: &[BuildOption] = &[
    BuildOption {
        name: "no-export",
        help: "Leave out the table that lets the image be exported over NFS",
        set: |draft, _| change(draft, |options| options.export = false),
        get: |target| has(target, |options| !options.export),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "plain-metadata",
        help: "Store inodes, directories and tables without compression",
        set: |draft, _| change(draft, |options| options.plain_metadata = true),
        get: |target| has(target, |options| options.plain_metadata),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "plain-data",
        help: "Store the blocks of files without compression",
        details: "Small files and tails of files lie in fragment blocks, which are still compressed.",
        set: |draft, _| change(draft, |options| options.plain_data = true),
        get: |target| has(target, |options| options.plain_data),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "plain-fragments",
        help: "Store fragment blocks without compression",
        set: |draft, _| change(draft, |options| options.plain_fragments = true),
        get: |target| has(target, |options| options.plain_fragments),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "no-pad",
        help: "Do not pad the image to a multiple of 4K",
        details: "Block devices and some readers need the padding.",
        set: |draft, _| change(draft, |options| options.pad = false),
        get: |target| has(target, |options| !options.pad),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "stream",
        help: "Write from front to back in one pass, with the superblock last",
        details: "With `-o -`, data is sent while it is packed, and nothing is kept on disk. Linux cannot mount such an \
                  image until `packfs check --complete` (or `mksquashfs -fix`) has put its superblock in front; packfs and \
                  unsquashfs 4.7.3 read it. Equal data is stored as often as it occurs.",
        conflicts: &["offset", "prefix", "index", "reuse"],
        no_shards: Some("an image that is streamed cannot have shards"),
        no_layers: Some("Linux does not mount an image that is streamed"),
        set: |draft, _| change(draft, |options| options.stream = true),
        get: |target| has(target, |options| options.stream),
        ..BuildOption::BLANK
    },
];

/// Changes the options of a draft, whose target has to be SquashFS.
fn change(draft: &mut OptionDraft, change: impl FnOnce(&mut SquashfsOptions)) -> std::result::Result<(), String> {
    let AnyOptions::Squashfs(options) = &mut draft.target else { return Err("only SquashFS images have it".into()) };
    change(options);
    Ok(())
}

/// Returns the values of a switch if the target is SquashFS.
fn has(target: &AnyOptions, is_on: impl FnOnce(&SquashfsOptions) -> bool) -> Vec<std::ffi::OsString> {
    match target {
        AnyOptions::Squashfs(options) => switch(is_on(options)),
        AnyOptions::Erofs(_) => Vec::new(),
    }
}

/// Checks the options of a draft, which has applied those that were given to `options`.
pub(crate) fn resolve(options: SquashfsOptions, draft: &OptionDraft) -> Result<SquashfsOptions> {
    if draft.is_given("codec") {
        let codec = options.build.codec.codec();
        checked_for("SquashFS", codec, |codec| codec.squashfs_id().is_some())
            .map_err(|why| Error::option("codec", codec.name(), why))?;
    }
    checked_block_len(&options)?;
    Ok(options)
}

/// The words for [`Fragments`].
const FRAGMENTS: [(&str, Fragments); 3] =
    [("none", Fragments::None), ("small", Fragments::Small), ("tails", Fragments::Tails)];

impl Fragments {
    /// Returns the word that options have for it.
    pub(crate) fn word(self) -> &'static str {
        FRAGMENTS.into_iter().find(|(_, known)| *known == self).map_or("tails", |(word, _)| word)
    }

    /// Returns what a word stands for.
    pub(crate) fn from_word(word: &str) -> Option<Fragments> {
        FRAGMENTS.into_iter().find(|(known, _)| *known == word).map(|(_, fragments)| fragments)
    }
}
