//! Packs a directory into an image of the format given by its name's suffix, showing progress,
//! until Enter is pressed: `pack DIRECTORY IMAGE.sqfs|IMAGE.erofs [CODEC]`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use packfs_image::{Builder, Choice, Error};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [directory, image, codec @ ..] = &args[..] else {
        return Err("usage: pack DIRECTORY IMAGE.sqfs|IMAGE.erofs [CODEC]".into());
    };
    let mut builder = if image.ends_with(".erofs") { Builder::erofs() } else { Builder::squashfs() };
    if let [codec, ..] = codec {
        builder = builder.codec(codec.parse::<Choice>()?);
    }
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&stopped);
    std::thread::spawn(move || {
        // At the end of input nobody can press a key.
        if std::io::stdin().read_line(&mut String::new()).is_ok_and(|len| len > 0) {
            stop.store(true, Relaxed);
        }
    });
    builder = builder.on_progress(move |progress| {
        let done = progress.done.load(Relaxed);
        let total = progress.total.load(Relaxed);
        eprint!("\r{:?}: {done} of {total} bytes ", progress.phase());
        if stopped.load(Relaxed) {
            progress.cancel();
        }
    });
    match builder.dir(directory).build(image) {
        Ok(summary) => println!("\n{} files, {} bytes", summary.files, summary.image_bytes),
        Err(Error::Cancelled) => println!("\nstopped: {image} was not made"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
