//! unsquashfs and sqfscat: their command lines become those of `packfs extract`, `list`, `cat`, `tar` and `info`, whose
//! results are printed in the lines that callers parse.

mod extract;
mod names;
pub(super) mod rows;
mod superblock;
mod table;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use packfs_image::name::display;
use packfs_image::tree::Time;
use packfs_image::{AnyImage, Error};

use self::names::translate_pattern;
use self::rows::ListingStyle;
pub(super) use self::table::{CAT_TABLE, TABLE};
use super::command_line::CommandLine;
use super::date;
use super::mksquashfs::{ExcludedXattrs, exclude, printed_line, restrict_mode};
use super::options::{ForeignOption, ParsedWord, parse_leading_options};
use super::{ResultPrinter, TranslatedLine, magic_at};
use crate::args::{CatArgs, ImageArg, PackfsCommand, value};
use crate::commands::{self, cat, open, tar};
use crate::output::failure::UsageError;
use crate::output::{self, say};

const OK: u8 = 0;
/// Exit status after an error that did not end the program.
const NOT_FATAL: u8 = 2;

/// Things that unsquashfs does, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum UnsquashfsTask {
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
struct UnsquashfsOptions {
    task: UnsquashfsTask,
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
    run: RunOptions,
    print: Option<&'static str>,
}

/// The way to print and to end.
#[derive(Debug, Clone, Default)]
struct RunOptions {
    style: ListingStyle,
    /// True if extracted paths are listed.
    lists: bool,
    quiet: bool,
    force: bool,
    /// True if entries that cannot be written are no reason to fail.
    ignores_errors: bool,
    no_exit_code: bool,
}

/// Translates a command line of unsquashfs.
pub(super) fn unsquashfs(args: Vec<OsString>) -> Result<TranslatedLine, String> {
    let options = UnsquashfsOptions::read(TABLE, args)?;
    if let Some(printed) = printed_line(options.print, "unsquashfs", TABLE) {
        return Ok(printed);
    }
    if options.plain.is_empty() {
        return Err("fatal error: no input filesystem specified on command line".into());
    }
    options.translate()
}

/// Translates a command line of sqfscat.
pub(super) fn sqfscat(args: Vec<OsString>) -> Result<TranslatedLine, String> {
    let mut options = UnsquashfsOptions::read(CAT_TABLE, args)?;
    if let Some(printed) = printed_line(options.print, "sqfscat", CAT_TABLE) {
        return Ok(printed);
    }
    if options.plain.len() < 2 {
        return Err("expected: sqfscat [OPTIONS] FILESYSTEM FILE...".into());
    }
    options.task = UnsquashfsTask::Cat;
    options.translate()
}

impl UnsquashfsOptions {
    fn read(table: &'static [ForeignOption], args: Vec<OsString>) -> Result<Self, String> {
        let mut options = UnsquashfsOptions::default();
        for word in parse_leading_options(table, args)? {
            match word {
                ParsedWord::Plain(word) => options.plain.push(word),
                // Options that only some commands of packfs take are kept apart.
                ParsedWord::Becomes(made) if made.has("--max-depth") => options.select.append(made),
                ParsedWord::Becomes(made) if made.has("--memory") => options.extract.append(made),
                ParsedWord::Becomes(made) => options.out.append(made),
                ParsedWord::Option(name, values) => options.take(name, values)?,
            }
        }
        Ok(options)
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
            "-extract-file" => self.paths.extend(names::read_lines(Path::new(&value))?),
            "-exclude-file" => self.excluded.extend(names::read_lines(Path::new(&value))?),
            // Each of these turns off wildcards, as in unsquashfs.
            "-follow" => (self.follows, self.plain_names) = (true, true),
            "-match" | "-missing" => (self.all_must_match, self.follows, self.plain_names) = (true, true, true),
            "-no-wild" => self.plain_names = true,
            "-r" => self.regexes = true,
            "-all" => {
                let secs = date::seconds(&text()?).map_err(|why| format!("{name}: {why}"))?;
                self.run.style.time = Some(Time { secs, nanos: 0 });
                self.extract.set("--time", secs.to_string());
            }
            "-cat" => self.task = UnsquashfsTask::Cat,
            "-pf" => self.pseudo_file = Some(value),
            "-f" => self.run.force = true,
            "-s" => self.task = UnsquashfsTask::Superblock,
            "-mkfs-time" => self.task = UnsquashfsTask::Time,
            "-i" => self.run.lists = true,
            "-li" => (self.run.lists, self.run.style.long) = (true, true),
            "-l" => self.task = UnsquashfsTask::List,
            "-ll" => (self.task, self.run.style.long) = (UnsquashfsTask::List, true),
            "-lln" => {
                self.task = UnsquashfsTask::List;
                self.run.style.long = true;
                self.run.style.numbers = true;
            }
            "-lc" => (self.task, self.run.style.concise) = (UnsquashfsTask::List, true),
            "-llc" => {
                self.task = UnsquashfsTask::List;
                self.run.style.long = true;
                self.run.style.concise = true;
            }
            "-full" => self.run.style.seconds = true,
            "-UTC" => self.run.style.utc = true,
            "-no" => self.extract.switch("--no-xattrs"),
            "-u" => self.keep_namespace("user."),
            "-xattrs-exclude" => self.xattrs.named = Some(exclude::xattr_glob(&text()?)?),
            "-xattrs-include" => {
                self.xattrs.others = exclude::other_xattrs(&text()?).map_err(|why| format!("{name}: {why}"))?;
            }
            "-force-uid" => self.owner.0 = Some(value::user(&text()?)?),
            "-force-gid" => self.owner.1 = Some(value::group(&text()?)?),
            "-force-file-mode" => self.modes.push(restrict_mode(&text()?, 'F')),
            "-force-dir-mode" => self.modes.push(restrict_mode(&text()?, 'D')),
            "-mem-default" => self.print = Some("memory"),
            "-p" => self.extract.set("--jobs", text()?),
            "-q" => self.run.quiet = true,
            "-percentage" => self.extract.switch("--percentage"),
            "-ig" => self.run.ignores_errors = true,
            "-st" => {
                self.strict = true;
                self.extract.set("--on-error", "stop");
            }
            "-no-exit" => self.run.no_exit_code = true,
            "-v" => self.print = Some("version"),
            _ => self.print = Some("help"),
        }
        Ok(())
    }

    /// Leaves out extended attributes of all other namespaces.
    fn keep_namespace(&mut self, wanted: &str) {
        for name in exclude::NAMESPACES.iter().filter(|name| **name != wanted) {
            self.extract.set("--exclude-xattr", format!("{name}*"));
        }
    }

    fn translate(mut self) -> Result<TranslatedLine, String> {
        self.refuse_contradictions()?;
        // `-pf` decides by itself, in any place of the line.
        if self.pseudo_file.is_some() {
            self.task = UnsquashfsTask::Pseudo;
        }
        let image = self.plain.remove(0);
        let names = std::mem::take(&mut self.plain);
        if self.excludes {
            self.excluded.extend(names);
        } else {
            // In front of those that a file names.
            self.paths.splice(0..0, names);
        }
        let mut line = self.begin_line();
        line.append(std::mem::take(&mut self.out));
        self.add_task_options(&mut line)?;
        if self.regexes && self.task == UnsquashfsTask::Cat {
            match names::translate_regexes(&self.paths) {
                Ok(regexes) => regexes.into_iter().for_each(|regex| line.set("--regex", regex)),
                // With its own status, as sqfscat has it for expressions.
                Err(why) => return Ok(TranslatedLine::Problem(why, NOT_FATAL)),
            }
        }
        line.operand("--");
        // A file of this name, not an option of packfs.
        line.operand(value::operand(Path::new(&image)));
        if !self.regexes && !matches!(self.task, UnsquashfsTask::Superblock | UnsquashfsTask::Time) {
            for path in &self.paths {
                line.operand(translate_pattern(path, self.plain_names)?);
            }
        }
        let job = UnsquashfsJob { task: self.task, image: PathBuf::from(image), options: self.run };
        Ok(TranslatedLine::Show(line, Box::new(job)))
    }

    /// Fails for options that unsquashfs does not take together.
    fn refuse_contradictions(&self) -> Result<(), String> {
        if self.strict && self.run.no_exit_code {
            return Err("both -strict-errors and -no-exit-code: all errors are fatal".into());
        }
        if self.strict && self.run.ignores_errors {
            return Err("both -strict-errors and -ignore-errors: all errors are fatal".into());
        }
        match self.task {
            _ if self.pseudo_file.is_none() => {}
            // The task without an option that names one.
            UnsquashfsTask::Extract => {}
            UnsquashfsTask::List => {
                return Err("fatal error: both a listing (-l, -ll and the like) and -pf".into());
            }
            _ => return Err("fatal error: both -pf and -cat, -s or -mkfs-time".into()),
        }
        if self.regexes && self.plain_names {
            return Err("fatal error: both -no-wildcards (or -match, -follow-symlinks) and -regex".into());
        }
        Ok(())
    }

    /// Begins the line with the command of packfs and the place of its output.
    fn begin_line(&mut self) -> CommandLine {
        let dest = self.dest.take().unwrap_or_else(|| "squashfs-root".into());
        self.run.style.prefix = dest.as_encoded_bytes().to_vec();
        match self.task {
            UnsquashfsTask::Extract => {
                let mut line = CommandLine::new("extract");
                line.set("--directory", dest);
                line
            }
            UnsquashfsTask::Pseudo => {
                let mut line = CommandLine::new("tar");
                line.set("--format", "pseudo");
                // Standard output needs neither.
                if let Some(file) = self.pseudo_file.take().filter(|file| file != "-") {
                    line.switch("--force");
                    line.set("--output", file);
                }
                line
            }
            UnsquashfsTask::List => CommandLine::new("list"),
            UnsquashfsTask::Cat => CommandLine::new("cat"),
            UnsquashfsTask::Superblock | UnsquashfsTask::Time => CommandLine::new("info"),
        }
    }

    /// Adds the options of the task, and those that select entries.
    fn add_task_options(&mut self, line: &mut CommandLine) -> Result<(), String> {
        for glob in std::mem::take(&mut self.xattrs).globs() {
            self.extract.set("--exclude-xattr", glob);
        }
        match self.task {
            UnsquashfsTask::Extract => {
                // These are options of extraction in unsquashfs, which a listing accepts and does not use.
                self.extract.set_owner(self.owner);
                if !self.modes.is_empty() {
                    self.extract.set("--mode", self.modes.join(","));
                }
                line.switch_if(self.run.force, "--force");
                if !self.strict {
                    line.set("--on-error", "skip");
                }
                line.append(std::mem::take(&mut self.extract));
                line.switch("--quiet");
                line.append(self.selection()?);
            }
            UnsquashfsTask::List => {
                line.switch_if(self.run.style.long, "--long");
                line.switch_if(self.run.style.long && !self.run.style.numbers, "--names");
                line.append(self.selection()?);
            }
            UnsquashfsTask::Pseudo => {
                // The rest has no meaning for an archive.
                let taken = ["--time", "--no-xattrs", "--exclude-xattr", "--jobs"];
                self.extract.retain(|option, _| taken.contains(&option));
                line.append(std::mem::take(&mut self.extract));
                line.switch("--quiet");
                line.append(self.selection()?);
            }
            UnsquashfsTask::Cat | UnsquashfsTask::Superblock | UnsquashfsTask::Time => {}
        }
        Ok(())
    }

    /// Returns options of the commands that select entries.
    fn selection(&self) -> Result<CommandLine, String> {
        let mut line = self.select.clone();
        line.switch_if(self.follows && !self.paths.is_empty(), "--follow");
        line.switch_if(!self.all_must_match && !self.paths.is_empty(), "--ignore-missing");
        if self.regexes {
            names::translate_regexes(&self.paths)?.into_iter().for_each(|regex| line.set("--regex", regex));
            names::translate_regexes(&self.excluded)?.into_iter().for_each(|regex| line.set("--exclude-regex", regex));
            return Ok(line);
        }
        for name in &self.excluded {
            let mut glob = OsString::from("/");
            glob.push(translate_pattern(name, self.plain_names)?);
            line.set("--exclude", glob);
        }
        Ok(line)
    }
}

/// A job of unsquashfs.
#[derive(Debug)]
struct UnsquashfsJob {
    task: UnsquashfsTask,
    image: PathBuf,
    options: RunOptions,
}

impl ResultPrinter for UnsquashfsJob {
    fn print_results(&self, command: PackfsCommand) -> Result<u8> {
        match command {
            // First, so that another format is refused with the words of unsquashfs.
            PackfsCommand::Extract(args) => {
                self.require_squashfs(&args.image)?;
                extract::run(&args, &self.options)
            }
            PackfsCommand::List(args) => {
                self.require_squashfs(&args.image)?;
                rows::print_list(&args, &self.options.style)?;
                Ok(OK)
            }
            PackfsCommand::Cat(args) => {
                self.require_squashfs(&args.image)?;
                self.cat(args)
            }
            PackfsCommand::Tar(args) => {
                self.require_squashfs(&args.image)?;
                tar::run(&args)?;
                Ok(OK)
            }
            PackfsCommand::Info(args) => {
                self.require_squashfs(&args.image)?;
                let AnyImage::Squashfs(image) = open::image(&args.image)? else { bail!("not a SquashFS image") };
                match self.task {
                    UnsquashfsTask::Time => drop(commands::print(&format!("{}\n", image.superblock().mkfs_time))?),
                    _ => {
                        output::write_result(|out| superblock::print(&image, &self.image, self.options.style.utc, out))?
                    }
                }
                Ok(OK)
            }
            _ => Err(UsageError("another command".into()).into()),
        }
    }
}

impl UnsquashfsJob {
    /// Fails for anything but a SquashFS image, with the words that callers know.
    fn require_squashfs(&self, arg: &ImageArg) -> Result<()> {
        let name = display(&self.image);
        match magic_at(&arg.path, arg.offset) {
            Err(error) => bail!("Could not open {name}, because {error}"),
            // Both byte orders: of the old one packfs says that it cannot read it.
            Ok(magic) if [*b"hsqs", *b"HSQS"].contains(&magic) => Ok(()),
            Ok(_) => bail!("FATAL ERROR: Can't find a valid SQUASHFS superblock on {name}"),
        }
    }

    /// Writes one file after the other; those that cannot be written are told.
    fn cat(&self, mut args: CatArgs) -> Result<u8> {
        let mut status = OK;
        let paths = std::mem::take(&mut args.paths).into_iter().map(|path| (vec![path], Vec::new()));
        let regexes = std::mem::take(&mut args.regex).into_iter().map(|regex| (Vec::new(), vec![regex]));
        for (paths, regexes) in paths.chain(regexes) {
            args.paths = paths;
            args.regex = regexes;
            if let Err(error) = cat::run(&args) {
                // Standard output is gone, so no other file can be written either.
                if output::is_lost(&error) {
                    return Err(error);
                }
                let path = args.paths.first().map_or_else(|| args.regex[0].clone(), |path| display(path).to_string());
                // unsquashfs names paths with one slash.
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
        Ok(if self.options.no_exit_code { OK } else { status })
    }
}

#[cfg(test)]
mod tests;
