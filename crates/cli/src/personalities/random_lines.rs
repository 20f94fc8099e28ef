//! Random command lines of other programs, made of their options and of values that some option takes or nearly takes. Each
//! is refused with a reason, or becomes a command line that packfs understands: nobody should read about options of packfs
//! that they did not give.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::error::ErrorKind;
use proptest::prelude::*;

use super::options::{ForeignOption, OptionValues};
use super::{CommandHandler, PERSONALITIES, TranslatedLine};
use crate::output::quote_words;
use crate::parse;

/// Values that options take, and some that are wrong. None is a file that exists, unlike the operand `Cargo.toml`.
const VALUES: [&str; 46] = [
    "",
    "-",
    "--",
    "-1",
    "0",
    "1",
    "9",
    "12",
    "4096",
    "131072",
    "1048576",
    "18446744073709551616",
    "4K",
    "1M",
    "1x",
    "0x10",
    "0.5",
    "1,2",
    "3,4,5",
    "lz4",
    "lz4hc,12",
    "zstd,level=3",
    "zstd",
    "xz",
    "gzip",
    "lzo",
    "none",
    "all-fragments",
    "fragments,dedupe",
    "^dedupe",
    "level=3",
    "block-size=4096",
    "window=15",
    "user.*",
    "root:root",
    "0755",
    "u+x,go-w",
    "@86400",
    "1970-01-01",
    "file d 0755 0 0",
    "file f 644 root root echo",
    "uncompressed@name(*.gz)",
    "*[",
    "a(b",
    "é",
    "=",
];

/// A word of a command line, or an option with its value.
#[derive(Debug, Clone)]
enum RandomWord {
    Option(RandomOption),
    Plain(OsString),
}

#[derive(Debug, Clone)]
struct RandomOption {
    /// Its number in the table of options, modulo their number.
    option: usize,
    /// The number of its name, likewise.
    name: usize,
    value: OsString,
    /// It and its value are one word.
    is_joined: bool,
}

fn value() -> impl Strategy<Value = OsString> {
    prop_oneof![
        6 => prop::sample::select(&VALUES[..]).prop_map(OsString::from),
        1 => "[ -~]{0,12}".prop_map(OsString::from),
        1 => prop::collection::vec(1_u8.., 0..6).prop_map(OsString::from_vec),
    ]
}

fn word() -> impl Strategy<Value = RandomWord> {
    let option = (any::<usize>(), any::<usize>(), value(), any::<bool>())
        .prop_map(|(option, name, value, is_joined)| RandomOption { option, name, value, is_joined });
    prop_oneof![
        5 => option.prop_map(RandomWord::Option),
        2 => prop::sample::select(&["Cargo.toml", "image", "another"][..]).prop_map(|name| RandomWord::Plain(name.into())),
        1 => value().prop_map(RandomWord::Plain),
    ]
}

/// Returns lines of any words, and as many with the operands that most programs need and few options.
fn line() -> impl Strategy<Value = Vec<RandomWord>> {
    let operands = ["Cargo.toml", "image"].map(|name| RandomWord::Plain(name.into()));
    let usual = prop::collection::vec(word(), 0..3).prop_map(move |options| [&operands[..], &options].concat());
    prop_oneof![prop::collection::vec(word(), 0..7), usual]
}

fn words_of(table: &[ForeignOption], line: &[RandomWord]) -> Vec<OsString> {
    let mut words = Vec::new();
    for word in line {
        match word {
            RandomWord::Option(option) => words.extend(option.words(table)),
            RandomWord::Plain(word) => words.push(word.clone()),
        }
    }
    words
}

impl RandomOption {
    fn words(&self, table: &[ForeignOption]) -> Vec<OsString> {
        let option = &table[self.option % table.len()];
        let name = option.names[self.name % option.names.len()];
        let mut word = OsString::from(name);
        match option.takes {
            OptionValues::One(_) | OptionValues::Optional if self.is_joined => {
                word.push(if name.starts_with("--") { "=" } else { "" });
                word.push(&self.value);
                vec![word]
            }
            OptionValues::Nothing | OptionValues::Optional => vec![word],
            OptionValues::One(_) => vec![word, self.value.clone()],
            OptionValues::Rest | OptionValues::List => vec![word, self.value.clone(), ";".into()],
        }
    }
}

proptest! {
    // Four seconds; 300,000 lines found nothing that these do not.
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_command_line_is_refused_or_becomes_one_of_packfs(
        program in any::<usize>(),
        line in line(),
    ) {
        let programs: Vec<_> = PERSONALITIES.iter().filter_map(|program| match &program.run {
            CommandHandler::Translate(translate, table) => Some((program.name, translate, table)),
            #[cfg(feature = "mount")]
            CommandHandler::Own(_) => None,
        }).collect();
        let (name, translate, table) = programs[program % programs.len()];
        let words = words_of(table, &line);
        let shown = format!("{name} {}", quote_words(&words));
        match translate(words) {
            Err(why) | Ok(TranslatedLine::Problem(why, _)) => prop_assert!(!why.is_empty(), "{shown}"),
            Ok(TranslatedLine::Print(_) | TranslatedLine::Help(_)) => {}
            Ok(TranslatedLine::Run(line, _) | TranslatedLine::Show(line, _)) => {
                let words = line.into_words();
                let becomes = quote_words(&words);
                if let Err(error) = parse(words) {
                    // Values go over as they are, so what is wrong with them is told as of any value.
                    let is_value = matches!(
                        error.kind(),
                        ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::InvalidUtf8
                    );
                    prop_assert!(is_value, "{shown}\nbecomes packfs {becomes}\n{error}");
                }
            }
        }
    }
}
