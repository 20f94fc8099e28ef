//! `packfs info`.

mod erofs;
mod squashfs;

use std::io::Write;

use anyhow::Result;
use packfs_image::AnyImage;
use serde::Serialize;

use super::{open, parts};
use crate::args::Info;
use crate::output;
use crate::output::failure::Outcome;
use crate::output::json;

pub(super) fn run(args: &Info) -> Result<Outcome> {
    if let Some(paths) = parts::named(&args.image, &args.parts.rest)? {
        return parts::info(&paths, args.json);
    }
    let about = match open::image(&args.image)? {
        AnyImage::Squashfs(image) => About::Squashfs(squashfs::About::new(image.superblock())),
        AnyImage::Erofs(image) => About::Erofs(erofs::About::new(image.superblock())),
    };
    if args.json {
        json::print("info", &about)?;
    } else {
        let mut out = output::stdout()?;
        about.print(&mut out)?;
        out.flush()?;
    }
    Ok(Outcome::Done)
}

/// Facts about an image, in the terms of its format.
#[derive(Serialize)]
#[serde(untagged)]
enum About {
    Squashfs(squashfs::About),
    Erofs(erofs::About),
}

impl About {
    fn print(&self, out: &mut impl Write) -> Result<()> {
        match self {
            About::Squashfs(about) => about.print(out),
            About::Erofs(about) => about.print(out),
        }
    }
}
