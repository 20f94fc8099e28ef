//! Makes the images of `packfs bench read --matrix` in a scratch directory.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use packfs_bench::build::{self, BuildInput, BuildProgram, BuildTool};
use packfs_bench::estimate::scaled;
use packfs_bench::format::ImageFormat;
use packfs_bench::program;
use packfs_bench::read::{MeasuredImage, NONE};
use packfs_bench::record::BenchSession;
use packfs_codec::Codec;
use packfs_image::name::display;

use super::{START, estimate, fail_if_stopped, images, peers};
use crate::args::BenchReadArgs;
use crate::output::display::StepDisplay;
use crate::output::failure::UsageError;
use crate::output::{say, units};
use crate::resources;

/// Block size of uncompressed images, which matters only for SquashFS.
const PLAIN_BLOCK: usize = 128 << 10;

/// Makes an image of the source with each program, codec and block size. Names those that fail, and
/// returns their number too.
pub(super) fn make_images(
    args: &BenchReadArgs,
    source: &Path,
    scratch: &Path,
    stop: &AtomicBool,
    about: &mut BenchSession,
) -> Result<(Vec<MeasuredImage>, usize)> {
    let name = source_name(source)?;
    let mut tools = peers::find_tools(args.peers.as_ref())?;
    // It reads only archives, and packs like packfs.
    tools.retain(|tool| tool.program != BuildProgram::Tar2sqfs);
    about.libraries.extend(tools.iter().map(|tool| (tool.program.name().to_owned(), tool.version.clone())));
    let input = BuildInput { directory: source.to_owned(), tar: None, bytes: 0 };
    let plans = plan_images(args, &tools, &name);
    let (times, room) = estimate_costs(source, &plans);
    let all: f64 = times.iter().sum();
    if !args.measuring.talk.quiet {
        let room = units::bytes(room);
        let time = units::span(whole_seconds(all));
        let images = units::of(plans.len() as u64, "image");
        let text = format_args!("{images} of {name} in {}: roughly {time}, {room}", display(scratch));
        say(format_args!("packfs: making {text}"));
    }
    let steps = StepDisplay::new("making images", args.measuring.talk.quiet);
    let begun = Instant::now();
    let mut made = Vec::new();
    let mut left_out = 0;
    for (number, (tool, key)) in plans.iter().enumerate() {
        fail_if_stopped(stop)?;
        let done: f64 = times[..number].iter().sum();
        // By how much the estimate was off so far, it is off for the rest.
        let off = if number > 0 { begun.elapsed().as_secs_f64() / done } else { 1.0 };
        let left = units::span(whole_seconds((all - done) * off));
        let figures = [format!("{left} left"), format!("{number} of {} done", plans.len())];
        steps.show(done / all, &figures, key);
        let path = scratch.join(format!("{number}-{}.img", key.tool));
        match make_image(tool, key, &input, &path) {
            Ok(image) => made.push(image),
            // After an interruption there is no other reason for a failure.
            Err(error) => {
                fail_if_stopped(stop)?;
                left_out += 1;
                let _ = std::fs::remove_file(&path);
                steps.say(format_args!("packfs: {key} is left out: {error:#}"));
            }
        }
    }
    steps.finish();
    Ok((made, left_out))
}

/// Expected seconds of each image, and bytes of all, from a sample of the source.
fn estimate_costs(source: &Path, plans: &[(&BuildTool, build::BuildKey)]) -> (Vec<f64>, u64) {
    // What cannot be read is left out here as it is there.
    let bytes = build::BuildSource::of(source).map_or(0, |source| source.bytes);
    let rates = estimate::measure_rates(source, plans.iter().map(|(_, key)| key.codec.as_str()));
    let rate = |key: &build::BuildKey| rates.get(&key.codec);
    let seconds = |key: &build::BuildKey| {
        let rate = rate(key);
        START + bytes as f64 * (rate.encode + rate.decode) / resources::cores() as f64
    };
    let room = plans.iter().map(|(_, key)| scaled(bytes, rate(key).ratio)).sum();
    (plans.iter().map(|(_, key)| seconds(key)).collect(), room)
}

fn whole_seconds(seconds: f64) -> Duration {
    estimate::whole_seconds(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// Returns the name of the source, which must be a directory: some programs cannot pack anything else.
fn source_name(source: &Path) -> Result<String> {
    let whole = source.canonicalize().with_context(|| display(source).to_string())?;
    if !whole.is_dir() {
        let text = format!("{}: images to compare are made of a directory; put the file into one", display(source));
        return Err(UsageError(text).into());
    }
    Ok(whole.file_name().map_or_else(|| "/".into(), |name| display(name).to_string()))
}

/// Returns every combination that a format supports; block sizes do not matter without compression.
fn plan_images<'t>(
    args: &BenchReadArgs,
    tools: &'t [BuildTool],
    source: &str,
) -> Vec<(&'t BuildTool, build::BuildKey)> {
    let mut plans = Vec::new();
    for choice in &args.codecs.0 {
        let plain = choice.codec() == Codec::None;
        let mut blocks = if plain { vec![PLAIN_BLOCK] } else { args.blocks.0.clone() };
        if args.quick {
            let least = blocks.iter().min().copied();
            let most = blocks.iter().max().copied();
            blocks.retain(|block| Some(*block) == least || Some(*block) == most);
        }
        for block in blocks {
            for (tool, format) in tools.iter().flat_map(|tool| ImageFormat::ALL.map(|format| (tool, format))) {
                if !tool.program.makes(format) || !format.has(choice) {
                    continue;
                }
                // Sharing makes mkfs.erofs single-threaded, and does not matter to readers.
                let features = match format {
                    ImageFormat::Squashfs => "fragments,dedupe",
                    ImageFormat::Erofs if plain => "",
                    ImageFormat::Erofs => "fragments",
                };
                let key = build::BuildKey {
                    source: source.to_owned(),
                    digest: String::new(),
                    tool: tool.program.name().into(),
                    format: format.name().into(),
                    codec: choice.to_string(),
                    block,
                    features: features.into(),
                    threads: resources::cores(),
                };
                plans.push((tool, key));
            }
        }
    }
    plans
}

fn make_image(tool: &BuildTool, key: &build::BuildKey, input: &BuildInput, path: &Path) -> Result<MeasuredImage> {
    let (mut command, _) = tool.command(key, input, path)?;
    program::run(&mut command, false)?;
    let image = images::describe_image(path)?;
    let block = if key.codec == NONE { 0 } else { key.block };
    let build::BuildKey { source, tool, codec, features, .. } = key.clone();
    Ok(MeasuredImage { source, tool, codec, block, features, ..image })
}
