//! An open image that answers requests as far as its bytes are there.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use packfs_image::image::{FileType, Image, Nid};
use packfs_image::sink::{lookup, resolve, tar};
use packfs_image::{AnyImage, Error, OpenOptions, Part, Progress, ReadAt, Result, name};

use crate::pages::FetchedPages;
use crate::request::{
    AttributeFacts, CheckStep, DirectoryListing, EntryFacts, FindingFacts, ImageFacts, ImageRequest, describe_error,
};

/// Maximum length of a read: what a page decodes without freezing.
const READ_MAX: usize = 16 << 20;
/// Decoded bytes that stay: a few large blocks and the metadata of a large directory.
const CACHE_LEN: u64 = 32 << 20;
/// Bytes at the beginning that are fetched first: the superblock, and most of the metadata of a small EROFS image.
const HEAD_LEN: u64 = 64 << 10;
/// Bytes of the image that a step of a check reads. Each step reads the metadata again, mostly from the cache, so shorter
/// ones take longer together; longer ones freeze a page for longer: with xz, these take about a second.
const CHECK_STEP_LEN: u64 = 8 << 20;
/// Bytes after a step's part that are fetched with it: most often, the last block of a part ends beyond it.
const CHECK_TAIL_LEN: u64 = 128 << 10;
/// Bytes that are fetched ahead where a check lacks some: it reads metadata on and on, and begins anew each time.
const CHECK_AHEAD_LEN: u64 = 1 << 20;
/// First bytes of a SquashFS image.
const SQUASHFS_MAGIC: [u8; 4] = *b"hsqs";
/// Bytes at the end of a SquashFS image that are fetched next: its tables, and the root directory of most images.
const TAIL_LEN: u64 = 128 << 10;

/// Result of an attempt.
#[derive(Debug)]
pub enum RequestOutcome {
    /// The answer, as JSON.
    Json(String),
    /// The answer, as bytes.
    Bytes(Vec<u8>),
    /// These ranges have to be supplied before the same request is made again.
    Missing(Vec<Range<u64>>),
    /// A failure, as JSON; see [`describe_error`].
    Failed(String),
}

/// An image that is read while its bytes arrive.
#[derive(Debug)]
pub struct ImageSession {
    pages: Arc<FetchedPages>,
    image: Option<AnyImage>,
}

impl ImageSession {
    /// Makes a session with an image of `len` bytes, none of which is there yet.
    pub fn new(len: u64) -> Self {
        ImageSession { pages: Arc::new(FetchedPages::new(len)), image: None }
    }

    /// Adds bytes of the image, from the beginning of a range that an attempt [missed](RequestOutcome::Missing).
    pub fn supply(&self, offset: u64, bytes: &[u8]) {
        self.pages.supply(offset, bytes);
    }

    /// Tries a request with the bytes that are there.
    pub fn attempt(&mut self, request: &ImageRequest) -> RequestOutcome {
        let done = self.answer(request);
        // Bytes may be missing though the request succeeded or failed for another reason: both are wrong without them.
        let missing = self.pages.take_missing();
        match done {
            _ if !missing.is_empty() => RequestOutcome::Missing(missing),
            Ok(outcome) => outcome,
            Err(error) => RequestOutcome::Failed(describe_error(&error)),
        }
    }

    fn answer(&mut self, request: &ImageRequest) -> Result<RequestOutcome> {
        let opened = match self.image.take() {
            Some(opened) => opened,
            None => open(&self.pages)?,
        };
        // One that was opened without some of its bytes would keep what it took for granted.
        let opened = match self.pages.is_missing_some() {
            true => return Err(Error::Misuse("the image is not open yet".into())),
            false => self.image.insert(opened),
        };
        let image = opened.image();
        match request {
            ImageRequest::Info => {
                let format = match opened {
                    AnyImage::Squashfs(_) => "squashfs",
                    AnyImage::Erofs(_) => "erofs",
                };
                json(&ImageFacts { format, bytes: self.pages.len(), inodes: image.inode_count() })
            }
            ImageRequest::Stat { path, follow } => {
                let nid = find(image, path, *follow)?;
                let path = name::decode(path);
                let entry_name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                json(&EntryFacts::new(entry_name, nid, &image.stat(nid)?))
            }
            ImageRequest::List { path, skip, count } => {
                let nid = find(image, path, true)?;
                if image.stat(nid)?.kind != FileType::Dir {
                    return Err(Error::WrongType { path: path.into(), expected: "directory" });
                }
                json(&list(image, nid, *skip, *count)?)
            }
            ImageRequest::Read { nid, offset, length } => {
                let nid = nid.parse().map_err(|_| Error::option("nid", nid, "not the number of an inode"))?;
                read(image, Nid(nid), *offset, *length).map(RequestOutcome::Bytes)
            }
            ImageRequest::Xattrs { path } => {
                let attributes = image.xattrs(find(image, path, true)?)?;
                let facts = attributes.iter().map(|(attribute, value)| AttributeFacts {
                    name: name::encode(attribute).into_owned(),
                    value: STANDARD.encode(value),
                });
                json(&facts.collect::<Vec<_>>())
            }
            ImageRequest::TarHeader { path, place, first_place } => {
                let nid = find(image, path, false)?;
                let first_place = first_place.as_deref().map(name::decode);
                tar::member_header(image, &name::decode(place), nid, first_place.as_deref()).map(RequestOutcome::Bytes)
            }
            ImageRequest::Check { step } => json(&check(image, &self.pages, *step)?),
        }
    }
}

fn open(pages: &Arc<FetchedPages>) -> Result<AnyImage> {
    let len = pages.len();
    pages.need(&(0..HEAD_LEN));
    let mut magic = [0; SQUASHFS_MAGIC.len()];
    if pages.read_at(&mut magic, 0).is_ok() && magic == SQUASHFS_MAGIC {
        // In one request, where the reader would find one table after the other.
        pages.need(&(len.saturating_sub(TAIL_LEN)..len));
    }
    let options = OpenOptions::default().set(|options| {
        options.cache_bytes = CACHE_LEN;
        options.name = PathBuf::from("the image");
    });
    AnyImage::open(Arc::<FetchedPages>::clone(pages), options)
}

fn json(answer: &impl serde::Serialize) -> Result<RequestOutcome> {
    serde_json::to_string(answer).map(RequestOutcome::Json).map_err(|error| Error::Misuse(error.to_string()))
}

/// Returns the inode at a path.
fn find(image: &dyn Image, path: &str, follow: bool) -> Result<Nid> {
    let bytes = name::decode(path);
    let found = if follow { resolve(image, &bytes)? } else { lookup(image, &bytes)? };
    found.ok_or_else(|| Error::NotFound { path: path.into() })
}

/// Returns a part of a directory's entries.
fn list(image: &dyn Image, dir: Nid, skip: usize, count: usize) -> Result<DirectoryListing> {
    let all = image.read_dir(dir)?;
    let mut entries = Vec::new();
    let mut first_error = None;
    // Inodes lie in different places: all that are missing become known at once if the first one does not end the search.
    for entry in all.iter().skip(skip).take(count) {
        match image.stat(entry.nid) {
            Ok(stat) => entries.push(EntryFacts::new(&entry.name, entry.nid, &stat)),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    match first_error {
        Some(error) => Err(error),
        None => Ok(DirectoryListing { entries, total: all.len() }),
    }
}

/// Reads a range of a regular file.
fn read(image: &dyn Image, nid: Nid, offset: u64, len: usize) -> Result<Vec<u8>> {
    if len > READ_MAX {
        return Err(Error::option("length", len, format!("at most {READ_MAX} bytes are read at once")));
    }
    let FileType::File { size } = image.stat(nid)?.kind else {
        return Err(Error::WrongType { path: PathBuf::from(format!("inode {}", nid.0)), expected: "regular file" });
    };
    let left = size.saturating_sub(offset);
    let wanted = left.min(len as u64);
    if wanted == 0 {
        return Ok(Vec::new());
    }
    image.will_read(nid, offset..offset + wanted);
    let mut bytes = vec![0; usize::try_from(wanted).unwrap_or(len)];
    let got = image.read_at(nid, &mut bytes, offset)?;
    bytes.truncate(got);
    Ok(bytes)
}

/// Does a step of a check.
fn check(image: &dyn Image, pages: &FetchedPages, step: u32) -> Result<CheckStep> {
    let len = pages.len();
    let steps = u32::try_from(len.div_ceil(CHECK_STEP_LEN)).unwrap_or(u32::MAX);
    let part = Part::new(step, steps).ok_or_else(|| Error::option("step", step, format!("accepted: below {steps}")))?;
    // As parts are cut: the first byte of the next one.
    let boundary = |number: u32| {
        let boundary = (u128::from(len) * u128::from(number)).div_ceil(u128::from(steps));
        u64::try_from(boundary).unwrap_or(len)
    };
    let checked = boundary(step + 1);
    pages.need(&(boundary(step)..checked + CHECK_TAIL_LEN));
    if pages.is_missing_some() {
        return Err(Error::Misuse("the part of this step is not there yet".into()));
    }
    let mut findings = Vec::new();
    let outcome =
        image.check_part(part, 0, &Progress::default(), &mut |finding| findings.push(FindingFacts::from(finding)));
    pages.announce_after_missing(CHECK_AHEAD_LEN);
    outcome?;
    Ok(CheckStep { steps, checked, findings })
}

#[cfg(test)]
mod tests;
