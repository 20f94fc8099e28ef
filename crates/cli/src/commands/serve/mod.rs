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
use packfs_blocks::hex::to_hex;
use packfs_blocks::threads;
use packfs_image::AnyImage;
use packfs_image::name::display;
use packfs_serve::{HttpOptions, HttpServer, ServedImage};
use signal_hook::iterator::Signals;

use super::{open, remote};
use crate::args::{ImageArg, ServeArgs};
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::interrupt::ending_signals;
use crate::output::{self, say};
use crate::resources;

/// Cache for decoded data unless told otherwise.
const CACHE: u64 = 64 << 20;
/// Random bytes of a token.
const TOKEN_LEN: usize = 16;
/// Longest first line of a file with a token.
const TOKEN_MAX: u64 = 4096;

pub(super) fn run(args: &ServeArgs) -> Result<CommandOutcome> {
    if let Some(place) = &args.nbd {
        return nbd::run(args, place);
    }
    let (address, name) = parse_address("--listen", &args.listen)?;
    let given = args.token.as_deref().map(read_token).transpose()?;
    let made = (given.is_none() && !address.ip().is_loopback()).then(random_token).transpose()?;
    let images = args.images.iter().map(|path| open_served(args, path)).collect::<Result<_>>()?;
    let signals = Signals::new(ending_signals()).context("cannot wait for signals")?;
    let options = HttpOptions::default().set(|all| {
        all.address = address;
        all.name = name.clone();
        all.token = given.or(made.clone());
        all.report = Some(Arc::new(|line: &str| say(format_args!("packfs: {line}"))));
    });
    let server = HttpServer::bind(images, options)?;
    let stopper = server.stopper();
    stop_on_signal(signals, move || stopper.stop())?;
    let host = name.map_or(server.address().to_string(), |name| format!("{name}:{}", server.address().port()));
    let query = made.map(|token| format!("?token={token}")).unwrap_or_default();
    // A remark: the server works even if nobody reads its address.
    writeln!(output::remarks(), "http://{host}/{query}")?;
    server.serve();
    Ok(CommandOutcome::Done)
}

/// Returns the address to listen on, and the name that it was given by.
fn parse_address(option: &str, listen: &str) -> Result<(SocketAddr, Option<String>)> {
    let wrong = || UsageError(format!("{option} {listen}: expected HOST:PORT, as in 127.0.0.1:8080"));
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

fn open_served(args: &ServeArgs, path: &Path) -> Result<ServedImage> {
    let cache = args.cache.unwrap_or_else(|| CACHE.min(resources::memory_limit() / 4)) / args.images.len() as u64;
    if args.images.len() > 1 && (args.offset != 0 || !args.device.is_empty()) {
        return Err(UsageError("--offset and --device are for one image".into()).into());
    }
    if args.images.len() > 1 && args.against.is_some() {
        return Err(UsageError("--against is for one image".into()).into());
    }
    let offset = args.offset;
    let device = args.device.clone();
    let remote = args.remote.clone();
    let arg = ImageArg { path: path.to_owned(), offset, device, remote };
    let bytes = open::bytes(path, offset, &args.remote)?;
    let image = open::from_bytes(&arg, Arc::clone(&bytes), cache)?;
    let name = open::file_name(path).to_string_lossy().into_owned();
    let remote = remote::is_address(path);
    let version = if remote { time_stamp() } else { version_stamp(path)? };
    let older = args.against.as_deref().map(|path| open_older(args, path, cache)).transpose()?;
    Ok(ServedImage { name, image: Arc::new(image), bytes, version: format!("{version}-{offset:x}"), remote, older })
}

/// Opens the image with which the one that is served is compared.
fn open_older(args: &ServeArgs, path: &Path, cache: u64) -> Result<(String, Arc<AnyImage>)> {
    let image = open::path(path, cache, &args.remote).with_context(|| format!("--against {}", open::name(path)))?;
    Ok((open::file_name(path).to_string_lossy().into_owned(), Arc::new(image)))
}

/// Returns a text that changes with a file.
fn version_stamp(path: &Path) -> Result<String> {
    let file = path.metadata().with_context(|| format!("{}: cannot read the attributes", display(path)))?;
    // A block device has none of these.
    if !file.is_file() {
        return Ok(time_stamp());
    }
    Ok(format!("{:x}-{:x}-{:x}-{:x}", file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}

/// Returns a text that no earlier server has used.
fn time_stamp() -> String {
    format!("{:x}", SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos())
}

/// Reads the token in the first line of a file.
fn read_token(path: &Path) -> Result<String> {
    let mut line = String::new();
    let file = File::open(path).with_context(|| format!("{}: cannot open", display(path)))?;
    let read = BufReader::new(file.take(TOKEN_MAX)).read_line(&mut line);
    read.with_context(|| format!("{}: cannot read", display(path)))?;
    let token = line.trim_end_matches(['\n', '\r']);
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if token.is_empty() || !token.bytes().all(is_token) {
        let why = "the first line is not a token: letters, digits and -._~+/= are allowed";
        return Err(UsageError(format!("{}: {why}", display(path))).into());
    }
    Ok(token.to_owned())
}

fn random_token() -> Result<String> {
    let mut bytes = [0; TOKEN_LEN];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).context("cannot make a token")?;
    Ok(to_hex(&bytes))
}

/// Ends the server when a signal comes.
fn stop_on_signal(mut signals: Signals, stop: impl FnOnce() + Send + 'static) -> Result<()> {
    let wait = move || {
        if signals.forever().next().is_some() {
            stop();
        }
    };
    threads::named("packfs-signals").start(wait).context("cannot wait for signals")?;
    Ok(())
}
