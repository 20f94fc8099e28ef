//! The parts of a dump in commands that also take an image: `info`, `check` and `cat`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use packfs_bench::report::shell_word;
use packfs_dump::set::{FindingHarm, LostRange, PartStatus, SetFinding, SetInfo, SetOptions, is_part};
use packfs_dump::{Error, Set};
use packfs_image::name::display;
use serde::Serialize;

use super::sources;
use crate::args::{CheckArgs, ImageArg, as_size, value};
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::findings::Findings;
use crate::output::json::JsonDocument;
use crate::output::meter::ProgressMeter;
use crate::output::{self, json, say, units};

/// Returns the parts named on the command line; `None` if it names an image.
pub(super) fn named(image: &ImageArg, rest: &[PathBuf]) -> Result<Option<Vec<PathBuf>>> {
    match (of_dump(image, rest)?, rest) {
        (None, [more, ..]) => {
            Err(UsageError(format!("{}: one image at a time; only a dump has parts", display(more))).into())
        }
        (named, _) => Ok(named),
    }
}

/// As [`named`], if other arguments may follow an image.
pub(super) fn of_dump(image: &ImageArg, rest: &[PathBuf]) -> Result<Option<Vec<PathBuf>>> {
    let all: Vec<PathBuf> = std::iter::once(&image.path).chain(rest).cloned().collect();
    if !all.iter().any(|path| is_part(path)) {
        return Ok(None);
    }
    if let Some(other) = all.iter().find(|path| sources::is_image(path)) {
        return Err(UsageError(format!(
            "{} is an image, and others are parts of a dump; name one or the other",
            display(other)
        ))
        .into());
    }
    if image.offset != 0 || !image.device.is_empty() {
        return Err(UsageError("--offset and --device are for images, not for the parts of a dump".into()).into());
    }
    Ok(Some(all))
}

/// Opens the parts of a dump.
pub(super) fn open<P: AsRef<Path>>(paths: &[P], cache_bytes: u64) -> Result<Set> {
    if let Some(dir) = paths.iter().map(AsRef::as_ref).find(|path| path.is_dir()) {
        return Err(anyhow!("{}: a directory, not a part of a dump: name the parts in it", display(dir)));
    }
    if let Some(image) = paths.iter().map(AsRef::as_ref).find(|path| sources::is_image(path)) {
        let why = "an image, not a part of a dump: packfs extract takes files out of it, packfs list shows them";
        return Err(anyhow!("{}: {why}", display(image)));
    }
    let opened = Set::open(paths, &SetOptions::default().set(|all| all.cache_bytes = cache_bytes));
    opened.map_err(|error| match &error {
        Error::Corrupt { path, .. } if !is_part(path) => {
            anyhow!("{}: not a part of a dump; name the parts that packfs split wrote", display(path))
        }
        _ => error.into(),
    })
}

/// Warns of missing parts of a dump. Without the warning, its reader may notice them much later.
#[cfg(any(feature = "mount", feature = "serve"))]
pub(super) fn warn(set: &Set) {
    if let Some(missing) = set.warning() {
        say(format_args!("packfs: warning: {missing}"));
    }
}

pub(super) fn check(args: &CheckArgs, paths: &[PathBuf]) -> Result<CommandOutcome> {
    if !args.against.is_empty() {
        return Err(UsageError("--against is for images, not for the parts of a dump".into()).into());
    }
    let set = open(paths, args.effort.memory() / 2)?;
    let meter = ProgressMeter::start(args.talk.quiet);
    let mut findings = Findings::new();
    let checked =
        set.check(args.effort.threads(), meter.progress(), &mut |finding| findings.add(DumpFinding::new(&finding)));
    let spent = meter.finish();
    let checked = checked.context("checking the parts")?;
    let sound = findings.count == 0 && checked.lost.is_empty();
    if args.json {
        let parts = set.paths().map(json::encode_path).collect();
        json::print(&DumpCheck { parts, sound, findings: &findings, lost: &checked.lost })?;
    } else {
        findings.print(|found| found.line.clone())?;
        if !args.talk.quiet {
            checked.lost.iter().for_each(|lost| say(format_args!("packfs: lost: {lost}")));
            let verdict = match (sound, checked.lost.is_empty()) {
                (true, _) => "sound".into(),
                (false, true) => format!("{}, all of the dump can be read", units::of(findings.count, "finding")),
                (false, false) => format!("{}, some of the dump is lost", units::of(findings.count, "finding")),
            };
            let segments = units::of(checked.segments, "segment");
            let span = units::span(spent.time);
            say(format_args!("{}: {verdict} ({segments} in {span})", units::of(paths.len() as u64, "part")));
        }
    }
    Ok(if sound { CommandOutcome::Done } else { CommandOutcome::Findings })
}

/// Result of checking the parts of a dump.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DumpCheck<'a> {
    /// Paths of the parts.
    parts: Vec<String>,
    /// True if there are no findings and nothing is lost.
    sound: bool,
    /// Defects of the parts.
    findings: &'a Findings<DumpFinding>,
    /// Ranges of the dump that cannot be restored.
    lost: &'a [LostRange],
}

impl JsonDocument for DumpCheck<'_> {
    const KIND: &'static str = "check";
}

/// A defect of a dump.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DumpFinding {
    /// Path of the affected part; null if the defect does not concern a single part.
    part: Option<String>,
    /// Byte offset in the part; null if the defect has no place in a single part.
    offset: Option<u64>,
    /// Description of the defect.
    what: String,
    /// Effect on the dump.
    harm: FindingHarm,
    #[serde(skip)]
    line: String,
}

impl DumpFinding {
    fn new(finding: &SetFinding) -> Self {
        DumpFinding {
            part: finding.part.as_deref().map(json::encode_path),
            offset: finding.offset,
            what: finding.what.clone(),
            harm: finding.harm.clone(),
            line: finding.to_string(),
        }
    }
}

pub(super) fn info(paths: &[PathBuf], as_json: bool) -> Result<CommandOutcome> {
    // Without a cache: no data of the dump is read.
    let about = DumpInfo::new(&open(paths, 0)?.info());
    if as_json {
        json::print(&about)?;
    } else {
        output::write_result(|out| Ok(about.print(out)?))?;
    }
    Ok(CommandOutcome::Done)
}

/// Facts about the parts of a dump.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DumpInfo {
    /// `packfs dump 1`.
    format: &'static str,
    /// Name of the set, 32 hexadecimal digits.
    set: String,
    /// The codec with all its options.
    codec: String,
    /// Maximum bytes of a chunk before compression.
    chunk_size: u32,
    /// Maximum bytes of a segment.
    segment_size: u32,
    /// Number of parts that may be lost.
    parity: u16,
    /// True if a part records that the split finished; false if it was interrupted or the parts were truncated.
    finished: bool,
    /// Words of the command that continues an unfinished split, with `INPUT` for the input; null if it finished or no
    /// command can continue it (the input was a stream).
    resume: Option<Vec<String>>,
    /// Bytes of the dump, as far as known.
    size: u64,
    /// Reason why the dump may be longer than `size`; null if it is not.
    open_end: Option<&'static str>,
    /// Bytes of all parts present.
    stored_bytes: u64,
    /// `size` divided by `stored_bytes`; null unless the split finished.
    ratio: Option<f64>,
    /// Bytes of the dump that repeat an 8-byte pattern, including zeros.
    fill_bytes: u64,
    /// Bytes among `fill_bytes` that are zeros.
    zero_bytes: u64,
    /// True if the parts present contain the whole dump, apart from damage.
    restorable: bool,
    /// Ranges of the dump that these parts do not contain.
    lost: Vec<LostRange>,
    /// Parts of the set, by number.
    parts: Vec<DumpPart>,
}

impl JsonDocument for DumpInfo {
    const KIND: &'static str = "info";
}

/// Returns the words of the command that resumes an unfinished split. A missing part is named by its number.
fn resume(info: &SetInfo) -> Vec<String> {
    let mut words: Vec<String> = ["packfs", "split", "INPUT"].map(str::to_owned).into();
    for part in &info.parts {
        let missing = || part.number.map_or("PART".to_owned(), |number| format!("PART{number}"));
        words.extend([
            "-o".to_owned(),
            part.path.as_deref().map_or_else(missing, |path| value::operand(path).to_string_lossy().into_owned()),
        ]);
    }
    words.extend(["--codec".to_owned(), info.codec.clone()]);
    words.extend(["--chunk".to_owned(), as_size(info.chunk)]);
    if info.parity > 0 {
        words.extend(["--parity".to_owned(), info.parity.to_string()]);
    }
    words.push("--resume".to_owned());
    words
}

/// Facts about one part of a dump.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DumpPart {
    /// Number of the part, counted from 1; null if the damaged part does not tell it.
    number: Option<u16>,
    /// Path of the part; null if it is missing.
    path: Option<String>,
    /// State of the part.
    status: PartStatus,
    /// Description of its defect; null if it has none.
    why: Option<String>,
    /// Length of the part in bytes; null if unknown.
    len: Option<u64>,
    /// Number of data and parity segments in it; null if unknown.
    segments: Option<u64>,
}

impl DumpInfo {
    fn new(info: &SetInfo) -> Self {
        let parts = info.parts.iter().map(|part| DumpPart {
            number: part.number,
            path: part.path.as_deref().map(json::encode_path),
            status: part.status,
            why: part.why.clone(),
            len: part.len,
            segments: part.segments,
        });
        DumpInfo {
            format: "packfs dump 1",
            set: info.set.clone(),
            codec: info.codec.clone(),
            chunk_size: info.chunk,
            segment_size: info.segment,
            parity: info.parity,
            finished: info.finished,
            resume: (!info.finished && info.seekable).then(|| resume(info)),
            size: info.size,
            open_end: info.open_end,
            stored_bytes: info.stored_bytes,
            ratio: info.finished.then(|| units::ratio(info.size, info.stored_bytes)),
            fill_bytes: info.fill_bytes,
            zero_bytes: info.zero_bytes,
            restorable: info.restorable,
            lost: info.lost.clone(),
            parts: parts.collect(),
        }
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        if !self.finished {
            self.print_unfinished(out)?;
        }
        writeln!(out, "format       {}", self.format)?;
        writeln!(out, "set          {}", self.set)?;
        writeln!(out, "codec        {}", self.codec)?;
        writeln!(out, "chunk size   {}", units::exact(self.chunk_size.into()))?;
        match self.open_end {
            None => writeln!(out, "size         {}", units::exact(self.size))?,
            Some(why) => writeln!(out, "size         {} or more: {why}", units::exact(self.size))?,
        }
        writeln!(out, "zeros        {}", units::exact(self.zero_bytes))?;
        writeln!(out, "other fills  {}", units::exact(self.fill_bytes - self.zero_bytes))?;
        match self.ratio {
            Some(ratio) => {
                writeln!(out, "stored       {}, {}", units::exact(self.stored_bytes), units::smaller(ratio))?
            }
            None => writeln!(out, "stored       {}, so far", units::exact(self.stored_bytes))?,
        }
        match self.parity {
            0 => writeln!(out, "parity       none, every part is needed")?,
            parity => writeln!(out, "parity       any {parity} of {} parts may be lost", self.parts.len())?,
        }
        for part in &self.parts {
            part.print(out)?;
        }
        for lost in &self.lost {
            writeln!(out, "lost         {lost}")?;
        }
        writeln!(out, "restorable   {}", if self.restorable { "yes" } else { "only in part" })
    }

    /// Says that the end is missing, and how to go on.
    fn print_unfinished(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "unfinished   no part has the end of the dump: the split was interrupted, or parts were cut off"
        )?;
        match &self.resume {
            Some(words) => {
                let words: Vec<_> = words.iter().map(|one| shell_word(one)).collect();
                let input = "INPUT: what was split, with --as-is if that was given";
                writeln!(out, "continue     {} ({input})", words.join(" "))
            }
            None => writeln!(
                out,
                "continue     packfs join --partial, which writes what is there; a stream cannot be split again"
            ),
        }
    }
}

impl DumpPart {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let number = self.number.map_or("part ?".to_owned(), |number| format!("part {number}"));
        let len = self.len.map_or("of unknown length".to_owned(), units::bytes);
        write!(out, "{number:<12} {}, {len}", self.status.name())?;
        if let Some(segments) = self.segments {
            write!(out, ", {}", units::of(segments, "segment"))?;
        }
        if let Some(path) = &self.path {
            write!(out, ": {path}")?;
        }
        match &self.why {
            Some(why) => writeln!(out, ": {why}"),
            None => writeln!(out),
        }
    }
}
