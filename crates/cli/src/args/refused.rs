//! Errors of the command line parser in the form of all other errors: one line with the option, its value and what is
//! accepted.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use packfs_image::name::display;

use super::PackfsCli;

/// Returns the message for a value that is not accepted; `None` for errors that the parser explains well by itself.
pub(crate) fn value(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    if let Some(name) = text(ContextKind::InvalidSubcommand).filter(|name| crate::personalities::is_emulated(name)) {
        return Some(format!("{name} is not a command of packfs: `packfs as {name}` takes its command line"));
    }
    // Without the form of its value: `--range <RANGE>`, `--watch[=<SECONDS>]`.
    let argument = text(ContextKind::InvalidArg)?.split(' ').next()?.split("[=").next()?;
    let value = text(ContextKind::InvalidValue).filter(|value| !value.is_empty())?;
    let why = match error.kind() {
        ErrorKind::ValueValidation => error.source()?.to_string(),
        ErrorKind::InvalidValue => {
            let Some(ContextValue::Strings(accepted)) = error.get(ContextKind::ValidValue) else { return None };
            let meant = text(ContextKind::SuggestedValue).map(|meant| format!("; '{meant}' is similar"));
            format!("accepted: {}{}", accepted.join(", "), meant.unwrap_or_default())
        }
        _ => return None,
    };
    // Many parsers repeat the value, some also the option.
    let option = argument.trim_start_matches('-');
    let why = why.strip_prefix(&format!("{option} {value}: ")).unwrap_or(&why);
    let why = why.strip_prefix(&format!("{value}: ")).unwrap_or(why);
    Some(format!("{argument} {value}: {why}"))
}

/// Returns the message for a command line, with the program's name, in which a word that must be text is not UTF-8. The
/// parser does not tell which one.
pub(crate) fn not_text(line: &[OsString]) -> String {
    // File names need not be text, so each word is tried alone while all others are text.
    for (at, word) in line.iter().enumerate().filter(|(_, word)| word.to_str().is_none()) {
        let mut tried: Vec<OsString> = line.iter().map(|word| word.to_string_lossy().into_owned().into()).collect();
        tried[at].clone_from(word);
        let is_refused = PackfsCli::try_parse_from(tried).is_err_and(|error| error.kind() == ErrorKind::InvalidUtf8);
        if is_refused {
            let before = line[..at].last().and_then(|word| word.to_str()).filter(|word| word.starts_with('-'));
            let option = before.map(|option| format!("{option} ")).unwrap_or_default();
            return format!("{option}{}: not UTF-8, which everything but names of files must be", display(word));
        }
    }
    "an argument is not UTF-8, which everything but names of files must be".into()
}

/// Beginnings of options that other programs have, and those of packfs that mean the same.
const ELSEWHERE: [(&str, &str); 13] = [
    ("--comp", "--codec"),
    ("--compr", "--codec"),
    ("--level", "--codec"),
    ("--processors", "--jobs"),
    ("--workers", "--jobs"),
    ("--threads", "--jobs"),
    ("--num-jobs", "--jobs"),
    ("--mem", "--memory"),
    ("--noappend", "--force"),
    ("--overwrite", "--force"),
    ("--dest", "--directory"),
    ("--ignore", "--exclude"),
    ("--all-root", "--owner"),
];

/// Mends the advice for an unknown option: names the one meant by the word of another program, and leaves out what is of
/// no use, to pass a mistyped option as a file name or to ask for the version.
pub(crate) fn advised(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::StyledStr(text)) => text.to_string(),
        _ => String::new(),
    };
    let given = text(ContextKind::InvalidArg);
    let similar = text(ContextKind::SuggestedArg);
    let has = |option: &str| has_option(&text(ContextKind::Usage), option);
    // An option of packfs with the same beginning is meant rather than one of another program.
    let is_meant = |word: &str| given == word || given.starts_with(word) && !similar.starts_with(word);
    let meant = ELSEWHERE.iter().find(|(word, option)| is_meant(word) && has(option));
    let wild = similar == "--version" && !given.starts_with("--v");
    match meant {
        Some((_, option)) => {
            error.insert(ContextKind::SuggestedArg, ContextValue::String((*option).into()));
        }
        None if wild => {
            error.remove(ContextKind::SuggestedArg);
        }
        None => {}
    }
    if error.get(ContextKind::SuggestedArg).is_none() {
        error.insert(ContextKind::Suggested, ContextValue::None);
    }
    error
}

/// Returns true if the command that a usage line is of has an option.
fn has_option(usage: &str, option: &str) -> bool {
    let mut command = &PackfsCli::command();
    for word in usage.split_whitespace() {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    let long = option.trim_start_matches('-');
    command.get_arguments().any(|arg| arg.get_long() == Some(long))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn error(words: &[&str]) -> clap::Error {
        PackfsCli::try_parse_from(["packfs"].iter().chain(words)).unwrap_err()
    }

    #[test]
    fn refused_values_are_told_in_one_line() {
        let cases: [(&[&str], &str); 9] = [
            (&["mksquashfs", "x", "y"], "mksquashfs is not a command of packfs: `packfs as mksquashfs` takes"),
            (&["build", "x", "-o", "y", "--mode", "rwx"], "--mode rwx: not a valid mode change"),
            (&["build", "x", "-o", "y", "--format", "ext4"], "--format ext4: accepted: squashfs, erofs"),
            (&["build", "x", "-o", "y", "--fragments", "tail"], "accepted: none, small, tails; 'tails' is similar"),
            (&["build", "x", "-o", "y", "-j", "-1"], "--jobs -1: expected a number of threads"),
            (&["split", "x", "-o", "y", "--parity", "x"], "--parity x: expected a whole number, 0 or more"),
            (&["build", "x", "-o", "y.erofs", "--rsyncable=x"], "--rsyncable x: expected a number of bytes"),
            (&["shard", "plan", "x", "-o", "dir"], "[I] x: expected a whole number"),
            (&["completions", "tcsh"], "<SHELL> tcsh: accepted: bash"),
        ];
        for (words, told) in cases {
            let text = value(&error(words)).unwrap();
            assert!(text.contains(told) && text.lines().count() == 1, "{words:?}: {text}");
        }
        for words in [&["build"][..], &["biuld"], &["build", "x", "-o"], &["build", "x", "--no-such"]] {
            assert_eq!(value(&error(words)), None, "{words:?}");
        }
    }

    #[test]
    fn words_that_are_no_text_are_named_unless_they_name_files() {
        let cases: [(&[&[u8]], &str); 3] = [
            (&[b"build", b"x\xff", b"-o", b"y\xff", b"--codec", b"xz\xff"], "--codec xz"),
            (&[b"build", b"x\xff", b"-o", b"y", b"--codec=xz\xff"], "--codec=xz"),
            (&[b"oci", b"merge", b"a\xff", b"-o", b"b", b"--label", b"\xff"], "--label "),
        ];
        for (words, told) in cases {
            let mut line = vec![OsString::from("packfs")];
            line.extend(words.iter().map(|word| OsString::from_vec(word.to_vec())));
            let text = not_text(&line);
            assert!(text.starts_with(told) && text.ends_with("must be"), "{words:?}: {text}");
        }
    }

    #[test]
    fn options_are_not_offered_as_file_names() {
        let told = advised(error(&["build", "x", "-o", "y", "--no-such", "xz"])).to_string();
        assert!(told.contains("'--no-such'") && !told.contains("as a value"), "{told}");
    }

    #[test]
    fn options_of_other_programs_are_translated() {
        let cases: [(&[&str], Option<&str>); 10] = [
            (&["build", "x", "-o", "y", "--block-sise", "4K"], Some("--block-size")),
            (&["build", "x", "-o", "y", "--comprss", "xz"], Some("--codec")),
            (&["build", "x", "-o", "y", "--comp", "xz"], Some("--codec")),
            (&["build", "x", "-o", "y", "--compress", "xz"], Some("--codec")),
            (&["build", "x", "-o", "y", "--compsefs"], Some("--composefs")),
            (&["build", "x", "-o", "y", "--level=9"], Some("--codec")),
            (&["split", "x", "-o", "y", "--threads", "2"], Some("--jobs")),
            (&["extract", "x", "--dest", "y"], Some("--directory")),
            // Listing has no codec, and "--version" is not what is meant.
            (&["list", "x", "--comprss"], None),
            (&["list", "x", "--verzion"], Some("--version")),
        ];
        for (words, meant) in cases {
            let told = advised(error(words)).to_string();
            let tip = told.lines().find(|line| line.contains("tip:")).map(|line| line.replace('\'', " ") + " ");
            match meant {
                Some(meant) => assert!(tip.is_some_and(|tip| tip.contains(&format!(" {meant} "))), "{told}"),
                None => assert_eq!(tip, None, "{told}"),
            }
        }
    }
}
