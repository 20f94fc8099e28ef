//! `--codec` of the commands for dumps.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use packfs_codec::Choice;
use packfs_dump::fastest_form;

use crate::args::known;

/// The value of `--codec`, checked; the word `help` prints the table of codecs instead.
#[derive(Debug, Clone)]
pub(in crate::args) struct CodecArg(Choice);

impl CodecArg {
    /// The choice, whatever it is for.
    pub(in crate::args) fn choice(&self) -> &Choice {
        &self.0
    }
}

/// Parses `--codec`.
#[derive(Debug, Clone)]
pub(in crate::args) struct CodecParser {
    /// Names to offer.
    words: fn() -> Vec<&'static str>,
}

impl CodecParser {
    /// A codec without options takes its fastest; `raw` is another name for none.
    pub(in crate::args) const FASTEST: CodecParser = CodecParser { words: known::dump_codecs };

    /// The same for pages of crash dumps.
    pub(in crate::args) const PAGES: CodecParser = CodecParser { words: known::page_codecs };
}

impl TypedValueParser for CodecParser {
    type Value = CodecArg;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<CodecArg, clap::Error> {
        if value == "help" {
            let mut asked = clap::Error::new(ErrorKind::DisplayHelp);
            asked.insert(ContextKind::Custom, ContextValue::String(packfs_codec::table::help()));
            return Err(asked);
        }
        let words = self.words;
        let parse = move |text: &str| {
            fastest_form(text).parse().map(CodecArg).map_err(|error| match error {
                // The library accepts codecs that this option does not.
                packfs_codec::Error::UnknownCodec { name, .. } => {
                    packfs_codec::Error::UnknownCodec { name, accepted: words().join(", ") }.to_string()
                }
                error => error.to_string(),
            })
        };
        TypedValueParser::parse_ref(&parse, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.words)().into_iter().chain(["help"]).map(PossibleValue::new)))
    }
}
