//! The places of a server: which request gets what.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use packfs_blocks::Digest;
use packfs_image::image::FileType;
use packfs_image::sink::tar;
use serde::Serialize;

use crate::api;
use crate::http::condition::Version;
use crate::http::request::Request;
use crate::http::response::Response;
use crate::http::{date, url};
use crate::metrics::Metrics;
use crate::served::{Below, Content, Found, Served};
use crate::{Error, Result, explorer, list, types};

/// Number of archives to write at once: each has threads and memory of its own.
const ARCHIVES: usize = 4;
/// Bytes of an archive to decode ahead.
const ARCHIVE_MEMORY: u64 = 16 << 20;
pub(crate) const JSON: &str = "application/json";
/// Scripts in an image must not act in the name of this server.
const SANDBOX: &str = "sandbox";

/// The images of a server by their places.
#[derive(Debug)]
pub(crate) struct Routes {
    images: Vec<Placed>,
    archives: Arc<AtomicUsize>,
}

/// An image at its place.
#[derive(Debug)]
struct Placed {
    served: Served,
    /// The model that the explorer shows of it, once somebody asked.
    model: Mutex<Option<Arc<Vec<u8>>>>,
}

/// Name of a route in the counters, the image concerned, and the answer.
pub(crate) type Routed<'r> = (&'static str, Option<&'r Served>, Result<Response>);

impl Routes {
    /// Gives each image a place. Names that are taken get a number.
    pub(crate) fn new(images: Vec<Served>) -> Self {
        let mut placed: Vec<Placed> = Vec::new();
        for mut served in images {
            let name = served.name.clone();
            let mut number = 1;
            let is_taken = |name: &str| name == METRICS || placed.iter().any(|one| one.served.name == name);
            while served.name.is_empty() || is_taken(&served.name) {
                number += 1;
                served.name = format!("{name}-{number}");
            }
            placed.push(Placed { served, model: Mutex::default() });
        }
        Routes { images: placed, archives: Arc::default() }
    }

    /// Returns the answer to a request that may be asked.
    pub(crate) fn answer(&self, request: &Request, metrics: &Metrics, open: usize) -> Routed<'_> {
        let path: Vec<&[u8]> = request.path.iter().map(Vec::as_slice).collect();
        if *path == [METRICS.as_bytes()] {
            let text = Response::new(200, "text/plain; version=0.0.4; charset=utf-8", metrics.text(open));
            return (METRICS, None, Ok(text));
        }
        if let [placed] = self.images.as_slice() {
            return self.of_image(placed, request, &request.path);
        }
        let Some((first, rest)) = request.path.split_first() else { return ("index", None, self.index()) };
        let Some(placed) = self.images.iter().find(|placed| placed.served.name.as_bytes() == first) else {
            return ("other", None, Ok(Response::refuse(404, "no image of that name is served")));
        };
        if rest.is_empty() && !request.raw_path.ends_with('/') {
            // Links on the page are relative to the directory.
            let moved = Response::new(301, "text/plain; charset=utf-8", "");
            return ("index", None, Ok(moved.with("Location", format!("/{}/", url::encode(first)))));
        }
        self.of_image(placed, request, rest)
    }

    fn of_image<'r>(&'r self, placed: &'r Placed, request: &Request, path: &[Vec<u8>]) -> Routed<'r> {
        let served = &placed.served;
        let (first, rest) = path.split_first().map_or((&b""[..], path), |(first, rest)| (first, rest));
        let (route, answer) = match (first, rest) {
            (b"", _) => ("page", page()),
            (b"image", []) => ("image", Ok(raw(served, request))),
            (b"files", path) => ("files", files(served, request, path)),
            (b"tar", path) => ("tar", self.archive(served, path)),
            (b"api", [what]) if what == b"model" => ("model", placed.model(request)),
            (b"api", [what]) if what == b"info" => ("info", api::info(served)),
            (b"api", [what]) if what == b"map" => ("map", api::map(served, request)),
            _ => ("other", Ok(Response::refuse(404, "nothing is served there"))),
        };
        (route, Some(served), answer)
    }

    /// Lists the images.
    fn index(&self) -> Result<Response> {
        let nonce = nonce()?;
        let page = list::page(self.images.iter().map(|placed| &placed.served), &nonce);
        Ok(html(page.into_bytes(), list::policy(&nonce)))
    }

    /// Writes a directory, or a single file, as a tar archive.
    fn archive(&self, served: &Served, path: &[Vec<u8>]) -> Result<Response> {
        let Some(found) = served.find(path)? else { return Ok(missing()) };
        if found.stat.kind != FileType::Dir {
            return Ok(Response::refuse(404, "not a directory; files/ has files"));
        }
        let Some(turn) = Turn::take(&self.archives) else {
            return Ok(Response::refuse(503, "too many archives are being written").with("Retry-After", "5"));
        };
        let name = path.last().cloned().unwrap_or_else(|| served.name.clone().into_bytes());
        let file = [&name[..], b".tar"].concat();
        let image = Arc::clone(&served.image);
        let options = tar::Options::default().set(|all| {
            all.memory = ARCHIVE_MEMORY;
            // The root of the image has no name of its own in an archive.
            all.prefix = path.last().map(|name| OsStr::from_bytes(name).into());
        });
        let write = move |out: &mut dyn Write| {
            let _turn = turn;
            let below = Below { image: image.image(), root: found.nid };
            tar::write_tar(&below, out, &options, &packfs_blocks::Progress::default())?;
            Ok(())
        };
        Ok(Response::stream(types::TAR, Box::new(write)).with("Content-Disposition", attachment(&file)))
    }
}

impl Placed {
    /// Returns what the explorer shows. Whoever asks first waits for it, and all others with them.
    fn model(&self, request: &Request) -> Result<Response> {
        let mut kept = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        let model = match &*kept {
            Some(model) => Arc::clone(model),
            None => Arc::clone(kept.insert(Arc::new(self.served.model()?))),
        };
        let version = Version { etag: format!("\"{}\"", Digest::of(&model).short()), modified: None };
        Ok(Response::of(request, model, JSON, &version))
    }
}

/// Name of the route of the counters, which no image can have.
const METRICS: &str = "metrics";

/// One of the archives that may be written at once.
struct Turn(Arc<AtomicUsize>);

impl Turn {
    fn take(count: &Arc<AtomicUsize>) -> Option<Turn> {
        let free = |now| (now < ARCHIVES).then_some(now + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok().map(|_| Turn(Arc::clone(count)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The bytes of the image itself.
fn raw(served: &Served, request: &Request) -> Response {
    let version = Version { etag: format!("\"{}\"", served.version), modified: None };
    Response::of(request, Arc::clone(&served.bytes), types::BINARY, &version)
}

/// A file, or the listing of a directory.
fn files(served: &Served, request: &Request, path: &[Vec<u8>]) -> Result<Response> {
    let Some(found) = served.find(path)? else { return Ok(missing()) };
    let FileType::File { size } = found.stat.kind else {
        return if found.stat.kind == FileType::Dir { api::listing(served, &found) } else { Ok(special()) };
    };
    let Found { nid, stat } = found;
    let version =
        Version { etag: format!("\"{}-{:x}\"", served.version, nid.0), modified: date::format(stat.mtime.secs) };
    let content = Content { image: Arc::clone(&served.image), bytes: Arc::clone(&served.bytes), nid, size };
    let name = path.last().map_or(&b""[..], Vec::as_slice);
    let response = Response::of(request, Arc::new(content), types::of(name), &version);
    let response = response.with("Content-Security-Policy", SANDBOX);
    Ok(match request.parameter("download") {
        Some(_) => response.with("Content-Disposition", attachment(name)),
        None => response,
    })
}

pub(crate) fn missing() -> Response {
    Response::refuse(404, "the image has no such path")
}

fn special() -> Response {
    Response::refuse(404, "a device, pipe or socket, which has no contents")
}

/// Makes an answer of JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<Response> {
    Ok(Response::new(200, JSON, serde_json::to_vec(value)?))
}

/// Makes an answer of JSON that may be too long for memory.
pub(crate) fn long_json(value: impl Serialize + 'static) -> Response {
    let write = move |out: &mut dyn Write| serde_json::to_writer(out, &value).map_err(Error::from);
    Response::stream(JSON, Box::new(write))
}

/// Names a file to be stored, whatever bytes its name has.
fn attachment(name: &[u8]) -> String {
    format!("attachment; filename*=UTF-8''{}", url::encode(name))
}

/// Makes the page that explores an image.
fn page() -> Result<Response> {
    let nonce = nonce()?;
    let mut text = Vec::new();
    explorer::page(&mut text, &explorer::Content::Served { nonce: &nonce })?;
    Ok(html(text, format!("{}; frame-ancestors 'none'", explorer::policy(&nonce))))
}

/// Makes an answer of a page whose policy has a nonce, which is for this answer only.
fn html(page: Vec<u8>, policy: String) -> Response {
    let page = Response::new(200, "text/html; charset=utf-8", page);
    page.with("Content-Security-Policy", policy).with("Cache-Control", "no-store")
}

fn nonce() -> Result<String> {
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty()).map_err(std::io::Error::from)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(random)))
}
