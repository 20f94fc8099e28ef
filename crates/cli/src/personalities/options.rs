//! Options of other programs, as tables: their names, their values, and what packfs makes of them. The tables are what the
//! programs' command lines are read with, and what `packfs as --list` prints.

use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::path::Path;

use packfs_image::name::display;
use packfs_image::tree::parse_c_number;

use super::command_line::CommandLine;
use super::refusals::RefusedOption;
use crate::args::value::{as_size, size};

/// An option of another program.
#[derive(Debug)]
pub(super) struct ForeignOption {
    /// Its name, then others that it has.
    pub(super) names: &'static [&'static str],
    pub(super) takes: OptionValues,
    pub(super) does: OptionEffect,
}

/// The words that belong to an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionValues {
    Nothing,
    One(ValueForm),
    /// A value after `=` that may be left out.
    Optional,
    /// All that follow.
    Rest,
    /// All up to a `;`.
    List,
}

/// The form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueForm {
    /// The program looks at it, or packfs does.
    Any,
    /// A number from the first to the second.
    Number(u64, u64),
    /// At least this number of bytes, perhaps with a unit.
    Size(u64),
}

/// The effect of an option with packfs.
#[derive(Debug)]
pub(super) enum OptionEffect {
    /// The same, by these options of a packfs command; `{}` is the value.
    Becomes(&'static [&'static str]),
    /// The same, in the way described.
    Same(&'static str),
    /// Nothing, which is harmless for the reason given.
    Ignored(&'static str),
    /// An error with this reason.
    Refused(&'static str),
}

/// A word of a command line, or an option with its values.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParsedWord {
    /// The first name of the option.
    Option(&'static str, Vec<OsString>),
    /// Options of a packfs command that the option becomes.
    Becomes(CommandLine),
    Plain(OsString),
}

/// Makes an option without a value.
pub(super) const fn flag(names: &'static [&'static str], does: OptionEffect) -> ForeignOption {
    ForeignOption { names, takes: OptionValues::Nothing, does }
}

/// Makes an option with one value.
pub(super) const fn value(names: &'static [&'static str], does: OptionEffect) -> ForeignOption {
    ForeignOption { names, takes: OptionValues::One(ValueForm::Any), does }
}

/// Makes an option whose value is a number in a range.
pub(super) const fn number(
    names: &'static [&'static str],
    range: RangeInclusive<u64>,
    does: OptionEffect,
) -> ForeignOption {
    ForeignOption { names, takes: OptionValues::One(ValueForm::Number(*range.start(), *range.end())), does }
}

/// Makes an option whose value is a number of bytes.
pub(super) const fn at_least(names: &'static [&'static str], bytes: u64, does: OptionEffect) -> ForeignOption {
    ForeignOption { names, takes: OptionValues::One(ValueForm::Size(bytes)), does }
}

/// Reads a command line; options that are ignored are left out, those that are refused are errors.
pub(super) fn parse_words(table: &'static [ForeignOption], args: Vec<OsString>) -> Result<Vec<ParsedWord>, String> {
    parse_line(table, args, false)
}

/// As [`parse_words`], for programs that take no options after the first word that is none.
pub(super) fn parse_leading_options(
    table: &'static [ForeignOption],
    args: Vec<OsString>,
) -> Result<Vec<ParsedWord>, String> {
    parse_line(table, args, true)
}

fn parse_line(
    table: &'static [ForeignOption],
    args: Vec<OsString>,
    options_first: bool,
) -> Result<Vec<ParsedWord>, String> {
    let mut words = Vec::new();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let Some(name) = option_name(&arg) else {
            words.push(ParsedWord::Plain(arg));
            // All words after the first plain one, even those that begin with `-`.
            if options_first {
                words.extend(args.by_ref().map(ParsedWord::Plain));
            }
            continue;
        };
        let option = table.iter().find(|option| option.names.contains(&name));
        let option = option.ok_or_else(|| format!("{name}: there is no such option"))?;
        let values = match option.takes {
            OptionValues::Nothing => Vec::new(),
            OptionValues::One(_) => vec![next_value(name, &mut args)?],
            // At least one.
            OptionValues::Rest => [next_value(name, &mut args)?].into_iter().chain(args.by_ref()).collect(),
            OptionValues::List => args.by_ref().take_while(|word| word != ";").collect(),
            // These programs attach no values with `=`.
            OptionValues::Optional => Vec::new(),
        };
        words.extend(word_of(option, name, values)?);
    }
    Ok(words)
}

/// Returns a word if it is an option. `-` alone is none: standard input or output.
pub(super) fn option_name(word: &OsStr) -> Option<&str> {
    word.to_str().filter(|text| text.len() > 1 && text.starts_with('-'))
}

/// Reads a command line as getopt_long of the C library does: `-zVALUE`, `-z VALUE`, `--name=VALUE`, `--name VALUE`, flags
/// of a letter together, and long names cut short as far as they are unique.
pub(super) fn parse_getopt(table: &'static [ForeignOption], args: Vec<OsString>) -> Result<Vec<ParsedWord>, String> {
    let mut words = Vec::new();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let Some(mut text) = option_name(&arg).map(str::to_owned) else {
            words.push(ParsedWord::Plain(arg));
            continue;
        };
        // What follows is never an option, and the `--` itself is dropped.
        if text == "--" {
            words.extend(args.by_ref().map(ParsedWord::Plain));
        }
        // One option a round: a word such as `-hq` has several.
        while text.len() > 1 && text != "--" {
            let (name, attached) = split_option(&text);
            let option = find_option(table, &name)?;
            // What is attached to a flag of one letter are further flags, not a value.
            let next = option.takes == OptionValues::Nothing && !name.starts_with("--");
            let rest = attached.clone().filter(|_| next).map(|rest| format!("-{rest}"));
            let values: Vec<OsString> = match (option.takes, attached) {
                // Only a long one comes here: `--quiet=1`.
                (OptionValues::Nothing, Some(_)) if !next => return Err(format!("{name}: it takes no value")),
                (OptionValues::Nothing, _) | (OptionValues::Optional, None) => Vec::new(),
                (_, Some(value)) => vec![value.into()],
                (OptionValues::One(_), None) => vec![next_value(&name, &mut args)?],
                (OptionValues::Rest | OptionValues::List, None) => args.by_ref().collect(),
            };
            words.extend(word_of(option, &name, values)?);
            text = rest.unwrap_or_default();
        }
    }
    Ok(words)
}

fn next_value(option: &str, args: &mut impl Iterator<Item = OsString>) -> Result<OsString, String> {
    args.next().ok_or_else(|| format!("{option}: its value is missing"))
}

/// Splits a word into the name of an option and what is attached to it.
fn split_option(text: &str) -> (String, Option<String>) {
    if text.starts_with("--") {
        return match text.split_once('=') {
            Some((name, value)) => (name.into(), Some(value.into())),
            None => (text.into(), None),
        };
    }
    // Its second character may have several bytes, of a name that no option has.
    let end = text.char_indices().nth(2).map_or(text.len(), |(end, _)| end);
    (text[..end].into(), (end < text.len()).then(|| text[end..].into()))
}

/// Finds an option by its name, or by the beginning of a long one.
fn find_option(table: &'static [ForeignOption], name: &str) -> Result<&'static ForeignOption, String> {
    if let Some(option) = table.iter().find(|option| option.names.contains(&name)) {
        return Ok(option);
    }
    // Only long names may be cut short.
    let begins = |option: &&ForeignOption| name.len() > 2 && option.names.iter().any(|full| full.starts_with(name));
    let mut found = table.iter().filter(begins);
    // An exact name was found before, so that it may begin others.
    match (found.next(), found.next()) {
        (Some(option), None) => Ok(option),
        (Some(_), Some(_)) => Err(format!("{name}: several options begin like this")),
        (None, _) => Err(format!("{name}: there is no such option")),
    }
}

/// Returns what becomes of an option; nothing of one that is ignored. Numbers and sizes are then decimal.
fn word_of(
    option: &'static ForeignOption,
    name: &str,
    mut values: Vec<OsString>,
) -> Result<Option<ParsedWord>, String> {
    if let (OptionValues::One(form), Some(value)) = (option.takes, values.first_mut()) {
        let number = form.read_number(value);
        if let Some(number) = number.map_err(|why| format!("{name} {}: {why}", display(Path::new(value))))? {
            *value = number.to_string().into();
        }
    }
    match option.does {
        OptionEffect::Same(_) => Ok(Some(ParsedWord::Option(option.names[0], values))),
        OptionEffect::Becomes(made) => Ok(Some(ParsedWord::Becomes(fill_template(made, values.first())?))),
        OptionEffect::Ignored(_) => Ok(None),
        OptionEffect::Refused(why) => Err(format!("{name}: {why}")),
    }
}

impl ValueForm {
    /// Reads a number or a number of bytes; other values are none.
    fn read_number(self, value: &OsStr) -> Result<Option<u64>, String> {
        let text = value.to_str().unwrap_or_default();
        // As C reads numbers, since build systems write hexadecimal.
        let number = parse_c_number(text);
        match self {
            ValueForm::Any => Ok(None),
            ValueForm::Number(least, most) => match number.filter(|number| (least..=most).contains(number)) {
                None if most == u64::MAX => Err(format!("expected a number, {least} or more")),
                None => Err(format!("expected a number from {least} to {most}")),
                number => Ok(number),
            },
            // squashfs-tools takes `Kbytes`, too.
            ValueForm::Size(least) => match number.map_or_else(|| size(text.trim_end_matches("bytes")), Ok)? {
                bytes if bytes < least => Err(format!("expected at least {}", as_size(least))),
                bytes => Ok(Some(bytes)),
            },
        }
    }
}

/// Puts the value in its places.
fn fill_template(made: &'static [&'static str], value: Option<&OsString>) -> Result<CommandLine, String> {
    let mut line = CommandLine::default();
    for option in made {
        let Some((name, template)) = option.split_once('=') else {
            line.switch(option);
            continue;
        };
        // Without a value in the template, it is the same for any value.
        match (template.split_once("{}"), value) {
            (None, _) | (_, None) => line.set(name, template),
            // As bytes: a path need not be UTF-8, unless text surrounds it.
            (Some(("", "")), Some(value)) => line.set(name, value),
            (Some((before, after)), Some(value)) => {
                let value = value.to_str().ok_or_else(|| format!("{}: not UTF-8", display(Path::new(value))))?;
                line.set(name, format!("{before}{value}{after}"));
            }
        }
    }
    Ok(line)
}

/// Formats the options that an option becomes.
fn format_options(made: &[&str]) -> String {
    let word = |word: &&str| if word.contains(' ') { format!("'{word}'") } else { (*word).to_owned() };
    made.iter().map(word).collect::<Vec<_>>().join(" ").replace("{}", "VALUE")
}

/// An option of another program, or a refused value of one, and what packfs makes of it.
#[derive(Debug)]
pub(crate) struct OptionRow {
    /// The names of the option, with the form of its value.
    pub(crate) option: String,
    /// "same", "ignored" or "refused".
    pub(crate) handling: &'static str,
    /// The words of packfs that the option becomes, or the reason.
    pub(crate) explanation: String,
}

impl OptionRow {
    fn line(&self, program: &str) -> String {
        let OptionRow { option, handling, explanation } = self;
        format!("{:<48} {handling:<9} {explanation}\n", format!("{program} {option}"))
    }
}

impl ForeignOption {
    /// Returns the names of the option and what becomes of it.
    pub(super) fn row(&self) -> OptionRow {
        let value = match self.takes {
            OptionValues::Nothing => "",
            OptionValues::One(_) if self.names.iter().any(|name| name.starts_with("--")) => "=VALUE",
            OptionValues::One(_) => " VALUE",
            // Callers such as containerd look for `--tar=` in the help.
            OptionValues::Optional => &format!(", {}=VALUE", self.names[self.names.len() - 1]),
            OptionValues::Rest => " VALUE...",
            OptionValues::List => " VALUE... ;",
        };
        let (handling, explanation) = match self.does {
            OptionEffect::Becomes(made) => ("same", format_options(made)),
            OptionEffect::Same(how) => ("same", how.to_owned()),
            OptionEffect::Ignored(why) => ("ignored", why.to_owned()),
            OptionEffect::Refused(why) => ("refused", why.to_owned()),
        };
        OptionRow { option: format!("{}{value}", self.names.join(", ")), handling, explanation }
    }
}

impl RefusedOption {
    /// Returns the refused value or combination and the reason.
    pub(super) fn row(&self) -> OptionRow {
        OptionRow { option: self.what.to_owned(), handling: "refused", explanation: self.why.to_owned() }
    }
}

/// Formats a table: an option a line, and what becomes of it.
pub(super) fn format_table(program: &str, table: &[ForeignOption]) -> String {
    table.iter().map(|option| option.row().line(program)).collect()
}

/// Formats the refused values and combinations of options, one a line with its reason.
pub(super) fn format_refusals(program: &str, refusals: &[&RefusedOption]) -> String {
    refusals.iter().map(|refusal| refusal.row().line(program)).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the word for an option that becomes these.
    fn becomes(options: &'static [&'static str]) -> ParsedWord {
        ParsedWord::Becomes(fill_template(options, None).unwrap())
    }

    /// Checks that no name occurs twice and that explanations are short and plain.
    pub(crate) fn check(table: &[ForeignOption]) {
        let mut names: Vec<_> = table.iter().flat_map(|option| option.names).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "a name occurs twice");
        assert!(!format_table("program", table).contains("{}"), "a place is shown for the value");
        for option in table {
            assert!(option.names.iter().all(|name| name.starts_with('-')), "{option:?}");
            if let OptionEffect::Becomes(made) = option.does {
                let values = made.iter().filter(|word| word.contains("{}")).count();
                assert_eq!(values > 0, matches!(option.takes, OptionValues::One(_)), "{option:?}");
            }
        }
    }

    #[test]
    fn values_go_to_their_places() {
        static TABLE: [ForeignOption; 5] = [
            value(&["-a"], OptionEffect::Becomes(&["--add=mode / {}", "--no-pad"])),
            flag(&["-b", "-bb"], OptionEffect::Same("as described")),
            value(&["-c"], OptionEffect::Ignored("no reason")),
            flag(&["-d"], OptionEffect::Refused("for a reason")),
            ForeignOption { names: &["-e"], takes: OptionValues::Rest, does: OptionEffect::Same("as described") },
        ];
        check(&TABLE);
        let read = |line: &str| parse_words(&TABLE, line.split(' ').map(OsString::from).collect());
        assert_eq!(
            read("x -a 0755 -bb -c 1 - -e -a y").unwrap(),
            [
                ParsedWord::Plain("x".into()),
                becomes(&["--add=mode / 0755", "--no-pad"]),
                ParsedWord::Option("-b", vec![]),
                ParsedWord::Plain("-".into()),
                ParsedWord::Option("-e", vec!["-a".into(), "y".into()]),
            ]
        );
        assert_eq!(read("-a").unwrap_err(), "-a: its value is missing");
        assert_eq!(read("-d").unwrap_err(), "-d: for a reason");
        assert_eq!(read("-x").unwrap_err(), "-x: there is no such option");
        assert!(format_table("p", &TABLE).starts_with("p -a VALUE "));
    }

    #[test]
    fn numbers_are_checked_and_become_decimal() {
        static TABLE: [ForeignOption; 3] = [
            number(&["-n"], 2..=16, OptionEffect::Becomes(&["--jobs={}"])),
            at_least(&["-s"], 1 << 10, OptionEffect::Becomes(&["--memory={}"])),
            number(&["-i"], 0..=u64::MAX, OptionEffect::Ignored("no reason")),
        ];
        check(&TABLE);
        let read = |line: &str| parse_words(&TABLE, line.split(' ').map(OsString::from).collect());
        for (line, made) in [
            ("-n 2", Some("--jobs=2")),
            ("-n 0x10", Some("--jobs=16")),
            ("-n 010", Some("--jobs=8")),
            ("-s 1024", Some("--memory=1024")),
            ("-s 2K", Some("--memory=2048")),
            ("-s 2Kbytes", Some("--memory=2048")),
            ("-s 0x400", Some("--memory=1024")),
            ("-i 0", None),
        ] {
            let words = read(line).unwrap().into_iter().map(|word| match word {
                ParsedWord::Becomes(made) => made.into_text(),
                other => panic!("{other:?}"),
            });
            assert_eq!(words.collect::<Vec<_>>(), Vec::from_iter(made), "{line}");
        }
        for (line, why) in [
            ("-n 1", "-n 1: expected a number from 2 to 16"),
            ("-n 17", "-n 17: expected a number from 2 to 16"),
            ("-n 2K", "-n 2K: expected a number from 2 to 16"),
            ("-s 1023", "-s 1023: expected at least 1K"),
            ("-i x", "-i x: expected a number, 0 or more"),
            ("-i 18446744073709551616", "expected a number, 0 or more"),
        ] {
            assert!(read(line).unwrap_err().contains(why), "{line}");
        }
    }

    #[test]
    fn options_are_read_as_getopt_long_reads_them() {
        static TABLE: [ForeignOption; 5] = [
            value(&["-z"], OptionEffect::Becomes(&["--codec={}"])),
            flag(&["-q", "--quiet"], OptionEffect::Same("as described")),
            flag(&["-h", "--help"], OptionEffect::Same("as described")),
            value(&["--quote"], OptionEffect::Same("as described")),
            ForeignOption {
                names: &["--tar"],
                takes: OptionValues::Optional,
                does: OptionEffect::Same("as described"),
            },
        ];
        check(&TABLE);
        let read = |line: &str| parse_getopt(&TABLE, line.split(' ').map(OsString::from).collect());
        let option = |name, values: &[&str]| ParsedWord::Option(name, values.iter().map(OsString::from).collect());
        assert_eq!(
            read("-za,9 -z -1 -hq x --quiet --quot=a=b --quote c --tar --tar=f - -- -x").unwrap(),
            [
                becomes(&["--codec=a,9"]),
                becomes(&["--codec=-1"]),
                option("-h", &[]),
                option("-q", &[]),
                ParsedWord::Plain("x".into()),
                option("-q", &[]),
                option("--quote", &["a=b"]),
                option("--quote", &["c"]),
                option("--tar", &[]),
                option("--tar", &["f"]),
                ParsedWord::Plain("-".into()),
                ParsedWord::Plain("-x".into()),
            ]
        );
        for (wrong, why) in [
            ("--qu", "several options begin like this"),
            ("--nosuch", "no such option"),
            ("-z", "its value is missing"),
            ("--quiet=1", "it takes no value"),
            ("-qx", "-x: there is no such option"),
        ] {
            assert!(read(wrong).unwrap_err().contains(why), "{wrong}");
        }
    }
}
