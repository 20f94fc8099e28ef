//! Prints files of an image, or lists its directories: `cat IMAGE PATH...`. Needs no C compiler:
//! `cargo run --example cat --no-default-features --features rust-only -- IMAGE PATH...`

use std::io::{self, Write};

use packfs_image::image::FileType;
use packfs_image::{Fs, name};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let fs = Fs::open(args.next().ok_or("usage: cat IMAGE PATH...")?)?;
    #[allow(clippy::disallowed_methods, reason = "the program's writers are not part of the library")]
    let mut out = io::stdout().lock();
    for path in args {
        if fs.metadata(&path)?.kind == FileType::Dir {
            for entry in fs.read_dir(&path)? {
                writeln!(out, "{:04o} {}", entry.stat.mode, name::display(entry.name()))?;
            }
        } else {
            io::copy(&mut fs.open_file(&path)?, &mut out)?;
        }
    }
    Ok(())
}
