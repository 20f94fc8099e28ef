//! mksquashfs and sqfstar: their command lines become one of `packfs build`.
//!
//! Defaults are theirs (gzip at level 9, tails of larger files in blocks of their own, the time of the run as that of the
//! image, unreadable files left out with a warning), unless `PACKFS_AS=fast` in the environment asks for those of packfs.

mod actions;
mod append;
mod attributes;
mod codec;
pub(super) mod exclude;
mod pseudo;
mod sources;
mod table;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use packfs_image::name::display;
use packfs_image::tree::ModeChange;

use self::actions::{ActionContext, TailPacking};
use self::append::LAYOUT;
use self::attributes::{ImpliedAttributes, OwnerShift};
use self::codec::CompressionOptions;
use self::exclude::{ExcludeSyntax, ExcludedEntries};
use self::sources::PackedSources;
pub(super) use self::table::TABLE;
use super::command_line::CommandLine;
use super::compressors;
use super::date;
use super::options::{ForeignOption, ParsedWord, option_name, parse_leading_options, parse_words};
use super::refusals;
use super::rules;
use super::{TranslatedLine, stand_in_version, wants_packfs_defaults};
use crate::args::value;
use crate::output::failure::ExitPolicy;
use crate::output::say;
use crate::resources;

/// Version whose options these are: callers decide by it what they may ask for.
const VERSION: &str = "4.7.5";

/// A command line, read.
#[derive(Debug, Default)]
struct MksquashfsOptions {
    /// Words after the first option that are none: the image of sqfstar, and what it leaves out.
    plain: Vec<OsString>,
    /// Options of `packfs build`.
    out: CommandLine,
    compressor: CompressionOptions,
    excluded: ExcludedEntries,
    tar: bool,
    /// True for sqfstar, which refuses an image that exists.
    is_sqfstar: bool,
    zip: bool,
    /// Standard input has the paths of files, which end with this byte.
    listed: Option<u8>,
    exports: bool,
    keep_as_directory: bool,
    no_strip: bool,
    no_append: bool,
    /// True for sqfstar's own option that replaces an image.
    replaces: bool,
    /// Attributes of directories that an archive lacks.
    implied: ImpliedAttributes,
    root_mode: Option<String>,
    shift: OwnerShift,
    /// The same for pseudo definitions, as the value of `--implied-dirs`.
    pseudo_dir: Option<String>,
    /// Directory for what the old image has.
    root_becomes: Option<String>,
    /// True if the image goes to standard output in one pass.
    stream: bool,
    /// A streamed image to complete.
    fix: Option<OsString>,
    stop: bool,
    /// True if the time of the image is the newest in it.
    newest: bool,
    /// True if an option gives a time.
    timed: bool,
    /// Lines of pseudo definitions, which are among the options, too.
    definitions: Vec<OsString>,
    /// True if owners in definitions win over those of all entries.
    pseudo_override: bool,
    /// True if the time of the image is not that of the run.
    repeatable: bool,
    owner: (Option<u32>, Option<u32>),
    modes: Vec<String>,
    /// True if all directories get a mode, the root too.
    dirs_forced: bool,
    /// Packing of the ends of files.
    packing: TailPacking,
    /// Extended attributes to leave out, as globs.
    xattrs: ExcludedXattrs,
    /// Rules of actions.
    actions: Vec<String>,
    print: Option<&'static str>,
}

/// Globs of extended attributes to leave out, by the options that ask for it: the last of each counts.
#[derive(Debug, Default)]
pub(super) struct ExcludedXattrs {
    /// `-xattrs-exclude`.
    pub(super) named: Option<String>,
    /// `-xattrs-include`: all that it does not name.
    pub(super) others: Vec<String>,
}

impl ExcludedXattrs {
    pub(super) fn globs(self) -> impl Iterator<Item = String> {
        self.named.into_iter().chain(self.others)
    }
}

/// Translates a command line of mksquashfs.
pub(super) fn mksquashfs(mut args: Vec<OsString>) -> Result<TranslatedLine, String> {
    let first_option = args.iter().position(|arg| option_name(arg).is_some());
    let rest = args.split_off(first_option.unwrap_or(args.len()));
    // `-version` and such need no sources, and are answered before anything is missed.
    let options = MksquashfsOptions::read(parse_words(TABLE, rest)?)?;
    if let Some(printed) = printed_line(options.print, "mksquashfs", TABLE) {
        return Ok(printed);
    }
    if let Some(image) = options.fix {
        let mut line = CommandLine::new("check");
        line.switch("--complete");
        line.switch("--quiet");
        line.operand("--");
        line.operand(image);
        return Ok(TranslatedLine::Run(line, ExitPolicy { usage: Some(1), ..ExitPolicy::default() }));
    }
    if options.replaces {
        return Err("-force: an option of sqfstar; -noappend replaces an image".into());
    }
    // It may be meant as a value, and as the image it would overwrite a file.
    if let Some(word) = options.plain.first() {
        return Err(format!("{}: not an option; sources and the image come first", display(Path::new(word))));
    }
    let (Some(image), false) = (args.pop(), args.is_empty()) else {
        return Err("expected: mksquashfs SOURCE... IMAGE [OPTIONS] [-e PATH...]".into());
    };
    options.translate(&args, &image)
}

/// Translates a command line of sqfstar, which packs an archive from standard input.
pub(super) fn sqfstar(args: Vec<OsString>) -> Result<TranslatedLine, String> {
    let mut options = MksquashfsOptions::read(parse_leading_options(TABLE, args)?)?;
    if let Some(printed) = printed_line(options.print, "sqfstar", TABLE) {
        return Ok(printed);
    }
    // Everything after the image is left out, in place of the `-e` of mksquashfs.
    let mut plain = std::mem::take(&mut options.plain).into_iter();
    let image = plain.next().ok_or("expected: sqfstar [OPTIONS] IMAGE [PATH...], and an archive on standard input")?;
    options.excluded.names.extend(plain);
    options.tar = true;
    options.is_sqfstar = true;
    options.translate(&[OsString::from("-")], &image)
}

impl MksquashfsOptions {
    fn read(words: Vec<ParsedWord>) -> Result<Self, String> {
        let mut options = MksquashfsOptions::default();
        if words.iter().any(|word| matches!(word, ParsedWord::Option("-tar", _))) {
            options.packing = TailPacking::Tails;
        }
        // Actions may come before the options that they change.
        for word in &words {
            match word {
                ParsedWord::Becomes(made) => {
                    let fragments = made.values("--fragments").next();
                    options.packing = fragments.map_or(options.packing, TailPacking::of);
                }
                ParsedWord::Option(name @ "-uid-gid-offset", values) => {
                    let text = values.first().and_then(|value| value.to_str()).unwrap_or_default();
                    options.shift = OwnerShift::parse(name, text)?;
                }
                _ => {}
            }
        }
        for word in words {
            match word {
                ParsedWord::Plain(word) => options.plain.push(word),
                ParsedWord::Becomes(made) => options.out.append(made),
                ParsedWord::Option(name, values) => options.take(name, values)?,
            }
        }
        Ok(options)
    }

    /// Takes an option that needs more than other words.
    fn take(&mut self, name: &'static str, values: Vec<OsString>) -> Result<(), String> {
        if name == "-e" {
            self.excluded.names.extend(values);
            return Ok(());
        }
        let value = values.into_iter().next().unwrap_or_default();
        let text = || {
            value.to_str().map(str::to_owned).ok_or_else(|| format!("{name} {}: not UTF-8", display(Path::new(&value))))
        };
        match name {
            "-b" => self.out.set("--block-size", text()?.trim_end_matches("bytes")),
            "-tar" => self.tar = true,
            "-zip" => self.zip = true,
            "-cpiostyle" => self.listed = Some(b'\n'),
            "-cpiostyle0" => self.listed = Some(0),
            "-no-strip" => self.no_strip = true,
            "-keep-as-directory" => self.keep_as_directory = true,
            "-exports" => self.exports = true,
            "-xattrs" => {}
            // As the two are independent options of mksquashfs, of which this one sets both.
            "-repro" => (self.repeatable, self.newest) = (true, true),
            "-repro-time" => {
                self.repeatable = true;
                self.timed = true;
                self.out.set("--time", parse_time(name, &text()?)?.to_string());
            }
            "-mkfs-time" => {
                self.repeatable = true;
                self.newest = value == "inode";
                if !self.newest {
                    self.timed = true;
                    self.out.set("--image-time", parse_time(name, &text()?)?.to_string());
                }
            }
            "-inode-time" => {
                self.timed = true;
                self.out.set("--time", parse_time(name, &text()?)?.to_string());
            }
            "-root-time" => self.out.set("--add", format!("time / {}", parse_time(name, &text()?)?)),
            // The defaults are for the root, too.
            "-default-mode" => {
                // Applied to the mode of a directory, for symbolic modes such as `go-w`.
                self.implied.mode = Some(parse_mode(name, &text()?)?.apply(0o755, true));
                self.root_mode = Some(text()?);
            }
            "-default-uid" => {
                let user = value::user(&text()?)?;
                self.implied.uid = Some(user);
                self.out.set("--add", format!("owner / {user} *"));
            }
            "-default-gid" => {
                let group = value::group(&text()?)?;
                self.implied.gid = Some(group);
                self.out.set("--add", format!("owner / * {group}"));
            }
            "-root-mode" => {
                parse_mode(name, &text()?)?;
                self.root_mode = Some(text()?);
            }
            "-uid-gid-offset" => {} // It was read before all others.
            "-xattrs-add" => {
                // Others have no attributes of users.
                let test = if text()?.starts_with("user.") { "type=file,dir" } else { "all" };
                self.actions.push(format!("{test} -> {}", rules::rule_word("xattr", &text()?)?));
            }
            "-xattrs-include" => {
                self.xattrs.others = exclude::other_xattrs(&text()?)
                    .map_err(|why| format!("{name} {}: {why}", display(Path::new(&value))))?;
            }
            "-force" => self.replaces = true,
            "-root-uid" => self.out.set("--add", format!("owner / {} *", value::user(&text()?)?)),
            "-root-gid" => self.out.set("--add", format!("owner / * {}", value::group(&text()?)?)),
            "-all-root" => self.owner = (Some(0), Some(0)),
            "-force-uid" => self.owner.0 = Some(value::user(&text()?)?),
            "-force-gid" => self.owner.1 = Some(value::group(&text()?)?),
            "-force-file-mode" => self.modes.push(restrict_mode(&text()?, 'F')),
            "-force-dir-mode" => {
                self.dirs_forced = true;
                self.modes.push(restrict_mode(&text()?, 'D'));
            }
            "-p" => {
                let line = pseudo::translate_definition(value.as_bytes()).map_err(|why| format!("{name}: {why}"))?;
                self.define(OsString::from_vec(line));
            }
            "-pd" => self.pseudo_dir = Some(pseudo::parse_directory(&text()?).map_err(|why| format!("{name}: {why}"))?),
            "-pf" => {
                let lines = pseudo::read_definitions(&text()?)?;
                lines.into_iter().for_each(|line| self.define(line));
            }
            "-ef" => self.excluded.read(Path::new(&value))?,
            "-action" | "-log-action" | "-true-action" | "-false-action" => {
                let rules = actions::translate_action(&text()?, self.surroundings())
                    .map_err(|why| format!("{name} {}: {why}", display(Path::new(&value))))?;
                self.actions.extend(rules);
            }
            "-action-file" | "-log-action-file" | "-true-action-file" | "-false-action-file" => {
                rules::for_each_line(name, &text()?, |line| {
                    self.actions.extend(actions::translate_action(line, self.surroundings())?);
                    Ok(())
                })?;
            }
            "-wildcards" => self.excluded.patterns = ExcludeSyntax::Globs,
            "-regex" => self.excluded.patterns = ExcludeSyntax::Regexes,
            "-xattrs-exclude" => self.xattrs.named = Some(exclude::xattr_glob(&text()?)?),
            "-exit-on-error" => self.stop = true,
            "-noappend" => self.no_append = true,
            "-pseudo-override" => self.pseudo_override = true,
            "-stream" => self.stream = true,
            "-fix" => self.fix = Some(value),
            "-root-becomes" => self.root_becomes = Some(text()?),
            "-version" => self.print = Some("version"),
            "-mem-default" => self.print = Some("memory"),
            // A script may ask for a compressor in this way.
            "-help-comp" if !["all", "list"].contains(&&*text()?) && !compressors::has_squashfs(&text()?) => {
                return Err(format!("{name} {}: there is no such compressor", text()?));
            }
            // Even `-help-option` and the like: the table fits a search.
            "-help" | "-help-option" | "-help-section" | "-help-comp" => self.print = Some("help"),
            _ => self.compressor.take(name, text()?)?,
        }
        Ok(())
    }

    /// Adds a pseudo definition.
    fn define(&mut self, definition: OsString) {
        self.out.set("--add", &definition);
        self.definitions.push(definition);
    }

    fn surroundings(&self) -> ActionContext {
        ActionContext { packing: self.packing, shift: self.shift }
    }

    fn translate(mut self, sources: &[OsString], image: &OsStr) -> Result<TranslatedLine, String> {
        self.refuse_contradictions()?;
        let fast = wants_packfs_defaults();
        let mut line = CommandLine::new("build");
        match (self.stream, image == "-") {
            (true, _) => line.set("--output", "-"),
            // A file of this name. To packfs, `-` is standard output.
            (false, true) => line.set("--output", "./-"),
            (false, false) => line.set("--output", image),
        }
        line.set("--format", "squashfs");
        line.switch_if(self.stream, "--stream");
        let appends = self.add_layout(Path::new(image), fast, &mut line)?;
        // packfs leaves the time of the run out, so that the same sources make the same image.
        if !fast && !self.repeatable && std::env::var_os("SOURCE_DATE_EPOCH").is_none() {
            line.set("--image-time", "now");
        }
        // A path of a list that does not exist is an error.
        if !self.stop && self.listed.is_none() {
            line.set("--on-error", "skip");
        }
        line.switch("--force");
        let taken = if appends { self.root_names_of(Path::new(image))? } else { Vec::new() };
        // Where a source has an entry, mksquashfs keeps that and ignores the definition, and says so.
        line.switch_if(!self.definitions.is_empty(), "--keep-existing");
        let PackedSources { words, entries, root } = self.sources(sources, taken)?;
        // A root that comes from the sources stays as it is.
        if !self.only_defined(sources) {
            self.drop_root_definitions();
        }
        if let Some(attributes) = self.implied_dirs(&root) {
            line.set("--implied-dirs", attributes);
        }
        line.append(words);
        // After the words of the sources, as the last line about the root counts.
        self.root_lines(&root).into_iter().for_each(|definition| line.set("--add", definition));
        let excluded = self.excluded.options(&entries)?;
        if self.excluded.select_nothing(&excluded) {
            say("mksquashfs: no source has an entry that matches the exclusions");
        }
        line.append(excluded);
        self.add_attributes(&mut line)?;
        // mksquashfs exits with 0 although it could not read some files.
        Ok(TranslatedLine::Run(line, ExitPolicy { lenient: true, usage: Some(1), ..ExitPolicy::default() }))
    }

    /// Fails for options that mksquashfs does not take together.
    fn refuse_contradictions(&self) -> Result<(), String> {
        // As mksquashfs does, since it could not obey both.
        if self.timed && std::env::var_os("SOURCE_DATE_EPOCH").is_some() {
            return Err(
                "both SOURCE_DATE_EPOCH in the environment and an option that gives a time: leave one out".into()
            );
        }
        if self.compressor.is_plain() && self.actions.iter().any(|rule| rule.ends_with(actions::COMPRESS)) {
            return Err(refusals::COMPRESSED_IN_PLAIN.error("both compressed and -noD or -noF"));
        }
        Ok(())
    }

    /// Adds codec and layout, or the image that has both if it is appended to; returns true then.
    fn add_layout(&mut self, image: &Path, fast: bool, line: &mut CommandLine) -> Result<bool, String> {
        // Wrong options of a compressor are told even if the old image decides.
        let compression = self.compressor.options(fast)?;
        if let Some(appended) = self.append_options(image)? {
            line.append(appended);
            // The old image decides.
            LAYOUT.iter().for_each(|option| self.out.remove(option));
            return Ok(true);
        }
        line.append(compression);
        if !fast && !self.out.has("--fragments") {
            line.set("--fragments", if self.tar { "tails" } else { "small" });
        }
        // An archive has no use for export by NFS by default.
        line.switch_if(self.tar && !fast && !self.exports, "--no-export");
        Ok(false)
    }

    /// Adds extended attributes, owners, modes and actions. If there are actions, owners and modes of all entries are the
    /// last of them: as options they would come before.
    fn add_attributes(mut self, line: &mut CommandLine) -> Result<(), String> {
        let xattrs = std::mem::take(&mut self.xattrs);
        xattrs.globs().for_each(|glob| line.set("--exclude-xattr", glob));
        let no_xattrs = self.out.has("--no-xattrs");
        if let Some(mode) = self.root_mode.take().filter(|_| !self.dirs_forced) {
            match mode.bytes().all(|digit| digit.is_ascii_digit()) {
                // A pack list takes numbers only, rules take symbolic modes too.
                true => self.out.set("--add", format!("mode / {mode}")),
                // First, as options for all entries come after it and win.
                false => self.actions.insert(0, format!("path=/ -> mode={mode}")),
            }
        }
        let owners = self.definitions_owners()?;
        line.append(std::mem::take(&mut self.out));
        self.add_offsets(line);
        // As options: these are done while entries are found, which costs nothing later.
        if self.actions.is_empty() && owners.is_empty() {
            line.set_owner(self.owner);
            if !self.modes.is_empty() {
                line.set("--mode", self.modes.join(","));
            }
        } else {
            let last = self.last_actions(no_xattrs, owners)?;
            self.actions.iter().chain(&last).for_each(|rule| line.set("--rule", rule));
        }
        Ok(())
    }
}

/// Reads a time, as `date` does if nothing else is written.
fn parse_time(option: &str, text: &str) -> Result<i64, String> {
    date::seconds(text).map_err(|why| format!("{option} {text}: {why}"))
}

/// Returns what a program of squashfs-tools was only asked to print, by the option that asks for it.
pub(super) fn printed_line(
    print: Option<&str>,
    program: &str,
    table: &'static [ForeignOption],
) -> Option<TranslatedLine> {
    match print? {
        "version" => Some(stand_in_version(program, format_args!("version {VERSION}"))),
        // They take a quarter of the memory by default. The figure is in MiB.
        "memory" => Some(TranslatedLine::Print(format!("{}\n", (resources::memory_limit() / 4) >> 20))),
        _ => Some(TranslatedLine::Help(table)),
    }
}

/// Reads a mode, octal or symbolic.
fn parse_mode(option: &str, text: &str) -> Result<ModeChange, String> {
    text.parse().map_err(|_| format!("{option} {text}: expected a mode as chmod takes it"))
}

/// Restricts each change of a mode to files (`F`) or directories (`D`).
pub(super) fn restrict_mode(mode: &str, kind: char) -> String {
    // Per change: `u+w,g-w` would be restricted only at its beginning.
    mode.split(',').map(|change| format!("{kind}{change}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
