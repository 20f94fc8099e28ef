//! `packfs completions` and `packfs man`.

use packfs_image::name::display;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_mangen::Man as Page;

use crate::args::{Cli, Completions, Man};
use crate::output;
use crate::output::failure::{Outcome, Usage};

pub(super) fn completions(args: &Completions) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "packfs", &mut script);
    print(&script)
}

pub(super) fn man(args: &Man) -> Result<Outcome> {
    let mut packfs = Cli::command();
    packfs.build();
    if let Some(dir) = &args.dir {
        return write_all(&packfs, dir);
    }
    let command = match &args.command {
        None => &packfs,
        Some(name) => packfs.find_subcommand(name).ok_or_else(|| {
            let names: Vec<_> = packfs.get_subcommands().map(clap::Command::get_name).collect();
            Usage(format!("there is no command `{name}`; there are {}", names.join(", ")))
        })?,
    };
    print(&page(command)?)
}

fn write_all(packfs: &clap::Command, dir: &Path) -> Result<Outcome> {
    std::fs::create_dir_all(dir).with_context(|| display(dir).to_string())?;
    for command in std::iter::once(packfs).chain(packfs.get_subcommands()) {
        let path = dir.join(file_name(command));
        std::fs::write(&path, page(command)?).with_context(|| display(&path).to_string())?;
    }
    Ok(Outcome::Done)
}

fn page(command: &clap::Command) -> io::Result<Vec<u8>> {
    let name = file_name(command);
    // clap_mangen names a page by the command alone; `man packfs-build` needs the whole.
    let command = command.clone().name(name.trim_end_matches(".1").to_owned());
    let mut page = Vec::new();
    Page::new(command).manual("packfs manual").render(&mut page)?;
    Ok(page)
}

fn file_name(command: &clap::Command) -> String {
    match command.get_name() {
        "packfs" => "packfs.1".into(),
        name => format!("packfs-{name}.1"),
    }
}

fn print(bytes: &[u8]) -> Result<Outcome> {
    let mut out = output::stdout()?;
    out.write_all(bytes)?;
    out.flush()?;
    Ok(Outcome::Done)
}
