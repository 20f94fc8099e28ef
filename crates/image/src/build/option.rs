//! Build options as a table: what the command line, plans and other programs need to know of each option stands in one
//! [`BuildOption`], in the file with the options of its format.

use std::ffi::{OsStr, OsString};

use packfs_blocks::{name, units};
use packfs_codec::Choice;
use packfs_codec::table::image_codecs;

use super::{AnyOptions, Order};
use crate::{Error, Result};

/// One option of a build.
#[non_exhaustive]
pub struct BuildOption {
    /// Name, with words joined by `-`.
    pub name: &'static str,
    /// Letter that the command line accepts instead of the name.
    pub short: Option<char>,
    /// Number and kind of its values.
    pub form: ValueForm,
    /// All values with their meanings, if there are only a few.
    pub choices: &'static [(&'static str, &'static str)],
    /// Returns some of the accepted values, for completion; only if there are no `choices`.
    pub words: fn() -> Vec<&'static str>,
    /// Returns a description of the accepted values, printed for the value `help`.
    pub listing: Option<fn() -> String>,
    /// Default value, in words; empty if it goes without saying.
    pub default: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Further help; may be empty.
    pub details: &'static str,
    /// Names of options of `packfs build` that exclude it.
    pub conflicts: &'static [&'static str],
    /// The reason why an image in shards cannot have it, so that plans refuse it.
    pub no_shards: Option<&'static str>,
    /// The reason why a layer of a container image cannot have it.
    pub no_layers: Option<&'static str>,
    /// Applies a value, which is empty for a switch. An error is the reason alone.
    pub set: fn(&mut OptionDraft, &OsStr) -> std::result::Result<(), String>,
    /// Returns the values with which the option has to be given to make these options; none if it can be left out.
    pub get: fn(&AnyOptions) -> Vec<OsString>,
}

/// The values of a [`BuildOption`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueForm {
    /// None: the option is a switch.
    Switch,
    /// One, with this name in the help. The last one counts.
    One(&'static str),
    /// One each time that the option is given. All count.
    Repeated(&'static str),
    /// One that may be left out, and what it then is.
    Optional(&'static str, &'static str),
}

impl BuildOption {
    /// An option that is neither named nor applied, for the fields that entries of a table leave out.
    pub(crate) const BLANK: BuildOption = BuildOption {
        name: "",
        short: None,
        form: ValueForm::Switch,
        choices: &[],
        words: Vec::new,
        listing: None,
        default: "",
        help: "",
        details: "",
        conflicts: &[],
        no_shards: None,
        no_layers: None,
        set: |_, _| Ok(()),
        get: |_| Vec::new(),
    };
}

impl std::fmt::Debug for BuildOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BuildOption").field(&self.name).finish()
    }
}

/// Options of a build that are being collected. [`OptionDraft::resolve`] decides those that were left open.
#[derive(Debug, Clone)]
pub struct OptionDraft {
    pub(crate) target: AnyOptions,
    /// Number of sources to which an EROFS image may refer.
    pub(crate) sources: u16,
    given: Vec<(&'static BuildOption, OsString)>,
}

impl OptionDraft {
    /// Begins with these options, to be changed by those that are given. A build has this number of sources.
    pub fn new(defaults: impl Into<AnyOptions>, sources: u16) -> Self {
        OptionDraft { target: defaults.into(), sources, given: Vec::new() }
    }

    /// Applies an option. Switches ignore the value.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a value that the option never takes. What depends on other options is checked by
    /// [`OptionDraft::resolve`].
    pub fn set(&mut self, option: &'static BuildOption, value: &OsStr) -> Result<()> {
        (option.set)(self, value).map_err(|why| refused(option, value, why))?;
        self.given.push((option, value.to_owned()));
        Ok(())
    }

    /// Returns true if the option with this name was set.
    pub fn is_given(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    /// Names the size in an error as it was given: `5000` instead of `4.88 KiB`.
    pub(super) fn with_size_as_given(&self, error: Error) -> Error {
        let Error::InvalidOption { option, value, why } = error else { return error };
        let has_size = |known: &BuildOption| match known.form {
            ValueForm::One(metavar) | ValueForm::Optional(metavar, _) => metavar.starts_with("SIZE"),
            ValueForm::Switch | ValueForm::Repeated(_) => false,
        };
        let given = self.given.iter().rfind(|(known, _)| known.name == option && has_size(known));
        let value = given.map_or(value, |(_, given)| name::display(given).to_string());
        Error::InvalidOption { option, value, why }
    }

    /// Returns the values given for an option.
    pub(crate) fn values<'d>(&'d self, name: &'d str) -> impl Iterator<Item = &'d OsStr> {
        self.given.iter().filter(move |(option, _)| option.name == name).map(|(_, value)| value.as_os_str())
    }
}

/// Options for compression, which every format has.
pub static COMPRESSION_OPTIONS: &[BuildOption] = &[
    BuildOption {
        name: "codec",
        short: Some('c'),
        form: ValueForm::One("CODEC"),
        words: image_codecs,
        listing: Some(packfs_codec::table::help),
        help: "Codec with level and options, as in zstd:19; `help` lists all",
        details: "The default is zstd for SquashFS, lz4hc:9 for EROFS.",
        set: |draft, value| {
            let choice = text(value)?.parse::<Choice>().map_err(|error: packfs_codec::Error| error.to_string())?;
            draft.target.common_mut().codec = choice;
            Ok(())
        },
        get: |target| vec![target.common().codec.to_string().into()],
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "block-size",
        short: Some('b'),
        form: ValueForm::One("SIZE"),
        help: "Block size, for EROFS size of the largest cluster",
        details: "SquashFS: a power of two from 4K to 1M [default: 128K]. EROFS: a multiple of the block (--fs-block) up to \
                  1M [default: 64K].",
        set: |draft, value| {
            draft.target.set_block_size(bounded_size(value)?);
            Ok(())
        },
        get: |target| vec![size_text(target.block_size())],
        ..BuildOption::BLANK
    },
];

/// Options for the layout of the data, which every format has.
pub static LAYOUT_OPTIONS: &[BuildOption] = &[
    BuildOption {
        name: "fragments",
        form: ValueForm::One("FRAGMENTS"),
        choices: &[
            ("none", "Every file has its own blocks"),
            ("small", "Files smaller than a block"),
            ("tails", "Files smaller than a block, and the tails of larger files"),
        ],
        default: "tails",
        help: "Files whose tails are packed together",
        set: |draft, value| draft.target.set_fragments(text(value)?),
        get: |target| target.fragments().into_iter().map(OsString::from).collect(),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "no-dedup",
        help: "Do not share equal files and blocks",
        set: |draft, _| {
            draft.target.common_mut().dedup = false;
            Ok(())
        },
        get: |target| switch(!target.common().dedup),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "no-sparse",
        help: "Store holes and blocks of zeros like other data",
        set: |draft, _| {
            draft.target.common_mut().sparse = false;
            Ok(())
        },
        get: |target| switch(!target.common().sparse),
        ..BuildOption::BLANK
    },
    BuildOption {
        name: "order",
        form: ValueForm::One("ORDER"),
        choices: &[
            ("path", "By path: files of one directory are together"),
            ("type", "By type, name and length"),
            ("similar", "By type, with similar files next to each other"),
        ],
        default: "path for SquashFS, type for EROFS",
        help: "Order of file data",
        details: "`similar` makes the smallest images.",
        set: |draft, value| {
            draft.target.common_mut().order = Some(order(value)?);
            Ok(())
        },
        get: |target| target.common().order.map(|order| order.to_string().into()).into_iter().collect(),
        ..BuildOption::BLANK
    },
];

fn order(value: &OsStr) -> std::result::Result<Order, String> {
    let orders = [Order::Path, Order::Type, Order::Similar];
    let known = orders.into_iter().find(|order| order.to_string().as_str() == value);
    known.ok_or_else(|| "expected path, type or similar".into())
}

/// Returns the value as text.
pub(crate) fn text(value: &OsStr) -> std::result::Result<&str, String> {
    value.to_str().ok_or_else(|| "not UTF-8".into())
}

/// Parses the size of an option that has a limit of its own, which is checked with the other options: what does not fit in
/// 32 bits becomes the largest number, so that the error names that limit. No such option takes the largest number.
pub(crate) fn bounded_size(value: &OsStr) -> std::result::Result<u32, String> {
    Ok(u32::try_from(units::parse(text(value)?)?).unwrap_or(u32::MAX))
}

/// Parses the size of an option that takes all that fit in 32 bits.
pub(crate) fn size(value: &OsStr) -> std::result::Result<u32, String> {
    u32::try_from(units::parse(text(value)?)?).map_err(|_| "too large: expected less than 4G".into())
}

/// Formats a number of bytes as [`size`] takes it.
pub(crate) fn size_text(bytes: u32) -> OsString {
    units::in_powers(bytes.into()).into()
}

/// Returns the error of an option with a value; a switch has an empty one.
fn refused(option: &BuildOption, value: &OsStr, why: impl Into<String>) -> Error {
    match value.is_empty() {
        true => Error::switch(option.name, why),
        false => Error::option(option.name, name::display(value), why),
    }
}

/// Returns the values of a switch.
pub(crate) fn switch(is_on: bool) -> Vec<OsString> {
    is_on.then(OsString::new).into_iter().collect()
}

/// Refuses options that an image in shards cannot have.
pub(crate) fn check_shards(target: &AnyOptions) -> Result<()> {
    if target.common().shards.is_none() {
        return Ok(());
    }
    refuse(target, |option| option.no_shards)
}

/// Refuses the options for which `why_not` has a reason.
pub(super) fn refuse(target: &AnyOptions, why_not: impl Fn(&BuildOption) -> Option<&'static str>) -> Result<()> {
    for option in target.option_tables().into_iter().flatten() {
        if let (Some(why), Some(value)) = (why_not(option), (option.get)(target).first()) {
            return Err(refused(option, value, why));
        }
    }
    Ok(())
}
