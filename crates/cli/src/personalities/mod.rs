//! Other programs' names that packfs answers to: started by one of them, it takes that program's options and keeps the
//! contracts of its callers. A personality turns them into a command of packfs and runs that.

mod command_line;
mod compressors;
mod date;
mod dump_erofs;
mod dump_stats;
mod fsck_erofs;
#[cfg(feature = "mount")]
mod fuse;
mod mkfs_erofs;
mod mksquashfs;
mod ng_writers;
mod options;
mod paths;
#[cfg(test)]
mod random_lines;
mod rdsquashfs;
mod refusals;
mod regex;
mod rules;
mod sqfs2tar;
mod sqfsdiff;
mod unsquashfs;

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use packfs_image::name::display;

use self::command_line::CommandLine;
pub(crate) use self::options::OptionRow;
use self::options::{ForeignOption, format_refusals, format_table};
use self::refusals::RefusedOption;
use crate::args::{AsProgramArgs, PackfsCommand};
use crate::output::failure::{self, CommandOutcome, ExitPolicy, UsageError};
use crate::output::{self, quote_words, say};
use crate::{arguments, commands, parse, run_build};

/// Version of squashfs-tools-ng whose options packfs takes.
const NG_VERSION: &str = "1.3.2";

/// A program whose command lines packfs takes.
struct EmulatedProgram {
    name: &'static str,
    /// Values and combinations of its options that are refused.
    refusals: &'static [&'static RefusedOption],
    run: CommandHandler,
    /// Exit status of errors.
    failure: u8,
}

/// Ways to take a command line.
enum CommandHandler {
    /// Translates it.
    Translate(fn(Vec<OsString>) -> std::result::Result<TranslatedLine, String>, &'static [ForeignOption]),
    /// Does the work; `packfs as --list` cannot tell its options.
    #[cfg(feature = "mount")]
    Own(fn(&str, Vec<OsString>) -> ExitCode),
}

/// A command line of another program, translated.
#[derive(Debug)]
enum TranslatedLine {
    /// A text on standard output.
    Print(String),
    /// An error with an exit status of its own.
    Problem(String, u8),
    /// Help, made from a table of options.
    Help(&'static [ForeignOption]),
    /// A command of packfs.
    Run(CommandLine, ExitPolicy),
    /// A command of packfs whose results are printed as the program prints them.
    Show(CommandLine, Box<dyn ResultPrinter>),
}

/// Runs a command of packfs and prints its results as another program does.
trait ResultPrinter: std::fmt::Debug {
    /// Returns the exit status.
    fn print_results(&self, command: PackfsCommand) -> Result<u8>;
}

const PERSONALITIES: &[EmulatedProgram] = &[
    EmulatedProgram {
        name: "mksquashfs",
        refusals: refusals::OF_MKSQUASHFS,
        run: CommandHandler::Translate(mksquashfs::mksquashfs, mksquashfs::TABLE),
        failure: 1,
    },
    // sqfstar is mksquashfs that reads an archive, and has its options.
    EmulatedProgram {
        name: "sqfstar",
        refusals: refusals::OF_MKSQUASHFS,
        run: CommandHandler::Translate(mksquashfs::sqfstar, mksquashfs::TABLE),
        failure: 1,
    },
    EmulatedProgram {
        name: "tar2sqfs",
        refusals: refusals::OF_TAR2SQFS,
        run: CommandHandler::Translate(ng_writers::tar2sqfs, ng_writers::TAR_TABLE),
        failure: 1,
    },
    EmulatedProgram {
        name: "gensquashfs",
        refusals: refusals::OF_GENSQUASHFS,
        run: CommandHandler::Translate(ng_writers::gensquashfs, ng_writers::GEN_TABLE),
        failure: 1,
    },
    EmulatedProgram {
        name: "mkfs.erofs",
        refusals: refusals::OF_MKFS_EROFS,
        run: CommandHandler::Translate(mkfs_erofs::mkfs_erofs, mkfs_erofs::TABLE),
        failure: 1,
    },
    EmulatedProgram {
        name: "unsquashfs",
        refusals: refusals::OF_UNSQUASHFS,
        run: CommandHandler::Translate(unsquashfs::unsquashfs, unsquashfs::TABLE),
        failure: 1,
    },
    EmulatedProgram {
        name: "sqfscat",
        refusals: refusals::OF_SQFSCAT,
        run: CommandHandler::Translate(unsquashfs::sqfscat, unsquashfs::CAT_TABLE),
        failure: 1,
    },
    EmulatedProgram {
        name: "fsck.erofs",
        refusals: refusals::OF_FSCK_EROFS,
        run: CommandHandler::Translate(fsck_erofs::fsck_erofs, fsck_erofs::TABLE),
        failure: 1,
    },
    EmulatedProgram {
        name: "dump.erofs",
        refusals: &[],
        run: CommandHandler::Translate(dump_erofs::dump_erofs, dump_erofs::TABLE),
        failure: 1,
    },
    EmulatedProgram {
        name: "rdsquashfs",
        refusals: &[],
        run: CommandHandler::Translate(rdsquashfs::rdsquashfs, rdsquashfs::TABLE),
        failure: 1,
    },
    EmulatedProgram {
        name: "sqfs2tar",
        refusals: &[],
        run: CommandHandler::Translate(sqfs2tar::sqfs2tar, sqfs2tar::TABLE),
        failure: 1,
    },
    EmulatedProgram {
        name: "sqfsdiff",
        refusals: &[],
        run: CommandHandler::Translate(sqfsdiff::sqfsdiff, sqfsdiff::TABLE),
        failure: sqfsdiff::PROBLEM,
    },
    #[cfg(feature = "mount")]
    EmulatedProgram { name: "squashfuse", refusals: &[], run: CommandHandler::Own(fuse::run), failure: 1 },
    #[cfg(feature = "mount")]
    EmulatedProgram { name: "squashfuse_ll", refusals: &[], run: CommandHandler::Own(fuse::run), failure: 1 },
    #[cfg(feature = "mount")]
    EmulatedProgram { name: "erofsfuse", refusals: &[], run: CommandHandler::Own(fuse::run), failure: 1 },
];

/// Runs the personality that the program was started as, if it was.
pub(crate) fn run_by_name() -> Option<ExitCode> {
    let mut args = arguments::command_line().into_iter();
    let started = args.next()?;
    // By its last component, whatever the link or the search path.
    let name = Path::new(&started).file_name().and_then(OsStr::to_str)?;
    find_program(name).map(|personality| personality.run(args.collect()))
}

/// Returns true if packfs takes the command lines of the program with this name.
pub(crate) fn is_emulated(name: &str) -> bool {
    find_program(name).is_some()
}

/// Returns the names of all programs.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PERSONALITIES.iter().map(|personality| personality.name)
}

/// Returns what packfs makes of each option of a program. There are no rows for a program whose own help lists its options.
///
/// # Errors
/// A program that packfs does not answer to.
pub(crate) fn option_rows(name: &str) -> Result<Vec<OptionRow>> {
    let personality = require_program(name)?;
    Ok(match &personality.run {
        CommandHandler::Translate(_, table) => {
            let options = table.iter().map(ForeignOption::row);
            options.chain(personality.refusals.iter().map(|refusal| refusal.row())).collect()
        }
        #[cfg(feature = "mount")]
        CommandHandler::Own(_) => Vec::new(),
    })
}

/// Returns true if the environment asks for packfs's own defaults instead of those of the other program.
fn wants_packfs_defaults() -> bool {
    std::env::var_os("PACKFS_AS").is_some_and(|way| way == "fast")
}

fn find_program(name: &str) -> Option<&'static EmulatedProgram> {
    PERSONALITIES.iter().find(|personality| personality.name == name)
}

impl EmulatedProgram {
    fn run(&self, args: Vec<OsString>) -> ExitCode {
        let (translate, name) = match &self.run {
            CommandHandler::Translate(translate, _) => (translate, self.name),
            #[cfg(feature = "mount")]
            CommandHandler::Own(run) => return run(self.name, args),
        };
        match translate(args) {
            Err(why) => {
                say(format_args!("{name}: {why}"));
                ExitCode::from(self.failure)
            }
            Ok(TranslatedLine::Problem(why, status)) => {
                say(format_args!("{name}: {why}"));
                ExitCode::from(status)
            }
            Ok(TranslatedLine::Print(text)) => failure::report_outcome(commands::print(&text), &self.exit_policy()),
            Ok(TranslatedLine::Help(table)) => {
                failure::report_outcome(commands::print(&help_text(name, table)), &self.exit_policy())
            }
            Ok(TranslatedLine::Run(line, policy)) => run_build(line.into_words(), policy),
            Ok(TranslatedLine::Show(line, printer)) => self.run_and_print(line, &*printer),
        }
    }

    /// Runs a command of packfs and prints its results in the program's way.
    fn run_and_print(&self, line: CommandLine, printer: &dyn ResultPrinter) -> ExitCode {
        // With the parser of packfs, so that an option that is translated wrongly fails here as anywhere.
        let shown = match parse(line.into_words()) {
            Ok(cli) => printer.print_results(cli.command),
            Err(error) => Err(UsageError(error.to_string()).into()),
        };
        match shown {
            Ok(status) => ExitCode::from(status),
            Err(error) => failure::report_outcome(Err(error.context(self.name.to_owned())), &self.exit_policy()),
        }
    }

    /// Returns the statuses of errors: the program has one for all.
    fn exit_policy(&self) -> ExitPolicy {
        ExitPolicy { usage: Some(self.failure), failure: Some(self.failure), ..ExitPolicy::default() }
    }

    /// Returns the table of options, or one line if the program has none.
    fn table(&self) -> String {
        match &self.run {
            CommandHandler::Translate(_, table) => {
                format_table(self.name, table) + &format_refusals(self.name, self.refusals)
            }
            #[cfg(feature = "mount")]
            CommandHandler::Own(_) => format!("{} all options; {0} --help lists them\n", self.name),
        }
    }
}

fn help_text(name: &str, table: &[ForeignOption]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    // The tests of erofs-utils look for this one.
    let table = format_table(name, table).replace("mkfs.erofs -b VALUE", "mkfs.erofs -b#     ");
    let compressors = compressors::list_compressors(name);
    format!("{name}, by packfs {version}: its options, and what becomes of each\n\n{table}{compressors}")
}

/// Returns the four bytes at an offset of a file, where formats have their magic numbers. Bytes beyond its end are 0.
fn magic_at(file: &Path, offset: u64) -> io::Result<[u8; 4]> {
    let mut magic = [0; 4];
    File::open(file)?.read_at(&mut magic, offset)?;
    Ok(magic)
}

/// Returns what a program says about its version, in the form that callers read.
fn version_text(program: &str, version: &str) -> TranslatedLine {
    TranslatedLine::Print(format!("{program} {version} (packfs {})\n", env!("CARGO_PKG_VERSION")))
}

/// As [`version_text`], and says that the program is packfs.
fn stand_in_version(program: &str, version: impl Display) -> TranslatedLine {
    let ours = env!("CARGO_PKG_VERSION");
    TranslatedLine::Print(format!(
        "{program} {version} (packfs {ours})\nThis is packfs, which takes the options of {program}.\n"
    ))
}

/// Runs `packfs as`.
pub(crate) fn run_as(args: AsProgramArgs) -> ExitCode {
    let mut words = args.words.into_iter();
    let program = words.next().map(|program| program.to_string_lossy().into_owned());
    let result = match (args.install, program) {
        (Some(dir), _) => install_links(&dir),
        (None, program) if args.list => print_tables(program.as_deref()),
        (None, Some(program)) => match require_program(&program) {
            Ok(personality) if args.show => personality.print_translation(words.collect()),
            Ok(personality) => return personality.run(words.collect()),
            Err(error) => Err(error),
        },
        (None, None) => Err(UsageError("expected a program, --list or --install DIR".into()).into()),
    };
    failure::report_outcome(result, &ExitPolicy::default())
}

fn require_program(name: &str) -> Result<&'static EmulatedProgram> {
    let names: Vec<_> = names().collect();
    find_program(name).ok_or_else(|| UsageError(format!("{name}: packfs answers to {}", names.join(", "))).into())
}

fn print_tables(program: Option<&str>) -> Result<CommandOutcome> {
    let only = program.map(require_program).transpose()?;
    let all = PERSONALITIES.iter().filter(|personality| only.is_none_or(|only| only.name == personality.name));
    commands::print(&all.map(EmulatedProgram::table).collect::<String>())
}

/// Makes a link to this program for each name; those that are there already stay.
fn install_links(dir: &Path) -> Result<CommandOutcome> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut said = Vec::new();
    for personality in PERSONALITIES {
        let link = dir.join(personality.name);
        // Called again, for example by a package's script, nothing changes.
        if std::fs::read_link(&link).ok().as_ref() != Some(&program) {
            symlink(&program, &link).with_context(|| format!("cannot make the link {}", display(&link)))?;
        }
        let _ = writeln!(said, "{}", display(&link));
    }
    // Remarks: the links are there.
    output::remarks().write_all(&said)?;
    Ok(CommandOutcome::Done)
}

impl EmulatedProgram {
    /// Prints the command that a command line becomes.
    fn print_translation(&self, args: Vec<OsString>) -> Result<CommandOutcome> {
        let translated = match &self.run {
            CommandHandler::Translate(translate, _) => {
                translate(args).map_err(|why| UsageError(format!("{}: {why}", self.name)))?
            }
            #[cfg(feature = "mount")]
            CommandHandler::Own(_) => {
                return Err(UsageError(format!("{}: --show is for programs that build images", self.name)).into());
            }
        };
        match translated {
            TranslatedLine::Problem(why, _) => Err(UsageError(format!("{}: {why}", self.name)).into()),
            TranslatedLine::Print(text) => commands::print(&text),
            TranslatedLine::Help(table) => commands::print(&help_text(self.name, table)),
            TranslatedLine::Run(line, _) | TranslatedLine::Show(line, _) => {
                commands::print(&format!("packfs {}\n", quote_words(&line.into_words())))
            }
        }
    }
}
