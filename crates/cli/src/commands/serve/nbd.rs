//! `packfs serve --nbd`: images, or the disk in the parts of a dump, as exports of an NBD server.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use packfs_blocks::percent::{self, is_unreserved};
use packfs_dump::Set;
use packfs_dump::set::ExtentContent;
use packfs_image::AnyImage;
use packfs_image::image::Extent;
use packfs_serve::nbd::{HoleMap, NbdAddress, NbdExport, NbdOptions, NbdServer};
use signal_hook::iterator::Signals;

use super::{CACHE, stop_on_signal};
use crate::args::{ImageArg, ServeArgs};
use crate::commands::{open, parts};
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::interrupt::ending_signals;
use crate::output::{self, say};
use crate::resources;

/// Name of the export that is a dump.
const DUMP: &str = "dump";
/// Most threads that answer the requests of one client.
const THREADS: usize = 16;

pub(super) fn run(args: &ServeArgs, place: &Path) -> Result<CommandOutcome> {
    let address = parse_address(place)?;
    let exports = open_exports(args)?;
    let signals = Signals::new(ending_signals()).context("cannot wait for signals")?;
    let options = NbdOptions::default().set(|all| {
        all.threads = (2 * resources::cores()).clamp(4, THREADS);
        all.report = Some(Arc::new(|line: &str| say(format_args!("packfs: {line}"))));
    });
    let server = NbdServer::bind(exports, &address, options)?;
    let stopper = server.stopper();
    stop_on_signal(signals, move || stopper.stop())?;
    let mut out = output::remarks();
    for name in server.names() {
        writeln!(out, "{}", export_uri(server.address(), name)?)?;
    }
    drop(out);
    server.serve();
    Ok(CommandOutcome::Done)
}

/// Returns the place to listen on: `HOST:PORT`, or else a path.
fn parse_address(place: &Path) -> Result<NbdAddress> {
    let host_and_port = place.to_str().filter(|text| !text.contains('/') && is_port_at_end(text));
    match host_and_port {
        Some(text) => Ok(NbdAddress::Tcp(super::parse_address("--nbd", text)?.0)),
        None => Ok(NbdAddress::Unix(place.to_owned())),
    }
}

fn is_port_at_end(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

/// Opens what is named on the command line.
fn open_exports(args: &ServeArgs) -> Result<Vec<NbdExport>> {
    let [first, rest @ ..] = args.images.as_slice() else { return Err(UsageError("no image named".into()).into()) };
    let arg = image_arg(args, first);
    if let Some(paths) = parts::of_dump(&arg, rest)? {
        let cache = args.cache.unwrap_or_else(|| CACHE.min(resources::memory_limit() / 4));
        let set = parts::open(&paths, cache)?;
        parts::warn(&set);
        return Ok(vec![export_dump(Arc::new(set))]);
    }
    if !rest.is_empty() && (args.offset != 0 || !args.device.is_empty()) {
        return Err(UsageError("--offset and --device are for one image".into()).into());
    }
    let mut exports = Vec::new();
    for path in &args.images {
        exports.push(export_image(args, path)?);
    }
    for path in &args.device {
        let bytes = open::bytes(path, 0, &args.remote)?;
        exports.push(NbdExport {
            name: open::file_name(path).to_string_lossy().into_owned(),
            description: "device of an EROFS image".into(),
            bytes,
            holes: None,
        });
    }
    Ok(exports)
}

fn image_arg(args: &ServeArgs, path: &Path) -> ImageArg {
    let offset = args.offset;
    let device = args.device.clone();
    let remote = args.remote.clone();
    ImageArg { path: path.to_owned(), offset, device, remote }
}

fn export_image(args: &ServeArgs, path: &Path) -> Result<NbdExport> {
    let bytes = open::bytes(path, args.offset, &args.remote)?;
    // Its bytes are offered as they are; opening it says whether it is an image.
    let opened = open::from_bytes(&image_arg(args, path), Arc::clone(&bytes), 0)?;
    let format = if matches!(opened, AnyImage::Squashfs(_)) { "SquashFS" } else { "EROFS" };
    let description = format!("{format} image");
    Ok(NbdExport { name: open::file_name(path).to_string_lossy().into_owned(), description, bytes, holes: None })
}

fn export_dump(set: Arc<Set>) -> NbdExport {
    let description = "the input of packfs split".into();
    NbdExport { name: DUMP.into(), description, bytes: Arc::clone(&set) as _, holes: Some(Arc::new(DumpHoles(set))) }
}

/// Ranges of zeros in a dump.
#[derive(Debug)]
struct DumpHoles(Arc<Set>);

impl HoleMap for DumpHoles {
    fn extents_from(&self, offset: u64) -> Box<dyn Iterator<Item = Extent> + '_> {
        Box::new(self.0.extents_from(offset).map(|extent| Extent {
            offset: extent.start,
            len: extent.end - extent.start,
            // What is lost counts as data, so that reading it is an error and not a hole.
            hole: extent.content == ExtentContent::Fill([0; 8]),
        }))
    }
}

/// Returns the address of an export as NBD's clients take it.
fn export_uri(address: &NbdAddress, name: &str) -> Result<String> {
    let encode = |bytes| percent::encode(bytes, |byte| is_unreserved(byte) || byte == b'/');
    let name = encode(name.as_bytes());
    Ok(match address {
        NbdAddress::Tcp(address) => format!("nbd://{address}/{name}"),
        NbdAddress::Unix(path) => {
            let path: PathBuf = std::path::absolute(path).context("cannot find the working directory")?;
            format!("nbd+unix:///{name}?socket={}", encode(path.as_os_str().as_bytes()))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_port_is_no_path() {
        let tcp = |text: &str| matches!(parse_address(text.as_ref()), Ok(NbdAddress::Tcp(_)));
        for text in ["127.0.0.1:10809", "[::1]:0", "localhost:10809"] {
            assert!(tcp(text), "{text}");
        }
        for path in ["nbd.sock", "/run/a:1", "./a:1", "a:b", ":1", "a:99999"] {
            assert!(matches!(parse_address(path.as_ref()), Ok(NbdAddress::Unix(_))), "{path}");
        }
    }

    #[test]
    fn addresses_say_which_export_and_where() {
        let at = |address: NbdAddress| export_uri(&address, "a b/c").unwrap();
        assert_eq!(at(NbdAddress::Unix("/run/x?y".into())), "nbd+unix:///a%20b/c?socket=/run/x%3Fy");
        assert_eq!(at(NbdAddress::Tcp("127.0.0.1:7".parse().unwrap())), "nbd://127.0.0.1:7/a%20b/c");
    }
}
