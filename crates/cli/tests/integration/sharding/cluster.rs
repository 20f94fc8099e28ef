//! `plan`, `shard`, `assemble` and `status`, seen through the program alone.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::common::program::write_script;
use crate::common::{self, FORMATS, fail, packfs, run_in, sample_dir, stderr, succeed};
use serde_json::Value;

fn same(dir: &Path, a: &str, b: &str) -> bool {
    std::fs::read(dir.join(a)).unwrap() == std::fs::read(dir.join(b)).unwrap()
}

fn workplace() -> tempfile::TempDir {
    let dir = sample_dir();
    for n in 0..40u64 {
        let text: String = (0..3000).map(|i| format!("{:x} ", i * i * (7919 + n % 30))).collect();
        std::fs::write(dir.path().join(format!("root/usr/{n}")), text).unwrap();
    }
    dir
}

#[test]
fn the_steps_give_the_bytes_of_a_local_build() {
    for format in FORMATS {
        let workplace = workplace();
        let dir = workplace.path();
        let options = ["root", "--format", format, "--shards", "3", "-q"];
        succeed(dir, &[&["build", "-o", "local"], &options[..]].concat());
        succeed(dir, &[&["plan", "-o", "job.plan"], &options[..]].concat());
        let state = run_in(dir, &["status", "job.plan", "shards", "--json"]);
        let json: Value = serde_json::from_slice(&state.stdout).unwrap();
        assert_eq!((state.status.code(), &json["done"], &json["missing"]), (Some(1), &0.into(), &vec![0, 1, 2].into()));
        for (variable, shard) in [("SLURM_ARRAY_TASK_ID", "2"), ("HQ_TASK_ID", "0"), ("JOB_COMPLETION_INDEX", "1")] {
            let mut task = packfs(["shard", "job.plan", "-o", "shards", "--json"]);
            let done = task.current_dir(dir).env(variable, shard).output().unwrap();
            assert!(done.status.success(), "{}", stderr(&done));
            let json: Value = serde_json::from_slice(&done.stdout).unwrap();
            assert_eq!((&json["kind"], json["shard"].to_string().as_str()), (&"shard".into(), shard));
            assert_eq!(json["packed"], true);
        }
        let again = succeed(dir, &["shard", "job.plan", "1", "-o", "shards", "--json"]);
        assert!(again.contains("\"packed\": false"), "{again}");
        assert!(succeed(dir, &["status", "job.plan", "shards"]).contains("3 of 3 shards"));
        let json = succeed(dir, &["assemble", "job.plan", "shards", "-o", "image", "--json"]);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["kind"], &json["shards"]), (&"assemble".into(), &3.into()));
        assert!(same(dir, "image", "local"), "{format}");
        succeed(dir, &["check", "image", "--against", "root", "-q"]);
        // The target stays unless it is to be replaced.
        assert!(fail(dir, 1, &["assemble", "job.plan", "shards", "-o", "image"]).contains("exists"));
        succeed(dir, &["assemble", "job.plan", "shards", "-o", "image", "-f", "-q"]);
    }
}

#[test]
fn a_scan_in_parts_gives_the_plan_of_one_machine() {
    let workplace = workplace();
    let dir = workplace.path();
    std::fs::create_dir(dir.join("more")).unwrap();
    std::fs::write(dir.join("more/extra.o"), "left out").unwrap();
    std::fs::write(dir.join("more/extra"), "kept").unwrap();
    let scan = ["plan", "root", "more", "--exclude", "*.o"];
    let job = ["--shards", "3", "--owner", "7:8", "-q", "-o"];
    succeed(dir, &[&scan[..], &job, &["whole.plan"]].concat());
    let part = |n: usize| {
        succeed(dir, &[&scan[..], &["--scan", &format!("{n}/4"), "-o", &format!("part{n}"), "--json", "-f"]].concat())
    };
    let entries: u64 = (0..4)
        .map(|n| {
            let json: Value = serde_json::from_str(&part(n)).unwrap();
            assert_eq!((&json["kind"], &json["part"], &json["parts"]), (&"scan".into(), &n.into(), &4.into()));
            json["entries"].as_u64().unwrap()
        })
        .sum();
    let found =
        succeed(dir, &["build", "root", "more", "--exclude", "*.o", "-q", "--list", "-o", "image"]).lines().count();
    // A hard link is an entry of its own, and a path of its own.
    assert!(entries.abs_diff(found as u64) <= 2, "{entries} entries, {found} paths");
    let merge = ["--merge", "part2", "part0", "part3", "part1"];
    succeed(dir, &[&scan[..], &job, &["merged.plan"], &merge].concat());
    assert!(same(dir, "whole.plan", "merged.plan"));
    let mode = std::fs::metadata(dir.join("part0")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "names are private");
    let refused = |status, words: &[&str]| fail(dir, status, &[&["plan"], words].concat());
    let lost = refused(1, &[&scan[1..], &["--shards", "3", "-o", "x", "--merge", "part0", "part1", "part2"]].concat());
    assert!(lost.contains("part 3/4 of the scan is missing"), "{lost}");
    std::process::Command::new("mkfifo").arg(dir.join("pipe")).status().unwrap();
    let pipe = refused(1, &[&scan[1..], &job, &["x", "--merge", "part0", "pipe", "part2", "part3"]].concat());
    assert!(pipe.contains("pipe: not a regular file: a part is read several times"), "{pipe}");
    let other = refused(1, &[&["root", "more", "--shards", "3", "-o", "x"], &merge[..]].concat());
    assert!(other.contains("part2: part of a scan with other options"), "{other}");
    assert!(refused(2, &["root/etc/motd", "--scan", "0/2", "-o", "x"]).contains("only directories"));
    assert!(refused(2, &["root", "--scan", "2/2", "-o", "x"]).contains("0/2 to 1/2"));
    std::fs::write(dir.join("more/new"), "").unwrap();
    part(0);
    let changed = refused(1, &[&scan[1..], &job, &["x"], &merge].concat());
    assert!(changed.contains("more: changed while parts of it were scanned"), "{changed}");
}

#[test]
fn a_merge_gives_the_plan_of_the_tree_with_and_without_the_tree_in_memory() {
    let workplace = workplace();
    let dir = workplace.path();
    // In another directory and further on, so that numbers of inodes and the order of data differ.
    std::fs::hard_link(dir.join("root/usr/7"), dir.join("root/7")).unwrap();
    for n in 0..3 {
        succeed(dir, &["plan", "root", "--scan", &format!("{n}/3"), "-o", &format!("part{n}"), "-q"]);
    }
    let merge = ["--merge", "part0", "part1", "part2"];
    // The last rows need all entries at once.
    let table: [&[&str]; 6] = [
        &[],
        &["--format", "erofs", "--memory", "1M", "--order", "similar"],
        &["--owner", "7:8", "--mode", "Fgo-rwx", "--time", "1700000000", "--no-dedup"],
        &["--no-hard-links"],
        &["--rule", "glob=*.txt -> exclude"],
        &["--format", "erofs", "--features", "compact-inodes", "--time", "1700000000"],
    ];
    for options in table {
        let plan = [&["plan", "root", "--shards", "3", "-q", "-f", "-o"], options].concat();
        let at = |name| [&plan[..7], &[name], &plan[7..]].concat();
        succeed(dir, &at("whole.plan"));
        succeed(dir, &[&at("merged.plan")[..], &merge].concat());
        assert!(same(dir, "whole.plan", "merged.plan"), "{options:?}");
    }
    // Temporary files are beside the plan.
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["merged.plan", "part0", "part1", "part2", "root", "whole.plan"]);
    let warned = run_in(dir, &[&["plan", "root", "--shards", "2", "-o", "root/in.plan"], &merge[..]].concat());
    assert!(warned.status.success() && stderr(&warned).contains("in.plan"), "{}", stderr(&warned));
}

#[test]
fn options_that_make_no_sense_in_a_plan_are_refused_by_name() {
    let workplace = workplace();
    let dir = workplace.path();
    succeed(dir, &["build", "root", "-o", "old.sqfs", "-q"]);
    for (words, why) in [
        (&["--append", "old.sqfs"][..], "--append: shards read files of directories, not of OLD_IMAGE"),
        (&["--dry-run"], "--dry-run: use it with `packfs build`"),
        (&["--percentage"], "--percentage: there is no build to follow"),
        (&["--prefix", "old.sqfs"], "--prefix: an image in shards cannot have a prefix"),
        (&["--index"], "--index: an image in shards can neither reuse"),
        (&["--reuse", "old.sqfs"], "--reuse: an image in shards can neither reuse"),
        (&["--on-error", "skip"], "--on-error skip: an image in shards cannot leave out files"),
        (&["--spool"], "--spool: a plan reads no archives"),
        (&["--delta-index", "zsync"], "--delta-index: there is no image yet"),
    ] {
        let told = fail(dir, 2, &[&["plan", "root", "-o", "x", "--shards", "2"], words].concat());
        assert!(told.contains(why), "{told}");
        std::fs::write(dir.join("list"), format!("root -o image {}\n", words.join(" "))).unwrap();
        let told = fail(dir, 2, &["plan", "--each", "list", "-o", "x"]);
        assert!(told.contains(why) && told.contains("list:1"), "{told}");
    }
}

#[test]
fn wrong_numbers_and_missing_ones_are_wrong_usage() {
    let workplace = workplace();
    let dir = workplace.path();
    let plan = |options: &[&str]| fail(dir, 2, &[&["plan", "root", "-o", "job.plan"], options].concat());
    assert!(plan(&[]).contains("--shards N"));
    assert!(plan(&["--shards", "2", "--index"]).contains("neither reuse"));
    succeed(dir, &["plan", "root", "-o", "job.plan", "--shards", "2", "-q"]);
    assert!(fail(dir, 2, &["shard", "job.plan", "-o", "x"]).contains("PACKFS_SHARD"));
    assert!(fail(dir, 2, &["shard", "job.plan", "2", "-o", "x"]).contains("has shards 0 to 1"));
    assert!(fail(dir, 1, &["shard", "root/etc/motd", "0", "-o", "x"]).contains("motd"));
    assert!(fail(dir, 1, &["assemble", "job.plan", "x", "-o", "image"]).contains("0000000.shard"));
    std::fs::write(dir.join("root/hole"), "no longer a hole").unwrap();
    let failed = (0..2).map(|n| run_in(dir, &["shard", "job.plan", &n.to_string(), "-o", "x"]));
    let failed: Vec<_> = failed.filter(|done| !done.status.success()).map(|done| stderr(&done)).collect();
    assert!(failed.len() == 1 && failed[0].contains("root/hole: "), "{failed:?}");
    let status = run_in(dir, &["status", "job.plan", "x"]);
    let shown = String::from_utf8(status.stdout).unwrap();
    assert_eq!(status.status.code(), Some(1));
    assert!(shown.lines().any(|line| line.starts_with("failed ") && line.contains("root/hole: ")), "{shown}");
}

/// Puts a program `name` into `dir/bin`.
fn stand_in(dir: &Path, name: &str, script: &str) {
    std::fs::create_dir_all(dir.join("bin")).unwrap();
    write_script(&dir.join("bin").join(name), script);
}

#[test]
fn the_scripts_for_engines_run() {
    let workplace = workplace();
    let dir = workplace.path();
    let program = env!("CARGO_BIN_EXE_packfs");
    stand_in(dir, "packfs", &format!("#!/bin/sh\nexec {program} \"$@\"\n"));
    // Runs a script once for each task of the array, or once.
    stand_in(
        dir,
        "sbatch",
        "#!/bin/sh -eu\ncat > script\nlast=\nfor word; do case $word in --array=0-*) last=${word#*-0-}; \
         last=${word##*-};; esac; done\nexport SLURM_CPUS_PER_TASK=1\nif [ \"$last\" ]; then for n in $(seq 0 $last); \
         do SLURM_ARRAY_TASK_ID=$n sh script; done; else sh script; fi >&2\necho 1\n",
    );
    stand_in(
        dir,
        "hq",
        "#!/bin/sh -eu\nfor word; do case $word in --array=0-*) last=${word##*-};; packfs) break;; esac; shift; done\n\
         for n in $(seq 0 $last); do HQ_TASK_ID=$n \"$@\"; done\n",
    );
    stand_in(
        dir,
        "parallel",
        "#!/bin/sh -eu\nshift 3\nwhile read n; do set -- \"$@\"; packfs shard \"$3\" $n -o \"$6\" -j 1 -q; done\n",
    );
    let path = format!("{}:{}", dir.join("bin").to_str().unwrap(), std::env::var("PATH").unwrap());
    succeed(dir, &["build", "root", "-o", "local", "--shards", "3", "-q"]);
    for engine in ["slurm", "hq", "parallel"] {
        let plan = format!("a job of {engine}.plan");
        let script = succeed(dir, &["plan", "root", "-o", &plan, "--shards", "3", "-q", "--for", engine]);
        std::fs::write(dir.join("run"), &script).unwrap();
        let mut shell = std::process::Command::new("sh");
        let done = shell.args(["-eu", "run"]).current_dir(dir).env("PATH", &path).output().unwrap();
        assert!(done.status.success(), "{engine}: {}\n{script}", stderr(&done));
        assert!(same(dir, "local", &format!("a job of {engine}.sqfs")), "{engine}");
    }
    // If tasks of a job fail, its assembly does not wait for ever.
    let script = succeed(dir, &["plan", "root", "-o", "s.plan", "--shards", "3", "-q", "--for", "slurm"]);
    assert!(script.contains("--dependency=\"afterok:$job\" --kill-on-invalid-dep=yes"), "{script}");
    let script = succeed(dir, &["plan", "root", "-o", "k.plan", "--shards", "3", "-q", "--for", "k8s"]);
    assert!(script.contains("completions: 3") && script.contains("Never tried on a cluster"), "{script}");
}

/// Kills a program after some time, when it may have ended already.
fn kill_after(mut program: Child, time: Duration) {
    std::thread::sleep(time);
    let _ = program.kill();
    program.wait().unwrap();
}

#[test]
fn steps_killed_at_a_hundred_moments_and_run_twice_give_one_result() {
    let workplace = workplace();
    let dir = workplace.path();
    let options = ["root", "--shards", "2", "--codec", "zstd:19", "-q"];
    succeed(dir, &[&["build", "-o", "local"], &options[..]].concat());
    succeed(dir, &[&["plan", "-o", "job.plan"], &options[..]].concat());
    let shard = |n: &str| {
        let mut command = packfs(["shard", "job.plan", n, "-o", "shards", "-q", "-j", "1"]);
        command.current_dir(dir).stderr(std::process::Stdio::null()).spawn().unwrap()
    };
    // Killed at moments spread over the time that each step takes, and a little after.
    let begun = Instant::now();
    assert!(shard("0").wait().unwrap().success());
    let took = begun.elapsed();
    for n in 0..65 {
        let _ = std::fs::remove_file(dir.join("shards/0000000.shard"));
        kill_after(shard("0"), took * n / 60);
    }
    let tasks: Vec<_> = ["0", "1", "0", "1"].into_iter().map(shard).collect();
    assert!(tasks.into_iter().all(|mut task| task.wait().unwrap().success()));
    let assemble = || packfs(["assemble", "job.plan", "shards", "-o", "image", "-f", "-q"]).current_dir(dir).spawn();
    let begun = Instant::now();
    assert!(assemble().unwrap().wait().unwrap().success());
    let took = begun.elapsed();
    for n in 0..35 {
        // A new image appears whole or not at all; an old one stays until then.
        match n % 2 {
            0 => std::fs::write(dir.join("image"), "old").unwrap(),
            _ => std::fs::remove_file(dir.join("image")).unwrap(),
        }
        kill_after(assemble().unwrap(), took * n / 30);
        match std::fs::read(dir.join("image")) {
            Ok(old) if n % 2 == 0 && old == b"old" => {}
            Ok(_) => assert!(same(dir, "image", "local")),
            Err(error) => assert!(n % 2 == 1 && error.kind() == ErrorKind::NotFound, "{error}"),
        }
        std::fs::write(dir.join("image"), "old").unwrap();
    }
    succeed(dir, &["assemble", "job.plan", "shards", "-o", "image", "-f", "-q"]);
    assert!(same(dir, "image", "local"));
    let mut names: Vec<_> =
        std::fs::read_dir(dir.join("shards")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["0000000.packed", "0000000.shard", "0000001.packed", "0000001.shard"]);
}

#[test]
fn a_damaged_shard_is_named_with_its_command_and_packed_again() {
    let workplace = workplace();
    let dir = workplace.path();
    let options = ["root", "--shards", "3", "--order", "similar", "-q"];
    succeed(dir, &[&["build", "-o", "local"], &options[..]].concat());
    succeed(dir, &[&["plan", "-o", "a job.plan"], &options[..]].concat());
    (0..3).for_each(|n| drop(succeed(dir, &["shard", "a job.plan", &n.to_string(), "-o", "shards", "-q"])));
    let path = |n: u32| dir.join(format!("shards/{n:07}.shard"));
    let largest = (0..3).max_by_key(|n| path(*n).metadata().unwrap().len()).unwrap();
    let shard = path(largest);
    let number = largest.to_string();
    let mut bytes = std::fs::read(&shard).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&shard, &bytes).unwrap();
    let state = run_in(dir, &["status", "a job.plan", "shards"]);
    let told = String::from_utf8(state.stdout).unwrap();
    assert!(
        state.status.code() == Some(1) && told.contains(&format!("damaged     {number}: changed since it was packed")),
        "{told}"
    );
    assert!(told.contains("2 of 3 shards"), "{told}");
    let failed = fail(dir, 1, &["assemble", "a job.plan", "shards", "-o", "image"]);
    assert!(failed.contains(&format!("{number}.shard: shard {number} is damaged in the ")), "{failed}");
    assert!(
        failed.contains(&format!("pack it, then assemble again: packfs shard 'a job.plan' {number} -o shards")),
        "{failed}"
    );
    assert!(succeed(dir, &["shard", "a job.plan", &number, "-o", "shards", "--json"]).contains("\"packed\": true"));
    succeed(dir, &["status", "a job.plan", "shards", "--json"]);
    let made = succeed(dir, &["assemble", "a job.plan", "shards", "-o", "image", "--json"]);
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made["order"], "similar");
    assert!(same(dir, "image", "local"));
    std::fs::remove_file(shard).unwrap();
    let missing = fail(dir, 1, &["assemble", "a job.plan", "shards", "-o", "image", "-f"]);
    assert!(missing.contains(&format!("packfs shard 'a job.plan' {number} -o shards")), "{missing}");
    // With many images, the number of a task differs from that of its shard.
    std::fs::write(dir.join("list"), "root/etc -o small.sqfs\nroot -o large.sqfs --shards 2\n").unwrap();
    succeed(dir, &["plan", "--each", "list", "-o", "many.plan", "-q"]);
    let missing = fail(dir, 1, &["assemble", "many.plan", "many"]);
    assert!(missing.contains("0000000.shard: ") && missing.contains("packfs shard many.plan "), "{missing}");
}

#[test]
fn a_full_disk_leaves_no_shard_and_the_old_image() {
    let test = "a_full_disk_leaves_no_shard_and_the_old_image";
    if !common::have(test, "mount") || !common::have(test, "umount") {
        return;
    }
    let workplace = workplace();
    let dir = workplace.path();
    succeed(dir, &["plan", "root", "-o", "job.plan", "--shards", "1", "--codec", "none", "-q"]);
    succeed(dir, &["shard", "job.plan", "0", "-o", "shards", "-q"]);
    // Enough names for temporary files of a merge.
    std::fs::create_dir(dir.join("wide")).unwrap();
    (0..3000).for_each(|n| std::fs::write(dir.join(format!("wide/{n:0200}")), "").unwrap());
    succeed(dir, &["plan", "wide", "-o", "part", "--scan", "0/1", "-q"]);
    std::fs::create_dir(dir.join("small")).unwrap();
    let mount = std::process::Command::new("mount");
    let mounted = { mount }.args(["-t", "tmpfs", "-o", "size=64k", "small"]).arg(dir.join("small")).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return common::skip(test, "a tmpfs cannot be mounted here");
    }
    std::fs::write(dir.join("small/image"), "old").unwrap();
    let shard = run_in(dir, &["shard", "job.plan", "0", "-o", "small", "-q"]);
    let image = run_in(dir, &["assemble", "job.plan", "shards", "-o", "small/image", "-f", "-q"]);
    let merged = run_in(dir, &["plan", "wide", "-o", "small/plan", "--shards", "1", "-q", "--merge", "part"]);
    let left = std::fs::read_dir(dir.join("small")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: BTreeSet<_> = left.map(|name| name.into_string().unwrap()).collect();
    let old = std::fs::read(dir.join("small/image")).unwrap();
    assert!(std::process::Command::new("umount").arg(dir.join("small")).status().unwrap().success());
    assert!(stderr(&merged).contains("small/plan: cannot use a temporary file"), "{}", stderr(&merged));
    for failed in [shard, image, merged] {
        let message = stderr(&failed);
        assert!(failed.status.code() == Some(1) && message.contains("No space left"), "{message}");
    }
    // The state tells the error, if there was room for it.
    assert!(
        left.contains("image") && left.iter().all(|name| ["image", "0000000.state"].contains(&&**name)),
        "{left:?}"
    );
    assert_eq!(old, b"old");
}
