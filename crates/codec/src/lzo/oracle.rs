//! liblzo2 as a test oracle: a separate program, compiled when a test first asks for it.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A job for liblzo2.
#[derive(Clone, Copy)]
pub(super) enum OracleJob {
    /// Decode to at most this number of bytes.
    Decode(usize),
    /// Encode by lzo1x_1.
    Encode1,
    /// Encode by lzo1x_999 at a level from 1 to 9.
    Encode999(u32),
}

/// Runs the jobs and returns the result of each, or `None` for a job that failed. Returns `None` as
/// a whole, after printing a message, if liblzo2 or a C compiler is not installed; panics instead
/// if oracles are required.
pub(super) fn run(test: &str, jobs: &[(OracleJob, &[u8])]) -> Option<Vec<Option<Vec<u8>>>> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let Some(program) = PROGRAM.get_or_init(compile) else {
        eprintln!("SKIPPED {test}: liblzo2 (liblzo2-dev) or cc is not installed");
        assert!(std::env::var_os("PACKFS_REQUIRE_ORACLES").is_none(), "{test}: oracle liblzo2 is required");
        return None;
    };
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let answers = std::thread::scope(|scope| {
        scope.spawn(move || {
            for (job, input) in jobs {
                let (level, room) = match job {
                    OracleJob::Decode(room) => (0, *room),
                    OracleJob::Encode1 => (1, input.len() + input.len() / 16 + 67),
                    OracleJob::Encode999(level) => (100 + level, input.len() + input.len() / 16 + 67),
                };
                for number in [level, u32::try_from(input.len()).unwrap(), u32::try_from(room).unwrap()] {
                    stdin.write_all(&number.to_ne_bytes()).unwrap();
                }
                stdin.write_all(input).unwrap();
            }
        });
        jobs.iter().map(|_| answer(&mut stdout)).collect()
    });
    assert!(child.wait().unwrap().success());
    Some(answers)
}

fn answer(stdout: &mut impl Read) -> Option<Vec<u8>> {
    let mut len = [0; 4];
    stdout.read_exact(&mut len).unwrap();
    let len = u32::from_ne_bytes(len);
    if len == u32::MAX {
        return None;
    }
    let mut output = vec![0; len as usize];
    stdout.read_exact(&mut output).unwrap();
    Some(output)
}

/// Compiles `oracle.c` into the target directory this test runs from.
fn compile() -> Option<PathBuf> {
    let program = std::env::current_exe().unwrap().with_file_name(format!("lzo-oracle-{}", std::process::id()));
    let mut cc = Command::new("cc")
        .args(["-O2", "-x", "c", "-", "-llzo2", "-o"])
        .arg(&program)
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    cc.stdin.take().unwrap().write_all(include_bytes!("oracle.c")).ok()?;
    cc.wait().unwrap().success().then_some(program)
}
