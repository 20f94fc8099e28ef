//! The executor of splits: runs the program, with a reader for every simulated disk or parts in directories, and
//! removes everything it created.

use packfs_image::name::display;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::sink::SimulatedDisk;
use super::source::digest;
use super::{DiskSpec, SplitCell, SplitProgram, SplitWork};
use crate::executor::{CellExecutor, MeasuredCell};
use crate::program::{self, ProgramRun};
use crate::sample::{PassTiming, TrialSample};
use crate::scratch::ScratchDir;
use crate::{Error, Result};

/// Measures on this machine.
#[derive(Debug)]
pub struct SplitMachine {
    /// Directory for pipes and joined dumps.
    scratch: PathBuf,
    /// Directories for parts.
    directories: Vec<PathBuf>,
}

impl SplitMachine {
    /// Creates an executor with a scratch directory and directories for parts, which are used in turn; without any,
    /// parts are in the scratch directory.
    pub fn new(scratch: &Path, directories: &[PathBuf]) -> Self {
        let directories = if directories.is_empty() { vec![scratch.to_owned()] } else { directories.to_vec() };
        SplitMachine { scratch: scratch.to_owned(), directories }
    }

    fn split(&self, cell: &SplitCell) -> Result<TrialSample> {
        match cell.profile.disks(cell.outputs) {
            Some(disks) => self.split_to_disks(cell, &disks),
            None => self.split_to_files(cell, &PartPaths::new(&self.directories, cell.outputs)?),
        }
    }

    fn split_to_disks(&self, cell: &SplitCell, disks: &[DiskSpec]) -> Result<TrialSample> {
        let dir = ScratchDir::new(Some(&self.scratch), None)?;
        // All disks have a reader before the program starts, because opening a FIFO waits for one.
        let mut running = Vec::new();
        for (number, disk) in (1..).zip(disks) {
            let path = dir.path().join(format!("disk{number}"));
            running.push(SimulatedDisk::start(&path, *disk).map_err(Error::io(&path))?);
        }
        let paths: Vec<&Path> = running.iter().map(SimulatedDisk::path).collect();
        let mut command = cell.tool.split(&cell.codec, &cell.source.path, &paths);
        let begun = Instant::now();
        let sample = run_split(cell, &mut command)?;
        let mut made = 0;
        for disk in running {
            // Part of the time: the disk still drains its cache.
            made += disk.finish().map_err(Error::io(dir.path()))?;
        }
        Ok(with_disks(sample, begun.elapsed(), made))
    }

    fn split_to_files(&self, cell: &SplitCell, parts: &PartPaths) -> Result<TrialSample> {
        let mut command = cell.tool.split(&cell.codec, &cell.source.path, &parts.paths);
        let begun = Instant::now();
        let sample = run_split(cell, &mut command)?;
        let mut made = 0;
        for path in &parts.paths {
            // packfs has already flushed its parts; for others, flushing is part of the work.
            let file = File::open(path).map_err(Error::io(path))?;
            file.sync_all().map_err(Error::io(path))?;
            made += file.metadata().map_err(Error::io(path))?.len();
        }
        Ok(with_disks(sample, begun.elapsed(), made))
    }

    /// Times the join or check of new parts, which are not in the page cache because packfs drops them.
    fn restore(&self, cell: &SplitCell) -> Result<TrialSample> {
        let parts = PartPaths::new(&self.directories, cell.outputs)?;
        self.split_to_files(cell, &parts)?;
        let dir = ScratchDir::new(Some(&self.scratch), None)?;
        let joined = dir.path().join("joined");
        let mut command = Command::new(&cell.tool.path);
        match cell.work {
            SplitWork::Join => command.args(["join", "--quiet"]).args(&parts.paths).arg("-o").arg(&joined),
            _ => command.args(["check", "--quiet"]).args(&parts.paths),
        };
        let ran = program::run(&mut command, false)?;
        if cell.work == SplitWork::Join && digest(&joined)? != cell.source.digest {
            return Err(Error::Damage(cell.key().to_string()));
        }
        Ok(program_sample(cell, &ran))
    }
}

impl CellExecutor<SplitCell> for SplitMachine {
    fn run(&mut self, cell: &SplitCell, _: Duration) -> Result<TrialSample> {
        match cell.work {
            SplitWork::Split => self.split(cell),
            SplitWork::Join | SplitWork::Check => self.restore(cell),
        }
    }
}

/// Paths of parts, each in a new folder that is removed with its contents.
struct PartPaths {
    paths: Vec<PathBuf>,
    _folders: Vec<ScratchDir>,
}

impl PartPaths {
    fn new(directories: &[PathBuf], count: usize) -> Result<Self> {
        let mut folders = Vec::new();
        for dir in directories.iter().take(count) {
            folders.push(ScratchDir::new(Some(dir), None)?);
        }
        let numbered = (1..=count).zip(folders.iter().cycle());
        let paths = numbered.map(|(number, folder)| folder.path().join(format!("part{number}"))).collect();
        Ok(PartPaths { paths, _folders: folders })
    }
}

/// Returns the sample of a program alone, without output.
fn program_sample(cell: &SplitCell, ran: &ProgramRun) -> TrialSample {
    let bytes = cell.source.bytes;
    TrialSample { time: ran.time, bytes, made: 0, peak_memory: ran.peak_memory, stages: BTreeMap::new() }
}

/// Returns the sample with the disks: `wall` includes waiting for them, processor time is that of the program alone.
fn with_disks(sample: TrialSample, wall: Duration, made: u64) -> TrialSample {
    let time = PassTiming { cpu: sample.time.cpu, ..PassTiming::of(wall, Duration::ZERO) };
    TrialSample { time, made, ..sample }
}

/// Fields of `packfs split --json` that are used here.
#[derive(Deserialize)]
struct SplitSummary {
    complete: bool,
    times: BTreeMap<String, f64>,
}

/// Runs the program that splits. If the profile has a failing disk, packfs may report a failure, provided that the dump
/// is complete.
fn run_split(cell: &SplitCell, command: &mut Command) -> Result<TrialSample> {
    if cell.tool.program != SplitProgram::Packfs {
        return Ok(program_sample(cell, &program::run(command, false)?));
    }
    let may_fail = cell.profile.fails();
    let is_good = |status: ExitStatus| status.success() || may_fail && status.code() == Some(1);
    let ran = program::run_where(command, Stdio::null(), true, is_good)?;
    let failed = |why: String| Error::Program { program: display(&cell.tool.path).to_string(), why };
    let summary: SplitSummary = serde_json::from_slice(&ran.output)
        .map_err(|error| failed(format!("what it printed is not understood: {error}")))?;
    if !summary.complete {
        return Err(failed("the dump is not complete".into()));
    }
    Ok(TrialSample { stages: summary.times, ..program_sample(cell, &ran) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::{DiskProfile, SplitSource, SplitTool};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    /// A cell with a script in place of nsplit.
    fn cell(dir: &Path, script: &str, profile: &str, outputs: usize) -> SplitCell {
        let path = dir.join("script");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let source = match dir.join("source") {
            there if there.exists() => SplitSource::open(&there),
            new => SplitSource::incompressible(new, 3_000_000, 1),
        };
        let profile: DiskProfile = profile.parse().unwrap();
        SplitCell {
            source: Arc::new(source.unwrap()),
            tool: SplitTool { program: SplitProgram::Nsplit, path },
            codec: "raw".into(),
            profile,
            outputs,
            work: SplitWork::Split,
        }
    }

    fn names(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    /// Copies the input to each output, one after the other.
    const COPY: &str = "from=$1; shift; for to; do cat $from > $to || exit 3; done";

    #[test]
    fn what_is_written_to_disks_and_files_is_counted_and_goes_away() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = dir.path().join("scratch");
        let a = dir.path().join("a");
        let b = dir.path().join("b");
        [&scratch, &a, &b].iter().for_each(|dir| fs::create_dir(dir).unwrap());
        let mut machine = SplitMachine::new(&scratch, &[a.clone(), b.clone()]);
        for (profile, outputs) in [("1000", 2), ("1000,2000,3000", 3), ("directories", 1), ("directories", 3)] {
            let sample = machine.run(&cell(dir.path(), COPY, profile, outputs), Duration::ZERO).unwrap();
            assert_eq!((sample.bytes, sample.made), (3_000_000, 3_000_000 * outputs as u64), "{profile}");
            assert!(sample.time.wall > 0 && sample.stages.is_empty(), "{sample:?}");
        }
        assert!([&scratch, &a, &b].iter().all(|dir| names(dir).is_empty()));
    }

    /// Parts use the directories in turn.
    #[test]
    fn parts_are_shared_out() {
        let dir = tempfile::tempdir().unwrap();
        let a = dir.path().join("a");
        let b = dir.path().join("b");
        [&a, &b].iter().for_each(|dir| fs::create_dir(dir).unwrap());
        let parts = PartPaths::new(&[a.clone(), b.clone()], 3).unwrap();
        let in_a: Vec<bool> = parts.paths.iter().map(|path| path.starts_with(&a)).collect();
        assert_eq!(in_a, [true, false, true]);
        // A single output uses one directory only.
        let one = PartPaths::new(&[a.clone(), b.clone()], 1).unwrap();
        assert_eq!((names(&a).len(), names(&b).len(), one.paths.len()), (2, 1, 1));
        drop((parts, one));
        assert!(names(&a).is_empty() && names(&b).is_empty());
    }

    #[test]
    fn what_fails_is_told_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = dir.path().join("scratch");
        fs::create_dir(&scratch).unwrap();
        let mut machine = SplitMachine::new(&scratch, &[]);
        for (script, profile, why) in [
            ("echo no luck >&2; exit 3", "1000", "exit status 3: no luck"),
            ("kill -9 $$", "1000", "signal 9"),
            // Only a part is written, and not to all disks; the first disk is much too slow to wait for.
            ("head -c 900000 $1 > $2; exit 4", "1,1000", "exit status 4"),
            (COPY, "1000,1000@1", "exit status 3"),
            ("exit 0", "directories", "No such file"),
        ] {
            let outputs = profile.split(',').count();
            let error = machine.run(&cell(dir.path(), script, profile, outputs), Duration::ZERO).unwrap_err();
            assert!(error.to_string().contains(why), "{script}: {error}");
            assert!(names(&scratch).is_empty(), "{script}");
        }
        let gone =
            SplitMachine::new(&dir.path().join("gone"), &[]).run(&cell(dir.path(), COPY, "9", 1), Duration::ZERO);
        assert!(gone.unwrap_err().to_string().contains("gone"));
    }

    /// The exit status of packfs alone is not trusted.
    #[test]
    fn a_dump_that_is_not_complete_was_not_split() {
        let dir = tempfile::tempdir().unwrap();
        let run = |script: &str, profile: &str| {
            let mut cell = cell(dir.path(), script, profile, 1);
            cell.tool.program = SplitProgram::Packfs;
            SplitMachine::new(dir.path(), &[]).run(&cell, Duration::ZERO).map_err(|error| error.to_string())
        };
        let done = r#"echo '{"complete":true,"times":{"read":0.5},"more":1}'"#;
        assert_eq!(run(done, "50").unwrap().stages["read"], 0.5);
        // packfs may report the failure of a disk that is meant to fail.
        assert!(run(&format!("{done}; exit 1"), "50@20").is_ok());
        assert!(run(&format!("{done}; exit 1"), "50").unwrap_err().contains("exit status 1"));
        let part = r#"echo '{"complete":false,"times":{}}'"#;
        assert!(run(part, "50@20").unwrap_err().contains("not complete"));
        assert!(run("echo none", "50").unwrap_err().contains("not understood"));
    }
}
