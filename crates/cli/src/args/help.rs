//! Help in three lengths: `-h` lists the options of a command that most people use, `--help` lists all of them, a line
//! each, and `packfs help COMMAND` explains them.
//!
//! clap renders two lengths. The texts are those of its definitions; this file only chooses what of them is shown.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Args, Command, CommandFactory};

use super::PackfsCli;
use crate::output::failure::UsageError;

/// Explain a command, one of its options, the codecs, or JSON output.
///
/// `packfs COMMAND -h` lists the options that most people use, and `packfs COMMAND --help` lists all of them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs help build
  packfs help build exclude
  packfs help rsyncable
  packfs help codecs
  packfs help json-schema build")]
pub(crate) struct HelpArgs {
    /// Command, option, command and options, `codecs`, or `json-schema` [default: packfs itself]
    ///
    /// `json-schema` lists the commands that print JSON, and `json-schema COMMAND` prints the JSON Schema of their
    /// documents.
    #[arg(value_name = "TOPIC", allow_hyphen_values = true)]
    topic: Vec<String>,
}

/// The options that `-h` lists of a command that has many.
struct CommonOptions {
    /// Command with its parents, as in `oci convert`.
    command: &'static str,
    /// Names of options, separated by spaces.
    options: [&'static str; 2],
}

/// Common options of all that builds images.
const OF_BUILDS: &str = "output preset codec block-size format exclude force jobs memory json quiet add one-file-system \
                         time owner rules order target-kernel";
/// Common options of all that reads images.
const OF_READERS: &str = "paths-from regex exclude offset device";

/// Commands of which `-h` lists only the options that the guide's pages use first; about twenty fit a terminal.
const COMMON_OPTIONS: [CommonOptions; 6] = [
    CommonOptions { command: "build", options: [OF_BUILDS, "dry-run hot reuse index"] },
    CommonOptions { command: "plan", options: [OF_BUILDS, "for shards shard-size"] },
    CommonOptions {
        command: "extract",
        options: [
            OF_READERS,
            "directory strip-components dry-run force no-owner owner no-xattrs on-error jobs memory quiet",
        ],
    },
    CommonOptions {
        command: "tar",
        options: [OF_READERS, "output force format compress strip-components prefix owner no-xattrs jobs memory quiet"],
    },
    CommonOptions { command: "list", options: [OF_READERS, "long human du tree sort json max-depth"] },
    CommonOptions {
        command: "oci convert",
        options: [
            "image platform flatten reversible format codec block-size force jobs memory json quiet target-kernel",
            "",
        ],
    },
];

impl CommonOptions {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.options.into_iter().flat_map(str::split_whitespace)
    }
}

/// Topics of `packfs help` that are no command and no option.
const CODECS: &str = "codecs";
const JSON_SCHEMA: &str = "json-schema";

impl HelpArgs {
    /// Returns the words of the command of which a JSON Schema is requested, if one is; none request the list of all.
    pub(crate) fn json_schema_command(&self) -> Option<&[String]> {
        self.topic.split_first().filter(|(topic, _)| *topic == JSON_SCHEMA).map(|(_, command)| command)
    }
}

/// Returns the help that a command line with `-h` or `--help` requests, as an error to print.
pub(crate) fn requested(line: &[OsString]) -> clap::Error {
    let path = command_path(line.iter().skip(1).filter_map(|word| word.to_str()));
    let wants_all = line.iter().any(|word| word == "--help");
    let name = path.join(" ");
    let common = COMMON_OPTIONS.iter().find(|common| common.command == name);
    let packfs = PackfsCli::command();
    let part = if command_at(&packfs, &path).has_subcommands() { "COMMAND" } else { "[OPTION]" };
    let more = match common {
        _ if path.is_empty() => String::new(),
        Some(_) if !wants_all => {
            format!(
                "These are the most common options. All: packfs {name} --help. Explained: packfs help {name} {part}"
            )
        }
        _ => format!("Explained at length: packfs help {name} {part}"),
    };
    let shown = |command: Command| {
        let long_about = command.get_long_about().filter(|_| wants_all);
        let about = long_about.or(command.get_about()).cloned().unwrap_or_default();
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let command = command.about(about).after_help(format!("{examples}\n\n{more}"));
        match common {
            Some(common) if !wants_all => {
                let is_rare = |arg: &Arg| arg.get_long().is_some_and(|long| common.names().all(|name| name != long));
                command.mut_args(|arg| if is_rare(&arg) { arg.hide(true) } else { arg })
            }
            _ => command,
        }
    };
    render(&path, ArgAction::HelpShort, shown)
}

/// Returns the explanation of a topic, as an error to print.
pub(crate) fn explained(asked: &HelpArgs) -> Result<clap::Error, UsageError> {
    let topic: Vec<&str> = asked.topic.iter().map(String::as_str).collect();
    if topic == [CODECS] {
        return Ok(parse(PackfsCli::command(), &["build", "--codec", "help"]).expect("that option has this value"));
    }
    let path = command_path(topic.iter().copied());
    let options: Vec<&str> = topic[path.len()..].iter().map(|word| word.trim_start_matches('-')).collect();
    if options.is_empty() {
        return Ok(render(&path, ArgAction::HelpLong, |command| command));
    }
    let packfs = PackfsCli::command();
    let path = if path.is_empty() { only_owner(&packfs, &options)? } else { path };
    let command = command_at(&packfs, &path);
    if let Some(unknown) = options.iter().find(|option| !command.get_arguments().any(|arg| is_named(arg, option))) {
        let name = path.join(" ");
        return Err(UsageError(format!("{name} has no option `{unknown}`; packfs {name} --help lists them")));
    }
    let shown = |command: Command| {
        let is_wanted = |arg: &Arg| options.iter().any(|option| is_named(arg, option));
        command.mut_args(|arg| if is_wanted(&arg) { arg } else { arg.hide(true) }).help_template("{all-args}\n")
    };
    Ok(render(&path, ArgAction::HelpLong, shown))
}

/// Returns the commands with which a line begins, as in `bench read`.
fn command_path<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let packfs = PackfsCli::command();
    let mut command = &packfs;
    let mut path = Vec::new();
    for word in words {
        let Some(below) = command.find_subcommand(word) else { break };
        command = below;
        path.push(word);
    }
    path
}

/// Returns the command at a path that [`command_path`] made.
fn command_at<'a>(packfs: &'a Command, path: &[&str]) -> &'a Command {
    path.iter().fold(packfs, |command, name| command.find_subcommand(name).unwrap_or(command))
}

/// Returns the command that has all of `options`, or the first one if they mean the same in all that do.
fn only_owner<'a>(packfs: &'a Command, options: &[&str]) -> Result<Vec<&'a str>, UsageError> {
    let mut paths: Vec<Vec<&str>> = Vec::new();
    for command in packfs.get_subcommands() {
        paths.push(vec![command.get_name()]);
        paths.extend(command.get_subcommands().map(|below| vec![command.get_name(), below.get_name()]));
    }
    let texts = |path: &Vec<&str>| option_texts(command_at(packfs, path), options);
    let owners: Vec<_> = paths.into_iter().filter(|path| texts(path).is_some()).collect();
    let wanted = options.join(" ");
    let Some(first) = owners.first() else {
        return Err(UsageError(format!(
            "no command and no option is called `{wanted}`: packfs --help lists the commands, and packfs COMMAND --help \
             the options of one"
        )));
    };
    if owners.iter().all(|owner| texts(owner) == texts(first)) {
        return Ok(first.clone());
    }
    let choices: Vec<String> = owners.iter().map(|path| format!("packfs help {} {wanted}", path.join(" "))).collect();
    Err(UsageError(format!("several commands have `{wanted}`: {}", choices.join(", "))))
}

/// Returns the explanations of options, if the command has all of them.
fn option_texts(command: &Command, options: &[&str]) -> Option<Vec<String>> {
    let text = |option: &&str| {
        let arg = command.get_arguments().find(|arg| is_named(arg, option))?;
        Some(arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default())
    };
    options.iter().map(text).collect()
}

/// Returns true if an argument is called `name`, without leading dashes.
fn is_named(arg: &Arg, name: &str) -> bool {
    let is_short = || arg.get_short().is_some_and(|short| name.chars().eq([short]));
    arg.get_long() == Some(name)
        || is_short()
        || arg.get_long_and_visible_aliases().is_some_and(|all| all.contains(&name))
}

/// Renders the help of the command at `path`, once `change` has been applied to it.
fn render(path: &[&str], length: ArgAction, change: impl FnOnce(Command) -> Command) -> clap::Error {
    let with_help = |command: Command| {
        let texts = "Print help: -h the common options, --help all; `packfs help` explains them";
        let help = Arg::new("help").short('h').long("help").action(length).help(texts).display_order(usize::MAX);
        // Without a heading of its own it would be among the options that were defined last.
        change(command.disable_help_flag(true).arg(help.help_heading(None)))
    };
    let line: Vec<&str> = path.iter().copied().chain(["--help"]).collect();
    parse(change_below(PackfsCli::command(), path, Box::new(with_help)), &line)
        .expect("--help is an option of every command")
}

/// Changes the command at `path`, below `command`.
fn change_below(command: Command, path: &[&str], change: Box<dyn FnOnce(Command) -> Command + '_>) -> Command {
    match path {
        [] => change(command),
        [first, below @ ..] => command.mut_subcommand(first, |command| change_below(command, below, change)),
    }
}

/// Parses a line that asks for a text, which clap returns as an error.
fn parse(packfs: Command, line: &[&str]) -> Option<clap::Error> {
    packfs.try_get_matches_from(std::iter::once("packfs").chain(line.iter().copied())).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_options_are_options_of_their_commands() {
        let packfs = PackfsCli::command();
        for common in COMMON_OPTIONS {
            let path: Vec<&str> = common.command.split(' ').collect();
            let command = command_at(&packfs, &path);
            for option in common.names() {
                let is_known = command.get_arguments().any(|arg| arg.get_long() == Some(option));
                assert!(is_known, "{} --{option}", common.command);
            }
        }
    }

    #[test]
    fn every_command_has_help_in_all_lengths() {
        let mut packfs = PackfsCli::command();
        packfs.build();
        let mut paths = vec![vec![]];
        for command in packfs.get_subcommands() {
            paths.push(vec![command.get_name().to_owned()]);
            let below = command.get_subcommands().map(|below| vec![command.get_name().into(), below.get_name().into()]);
            paths.extend(below);
        }
        for path in paths {
            let line = |flag: &str| -> Vec<OsString> {
                std::iter::once("packfs")
                    .chain(path.iter().map(String::as_str))
                    .chain([flag])
                    .map(OsString::from)
                    .collect()
            };
            let common = requested(&line("-h")).to_string();
            let all = requested(&line("--help")).to_string();
            let whole = explained(&HelpArgs { topic: path.clone() }).unwrap().to_string();
            assert!(common.lines().count() <= all.lines().count(), "{path:?}: {common}{all}");
            assert!(all.lines().count() <= whole.lines().count() + 2, "{path:?}: {all}{whole}");
            assert!(common.lines().count() <= 60, "{path:?}: {common}");
        }
    }

    #[test]
    fn topics_are_commands_options_and_codecs() {
        let told = |words: &[&str]| {
            let topic = words.iter().map(|&word| word.to_owned()).collect();
            explained(&HelpArgs { topic }).map(|text| text.to_string()).map_err(|error| error.0)
        };
        for (words, part) in [
            (&["build"][..], "Pack directories, archives"),
            (&["bench", "read"], "Usage: packfs bench read"),
            (&["build", "codec"], "--codec <CODEC>"),
            (&["build", "--codec", "-b"], "--block-size <SIZE>"),
            (&["rsyncable"], "--rsyncable[=<SIZE>]"),
        ] {
            let text = told(words).unwrap_or_else(|error| error);
            assert!(text.contains(part), "{words:?}: {text}");
        }
        let codecs = explained(&HelpArgs { topic: vec![CODECS.into()] }).unwrap();
        assert!(codecs.get(clap::error::ContextKind::Custom).is_some_and(|table| table.to_string().contains("zstd")));
        let one = told(&["build", "codec"]).unwrap();
        assert!(!one.contains("--block-size <SIZE>") && !one.contains("--help"), "{one}");
        for (words, part) in [
            (&["biuld"][..], "no command and no option is called `biuld`"),
            (&["build", "cdec"], "build has no option `cdec`"),
            (&["format"], "several commands have `format`: packfs help build format, "),
        ] {
            let error = told(words).unwrap_err();
            assert!(error.contains(part), "{words:?}: {error}");
        }
    }
}
