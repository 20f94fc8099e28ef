//! The complete command line of a build, defaults included. What `resolve` decides (codec, features, sizes) is spelled
//! out; every other option is repeated as it was given, so that no option can be forgotten here.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use packfs_image::build::{BuildOption, Shards, ValueForm};
use packfs_image::name::encode;
use packfs_image::tree::{Time, TimeChange};

use super::{BuildArgs, BuildPlan, table};
use crate::args::value;

/// Options besides those of tables that [`BuildPlan::in_full`] spells out, whether they were given or not.
const SPELLED_OUT: [&str; 9] = [
    "format",
    "shards",
    "shard_size",
    "time",
    "image_time",
    "jobs",
    "memory",
    "no_verify",
    // It only takes back an earlier --no-verify.
    "verify",
];

/// Options that [`BuildPlan::in_full`] leaves out: sources, output and reports. A preset stands for options that are
/// spelled out.
const NO_PART_OF_THE_BUILD: [&str; 14] = [
    "sources",
    "output",
    "preset",
    "dry_run",
    "json",
    "quiet",
    "percentage",
    "list",
    // There is no dry run of such an image.
    "composefs",
    "objects",
    // The image is the same without a seal or an index.
    "delta_index",
    "seal",
    "seal_key",
    "seal_certificate",
];

/// Options of the command line that are repeated unchanged.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenOptions {
    /// Words of the command line.
    words: Vec<OsString>,
    /// True if `--image-time` is given.
    has_image_time: bool,
}

/// It has no options of its own. In [`BuildArgs`] it comes first, because the other parts take their values out of the
/// matches.
impl Args for GivenOptions {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for GivenOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let command = BuildArgs::augment_args(Command::new("build"));
        let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let is_repeated =
            |id: &str| !SPELLED_OUT.contains(&id) && !NO_PART_OF_THE_BUILD.contains(&id) && !table::is_in_a_table(id);
        let mut words = Vec::new();
        for arg in command.get_arguments() {
            let id = arg.get_id().as_str();
            if is_repeated(id) && is_given(id) {
                repeat(arg, matches, &mut words);
            }
        }
        Ok(GivenOptions { words, has_image_time: is_given("image_time") })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = GivenOptions::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Appends an option as often as it was given, with its values.
fn repeat(arg: &Arg, matches: &ArgMatches, words: &mut Vec<OsString>) {
    let Some(name) = arg.get_long() else { return };
    let name = format!("--{name}");
    if !arg.get_action().takes_values() {
        words.push(name.into());
        return;
    }
    for value in matches.get_raw(arg.get_id().as_str()).into_iter().flatten() {
        let is_attached = arg.is_require_equals_set() || value.as_bytes().starts_with(b"-");
        if value.is_empty() && arg.is_require_equals_set() {
            words.push(name.clone().into());
        } else if is_attached {
            let mut word = OsString::from(format!("{name}="));
            word.push(value);
            words.push(word);
        } else {
            words.extend([name.clone().into(), value.to_owned()]);
        }
    }
}

/// Formats a time as `--time` takes it.
fn in_seconds(time: Time) -> String {
    match (time.secs, time.nanos) {
        (secs, 0) => secs.to_string(),
        // `--time` counts fractions away from zero, the fields here count them upwards.
        (..0, nanos) => format!("-{}.{:09}", (time.secs + 1).unsigned_abs(), 1_000_000_000 - nanos),
        (secs, nanos) => format!("{secs}.{nanos:09}"),
    }
}

/// Appends an option of a table with a value.
fn add_option(option: &BuildOption, value: &OsStr, words: &mut Vec<String>) {
    let name = format!("--{}", option.name);
    let text = encode(value.as_bytes());
    match option.form {
        ValueForm::Switch => words.push(name),
        ValueForm::One(_) | ValueForm::Repeated(_) if !text.starts_with('-') => words.extend([name, text.into_owned()]),
        _ => words.push(format!("{name}={text}")),
    }
}

impl BuildPlan {
    /// Returns options that make the same build, defaults included; only sources and output are left out. Bytes that
    /// are not UTF-8 are encoded as in other names.
    pub(crate) fn in_full(&self) -> Vec<String> {
        let common = self.request.target.common();
        let mut words: Vec<String> = vec!["--format".into(), self.request.target.format().into()];
        for option in self.request.target.option_tables().into_iter().flatten() {
            for value in (option.get)(&self.request.target) {
                add_option(option, &value, &mut words);
            }
        }
        let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
        match common.shards {
            Some(Shards::Count(count)) => add("--shards", count.to_string()),
            Some(Shards::Size(size)) => add("--shard-size", value::as_size(size.get())),
            None => {}
        }
        if let TimeChange::Set(time) = self.request.transform.time {
            add("--time", in_seconds(time));
        }
        if let Some(secs) = self.image_time.filter(|_| self.given.has_image_time) {
            add("--image-time", secs.to_string());
        }
        add("--jobs", self.request.scan.threads.to_string());
        add("--memory", value::as_size(common.memory));
        if !common.verify {
            words.push("--no-verify".into());
        }
        words.extend(self.given.words.iter().map(|word| encode(word.as_bytes()).into_owned()));
        words
    }
}
