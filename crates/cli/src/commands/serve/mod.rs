//! `packfs serve`.

mod nbd;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use packfs_blocks::threads;
use packfs_image::AnyImage;
use packfs_image::name::display;
use packfs_serve::{HttpOptions, HttpServer, ServedImage};
use signal_hook::iterator::Signals;

use super::{open, remote};
use crate::args::{ImageArg, Serve};
use crate::output::failure::{Outcome, Usage};
use crate::output::interrupt::heeded;
use crate::output::{self, say};
use crate::resources;

/// Cache for decoded data unless told otherwise.
const CACHE: u64 = 64 << 20;
/// Random bytes of a token.
const TOKEN_LEN: usize = 16;
/// Longest first line of a file with a token.
const TOKEN_MAX: u64 = 4096;

pub(super) fn run(args: &Serve) -> Result<Outcome> {
    if let Some(place) = &args.nbd {
        return nbd::run(args, place);
    }
    let (address, name) = address("--listen", &args.listen)?;
    let given = args.token.as_deref().map(token).transpose()?;
    let made = (given.is_none() && !address.ip().is_loopback()).then(random_token).transpose()?;
    let images = args.images.iter().map(|path| served(args, path)).collect::<Result<_>>()?;
    let signals = Signals::new(heeded()).context("cannot wait for signals")?;
    let options = HttpOptions::default().set(|all| {
        (all.address, all.name, all.token) = (address, name.clone(), given.or(made.clone()));
        all.report = Some(Arc::new(|line: &str| say(format_args!("packfs: {line}"))));
    });
    let server = HttpServer::bind(images, options)?;
    let stopper = server.stopper();
    stop_on(signals, move || stopper.stop())?;
    let host = name.map_or(server.address().to_string(), |name| format!("{name}:{}", server.address().port()));
    let query = made.map(|token| format!("?token={token}")).unwrap_or_default();
    // A remark: the server works even if nobody reads its address.
    writeln!(output::remarks(), "http://{host}/{query}")?;
    server.serve();
    Ok(Outcome::Done)
}

/// Returns the address to listen on, and the name that it was given by.
fn address(option: &str, listen: &str) -> Result<(SocketAddr, Option<String>)> {
    let wrong = || Usage(format!("{option} {listen}: expected HOST:PORT, as in 127.0.0.1:8080"));
    if let Ok(address) = listen.parse() {
        return Ok((address, None));
    }
    let (name, port) = listen.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    let mut found =
        (name, port).to_socket_addrs().with_context(|| format!("{option} {listen}: cannot find the host"))?;
    let address = found.next().ok_or_else(wrong)?;
    Ok((address, Some(name.to_owned())))
}

fn served(args: &Serve, path: &Path) -> Result<ServedImage> {
    let cache = args.cache.unwrap_or_else(|| CACHE.min(resources::memory_limit() / 4)) / args.images.len() as u64;
    if args.images.len() > 1 && (args.offset != 0 || !args.device.is_empty()) {
        return Err(Usage("--offset and --device are for one image".into()).into());
    }
    if args.images.len() > 1 && args.against.is_some() {
        return Err(Usage("--against is for one image".into()).into());
    }
    let (offset, device, remote) = (args.offset, args.device.clone(), args.remote.clone());
    let arg = ImageArg { path: path.to_owned(), offset, device, remote };
    let bytes = open::bytes(path, offset, &args.remote)?;
    let image = open::from_bytes(&arg, Arc::clone(&bytes), cache, Some(open::OFFSET_OPTION))?;
    let name = file_name(path);
    let remote = remote::is_address(path);
    let version = if remote { since_1970() } else { stamp(path)? };
    let older = args.against.as_deref().map(|path| older(args, path, cache)).transpose()?;
    Ok(ServedImage { name, image: Arc::new(image), bytes, version: format!("{version}-{offset:x}"), remote, older })
}

/// Opens the image with which the one that is served is compared.
fn older(args: &Serve, path: &Path, cache: u64) -> Result<(String, Arc<AnyImage>)> {
    let image = open::path(path, cache, &args.remote).with_context(|| format!("--against {}", open::name(path)))?;
    Ok((file_name(path), Arc::new(image)))
}

/// Returns the last component of a path or address.
fn file_name(path: &Path) -> String {
    let shown = remote::shown(path);
    shown.file_name().unwrap_or(shown.as_os_str()).to_string_lossy().into_owned()
}

/// Returns a text that changes with a file.
fn stamp(path: &Path) -> Result<String> {
    let file = path.metadata().with_context(|| format!("{}: cannot read the attributes", display(path)))?;
    // A block device has none of these.
    if !file.is_file() {
        return Ok(since_1970());
    }
    Ok(format!("{:x}-{:x}-{:x}-{:x}", file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}

/// Returns a text that no earlier server has used.
fn since_1970() -> String {
    format!("{:x}", SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos())
}

/// Reads the token in the first line of a file.
fn token(path: &Path) -> Result<String> {
    let mut line = String::new();
    let file = File::open(path).with_context(|| format!("{}: cannot open", display(path)))?;
    let read = BufReader::new(file.take(TOKEN_MAX)).read_line(&mut line);
    read.with_context(|| format!("{}: cannot read", display(path)))?;
    let token = line.trim_end_matches(['\n', '\r']);
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if token.is_empty() || !token.bytes().all(is_token) {
        let why = "the first line is not a token: letters, digits and -._~+/= are allowed";
        return Err(Usage(format!("{}: {why}", display(path))).into());
    }
    Ok(token.to_owned())
}

fn random_token() -> Result<String> {
    let mut bytes = [0; TOKEN_LEN];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("cannot make a token")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Ends the server when a signal comes.
fn stop_on(mut signals: Signals, stop: impl FnOnce() + Send + 'static) -> Result<()> {
    let wait = move || {
        if signals.forever().next().is_some() {
            stop();
        }
    };
    threads::named("packfs-signals").start(wait).context("cannot wait for signals")?;
    Ok(())
}
