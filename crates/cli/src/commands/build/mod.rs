//! `packfs build`.

mod dry;
mod listed;
mod merged;
mod report;
mod stdout;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::Progress;
use packfs_blocks::io::FileAt;
use packfs_image::build::{AnyOptions, Order, Summary};
use packfs_image::erofs::{Feature, Kernel};
use packfs_image::name::display;
use packfs_image::rules::{Matches, Rules};
use packfs_image::source::{self, HotList, PackList, PathList, SortFile, Source, Store, data_order, dir};
use packfs_image::tree::{FsConfig, Meta, ROOT, TimeChange, XattrId};
use packfs_image::{AnyImage, Error, OpenOptions, Plan, Tree, Warning, WarningKind, Warnings};

pub(super) use self::merged::merged;
use self::report::Report;
use super::remote;
use super::sources::{self, Copies};
use crate::args::{Build, BuildPlan, RulesFrom, read};
use crate::output::failure::{Outcome, Usage};
use crate::output::meter::Meter;
use crate::output::{self, json, say, target, warnings};

pub(super) fn run(mut args: Build) -> Result<Outcome> {
    if let Some(old) = args.appended() {
        let image = opened(old).with_context(|| format!("--append {}", display(old)))?;
        args.be_like(&image)?;
    }
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let mut plan = args.resolve(epoch.as_deref())?;
    plan.sources.iter().try_for_each(|source| sources::refuse_mistaken(source))?;
    refuse_to_lose_data(&plan)?;
    let lists = Lists::read(&mut plan)?;
    if plan.dry_run {
        return dry::run(plan, lists);
    }
    if stdout::is_meant(&plan) {
        output::require_pipe_or_file("an image")?;
    } else {
        target::refuse_stream(&plan.output)?;
    }
    let meter = if plan.percentage { Meter::percentage() } else { Meter::start(plan.quiet) };
    let progress = Arc::clone(meter.progress());
    let mut notes = Notes::default();
    let built = write(&plan, lists, &progress, &mut notes);
    let spent = meter.finish();
    let mut summary = built.map_err(|error| {
        let output = display(&plan.output);
        let doing = match (older(&plan, &error), notes.reading) {
            (Some(image), _) => format!("--reuse {}", display(image)),
            (None, Some(source)) => format!("building {output} from {}", sources::name(source)),
            (None, None) => format!("building {output}"),
        };
        anyhow::Error::new(error).context(doing)
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

/// Fails if the image would replace a source in which its data stays.
fn refuse_to_lose_data(plan: &BuildPlan) -> Result<(), Usage> {
    let output = plan.output.canonicalize().ok().filter(|_| refers(plan));
    let is_output = |source: &&PathBuf| output.is_some() && source.canonicalize().ok() == output;
    match plan.sources.iter().find(is_output) {
        Some(source) => Err(Usage(format!(
            "--refer leaves the data in {}, and the image would replace it: give another file with -o",
            display(source)
        ))),
        None => Ok(()),
    }
}

/// Returns true if data stays in the sources.
fn refers(plan: &BuildPlan) -> bool {
    matches!(&plan.target, AnyOptions::Erofs(options) if options.refer > 0)
}

/// Opens the image in a file.
fn opened(path: &Path) -> packfs_image::Result<AnyImage> {
    let bytes = FileAt::open(path, 0).map_err(Error::io("cannot open", path))?;
    AnyImage::open(Arc::new(bytes), OpenOptions::default().set(|all| all.name = path.to_owned()))
}

/// Returns the older image of `--reuse`, if the error is about it or its index.
fn older<'p>(plan: &'p BuildPlan, error: &Error) -> Option<&'p Path> {
    let reuse = plan.target.common().reuse.as_ref()?;
    let path = error.path()?;
    (path == reuse.image || path == reuse.index).then_some(&*reuse.image)
}

/// The files that options name, read before the work begins.
#[derive(Debug)]
pub(super) struct Lists {
    sort: Option<SortFile>,
    hot: Option<HotList>,
    /// The text of `--files-from`.
    paths: Option<Vec<u8>>,
    rules: Rules,
    /// Parts of a scan that take the place of the sources.
    pub(super) parts: Option<Arc<dir::Parts>>,
}

impl Lists {
    /// Reads the files; codecs and cluster sizes that rules give to files become part of the plan.
    pub(super) fn read(plan: &mut BuildPlan) -> Result<Self> {
        let (sort, hot) = (plan.sort.as_deref(), plan.hot.as_deref());
        let sort = sort.map(|path| SortFile::read(path).with_context(|| format!("--sort {}", display(path))));
        let hot = hot.map(|path| HotList::read(path).with_context(|| format!("--hot {}", display(path))));
        let paths = plan.files.as_ref().map(|files| read("--files-from", &files.file)).transpose()?;
        let rules = rules(plan)?;
        take_recipes(plan, &rules)?;
        Ok(Lists { sort: sort.transpose()?, hot: hot.transpose()?, paths, rules, parts: None })
    }
}

/// Reads the rules for single entries.
fn rules(plan: &BuildPlan) -> Result<Rules> {
    let RulesFrom { files, lines } = &plan.rules;
    let mut texts = Vec::new();
    for file in files {
        texts.push((file.as_path(), read("--rules", file)?));
    }
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    texts.push((Path::new("--rule"), lines.join(&b'\n')));
    let rules = Rules::parse(texts.iter().map(|(name, text)| (*name, text.as_slice())))?;
    if rules.handle_data() && plan.target.common().shards.is_some() {
        let why = "rules that decide how data is stored cannot be used with shards";
        return Err(Usage(why.into()).into());
    }
    Ok(rules)
}

/// Makes the codecs and cluster sizes of rules options of the image; fails if it cannot have them.
fn take_recipes(plan: &mut BuildPlan, rules: &Rules) -> Result<(), Usage> {
    if rules.recipes().is_empty() {
        return Ok(());
    }
    let refuse = |why: String| Err(Usage(format!("rules with codec or cluster: {why}")));
    let AnyOptions::Erofs(options) = &mut plan.target else {
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

/// Messages for the end of a build.
#[derive(Debug, Default)]
pub(super) struct Notes<'p> {
    /// The source being read, for error messages.
    reading: Option<&'p Path>,
    /// Entries that sources left out, with the reasons.
    left_out: Vec<(String, String)>,
    /// Number of entries that each rule matched.
    matches: Vec<Matches>,
}

/// Makes the image.
fn write<'p>(
    plan: &'p BuildPlan,
    lists: Lists,
    progress: &Arc<Progress>,
    notes: &mut Notes<'p>,
) -> packfs_image::Result<Summary> {
    let fill = |store: &mut dyn Store| fill(plan, lists, store, progress, notes);
    if stdout::is_meant(plan) {
        return stdout::write(&plan.target, progress, fill);
    }
    plan.target.build(&plan.output, progress, fill)
}

/// Reads the sources into a tree, then applies the requested attributes and order.
pub(super) fn fill<'p>(
    plan: &'p BuildPlan,
    lists: Lists,
    store: &mut dyn Store,
    progress: &Arc<Progress>,
    notes: &mut Notes<'p>,
) -> packfs_image::Result<Plan> {
    let Lists { sort, hot, paths, rules, parts } = lists;
    let is_scanned_elsewhere = parts.is_some();
    let options = source::open::Options::default().set(|all| {
        (all.scan, all.time) = (scan_options(plan, progress), plan.entry_time());
        all.scan.parts = parts;
        all.scan.leave_out.extend(stdout::own_file().filter(|_| stdout::is_meant(plan)));
        all.refer = refers(plan);
        all.elsewhere = remote::elsewhere(&plan.remote);
    });
    let mut tree = Tree::default();
    tree.warnings = Warnings::new(plan.strict);
    if let Some(implied) = plan.implied {
        tree.implied = Some(implied);
        tree.set_meta(ROOT, implied);
    }
    let mut copies = Copies::default();
    // Data stored while it is listed gets its position then, but an order and cuts require knowing all of it.
    let common = plan.target.common();
    let later = common.order.is_some_and(|order| order != Order::Path) || common.shards.is_some();
    // Of a stream with another root, only a part is packed.
    let later = later || plan.subdir.is_some() || sort.is_some() || hot.is_some() || rules.need_data();
    let store = if plan.spool || later { &mut copies } else { store };
    for argument in &plan.sources {
        notes.reading = Some(argument);
        if plan.layers {
            tree.begin_layer();
        }
        let mut source = source::open(argument.as_os_str(), &options)?;
        source.scan(&mut tree, store)?;
        notes.left_out.extend(source.left_out().iter().map(|error| (place(error), error.to_string())));
    }
    notes.reading = None;
    if let (Some(paths), Some(files)) = (paths, &plan.files) {
        let mut list = PathList::new(paths, files.separator, options.scan.clone());
        list.scan(&mut tree, store)?;
        notes.left_out.extend(list.left_out().iter().map(|error| (place(error), error.to_string())));
    }
    if let Some(dir) = &plan.subdir {
        reroot(&mut tree, dir, plan.retarget)?;
    }
    if !plan.add.is_empty() {
        let lines: Vec<&[u8]> = plan.add.iter().map(|line| line.as_bytes()).collect();
        // These lines mean paths in the image.
        let scan = options.scan.clone().set(|all| all.exclude = plan.exclude.clone().without_root());
        let mut list = PackList::from_bytes("--add", lines.join(&b'\n'), scan, options.time);
        list.scan(&mut tree, store)?;
        notes.left_out.extend(list.left_out().iter().map(|error| (place(error), error.to_string())));
    }
    copies.serve(&mut tree)?;
    let mut transform = plan.transform.clone();
    if std::mem::take(&mut transform.drop_xattrs) {
        // Before whiteouts: the attributes they get are wanted.
        tree.inos().for_each(|ino| tree.set_xattrs(ino, XattrId::NONE));
    }
    plan.whiteouts.apply(&mut tree)?;
    if let Some((file, mount_point)) = &plan.fs_config {
        let text = std::fs::read(file).map_err(Error::io("cannot read", file))?;
        let config = FsConfig::parse(file, &text, mount_point.as_os_str().as_bytes())?;
        config.apply(&mut tree, !plan.transform.drop_xattrs)?;
    }
    if !plan.hard_links {
        tree.separate_hard_links()?;
    }
    // Rules see what the sources have, and win over options for all entries.
    let selected = rules.select(&mut tree)?;
    transform.apply(&mut tree)?;
    if plan.clips_times() {
        clip_times(&mut tree);
    }
    let ranks = selected.apply(&mut tree)?;
    notes.matches = selected.matches().to_vec();
    if let Some((old, below)) = &plan.append {
        notes.reading = Some(old);
        let first_old = tree.len();
        source::open::whole_image(old)?.append_to(&mut tree, below.as_ref().map(|name| name.as_bytes()))?;
        plan.transform.shift_owners_from(&mut tree, first_old)?;
        notes.reading = None;
    }
    warn_of_output(plan, &mut tree.warnings)?;
    if let Some(patterns) = plan.exclude.without_match().filter(|_| !is_scanned_elsewhere) {
        let first = patterns.lines().next().unwrap_or_default();
        tree.warnings.add(Warning::new(WarningKind::ExcludeMatchesNothing, "--exclude").with_detail(first))?;
    }
    if let Some(image) = loses_fractions(plan, &tree) {
        tree.warnings.add(Warning::new(WarningKind::FractionsOfSeconds, image))?;
    }
    let mut order = sort.map(|sort| data_order(&mut tree, &sort)).transpose()?.unwrap_or_default();
    order.extend(ranks);
    hot.map_or(Ok(()), |hot| hot.mark(&mut tree))?;
    if let Some(file) = &plan.list {
        listed::write(&tree, file)?;
    }
    Ok(Plan { tree, order })
}

/// Makes a directory of the sources the root.
fn reroot(tree: &mut Tree, dir: &Path, retarget: bool) -> packfs_image::Result<()> {
    let path = dir.as_os_str().as_bytes();
    let wrong = |why| Error::option("--subdir", display(dir), why);
    tree.make_root(path).map_err(|error| match error {
        Error::NotFound { .. } => wrong("no source has this directory"),
        Error::WrongType { .. } => wrong("not a directory of the sources"),
        other => other,
    })?;
    if retarget {
        tree.retarget(path)?;
    }
    Ok(())
}

/// Moves times outside of what SquashFS holds to its ends.
fn clip_times(tree: &mut Tree) {
    for ino in tree.inos() {
        let meta = tree.meta(ino);
        let mtime = meta.mtime.clipped();
        if mtime != meta.mtime {
            tree.set_meta(ino, Meta { mtime, ..meta });
        }
    }
}

/// Adds a warning for each source in which the output lies.
fn warn_of_output(plan: &BuildPlan, warnings: &mut Warnings) -> packfs_image::Result<()> {
    for source in plan.sources.iter().filter(|_| !stdout::is_meant(plan)) {
        if let Some(path) = output_below(source, &plan.output)
            && !plan.exclude.covers(path.as_os_str().as_bytes(), false)
        {
            warnings.add(Warning::new(WarningKind::OutputInSource, path))?;
        }
    }
    Ok(())
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

/// Returns options for scanning the sources.
pub(super) fn scan_options(plan: &BuildPlan, progress: &Arc<Progress>) -> dir::Options {
    dir::Options::default().set(|all| {
        (all.threads, all.on_error) = (plan.threads, plan.on_error);
        (all.one_file_system, all.no_mount_points) = (plan.one_file_system, plan.no_mount_points);
        all.keep_existing = plan.keep_existing;
        (all.exclude, all.xattrs) = (plan.exclude.clone(), !plan.transform.drop_xattrs);
        all.progress = Some(Arc::clone(progress));
    })
}
