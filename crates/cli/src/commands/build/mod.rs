//! `packfs build`.

pub(super) mod composefs;
pub(super) mod delta_index;
pub(super) mod dry;
mod listed;
pub(super) mod report;
mod stdout;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::Progress;
use packfs_image::build::{AnyOptions, BuildSummary};
use packfs_image::erofs::{Feature, Kernel};
use packfs_image::name::display;
use packfs_image::request::{ListedFiles, RequestNotes};
use packfs_image::rules::Rules;
use packfs_image::source::{HotList, SortFile, Store};
use packfs_image::tree::FsConfig;
use packfs_image::{AnyImage, Error, OpenOptions, Plan};

use self::delta_index::PendingIndex;
use self::report::BuildReport;
pub(super) use self::report::OversizedLine;
use super::seal::PendingSeal;
use super::{open, remote, sources};
use crate::args::{BuildArgs, BuildPlan, FsConfigFrom, ListPaths, RulesFrom, name_option, read};
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::meter::ProgressMeter;
use crate::output::{self, json, say, target, warnings};

pub(super) fn run(mut args: BuildArgs) -> Result<CommandOutcome> {
    // Before options are resolved: those that are left open become the old image's.
    if let Some(old) = args.appended() {
        let image = open_old_image(old).with_context(|| format!("--append {}", display(old)))?;
        args.be_like(&image);
    }
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let mut plan = args.resolve(epoch.as_deref())?;
    plan.request.sources.iter().try_for_each(|source| sources::refuse_mistaken(source))?;
    refuse_to_lose_data(&plan)?;
    complete_request(&mut plan)?;
    // Before the output is looked at: what is in its way is a line of the report.
    if plan.dry_run {
        return dry::run(plan);
    }
    if let Some(algorithm) = plan.composefs {
        target::refuse_stream(&plan.output)?;
        return composefs::run(&mut plan, algorithm);
    }
    if plan.writes_to_stdout() {
        output::require_pipe_or_file("an image")?;
    } else {
        target::refuse_stream(&plan.output)?;
    }
    let force = plan.request.target.common().force;
    // Before the build, which may take hours: unreadable keys, and names that are taken, end it now.
    let seal = plan.seal.as_ref().map(|seal| PendingSeal::prepare(&plan.output, seal, force)).transpose()?;
    let prepare_index = |index| PendingIndex::prepare(&plan.output, index, force);
    let delta_index = plan.delta_index.as_ref().map(prepare_index).transpose()?;
    let meter = if plan.percentage { ProgressMeter::percentage() } else { ProgressMeter::start(plan.quiet) };
    let progress = Arc::clone(meter.progress());
    let mut notes = RequestNotes::default();
    let built = write_image(&plan, &progress, &mut notes);
    let threads = plan.request.target.common().threads;
    // Dropped without an image, which leaves none of their files.
    let seal = seal.filter(|_| built.is_ok());
    let delta_index = delta_index.filter(|_| built.is_ok());
    let sealed = seal.map(|seal| seal.complete(&plan.output, threads, &progress));
    let indexed = delta_index.map(|index| index.complete(&plan.output, threads, &progress));
    let spent = meter.finish();
    let mut summary = built.map_err(|error| {
        let output = display(&plan.output);
        let doing = match (reused_image(&plan, &error), &notes.reading) {
            (Some(image), _) => format!("--reuse {}", display(image)),
            (None, Some(source)) => format!("building {output} from {}", sources::name(source)),
            (None, None) => format!("building {output}"),
        };
        match &error {
            Error::InvalidOption { .. } => anyhow::Error::new(name_option(&error)).context(doing),
            _ => anyhow::Error::new(error).context(doing),
        }
    })?;
    let root_hash = sealed.transpose()?;
    indexed.transpose()?;
    notes.add_to(&mut summary);
    if !plan.quiet {
        warnings::print(&summary.warnings);
    }
    for (_, why) in &summary.left_out {
        say(format_args!("packfs: left out: {why}"));
    }
    let mut report = BuildReport::new(&plan, &summary, &spent, &progress.stages);
    report.root_hash = root_hash.map(|root_hash| root_hash.to_string());
    if plan.json {
        json::print(&report)?;
    } else if !plan.quiet {
        say(report);
    }
    Ok(if summary.left_out.is_empty() { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// Fails if the image would replace a source in which its data stays, or be written to a device that is still read.
fn refuse_to_lose_data(plan: &BuildPlan) -> Result<(), UsageError> {
    let old = plan.request.append.iter().map(|append| &append.image);
    if let Some(device) = plan.request.sources.iter().chain(old).find(|read| target::is_device_of(&plan.output, read)) {
        let name = display(device);
        return Err(UsageError(format!("{name} is read during the build: write the image to another device or file")));
    }
    let output = plan.output.canonicalize().ok().filter(|_| plan.request.refers_to_sources());
    let is_output = |source: &&PathBuf| output.is_some() && source.canonicalize().ok() == output;
    match plan.request.sources.iter().find(is_output) {
        Some(source) => Err(UsageError(format!(
            "--refer leaves the data in {}, and the image would replace it: give another file with -o",
            display(source)
        ))),
        None => Ok(()),
    }
}

/// Opens the image in a file.
fn open_old_image(path: &Path) -> Result<AnyImage> {
    let bytes = Arc::new(open::file(path, 0)?);
    Ok(AnyImage::open(bytes, OpenOptions::default().set(|all| all.name = path.to_owned()))?)
}

/// Returns the older image of `--reuse`, if the error is about it or its index.
fn reused_image<'p>(plan: &'p BuildPlan, error: &Error) -> Option<&'p Path> {
    let reuse = plan.request.target.common().reuse.as_ref()?;
    let path = error.path()?;
    (path == reuse.image || path == reuse.index).then_some(&*reuse.image)
}

/// Completes the request of a plan with all that is not on the command line: the contents of files that options name,
/// codecs and cluster sizes that rules give to files, and the ways of this program to open and to keep data.
pub(super) fn complete_request(plan: &mut BuildPlan) -> Result<()> {
    listed::check_target(plan)?;
    let ListPaths { paths, sort, hot, fs_config, .. } = &plan.lists;
    let request = &mut plan.request;
    if let Some(path) = sort {
        let parsed = SortFile::parse(path, &read("--sort", path)?);
        request.sort = Some(parsed.with_context(|| format!("--sort {}", display(path)))?);
    }
    if let Some(path) = hot {
        request.hot = Some(HotList::new(path, read("--hot", path)?));
    }
    if let Some(from) = paths {
        let paths = read("--files-from", &from.file)?;
        request.listed_files = Some(ListedFiles { paths, separator: from.separator });
    }
    if let Some(FsConfigFrom { file, mount_point }) = fs_config {
        let text = read("--fs-config", file)?;
        request.fs_config = Some(FsConfig::parse(file, &text, mount_point.as_os_str().as_bytes())?);
    }
    request.elsewhere = remote::elsewhere(&plan.remote);
    request.temporary_dir = sources::temporary_directory();
    if plan.writes_to_stdout() {
        // An image that is redirected into a source must not contain itself.
        plan.request.scan.leave_out.extend(stdout::own_file());
    }
    plan.request.scan.leave_out.extend(listed::replaced_file(plan));
    let rules = read_rules(plan)?;
    use_recipes(plan, &rules)?;
    plan.request.rules = rules;
    Ok(())
}

/// Reads the rules for single entries.
fn read_rules(plan: &BuildPlan) -> Result<Rules> {
    let RulesFrom { files, lines } = &plan.lists.rules;
    let mut texts = Vec::new();
    for file in files {
        texts.push((file.as_path(), read("--rules", file)?));
    }
    // Of two rules the later one wins, so those of the command line win over those of files.
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    texts.push((Path::new("--rule"), lines.join(&b'\n')));
    let rules = Rules::parse(texts.iter().map(|(name, text)| (*name, text.as_slice())))?;
    if rules.handle_data() && plan.request.target.common().shards.is_some() {
        let why = "rules that decide how data is stored cannot be used with shards";
        return Err(UsageError(why.into()).into());
    }
    Ok(rules)
}

/// Makes the codecs and cluster sizes of rules options of the image; fails if it cannot have them.
fn use_recipes(plan: &mut BuildPlan, rules: &Rules) -> Result<(), UsageError> {
    if rules.recipes().is_empty() {
        return Ok(());
    }
    let refuse = |why: String| Err(UsageError(format!("rules with codec or cluster: {why}")));
    let AnyOptions::Erofs(options) = &mut plan.request.target else {
        let why = "a SquashFS image has one codec with one level for all files; `store` leaves files uncompressed";
        return refuse(why.into());
    };
    options.build.recipes = rules.recipes().clone();
    if let Err(error) = options.check_target() {
        let needed = Kernel::needed(&Feature::needed_by(options));
        return refuse(format!("{error}; give --target-kernel {needed}, or do without"));
    }
    options.check_clusters().or_else(|error| refuse(error.to_string()))
}

/// Makes the image.
fn write_image(
    plan: &BuildPlan,
    progress: &Arc<Progress>,
    notes: &mut RequestNotes,
) -> packfs_image::Result<BuildSummary> {
    let fill = |store: &mut dyn Store| fill_tree(plan, store, progress, notes);
    let target = &plan.request.target;
    if plan.writes_to_stdout() {
        return stdout::write_image(target, progress, fill);
    }
    target.build(&plan.output, progress, fill)
}

/// Reads the sources into a tree with all that is requested, and lists its paths if that is asked for.
pub(super) fn fill_tree(
    plan: &BuildPlan,
    store: &mut dyn Store,
    progress: &Arc<Progress>,
    notes: &mut RequestNotes,
) -> packfs_image::Result<Plan> {
    let filled = plan.request.fill(plan.output_file(), store, progress, notes)?;
    if let Some(file) = &plan.list {
        listed::write_paths(&filled.tree, file, plan.request.target.common().force)?;
    }
    Ok(filled)
}

/// Returns the entry that an error concerns.
fn entry_path(error: &Error) -> String {
    error.path().map_or_else(String::new, |path| display(path).to_string())
}
