//! Runs a program that builds an image, measures the image, and removes it.

use packfs_image::name::display;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::tool::{BuildInput, BuildProgram, BuildTool};
use super::{BuildCell, BuildSource};
use crate::executor::CellExecutor;
use crate::program::{self, ProgramRun};
use crate::sample::TrialSample;
use crate::{Error, Result};

/// Bytes of the source that a warm-up packs. The duration of a build is extrapolated from it: enough to tell seconds
/// from minutes.
const SAMPLE: u64 = 4 << 20;

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
        let sample = source.sample(&scratch.join("sample"), SAMPLE)?;
        let packfs = tools.iter().find(|tool| tool.kind == BuildProgram::Packfs).map(|tool| tool.path.clone());
        let packfs = packfs.ok_or_else(|| Error::Usage("packfs itself is not among the programs".into()))?;
        let keeps = tools.iter().any(|tool| tool.kind == BuildProgram::Tar2sqfs);
        let (tar, tar_bytes) = archive(&packfs, source, &scratch.join("source.tar"), keeps)?;
        let (sample_tar, _) = archive(&packfs, &sample, &scratch.join("sample.tar"), keeps)?;
        let input = |source: &BuildSource, tar| BuildInput { directory: source.path.clone(), tar, bytes: source.bytes };
        let source = input(source, tar);
        let sample = input(&sample, sample_tar);
        Ok(BuildRunner { tools, source, sample, image: scratch.join("image"), tar_bytes })
    }

    fn pack(&self, cell: &BuildCell, input: &BuildInput) -> Result<TrialSample> {
        let key = &cell.key;
        let tool = self.tools.iter().find(|tool| tool.kind.name() == key.tool);
        let tool = tool.ok_or_else(|| Error::Usage(format!("{} is not among the programs", key.tool)))?;
        let (mut command, reads) = tool.command(key, input, &self.image)?;
        let reads = match reads {
            Some(path) => Stdio::from(File::open(path).map_err(Error::io(path))?),
            None => Stdio::null(),
        };
        let ran = program::run_where(&mut command, reads, tool.kind == BuildProgram::Packfs, |status| status.success());
        let made = fs::metadata(&self.image).map(|image| image.len());
        // Also of a build that failed, as the next one must find the place free.
        let _ = fs::remove_file(&self.image);
        let (ProgramRun { time, peak_memory, output }, made) = (ran?, made.map_err(Error::io(&self.image))?);
        let mut trial = TrialSample { time, bytes: input.bytes, made, peak_memory, stages: BTreeMap::new() };
        if tool.kind == BuildProgram::Packfs {
            let not_understood = |error: serde_json::Error| Error::Program {
                program: display(&tool.path).to_string(),
                why: format!("what it says of the build is not understood: {error}"),
            };
            let built: BuildSummary = serde_json::from_slice(&output).map_err(not_understood)?;
            // packfs knows its own peak, which is also right where it is below that of this process.
            (trial.peak_memory, trial.stages) = (Some(built.peak_memory), built.stages);
        }
        Ok(trial)
    }
}

/// Makes a tar archive by packing without compression and converting the image with `packfs tar`. Returns its length,
/// and its path if it is kept.
fn archive(packfs: &Path, source: &BuildSource, tar: &Path, keep: bool) -> Result<(Option<PathBuf>, u64)> {
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

impl CellExecutor<BuildCell> for BuildRunner {
    fn run(&mut self, cell: &BuildCell, _least: Duration) -> Result<TrialSample> {
        self.pack(cell, &self.source)
    }

    /// Packs a subset of the source. The whole source is already cached, because making the archives has read it.
    fn warm_up(&mut self, cell: &BuildCell) -> Result<Duration> {
        let part = self.pack(cell, &self.sample)?;
        let times = self.source.bytes as f64 / self.sample.bytes.max(1) as f64;
        Ok(Duration::try_from_secs_f64(part.time.seconds() * times).unwrap_or(Duration::MAX))
    }
}
