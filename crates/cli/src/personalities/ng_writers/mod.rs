//! tar2sqfs and gensquashfs of squashfs-tools-ng: their command lines become one of `packfs build`.
//!
//! Defaults are theirs (xz, no table for NFS export, tails of larger files in fragments), unless `PACKFS_AS=fast` in the
//! environment asks for those of packfs.

mod compressor;
mod pattern;
mod sort_file;
mod table;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use packfs_image::name::display;
use packfs_image::tree::parse_c_number;

use self::pattern::GlobPattern;
pub(super) use self::table::{GEN_TABLE, TAR_TABLE};
use super::command_line::CommandLine;
use super::options::{ForeignOption, ParsedWord, parse_getopt};
use super::paths::{glob_of, safe_path};
use super::{NG_VERSION, TranslatedLine, refusals, rules, stand_in_version, wants_packfs_defaults};
use crate::args::value;
use crate::output::failure::ExitPolicy;

/// Bytes to whose multiples images are padded.
const PADDED: u64 = 4096;

/// Label of files that a file of contexts does not name.
const UNLABELLED: &str = "system_u:object_r:unlabeled_t:s0";

/// A command line of either program, read.
#[derive(Debug, Default)]
struct NgWriterOptions {
    plain: Vec<OsString>,
    /// Options of `packfs build`.
    out: CommandLine,
    compressor: Option<String>,
    extra: String,
    list: Option<PathBuf>,
    dir: Option<PathBuf>,
    /// The directory of the archive that becomes the root.
    root: Option<PathBuf>,
    no_retarget: bool,
    excluded: Vec<OsString>,
    owner: (Option<u32>, Option<u32>),
    defaults: Option<DefaultAttributes>,
    exportable: bool,
    no_tails: bool,
    no_skip: bool,
    keep_time: bool,
    keep_xattrs: bool,
    /// Rules for labels, attributes and the order of data, which have effect in this order.
    rules: [Vec<String>; 3],
    print: Option<&'static str>,
}

/// Translates a command line of tar2sqfs, which packs an archive from standard input.
pub(super) fn tar2sqfs(args: Vec<OsString>) -> Result<TranslatedLine, String> {
    let options = NgWriterOptions::read(TAR_TABLE, args)?;
    if let Some(printed) = options.printed("tar2sqfs", TAR_TABLE) {
        return Ok(printed);
    }
    let mut more = CommandLine::default();
    if !options.no_skip {
        more.set("--on-error", "skip");
    }
    // Here the option means not to keep them.
    if options.keep_time {
        more.set("--time", options.default_time().to_string());
    }
    if !wants_packfs_defaults() {
        // tar2sqfs clips times that an image cannot hold, where packfs fails.
        more.switch("--clip-times");
    }
    options.build("tar2sqfs [OPTIONS] IMAGE, and an archive on standard input", "-".into(), more)
}

/// Translates a command line of gensquashfs.
pub(super) fn gensquashfs(args: Vec<OsString>) -> Result<TranslatedLine, String> {
    let options = NgWriterOptions::read(GEN_TABLE, args)?;
    if let Some(printed) = options.printed("gensquashfs", GEN_TABLE) {
        return Ok(printed);
    }
    let (source, more) = options.source()?;
    options.build("gensquashfs [OPTIONS] IMAGE", source, more)
}

impl NgWriterOptions {
    fn read(table: &'static [ForeignOption], args: Vec<OsString>) -> Result<Self, String> {
        let mut options = NgWriterOptions::default();
        for word in parse_getopt(table, args)? {
            match word {
                ParsedWord::Plain(word) => options.plain.push(word),
                ParsedWord::Becomes(made) => options.out.append(made),
                ParsedWord::Option(name, values) => {
                    options.take(name, values.into_iter().next().unwrap_or_default())?
                }
            }
        }
        Ok(options)
    }

    fn take(&mut self, name: &'static str, value: OsString) -> Result<(), String> {
        let text = || value.to_str().ok_or_else(|| format!("{name} {}: not UTF-8", display(Path::new(&value))));
        match name {
            "-F" => self.list = Some(value.into()),
            "-D" => self.dir = Some(value.into()),
            "-E" => self.excluded.push(value),
            "-r" => self.root = Some(value.into()),
            "-S" => self.no_retarget = true,
            "-c" => self.compressor = Some(text()?.to_owned()),
            "-X" if value == "help" => self.print = Some("-h"),
            "-X" => self.extra = text()?.to_owned(),
            "-B" => match text()?.parse::<u64>() {
                // Images are padded to 4096 bytes, and so to everything that divides this.
                Ok(size) if size > 0 && PADDED.is_multiple_of(size) => {}
                _ => return Err(refusals::LARGE_PADDING.error(format_args!("{name} {}", text()?))),
            },
            "-d" => self.defaults = Some(DefaultAttributes::read(text()?).map_err(|why| format!("{name} {why}"))?),
            "--selinux" => self.rules[0] = rules::read_contexts(name, text()?, Some(UNLABELLED), "")?,
            "--xattr-file" => self.rules[1] = rules::read_attributes(name, text()?)?,
            "--sort-file" => self.rules[2] = sort_file::rules_of_file(name, text()?)?,
            "-u" => self.owner.0 = Some(value::user(text()?)?),
            "-g" => self.owner.1 = Some(value::group(text()?)?),
            "--all-root" => self.owner = (Some(0), Some(0)),
            "-e" => self.exportable = true,
            "-T" => self.no_tails = true,
            "-s" => self.no_skip = true,
            "-k" => self.keep_time = true,
            "-x" => self.keep_xattrs = true,
            _ => self.print = Some(name),
        }
        Ok(())
    }

    fn printed(&self, program: &str, table: &'static [ForeignOption]) -> Option<TranslatedLine> {
        Some(match self.print? {
            "-V" => stand_in_version(program, format_args!("(squashfs-tools-ng) {NG_VERSION}")),
            _ => TranslatedLine::Help(table),
        })
    }

    /// Returns the source of gensquashfs, and what a directory lacks by default.
    fn source(&self) -> Result<(OsString, CommandLine), String> {
        let mut more = CommandLine::default();
        match (&self.list, &self.dir) {
            (Some(list), dir) => {
                // Paths of the list are relative to the list for packfs, to `-D` for gensquashfs.
                let of_list = list.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
                let same =
                    |dir: &PathBuf| dir.canonicalize().ok().is_some_and(|dir| of_list.canonicalize().ok() == Some(dir));
                if dir.as_ref().is_some_and(|dir| !same(dir)) {
                    return Err(refusals::LIST_ELSEWHERE.error("-D with -F"));
                }
                // Entries of lists have the time of the image.
                if let Some(defaults) = &self.defaults {
                    more.set("--image-time", defaults.time.to_string());
                }
                more.switch_if(!self.keep_xattrs, "--no-xattrs");
                Ok((OsString::from_vec([b"@", list.as_os_str().as_bytes()].concat()), more))
            }
            (None, Some(dir)) => {
                if !self.keep_time {
                    more.set("--time", self.default_time().to_string());
                }
                more.switch_if(!self.keep_xattrs, "--no-xattrs");
                if let Some(defaults) = &self.defaults {
                    defaults.root_lines().into_iter().for_each(|line| more.set("--add", line));
                }
                Ok((safe_path(dir.as_os_str()), more))
            }
            (None, None) => Err("expected a list (-F FILE) or a directory (-D DIR)".into()),
        }
    }

    /// Returns the block size asked for last; a wrong one is reported by the build.
    fn block(&self) -> u64 {
        // The last one counts, as in packfs.
        let mut sizes = self.out.values("--block-size").filter_map(|size| value::size(size.to_str()?).ok());
        sizes.next_back().unwrap_or(compressor::BLOCK)
    }

    /// Returns the time of what nothing describes.
    fn default_time(&self) -> u32 {
        self.defaults.as_ref().map_or_else(epoch, |defaults| defaults.time)
    }

    /// Adds options for another root and for entries of the archive that are left out, whose paths have the old one.
    fn add_places(&self, line: &mut CommandLine) -> Result<(), String> {
        // Paths of options may begin with `/` or `./`, and those of archives too.
        let names = |path: &Path| -> PathBuf {
            path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
        };
        let root = self.root.as_deref().map(names).unwrap_or_default();
        if let Some(dir) = &self.root {
            line.set("--subdir", dir);
            line.switch_if(!self.no_retarget, "--retarget");
        }
        for dir in &self.excluded {
            let wrong = |why: &str| format!("-E {}: {why}", display(Path::new(dir)));
            let path = names(Path::new(dir));
            let text = path.to_str().ok_or_else(|| wrong("not UTF-8"))?;
            let pattern = GlobPattern::parse(text).map_err(|why| wrong(&why))?;
            let is_matched = |above: &Path| pattern.matches(&above.to_string_lossy());
            if root.ancestors().any(|above| !above.as_os_str().is_empty() && is_matched(above)) {
                return Err(wrong("the directory that becomes the root lies in it"));
            }
            if pattern.is_plain() {
                // What lies elsewhere in the archive is not in the image.
                if let Ok(inside) = path.strip_prefix(&root) {
                    line.set("--exclude", glob_of(inside).map_err(wrong)?);
                }
                continue;
            }
            // packfs matches paths below the new root.
            let begin =
                if root.as_os_str().is_empty() { String::new() } else { format!("{}/", root.to_string_lossy()) };
            pattern.regex_after(&begin).into_iter().for_each(|regex| line.set("--exclude-regex", regex));
        }
        Ok(())
    }

    /// Makes the line that packs a source. `more` has the options of one of the programs.
    fn build(self, usage: &str, source: OsString, more: CommandLine) -> Result<TranslatedLine, String> {
        let fast = wants_packfs_defaults();
        let [image] = self.plain.as_slice() else { return Err(format!("expected: {usage}")) };
        let mut line = CommandLine::new("build");
        line.set("--output", image);
        line.set("--format", "squashfs");
        if !fast || self.compressor.is_some() || !self.extra.is_empty() {
            line.set("--codec", compressor::parse_codec(self.compressor.as_deref(), &self.extra, self.block())?);
        }
        match (self.no_tails, fast) {
            (true, _) => line.set("--fragments", "small"),
            (false, false) => line.set("--fragments", "tails"),
            (false, true) => {}
        }
        line.switch_if(!self.exportable && !fast, "--no-export");
        // Without either, packfs has the usual ones by itself.
        let of_epoch = (epoch() > 0).then(DefaultAttributes::usual);
        if let Some(defaults) = self.defaults.as_ref().or(of_epoch.as_ref()) {
            line.set("--implied-dirs", defaults.implied_dirs());
        }
        line.append(more);
        self.add_places(&mut line)?;
        line.append(self.out);
        // In the order of the array, whatever the order on the command line.
        self.rules.iter().flatten().for_each(|rule| line.set("--rule", rule));
        line.set_owner(self.owner);
        line.operand(source);
        Ok(TranslatedLine::Run(line, ExitPolicy { lenient: true, usage: Some(1), ..ExitPolicy::default() }))
    }
}

/// Attributes of what nothing describes.
#[derive(Debug, PartialEq, Eq)]
struct DefaultAttributes {
    mode: u32,
    uid: u32,
    gid: u32,
    time: u32,
}

/// Returns the time of what has none by default: 0, or SOURCE_DATE_EPOCH, of which packfs tells what is wrong with it.
fn epoch() -> u32 {
    std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

impl DefaultAttributes {
    /// Returns those without `--defaults`.
    fn usual() -> Self {
        DefaultAttributes { mode: 0o755, uid: 0, gid: 0, time: epoch() }
    }

    /// Reads `NAME=VALUE,...`.
    fn read(text: &str) -> Result<Self, String> {
        let mut all = DefaultAttributes::usual();
        let wrong = |pair: &str| format!("{pair}: expected uid, gid, mode or mtime with a number");
        for pair in text.split(',') {
            let (name, value) = pair.split_once('=').ok_or_else(|| wrong(pair))?;
            let number = match name {
                // As everywhere, an octal number, even without the 0 in front that C asks for.
                "mode" => u32::from_str_radix(value.trim_start_matches("0o"), 8).ok(),
                _ => parse_c_number(value).and_then(|number| number.try_into().ok()),
            };
            let number = number.ok_or_else(|| wrong(pair))?;
            match name {
                "uid" => all.uid = number,
                "gid" => all.gid = number,
                "mtime" => all.time = number,
                "mode" if number <= 0o7777 => all.mode = number,
                _ => return Err(wrong(pair)),
            }
        }
        Ok(all)
    }

    /// Returns the value of `--implied-dirs`.
    fn implied_dirs(&self) -> String {
        let DefaultAttributes { mode, uid, gid, time } = self;
        format!("{mode:04o},{uid}:{gid},{time}")
    }

    /// Returns lines of a pack list that give them to the root of a packed directory.
    fn root_lines(&self) -> [String; 3] {
        let DefaultAttributes { mode, uid, gid, time } = self;
        [format!("mode / {mode:04o}"), format!("owner / {uid} {gid}"), format!("time / {time}")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::personalities::options::tests::check;

    fn line(program: fn(Vec<OsString>) -> Result<TranslatedLine, String>, args: &str) -> Result<String, String> {
        match program(args.split(' ').map(OsString::from).collect())? {
            TranslatedLine::Run(line, _) => Ok(line.into_text()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_tables_are_sound() {
        check(TAR_TABLE);
        check(GEN_TABLE);
    }

    #[test]
    fn command_lines_of_callers_are_translated() {
        let begin = "build --output=IMG --format=squashfs";
        for (args, made) in [
            (
                "-j 4 -c zstd -f IMG",
                "--codec=zstd --fragments=tails --no-export --on-error=skip --clip-times --jobs=4 --force -",
            ),
            (
                "-s -e -T -cgzip -E usr/share/doc -E etc -r ./usr IMG",
                "--codec=gzip:9 --fragments=small --clip-times --subdir=./usr --retarget --exclude=/share/doc -",
            ),
            ("-s -e -T -cgzip -E etc/ -S -r usr IMG", "--codec=gzip:9 --fragments=small --clip-times --subdir=usr -"),
            ("-s -e -T -cgzip -E ./etc/ IMG", "--codec=gzip:9 --fragments=small --clip-times --exclude=/etc -"),
            (
                "-s -e -T -cgzip -E boot/* -E *.o IMG",
                "--codec=gzip:9 --fragments=small --clip-times --exclude-regex=^boot/.*$ --exclude-regex=^.*\\.o$ -",
            ),
            (
                "-s -e -T -cgzip -r usr -E usr/share/* -E boot/* IMG",
                "--codec=gzip:9 --fragments=small --clip-times --subdir=usr --retarget --exclude-regex=^share/.*$ -",
            ),
            (
                "--quiet --no-skip --force --exportable -cgzip -Xlevel=6 IMG",
                "--codec=gzip:6 --fragments=tails --clip-times --quiet --force -",
            ),
            (
                "--compressor gzip -T -x -k -B 4096 -d uid=0,mode=0755 IMG",
                "--codec=gzip:9 --fragments=small --no-export --implied-dirs=0755,0:0,0 --on-error=skip --time=0 --clip-times \
                 --no-xattrs -",
            ),
        ] {
            assert_eq!(line(tar2sqfs, args), Ok(format!("{begin} {made}")), "{args}");
        }
        for (args, made) in [
            ("-F list IMG", "--codec=xz --fragments=tails --no-export --no-xattrs @list"),
            (
                "-F list -d mtime=7 IMG",
                "--codec=xz --fragments=tails --no-export --implied-dirs=0755,0:0,7 --image-time=7 --no-xattrs @list",
            ),
            ("-D root -k -x -u5 -e IMG", "--codec=xz --fragments=tails --owner=5: root"),
            (
                "--pack-dir root --all-root -c lz4 -X hc IMG",
                "--codec=lz4hc --fragments=tails --no-export --time=0 --no-xattrs --owner=0:0 root",
            ),
        ] {
            assert_eq!(line(gensquashfs, args), Ok(format!("{begin} {made}")), "{args}");
        }
        for (args, why) in [
            ("-r usr/share -E usr IMG", "lies in it"),
            ("-r usr/share -E u* IMG", "lies in it"),
            ("-d uid=x IMG", "expected uid, gid"),
            ("-B 8192 IMG", "padded"),
            ("a b", "expected: tar2sqfs"),
        ] {
            assert!(line(tar2sqfs, args).unwrap_err().contains(why), "{args}");
        }
        for (args, why) in [("IMG", "expected a list"), ("-F list -D / IMG", "relative to its directory")] {
            assert!(line(gensquashfs, args).unwrap_err().contains(why), "{args}");
        }
    }
}
