//! `packfs build`.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::Progress;
use packfs_image::name::encode;
use packfs_image::source::{self, SortFile, Store, data_order, dir};
use packfs_image::squashfs::{self, Summary};
use packfs_image::{Error, Plan, Tree};
use serde::Serialize;

use super::sources;
use crate::args::{Build, BuildPlan};
use crate::output::failure::Outcome;
use crate::output::meter::{Meter, Spent};
use crate::output::{json, say, units};

pub(super) fn run(args: Build) -> Result<Outcome> {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
    let plan = args.resolve(epoch.as_deref())?;
    let meter = Meter::start(plan.quiet);
    let mut notes = Notes::default();
    let built = squashfs::build(&plan.output, &options(&plan), meter.progress(), |store| {
        fill(&plan, store, meter.progress(), &mut notes)
    });
    let spent = meter.finish();
    let mut summary = built.with_context(|| match notes.reading {
        Some(source) => format!("building {} from {}", plan.output.display(), sources::name(source)),
        None => format!("building {}", plan.output.display()),
    })?;
    summary.left_out.splice(0..0, notes.left_out);
    for line in &notes.unknown {
        say(format_args!("packfs: {line}"));
    }
    for (_, why) in &summary.left_out {
        say(format_args!("packfs: left out: {why}"));
    }
    let report = Report::new(&plan, &summary, &spent);
    if plan.json {
        json::print("build", &report)?;
    } else if !plan.quiet {
        say(report);
    }
    Ok(if summary.left_out.is_empty() { Outcome::Done } else { Outcome::Findings })
}

/// What there is to tell when a build is over.
#[derive(Debug, Default)]
struct Notes<'p> {
    /// The source being read, to name it if that fails.
    reading: Option<&'p Path>,
    /// Entries that sources left out, and why.
    left_out: Vec<(String, String)>,
    /// Lines of the sort file that name nothing.
    unknown: Vec<String>,
}

fn options(plan: &BuildPlan) -> squashfs::Options {
    squashfs::Options {
        codec: plan.codec.clone(),
        block_size: plan.block_size,
        fragments: plan.fragments,
        dedup: plan.dedup,
        sparse: plan.sparse,
        verify: plan.verify,
        export: plan.export,
        plain_metadata: plan.plain_metadata,
        offset: plan.offset,
        time: plan.image_time,
        force: plan.force,
        on_error: plan.on_error.into(),
        threads: plan.threads,
        memory: plan.memory,
    }
}

/// Reads the sources into a tree and gives it the attributes and the order asked for.
fn fill<'p>(
    plan: &'p BuildPlan,
    store: &mut dyn Store,
    progress: &Arc<Progress>,
    notes: &mut Notes<'p>,
) -> packfs_image::Result<Plan> {
    let sort = plan.sort.as_deref().map(SortFile::read).transpose()?;
    let options = source::open::Options { scan: scan_options(plan, progress), time: plan.entry_time() };
    let mut tree = Tree::default();
    for argument in &plan.sources {
        notes.reading = Some(argument);
        let mut source = source::open(argument.as_os_str(), &options)?;
        source.scan(&mut tree, store)?;
        notes.left_out.extend(source.left_out().iter().map(|error| (place(error), error.to_string())));
    }
    notes.reading = None;
    plan.transform.apply(&mut tree);
    let order = data_order(&tree, sort.as_ref())?;
    notes.unknown = order.unknown;
    Ok(Plan { tree, order: order.files })
}

/// The entry an error is about.
fn place(error: &Error) -> String {
    match error {
        Error::Io { path, .. } | Error::Limit { path, .. } | Error::Changed { path, .. } => path.display().to_string(),
        _ => String::new(),
    }
}

fn scan_options(plan: &BuildPlan, progress: &Arc<Progress>) -> dir::Options {
    // An old image that is about to be replaced is not to be packed into the new one.
    let target = std::fs::metadata(&plan.output).ok().filter(|target| target.is_file());
    dir::Options {
        threads: plan.threads,
        one_file_system: plan.one_file_system,
        exclude: plan.exclude.clone(),
        xattrs: !plan.transform.drop_xattrs,
        on_error: plan.on_error.into(),
        leave_out: target.iter().map(|target| (target.dev(), target.ino())).collect(),
        progress: Some(Arc::clone(progress)),
    }
}

/// See `docs/guide/json.md`.
#[derive(Serialize)]
struct Report<'a> {
    image: String,
    format: &'static str,
    codec: String,
    block_size: u32,
    seconds: f64,
    bytes_per_second: u64,
    ratio: f64,
    peak_memory: u64,
    #[serde(flatten)]
    summary: &'a Summary,
}

impl<'a> Report<'a> {
    fn new(plan: &BuildPlan, summary: &'a Summary, spent: &Spent) -> Self {
        Report {
            image: encode(plan.output.as_os_str().as_bytes()).into_owned(),
            format: "squashfs",
            codec: plan.codec.to_string(),
            block_size: plan.block_size,
            seconds: spent.time.as_secs_f64(),
            bytes_per_second: units::per_second(summary.file_bytes, spent.time),
            ratio: units::ratio(summary.file_bytes, summary.padded_bytes),
            peak_memory: spent.peak_memory,
            summary,
        }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { data, .. } = self.summary;
        let size = units::bytes(self.summary.padded_bytes);
        writeln!(out, "image       {} ({size}, {})", self.image, self.codec)?;
        let files = units::bytes(self.summary.file_bytes);
        writeln!(out, "packed      {files} of files, {:.2} times smaller", self.ratio)?;
        let count = |n: u32| units::count(n.into());
        let (inodes, regular) = (count(self.summary.inodes), count(self.summary.files));
        writeln!(out, "entries     {inodes} ({regular} files, {} directories)", count(self.summary.directories))?;
        let (blocks, raw) = (units::count(data.blocks), units::count(data.raw_blocks));
        writeln!(out, "blocks      {blocks} ({raw} stored raw, {} of fragments)", count(self.summary.fragments))?;
        let (twice, holes) = (units::bytes(data.duplicate_bytes), units::bytes(data.hole_bytes));
        writeln!(out, "saved       {twice} of duplicates, {holes} of holes")?;
        let time = units::span(std::time::Duration::from_secs_f64(self.seconds));
        let (speed, memory) = (units::bytes(self.bytes_per_second), units::bytes(self.peak_memory));
        write!(out, "took        {time} ({speed}/s), {memory} of memory at most")
    }
}
