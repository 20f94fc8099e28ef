//! `packfs extract`.

mod dry;

use anyhow::{Context, Result, bail};
use packfs_image::name::display;
use packfs_image::sink::{Altered, dir};

use super::open;
use crate::args::Extract;
use crate::output::failure::Outcome;
use crate::output::meter::Meter;
use crate::output::{interrupt, say, units};

pub(super) fn run(args: &Extract) -> Result<Outcome> {
    let dir = display(&args.directory);
    if args.directory.symlink_metadata().is_ok() && !args.directory.is_dir() {
        bail!("{dir}: not a directory; -C takes a directory, which need not exist");
    }
    let image = open::in_order(&args.image, args.effort.memory())?;
    let image = Altered::new(image.image(), args.alter.resolve()?);
    let select = args.select.resolve()?;
    let options = dir::Options::default().set(|all| {
        all.select = select;
        (all.strip, all.threads, all.replace) = (args.strip_components, args.effort.threads(), args.force);
        all.owner = match args.alter.owner {
            Some(_) => dir::Owner::Restore,
            None if args.no_owner => dir::Owner::Extractor,
            None => dir::Owner::Auto,
        };
        (all.sparse, all.on_error) = (!args.no_sparse, args.on_error.into());
    });
    if args.dry_run {
        return dry::run(&image, &args.directory, &options, args.talk.quiet);
    }
    interrupt::explain(format!("files in {dir} may be unfinished; the same command with --force completes them"));
    let meter = Meter::start(args.talk.quiet);
    let extracted = dir::extract(&image, &args.directory, &options, meter.progress());
    let spent = meter.finish();
    let summary = extracted.with_context(|| format!("extracting into {}", display(&args.directory)))?;
    for lost in &summary.not_restored {
        say(format_args!("packfs: not restored: {lost}"));
    }
    for error in &summary.skipped {
        say(format_args!("packfs: left out: {error}"));
    }
    if !args.talk.quiet {
        let count = |n: u64, what: &str| format!("{} {what}", units::count(n));
        say(format_args!(
            "{}: {}, {}, {}, {} in {} ({})",
            display(&args.directory),
            count(summary.files, "files"),
            count(summary.directories, "directories"),
            count(summary.symlinks + summary.special + summary.hard_links, "others"),
            units::bytes(summary.bytes),
            units::span(spent.time),
            units::speed(summary.bytes, spent.time)
        ));
    }
    Ok(if summary.is_complete() { Outcome::Done } else { Outcome::Findings })
}
