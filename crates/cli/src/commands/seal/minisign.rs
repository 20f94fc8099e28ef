//! The signature of a sealed image, or of its root hash, for minisign.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use packfs_blocks::Output;
use packfs_image::name::display;
use packfs_seal::HashEffort;
use packfs_seal::minisign::{FileDigest, MinisignPublicKey, MinisignSecretKey, signature_path};

use super::open_image;
use super::signing::read_small;
use crate::args::SealArgs;
use crate::input;
use crate::output::{json, target};

/// Longest password that minisign takes, in bytes.
const PASSWORD_MAX: u64 = 1024;

/// A signature that is being made: its key was read, and its file created, before anything was sealed.
pub(super) struct MinisignOutput {
    key: MinisignSecretKey,
    /// The file that is signed.
    subject: PathBuf,
    output: Output,
}

impl MinisignOutput {
    /// Reads the key, and creates the file for the signature of `subject`; `None` if there is no key.
    pub(super) fn create(args: &SealArgs, subject: &Path) -> Result<Option<Self>> {
        let Some(path) = &args.minisign_key else { return Ok(None) };
        let password = args.minisign_password.as_deref().map(read_password).transpose()?;
        let key = MinisignSecretKey::parse(&read_small(path)?, password.as_deref());
        let key = key.with_context(|| display(path).to_string())?;
        let output = target::create(&signature_path(subject), target::READABLE, args.force)?;
        Ok(Some(MinisignOutput { key, subject: subject.to_owned(), output }))
    }

    /// Signs the file, which is complete; returns the name of the signature.
    pub(super) fn complete(self, effort: &HashEffort) -> Result<String> {
        let digest = FileDigest::of(&*open_image(&self.subject)?, &effort.progress)
            .with_context(|| display(&self.subject).to_string())?;
        let name = self.subject.file_name().unwrap_or_default().to_string_lossy();
        // minisign also puts the time here, which would make every signature a different one.
        let signature = self.key.sign(&digest, &format!("file:{name}\thashed"));
        let written = json::encode_path(self.output.target());
        target::fill(self.output, &signature)?;
        Ok(written)
    }
}

/// Reads the key by which signatures are verified.
pub(in crate::commands) fn read_public_key(path: &Path) -> Result<MinisignPublicKey> {
    MinisignPublicKey::parse(&read_small(path)?).with_context(|| display(path).to_string())
}

/// Reads the first line of a file, or of standard input.
fn read_password(path: &Path) -> Result<Vec<u8>> {
    let file = if path == Path::new("-") { input::open() } else { File::open(path) };
    let file = file.with_context(|| format!("{}: cannot open", display(path)))?;
    let mut line = Vec::new();
    let read = BufReader::new(file.take(PASSWORD_MAX)).read_until(b'\n', &mut line);
    read.with_context(|| format!("{}: cannot read", display(path)))?;
    let len = line.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |at| at + 1);
    line.truncate(len);
    Ok(line)
}
