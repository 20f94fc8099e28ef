//! `packfs extract`.

mod dry;

use anyhow::{Context, Result, bail};
use packfs_image::name::display;
use packfs_image::sink::{AlteredImage, dir};
use packfs_image::tree::TreeTransform;
use packfs_image::{AnyImage, sink};

use super::open;
use crate::args::ExtractArgs;
use crate::output::failure::CommandOutcome;
use crate::output::meter::{ProgressMeter, SpentResources};
use crate::output::{advice, interrupt, say, units};

pub(crate) fn run(args: &ExtractArgs) -> Result<CommandOutcome> {
    let extraction = PlannedExtraction::new(args)?;
    if args.dry_run {
        return dry::run(&extraction.image(), &args.directory, extraction.options(), args.talk.quiet);
    }
    let (summary, spent) = extraction.run()?;
    for lost in &summary.not_restored {
        say(format_args!("packfs: not restored: {lost}"));
    }
    for error in &summary.skipped {
        say(format_args!("packfs: left out: {error}"));
    }
    if !args.talk.quiet {
        say(format_args!(
            "{}: {}, {}, {}, {} in {} ({})",
            display(&args.directory),
            units::of(summary.files, "file"),
            units::of(summary.directories, "directory"),
            units::of(summary.symlinks + summary.special + summary.hard_links, "other"),
            units::bytes(summary.bytes),
            units::span(spent.time),
            units::speed(summary.bytes, spent.time)
        ));
    }
    Ok(if summary.is_complete() { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// An extraction that has not begun.
pub(crate) struct PlannedExtraction<'a> {
    args: &'a ExtractArgs,
    opened: AnyImage,
    change: TreeTransform,
    options: dir::ExtractOptions,
}

impl<'a> PlannedExtraction<'a> {
    pub(crate) fn new(args: &'a ExtractArgs) -> Result<Self> {
        if args.directory.symlink_metadata().is_ok() && !args.directory.is_dir() {
            bail!("{}: not a directory; name a directory, which need not exist", display(&args.directory));
        }
        let opened = open::in_order(&args.image, args.effort.memory())?;
        let change = args.alter.resolve()?;
        let select = args.select.resolve()?;
        let options = dir::ExtractOptions::default().set(|all| {
            all.select = select;
            all.strip = args.strip_components;
            all.threads = args.effort.threads();
            all.replace = args.force;
            all.owner = match args.alter.owner {
                Some(_) => dir::Owner::Restore,
                None if args.no_owner => dir::Owner::Extractor,
                None => dir::Owner::Auto,
            };
            all.part = args.shard.unwrap_or_default();
            all.sparse = !args.no_sparse;
            all.times = !args.no_times;
            all.on_error = args.on_error.into();
        });
        Ok(PlannedExtraction { args, opened, change, options })
    }

    /// Gives the directory the attributes of the image's root also if only some entries are selected.
    pub(crate) fn with_root_attributes(mut self) -> Self {
        self.options.root_attributes = true;
        self
    }

    /// Returns the image, with the attributes that entries will get.
    pub(crate) fn image(&self) -> AlteredImage<'_> {
        AlteredImage::new(self.opened.image(), self.change.clone())
    }

    /// Returns the image as it is.
    pub(crate) fn opened(&self) -> &AnyImage {
        &self.opened
    }

    pub(crate) fn options(&self) -> &dir::ExtractOptions {
        &self.options
    }

    pub(crate) fn run(&self) -> Result<(dir::ExtractSummary, SpentResources)> {
        let dir = display(&self.args.directory);
        let again = advice::for_user("; the same command with --force completes them").unwrap_or_default();
        interrupt::explain_end(format!("files in {dir} may be incomplete{again}"));
        let meter =
            if self.args.percentage { ProgressMeter::percentage() } else { ProgressMeter::start(self.args.talk.quiet) };
        let extracted = sink::dir::extract(&self.image(), &self.args.directory, &self.options, meter.progress());
        let spent = meter.finish();
        Ok((extracted.with_context(|| format!("extracting into {dir}"))?, spent))
    }
}
