//! Options of the command line that are made from the tables of the library.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::marker::PhantomData;

use clap::builder::{PossibleValue, PossibleValuesParser, StyledStr, TypedValueParser, ValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use packfs_image::build::{AnyOptions, BuildOption, COMPRESSION_OPTIONS, LAYOUT_OPTIONS, OptionDraft, ValueForm};
use packfs_image::{erofs, squashfs};

use super::FormatChoice;
use crate::output::failure::UsageError;
use crate::resources;

/// A table of options, which are together in the help.
pub(super) trait OptionTable {
    /// Heading of the options in the help.
    const HEADING: Option<&'static str>;

    /// Returns the options.
    fn options() -> impl Iterator<Item = &'static BuildOption>;

    /// Returns options of a format that has those of the table, to check values.
    fn some_target() -> AnyOptions {
        squashfs::SquashfsOptions::default().into()
    }
}

/// `--codec` and `--block-size`.
#[derive(Debug)]
pub(super) struct CompressionTable;

impl OptionTable for CompressionTable {
    const HEADING: Option<&'static str> = None;

    fn options() -> impl Iterator<Item = &'static BuildOption> {
        COMPRESSION_OPTIONS.iter()
    }
}

/// Options for the layout of the data.
#[derive(Debug)]
pub(super) struct LayoutTable;

impl OptionTable for LayoutTable {
    const HEADING: Option<&'static str> = Some("Layout of the image");

    fn options() -> impl Iterator<Item = &'static BuildOption> {
        LAYOUT_OPTIONS.iter()
    }
}

/// Options that only SquashFS has.
#[derive(Debug)]
pub(super) struct SquashfsTable;

impl OptionTable for SquashfsTable {
    const HEADING: Option<&'static str> = Some("SquashFS only");

    fn options() -> impl Iterator<Item = &'static BuildOption> {
        squashfs::OPTIONS.iter()
    }
}

/// Options that only EROFS has.
#[derive(Debug)]
pub(super) struct ErofsTable;

impl OptionTable for ErofsTable {
    const HEADING: Option<&'static str> = Some("EROFS only");

    fn options() -> impl Iterator<Item = &'static BuildOption> {
        erofs::OPTIONS.iter()
    }

    fn some_target() -> AnyOptions {
        erofs::ErofsOptions::default().into()
    }
}

/// The options of a table that a layer of a container image can have.
#[derive(Debug)]
pub(super) struct OfLayers<T>(PhantomData<T>);

impl<T: OptionTable> OptionTable for OfLayers<T> {
    const HEADING: Option<&'static str> = T::HEADING;

    fn options() -> impl Iterator<Item = &'static BuildOption> {
        T::options().filter(|option| option.no_layers.is_none())
    }

    fn some_target() -> AnyOptions {
        T::some_target()
    }
}

/// Options of a table that were given, with their values.
#[derive(Debug)]
pub(super) struct TableArgs<T> {
    given: Vec<(&'static BuildOption, OsString)>,
    table: PhantomData<T>,
}

impl<T: OptionTable> TableArgs<T> {
    /// Returns true if the option with this name was given.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.given.iter().any(|(option, _)| option.name == name)
    }

    /// Returns the values of an option, as they were typed.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl DoubleEndedIterator<Item = &'a OsStr> {
        self.given.iter().filter(move |(option, _)| option.name == name).map(|(_, value)| value.as_os_str())
    }

    /// Returns the name of an option that was given.
    pub(super) fn first_given(&self) -> Option<&'static str> {
        self.given.first().map(|(option, _)| option.name)
    }

    /// Gives an option of the table a value, unless it was given one.
    pub(super) fn add_unless_given(&mut self, name: &str, value: impl Into<OsString>) {
        let option = T::options().find(|option| option.name == name);
        if let Some(option) = option.filter(|_| !self.is_given(name)) {
            self.given.push((option, value.into()));
        }
    }

    /// Applies the options to a draft.
    pub(super) fn apply(&self, draft: &mut OptionDraft) -> Result<(), UsageError> {
        self.given.iter().try_for_each(|(option, value)| draft.set(option, value)).map_err(|error| name_option(&error))
    }
}

/// Decides the options that were left open, and starts no more threads than the process has room for.
pub(super) fn resolve(draft: OptionDraft) -> Result<AnyOptions, UsageError> {
    let mut target = draft.resolve().map_err(|error| name_option(&error))?;
    let threads = resources::threads_within_limits(target.common().threads, target.worker_memory());
    target.common_mut().threads = threads;
    Ok(target)
}

/// Refuses the first option of the format that `image` does not have.
pub(super) fn refuse_other_format<S: OptionTable, E: OptionTable>(
    format: FormatChoice,
    image: impl fmt::Display,
    squashfs: &TableArgs<S>,
    erofs: &TableArgs<E>,
) -> Result<(), UsageError> {
    let (given, other) = match format {
        FormatChoice::Squashfs => (erofs.first_given(), FormatChoice::Erofs),
        FormatChoice::Erofs => (squashfs.first_given(), FormatChoice::Squashfs),
    };
    let Some(option) = given else { return Ok(()) };
    let other = other.name();
    let text = format!("--{option} is for {other} images, and {image} becomes {}: leave one out", format.name());
    Err(UsageError(format!("{text}, or give --format {other}")))
}

/// Returns the options of all tables.
fn all_options() -> impl Iterator<Item = &'static BuildOption> {
    [COMPRESSION_OPTIONS, LAYOUT_OPTIONS, squashfs::OPTIONS, erofs::OPTIONS].into_iter().flatten()
}

/// Returns true if an option of the command line is in a table.
pub(super) fn is_in_a_table(id: &str) -> bool {
    all_options().any(|option| id_of(option.name) == id)
}

/// Turns an error of the library into one that names the option as it is typed.
pub(crate) fn name_option(error: &packfs_image::Error) -> UsageError {
    match error {
        packfs_image::Error::InvalidOption { option, value, why }
            if *option == "rule" || is_in_a_table(&id_of(option)) =>
        {
            let space = if value.is_empty() { "" } else { " " };
            UsageError(format!("--{option}{space}{value}: {why}"))
        }
        error => UsageError(error.to_string()),
    }
}

/// Returns the ids of options that an image in shards cannot have.
pub(crate) fn ids_without_shards() -> impl Iterator<Item = String> {
    all_options().filter(|option| option.no_shards.is_some()).map(|option| id_of(option.name))
}

/// Returns the identifier of an option for the parser: that of a field with its name.
fn id_of(name: &str) -> String {
    name.replace('-', "_")
}

impl<T: OptionTable> Args for TableArgs<T> {
    fn augment_args(command: Command) -> Command {
        command.args(T::options().map(arg::<T>))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: OptionTable> FromArgMatches for TableArgs<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for option in T::options() {
            let id = id_of(option.name);
            // A switch that was not given has a value, too.
            if matches.value_source(&id) != Some(ValueSource::CommandLine) {
                continue;
            }
            if option.form == ValueForm::Switch {
                given.push((option, OsString::new()));
            } else {
                let values = matches.get_many::<OsString>(&id).into_iter().flatten();
                given.extend(values.map(|value| (option, value.clone())));
            }
        }
        Ok(TableArgs { given, table: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Makes the argument of an option.
fn arg<T: OptionTable>(option: &'static BuildOption) -> Arg {
    let mut arg = Arg::new(id_of(option.name)).long(option.name).help_heading(T::HEADING);
    if let Some(letter) = option.short {
        arg = arg.short(letter);
    }
    let default = if option.default.is_empty() { String::new() } else { format!(" [default: {}]", option.default) };
    let help = format!("{}{default}", option.help);
    if !option.details.is_empty() {
        arg = arg.long_help(StyledStr::from(format!("{help}\n\n{}", option.details)));
    }
    arg = arg.help(help).conflicts_with_all(option.conflicts.iter().map(|name| id_of(name)));
    let metavar = match option.form {
        ValueForm::Switch => return arg.action(ArgAction::SetTrue),
        ValueForm::One(metavar) => metavar,
        ValueForm::Repeated(metavar) => {
            arg = arg.action(ArgAction::Append);
            metavar
        }
        ValueForm::Optional(metavar, missing) => {
            arg = arg.num_args(0..=1).require_equals(true).default_missing_value(missing);
            metavar
        }
    };
    if metavar == "FILE" {
        // Only paths may be any bytes.
        let parser = ValueParser::os_string();
        return arg.value_name(metavar).value_hint(ValueHint::FilePath).value_parser(parser);
    }
    let parser = OptionParser { option, some_target: T::some_target };
    arg.value_name(metavar).hide_possible_values(option.choices.is_empty()).value_parser(parser)
}

/// Checks a value of an option as far as that is possible without other options.
#[derive(Clone)]
struct OptionParser {
    option: &'static BuildOption,
    some_target: fn() -> AnyOptions,
}

impl TypedValueParser for OptionParser {
    type Value = OsString;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<OsString, clap::Error> {
        if let Some(listing) = self.option.listing.filter(|_| value == "help") {
            // As an error: only so can the parser of a value end the command line with a text.
            let mut asked = clap::Error::new(ErrorKind::DisplayHelp);
            asked.insert(ContextKind::Custom, ContextValue::String(listing()));
            return Err(asked);
        }
        if !self.option.choices.is_empty() {
            let names = self.option.choices.iter().map(|(name, _)| *name);
            return PossibleValuesParser::new(names).parse_ref(command, arg, value).map(OsString::from);
        }
        let OptionParser { option, some_target } = *self;
        let check = move |text: &str| {
            let mut draft = OptionDraft::new(some_target(), 1);
            (option.set)(&mut draft, OsStr::new(text)).map(|()| OsString::from(text))
        };
        TypedValueParser::parse_ref(&check, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        if !self.option.choices.is_empty() {
            let choices = self.option.choices.iter();
            return Some(Box::new(choices.map(|(name, help)| PossibleValue::new(*name).help(*help))));
        }
        let words = (self.option.words)().into_iter().chain(self.option.listing.map(|_| "help"));
        let mut words = words.map(PossibleValue::new).peekable();
        words.peek()?;
        Some(Box::new(words))
    }
}
