//! `packfs explore`.

use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result};
use packfs_blocks::Progress;
use packfs_image::diff::{DiffOptions, diff};
use packfs_image::name::display;
use packfs_image::stats::{MeasuredImage, Stats};
use packfs_serve::explorer::{BlockMaps, EmbeddedFiles, ImageModel, PageSource, page};

use super::open;
use crate::args::ExploreArgs;
use crate::output;
use crate::output::failure::CommandOutcome;
use crate::output::meter::ProgressMeter;
use crate::output::target;

pub(super) fn run(args: &ExploreArgs) -> Result<CommandOutcome> {
    let target = args.output.as_deref().filter(|path| *path != Path::new("-"));
    if target.is_none() {
        output::require_pipe_or_file("a page")?;
    }
    // An output that cannot be made fails before the work.
    let file = target.map(|path| target::create_or_redirect(path, target::READABLE, args.force)).transpose()?;
    let image = open::with_cache(&args.image, args.effort.memory() / 2)?;
    let stats = Stats::measure(&image).with_context(|| open::name(&args.image.path))?;
    let mut model = ImageModel::new(open::file_name(&args.image.path).as_bytes(), &image, &stats)?;
    if let Some(old) = &args.against {
        let meter = ProgressMeter::start(args.talk.quiet);
        let compared =
            add_comparison(&mut model, MeasuredImage { image: &image, stats: &stats }, old, args, meter.progress());
        meter.finish();
        compared?;
    }
    let files = EmbeddedFiles::read(&image, &stats, args.contents).with_context(|| open::name(&args.image.path))?;
    let pieces = BlockMaps::read(&image, &stats).with_context(|| open::name(&args.image.path))?;
    let content = PageSource::Whole { model: &model, files: &files, pieces: &pieces };
    match file {
        Some(file) => {
            let mut out = BufWriter::new(file.appender());
            let path = file.target().to_owned();
            let written = page(&mut out, &content).and_then(|()| Ok(out.flush()?));
            written.with_context(|| format!("{}: cannot write", display(&path)))?;
            drop(out);
            target::commit(file)?;
        }
        None => output::write_result(|out| Ok(page(out, &content)?))?,
    }
    Ok(CommandOutcome::Done)
}

/// Adds the differences from the older image to the model.
fn add_comparison(
    model: &mut ImageModel,
    newer: MeasuredImage<'_>,
    old: &Path,
    args: &ExploreArgs,
    progress: &Progress,
) -> Result<()> {
    let older = open::path(old, args.effort.memory() / 2, &args.image.remote)
        .with_context(|| format!("--against {}", open::name(old)))?;
    let options = DiffOptions::default().set(|all| all.threads = args.effort.threads());
    let mut differences = Vec::new();
    diff(older.image(), newer.image.image(), &options, progress, &mut |difference| differences.push(difference))?;
    let stats = Stats::measure(&older).with_context(|| open::name(old))?;
    model.compare(
        open::file_name(old).as_bytes(),
        MeasuredImage { image: &older, stats: &stats },
        newer,
        &differences,
    )?;
    Ok(())
}
