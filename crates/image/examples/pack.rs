//! Packs a directory into an image of the format given by its name's suffix, showing progress,
//! until Enter is pressed: `pack DIRECTORY IMAGE.sqfs|IMAGE.erofs [CODEC]`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use packfs_image::{Builder, Error, Progress};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [directory, image, codec @ ..] = &args[..] else {
        return Err("usage: pack DIRECTORY IMAGE.sqfs|IMAGE.erofs [CODEC]".into());
    };
    let mut builder = if image.ends_with(".erofs") { Builder::erofs() } else { Builder::squashfs() };
    if let [codec, ..] = codec {
        let codec = codec.parse()?;
        builder = builder.options(|all| all.codec = codec);
    }
    let progress = Arc::new(Progress::default());
    let (watched, stopped) = (progress.clone(), progress.clone());
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let (done, total) = (watched.done.load(Relaxed), watched.total.load(Relaxed));
            eprintln!("{:?}: {done} of {total} bytes", watched.phase());
        }
    });
    std::thread::spawn(move || {
        // At the end of input nobody can press a key.
        if std::io::stdin().read_line(&mut String::new()).is_ok_and(|len| len > 0) {
            stopped.cancel();
        }
    });
    match builder.progress(progress).dir(directory).build(image) {
        Ok(summary) => println!("{} files, {} bytes", summary.files, summary.image_bytes),
        Err(Error::Cancelled) => println!("stopped: {image} was not made"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
