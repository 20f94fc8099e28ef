//! Options of `serve`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{RemoteArgs, value};

/// Serve images over HTTP, with a page that explores them.
///
/// A browser shows what takes the space, finds and previews files, and saves them or folders; programs read the bytes of
/// images, of their files, and folders as archives. Only this machine is served unless --listen says otherwise. The address is printed when the server is ready; Ctrl-C
/// ends it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs serve root.sqfs
  packfs serve new.erofs --against old.erofs
  packfs serve old.erofs new.erofs --listen 127.0.0.1:8080
  packfs serve root.sqfs --listen 0.0.0.0:8080 --token secret.txt
  curl http://127.0.0.1:8080/files/etc/os-release
  curl http://127.0.0.1:8080/tar/usr/share | tar -x")]
pub(crate) struct Serve {
    /// Images to serve: files, block devices or addresses
    ///
    /// One image is at `/`, several are at `/NAME/`.
    #[arg(value_name = "IMAGE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) images: Vec<PathBuf>,

    /// Host and port to listen on, as in 127.0.0.1:8080; 0 is any free port
    ///
    /// For an address that other machines can reach, requests need a token.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: String,

    /// Answer only requests that have the token in the first line of FILE
    ///
    /// As `Authorization: Bearer TOKEN`, or once as `?token=TOKEN`, which a browser then remembers. Where a token is
    /// needed and none is given, one is made and printed with the address.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token: Option<PathBuf>,

    /// Keep at most about SIZE of decoded data in memory [default: 64M]
    ///
    /// All images share it. If a quarter of the memory is less, that is the default.
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    pub(crate) cache: Option<u64>,

    /// Show what changed since OLD_IMAGE
    ///
    /// The data of both images is read when the page is opened first.
    #[arg(long, value_name = "OLD_IMAGE", value_hint = ValueHint::FilePath)]
    pub(crate) against: Option<PathBuf>,

    /// Byte offset of the image in the file
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = value::size)]
    pub(crate) offset: u64,

    /// Additional device of an EROFS image (repeat in their order)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) device: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}
