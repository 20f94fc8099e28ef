//! The places of a server: which request gets what.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use packfs_blocks::Digest;
use packfs_blocks::mutex;
use packfs_blocks::percent::{self, is_unreserved};
use packfs_image::image::FileType;
use packfs_image::sink::tar;
use serde::Serialize;

use crate::api;
use crate::http::condition::ContentVersion;
use crate::http::date;
use crate::http::request::HttpRequest;
use crate::http::response::HttpResponse;
use crate::metrics::ServerMetrics;
use crate::served::{ResolvedEntry, ServedFile, ServedImage, SubdirImage};
use crate::{Error, Result, explorer, list, types};

/// Number of archives to write at once. Each has threads and memory of its own; downloads take as long as their
/// clients.
const ARCHIVES: usize = 4;
/// Bytes of an archive to decode ahead: with [`ARCHIVES`], 64 MiB at most.
const ARCHIVE_MEMORY: u64 = 16 << 20;
pub(crate) const JSON: &str = "application/json";
/// Files of an image may be pages. In a sandbox, their scripts cannot act in the name of this server.
const SANDBOX: &str = "sandbox";

/// The images of a server by their places.
#[derive(Debug)]
pub(crate) struct ImageRoutes {
    images: Vec<RoutedImage>,
    archives: Arc<AtomicUsize>,
}

/// An image at its place.
#[derive(Debug)]
struct RoutedImage {
    served: ServedImage,
    /// The model that the explorer shows of it, once somebody asked.
    model: Mutex<Option<Arc<Vec<u8>>>>,
}

/// The answer of a route.
pub(crate) struct RoutedAnswer<'r> {
    /// Name of the route in the counters.
    pub(crate) route: &'static str,
    /// The image concerned.
    pub(crate) served: Option<&'r ServedImage>,
    pub(crate) response: Result<HttpResponse>,
}

impl RoutedAnswer<'_> {
    /// Makes an answer that concerns no image.
    pub(crate) fn without_image(route: &'static str, response: Result<HttpResponse>) -> Self {
        RoutedAnswer { route, served: None, response }
    }
}

impl ImageRoutes {
    /// Gives each image a place. Names that are taken get a number.
    pub(crate) fn new(images: Vec<ServedImage>) -> Self {
        let mut placed: Vec<RoutedImage> = Vec::new();
        for mut served in images {
            let name = served.name.clone();
            let mut number = 1;
            // The route of the counters would hide an image of that name.
            let is_taken = |name: &str| name == METRICS || placed.iter().any(|one| one.served.name == name);
            while served.name.is_empty() || is_taken(&served.name) {
                number += 1;
                served.name = format!("{name}-{number}");
            }
            placed.push(RoutedImage { served, model: Mutex::default() });
        }
        ImageRoutes { images: placed, archives: Arc::default() }
    }

    /// Returns the answer to a request that may be asked.
    pub(crate) fn answer(&self, request: &HttpRequest, metrics: &ServerMetrics, open: usize) -> RoutedAnswer<'_> {
        let path: Vec<&[u8]> = request.path.iter().map(Vec::as_slice).collect();
        if *path == [METRICS.as_bytes()] {
            let text = HttpResponse::new(200, "text/plain; version=0.0.4; charset=utf-8", metrics.text(open));
            return RoutedAnswer::without_image(METRICS, Ok(text));
        }
        // A single image has the root, as before there were several.
        if let [placed] = self.images.as_slice() {
            return self.answer_about(placed, request, &request.path);
        }
        let Some((first, rest)) = request.path.split_first() else {
            return RoutedAnswer::without_image("index", self.list_images());
        };
        // Compared as bytes: names of files need not be text.
        let Some(placed) = self.images.iter().find(|placed| placed.served.name.as_bytes() == first) else {
            return RoutedAnswer::without_image(
                "other",
                Ok(HttpResponse::refuse(404, "no image of that name is served")),
            );
        };
        if rest.is_empty() && !request.raw_path.ends_with('/') {
            // Links on the page are relative to the directory.
            let moved = HttpResponse::new(301, "text/plain; charset=utf-8", "");
            let location = format!("/{}/", percent::encode(first, is_unreserved));
            return RoutedAnswer::without_image("index", Ok(moved.with("Location", location)));
        }
        self.answer_about(placed, request, rest)
    }

    fn answer_about<'r>(
        &'r self,
        placed: &'r RoutedImage,
        request: &HttpRequest,
        path: &[Vec<u8>],
    ) -> RoutedAnswer<'r> {
        let served = &placed.served;
        let (first, rest) = path.split_first().map_or((&b""[..], path), |(first, rest)| (first, rest));
        let (route, response) = match (first, rest) {
            // A path of no components is the page of the image.
            (b"", _) => ("page", explorer_page()),
            (b"image", []) => ("image", Ok(send_image(served, request))),
            (b"files", path) => ("files", send_path(served, request, path)),
            (b"tar", path) => ("tar", self.write_archive(served, path)),
            (b"api", [what]) if what == b"model" => ("model", placed.model(request)),
            (b"api", [what]) if what == b"info" => ("info", api::describe_image(served)),
            (b"api", [what]) if what == b"map" => ("map", api::map_file(served, request)),
            _ => ("other", Ok(HttpResponse::refuse(404, "nothing is served there"))),
        };
        RoutedAnswer { route, served: Some(served), response }
    }

    /// Lists the images.
    fn list_images(&self) -> Result<HttpResponse> {
        let nonce = make_nonce()?;
        let page = list::render_page(self.images.iter().map(|placed| &placed.served), &nonce);
        Ok(html_response(page.into_bytes(), list::security_policy(&nonce)))
    }

    /// Writes a directory, or a single file, as a tar archive.
    fn write_archive(&self, served: &ServedImage, path: &[Vec<u8>]) -> Result<HttpResponse> {
        let Some(found) = served.find(path)? else { return Ok(no_such_path()) };
        if found.stat.kind != FileType::Dir {
            return Ok(HttpResponse::refuse(404, "not a directory; files/ has files"));
        }
        let Some(turn) = ArchivePermit::take(&self.archives) else {
            return Ok(HttpResponse::refuse(503, "too many archives are being written").with("Retry-After", "5"));
        };
        // The root has no name, so the archive gets that of the image.
        let name = path.last().cloned().unwrap_or_else(|| served.name.clone().into_bytes());
        let file = [&name[..], b".tar"].concat();
        let image = Arc::clone(&served.image);
        let options = tar::TarOptions::default().set(|all| {
            all.memory = ARCHIVE_MEMORY;
            // The root of the image has no name of its own in an archive.
            all.prefix = path.last().map(|name| OsStr::from_bytes(name).into());
        });
        let write = move |out: &mut dyn Write| {
            // Held until the archive is written, whatever way that ends.
            let _turn = turn;
            let below = SubdirImage { image: image.image(), root: found.nid };
            tar::write_tar(&below, out, &options, &packfs_blocks::Progress::default())?;
            Ok(())
        };
        Ok(HttpResponse::stream(types::TAR, Box::new(write)).with("Content-Disposition", attachment(&file)))
    }
}

impl RoutedImage {
    /// Returns what the explorer shows. Whoever asks first waits for it, and all others with them.
    fn model(&self, request: &HttpRequest) -> Result<HttpResponse> {
        // Under the lock: the second one who asks must not measure the image again.
        let mut kept = mutex::lock(&self.model);
        let model = match &*kept {
            Some(model) => Arc::clone(model),
            None => Arc::clone(kept.insert(Arc::new(self.served.model()?))),
        };
        // Its digest, as the model of a remote image may change with the image.
        let version = ContentVersion { etag: format!("\"{}\"", Digest::of(&model).short()), modified: None };
        Ok(HttpResponse::for_source(request, model, JSON, &version))
    }
}

/// Name of the route of the counters, which no image can have.
const METRICS: &str = "metrics";

/// One of the archives that may be written at once.
struct ArchivePermit(Arc<AtomicUsize>);

impl ArchivePermit {
    fn take(count: &Arc<AtomicUsize>) -> Option<ArchivePermit> {
        // Refused rather than queued: each waits for its client, perhaps for hours.
        // Relaxed: only the number counts, and nothing is handed over by it.
        let free = |now| (now < ARCHIVES).then_some(now + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok().map(|_| ArchivePermit(Arc::clone(count)))
    }
}

impl Drop for ArchivePermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The bytes of the image itself.
fn send_image(served: &ServedImage, request: &HttpRequest) -> HttpResponse {
    let version = ContentVersion { etag: format!("\"{}\"", served.version), modified: None };
    HttpResponse::for_source(request, Arc::clone(&served.bytes), types::BINARY, &version)
}

/// A file, or the listing of a directory.
fn send_path(served: &ServedImage, request: &HttpRequest, path: &[Vec<u8>]) -> Result<HttpResponse> {
    let Some(found) = served.find(path)? else { return Ok(no_such_path()) };
    let FileType::File { size } = found.stat.kind else {
        return if found.stat.kind == FileType::Dir { api::list_directory(served, &found) } else { Ok(not_a_file()) };
    };
    let ResolvedEntry { nid, stat } = found;
    let version =
        // The inode belongs to the tag: files of one image share its version.
        ContentVersion { etag: format!("\"{}-{:x}\"", served.version, nid.0), modified: date::format(stat.mtime.secs) };
    // The bytes are there only to notice that they change.
    let content = ServedFile { image: Arc::clone(&served.image), bytes: Arc::clone(&served.bytes), nid, size };
    let name = path.last().map_or(&b""[..], Vec::as_slice);
    let response = HttpResponse::for_source(request, Arc::new(content), types::media_type(name), &version);
    let response = response.with("Content-Security-Policy", SANDBOX);
    Ok(match request.parameter("download") {
        Some(_) => response.with("Content-Disposition", attachment(name)),
        None => response,
    })
}

pub(crate) fn no_such_path() -> HttpResponse {
    HttpResponse::refuse(404, "the image has no such path")
}

fn not_a_file() -> HttpResponse {
    HttpResponse::refuse(404, "a device, pipe or socket, which has no contents")
}

/// Makes an answer of JSON.
pub(crate) fn json_response(value: &impl Serialize) -> Result<HttpResponse> {
    Ok(HttpResponse::new(200, JSON, serde_json::to_vec(value)?))
}

/// Makes an answer of JSON that may be too long for memory.
pub(crate) fn json_stream(value: impl Serialize + 'static) -> HttpResponse {
    let write = move |out: &mut dyn Write| serde_json::to_writer(out, &value).map_err(Error::from);
    HttpResponse::stream(JSON, Box::new(write))
}

/// Names a file to be stored, whatever bytes its name has.
fn attachment(name: &[u8]) -> String {
    format!("attachment; filename*=UTF-8''{}", percent::encode(name, is_unreserved))
}

/// Makes the page that explores an image.
fn explorer_page() -> Result<HttpResponse> {
    let nonce = make_nonce()?;
    let mut text = Vec::new();
    explorer::page(&mut text, &explorer::PageSource::Served { nonce: &nonce })?;
    Ok(html_response(text, format!("{}; frame-ancestors 'none'", explorer::policy(&nonce))))
}

/// Makes an answer of a page whose policy has a nonce, which is for this answer only.
fn html_response(page: Vec<u8>, policy: String) -> HttpResponse {
    // A page is cheap, and its nonce is for one answer.
    let page = HttpResponse::new(200, "text/html; charset=utf-8", page);
    page.with("Content-Security-Policy", policy).with("Cache-Control", "no-store")
}

fn make_nonce() -> Result<String> {
    // From the system, as whoever guesses a nonce can run scripts on the page.
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty()).map_err(std::io::Error::from)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(random)))
}
