//! Makes the images of `packfs bench read --matrix` in a scratch directory.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use packfs_bench::program;
use packfs_bench::read::{Image, Maker, NONE};
use packfs_bench::record::Session;
use packfs_codec::{Choice, Codec};

use super::{go_on, images};
use crate::args::Read;
use crate::output::failure::Usage;
use crate::output::say;

/// One image to be made.
struct Plan<'p> {
    maker: &'p Maker,
    choice: &'p Choice,
    /// 0 where nothing is compressed.
    block: usize,
}

/// Every image that some program makes of the source with each codec and block. What cannot be made is named; gives
/// how many those are, too.
pub(super) fn make(
    args: &Read,
    source: &Path,
    own: &Path,
    scratch: &Path,
    stop: &AtomicBool,
    about: &mut Session,
) -> Result<(Vec<Image>, usize)> {
    let name = name(source)?;
    let makers = makers(args, own, about);
    let plans = plans(args, &makers);
    if !args.measuring.talk.quiet {
        say(format_args!("packfs: making {} images of {name} in {}", plans.len(), scratch.display()));
    }
    let (mut made, mut left_out) = (Vec::new(), 0);
    for (number, plan) in plans.iter().enumerate() {
        go_on(stop)?;
        let path = scratch.join(format!("{number}-{}.img", plan.maker.name()));
        match one(plan, source, &path) {
            Ok(None) => {}
            Ok(Some(image)) => made.push(Image { source: name.clone(), ..image }),
            // An interrupted program has failed for no other reason.
            Err(error) => {
                go_on(stop)?;
                left_out += 1;
                let _ = std::fs::remove_file(&path);
                let (maker, choice) = (plan.maker, plan.choice);
                let what = format!("{} by {} with {choice}, {}", maker.format().name(), maker.name(), plan.block);
                say(format_args!("packfs: the image {what} is left out: {error:#}"));
            }
        }
    }
    Ok((made, left_out))
}

/// What the source is called, which has to be a directory: not every program packs anything else.
fn name(source: &Path) -> Result<String> {
    let whole = source.canonicalize().with_context(|| source.display().to_string())?;
    if !whole.is_dir() {
        let text = format!("{}: images to compare are made of a directory; put the file into one", source.display());
        return Err(Usage(text).into());
    }
    Ok(whole.file_name().map_or_else(|| "/".into(), |name| name.display().to_string()))
}

/// Who makes images here; says who is missing.
fn makers(args: &Read, own: &Path, about: &mut Session) -> Vec<Maker> {
    let mut makers = Maker::packfs(own);
    if !args.no_peers {
        let (peers, missing) = Maker::peers(args.peers.as_deref());
        makers.extend(peers);
        if !missing.is_empty() && !args.measuring.talk.quiet {
            say(format_args!("packfs: not installed, and left out: {}", missing.join(", ")));
        }
    }
    let versions = makers.iter().map(|maker| (maker.name().to_owned(), maker.version().unwrap_or_default()));
    about.libraries.extend(versions);
    makers
}

/// Every combination; blocks do not matter where nothing is compressed.
fn plans<'p>(args: &'p Read, makers: &'p [Maker]) -> Vec<Plan<'p>> {
    let mut plans = Vec::new();
    for choice in &args.codecs.0 {
        let blocks = if choice.codec() == Codec::None { &[0] } else { &args.blocks.0[..] };
        for &block in blocks {
            plans.extend(makers.iter().map(|maker| Plan { maker, choice, block }));
        }
    }
    plans
}

/// Makes an image; nothing where its format does not have the codec.
fn one(plan: &Plan<'_>, source: &Path, path: &Path) -> Result<Option<Image>> {
    let Plan { maker, choice, block } = plan;
    let Some(command) = maker.command(source, path, choice, *block) else { return Ok(None) };
    program::run(&mut command?, false)?;
    let image = images::describe(path)?;
    let codec = if *block == 0 { NONE.to_owned() } else { choice.to_string() };
    let (tool, features) = (maker.name().to_owned(), maker.features(choice).to_owned());
    Ok(Some(Image { tool, codec, block: *block, features, ..image }))
}
