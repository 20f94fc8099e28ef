//! `packfs info`.

pub(crate) mod erofs;
mod inode;
pub(super) mod squashfs;
mod stats;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use packfs_image::AnyImage;
use packfs_image::stats::Stats;
use serde::Serialize;

use super::{open, parts};
use crate::args::InfoArgs;
use crate::output;
use crate::output::failure::{CommandOutcome, UsageError};
use crate::output::json::{self, JsonDocument};

pub(super) fn run(args: &InfoArgs) -> Result<CommandOutcome> {
    if let Some(paths) = parts::named(&args.image, &args.parts.rest)? {
        if args.stats || args.inode.is_some() {
            return Err(UsageError("--stats and --inode are for images, not for the parts of a dump".into()).into());
        }
        return parts::info(&paths, args.json);
    }
    let image = open::image(&args.image)?;
    if let Some(path) = &args.inode {
        return describe_inode(args, &image, path);
    }
    let stats = args.stats.then(|| Stats::measure(&image)).transpose()?;
    let about = match image {
        AnyImage::Squashfs(image) => ImageInfo::Squashfs(squashfs::SquashfsInfo::new(image.superblock())),
        AnyImage::Erofs(image) => ImageInfo::Erofs(erofs::ErofsInfo::new(&image)),
    };
    if args.json {
        about.print_json(stats.as_ref().map(stats::SpaceReport::new))?;
    } else {
        output::write_result(|out| {
            about.print(out)?;
            stats.as_ref().map_or(Ok(()), |stats| Ok(stats::print(stats, out)?))
        })?;
    }
    Ok(CommandOutcome::Done)
}

fn describe_inode(args: &InfoArgs, image: &AnyImage, path: &Path) -> Result<CommandOutcome> {
    let about = inode::InodeReport::new(image, path).with_context(|| open::name(&args.image.path))?;
    if args.json {
        json::print(&InodeDocument { inode: about })?;
    } else {
        output::write_result(|out| about.print(out, path))?;
    }
    Ok(CommandOutcome::Done)
}

/// Facts about one inode.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct InodeDocument<'i> {
    /// The inode.
    inode: inode::InodeReport<'i>,
}

impl JsonDocument for InodeDocument<'_> {
    const KIND: &'static str = "info";
}

/// Facts about an image, with its statistics if they are wanted.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct InfoDocument<I> {
    #[serde(flatten)]
    info: I,
    /// Use of the space in the image; absent without `--stats`.
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<stats::SpaceReport>,
}

impl<I: Serialize> JsonDocument for InfoDocument<I> {
    const KIND: &'static str = "info";
}

/// Facts about an image, in the terms of its format.
enum ImageInfo {
    Squashfs(squashfs::SquashfsInfo),
    Erofs(erofs::ErofsInfo),
}

impl ImageInfo {
    fn print(&self, out: &mut impl Write) -> Result<()> {
        match self {
            ImageInfo::Squashfs(info) => info.print(out),
            ImageInfo::Erofs(info) => info.print(out),
        }
    }

    fn print_json(self, stats: Option<stats::SpaceReport>) -> Result<()> {
        match self {
            ImageInfo::Squashfs(info) => json::print(&InfoDocument { info, stats }),
            ImageInfo::Erofs(info) => json::print(&InfoDocument { info, stats }),
        }
    }
}
