//! rdsquashfs of squashfs-tools-ng: its command lines become those of `packfs list`, `cat`, `info` and `extract`, whose
//! results are printed in its lines.

mod print;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use packfs_image::image::{FileType, Image, Nid};
use packfs_image::name::display;
use packfs_image::tree::components;
use packfs_image::{AnyImage, sink, squashfs};

use super::command_line::CommandLine;
use super::options::OptionEffect::{Becomes, Ignored, Same};
use super::options::{ForeignOption, ParsedWord, flag, parse_getopt, value};
use super::{NG_VERSION, ResultPrinter, TranslatedLine, version_text};
use crate::args::{CatArgs, ExtractArgs, ImageArg, PackfsCommand};
use crate::commands::{cat, extract, open};
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::{self, say};

pub(super) static TABLE: &[ForeignOption] = &[
    value(&["--list", "-l"], Same("packfs list, for one directory")),
    value(&["--cat", "-c"], Same("packfs cat")),
    value(&["--xattr", "-x"], Same("packfs info --inode, extended attributes only")),
    value(&["--unpack-path", "-u"], Same("packfs extract --strip-components")),
    value(&["--stat", "-s"], Same("packfs info --inode")),
    flag(&["--describe", "-d"], Same("packfs list --pack-list, without times, attributes and links")),
    value(&["--unpack-root", "-p"], Same("--directory; with --describe the value of --pack-list")),
    flag(&["--no-dev", "-D"], Becomes(&["--exclude-types=bc"])),
    flag(&["--no-sock", "-S"], Becomes(&["--exclude-types=s"])),
    flag(&["--no-fifo", "-F"], Becomes(&["--exclude-types=p"])),
    flag(&["--no-slink", "-L"], Becomes(&["--exclude-types=l"])),
    flag(&["--no-empty-dir", "-E"], Becomes(&["--no-empty-dirs"])),
    flag(&["--no-sparse", "-Z"], Same("--no-sparse")),
    flag(&["--set-xattr", "-X"], Same("no --no-xattrs")),
    flag(&["--set-times", "-T"], Same("no --no-times")),
    flag(&["--chmod", "-C"], Same("no --mode")),
    flag(&["--chown", "-O"], Same("no --no-owner")),
    flag(&["--quiet", "-q"], Ignored("packfs prints no names while it unpacks")),
    flag(&["--help", "-h"], Same("prints this table")),
    flag(&["--version", "-V"], Same("prints the version")),
];

/// Permissions that entries get without `--chmod`.
const MODES: &str = "D0755,F0644";

/// Things that rdsquashfs does, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RdsquashfsTask {
    List,
    Cat,
    Xattrs,
    Stat,
    Describe,
    Unpack,
}

/// A command line, read.
#[derive(Debug, Default)]
struct RdsquashfsOptions {
    plain: Vec<OsString>,
    /// The job, and the path that it is for.
    job: Option<(RdsquashfsTask, OsString)>,
    root: Option<OsString>,
    select: CommandLine,
    no_sparse: bool,
    xattrs: bool,
    times: bool,
    modes: bool,
    owners: bool,
}

/// Translates a command line.
pub(super) fn rdsquashfs(args: Vec<OsString>) -> Result<TranslatedLine, String> {
    let mut options = RdsquashfsOptions::default();
    for word in parse_getopt(TABLE, args)? {
        let (name, value) = match word {
            ParsedWord::Plain(word) => {
                options.plain.push(word);
                continue;
            }
            ParsedWord::Becomes(made) => {
                options.select.append(made);
                continue;
            }
            ParsedWord::Option(name, values) => (name, values.into_iter().next().unwrap_or_default()),
        };
        match name {
            // The last of these counts, as in rdsquashfs.
            "--list" => options.job = Some((RdsquashfsTask::List, value)),
            "--cat" => options.job = Some((RdsquashfsTask::Cat, value)),
            "--xattr" => options.job = Some((RdsquashfsTask::Xattrs, value)),
            "--stat" => options.job = Some((RdsquashfsTask::Stat, value)),
            "--describe" => options.job = Some((RdsquashfsTask::Describe, value)),
            "--unpack-path" => options.job = Some((RdsquashfsTask::Unpack, value)),
            "--unpack-root" => options.root = Some(value),
            "--no-sparse" => options.no_sparse = true,
            "--set-xattr" => options.xattrs = true,
            "--set-times" => options.times = true,
            "--chmod" => options.modes = true,
            "--chown" => options.owners = true,
            "--version" => return Ok(version_text("rdsquashfs (squashfs-tools-ng)", NG_VERSION)),
            _ => return Ok(TranslatedLine::Help(TABLE)),
        }
    }
    options.translate()
}

impl RdsquashfsOptions {
    fn translate(mut self) -> Result<TranslatedLine, String> {
        let (job, path) =
            self.job.take().ok_or("expected one of --list, --cat, --xattr, --stat, --describe, --unpack-path")?;
        let image = self.plain.first().cloned().ok_or("expected: rdsquashfs [OPTIONS] IMAGE")?;
        // An image has no `..`, and `components` does not resolve it.
        if components(path.as_bytes()).any(|name| name == b"..") {
            return Err(format!("{}: not a path in an image: it has `..`", display(Path::new(&path))));
        }
        let inside: PathBuf =
            components(path.as_bytes()).map(|name| Path::new(std::ffi::OsStr::from_bytes(name))).collect();
        let is_root = inside.as_os_str().is_empty();
        let mut line = CommandLine::new(match job {
            RdsquashfsTask::List | RdsquashfsTask::Describe => "list",
            RdsquashfsTask::Cat => "cat",
            RdsquashfsTask::Xattrs | RdsquashfsTask::Stat => "info",
            RdsquashfsTask::Unpack => "extract",
        });
        match job {
            RdsquashfsTask::List => line.switch("--long"),
            RdsquashfsTask::Describe => {
                // The directory of `-p` stands before the paths of files.
                match &self.root {
                    Some(root) => line.set("--pack-list", root),
                    None => line.switch("--pack-list"),
                }
                line.append(std::mem::take(&mut self.select));
            }
            RdsquashfsTask::Xattrs | RdsquashfsTask::Stat => {
                line.set("--inode", if is_root { Path::new("/") } else { &inside })
            }
            RdsquashfsTask::Unpack => self.add_extraction(inside.components().count(), &mut line),
            RdsquashfsTask::Cat => {}
        }
        line.operand("--");
        line.operand(image);
        // Only commands that take paths get one: `info` has it as an option, and a root needs none.
        match job {
            // The root keeps its attributes.
            RdsquashfsTask::Unpack if is_root => line.operand("*"),
            RdsquashfsTask::Unpack | RdsquashfsTask::Cat | RdsquashfsTask::List if !is_root => line.operand(&inside),
            _ => {}
        }
        Ok(TranslatedLine::Show(line, Box::new(RdsquashfsJob { job, path: inside, prefix: self.root })))
    }

    /// Adds the options of `packfs extract` for a path of this many components.
    fn add_extraction(&mut self, depth: usize, line: &mut CommandLine) {
        // Without `-p` it unpacks here.
        line.set("--directory", self.root.as_deref().unwrap_or(".".as_ref()));
        line.switch("--quiet");
        line.append(std::mem::take(&mut self.select));
        line.switch_if(self.no_sparse, "--no-sparse");
        line.switch_if(!self.xattrs, "--no-xattrs");
        line.switch_if(!self.times, "--no-times");
        if !self.modes {
            line.set("--mode", MODES);
        }
        line.switch_if(!self.owners, "--no-owner");
        // An empty image has nothing that `*` matches.
        line.switch_if(depth == 0, "--ignore-missing");
        if depth > 0 {
            line.set("--strip-components", depth.to_string());
        }
    }
}

/// A job of rdsquashfs.
#[derive(Debug)]
struct RdsquashfsJob {
    job: RdsquashfsTask,
    /// Without a slash in front.
    path: PathBuf,
    prefix: Option<OsString>,
}

impl ResultPrinter for RdsquashfsJob {
    fn print_results(&self, command: PackfsCommand) -> Result<u8> {
        match command {
            PackfsCommand::List(args) if self.job == RdsquashfsTask::Describe => {
                let image = squashfs(&args.image)?;
                // The reader of the selection is the same that `packfs list` uses.
                let select = args.select.resolve()?;
                output::write_result(|out| print::describe(&image, &select, self.prefix.as_deref(), out))?;
            }
            PackfsCommand::List(args) => {
                let image = squashfs(&args.image)?;
                let nid = self.find(&*image)?;
                output::write_result(|out| print::list(&image, nid, self.name(), out))?;
            }
            PackfsCommand::Info(args) => {
                let image = squashfs(&args.image)?;
                let nid = self.find(&*image)?;
                output::write_result(|out| match self.job {
                    RdsquashfsTask::Xattrs => print::xattrs(&image, nid, out),
                    _ => print::stat(&image, nid, self.name(), out),
                })?;
            }
            PackfsCommand::Cat(args) => self.cat(&args)?,
            PackfsCommand::Extract(args) => return self.unpack(args),
            _ => return Err(UsageError("another command".into()).into()),
        }
        Ok(0)
    }
}

/// Opens a SquashFS image.
fn squashfs(arg: &ImageArg) -> Result<Box<squashfs::SquashfsReader>> {
    match open::image(arg)? {
        AnyImage::Squashfs(image) => Ok(image),
        AnyImage::Erofs(_) => bail!("{}: not a SquashFS image", display(&arg.path)),
    }
}

impl RdsquashfsJob {
    /// Returns the inode at the path. Links are not followed.
    fn find(&self, image: &dyn Image) -> Result<Nid> {
        let found = sink::lookup(image, self.path.as_os_str().as_bytes())?;
        found.with_context(|| format!("{}: no such path in the image", display(&self.path)))
    }

    fn name(&self) -> &[u8] {
        self.path.file_name().map(OsStrExt::as_bytes).unwrap_or_default()
    }

    fn cat(&self, args: &CatArgs) -> Result<()> {
        let image = squashfs(&args.image)?;
        let FileType::File { .. } = image.stat(self.find(&*image)?)?.kind else {
            bail!("{}: not a regular file", display(&self.path))
        };
        // `cat` opens the image again.
        drop(image);
        cat::run(args).map(drop)
    }

    /// Unpacks what is in a directory, or a single entry.
    fn unpack(&self, mut args: ExtractArgs) -> Result<u8> {
        let image = squashfs(&args.image)?;
        if image.stat(self.find(&*image)?)?.kind != FileType::Dir {
            // The name of a single entry stays.
            args.strip_components -= 1;
        }
        drop(image);
        match extract::run(&args)? {
            CommandOutcome::Done => Ok(0),
            _ => {
                say(format_args!("rdsquashfs: {}: not all entries were unpacked", display(&args.directory)));
                Ok(1)
            }
        }
    }
}
