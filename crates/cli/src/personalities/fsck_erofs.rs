//! fsck.erofs: its command lines become those of `packfs check` and `packfs extract`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use packfs_blocks::io::FileAt;
use packfs_image::erofs::{ErofsReader, ReadOptions};
use packfs_image::image::{FileType, Image, Nid};
use packfs_image::name::display;
use packfs_image::sink;
use packfs_image::tree::components;

use super::command_line::CommandLine;
use super::options::OptionEffect::{Becomes, Ignored, Same};
use super::options::{ForeignOption, OptionValues, ParsedWord, at_least, flag, number, parse_getopt, value};
use super::{TranslatedLine, magic_at, refusals, version_text};
use crate::args::value::size;
use crate::output::failure::ExitPolicy;

/// Version whose options these are.
const VERSION: &str = "1.9.4";
/// Offset of the superblock, and its magic number.
const MAGIC: (u64, [u8; 4]) = (1024, 0xe0f5_e1e2_u32.to_le_bytes());

pub(super) static TABLE: &[ForeignOption] = &[
    flag(&["-V", "--version"], Same("prints the version")),
    flag(&["-h", "--help"], Same("prints this table")),
    number(&["-d"], 0..=9, Ignored("findings are always told")),
    flag(&["-p"], Ignored("fsck.erofs prints the ratio from -d3 on; packfs info --stats tells sizes")),
    value(&["--device"], Becomes(&["--device={}"])),
    ForeignOption {
        names: &["--extract"],
        takes: OptionValues::Optional,
        does: Same("packfs extract; without a value packfs check"),
    },
    at_least(&["--offset"], 0, Same("--offset")),
    number(&["--nid"], 0..=u64::MAX, Same("as --path, by the number of the inode")),
    value(&["--path"], Same("a path, with --strip-components")),
    flag(&["--no-sbcrc"], Ignored("a wrong checksum is still damage; other images are read as without it")),
    flag(&["--xattr-inode-digest"], Ignored("packfs always compares files with digests that an image has")),
    flag(&["--xattrs"], Same("no --no-xattrs")),
    flag(&["--no-xattrs"], Same("--no-xattrs")),
    flag(&["-a", "-A", "-y"], Ignored("no effect, as in fsck.erofs")),
    flag(&["--force"], Same("for --extract=/")),
    flag(&["--overwrite"], Same("--force")),
    flag(&["--preserve"], Same("as --preserve-owner and --preserve-perms")),
    flag(&["--preserve-owner"], Same("no --no-owner; the default for root")),
    flag(&["--no-preserve-owner"], Same("--no-owner; the default for others")),
    flag(&["--preserve-perms"], Same("no --mode; the default for root")),
    flag(&["--no-preserve"], Same("as --no-preserve-owner and --no-preserve-perms")),
    flag(&["--no-preserve-perms"], Same("--mode, without what the umask takes away; the default for others")),
];

/// Parsed command line of fsck.erofs. The last of contradicting options counts.
#[derive(Debug)]
struct FsckOptions {
    plain: Vec<OsString>,
    /// Options of packfs.
    out: CommandLine,
    /// Directory to extract into.
    extract: Option<OsString>,
    path: Option<OsString>,
    nid: Option<Nid>,
    offset: u64,
    with_xattrs: bool,
    keeps_owners: bool,
    keeps_permissions: bool,
    force: bool,
    overwrite: bool,
    /// An option that is valid only with an extraction.
    of_extraction: Option<&'static str>,
    print: Option<&'static str>,
}

/// Translates a command line.
pub(super) fn fsck_erofs(args: Vec<OsString>) -> Result<TranslatedLine, String> {
    // Defaults of fsck.erofs, as of tar: only root can give files away.
    let is_root = rustix::process::geteuid().is_root();
    let mut options = FsckOptions {
        plain: Vec::new(),
        out: CommandLine::default(),
        extract: None,
        path: None,
        nid: None,
        offset: 0,
        with_xattrs: false,
        keeps_owners: is_root,
        keeps_permissions: is_root,
        force: false,
        overwrite: false,
        of_extraction: None,
        print: None,
    };
    // All options are read before `-V` counts: unlike dump.erofs, fsck.erofs notices wrong ones first.
    for word in parse_getopt(TABLE, args)? {
        match word {
            ParsedWord::Plain(word) => options.plain.push(word),
            ParsedWord::Becomes(made) => options.out.append(made),
            ParsedWord::Option(name, values) => options.take(name, values.into_iter().next())?,
        }
    }
    match options.print {
        Some("-V") => Ok(version_text("fsck.erofs (erofs-utils)", VERSION)),
        Some(_) => Ok(TranslatedLine::Help(TABLE)),
        None => options.translate(),
    }
}

impl FsckOptions {
    fn take(&mut self, name: &'static str, value: Option<OsString>) -> Result<(), String> {
        let text = value.as_ref().and_then(|value| value.to_str()).unwrap_or_default();
        match name {
            "-V" | "-h" => self.print = self.print.or(Some(name)),
            "--extract" if value.as_ref().is_some_and(|dir| dir.is_empty()) => {
                return Err("--extract=: the directory is empty".into());
            }
            // Without a value, it does not cancel an earlier one.
            "--extract" => self.extract = value.or(self.extract.take()),
            "--offset" => self.offset = size(text).map_err(|why| format!("{name}: {why}"))?,
            "--path" => self.path = value,
            "--nid" => self.nid = Some(Nid(text.parse().map_err(|_| format!("invalid NID {text}"))?)),
            "--xattrs" | "--no-xattrs" => self.with_xattrs = name == "--xattrs",
            "--force" => self.force = true,
            "--overwrite" => self.overwrite = true,
            "--preserve" | "--no-preserve" => {
                self.keeps_owners = name == "--preserve";
                self.keeps_permissions = self.keeps_owners;
            }
            "--preserve-owner" | "--no-preserve-owner" => self.keeps_owners = name == "--preserve-owner",
            _ => self.keeps_permissions = name == "--preserve-perms",
        }
        self.of_extraction = match name {
            "--force" | "--overwrite" => Some(name),
            _ if name.contains("preserve") => Some("--[no-]preserve[-owner/-perms]"),
            _ => self.of_extraction,
        };
        Ok(())
    }

    fn translate(mut self) -> Result<TranslatedLine, String> {
        let [image] = &self.plain[..] else { return Err("expected: fsck.erofs [OPTIONS] IMAGE".into()) };
        let image = image.clone();
        // First, and before packfs would tell the format: callers try fsck.erofs on any image to see if it is
        // one.
        require_erofs(Path::new(&image), self.offset)?;
        let names_part = self.path.as_ref().is_some_and(|path| components(path.as_bytes()).next().is_some());
        if names_part && self.extract.is_none() {
            // Before the path is looked up: whether it exists does not matter.
            return Err(refusals::PART_OF_AN_IMAGE.error("--path, --nid"));
        }
        // A path overrides a number, in any order.
        let nid = self.nid.filter(|nid| self.path.is_none() && nid.0 > 0);
        let target = find_entry(Path::new(&image), self.offset, nid, self.path.take());
        let target = target.map_err(|error| format!("{}: {error}", display(Path::new(&image))))?;
        // The root is the whole image, which needs no path.
        let target = target.filter(|target| components(target.path.as_bytes()).next().is_some());
        let mut line = match self.extract.take() {
            None if target.is_some() => return Err(refusals::PART_OF_AN_IMAGE.error("--path, --nid")),
            None => {
                // packfs check has none of these options, and would not say what is missing.
                if let Some(option) = self.of_extraction {
                    return Err(format!("{option} must be used together with --extract=DIR"));
                }
                CommandLine::new("check")
            }
            Some(dir) => {
                // A mistyped variable would overwrite the system.
                if components(dir.as_bytes()).next().is_none() && dir.as_bytes().starts_with(b"/") && !self.force {
                    return Err("--extract=/ must be used together with --force".into());
                }
                let mut line = CommandLine::new("extract");
                line.set("--directory", dir);
                line.switch_if(self.overwrite, "--force");
                line.switch_if(!self.keeps_owners, "--no-owner");
                // Without `--preserve-perms` the umask applies, which packfs leaves out for exactly the
                // image's permissions.
                if let Some(mode) = umask_changes().filter(|_| !self.keeps_permissions) {
                    line.set("--mode", mode);
                }
                line.switch_if(!self.with_xattrs, "--no-xattrs");
                if let Some(SelectedEntry { path, is_dir }) = &target {
                    // The entries below a directory, or the file itself.
                    let depth = components(path.as_bytes()).count() - usize::from(!is_dir);
                    line.set("--strip-components", depth.to_string());
                }
                line
            }
        };
        // fsck.erofs prints nothing if all is well.
        line.switch("--quiet");
        if self.offset > 0 {
            line.set("--offset", self.offset.to_string());
        }
        line.append(self.out);
        line.operand("--");
        line.operand(image);
        if let Some(target) = target {
            line.operand(target.path);
        }
        Ok(TranslatedLine::Run(line, ExitPolicy { usage: Some(1), ..ExitPolicy::default() }))
    }
}

/// The entry that an option selects, by its path.
struct SelectedEntry {
    path: OsString,
    is_dir: bool,
}

/// Finds an inode by its number, or by a path.
fn find_entry(
    image: &Path,
    offset: u64,
    nid: Option<Nid>,
    path: Option<OsString>,
) -> anyhow::Result<Option<SelectedEntry>> {
    if nid.is_none() && path.is_none() {
        return Ok(None);
    }
    // Once more, for the lookup only: the command that is made opens it for itself.
    let reader = ErofsReader::open(Arc::new(FileAt::open(image, offset)?), ReadOptions::default())?;
    let (nid, path) = match (nid, path) {
        (Some(nid), _) => (nid, OsString::from_vec(super::dump_erofs::path_of(&reader, nid)?)),
        (None, path) => {
            let path = path.unwrap_or_default();
            let found = sink::lookup(&reader, path.as_bytes())?;
            (found.ok_or_else(|| anyhow::anyhow!("--path {}: not found", display(Path::new(&path))))?, path)
        }
    };
    Ok(Some(SelectedEntry { path, is_dir: reader.stat(nid)?.kind == FileType::Dir }))
}

/// Returns the value of `--mode` that takes away from the permissions of entries what the umask takes away from those of new files.
fn umask_changes() -> Option<String> {
    // The mask can only be read by setting it. No other thread runs yet that could make a file in between.
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    let of = |(class, shift): (char, u32)| {
        let bits = mask.as_raw_mode() >> shift;
        let names: String =
            [(4, 'r'), (2, 'w'), (1, 'x')].iter().filter(|(bit, _)| bits & bit != 0).map(|bit| bit.1).collect();
        (!names.is_empty()).then(|| format!("{class}-{names}"))
    };
    let changes: Vec<String> = [('u', 6), ('g', 3), ('o', 0)].into_iter().filter_map(of).collect();
    (!changes.is_empty()).then(|| changes.join(","))
}

/// Fails for anything but an EROFS image, as callers expect who try one format after the other.
fn require_erofs(image: &Path, offset: u64) -> Result<(), String> {
    match magic_at(image, offset.saturating_add(MAGIC.0)) {
        Err(error) => Err(format!("{}: cannot open: {error}", display(image))),
        Ok(magic) if magic == MAGIC.1 => Ok(()),
        Ok(_) => Err(format!("{}: cannot find valid erofs superblock", display(image))),
    }
}
