//! fsck.erofs: its command lines become those of `packfs check` and `packfs extract`.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use packfs_blocks::io::FileAt;
use packfs_image::erofs::{ReadOptions, Reader};
use packfs_image::image::{FileType, Image, Nid};
use packfs_image::name::display;
use packfs_image::sink;
use packfs_image::tree::components;

use super::options::Does::{Becomes, Ignored, Same};
use super::options::{Opt, Takes, Word, flag, getopt, value};
use super::{Todo, version};
use crate::args::value::size;
use crate::output::failure::Manner;

/// Version whose options these are.
const VERSION: &str = "1.9.4";
/// Offset of the superblock, and its magic number.
const MAGIC: (u64, [u8; 4]) = (1024, 0xe0f5_e1e2_u32.to_le_bytes());

pub(super) static TABLE: &[Opt] = &[
    flag(&["-V", "--version"], Same("prints the version")),
    flag(&["-h", "--help"], Same("prints this table")),
    value(&["-d"], Ignored("findings are always told")),
    flag(&["-p"], Ignored("fsck.erofs prints the ratio from -d3 on; packfs info --stats tells sizes")),
    value(&["--device"], Becomes(&["--device", "{}"])),
    Opt { names: &["--extract"], takes: Takes::Optional, does: Same("packfs extract; without a value packfs check") },
    value(&["--offset"], Same("--offset")),
    value(&["--nid"], Same("as --path, by the number of the inode")),
    value(&["--path"], Same("a path, with --strip-components")),
    flag(&["--no-sbcrc"], Ignored("a wrong checksum stays damage; other images are read as without it")),
    flag(&["--xattr-inode-digest"], Ignored("packfs always compares files with digests that an image has")),
    flag(&["--xattrs"], Same("no --no-xattrs")),
    flag(&["--no-xattrs"], Same("--no-xattrs")),
    flag(&["-a", "-A", "-y"], Ignored("it means nothing to fsck.erofs, either")),
    flag(&["--force"], Same("packfs extracts into the root if it is told to")),
    flag(&["--overwrite"], Same("--force")),
    flag(&["--preserve", "--preserve-owner"], Same("no --no-owner")),
    flag(&["--no-preserve-owner"], Same("--no-owner")),
    flag(&["--preserve-perms"], Same("the default")),
    flag(&["--no-preserve"], Same("--no-owner, and as --no-preserve-perms")),
    flag(&["--no-preserve-perms"], Same("--mode, without what the umask takes away")),
];

/// Translates a command line.
pub(super) fn fsck_erofs(args: Vec<OsString>) -> Result<Todo, String> {
    let (mut plain, mut out, mut extract, mut path) = (Vec::new(), Vec::new(), None, None);
    let mut nid = None;
    let (mut xattrs, mut offset, mut options) = (false, 0, Vec::<OsString>::new());
    // An option that is for extraction.
    let mut extraction = None;
    for word in getopt(TABLE, args)? {
        let (name, value) = match word {
            Word::Plain(word) => {
                plain.push(word);
                continue;
            }
            Word::Becomes(words) => {
                out.extend(words);
                continue;
            }
            Word::Option(name, values) => (name, values.into_iter().next().unwrap_or_default()),
        };
        match name {
            "-V" => return Ok(version("fsck.erofs (erofs-utils)", VERSION)),
            "-h" => return Ok(Todo::Help(TABLE)),
            "--extract" => extract = (!value.is_empty()).then_some(value),
            "--offset" => {
                let text = value.to_str().unwrap_or_default();
                offset = size(text).map_err(|why| format!("{name}: {why}"))?;
                out.push(format!("--offset={offset}").into());
            }
            "--path" => (path, nid) = (Some(value), None),
            "--nid" => {
                let text = value.to_str().unwrap_or_default();
                (path, nid) = (None, Some(Nid(text.parse().map_err(|_| format!("invalid NID {text}"))?)));
            }
            "--xattrs" => xattrs = true,
            "--no-xattrs" => xattrs = false,
            "--force" => extraction = Some("--force"),
            "--overwrite" => {
                options.push("--force".into());
                extraction = Some("--overwrite");
            }
            "--preserve" | "--preserve-perms" => {
                if name == "--preserve" {
                    options.retain(|option| option != "--no-owner");
                } else {
                    options.retain(|option| !option.as_encoded_bytes().starts_with(b"--mode="));
                }
                extraction = Some("--[no-]preserve[-owner/-perms]");
            }
            _ => {
                options.extend((name != "--no-preserve-perms").then(|| "--no-owner".into()));
                options.extend((name != "--no-preserve-owner").then(without_umask).flatten());
                extraction = Some("--[no-]preserve[-owner/-perms]");
            }
        }
    }
    let [image] = &plain[..] else { return Err("expected: fsck.erofs [OPTIONS] IMAGE".into()) };
    is_erofs(Path::new(image), offset)?;
    let target = target(Path::new(image), offset, nid, path);
    let target = target.map_err(|error| format!("{}: {error}", display(Path::new(image))))?;
    let target = target.filter(|target| components(target.path.as_bytes()).next().is_some());
    let mut line: Vec<OsString> = Vec::new();
    match extract {
        None if target.is_some() => {
            return Err("--path, --nid: packfs checks whole images; with --extract=DIR it takes a path".into());
        }
        None if extraction.is_some() => {
            return Err(format!("{} must be used together with --extract=DIR", extraction.unwrap_or_default()));
        }
        None => line.push("check".into()),
        Some(dir) => {
            line.extend(["extract".into(), "--directory".into(), dir]);
            line.append(&mut options);
            if !xattrs {
                line.push("--no-xattrs".into());
            }
            if let Some(Target { path, is_dir }) = &target {
                // What is below a directory, or the file itself.
                let depth = components(path.as_bytes()).count() - usize::from(!is_dir);
                line.push(format!("--strip-components={depth}").into());
            }
        }
    }
    line.push("--quiet".into());
    line.append(&mut out);
    line.extend(["--".into(), image.clone()]);
    line.extend(target.map(|target| target.path));
    Ok(Todo::Run(line, Manner { usage: Some(1), ..Manner::default() }))
}

/// The entry that an option selects, by its path.
struct Target {
    path: OsString,
    is_dir: bool,
}

/// Finds an inode by its number, or by a path.
fn target(image: &Path, offset: u64, nid: Option<Nid>, path: Option<OsString>) -> anyhow::Result<Option<Target>> {
    if nid.is_none() && path.is_none() {
        return Ok(None);
    }
    let reader = Reader::open(Arc::new(FileAt::open(image, offset)?), ReadOptions::default())?;
    let (nid, path) = match (nid, path) {
        (Some(nid), _) => (nid, OsString::from_vec(super::dump_erofs::path_of(&reader, nid)?)),
        (None, path) => {
            let path = path.unwrap_or_default();
            let found = sink::lookup(&reader, path.as_bytes())?;
            (found.ok_or_else(|| anyhow::anyhow!("--path {}: not found", display(Path::new(&path))))?, path)
        }
    };
    Ok(Some(Target { path, is_dir: reader.stat(nid)?.kind == FileType::Dir }))
}

/// Returns the option that takes away from the permissions of entries what the umask takes away from those of new files.
fn without_umask() -> Option<OsString> {
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    let of = |(class, shift): (char, u32)| {
        let bits = mask.as_raw_mode() >> shift;
        let names: String =
            [(4, 'r'), (2, 'w'), (1, 'x')].iter().filter(|(bit, _)| bits & bit != 0).map(|bit| bit.1).collect();
        (!names.is_empty()).then(|| format!("{class}-{names}"))
    };
    let changes: Vec<String> = [('u', 6), ('g', 3), ('o', 0)].into_iter().filter_map(of).collect();
    (!changes.is_empty()).then(|| format!("--mode={}", changes.join(",")).into())
}

/// Fails for anything but an EROFS image, as callers expect who try one format after the other.
fn is_erofs(image: &Path, offset: u64) -> Result<(), String> {
    let mut magic = [0; 4];
    let read = File::open(image).and_then(|file| file.read_at(&mut magic, offset.saturating_add(MAGIC.0)));
    match read {
        Err(error) => Err(format!("{}: cannot open: {error}", display(image))),
        Ok(_) if magic == MAGIC.1 => Ok(()),
        Ok(_) => Err(format!("{}: cannot find valid erofs superblock", display(image))),
    }
}
