//! `packfs info`.

mod erofs;
mod squashfs;
mod stats;

use std::io::Write;

use anyhow::Result;
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
        if args.stats {
            return Err(Usage("--stats is for images, not for the parts of a dump".into()).into());
        }
        return parts::info(&paths, args.json);
    }
    let image = open::image(&args.image)?;
    let stats = args.stats.then(|| Stats::measure(&image)).transpose()?;
    let about = match image {
        AnyImage::Squashfs(image) => About::Squashfs(squashfs::About::new(image.superblock())),
        AnyImage::Erofs(image) => About::Erofs(erofs::About::new(image.superblock())),
    };
    if args.json {
        json::print("info", &Document { about, stats: stats.as_ref().map(stats::About::new) })?;
    } else {
        let mut out = output::stdout()?;
        about.print(&mut out)?;
        if let Some(stats) = &stats {
            stats::print(stats, &mut out)?;
        }
        out.flush()?;
    }
    Ok(Outcome::Done)
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
