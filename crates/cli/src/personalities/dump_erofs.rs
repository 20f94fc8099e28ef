//! dump.erofs: its command lines become those of `packfs info` and `packfs cat`, whose facts are printed in its lines.

use std::ffi::OsString;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

use anyhow::{Result, bail};
use packfs_image::erofs::{Compat, ErofsCompression, ErofsReader, Incompat, InodeFacts, Kernel, Layout, uuid_text};
use packfs_image::image::{FileType, Image, Nid, Stat};
use packfs_image::placement::{Area, PlacedPiece};
use packfs_image::sink::{self, Walk};
use packfs_image::{AnyImage, Error};

use super::command_line::CommandLine;
use super::options::OptionEffect::{Becomes, Refused, Same};
use super::options::{self, ForeignOption, ParsedWord, at_least, flag, parse_getopt, value};
use super::unsquashfs::rows::{format_time, time_zone};
use super::{ResultPrinter, TranslatedLine, dump_stats, version_text};
use crate::args::{InfoArgs, PackfsCommand};
use crate::commands::list::mode::mode_text;
use crate::commands::open;
use crate::output;
use crate::output::failure::{ExitPolicy, UsageError};

/// Version whose options these are.
const VERSION: &str = "1.9.4";
const MAGIC: &str = "0xE0F5E1E2";
const COMPAT: [(Compat, &str); 6] = [
    (Compat::CHECKSUM, "sb_csum"),
    (Compat::MTIME, "mtime"),
    (Compat::XATTR_FILTER, "xattr_filter"),
    (Compat::SHARED_XATTRS_IN_METABOX, "shared_ea_in_metabox"),
    (Compat::PLAIN_XATTR_PREFIXES, "plain_xattr_pfx"),
    (Compat::SHARED_INODES, "ishare_xattrs"),
];
const INCOMPAT: [(Incompat, &str); 9] = [
    (Incompat::ZERO_PADDING, "lz4_0padding"),
    (Incompat::BIG_CLUSTERS, "compr_cfgs big_pcluster"),
    (Incompat::CHUNKED_FILES, "chunked_file"),
    (Incompat::DEVICES_OR_SECOND_HEAD, "device_table"),
    (Incompat::TAIL_PACKING, "ztailpacking"),
    (Incompat::FRAGMENTS_OR_DEDUPE, "fragments dedupe"),
    (Incompat::XATTR_PREFIXES, "xattr_prefixes"),
    (Incompat::BITS_48, "48bit"),
    (Incompat::METABOX, "metabox"),
];

pub(super) static TABLE: &[ForeignOption] = &[
    flag(&["-V", "--version"], Same("prints the version")),
    flag(&["-h", "--help"], Same("prints this table")),
    flag(&["-S"], Same("counts of files; packfs info --stats tells what takes up space")),
    flag(&["-e"], Same("packfs info --inode")),
    flag(&["-s"], Same("packfs info")),
    flag(&["--blkid-udev"], Refused("blkid -p -o udev prints it")),
    value(&["--device"], Becomes(&["--device={}"])),
    flag(&["--ls"], Same("packfs list, for one directory")),
    flag(&["--cat"], Same("packfs cat")),
    options::number(&["--nid"], 0..=u64::MAX, Same("an inode by its number")),
    at_least(&["--offset"], 0, Becomes(&["--offset={}"])),
    value(&["--path"], Same("a path in the image")),
];

/// Facts to print.
#[derive(Debug, Default)]
struct RequestedFacts {
    superblock: bool,
    statistics: bool,
    extents: bool,
    entries: bool,
    nid: Option<Nid>,
    path: Option<OsString>,
}

/// A command line, read.
#[derive(Debug, Default)]
struct DumpOptions {
    plain: Vec<OsString>,
    /// Options of packfs.
    out: CommandLine,
    facts: RequestedFacts,
    /// True if the contents of a file are printed instead of facts.
    cat: bool,
    print: Option<&'static str>,
}

/// Translates a command line.
pub(super) fn dump_erofs(args: Vec<OsString>) -> Result<TranslatedLine, String> {
    let mut options = DumpOptions::default();
    for word in parse_getopt(TABLE, args)? {
        // Later options may change what earlier ones mean, so the line is translated when it is complete.
        match word {
            ParsedWord::Plain(word) => options.plain.push(word),
            ParsedWord::Becomes(made) => options.out.append(made),
            ParsedWord::Option(name, values) => {
                options.take_option(name, values.into_iter().next().unwrap_or_default())?;
            }
        }
        // At once, as dump.erofs does: what comes after it is not even checked.
        match options.print {
            Some("-V") => return Ok(version_text("dump.erofs (erofs-utils)", VERSION)),
            Some(_) => return Ok(TranslatedLine::Help(TABLE)),
            None => {}
        }
    }
    options.translate()
}

impl DumpOptions {
    fn take_option(&mut self, name: &'static str, value: OsString) -> Result<(), String> {
        let text = value.to_str().unwrap_or_default();
        match name {
            "-V" | "-h" => self.print = Some(name),
            "-e" => self.facts.extents = true,
            "-s" => self.facts.superblock = true,
            "-S" => self.facts.statistics = true,
            "--ls" => self.facts.entries = true,
            "--cat" => self.cat = true,
            "--nid" => self.facts.nid = Some(Nid(text.parse().map_err(|_| format!("invalid NID {text}"))?)),
            _ => self.facts.path = Some(value),
        }
        Ok(())
    }

    fn translate(self) -> Result<TranslatedLine, String> {
        let DumpOptions { plain, out, mut facts, cat, .. } = self;
        let [image] = &plain[..] else { return Err("expected: dump.erofs [OPTIONS] IMAGE".into()) };
        let named = facts.nid.is_some() || facts.path.is_some();
        if (facts.extents || facts.entries || cat) && !named {
            return Err("-e, --ls and --cat need an inode: --path or --nid".into());
        }
        if cat {
            let path = facts.path.ok_or("--cat: packfs cat takes a path: --path")?;
            let mut line = CommandLine::new("cat");
            line.append(out);
            ["--".into(), image.clone(), path].into_iter().for_each(|word: OsString| line.operand(word));
            return Ok(TranslatedLine::Run(line, ExitPolicy { usage: Some(1), ..ExitPolicy::default() }));
        }
        // As dump.erofs does without options.
        facts.superblock |= !named && !facts.statistics;
        let mut line = CommandLine::new("info");
        line.append(out);
        // A NID is looked up when the results are printed. packfs has no option for it.
        if let Some(path) = &facts.path {
            line.set("--inode", path);
        }
        line.operand("--");
        line.operand(image);
        Ok(TranslatedLine::Show(line, Box::new(facts)))
    }
}

impl ResultPrinter for RequestedFacts {
    fn print_results(&self, command: PackfsCommand) -> Result<u8> {
        let PackfsCommand::Info(args) = command else { return Err(UsageError("another command".into()).into()) };
        let opened = open::image(&args.image)?;
        let AnyImage::Erofs(image) = &opened else { bail!("cannot find valid erofs superblock") };
        output::write_result(|out| self.print(&args, &opened, image, out))?;
        Ok(0)
    }
}

impl RequestedFacts {
    fn print(&self, args: &InfoArgs, opened: &AnyImage, image: &ErofsReader, out: &mut impl Write) -> Result<()> {
        if self.superblock {
            superblock(image, out)?;
        }
        if self.statistics {
            dump_stats::print(image, out)?;
        }
        let inode = match (self.nid, &args.inode) {
            (Some(nid), _) => Some((nid, path_of(image, nid)?)),
            (None, Some(path)) => {
                let path = path.as_os_str().as_bytes();
                let nid = sink::lookup(image, path)?;
                let missing = || Error::NotFound { path: args.inode.clone().unwrap_or_default() };
                Some((nid.ok_or_else(missing)?, normal(path)))
            }
            (None, None) => None,
        };
        inode.map_or(Ok(()), |(nid, path)| self.inode(opened, image, nid, &path, out))
    }

    /// Prints the facts of an inode.
    fn inode(&self, opened: &AnyImage, image: &ErofsReader, nid: Nid, path: &[u8], out: &mut impl Write) -> Result<()> {
        let stat = image.stat(nid)?;
        let facts = image.facts(nid)?;
        let block = u64::from(image.superblock().block_size);
        let stored = facts.compressed_blocks.map_or(facts.size, |blocks| blocks.saturating_mul(block));
        #[allow(clippy::cast_precision_loss, reason = "two decimals of it are shown")]
        let ratio = match facts.size {
            // As the C library prints a division by 0.
            0 => "-nan".to_owned(),
            size => format!("{:.2}", stored as f64 * 100.0 / size as f64),
        };
        let Stat { mode: bits, uid, gid, mtime, nlink, .. } = stat;
        write!(out, "Path : ")?;
        output::write_name(out, path)?;
        writeln!(out, "\nSize: {}  On-disk size: {stored}  {}", facts.size, type_name(&stat.kind))?;
        writeln!(
            out,
            "NID: {}   Links: {nlink}   Layout: {}   Compression ratio: {ratio}%",
            nid.0, facts.layout as u8
        )?;
        writeln!(out, "Inode size: {}   Xattr size: {}", if facts.extended { 64 } else { 32 }, facts.xattr_bytes)?;
        // It leaves out set-user-ID, set-group-ID and the sticky bit.
        let bits = bits & 0o777;
        let permissions = mode_text(&stat.kind, bits);
        writeln!(out, "Uid: {uid}   Gid: {gid}  Access: {bits:04o}/{}", &permissions.as_str()[1..])?;
        let time = format_time(mtime.secs, &time_zone(false), "%Y-%m-%d %H:%M:%S")?;
        writeln!(out, "Timestamp: {time}.{:09}", mtime.nanos)?;
        if self.entries {
            entries(image, nid, out)?;
        }
        if self.extents {
            extents(opened, image, nid, path, &facts, out)?;
        }
        Ok(())
    }
}

fn superblock(image: &ErofsReader, out: &mut impl Write) -> Result<()> {
    let superblock = image.superblock();
    let block = u64::from(superblock.block_size);
    let mut line = |what: &str, value: String| writeln!(out, "{:<45} {value}", format!("{what}:"));
    line("Filesystem magic number", MAGIC.into())?;
    line("Filesystem blocksize", block.to_string())?;
    // It counts those of all devices.
    let blocks = superblock.devices.iter().fold(superblock.blocks, |sum, device| sum.saturating_add(device.blocks));
    line("Filesystem blocks", blocks.to_string())?;
    line("Filesystem inode metadata start block", (superblock.metadata_start / block).to_string())?;
    line("Filesystem shared xattr metadata start block", (superblock.xattr_start / block).to_string())?;
    line("Filesystem root nid", superblock.root.0.to_string())?;
    for (what, nid) in [("packed", superblock.packed), ("metabox", superblock.metabox)] {
        if let Some(nid) = nid {
            line(&format!("Filesystem {what} nid"), nid.0.to_string())?;
        }
    }
    // The feature bit says whether the superblock has a list of algorithms or one distance of LZ4 in that
    // place.
    if superblock.incompat.contains(Incompat::BIG_CLUSTERS) {
        let names: Vec<_> = superblock.compression.iter().map(ErofsCompression::name).collect();
        line("Filesystem compr_algs", names.join(", "))?;
    } else {
        let distance = superblock.compression.iter().find_map(|one| match one {
            ErofsCompression::Lz4 { max_distance, .. } => Some(*max_distance),
            _ => None,
        });
        line("Filesystem lz4_max_distance", distance.unwrap_or(0).to_string())?;
    }
    line("Filesystem sb_size", superblock.len.to_string())?;
    line("Filesystem inode count", superblock.inodes.to_string())?;
    line("Filesystem created", format_time(superblock.build_time, &time_zone(false), "%a %b %e %H:%M:%S %Y")?)?;
    let compat = COMPAT.iter().filter(|(bit, _)| superblock.compat.contains(*bit)).map(|(_, name)| *name);
    line("Filesystem compatible features", spaced(compat))?;
    let incompat = INCOMPAT.iter().filter(|(bit, _)| superblock.incompat.contains(*bit)).map(|(_, name)| *name);
    line("Filesystem incompatible features", spaced(incompat))?;
    line("Filesystem UUID", uuid_text(superblock.uuid))?;
    // dump.erofs has no line for it otherwise.
    if !superblock.incompat.is_empty() {
        line("Required upstream Linux kernel version", Kernel::needed(&superblock.features()).to_string())?;
    }
    Ok(())
}

/// Joins names with a blank after each.
fn spaced<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.flat_map(|name| [name, " "]).collect()
}

/// Prints the entries of a directory, with itself and its parent.
fn entries(image: &ErofsReader, dir: Nid, out: &mut impl Write) -> Result<()> {
    // As names, so that `.` and `..` are sorted among the others, as they are in the image.
    let mut all: Vec<(Box<[u8]>, Nid)> =
        image.read_dir(dir)?.into_iter().map(|entry| (entry.name, entry.nid)).collect();
    all.push((b".".as_slice().into(), dir));
    // The root is its own parent there, too.
    all.extend(image.parent(dir)?.map(|parent| (b"..".as_slice().into(), parent)));
    all.sort();
    writeln!(out, "\n       NID TYPE  FILENAME")?;
    for (name, nid) in all {
        write!(out, "{:>10} {:>4}  ", nid.0, number(&image.stat(nid)?.kind))?;
        output::write_name(out, &name)?;
        writeln!(out)?;
    }
    Ok(())
}

/// Prints the extents of an inode.
fn extents(
    opened: &AnyImage,
    image: &ErofsReader,
    nid: Nid,
    path: &[u8],
    facts: &InodeFacts,
    out: &mut impl Write,
) -> Result<()> {
    writeln!(out, "\n Ext:   logical offset   |  length :     physical offset    |  length")?;
    let block = u64::from(image.superblock().block_size);
    let mut rows = ExtentRows { out, count: 0 };
    let mut written = Ok(());
    // Fragments come last, in as many pieces as the packed inode has there.
    let mut fragment: Option<(u64, u64)> = None;
    opened.placement(nid, &mut |placed| {
        if placed.fragment.is_some() {
            fragment.get_or_insert((placed.offset, 0)).1 += placed.len;
        } else {
            written = rows.pieces(&placed, facts, block);
        }
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    if let Some((offset, len)) = fragment {
        rows.row(offset, len, (0, 0), None)?;
    }
    let count = rows.count;
    output::write_name(out, path)?;
    writeln!(out, ": {count} extents found")?;
    Ok(())
}

/// The table of extents.
struct ExtentRows<'o, W> {
    out: &'o mut W,
    count: u64,
}

impl<W: Write> ExtentRows<'_, W> {
    /// Prints a piece: a row for each chunk; data that lies in blocks has their length.
    fn pieces(&mut self, placed: &PlacedPiece, facts: &InodeFacts, block: u64) -> io::Result<()> {
        let PlacedPiece { offset, len, .. } = *placed;
        let whole = match facts.layout {
            // Their last block belongs to the file alone, so that its rest counts.
            Layout::Plain | Layout::Chunks => len.next_multiple_of(block),
            _ => len,
        };
        let Some(stored) = placed.stored else { return self.row(offset, whole, (0, 0), None) };
        let device = if let Area::Device(number) = stored.area { Some(number) } else { None };
        let Some(chunk) = facts.chunk_size else {
            let stored_len = if facts.layout == Layout::Plain { whole } else { stored.len };
            return self.row(offset, whole, (stored.position, stored_len), device);
        };
        let mut at = 0;
        // Chunks are rows of their own, even if they follow each other: so dump.erofs maps them.
        while at < whole {
            let len = chunk.min(whole - at);
            self.row(offset + at, len, (stored.position + at, len), device)?;
            at += len;
        }
        Ok(())
    }

    fn row(&mut self, offset: u64, len: u64, (position, stored): (u64, u64), device: Option<u16>) -> io::Result<()> {
        let end = offset.saturating_add(len);
        let stored_end = position.saturating_add(stored);
        write!(self.out, "{:>4}: {offset:>8}..{end:>8} | {len:>7} : ", self.count)?;
        write!(self.out, "{position:>10}..{stored_end:>10} | {stored:>7}")?;
        self.count += 1;
        match device {
            Some(number) => writeln!(self.out, "  # device {number}"),
            None => writeln!(self.out),
        }
    }
}

/// Returns the first path of an inode.
pub(super) fn path_of(image: &ErofsReader, nid: Nid) -> Result<Vec<u8>> {
    // It has no entry, so that a walk would not find it.
    if image.superblock().packed == Some(nid) {
        return Ok(b"(packed file)".to_vec());
    }
    // EROFS stores parents of directories only, so the path of anything else is searched for.
    let mut walk = Walk::new(image, &[])?;
    while let Some(visit) = walk.step()? {
        if visit.nid == nid {
            return Ok(normal(visit.path));
        }
    }
    bail!("--nid {}: no entry of the image has this number", nid.0)
}

/// Returns a path from the root, without superfluous slashes.
fn normal(path: &[u8]) -> Vec<u8> {
    let parts: Vec<_> = packfs_image::tree::components(path).collect();
    [b"/".as_slice(), &parts.join(&b"/"[..])].concat()
}

fn type_name(kind: &FileType) -> &'static str {
    match kind {
        FileType::File { .. } => "regular file",
        FileType::Dir => "directory",
        FileType::Char(_) => "char dev",
        FileType::Block(_) => "block dev",
        FileType::Fifo => "FIFO file",
        FileType::Socket => "SOCK file",
        FileType::Symlink { .. } => "symlink file",
    }
}

/// Returns the number of a type in directory entries.
fn number(kind: &FileType) -> u8 {
    match kind {
        FileType::File { .. } => 1,
        FileType::Dir => 2,
        FileType::Char(_) => 3,
        FileType::Block(_) => 4,
        FileType::Fifo => 5,
        FileType::Socket => 6,
        FileType::Symlink { .. } => 7,
    }
}
