//! Runs a program that builds an image, measures the image, and removes it.

use packfs_image::name::display;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::tool::{BuildInput, BuildProgram, BuildTool};
use super::{BuildKey, BuildSource};
use crate::executor::CellExecutor;
use crate::program::{self, ProgramRun};
use crate::sample::TrialSample;
use crate::{Error, Result};

/// Bytes of the source that a warm-up packs. The duration of a build is extrapolated from it: enough to tell seconds
/// from minutes.
const SAMPLE_LEN: u64 = 4 << 20;

/// Runs builds of one source. The directory for images belongs to the caller, who removes it.
#[derive(Debug)]
pub struct BuildRunner {
    tools: Vec<BuildTool>,
    source: BuildInput,
    sample: BuildInput,
    image: PathBuf,
    /// Length of the source as a tar archive.
    pub tar_bytes: u64,
}

/// The summary that `packfs build --json` prints.
#[derive(Deserialize)]
struct BuildSummary {
    peak_memory: u64,
    stages: BTreeMap<String, f64>,
}

impl BuildRunner {
    /// Prepares a subset of the source for the warm-up, and tar archives if a tool reads those. `tools` begin with
    /// packfs.
    pub fn new(tools: Vec<BuildTool>, source: &BuildSource, scratch: &Path) -> Result<Self> {
        let sample = source.sample(&scratch.join("sample"), SAMPLE_LEN)?;
        let packfs = tools.iter().find(|tool| tool.program == BuildProgram::Packfs).map(|tool| tool.path.clone());
        let packfs = packfs.ok_or_else(|| Error::Usage("packfs itself is not among the programs".into()))?;
        let needs_tar = tools.iter().any(|tool| tool.program == BuildProgram::Tar2sqfs);
        let (tar, tar_bytes) = make_archive(&packfs, source, &scratch.join("source.tar"), needs_tar)?;
        let (sample_tar, _) = make_archive(&packfs, &sample, &scratch.join("sample.tar"), needs_tar)?;
        let input = |source: &BuildSource, tar| BuildInput { directory: source.path.clone(), tar, bytes: source.bytes };
        let source = input(source, tar);
        let sample = input(&sample, sample_tar);
        Ok(BuildRunner { tools, source, sample, image: scratch.join("image"), tar_bytes })
    }

    fn pack(&self, key: &BuildKey, input: &BuildInput) -> Result<TrialSample> {
        let tool = self.tools.iter().find(|tool| tool.program.name() == key.tool);
        let tool = tool.ok_or_else(|| Error::Usage(format!("{} is not among the programs", key.tool)))?;
        let (mut command, archive) = tool.command(key, input, &self.image)?;
        let stdin = match archive {
            Some(path) => Stdio::from(File::open(path).map_err(Error::io(path))?),
            None => Stdio::null(),
        };
        let is_packfs = tool.program == BuildProgram::Packfs;
        let ran = program::run_where(&mut command, stdin, is_packfs, |status| status.success());
        let image_len = fs::metadata(&self.image).map(|image| image.len());
        // Also of a build that failed, because the next one expects no image there.
        let _ = fs::remove_file(&self.image);
        let ProgramRun { time, peak_memory, output } = ran?;
        let made = image_len.map_err(Error::io(&self.image))?;
        let mut trial = TrialSample { time, bytes: input.bytes, made, peak_memory, stages: BTreeMap::new() };
        if is_packfs {
            let not_understood = |error: serde_json::Error| Error::Program {
                program: display(&tool.path).to_string(),
                why: format!("what it says of the build is not understood: {error}"),
            };
            let built: BuildSummary = serde_json::from_slice(&output).map_err(not_understood)?;
            // packfs knows its own peak, which is also right where it is below that of this process.
            trial.peak_memory = Some(built.peak_memory);
            trial.stages = built.stages;
        }
        Ok(trial)
    }
}

/// Makes a tar archive by packing without compression and converting the image with `packfs tar`. Returns its length,
/// and its path if it is kept.
fn make_archive(packfs: &Path, source: &BuildSource, tar: &Path, keep: bool) -> Result<(Option<PathBuf>, u64)> {
    let image = tar.with_extension("sqfs");
    let mut build = Command::new(packfs);
    build.arg("build").arg(&source.path).arg("-o").arg(&image).args(["--quiet", "--codec", "none"]);
    program::run(&mut build, false)?;
    program::run(Command::new(packfs).arg("tar").arg(&image).arg("-o").arg(tar).arg("--quiet"), false)?;
    fs::remove_file(&image).map_err(Error::io(&image))?;
    let bytes = fs::metadata(tar).map_err(Error::io(tar))?.len();
    if keep {
        return Ok((Some(tar.to_owned()), bytes));
    }
    fs::remove_file(tar).map_err(Error::io(tar))?;
    Ok((None, bytes))
}

impl CellExecutor<BuildKey> for BuildRunner {
    fn run(&mut self, cell: &BuildKey, _min_time: Duration) -> Result<TrialSample> {
        self.pack(cell, &self.source)
    }

    /// Packs a subset of the source. The whole source is already cached, because making the archives has read it.
    fn warm_up(&mut self, cell: &BuildKey) -> Result<Duration> {
        let part = self.pack(cell, &self.sample)?;
        let factor = self.source.bytes as f64 / self.sample.bytes.max(1) as f64;
        Ok(Duration::try_from_secs_f64(part.time.seconds() * factor).unwrap_or(Duration::MAX))
    }
}
