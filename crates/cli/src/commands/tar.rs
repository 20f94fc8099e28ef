//! `packfs tar`: archives and pseudo files.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use packfs_blocks::Progress;
use packfs_blocks::units::Size;
use packfs_image::name::display;
use packfs_image::sink::AlteredImage;
use packfs_image::sink::compress::{StreamCompression, compressed};
use packfs_image::sink::pseudo::{write_pseudo, write_pseudo_to};
use packfs_image::sink::tar::{TarOptions, TarSummary, write_tar, write_tar_to};
use packfs_image::{Image, Part};

use super::open;
use crate::args::{ArchiveFormat, TarArgs};
use crate::output;
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::meter::ProgressMeter;
use crate::output::{say, target, units, warnings};
use crate::resources;

/// Number of bytes of the archive in flight: enough for any number of workers that one pipe or disk
/// can keep up with.
const IN_FLIGHT: u64 = 16 << 20;

/// Memory for reading the image while the archive is compressed.
const READING: u64 = 32 << 20;

pub(crate) fn run(args: &TarArgs) -> Result<CommandOutcome> {
    if args.format == ArchiveFormat::Pseudo && args.shard.is_some_and(|part| part != Part::WHOLE) {
        return Err(UsageError("--shard: a pseudo file cannot be written in parts".into()).into());
    }
    let target = args.output.as_deref().filter(|path| *path != Path::new("-"));
    if target.is_none() {
        output::require_pipe_or_file("an archive")?;
    }
    let how = match (args.compress, target) {
        (Some(given), _) => given,
        (None, Some(path)) => compression_of_name(path)?,
        (None, None) => None,
    };
    let (threads, memory) = divide_memory(args, how)?;
    let image = open::in_order(&args.image, memory)?;
    let image = AlteredImage::new(image.image(), args.alter.resolve()?);
    let select = args.select.resolve()?;
    let options = TarOptions::default().set(|all| {
        all.select = select;
        all.strip = args.strip_components;
        all.prefix = args.prefix.clone();
        all.threads = threads;
        all.memory = (memory / 2).min(IN_FLIGHT);
        all.strict = args.strict;
        all.hard_links = !args.no_hard_links;
        all.part = args.shard.unwrap_or_default();
        all.name = target.map_or_else(|| PathBuf::from(output::STDOUT), Path::to_owned);
    });
    let meter = ProgressMeter::start(args.talk.quiet);
    let written = write_archive(&image, args, target, how, &options, meter.progress());
    let spent = meter.finish();
    let summary = written.map_err(|error| name_image(error, args, &options.name))?;
    if !args.talk.quiet {
        warnings::print(&summary.warnings);
    }
    if !args.talk.quiet && target.is_some() {
        let entries = units::of(summary.entries, "entry");
        let bytes = units::bytes(summary.bytes);
        let speed = units::speed(summary.bytes, spent.time);
        say(format_args!("{}: {entries}, {bytes} in {} ({speed})", display(&options.name), units::span(spent.time)));
    }
    Ok(CommandOutcome::Done)
}

/// Returns the compression that the name of the archive means. A plain archive with the name of a compressed one would
/// only be noticed by the program that reads it.
fn compression_of_name(path: &Path) -> Result<Option<StreamCompression>, UsageError> {
    StreamCompression::of_name(path).map_err(|why| {
        UsageError(format!("-o {}: {why}; with --compress none, the archive is not compressed", display(path)))
    })
}

/// Returns the number of threads, and the memory for reading the image. Compression takes the rest of `--memory`, on as
/// many threads as fit; without the option, what all threads take, up to half of the machine's.
fn divide_memory(args: &TarArgs, how: Option<StreamCompression>) -> Result<(usize, u64)> {
    let threads = args.effort.threads();
    let Some(how) = how else { return Ok((threads, args.effort.memory())) };
    // A third more than compression needs, since a quarter of all is for reading.
    let least = how.memory(1) + (how.memory(1) / 3).min(READING);
    let all = args.effort.memory_or(|| (how.memory(threads) + READING).min(resources::memory_limit() / 2).max(least));
    let reading = (all / 4).min(READING);
    match how.threads_within(threads, all - reading) {
        Some(threads) => Ok((threads, reading)),
        None => {
            let all = Size(all);
            let least = least.div_ceil(1 << 20);
            let why =
                format!("--memory {all}: too little to compress with {how}: give {least}M or more, or a lower level");
            Err(UsageError(why).into())
        }
    }
}

/// Names the image in an error, unless the error concerns the archive.
fn name_image(error: anyhow::Error, args: &TarArgs, archive: &Path) -> anyhow::Error {
    match error.downcast_ref::<packfs_image::Error>() {
        Some(inner) if inner.path() != Some(archive) => error.context(open::name(&args.image.path)),
        _ => error,
    }
}

fn write_archive(
    image: &dyn Image,
    args: &TarArgs,
    path: Option<&Path>,
    how: Option<StreamCompression>,
    options: &TarOptions,
    progress: &Progress,
) -> Result<TarSummary> {
    let plain = match args.format {
        ArchiveFormat::Tar => write_tar,
        ArchiveFormat::Pseudo => write_pseudo,
    };
    let write = |out: &mut dyn Write| match how {
        None => plain(image, out, options, progress),
        Some(how) => compressed(how, out, &options.name, options.threads, |out| plain(image, out, options, progress)),
    };
    let Some(path) = path else {
        let cannot_write = packfs_image::Error::io("cannot write", output::STDOUT);
        return output::write_raw_result(cannot_write, |stdout| {
            let mut out = BufWriter::new(stdout);
            let summary = write(&mut out)?;
            out.flush().map_err(packfs_image::Error::io("cannot write", output::STDOUT))?;
            Ok(summary)
        });
    };
    let file = target::create_or_redirect(path, 0o666, args.force)?;
    let summary = match (how, args.format) {
        (None, ArchiveFormat::Tar) => write_tar_to(image, &file, options, progress)?,
        (None, ArchiveFormat::Pseudo) => write_pseudo_to(image, &file, options, progress)?,
        (Some(_), _) => write(&mut file.appender())?,
    };
    target::commit(file)?;
    Ok(summary)
}
