//! unsquashfs and sqfscat: their command lines become those of `packfs extract`, `list`, `cat`, `tar` and `info`, whose
//! results are printed in the lines that callers parse.

mod extract;
mod names;
pub(super) mod rows;
mod superblock;
mod table;

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use packfs_image::name::display;
use packfs_image::tree::Time;
use packfs_image::{AnyImage, Error};

use self::names::pattern;
use self::rows::Style;
pub(super) use self::table::{CAT_TABLE, TABLE};
use super::date;
use super::mksquashfs::{ExcludedXattrs, exclude, of_each};
use super::options::{Opt, Word, leading};
use super::{Show, Todo};
use crate::args::{Cat, Command, ImageArg, value};
use crate::commands::{self, cat, open, tar};
use crate::output::failure::Usage;
use crate::output::{self, say};
use crate::resources;

/// Version whose options these are: callers decide by it what they may ask for.
const VERSION: &str = "4.7.5";
const OK: u8 = 0;
/// Exit status after an error that did not end the program.
const NOT_FATAL: u8 = 2;

/// Things that unsquashfs does, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Job {
    #[default]
    Extract,
    List,
    Cat,
    /// Write a pseudo file.
    Pseudo,
    Superblock,
    Time,
}

/// A command line, read.
#[derive(Debug, Default)]
struct Asked {
    job: Job,
    /// The image, then paths in it.
    plain: Vec<OsString>,
    /// Options that every command of packfs takes that reads an image.
    out: Vec<OsString>,
    /// Options of the selection of entries.
    select: Vec<OsString>,
    /// Options of `packfs extract` alone.
    extract: Vec<OsString>,
    paths: Vec<OsString>,
    excluded: Vec<OsString>,
    /// True if the paths on the command line are excluded.
    excludes: bool,
    plain_names: bool,
    /// True if the names of paths are regular expressions.
    regexes: bool,
    all_must_match: bool,
    /// True if symbolic links in paths are followed.
    follows: bool,
    /// True if every error ends the program.
    strict: bool,
    /// Extended attributes to leave out.
    xattrs: ExcludedXattrs,
    owner: (Option<u32>, Option<u32>),
    modes: Vec<String>,
    dest: Option<OsString>,
    /// The pseudo file to write; `-` is standard output.
    pseudo_file: Option<OsString>,
    how: How,
    print: Option<&'static str>,
}

/// The way to print and to end.
#[derive(Debug, Clone, Default)]
struct How {
    style: Style,
    /// True if extracted paths are listed.
    lists: bool,
    quiet: bool,
    force: bool,
    /// True if entries that cannot be written are no reason to fail.
    ignores_errors: bool,
    no_exit_code: bool,
}

/// Translates a command line of unsquashfs.
pub(super) fn unsquashfs(args: Vec<OsString>) -> Result<Todo, String> {
    let asked = Asked::read(TABLE, args)?;
    if let Some(todo) = asked.printed("unsquashfs", TABLE) {
        return Ok(todo);
    }
    if asked.plain.is_empty() {
        return Err("fatal error: no input filesystem specified on command line".into());
    }
    asked.todo()
}

/// Translates a command line of sqfscat.
pub(super) fn sqfscat(args: Vec<OsString>) -> Result<Todo, String> {
    let mut asked = Asked::read(CAT_TABLE, args)?;
    if let Some(todo) = asked.printed("sqfscat", CAT_TABLE) {
        return Ok(todo);
    }
    if asked.plain.len() < 2 {
        return Err("expected: sqfscat [OPTIONS] FILESYSTEM FILE...".into());
    }
    asked.job = Job::Cat;
    asked.todo()
}

impl Asked {
    fn read(table: &'static [Opt], args: Vec<OsString>) -> Result<Self, String> {
        let mut asked = Asked::default();
        for word in leading(table, args)? {
            match word {
                Word::Plain(word) => asked.plain.push(word),
                Word::Becomes(words) if words[0] == "--max-depth" => asked.select.extend(words),
                Word::Becomes(words) if words[0] == "--memory" => asked.extract.extend(words),
                Word::Becomes(words) => asked.out.extend(words),
                Word::Option(name, values) => asked.take(name, values)?,
            }
        }
        Ok(asked)
    }

    /// Takes an option that needs more than other words.
    fn take(&mut self, name: &'static str, values: Vec<OsString>) -> Result<(), String> {
        if name == "-ex" {
            self.excluded.extend(values);
            return Ok(());
        }
        let value = values.into_iter().next().unwrap_or_default();
        let text = || {
            value.to_str().map(str::to_owned).ok_or_else(|| format!("{name} {}: not UTF-8", display(Path::new(&value))))
        };
        match name {
            "-d" => self.dest = Some(value),
            "-excludes" => self.excludes = true,
            "-extract-file" => self.paths.extend(names::lines(Path::new(&value))?),
            "-exclude-file" => self.excluded.extend(names::lines(Path::new(&value))?),
            "-follow" => (self.follows, self.plain_names) = (true, true),
            "-match" | "-missing" => (self.all_must_match, self.follows, self.plain_names) = (true, true, true),
            "-no-wild" => self.plain_names = true,
            "-r" => self.regexes = true,
            "-all" => {
                let secs = date::seconds(&text()?).map_err(|why| format!("{name}: {why}"))?;
                self.how.style.time = Some(Time { secs, nanos: 0 });
                self.add("--time", &secs.to_string());
            }
            "-cat" => self.job = Job::Cat,
            "-pf" => self.pseudo_file = Some(value),
            "-f" => self.how.force = true,
            "-s" => self.job = Job::Superblock,
            "-mkfs-time" => self.job = Job::Time,
            "-i" => self.how.lists = true,
            "-li" => (self.how.lists, self.how.style.long) = (true, true),
            "-l" => self.job = Job::List,
            "-ll" => (self.job, self.how.style.long) = (Job::List, true),
            "-lln" => {
                self.job = Job::List;
                (self.how.style.long, self.how.style.numbers) = (true, true);
            }
            "-lc" => (self.job, self.how.style.concise) = (Job::List, true),
            "-llc" => {
                self.job = Job::List;
                (self.how.style.long, self.how.style.concise) = (true, true);
            }
            "-full" => self.how.style.seconds = true,
            "-UTC" => self.how.style.utc = true,
            "-no" => self.extract.push("--no-xattrs".into()),
            "-u" => self.only("user."),
            "-xattrs-exclude" => self.xattrs.named = Some(exclude::xattr(&text()?)?),
            "-xattrs-include" => {
                self.xattrs.others = exclude::other_xattrs(&text()?).map_err(|why| format!("{name}: {why}"))?;
            }
            "-force-uid" => self.owner.0 = Some(value::user(&text()?)?),
            "-force-gid" => self.owner.1 = Some(value::group(&text()?)?),
            "-force-file-mode" => self.modes.push(of_each(&text()?, 'F')),
            "-force-dir-mode" => self.modes.push(of_each(&text()?, 'D')),
            "-mem-default" => self.print = Some("memory"),
            "-p" => self.add("--jobs", &text()?),
            "-q" => self.how.quiet = true,
            "-percentage" => self.extract.push("--percentage".into()),
            "-ig" => self.how.ignores_errors = true,
            "-st" => {
                self.strict = true;
                self.extract.push("--on-error=stop".into());
            }
            "-no-exit" => self.how.no_exit_code = true,
            "-v" => self.print = Some("version"),
            _ => self.print = Some("help"),
        }
        Ok(())
    }

    /// Adds an option of `packfs extract`.
    fn add(&mut self, option: &str, value: &str) {
        self.extract.push(format!("{option}={value}").into());
    }

    /// Leaves out extended attributes of all other namespaces.
    fn only(&mut self, wanted: &str) {
        for name in exclude::NAMESPACES.iter().filter(|name| **name != wanted) {
            self.add("--exclude-xattr", &format!("{name}*"));
        }
    }

    /// Returns what was only asked to be printed.
    fn printed(&self, program: &'static str, table: &'static [Opt]) -> Option<Todo> {
        match self.print? {
            "version" => Some(Todo::Print(format!(
                "{program} version {VERSION} (packfs {})\nThis is packfs, which takes the options of {program}.\n",
                env!("CARGO_PKG_VERSION")
            ))),
            "memory" => Some(Todo::Print(format!("{}\n", (resources::memory_limit() / 4) >> 20))),
            _ => Some(Todo::Help(table)),
        }
    }

    fn todo(mut self) -> Result<Todo, String> {
        if self.strict && self.how.no_exit_code {
            return Err("both -strict-errors and -no-exit-code: all errors are fatal".into());
        }
        if self.strict && self.how.ignores_errors {
            return Err("both -strict-errors and -ignore-errors: all errors are fatal".into());
        }
        if self.pseudo_file.is_some() {
            match self.job {
                Job::Extract => self.job = Job::Pseudo,
                Job::List => return Err("fatal error: both a listing (-l, -ll and the like) and -pf".into()),
                _ => return Err("fatal error: both -pf and -cat, -s or -mkfs-time".into()),
            }
        }
        if self.regexes && self.plain_names {
            return Err("fatal error: both -no-wildcards (or -match, -follow-symlinks) and -regex".into());
        }
        let image = self.plain.remove(0);
        let names = std::mem::take(&mut self.plain);
        if self.excludes {
            self.excluded.extend(names);
        } else {
            self.paths.splice(0..0, names);
        }
        let image_word = if image.as_encoded_bytes().starts_with(b"-") {
            Path::new(".").join(&image).into_os_string()
        } else {
            image.clone()
        };
        let dest = self.dest.take().unwrap_or_else(|| "squashfs-root".into());
        self.how.style.prefix = dest.as_encoded_bytes().to_vec();
        let mut line: Vec<OsString> = match self.job {
            Job::Extract => vec!["extract".into(), "--directory".into(), dest],
            Job::List => vec!["list".into()],
            Job::Cat => vec!["cat".into()],
            Job::Pseudo => {
                let mut words: Vec<OsString> = vec!["tar".into(), "--format=pseudo".into()];
                if let Some(file) = self.pseudo_file.take().filter(|file| file != "-") {
                    words.extend(["--force".into(), "--output".into(), file]);
                }
                words
            }
            Job::Superblock | Job::Time => vec!["info".into()],
        };
        line.extend(std::mem::take(&mut self.out));
        for glob in std::mem::take(&mut self.xattrs).globs() {
            self.add("--exclude-xattr", &glob);
        }
        match self.job {
            Job::Extract => {
                let id = |id: Option<u32>| id.map(|id| id.to_string()).unwrap_or_default();
                if self.owner != (None, None) {
                    self.add("--owner", &format!("{}:{}", id(self.owner.0), id(self.owner.1)));
                }
                if !self.modes.is_empty() {
                    let modes = self.modes.join(",");
                    self.add("--mode", &modes);
                }
                if self.how.force {
                    line.push("--force".into());
                }
                if !self.extract.iter().any(|word| word == "--on-error=stop") {
                    line.push("--on-error=skip".into());
                }
                line.extend(std::mem::take(&mut self.extract));
                line.push("--quiet".into());
                line.extend(self.selection()?);
            }
            Job::List => {
                if self.how.style.long {
                    line.push("--long".into());
                    line.extend((!self.how.style.numbers).then(|| "--names".into()));
                }
                line.extend(self.selection()?);
            }
            Job::Pseudo => {
                let taken = ["--time=", "--no-xattrs", "--exclude-xattr=", "--jobs="];
                let is_taken = |word: &&OsString| {
                    taken.iter().any(|option| word.as_encoded_bytes().starts_with(option.as_bytes()))
                };
                line.extend(self.extract.iter().filter(is_taken).cloned());
                line.push("--quiet".into());
                line.extend(self.selection()?);
            }
            Job::Cat | Job::Superblock | Job::Time => {}
        }
        line.extend(["--".into(), image_word]);
        if !matches!(self.job, Job::Superblock | Job::Time) {
            if self.regexes && self.job == Job::Cat {
                // The option goes before the image.
                let regexes = match names::regexes("--regex", &self.paths) {
                    Ok(regexes) => regexes,
                    Err(why) => return Ok(Todo::Problem(why, NOT_FATAL)),
                };
                line.splice(line.len() - 2..line.len() - 2, regexes);
            }
            for path in self.paths.iter().filter(|_| !self.regexes) {
                line.push(pattern(path, self.plain_names)?);
            }
        }
        Ok(Todo::Show(line, Box::new(Work { job: self.job, image: PathBuf::from(image), how: self.how })))
    }

    /// Returns options of the commands that select entries.
    fn selection(&self) -> Result<Vec<OsString>, String> {
        let mut words = self.select.clone();
        if self.follows && !self.paths.is_empty() {
            words.push("--follow".into());
        }
        if !self.all_must_match && !self.paths.is_empty() {
            words.push("--ignore-missing".into());
        }
        if self.regexes {
            words.extend(names::regexes("--regex", &self.paths)?);
            words.extend(names::regexes("--exclude-regex", &self.excluded)?);
            return Ok(words);
        }
        for name in &self.excluded {
            let mut word = OsString::from("--exclude=/");
            word.push(pattern(name, self.plain_names)?);
            words.push(word);
        }
        Ok(words)
    }
}

/// A job of unsquashfs.
#[derive(Debug)]
struct Work {
    job: Job,
    image: PathBuf,
    how: How,
}

impl Show for Work {
    fn show(&self, command: Command) -> Result<u8> {
        match command {
            Command::Extract(args) => {
                self.is_squashfs(&args.image)?;
                extract::run(&args, &self.how)
            }
            Command::List(args) => {
                self.is_squashfs(&args.image)?;
                rows::list(&args, &self.how.style)?;
                Ok(OK)
            }
            Command::Cat(args) => {
                self.is_squashfs(&args.image)?;
                self.cat(args)
            }
            Command::Tar(args) => {
                self.is_squashfs(&args.image)?;
                tar::run(&args)?;
                Ok(OK)
            }
            Command::Info(args) => {
                self.is_squashfs(&args.image)?;
                let AnyImage::Squashfs(image) = open::image(&args.image)? else { bail!("not a SquashFS image") };
                match self.job {
                    Job::Time => drop(commands::print(&format!("{}\n", image.superblock().mkfs_time))?),
                    _ => output::write_result(|out| superblock::print(&image, &self.image, self.how.style.utc, out))?,
                }
                Ok(OK)
            }
            _ => Err(Usage("another command".into()).into()),
        }
    }
}

impl Work {
    /// Fails for anything but a SquashFS image, with the words that callers know.
    fn is_squashfs(&self, arg: &ImageArg) -> Result<()> {
        let name = display(&self.image);
        let mut magic = [0; 4];
        let read = File::open(&arg.path).and_then(|file| {
            let len = file.read_at(&mut magic, arg.offset)?;
            Ok(len == magic.len() && [*b"hsqs", *b"HSQS"].contains(&magic))
        });
        match read {
            Err(error) => bail!("Could not open {name}, because {error}"),
            Ok(false) => bail!("FATAL ERROR: Can't find a valid SQUASHFS superblock on {name}"),
            Ok(true) => Ok(()),
        }
    }

    /// Writes one file after the other; those that cannot be written are told.
    fn cat(&self, mut args: Cat) -> Result<u8> {
        let mut status = OK;
        let paths = std::mem::take(&mut args.paths).into_iter().map(|path| (vec![path], Vec::new()));
        let regexes = std::mem::take(&mut args.regex).into_iter().map(|regex| (Vec::new(), vec![regex]));
        for (paths, regexes) in paths.chain(regexes) {
            (args.paths, args.regex) = (paths, regexes);
            if let Err(error) = cat::run(&args) {
                if output::is_lost(&error) {
                    return Err(error);
                }
                let path = args.paths.first().map_or_else(|| args.regex[0].clone(), |path| display(path).to_string());
                let path = path.trim_start_matches('/');
                match error.downcast_ref() {
                    Some(Error::NotFound { .. } | Error::NoMatch { .. }) => {
                        say(format_args!("cat: no matches for /{path}"))
                    }
                    _ => say(format_args!("cat: /{path}: {error:#}")),
                }
                status = NOT_FATAL;
            }
        }
        Ok(if self.how.no_exit_code { OK } else { status })
    }
}

#[cfg(test)]
mod tests;
