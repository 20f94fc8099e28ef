//! `packfs man`: a page for each command, from the same definition as its help, and one for each program whose command
//! lines packfs takes, from the table of its options.

use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_mangen::Man as Page;
use clap_mangen::roff::{Roff, bold, roman};
use packfs_image::name::display;

use crate::args::{ManArgs, PackfsCli};
use crate::output::failure::{CommandOutcome, UsageError};
use crate::personalities::{self, OptionRow};

pub(super) fn run(args: &ManArgs) -> Result<CommandOutcome> {
    let mut packfs = PackfsCli::command();
    packfs.build();
    if let Some(dir) = &args.dir {
        return write_all(&packfs, dir);
    }
    if let [first, program] = &args.command[..]
        && first == AS
    {
        return super::print(&program_page(program)?);
    }
    let mut command = &packfs;
    for name in &args.command {
        command = command.find_subcommand(name).ok_or_else(|| unknown_command(name, command))?;
    }
    super::print(&command_page(command, &packfs)?)
}

fn unknown_command(name: &str, parent: &Command) -> UsageError {
    let names: Vec<_> = parent.get_subcommands().map(Command::get_name).collect();
    let parent = display_name(parent);
    UsageError(match &names[..] {
        [] => format!("{parent} has no commands of its own, such as `{name}`"),
        names => format!("unknown command `{name}`; accepted: {}", names.join(", ")),
    })
}

/// Name of the command that takes the command lines of other programs.
const AS: &str = "as";

fn write_all(packfs: &Command, dir: &Path) -> Result<CommandOutcome> {
    std::fs::create_dir_all(dir).with_context(|| format!("{}: cannot create", display(dir)))?;
    let write = |name: &str, page: String| {
        let path = dir.join(format!("{name}.1"));
        std::fs::write(&path, page).with_context(|| format!("{}: cannot write", display(&path)))
    };
    for command in all_commands(packfs) {
        write(display_name(command), command_page(command, packfs)?)?;
    }
    for program in personalities::names() {
        write(&program_page_name(program), program_page(program)?)?;
    }
    Ok(CommandOutcome::Done)
}

/// Returns the name of the page of a program. It is not that of the program, whose own page may be installed, too.
fn program_page_name(program: &str) -> String {
    format!("packfs-{AS}-{program}")
}

/// Makes the page of a program whose command lines packfs takes.
fn program_page(program: &str) -> Result<String> {
    let rows = personalities::option_rows(program)?;
    let mut page = Roff::default();
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{} - take the command line of {program}", program_page_name(program)))]);
    page.control("SH", ["SYNOPSIS"]);
    page.text([bold(program), roman(" [ARGUMENT]...")]);
    page.control("br", []);
    page.text([bold(format!("packfs {AS} {program}")), roman(" [ARGUMENT]...")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(format!(
        "packfs started by the name {program}, through a link, takes the options of that program and returns its exit \
         statuses. Options that are the same do what they do there, by the options of packfs or in the way given."
    ))]);
    page.control("SH", ["OPTIONS"]);
    if rows.is_empty() {
        page.text([roman(format!("{program} --help lists all options."))]);
    }
    for OptionRow { option, handling, explanation } in rows {
        page.control("TP", []);
        page.text([bold(option)]);
        page.text([roman(format!("{handling}: {explanation}"))]);
    }
    page.control("SH", ["SEE ALSO"]);
    page.text([roman(format!("packfs-{AS}(1), packfs(1)"))]);
    let name = program_page_name(program).to_uppercase();
    let version = env!("CARGO_PKG_VERSION");
    Ok(format!("{APOSTROPHES}{}{}", title_line(&name, version), page.to_roff()))
}

/// Makes the title line. clap_mangen omits an empty date, which would shift the following fields.
fn title_line(name: &str, version: &str) -> String {
    format!(".TH {name} 1 \"\" \"packfs {version}\" \"packfs manual\"\n")
}

/// Returns a command and all commands below it.
fn all_commands(command: &Command) -> Vec<&Command> {
    std::iter::once(command).chain(command.get_subcommands().flat_map(all_commands)).collect()
}

/// Returns the command with its parents, joined as in the name of its page: `packfs-bench-read`.
fn display_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn command_page(command: &Command, packfs: &Command) -> Result<String> {
    let mut own = command.clone().subcommand_help_heading("COMMANDS");
    let usage = own.render_usage().to_string();
    own = own.override_usage(usage.trim_start_matches("Usage:").trim().to_owned());
    let name = display_name(command);
    let version = command.get_version().unwrap_or_default();
    let mut page = title_line(&name.to_uppercase(), version);
    let man = Page::new(own);
    page.push_str(&render_section(|out| man.render_name_section(out))?);
    page.push_str(&render_section(|out| man.render_synopsis_section(out))?);
    page.push_str(&render_section(|out| man.render_description_section(out))?);
    page.push_str(&render_section(|out| man.render_options_section(out))?);
    if command.has_subcommands() {
        page.push_str(&render_section(|out| man.render_subcommands_section(out))?);
    }
    page.push_str(&render_section(|out| closing_sections(command, packfs).to_writer(out))?);
    Ok(format!("{APOSTROPHES}{page}"))
}

/// Definitions that the library repeats for each section.
const APOSTROPHES: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

/// Renders a section without the parts that pages have only once, and without the empty lines that
/// roff warns about.
fn render_section(render: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> Result<String> {
    let mut out = Vec::new();
    render(&mut out)?;
    Ok(String::from_utf8(out)?.replace(APOSTROPHES, "").replace(".br\n\n.br\n", ".sp\n"))
}

/// Makes the sections that clap does not provide.
fn closing_sections(command: &Command, packfs: &Command) -> Roff {
    let mut end = Roff::default();
    add_examples(command, &mut end);
    end.control("SH", ["EXIT STATUS"]);
    for (status, meaning) in EXIT_STATUS {
        end.control("TP", []);
        end.text([bold(status)]);
        end.text([roman(meaning)]);
    }
    end.control("SH", ["SEE ALSO"]);
    end.text([roman(related_pages(command, packfs).join(", "))]);
    end
}

const EXIT_STATUS: [(&str, &str); 3] =
    [("0", "Done."), ("1", "The command failed, or it found damage or differences."), ("2", "Wrong usage.")];

/// Adds the examples of the help text, line by line as typed.
fn add_examples(command: &Command, page: &mut Roff) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let Some(lines) = help.strip_prefix("Examples:\n") else { return };
    page.control("SH", ["EXAMPLES"]);
    page.control("nf", []);
    for line in lines.lines() {
        page.text([roman(line.trim())]);
    }
    page.control("fi", []);
}

/// Returns the pages of the parent command, of subcommands, and of commands named in the help text.
fn related_pages(command: &Command, packfs: &Command) -> Vec<String> {
    let own = display_name(command);
    let help = command.clone().render_long_help().to_string();
    let words: Vec<&str> = help.split(|c: char| !(c.is_alphanumeric() || c == '-')).collect();
    let named = |name: &str| {
        let name: Vec<&str> = name.split('-').collect();
        words.windows(name.len()).any(|some| some == name)
    };
    let is_related = |other: &&Command| {
        let name = display_name(other);
        let above_or_below = |one: &str, other: &str| one.rsplit_once('-').is_some_and(|(parent, _)| parent == other);
        name != own && (above_or_below(own, name) || above_or_below(name, own) || name == "packfs" || named(name))
    };
    let all = all_commands(packfs).into_iter().filter(is_related);
    let pages = all.map(|other| display_name(other).to_owned());
    let programs = personalities::names().filter(|_| command.get_name() == AS).map(program_page_name);
    pages.chain(programs).map(|name| format!("{name}(1)")).collect()
}
