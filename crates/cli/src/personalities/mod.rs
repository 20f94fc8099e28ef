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
mod rdsquashfs;
mod refusals;
mod regex;
mod rules;
mod sqfs2tar;
mod sqfsdiff;
mod unsquashfs;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use packfs_image::name::display;

use self::command_line::CommandLine;
pub(crate) use self::options::OptionRow;
use self::options::{Opt, listed, listed_refusals};
use self::refusals::RefusedOption;
use crate::args::{AsProgram, Command};
use crate::output::failure::{self, Manner, Outcome, Usage};
use crate::output::{self, quoted, say};
use crate::{arguments, commands, parse, run_build};

/// Version of squashfs-tools-ng whose options packfs takes.
const NG_VERSION: &str = "1.3.2";

/// A program whose command lines packfs takes.
struct Personality {
    name: &'static str,
    /// Values and combinations of its options that are refused.
    refusals: &'static [&'static RefusedOption],
    run: Run,
    /// Exit status of errors.
    failure: u8,
}

/// Ways to take a command line.
enum Run {
    /// Translates it.
    Translate(fn(Vec<OsString>) -> std::result::Result<Todo, String>, &'static [Opt]),
    /// Does the work; `packfs as --list` cannot tell its options.
    #[cfg(feature = "mount")]
    Own(fn(&str, Vec<OsString>) -> ExitCode),
}

/// A command line of another program, translated.
#[derive(Debug)]
enum Todo {
    /// A text on standard output.
    Print(String),
    /// An error with an exit status of its own.
    Problem(String, u8),
    /// Help, made from a table of options.
    Help(&'static [Opt]),
    /// A command of packfs.
    Run(CommandLine, Manner),
    /// A command of packfs whose results are printed as the program prints them.
    Show(CommandLine, Box<dyn Show>),
}

/// Runs a command of packfs and prints its results as another program does.
trait Show: std::fmt::Debug {
    /// Returns the exit status.
    fn show(&self, command: Command) -> Result<u8>;
}

const PERSONALITIES: &[Personality] = &[
    Personality {
        name: "mksquashfs",
        refusals: refusals::OF_MKSQUASHFS,
        run: Run::Translate(mksquashfs::mksquashfs, mksquashfs::TABLE),
        failure: 1,
    },
    Personality {
        name: "sqfstar",
        refusals: refusals::OF_MKSQUASHFS,
        run: Run::Translate(mksquashfs::sqfstar, mksquashfs::TABLE),
        failure: 1,
    },
    Personality {
        name: "tar2sqfs",
        refusals: refusals::OF_TAR2SQFS,
        run: Run::Translate(ng_writers::tar2sqfs, ng_writers::TAR_TABLE),
        failure: 1,
    },
    Personality {
        name: "gensquashfs",
        refusals: refusals::OF_GENSQUASHFS,
        run: Run::Translate(ng_writers::gensquashfs, ng_writers::GEN_TABLE),
        failure: 1,
    },
    Personality {
        name: "mkfs.erofs",
        refusals: refusals::OF_MKFS_EROFS,
        run: Run::Translate(mkfs_erofs::mkfs_erofs, mkfs_erofs::TABLE),
        failure: 1,
    },
    Personality {
        name: "unsquashfs",
        refusals: refusals::OF_UNSQUASHFS,
        run: Run::Translate(unsquashfs::unsquashfs, unsquashfs::TABLE),
        failure: 1,
    },
    Personality {
        name: "sqfscat",
        refusals: refusals::OF_SQFSCAT,
        run: Run::Translate(unsquashfs::sqfscat, unsquashfs::CAT_TABLE),
        failure: 1,
    },
    Personality {
        name: "fsck.erofs",
        refusals: refusals::OF_FSCK_EROFS,
        run: Run::Translate(fsck_erofs::fsck_erofs, fsck_erofs::TABLE),
        failure: 1,
    },
    Personality {
        name: "dump.erofs",
        refusals: &[],
        run: Run::Translate(dump_erofs::dump_erofs, dump_erofs::TABLE),
        failure: 1,
    },
    Personality {
        name: "rdsquashfs",
        refusals: &[],
        run: Run::Translate(rdsquashfs::rdsquashfs, rdsquashfs::TABLE),
        failure: 1,
    },
    Personality {
        name: "sqfs2tar",
        refusals: &[],
        run: Run::Translate(sqfs2tar::sqfs2tar, sqfs2tar::TABLE),
        failure: 1,
    },
    Personality {
        name: "sqfsdiff",
        refusals: &[],
        run: Run::Translate(sqfsdiff::sqfsdiff, sqfsdiff::TABLE),
        failure: sqfsdiff::PROBLEM,
    },
    #[cfg(feature = "mount")]
    Personality { name: "squashfuse", refusals: &[], run: Run::Own(fuse::run), failure: 1 },
    #[cfg(feature = "mount")]
    Personality { name: "squashfuse_ll", refusals: &[], run: Run::Own(fuse::run), failure: 1 },
    #[cfg(feature = "mount")]
    Personality { name: "erofsfuse", refusals: &[], run: Run::Own(fuse::run), failure: 1 },
];

/// Runs the personality that the program was started as, if it was.
pub(crate) fn run() -> Option<ExitCode> {
    let mut args = arguments::all().into_iter();
    let started = args.next()?;
    let name = Path::new(&started).file_name().and_then(OsStr::to_str)?;
    find(name).map(|personality| personality.run(args.collect()))
}

/// Returns true if packfs takes the command lines of the program with this name.
pub(crate) fn has(name: &str) -> bool {
    find(name).is_some()
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
    let personality = known(name)?;
    Ok(match &personality.run {
        Run::Translate(_, table) => {
            let options = table.iter().map(Opt::row);
            options.chain(personality.refusals.iter().map(|refusal| refusal.row())).collect()
        }
        #[cfg(feature = "mount")]
        Run::Own(_) => Vec::new(),
    })
}

/// Returns true if the environment asks for packfs's own defaults instead of those of the other program.
fn is_fast() -> bool {
    std::env::var_os("PACKFS_AS").is_some_and(|way| way == "fast")
}

fn find(name: &str) -> Option<&'static Personality> {
    PERSONALITIES.iter().find(|personality| personality.name == name)
}

impl Personality {
    fn run(&self, args: Vec<OsString>) -> ExitCode {
        let (translate, name) = match &self.run {
            Run::Translate(translate, _) => (translate, self.name),
            #[cfg(feature = "mount")]
            Run::Own(run) => return run(self.name, args),
        };
        match translate(args) {
            Err(why) => {
                say(format_args!("{name}: {why}"));
                ExitCode::from(self.failure)
            }
            Ok(Todo::Problem(why, status)) => {
                say(format_args!("{name}: {why}"));
                ExitCode::from(status)
            }
            Ok(Todo::Print(text)) => failure::exit(commands::print(&text), &self.manner()),
            Ok(Todo::Help(table)) => failure::exit(commands::print(&help(name, table)), &self.manner()),
            Ok(Todo::Run(line, manner)) => run_build(line.into_words(), manner),
            Ok(Todo::Show(line, show)) => self.run_shown(line, &*show),
        }
    }

    /// Runs a command of packfs and prints its results in the program's way.
    fn run_shown(&self, line: CommandLine, show: &dyn Show) -> ExitCode {
        let shown = match parse(line.into_words()) {
            Ok(cli) => show.show(cli.command),
            Err(error) => Err(Usage(error.to_string()).into()),
        };
        match shown {
            Ok(status) => ExitCode::from(status),
            Err(error) => failure::exit(Err(error.context(self.name.to_owned())), &self.manner()),
        }
    }

    /// Returns the statuses of errors: the program has one for all.
    fn manner(&self) -> Manner {
        Manner { usage: Some(self.failure), failure: Some(self.failure), ..Manner::default() }
    }

    /// Returns the table of options, or one line if the program has none.
    fn table(&self) -> String {
        match &self.run {
            Run::Translate(_, table) => listed(self.name, table) + &listed_refusals(self.name, self.refusals),
            #[cfg(feature = "mount")]
            Run::Own(_) => format!("{} all options; {0} --help lists them\n", self.name),
        }
    }
}

fn help(name: &str, table: &[Opt]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    // The tests of erofs-utils look for this one.
    let table = listed(name, table).replace("mkfs.erofs -b VALUE", "mkfs.erofs -b#     ");
    let compressors = compressors::listed(name);
    format!("{name}, by packfs {version}: its options, and what becomes of each\n\n{table}{compressors}")
}

/// Returns what a program says about its version, in the form that callers read.
fn version(program: &str, version: &str) -> Todo {
    Todo::Print(format!("{program} {version} (packfs {})\n", env!("CARGO_PKG_VERSION")))
}

/// `packfs as`.
pub(crate) fn run_as(asked: AsProgram) -> ExitCode {
    let mut words = asked.words.into_iter();
    let program = words.next().map(|program| program.to_string_lossy().into_owned());
    let result = match (asked.install, program) {
        (Some(dir), _) => install(&dir),
        (None, program) if asked.list => table_of(program.as_deref()),
        (None, Some(program)) => match known(&program) {
            Ok(personality) if asked.show => personality.show(words.collect()),
            Ok(personality) => return personality.run(words.collect()),
            Err(error) => Err(error),
        },
        (None, None) => Err(Usage("expected a program, --list or --install DIR".into()).into()),
    };
    failure::exit(result, &Manner::default())
}

fn known(name: &str) -> Result<&'static Personality> {
    let names: Vec<_> = names().collect();
    find(name).ok_or_else(|| Usage(format!("{name}: packfs answers to {}", names.join(", "))).into())
}

fn table_of(program: Option<&str>) -> Result<Outcome> {
    let asked = program.map(known).transpose()?;
    let all = PERSONALITIES.iter().filter(|personality| asked.is_none_or(|asked| asked.name == personality.name));
    commands::print(&all.map(Personality::table).collect::<String>())
}

/// Makes a link to this program for each name; those that are there already stay.
fn install(dir: &Path) -> Result<Outcome> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut said = Vec::new();
    for personality in PERSONALITIES {
        let link = dir.join(personality.name);
        if std::fs::read_link(&link).ok().as_ref() != Some(&program) {
            symlink(&program, &link).with_context(|| format!("cannot make the link {}", display(&link)))?;
        }
        let _ = writeln!(said, "{}", display(&link));
    }
    // Remarks: the links are there.
    output::remarks().write_all(&said)?;
    Ok(Outcome::Done)
}

impl Personality {
    /// Prints the command that a command line becomes.
    fn show(&self, args: Vec<OsString>) -> Result<Outcome> {
        let todo = match &self.run {
            Run::Translate(translate, _) => translate(args).map_err(|why| Usage(format!("{}: {why}", self.name)))?,
            #[cfg(feature = "mount")]
            Run::Own(_) => return Err(Usage(format!("{}: --show is for programs that build images", self.name)).into()),
        };
        match todo {
            Todo::Problem(why, _) => Err(Usage(format!("{}: {why}", self.name)).into()),
            Todo::Print(text) => commands::print(&text),
            Todo::Help(table) => commands::print(&help(self.name, table)),
            Todo::Run(line, _) | Todo::Show(line, _) => {
                commands::print(&format!("packfs {}\n", quoted(&line.into_words())))
            }
        }
    }
}
