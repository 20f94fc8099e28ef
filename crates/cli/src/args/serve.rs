//! Options of `serve`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{RemoteArgs, value};

/// Serve images over HTTP, with a page that explores them, or as disks.
///
/// In a browser, you can see what takes up space, find and preview files, and save files and folders. Programs can
/// read images, their files, and folders as archives. Only this machine can connect unless --listen says otherwise.
/// With --nbd, images and dumps are disks for programs such as qemu-img, nbdcopy and nbd-client instead. packfs prints
/// the address when the server is ready; Ctrl-C ends it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  packfs serve root.sqfs
  packfs serve new.erofs --against old.erofs
  packfs serve old.erofs new.erofs --listen 127.0.0.1:8080
  packfs serve root.sqfs --listen 0.0.0.0:8080 --token secret.txt
  packfs serve --nbd nbd.sock root.sqfs
  packfs serve --nbd 127.0.0.1:10809 /disk1/dump.1 /disk2/dump.2
  curl http://127.0.0.1:8080/files/etc/os-release
  curl http://127.0.0.1:8080/tar/usr/share | tar -x")]
pub(crate) struct ServeArgs {
    /// Images to serve: files, block devices or addresses
    ///
    /// One image is at `/`, several are at `/NAME/`. With --nbd also the parts of a dump that packfs split wrote.
    #[arg(value_name = "IMAGE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) images: Vec<PathBuf>,

    /// Offer the images as read-only disks with the NBD protocol
    ///
    /// ADDRESS is the path of a socket to create, or HOST:PORT of this machine. Each image is an export with the name
    /// of its file. The parts of a dump are one export, `dump`: the disk that was split. The first export is the
    /// default.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["listen", "token", "against"])]
    pub(crate) nbd: Option<PathBuf>,

    /// Host and port to listen on, as in 127.0.0.1:8080; 0 is any free port
    ///
    /// For an address that other machines can reach, requests need a token.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: String,

    /// Answer only requests that have the token in the first line of FILE
    ///
    /// A request sends it as `Authorization: Bearer TOKEN`, or once as `?token=TOKEN`, which a browser then remembers.
    /// If a token is needed and none is given, packfs makes one and prints it with the address.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token: Option<PathBuf>,

    /// Keep at most about SIZE of decoded data in memory [default: 64M]
    ///
    /// All images share it. The default is less if a quarter of the memory is less.
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    pub(crate) cache: Option<u64>,

    /// Show what changed since OLD_IMAGE
    ///
    /// The data of both images is read when the page is first opened.
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
