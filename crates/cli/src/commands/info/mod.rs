//! `packfs info`.

pub(crate) mod erofs;
mod inode;
mod squashfs;
mod stats;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use packfs_image::AnyImage;
use packfs_image::stats::Stats;
use serde::Serialize;

use super::{open, parts};
use crate::args::Info;
use crate::output;
use crate::output::failure::{Outcome, Usage};
use crate::output::json;

pub(super) fn run(args: &Info) -> Result<Outcome> {
    if let Some(paths) = parts::named(&args.image, &args.parts.rest)? {
        if args.stats || args.inode.is_some() {
            return Err(Usage("--stats and --inode are for images, not for the parts of a dump".into()).into());
        }
        return parts::info(&paths, args.json);
    }
    let image = open::image(&args.image)?;
    if let Some(path) = &args.inode {
        return inode(args, &image, path);
    }
    let stats = args.stats.then(|| Stats::measure(&image)).transpose()?;
    let about = match image {
        AnyImage::Squashfs(image) => About::Squashfs(squashfs::About::new(image.superblock())),
        AnyImage::Erofs(image) => About::Erofs(erofs::About::new(&image)),
    };
    if args.json {
        json::print("info", &Document { about, stats: stats.as_ref().map(stats::About::new) })?;
    } else {
        output::write_result(|out| {
            about.print(out)?;
            stats.as_ref().map_or(Ok(()), |stats| Ok(stats::print(stats, out)?))
        })?;
    }
    Ok(Outcome::Done)
}

fn inode(args: &Info, image: &AnyImage, path: &Path) -> Result<Outcome> {
    let about = inode::About::new(image, path).with_context(|| open::name(&args.image.path))?;
    if args.json {
        json::print("info", &OfInode { inode: about })?;
    } else {
        output::write_result(|out| about.print(out, path))?;
    }
    Ok(Outcome::Done)
}

/// Facts about one inode.
#[derive(Serialize)]
struct OfInode<'i> {
    inode: inode::About<'i>,
}

/// Facts about an image, with its statistics if they are wanted.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    about: About,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<stats::About>,
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
