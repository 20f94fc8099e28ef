//! Packs a directory with the library: `build_dir DIRECTORY IMAGE [CODEC] [THREADS]`.

use std::path::Path;
use std::time::Instant;

use packfs_blocks::Progress;
use packfs_image::Plan;
use packfs_image::source::Source;
use packfs_image::source::dir::{Dir, Options as DirOptions};
use packfs_image::squashfs::{Options, build};
use packfs_image::tree::Tree;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let (Some(directory), Some(image)) = (args.get(1), args.get(2)) else {
        return Err("usage: build_dir DIRECTORY IMAGE [CODEC] [THREADS]".into());
    };
    let mut options = Options::default().with(|build| build.force = true);
    if let Some(codec) = args.get(3) {
        options.build.codec = codec.parse()?;
    }
    if let Some(threads) = args.get(4) {
        options.build.threads = threads.parse()?;
    }
    let threads = options.build.threads;
    let begin = Instant::now();
    let summary = build(Path::new(image), &options, &Progress::default(), |store| {
        let mut tree = Tree::default();
        Dir::new(directory, DirOptions { threads, ..DirOptions::default() }).scan(&mut tree, store)?;
        eprintln!("scanned in {:?}", begin.elapsed());
        Ok(Plan { tree, order: Vec::new() })
    })?;
    println!("{summary:#?}\n{:?}", begin.elapsed());
    Ok(())
}
