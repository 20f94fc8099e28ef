//! `packfs build`.

mod dry;
mod report;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use packfs_blocks::Progress;
use packfs_dump::set::is_part;
use packfs_image::build::{AnyOptions, Order, Summary};
use packfs_image::name::display;
use packfs_image::source::{self, HotList, PackList, SortFile, Source, Store, data_order, dir};
use packfs_image::tree::TimeChange;
use packfs_image::{Error, Plan, Tree, Warning, WarningKind, Warnings};

use self::report::Report;
use super::sources::{self, Copies};
use crate::args::{Build, BuildPlan};
use crate::output::failure::Outcome;
use crate::output::meter::Meter;
use crate::output::{json, say, warnings};

pub(super) fn run(args: Build) -> Result<Outcome> {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let plan = args.resolve(epoch.as_deref())?;
    plan.sources.iter().try_for_each(|source| refuse_mistaken(source))?;
    if plan.dry_run {
        return dry::run(plan);
    }
    let meter = if plan.percentage { Meter::percentage() } else { Meter::start(plan.quiet) };
    let progress = Arc::clone(meter.progress());
    let mut notes = Notes::default();
    let built = write(&plan, &progress, &mut notes);
    let spent = meter.finish();
    let mut summary = built.with_context(|| match notes.reading {
        Some(source) => format!("building {} from {}", display(&plan.output), sources::name(source)),
        None => format!("building {}", display(&plan.output)),
    })?;
    summary.left_out.splice(0..0, notes.left_out);
    if !plan.quiet {
        warnings::print(&summary.warnings);
    }
    for (_, why) in &summary.left_out {
        say(format_args!("packfs: left out: {why}"));
    }
    let report = Report::new(&plan, &summary, &spent, &progress.stages);
    if plan.json {
        json::print("build", &report)?;
    } else if !plan.quiet {
        say(report);
    }
    Ok(if summary.left_out.is_empty() { Outcome::Done } else { Outcome::Findings })
}

/// Refuses sources that are hardly meant as they would be read: a part of a dump as a plain file, and an entry whose
/// name begins with `@` as a pack list.
fn refuse_mistaken(source: &Path) -> Result<()> {
    let name = display(source);
    if is_part(source) {
        bail!("{name}: a part of a dump: packfs join puts the dump together (`file:{name}` packs the part as it is)");
    }
    let list = source.as_os_str().as_bytes().strip_prefix(b"@").map(OsStr::from_bytes).map(Path::new);
    if let Some(list) = list.filter(|list| !list.exists()) {
        let list = display(list);
        bail!("{list}: no such pack list (`@` means a pack list; write `./{name}` for an entry named {name})");
    }
    Ok(())
}

/// Messages for the end of a build.
#[derive(Debug, Default)]
struct Notes<'p> {
    /// The source being read, for error messages.
    reading: Option<&'p Path>,
    /// Entries that sources left out, with the reasons.
    left_out: Vec<(String, String)>,
}

/// Makes the image.
fn write<'p>(plan: &'p BuildPlan, progress: &Arc<Progress>, notes: &mut Notes<'p>) -> packfs_image::Result<Summary> {
    let fill = |store: &mut dyn Store| fill(plan, store, progress, notes);
    plan.target.build(&plan.output, progress, fill)
}

/// Reads the sources into a tree, then applies the requested attributes and order.
fn fill<'p>(
    plan: &'p BuildPlan,
    store: &mut dyn Store,
    progress: &Arc<Progress>,
    notes: &mut Notes<'p>,
) -> packfs_image::Result<Plan> {
    let sort = plan.sort.as_deref().map(SortFile::read).transpose()?;
    let hot = plan.hot.as_deref().map(HotList::read).transpose()?;
    let options = source::open::Options::default().set(|all| {
        (all.scan, all.time) = (scan_options(plan, progress), plan.entry_time());
    });
    let mut tree = Tree::default();
    tree.warnings = Warnings::new(plan.strict);
    let mut copies = Copies::default();
    // Data stored while it is listed gets its position then, but an order requires knowing all of it.
    let ordered = plan.target.common().order.is_some_and(|order| order != Order::Path);
    let store = if plan.spool || ordered || sort.is_some() || hot.is_some() { &mut copies } else { store };
    for argument in &plan.sources {
        notes.reading = Some(argument);
        let mut source = source::open(argument.as_os_str(), &options)?;
        source.scan(&mut tree, store)?;
        notes.left_out.extend(source.left_out().iter().map(|error| (place(error), error.to_string())));
    }
    notes.reading = None;
    if !plan.add.is_empty() {
        let lines: Vec<&[u8]> = plan.add.iter().map(|line| line.as_bytes()).collect();
        let mut list = PackList::from_bytes("--add", lines.join(&b'\n'), options.scan.clone(), options.time);
        list.scan(&mut tree, store)?;
        notes.left_out.extend(list.left_out().iter().map(|error| (place(error), error.to_string())));
    }
    copies.serve(&mut tree);
    plan.transform.apply(&mut tree);
    for source in &plan.sources {
        if let Some(path) = output_below(source, &plan.output)
            && !plan.exclude.covers(path.as_os_str().as_bytes(), false)
        {
            tree.warnings.add(Warning::new(WarningKind::OutputInSource, path))?;
        }
    }
    if let Some(image) = loses_fractions(plan, &tree) {
        tree.warnings.add(Warning::new(WarningKind::FractionsOfSeconds, image))?;
    }
    let order = sort.map(|sort| data_order(&mut tree, &sort)).transpose()?.unwrap_or_default();
    hot.map_or(Ok(()), |hot| hot.mark(&mut tree))?;
    Ok(Plan { tree, order })
}

/// Returns the path of the output below a source directory, if it lies there.
fn output_below(source: &Path, output: &Path) -> Option<PathBuf> {
    let parent = output.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = parent.canonicalize().ok()?;
    Some(parent.strip_prefix(source.canonicalize().ok()?).ok()?.join(output.file_name()?))
}

/// Returns the first image whose fractions of seconds get lost in the conversion. Other sources are
/// not expected to convert without loss.
fn loses_fractions<'p>(plan: &'p BuildPlan, tree: &Tree) -> Option<&'p Path> {
    let loses = matches!(plan.target, AnyOptions::Squashfs(_))
        && !matches!(plan.transform.time, TimeChange::Set(_))
        && tree.has_fractions_of_seconds();
    plan.sources.iter().map(PathBuf::as_path).find(|source| loses && sources::is_image(source))
}

/// Returns the entry that an error concerns.
fn place(error: &Error) -> String {
    error.path().map_or_else(String::new, |path| display(path).to_string())
}

fn scan_options(plan: &BuildPlan, progress: &Arc<Progress>) -> dir::Options {
    dir::Options::default().set(|all| {
        (all.threads, all.one_file_system, all.on_error) = (plan.threads, plan.one_file_system, plan.on_error);
        (all.exclude, all.xattrs) = (plan.exclude.clone(), !plan.transform.drop_xattrs);
        all.progress = Some(Arc::clone(progress));
    })
}
