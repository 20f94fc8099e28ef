//! sqfs2tar of squashfs-tools-ng: its command lines become those of `packfs tar`.

use std::ffi::OsString;
use std::path::Path;

use packfs_image::name::display;

use super::command_line::CommandLine;
use super::options::OptionEffect::{Becomes, Same};
use super::options::{ForeignOption, ParsedWord, flag, parse_getopt, value};
use super::{NG_VERSION, TranslatedLine, version_text};
use crate::output::failure::ExitPolicy;

pub(super) static TABLE: &[ForeignOption] = &[
    value(&["--compressor", "-c"], Becomes(&["--compress={}"])),
    value(&["--subdir", "-d"], Same("a path; one alone with --strip-components")),
    value(&["--root-becomes", "-r"], Becomes(&["--prefix={}"])),
    flag(&["--keep-as-dir", "-k"], Same("no --strip-components")),
    flag(&["--no-xattr", "-X"], Becomes(&["--no-xattrs"])),
    flag(&["--no-hard-links", "-L"], Becomes(&["--no-hard-links"])),
    flag(&["--no-skip", "-s"], Becomes(&["--strict"])),
    flag(&["--help", "-h"], Same("prints this table")),
    flag(&["--version", "-V"], Same("prints the version")),
];

/// Translates a command line.
pub(super) fn sqfs2tar(args: Vec<OsString>) -> Result<TranslatedLine, String> {
    let mut plain = Vec::new();
    let mut line = CommandLine::new("tar");
    let mut dirs = Vec::new();
    let mut keeps = false;
    for word in parse_getopt(TABLE, args)? {
        match word {
            ParsedWord::Plain(word) => plain.push(word),
            ParsedWord::Becomes(options) => line.append(options),
            ParsedWord::Option("--subdir", values) => dirs.extend(values),
            ParsedWord::Option("--keep-as-dir", _) => keeps = true,
            ParsedWord::Option("--version", _) => {
                return Ok(version_text("sqfs2tar (squashfs-tools-ng)", NG_VERSION));
            }
            // Only help is left.
            ParsedWord::Option(..) => return Ok(TranslatedLine::Help(TABLE)),
        }
    }
    // As for all these programs, one image.
    let [image] = &plain[..] else { return Err("expected: sqfs2tar [OPTIONS] IMAGE".into()) };
    match &dirs[..] {
        // The root itself is stored only under a name.
        [] if line.has("--prefix") => {}
        // With `*` instead of the whole image, the root gets no entry of its own.
        [] => {
            line.switch("--ignore-missing");
            dirs.push("*".into());
        }
        // One directory becomes the root, as sqfs2tar does it; several keep their paths, or they would mix.
        [dir] if !keeps => {
            let dir = dir.to_str().ok_or_else(|| format!("{}: not UTF-8", display(Path::new(dir))))?;
            let depth = dir.split('/').filter(|part| !matches!(*part, "" | ".")).count();
            line.set("--strip-components", depth.to_string());
        }
        _ => {}
    }
    line.operand("--");
    line.operand(image);
    dirs.into_iter().for_each(|dir| line.operand(dir));
    Ok(TranslatedLine::Run(line, ExitPolicy { usage: Some(1), ..ExitPolicy::default() }))
}
