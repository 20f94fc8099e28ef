//! Writes that fail while a kdump-compressed dump is written.

use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use packfs_blocks::io::faults::{FaultKind, FaultyFiles};
use packfs_blocks::{Output, Progress};
use packfs_dump::kdump::{self, Flattener, WriteAt};
use packfs_dump::{Error, Result};

use super::machine::Machine;
use super::{options, view, write_to};

fn write(machine: &Machine, faults: &FaultyFiles, path: &Path, flat: bool, threads: usize) -> Result<()> {
    let failed = |source| Error::Io { path: path.to_owned(), what: "cannot write", source };
    let (core, options) = (machine.core(), options("zstd:1", threads));
    let output = Output::create_on(Arc::new(faults.clone()), path, 0o600, false).map_err(failed)?;
    if flat {
        let mut flattener = Flattener::new(BufWriter::new(output.appender())).map_err(failed)?;
        write_to(&core, &mut flattener, &options)?;
        flattener.finish().map_err(failed)?;
    } else {
        write_to(&core, &mut &output, &options)?;
    }
    output.commit().map_err(failed)
}

#[test]
fn whichever_write_fails_the_dump_is_whole_or_absent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dump");
    let machine = Machine::new(60);
    let cases = [(false, 0), (false, 3), (true, 0)];
    for ((flat, threads), fault) in cases.into_iter().flat_map(|case| FaultKind::ALL.map(|fault| (case, fault))) {
        for number in 0.. {
            let faults = FaultyFiles::failing(number, fault);
            let done = write(&machine, &faults, &path, flat, threads);
            let failed = faults.failed();
            let what = format!("{fault:?} in operation {number}, {failed:?}, flat {flat}, {threads} threads");
            assert_eq!(matches!(done, Err(Error::Io { .. })), failed.is_some(), "{what}: {done:?}");
            // The file already has its name when its directory is flushed.
            let whole = failed.is_none() || failed == Some("flush the directory");
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), usize::from(whole), "{what}");
            if whole {
                machine.check(&view(&[&std::fs::read(&path).unwrap()]).unwrap());
                std::fs::remove_file(&path).unwrap();
            }
            if failed.is_none() {
                assert!(number > 6, "{what}");
                break;
            }
        }
    }
}

/// An output that cancels the operation at a given write.
struct Alarm<'p> {
    bytes: Vec<u8>,
    left: usize,
    progress: &'p Progress,
}

impl WriteAt for Alarm<'_> {
    fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        match self.left {
            0 => self.progress.cancel(),
            _ => self.left -= 1,
        }
        self.bytes.write_all_at(bytes, offset)
    }
}

#[test]
fn a_cancelled_dump_is_not_completed() {
    let core = Machine::new(700).core();
    for threads in [0, 2] {
        // The last writes are those of finished pages.
        for left in [0, 1, 2] {
            let progress = Progress::default();
            let mut output = Alarm { bytes: Vec::new(), left, progress: &progress };
            let paths = (Path::new("core"), Path::new("output"));
            let given = options("none", threads);
            let done = kdump::write((paths.0, &core), (paths.1, &mut output), &given, &progress);
            let cancelled = matches!(done, Err(Error::Cancelled));
            assert_eq!(cancelled, done.is_err(), "{done:?}");
            assert!(cancelled || left > 1, "cancelled with write {left} of {threads} threads");
        }
    }
}
