//! Kills at random moments: `kill -9` while packfs builds, converts, extracts, splits and joins.
//! Old files are unchanged, new files are whole, and nothing else is left.
//!
//! `PACKFS_KILLS` sets their number, `PACKFS_KILLS_SEED` their moments; scripts/kill-tests.sh makes a thousand, and a
//! thousand where files cannot be without a name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{have, packfs, run_in, stderr, succeed};
use packfs_blocks::testing::Random;

/// Numbers of kills unless the environment says otherwise, with `O_TMPFILE` and without.
const KILLS: u64 = 50;
const KILLS_NAMED: u64 = 15;

const OLD: &[u8] = b"what was there before";

/// A command to kill, run in the directory of the inputs.
struct Job {
    name: &'static str,
    args: Vec<&'static str>,
    made: Made,
    /// Its duration if it is not killed.
    takes: Duration,
}

/// Output of a job in the directory `out`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    /// The file `out/target`, the same each time.
    File,
    /// The directory `out/tree`, from `root.sqfs`.
    Tree,
    /// Parts of `memory`.
    Parts,
}

/// Outcomes, by job.
#[derive(Default, Debug)]
struct Seen {
    kills: u64,
    /// Number of times it ended before the kill.
    ended: u64,
    /// Number of times the output was whole, unchanged, or absent after a kill.
    whole: u64,
    old: u64,
    absent: u64,
    /// Number of files under temporary names.
    litter: u64,
    /// Number of extracted files that were not whole.
    unfinished: u64,
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut out = Vec::with_capacity(len);
    while out.len() < len {
        match random.below(4) {
            0 => out.extend([0; 4096]),
            1 => out.extend(b"a line of text that shrinks\n".repeat(200)),
            _ => (0..512).for_each(|_| out.extend(random.number().to_le_bytes())),
        }
    }
    out.truncate(len);
    out
}

/// Makes the inputs of all jobs, and the expected outputs.
fn prepare(dir: &Path) -> (Vec<Job>, BTreeMap<&'static str, Vec<u8>>) {
    std::fs::create_dir_all(dir.join("root/many")).unwrap();
    for n in 0..300 {
        std::fs::write(dir.join(format!("root/many/{n}")), noise(n * 40, n as u64)).unwrap();
    }
    for n in 0..6 {
        std::fs::write(dir.join(format!("root/large{n}")), noise(2 << 20, 1000 + n)).unwrap();
    }
    std::fs::write(dir.join("memory"), noise(24 << 20, 7)).unwrap();
    succeed(dir, &["build", "root", "-o", "root.sqfs", "-q"]);
    succeed(dir, &["split", "-q", "memory", "-o", "a.part", "-o", "b.part"]);
    let jobs: [(&'static str, &[&'static str], Made); 7] = [
        ("build squashfs", &["build", "root", "-o", "out/target", "-q", "-f", "--format", "squashfs"], Made::File),
        (
            "build erofs",
            &["build", "root", "-o", "out/target", "-q", "-f", "--format", "erofs", "-c", "lz4"],
            Made::File,
        ),
        (
            "convert",
            &[
                "build",
                "root.sqfs",
                "-o",
                "out/target",
                "-q",
                "-f",
                "--format",
                "erofs",
                "-c",
                "deflate:1",
                "--target-kernel",
                "6.6",
            ],
            Made::File,
        ),
        ("tar", &["tar", "root.sqfs", "-o", "out/target", "-q", "-f"], Made::File),
        ("join", &["join", "a.part", "b.part", "-o", "out/target", "-q", "-f"], Made::File),
        ("extract", &["extract", "root.sqfs", "-C", "out/tree", "-q", "-f"], Made::Tree),
        ("split", &["split", "-q", "memory", "-o", "out/a", "-o", "out/b", "--parity", "1"], Made::Parts),
    ];
    let mut wanted = BTreeMap::new();
    let jobs = jobs.map(|(name, args, made)| {
        std::fs::create_dir(dir.join("out")).unwrap();
        let begun = Instant::now();
        succeed(dir, args);
        let takes = begun.elapsed();
        if made == Made::File {
            wanted.insert(name, std::fs::read(dir.join("out/target")).unwrap());
        }
        std::fs::remove_dir_all(dir.join("out")).unwrap();
        Job { name, args: args.to_vec(), made, takes }
    });
    (jobs.into(), wanted)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn killed_at_random_moments_nothing_is_lost_or_half_written() {
    let dir = tempfile::tempdir().unwrap();
    kill_at_random_moments(dir.path(), KILLS, true);
}

/// If files cannot be without a name, what a kill leaves has a name that tells it from an image, and the next run
/// removes it.
#[test]
fn killed_without_o_tmpfile_only_litter_is_left() {
    let test = "killed_without_o_tmpfile_only_litter_is_left";
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) || !have(test, "python3") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    kill_at_random_moments(dir.path(), KILLS_NAMED, false);
}

fn kill_at_random_moments(dir: &Path, usual: u64, unnamed: bool) {
    let (mut jobs, wanted) = prepare(dir);
    // The others write under names anyhow.
    jobs.retain(|job| unnamed || job.made == Made::File);
    let mut random = Random::new(number("PACKFS_KILLS_SEED").unwrap_or(1));
    let kills = number("PACKFS_KILLS").unwrap_or(usual);
    let mut seen: BTreeMap<&str, Seen> = BTreeMap::new();
    for (turn, job) in (0..kills).zip(jobs.iter().cycle()) {
        let out = dir.join("out");
        std::fs::create_dir(&out).unwrap();
        let old = job.made == Made::File && random.below(2) == 0;
        if old {
            std::fs::write(out.join("target"), OLD).unwrap();
        }
        // Up to somewhat after its end, for the moments around it.
        let moment = job.takes.mul_f64(random.below(1100) as f64 / 1000.0);
        let counts = seen.entry(job.name).or_default();
        counts.kills += 1;
        counts.ended += u64::from(!killed(dir, job, unnamed, moment));
        let what = format!("{} killed after {moment:?}, turn {turn}", job.name);
        match job.made {
            Made::File => look_at_file(dir, job, unnamed, &wanted[job.name], old, counts, &what),
            Made::Tree => look_at_tree(dir, job, counts, &what),
            Made::Parts => look_at_parts(dir, job, counts, &what),
        }
        std::fs::remove_dir_all(&out).unwrap();
    }
    // The inputs are unchanged.
    succeed(dir, &["check", "root.sqfs", "--against", "root", "-q"]);
    for (name, seen) in seen {
        eprintln!("{name}: {seen:?}");
    }
}

/// Makes the command of a job, on a file system without `O_TMPFILE` unless `unnamed`.
fn command(dir: &Path, job: &Job, unnamed: bool) -> Command {
    let mut command = if unnamed {
        packfs(&job.args)
    } else {
        let mut command = Command::new("python3");
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/without-o-tmpfile.py"));
        command.arg(env!("CARGO_BIN_EXE_packfs")).args(&job.args).stdin(Stdio::null());
        command
    };
    command.current_dir(dir);
    command
}

/// Runs a job and kills it. Returns false if it had already ended.
fn killed(dir: &Path, job: &Job, unnamed: bool, moment: Duration) -> bool {
    let mut child = command(dir, job, unnamed).spawn().unwrap();
    // Not what becomes packfs is to be killed, but packfs.
    let program = Path::new(env!("CARGO_BIN_EXE_packfs")).canonicalize().unwrap();
    let exe = format!("/proc/{}/exe", child.id());
    while std::fs::read_link(&exe).is_ok_and(|exe| exe != program) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(moment);
    child.kill().unwrap();
    child.wait().unwrap().code().is_none()
}

fn names(dir: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> = std::fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}

fn look_at_file(dir: &Path, job: &Job, unnamed: bool, wanted: &[u8], old: bool, counts: &mut Seen, what: &str) {
    let out = dir.join("out");
    match std::fs::read(out.join("target")) {
        Ok(bytes) if bytes == wanted => counts.whole += 1,
        Ok(bytes) => {
            assert!(old && bytes == OLD, "{what}: half-written");
            counts.old += 1;
        }
        Err(_) => {
            assert!(!old, "{what}: the old file is gone");
            counts.absent += 1;
        }
    }
    let rest: Vec<_> = names(&out).into_iter().filter(|path| *path != out.join("target")).collect();
    let temporary = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(".target.packfs-");
    assert!(rest.iter().all(temporary), "{what}: left behind: {rest:?}");
    counts.litter += rest.len() as u64;
    if !rest.is_empty() {
        let next = command(dir, job, unnamed).output().unwrap();
        assert!(next.status.success(), "{what}: {}", stderr(&next));
        assert_eq!(names(&out), [out.join("target")], "{what}: litter stays");
    }
}

/// Checks an extraction, which makes thousands of files under their names. The remains of a kill can be completed.
fn look_at_tree(dir: &Path, job: &Job, counts: &mut Seen, what: &str) {
    let (tree, root) = (dir.join("out/tree"), dir.join("root"));
    let mut unfinished = 0;
    for below in ["", "many"] {
        for path in names(&tree.join(below)).into_iter().filter(|path| path.is_file()) {
            let whole = root.join(path.strip_prefix(&tree).unwrap());
            unfinished += u64::from(std::fs::read(&path).unwrap() != std::fs::read(whole).unwrap());
        }
    }
    counts.unfinished += unfinished;
    let complete = run_in(dir, &["check", "root.sqfs", "--against", "out/tree", "-q"]).status.success();
    counts.whole += u64::from(complete);
    succeed(dir, &job.args);
    let checked = run_in(dir, &["check", "root.sqfs", "--against", "out/tree", "-q"]);
    assert!(checked.status.success(), "{what}: {}", stderr(&checked));
}

fn look_at_parts(dir: &Path, job: &Job, counts: &mut Seen, what: &str) {
    let back = |parts: &[&str]| {
        let joined = run_in(dir, &[&["join", "-o", "out/back", "-q", "-f"], parts].concat());
        joined.status.success().then(|| std::fs::read(dir.join("out/back")).unwrap())
    };
    let memory = std::fs::read(dir.join("memory")).unwrap();
    // Parts that join without an error form the whole dump.
    match back(&["out/a", "out/b"]) {
        Some(bytes) => {
            assert!(bytes == memory, "{what}: another dump than went in");
            counts.whole += 1;
        }
        None => counts.absent += 1,
    }
    let resumed = run_in(dir, &[&job.args[..], &["--resume"]].concat());
    assert!(resumed.status.success(), "{what}: {}", stderr(&resumed));
    for parts in [&["out/a", "out/b"][..], &["out/a"], &["out/b"]] {
        assert!(back(parts).is_some_and(|bytes| bytes == memory), "{what}: lost in {parts:?}");
    }
}
