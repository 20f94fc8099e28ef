//! Reads SOURCE arguments into a tree that can be used like an image.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use packfs_blocks::Progress;
use packfs_blocks::io::Scratch;
use packfs_dump::set::is_part;
use packfs_image::name::display;
use packfs_image::source::{self, LazySpool, dir, open};
use packfs_image::{Error, Tree, Warnings};

use super::remote;
use crate::args::RemoteArgs;
use crate::input;
use crate::output::say;

/// Refuses sources that are probably mistakes: a part of a dump as a plain file, an entry whose name begins with `@` as
/// a pack list, and a closed standard input as an empty archive.
pub(super) fn refuse_mistaken(source: &Path) -> Result<()> {
    if source == Path::new("-") {
        return input::require_stdin();
    }
    let name = display(source);
    if is_part(source) {
        bail!("{name}: a part of a dump: packfs join restores the dump (`file:{name}` packs the part as it is)");
    }
    let list = source.as_os_str().as_bytes().strip_prefix(b"@").map(OsStr::from_bytes).map(Path::new);
    if let Some(list) = list.filter(|list| !list.exists()) {
        let list = display(list);
        bail!("{list}: no such pack list (`@` means a pack list; write `./{name}` for an entry named {name})");
    }
    Ok(())
}

/// Reads sources, merged in order, so that their contents can be read again. Archives from a pipe
/// or a decompressor are kept in an unlinked temporary file. If `strict`, the first warning is an
/// error.
pub(super) fn read_tree<P: AsRef<Path>>(
    paths: &[P],
    strict: bool,
    remote: &RemoteArgs,
    threads: usize,
    progress: &Arc<Progress>,
) -> Result<Tree> {
    let scan = dir::Options::default().set(|all| (all.threads, all.progress) = (threads, Some(Arc::clone(progress))));
    let options =
        open::SourceReadOptions::default().set(|all| (all.scan, all.elsewhere) = (scan, remote::elsewhere(remote)));
    let mut tree = Tree::default();
    tree.warnings = Warnings::new(strict);
    let mut copies = LazySpool::new(&temporary_directory());
    for path in paths {
        refuse_mistaken(path.as_ref())?;
        let mut source = source::open(path.as_ref().as_os_str(), &options)?;
        source.scan(&mut tree, &mut copies)?;
        // Hard links of archives whose files are not there. What else cannot be read is an error.
        for reason in source.left_out() {
            if strict {
                bail!("{}: {reason}", name(path.as_ref()));
            }
            say(format_args!("packfs: warning: {}: {reason}", name(path.as_ref())));
        }
    }
    copies.serve(&mut tree)?;
    Ok(tree)
}

/// Returns the name of a SOURCE argument for messages.
pub(super) fn name(argument: &Path) -> String {
    if argument == Path::new("-") {
        return input::STDIN.into();
    }
    let name = display(&remote::without_secrets(argument)).to_string();
    name.strip_prefix('@').map_or(name.clone(), |list| format!("the pack list {list}"))
}

/// Returns true if a file is an image, or `path` the address of one.
pub(super) fn is_image(path: &Path) -> bool {
    remote::is_address(path) || open::file_format(path).is_image()
}

/// Makes a file without a name in the directory for temporary files.
pub(crate) fn temporary_file() -> packfs_image::Result<File> {
    let dir = temporary_directory();
    let made = Scratch::new(&dir).file().and_then(|storage| match storage.file() {
        Some(file) => file.try_clone(),
        None => Err(io::ErrorKind::Unsupported.into()),
    });
    made.map_err(Error::io("cannot create a temporary file", &dir))
}

/// Returns the directory for temporary files. `/var/tmp` is on a disk, while `/tmp` may be memory;
/// `TMPDIR` overrides both.
pub(super) fn temporary_directory() -> PathBuf {
    match std::env::var_os("TMPDIR") {
        Some(dir) if !dir.is_empty() => dir.into(),
        _ if Path::new("/var/tmp").is_dir() => "/var/tmp".into(),
        _ => std::env::temp_dir(),
    }
}
