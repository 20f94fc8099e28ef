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
use super::options::Does::{Becomes, Ignored, Same};
use super::options::{Opt, Word, flag, getopt, value};
use super::{NG_VERSION, Show, Todo, version};
use crate::args::{Cat, Command, Extract, ImageArg};
use crate::commands::{cat, extract, open};
use crate::output::failure::{Outcome, Usage};
use crate::output::{self, say};

pub(super) static TABLE: &[Opt] = &[
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
enum Job {
    List,
    Cat,
    Xattrs,
    Stat,
    Describe,
    Unpack,
}

/// A command line, read.
#[derive(Debug, Default)]
struct Asked {
    plain: Vec<OsString>,
    /// The job, and the path that it is for.
    job: Option<(Job, OsString)>,
    root: Option<OsString>,
    select: CommandLine,
    no_sparse: bool,
    xattrs: bool,
    times: bool,
    modes: bool,
    owners: bool,
}

/// Translates a command line.
pub(super) fn rdsquashfs(args: Vec<OsString>) -> Result<Todo, String> {
    let mut asked = Asked::default();
    for word in getopt(TABLE, args)? {
        let (name, value) = match word {
            Word::Plain(word) => {
                asked.plain.push(word);
                continue;
            }
            Word::Becomes(options) => {
                asked.select.append(options);
                continue;
            }
            Word::Option(name, values) => (name, values.into_iter().next().unwrap_or_default()),
        };
        match name {
            "--list" => asked.job = Some((Job::List, value)),
            "--cat" => asked.job = Some((Job::Cat, value)),
            "--xattr" => asked.job = Some((Job::Xattrs, value)),
            "--stat" => asked.job = Some((Job::Stat, value)),
            "--describe" => asked.job = Some((Job::Describe, value)),
            "--unpack-path" => asked.job = Some((Job::Unpack, value)),
            "--unpack-root" => asked.root = Some(value),
            "--no-sparse" => asked.no_sparse = true,
            "--set-xattr" => asked.xattrs = true,
            "--set-times" => asked.times = true,
            "--chmod" => asked.modes = true,
            "--chown" => asked.owners = true,
            "--version" => return Ok(version("rdsquashfs (squashfs-tools-ng)", NG_VERSION)),
            _ => return Ok(Todo::Help(TABLE)),
        }
    }
    asked.todo()
}

impl Asked {
    fn todo(mut self) -> Result<Todo, String> {
        let (job, path) =
            self.job.take().ok_or("expected one of --list, --cat, --xattr, --stat, --describe, --unpack-path")?;
        let image = self.plain.first().cloned().ok_or("expected: rdsquashfs [OPTIONS] IMAGE")?;
        if components(path.as_bytes()).any(|name| name == b"..") {
            return Err(format!("{}: not a path in an image: it has `..`", display(Path::new(&path))));
        }
        let inside: PathBuf =
            components(path.as_bytes()).map(|name| Path::new(std::ffi::OsStr::from_bytes(name))).collect();
        let is_root = inside.as_os_str().is_empty();
        let mut line = CommandLine::new(match job {
            Job::List | Job::Describe => "list",
            Job::Cat => "cat",
            Job::Xattrs | Job::Stat => "info",
            Job::Unpack => "extract",
        });
        match job {
            Job::List => line.switch("--long"),
            Job::Describe => {
                match &self.root {
                    Some(root) => line.set("--pack-list", root),
                    None => line.switch("--pack-list"),
                }
                line.append(std::mem::take(&mut self.select));
            }
            Job::Xattrs | Job::Stat => line.set("--inode", if is_root { Path::new("/") } else { &inside }),
            Job::Unpack => self.add_extraction(inside.components().count(), &mut line),
            Job::Cat => {}
        }
        line.operand("--");
        line.operand(image);
        match job {
            // The root keeps its attributes.
            Job::Unpack if is_root => line.operand("*"),
            Job::Unpack | Job::Cat | Job::List if !is_root => line.operand(&inside),
            _ => {}
        }
        Ok(Todo::Show(line, Box::new(Work { job, path: inside, prefix: self.root })))
    }

    /// Adds the options of `packfs extract` for a path of this many components.
    fn add_extraction(&mut self, depth: usize, line: &mut CommandLine) {
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
struct Work {
    job: Job,
    /// Without a slash in front.
    path: PathBuf,
    prefix: Option<OsString>,
}

impl Show for Work {
    fn show(&self, command: Command) -> Result<u8> {
        match command {
            Command::List(args) if self.job == Job::Describe => {
                let image = squashfs(&args.image)?;
                let select = args.select.resolve()?;
                output::write_result(|out| print::describe(&image, &select, self.prefix.as_deref(), out))?;
            }
            Command::List(args) => {
                let image = squashfs(&args.image)?;
                let nid = self.find(&*image)?;
                output::write_result(|out| print::list(&image, nid, self.name(), out))?;
            }
            Command::Info(args) => {
                let image = squashfs(&args.image)?;
                let nid = self.find(&*image)?;
                output::write_result(|out| match self.job {
                    Job::Xattrs => print::xattrs(&image, nid, out),
                    _ => print::stat(&image, nid, self.name(), out),
                })?;
            }
            Command::Cat(args) => self.cat(&args)?,
            Command::Extract(args) => return self.unpack(args),
            _ => return Err(Usage("another command".into()).into()),
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

impl Work {
    /// Returns the inode at the path. Links are not followed.
    fn find(&self, image: &dyn Image) -> Result<Nid> {
        let found = sink::lookup(image, self.path.as_os_str().as_bytes())?;
        found.with_context(|| format!("{}: no such path in the image", display(&self.path)))
    }

    fn name(&self) -> &[u8] {
        self.path.file_name().map(OsStrExt::as_bytes).unwrap_or_default()
    }

    fn cat(&self, args: &Cat) -> Result<()> {
        let image = squashfs(&args.image)?;
        let FileType::File { .. } = image.stat(self.find(&*image)?)?.kind else {
            bail!("{}: not a regular file", display(&self.path))
        };
        drop(image);
        cat::run(args).map(drop)
    }

    /// Unpacks what is in a directory, or a single entry.
    fn unpack(&self, mut args: Extract) -> Result<u8> {
        let image = squashfs(&args.image)?;
        if image.stat(self.find(&*image)?)?.kind != FileType::Dir {
            args.strip_components -= 1;
        }
        drop(image);
        match extract::run(&args)? {
            Outcome::Done => Ok(0),
            _ => {
                say(format_args!("rdsquashfs: {}: not all entries were unpacked", display(&args.directory)));
                Ok(1)
            }
        }
    }
}
