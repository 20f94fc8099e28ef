//! Values for completion where more than these are accepted: codecs with levels, lists, features.

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display};
use std::str::FromStr;

use clap::builder::{PossibleValue, TypedValueParser};
use packfs_codec::table::CODECS;
pub(super) use packfs_codec::table::image_codecs;

use crate::personalities;

/// Parser of a value of which some are known by name.
pub(super) struct NamedValueParser<T> {
    parse: fn(&str) -> Result<T, String>,
    words: fn() -> Vec<&'static str>,
}

impl<T> NamedValueParser<T> {
    /// A parser that accepts what `parse` does, and offers `words`.
    pub(super) const fn new(parse: fn(&str) -> Result<T, String>, words: fn() -> Vec<&'static str>) -> Self {
        NamedValueParser { parse, words }
    }
}

impl<T: FromStr<Err: Display>> NamedValueParser<T> {
    /// A parser of values that are read from text by their type.
    pub(super) const fn of(words: fn() -> Vec<&'static str>) -> Self {
        NamedValueParser { parse: |text| text.parse().map_err(|error: T::Err| error.to_string()), words }
    }
}

impl<T> Clone for NamedValueParser<T> {
    fn clone(&self) -> Self {
        NamedValueParser { parse: self.parse, words: self.words }
    }
}

impl<T> fmt::Debug for NamedValueParser<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedValueParser").field(&(self.words)()).finish()
    }
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for NamedValueParser<T> {
    type Value = T;

    fn parse_ref(&self, command: &clap::Command, arg: Option<&clap::Arg>, value: &OsStr) -> Result<T, clap::Error> {
        TypedValueParser::parse_ref(&self.parse, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.words)().into_iter().map(PossibleValue::new)))
    }
}

/// Returns the codecs that dumps may have.
pub(super) fn dump_codecs() -> Vec<&'static str> {
    CODECS.iter().map(|info| info.name).chain(["raw"]).collect()
}

/// Returns the codecs that pages of crash dumps may have.
pub(super) fn page_codecs() -> Vec<&'static str> {
    let accepted = CODECS.iter().filter(|info| packfs_dump::kdump::accepts(info.codec).is_ok());
    accepted.map(|info| info.name).collect()
}

/// Returns the codecs that can be measured.
pub(super) fn measured_codecs() -> Vec<&'static str> {
    let others = ["memcpy", "lzjb", "quicklz", "zlib", "zlib-rs"];
    CODECS.iter().map(|info| info.name).chain(others).collect()
}

/// Parser of the command line of another program, whose arguments may be any bytes. It offers the names of the programs.
#[derive(Debug, Clone)]
pub(super) struct ProgramLine;

impl TypedValueParser for ProgramLine {
    type Value = OsString;

    fn parse_ref(&self, _: &clap::Command, _: Option<&clap::Arg>, value: &OsStr) -> Result<OsString, clap::Error> {
        Ok(value.to_owned())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(personalities::names().map(PossibleValue::new)))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use crate::args::PackfsCli;

    /// Collects all values offered by completion, as `command --option: values`.
    fn offered(command: &clap::Command, name: &str, all: &mut String) {
        for arg in command.get_arguments() {
            let values = arg.get_possible_values();
            let values: Vec<_> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
            // In zsh completions a colon would end the name of the value.
            let names = arg.get_value_names().unwrap_or_default();
            assert!(names.iter().all(|name| !name.contains(':')), "{name}: {names:?}");
            if values.is_empty() || !arg.get_action().takes_values() {
                continue;
            }
            let option = arg.get_long().map(|long| format!("--{long}"));
            for value in &values {
                let words = name.split(' ').chain(option.as_deref()).chain([*value]);
                if let Err(error) = PackfsCli::command().try_get_matches_from(words) {
                    let refused = [ErrorKind::InvalidValue, ErrorKind::ValueValidation].contains(&error.kind());
                    assert!(!refused, "{name} {}: {value} is offered and refused", arg.get_id());
                }
            }
            let option = option.unwrap_or_else(|| arg.get_id().to_string());
            writeln!(all, "{name} {option}: {}", values.join(" ")).unwrap();
        }
        for below in command.get_subcommands() {
            offered(below, &format!("{name} {}", below.get_name()), all);
        }
    }

    #[test]
    fn values_that_are_offered_are_accepted() {
        let mut command = PackfsCli::command();
        let mut all = String::new();
        command.build();
        offered(&command, "packfs", &mut all);
        insta::assert_snapshot!(all);
    }
}
