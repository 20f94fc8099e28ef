//! An uncompressed archive in a file: headers are read, data is skipped and stays where it is.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use super::contents::{Archive, Located, TarContents};
use super::input::{Input, Stored};
use crate::source::Store;
use crate::tree::Data;
use crate::{Error, Result};

/// Smallest and largest window; it grows while reading continues without skips.
const WINDOW: RangeInclusive<usize> = 4 << 10..=256 << 10;

/// Reads the headers of an archive through a window.
pub(super) struct Seekable {
    archive: Archive,
    at: u64,
    window: Vec<u8>,
    /// Offset of the window in the archive, and its intended size.
    start: u64,
    width: usize,
    files: Vec<Located>,
    contents: Arc<TarContents>,
}

impl Seekable {
    /// Starts reading at `at`.
    pub(super) fn new(archive: Archive, at: u64) -> Self {
        let contents = Arc::new(TarContents::new(archive.clone()));
        let width = *WINDOW.start();
        Seekable { archive, at, window: Vec::new(), start: at, width, files: Vec::new(), contents }
    }

    /// Returns the unread part of the window, refilling it if it is empty.
    fn rest(&mut self) -> Result<&[u8]> {
        let end = self.start + self.window.len() as u64;
        if !(self.start..end).contains(&self.at) {
            self.width = if self.at == end { (self.width * 2).min(*WINDOW.end()) } else { *WINDOW.start() };
            self.window.resize(self.width, 0);
            let got = self.archive.bytes.read_at(&mut self.window, self.at);
            self.window.truncate(got.map_err(Error::io("cannot read", &self.archive.path))?);
            self.start = self.at;
        }
        let from = usize::try_from(self.at - self.start).unwrap_or(usize::MAX);
        Ok(self.window.get(from..).unwrap_or_default())
    }
}

impl Input for Seekable {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            let rest = self.rest()?;
            let n = rest.len().min(buf.len() - done);
            if n == 0 {
                break;
            }
            buf[done..done + n].copy_from_slice(&rest[..n]);
            done += n;
            self.at += n as u64;
        }
        Ok(done)
    }

    fn offset(&self) -> u64 {
        self.at
    }

    fn skip_to(&mut self, to: u64) -> Result<bool> {
        self.at = to;
        Ok(to <= self.archive.bytes.len())
    }

    fn keep(&mut self, file: Stored, _: &mut dyn Store) -> Result<Data> {
        let key = self.files.len() as u64;
        self.files.push(Located::new(file, self.at));
        Ok(Data::Source { from: self.contents.clone(), key })
    }

    fn name(&self) -> &Path {
        &self.archive.path
    }

    fn finish(self) -> Result<()> {
        self.archive.check_unchanged()?;
        self.contents.set(self.files);
        Ok(())
    }
}
