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
use super::command_line::CommandLine;
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
    out: CommandLine,
    /// Options of the selection of entries.
    select: CommandLine,
    /// Options of `packfs extract` alone.
    extract: CommandLine,
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
                Word::Becomes(options) if options.has("--max-depth") => asked.select.append(options),
                Word::Becomes(options) if options.has("--memory") => asked.extract.append(options),
                Word::Becomes(options) => asked.out.append(options),
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
                self.extract.set("--time", secs.to_string());
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
            "-no" => self.extract.switch("--no-xattrs"),
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
            "-p" => self.extract.set("--jobs", text()?),
            "-q" => self.how.quiet = true,
            "-percentage" => self.extract.switch("--percentage"),
            "-ig" => self.how.ignores_errors = true,
            "-st" => {
                self.strict = true;
                self.extract.set("--on-error", "stop");
            }
            "-no-exit" => self.how.no_exit_code = true,
            "-v" => self.print = Some("version"),
            _ => self.print = Some("help"),
        }
        Ok(())
    }

    /// Leaves out extended attributes of all other namespaces.
    fn only(&mut self, wanted: &str) {
        for name in exclude::NAMESPACES.iter().filter(|name| **name != wanted) {
            self.extract.set("--exclude-xattr", format!("{name}*"));
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
        let mut line = CommandLine::new(match self.job {
            Job::Extract => "extract",
            Job::List => "list",
            Job::Cat => "cat",
            Job::Pseudo => "tar",
            Job::Superblock | Job::Time => "info",
        });
        if self.job == Job::Extract {
            line.set("--directory", dest);
        }
        if self.job == Job::Pseudo {
            line.set("--format", "pseudo");
            if let Some(file) = self.pseudo_file.take().filter(|file| file != "-") {
                line.switch("--force");
                line.set("--output", file);
            }
        }
        line.append(std::mem::take(&mut self.out));
        for glob in std::mem::take(&mut self.xattrs).globs() {
            self.extract.set("--exclude-xattr", glob);
        }
        match self.job {
            Job::Extract => {
                self.extract.set_owner(self.owner);
                if !self.modes.is_empty() {
                    self.extract.set("--mode", self.modes.join(","));
                }
                line.switch_if(self.how.force, "--force");
                if !self.strict {
                    line.set("--on-error", "skip");
                }
                line.append(std::mem::take(&mut self.extract));
                line.switch("--quiet");
                line.append(self.selection()?);
            }
            Job::List => {
                line.switch_if(self.how.style.long, "--long");
                line.switch_if(self.how.style.long && !self.how.style.numbers, "--names");
                line.append(self.selection()?);
            }
            Job::Pseudo => {
                let taken = ["--time", "--no-xattrs", "--exclude-xattr", "--jobs"];
                self.extract.retain(|option, _| taken.contains(&option));
                line.append(std::mem::take(&mut self.extract));
                line.switch("--quiet");
                line.append(self.selection()?);
            }
            Job::Cat | Job::Superblock | Job::Time => {}
        }
        if self.regexes && self.job == Job::Cat {
            match names::regexes(&self.paths) {
                Ok(regexes) => regexes.into_iter().for_each(|regex| line.set("--regex", regex)),
                Err(why) => return Ok(Todo::Problem(why, NOT_FATAL)),
            }
        }
        line.operand("--");
        line.operand(image_word);
        if !self.regexes && !matches!(self.job, Job::Superblock | Job::Time) {
            for path in &self.paths {
                line.operand(pattern(path, self.plain_names)?);
            }
        }
        Ok(Todo::Show(line, Box::new(Work { job: self.job, image: PathBuf::from(image), how: self.how })))
    }

    /// Returns options of the commands that select entries.
    fn selection(&self) -> Result<CommandLine, String> {
        let mut line = self.select.clone();
        line.switch_if(self.follows && !self.paths.is_empty(), "--follow");
        line.switch_if(!self.all_must_match && !self.paths.is_empty(), "--ignore-missing");
        if self.regexes {
            names::regexes(&self.paths)?.into_iter().for_each(|regex| line.set("--regex", regex));
            names::regexes(&self.excluded)?.into_iter().for_each(|regex| line.set("--exclude-regex", regex));
            return Ok(line);
        }
        for name in &self.excluded {
            let mut glob = OsString::from("/");
            glob.push(pattern(name, self.plain_names)?);
            line.set("--exclude", glob);
        }
        Ok(line)
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
