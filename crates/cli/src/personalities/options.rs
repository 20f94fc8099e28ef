//! Options of other programs, as tables: their names, their values, and what packfs makes of them. The tables are what the
//! programs' command lines are read with, and what `packfs as --list` prints.

use std::ffi::OsString;
use std::path::Path;

use packfs_image::name::display;

/// An option of another program.
#[derive(Debug)]
pub(super) struct Opt {
    /// Its name, then others that it has.
    pub(super) names: &'static [&'static str],
    pub(super) takes: Takes,
    pub(super) does: Does,
}

/// The words that belong to an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    One,
    /// All that follow.
    Rest,
    /// All up to a `;`.
    List,
}

/// The effect of an option with packfs.
#[derive(Debug)]
pub(super) enum Does {
    /// The same, by these words of a packfs command; `{}` is the value.
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
pub(super) enum Word {
    /// The first name of the option.
    Option(&'static str, Vec<OsString>),
    /// Words of a packfs command that the option becomes.
    Becomes(Vec<OsString>),
    Plain(OsString),
}

/// Makes an option without a value.
pub(super) const fn flag(names: &'static [&'static str], does: Does) -> Opt {
    Opt { names, takes: Takes::Nothing, does }
}

/// Makes an option with one value.
pub(super) const fn value(names: &'static [&'static str], does: Does) -> Opt {
    Opt { names, takes: Takes::One, does }
}

/// Reads a command line; options that are ignored are left out, those that are refused are errors.
pub(super) fn words(table: &'static [Opt], args: Vec<OsString>) -> Result<Vec<Word>, String> {
    read(table, args, false)
}

/// As [`words`], for programs that take no options after the first word that is none.
pub(super) fn leading(table: &'static [Opt], args: Vec<OsString>) -> Result<Vec<Word>, String> {
    read(table, args, true)
}

fn read(table: &'static [Opt], args: Vec<OsString>, options_first: bool) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let Some(name) = arg.to_str().filter(|text| text.len() > 1 && text.starts_with('-')) else {
            words.push(Word::Plain(arg));
            if options_first {
                words.extend(args.by_ref().map(Word::Plain));
            }
            continue;
        };
        let option = table.iter().find(|option| option.names.contains(&name));
        let option = option.ok_or_else(|| format!("{name}: there is no such option"))?;
        let values = match option.takes {
            Takes::Nothing => Vec::new(),
            Takes::One => vec![args.next().ok_or_else(|| format!("{name}: its value is missing"))?],
            Takes::Rest => args.by_ref().collect(),
            Takes::List => args.by_ref().take_while(|word| word != ";").collect(),
        };
        match option.does {
            Does::Same(_) => words.push(Word::Option(option.names[0], values)),
            Does::Becomes(made) => words.push(Word::Becomes(fill(made, values.first())?)),
            Does::Ignored(_) => {}
            Does::Refused(why) => return Err(format!("{name}: {why}")),
        }
    }
    Ok(words)
}

/// Puts the value in its places.
fn fill(made: &[&str], value: Option<&OsString>) -> Result<Vec<OsString>, String> {
    let word = |word: &&str| match (word.split_once("{}"), value) {
        (None, _) | (_, None) => Ok(OsString::from(word)),
        (Some(("", "")), Some(value)) => Ok(value.clone()),
        (Some((before, after)), Some(value)) => {
            let value = value.to_str().ok_or_else(|| format!("{}: not UTF-8", display(Path::new(value))))?;
            Ok(format!("{before}{value}{after}").into())
        }
    };
    made.iter().map(word).collect()
}

/// Formats a table: an option a line, and what becomes of it.
pub(super) fn listed(program: &str, table: &[Opt]) -> String {
    let lines = table.iter().map(|option| {
        let value = match option.takes {
            Takes::Nothing => "",
            Takes::One => " VALUE",
            Takes::Rest => " VALUE...",
            Takes::List => " VALUE... ;",
        };
        let does = match option.does {
            Does::Becomes(made) => format!("same      {}", made.join(" ")),
            Does::Same(how) => format!("same      {how}"),
            Does::Ignored(why) => format!("ignored   {why}"),
            Does::Refused(why) => format!("refused   {why}"),
        };
        format!("{program} {:<36} {does}\n", format!("{}{value}", option.names.join(", ")))
    });
    lines.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Checks that no name occurs twice and that explanations are short and plain.
    pub(crate) fn check(table: &[Opt]) {
        let mut names: Vec<_> = table.iter().flat_map(|option| option.names).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "a name occurs twice");
        for option in table {
            assert!(option.names.iter().all(|name| name.starts_with('-')), "{option:?}");
            if let Does::Becomes(made) = option.does {
                let values = made.iter().filter(|word| word.contains("{}")).count();
                assert_eq!(values > 0, option.takes == Takes::One, "{option:?}");
            }
        }
    }

    #[test]
    fn values_go_to_their_places() {
        static TABLE: [Opt; 5] = [
            value(&["-a"], Does::Becomes(&["--add", "mode / {}"])),
            flag(&["-b", "-bb"], Does::Same("as described")),
            value(&["-c"], Does::Ignored("no reason")),
            flag(&["-d"], Does::Refused("for a reason")),
            Opt { names: &["-e"], takes: Takes::Rest, does: Does::Same("as described") },
        ];
        check(&TABLE);
        let read = |line: &str| words(&TABLE, line.split(' ').map(OsString::from).collect());
        assert_eq!(
            read("x -a 0755 -bb -c 1 - -e -a y").unwrap(),
            [
                Word::Plain("x".into()),
                Word::Becomes(vec!["--add".into(), "mode / 0755".into()]),
                Word::Option("-b", vec![]),
                Word::Plain("-".into()),
                Word::Option("-e", vec!["-a".into(), "y".into()]),
            ]
        );
        assert_eq!(read("-a").unwrap_err(), "-a: its value is missing");
        assert_eq!(read("-d").unwrap_err(), "-d: for a reason");
        assert_eq!(read("-x").unwrap_err(), "-x: there is no such option");
        assert!(listed("p", &TABLE).starts_with("p -a VALUE "));
    }
}
