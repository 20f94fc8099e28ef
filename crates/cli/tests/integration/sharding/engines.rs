//! One image packed by a real Slurm and a real HyperQueue, on a cluster of three nodes on this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::common::program::{link, text, write_script};
use crate::common::{self, FORMATS, sample, skip, stderr, succeed};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts");
/// Time for a job. A node that died is given up after five seconds, and the controller looks every few seconds.
const PATIENCE: Duration = Duration::from_secs(180);
/// Time after which the controller is done with the tasks of a node that died. Once it took one second.
const SETTLED: Duration = Duration::from_secs(15);

/// A Slurm cluster, stopped at the end however the test ends, and a workplace.
struct Slurm {
    dir: tempfile::TempDir,
}

impl Slurm {
    fn start(test: &str) -> Option<Slurm> {
        if !nix::unistd::geteuid().is_root() {
            skip(test, "only root can start Slurm's daemons");
            return None;
        }
        // Outside the usual PATH of users.
        if !["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged"].iter().all(|path| Path::new(path).exists())
        {
            skip(test, "Slurm or munge is not installed");
            return None;
        }
        // The path of a socket is short.
        let slurm = Slurm { dir: tempfile::tempdir_in("/tmp").unwrap() };
        let started = slurm.script(&["up"], &[]);
        assert!(started.status.success(), "{}", stderr(&started));
        sample(slurm.path());
        fill(slurm.path());
        std::fs::create_dir(slurm.path().join("bin")).unwrap();
        link(&slurm.path().join("bin"), "packfs");
        Some(slurm)
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn script(&self, before: &[&str], after: &[&str]) -> Output {
        let mut script = Command::new(format!("{SCRIPTS}/slurm.sh"));
        script.args(before).arg(self.path().join("slurm")).args(after).output().unwrap()
    }

    /// Runs a program with the cluster's configuration, packfs on the path, and room for one task on a node.
    fn run(&self, program: &str, args: &[&str]) -> Output {
        let path = format!("{}:{}", self.path().join("bin").to_str().unwrap(), std::env::var("PATH").unwrap());
        let mut command = Command::new(program);
        command.args(args).current_dir(self.path()).env("PATH", path);
        command.env("SLURM_CONF", self.path().join("slurm/slurm.conf")).output().unwrap()
    }

    /// Submits the script that `packfs plan` prints, with one processor a task, so that each node runs several.
    fn submit(&self, plan: &str, options: &[&str]) {
        let args = [&["plan", "-o", plan, "-q", "--for", "slurm"], options].concat();
        let script = succeed(self.path(), &args).replace("--cpus-per-task=4", "--cpus-per-task=1");
        std::fs::write(self.path().join("job.sh"), script).unwrap();
        let submitted = self.run("sh", &["job.sh"]);
        assert!(submitted.status.success(), "{}", stderr(&submitted));
    }

    /// Waits until no job is left.
    fn finish(&self) {
        let begun = Instant::now();
        while !self.run("squeue", &["--noheader"]).stdout.is_empty() {
            assert!(begun.elapsed() < PATIENCE, "jobs are left: {}", self.story());
            // Slurm waits two minutes before it starts the task of a node that died again.
            let waiting = text(&self.run("squeue", &["--noheader", "--array", "--states=PD", "--format=%i"]).stdout);
            for job in waiting.lines() {
                self.run("scontrol", &["update", &format!("JobId={job}"), "StartTime=now"]);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Returns what is left of the jobs, and what they said.
    fn story(&self) -> String {
        let mut story = text(&self.run("scontrol", &["show", "jobs", "-o"]).stdout);
        for entry in std::fs::read_dir(self.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "out") {
                story.push_str(&std::fs::read_to_string(path).unwrap_or_default());
            }
        }
        story
    }

    fn assert_same(&self, image: &str, local: &str) {
        let [made, expected] = [image, local].map(|name| std::fs::read(self.path().join(name)));
        let made = made.unwrap_or_else(|error| panic!("{image}: {error}\n{}", self.story()));
        assert!(made == expected.unwrap(), "{image} differs from {local}");
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.script(&["down"], &[]);
    }
}

/// Adds files of 40 kB, enough for 17 shards.
fn fill(dir: &Path) {
    for n in 0..60u64 {
        let text: String = (0..5000).map(|i| format!("{:x} ", i * i * (7919 + n % 50))).collect();
        std::fs::write(dir.join(format!("root/usr/{n}")), text).unwrap();
    }
}

#[test]
fn slurm_packs_the_bytes_of_a_local_build() {
    let Some(slurm) = Slurm::start("slurm_packs_the_bytes_of_a_local_build") else { return };
    let mut images = Vec::new();
    for (format, codec) in FORMATS.into_iter().zip(["zstd", "lz4hc"]) {
        for shards in ["1", "3", "17"] {
            let name = format!("{format}-{shards}");
            let options = ["--format", format, "--codec", codec, "--shards", shards];
            succeed(slurm.path(), &[&["build", "root", "-q", "-o", &format!("{name}.local")], &options[..]].concat());
            slurm.submit(&format!("{name}.plan"), &[&["root"], &options[..]].concat());
            images.push((format!("{name}.{}", if format == "erofs" { "erofs" } else { "sqfs" }), name));
        }
    }
    slurm.finish();
    for (image, name) in images {
        slurm.assert_same(&image, &format!("{name}.local"));
        succeed(slurm.path(), &["check", &image, "--against", "root", "-q"]);
    }
}

#[test]
fn slurm_makes_many_images() {
    let Some(slurm) = Slurm::start("slurm_makes_many_images") else { return };
    let images = [
        ("whole.sqfs", "root", ""),
        ("cut.erofs", "root", "--shards 5"),
        ("cut.sqfs", "root/usr", "--shards 3"),
        ("whole.erofs", "root/etc", ""),
    ];
    let mut list = String::new();
    for (image, source, options) in images {
        list.push_str(&format!("{source} -o {image} {options}\n"));
        let local = format!("local-{image}");
        let words: Vec<_> =
            ["build", "-q", source, "-o", &local].into_iter().chain(options.split_whitespace()).collect();
        succeed(slurm.path(), &words);
    }
    std::fs::write(slurm.path().join("list"), list).unwrap();
    slurm.submit("set.plan", &["--each", "list"]);
    slurm.finish();
    for (image, ..) in images {
        slurm.assert_same(image, &format!("local-{image}"));
    }
    succeed(slurm.path(), &["status", "set.plan", "set.shards"]);
}

/// Replaces the link to packfs by a script that stops the first run of shard 1 in the middle and says on which node, and
/// in which processes: Slurm's for this step, the script's and packfs's.
fn stop_first_run(dir: &Path) {
    let link = dir.join("bin/packfs");
    std::fs::remove_file(&link).unwrap();
    let program = env!("CARGO_BIN_EXE_packfs");
    let script = format!(
        "#!/bin/sh\ncase \"$1 $SLURM_ARRAY_TASK_ID\" in\n'shard 1')\n    if mkdir {0}/stopped 2>/dev/null; then\n        \
         {program} \"$@\" & sleep 0.03; kill -STOP $!\n        echo $PPID $$ $! > {0}/task && echo $SLURMD_NODENAME > {0}/node.new\n        \
         mv {0}/node.new {0}/node; wait\n    fi;;\nesac\nexec {program} \"$@\"\n",
        dir.to_str().unwrap()
    );
    write_script(&link, &script);
}

#[test]
fn a_node_that_dies_loses_nothing() {
    let Some(slurm) = Slurm::start("a_node_that_dies_loses_nothing") else { return };
    stop_first_run(slurm.path());
    let options = ["--shards", "3", "--codec", "zstd:19"];
    succeed(slurm.path(), &[&["build", "root", "-q", "-o", "local"], &options[..]].concat());
    slurm.submit("job.plan", &[&["root"], &options[..]].concat());
    common::mounts::soon("running", || slurm.path().join("node").exists());
    let node = std::fs::read_to_string(slurm.path().join("node")).unwrap();
    let node = node.trim();
    // The node with all that runs on it, as when its power fails.
    let daemon = std::fs::read_to_string(slurm.path().join(format!("slurm/{node}.pid"))).unwrap();
    let task = std::fs::read_to_string(slurm.path().join("task")).unwrap();
    let killed = slurm.run("sh", &["-c", &format!("kill -9 {} {}", daemon.trim(), task.trim())]);
    assert!(killed.status.success(), "{}", stderr(&killed));
    // A daemon that comes back before the controller misses it is asked for its tasks only much later.
    let state = || text(&slurm.run("sinfo", &["--noheader", "--nodes", node, "--format=%t"]).stdout);
    common::mounts::soon("down", || state().starts_with("down"));
    let back = slurm.script(&["node"], &[&node[1..]]);
    assert!(back.status.success(), "{}", stderr(&back));
    // The controller still tells the node to end the task it had, by the number of the job. A new run there would end,
    // too: that is why Slurm waits, and why `finish` must not hurry it yet.
    std::thread::sleep(SETTLED);
    slurm.finish();
    slurm.assert_same("job.sqfs", "local");
    // Tasks that were not stopped outlive the daemon of their node, and may still be at work when others have done it again.
    let is_other = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        !name.ends_with(".shard") && !name.ends_with(".packed")
    };
    let has_others = || std::fs::read_dir(slurm.path().join("job.shards")).unwrap().any(is_other);
    common::mounts::soon("without temporary files among the shards", || !has_others());
}

/// Runs tasks `packfs shard` and then `packfs assemble` on three workers of HyperQueue.
const HYPERQUEUE: &str = "
import sys
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig

packfs, plan, shards, dir, image = sys.argv[1:]
with LocalCluster() as cluster:
    for _ in range(3):
        cluster.start_worker(WorkerConfig(cores=1))
    client, job = cluster.client(), Job()
    tasks = [job.program([packfs, 'shard', plan, '-o', dir, '-q'], env={'PACKFS_SHARD': str(n)})
             for n in range(int(shards))]
    job.program([packfs, 'assemble', plan, dir, '-o', image, '-q'], deps=tasks)
    client.wait_for_jobs([client.submit(job)])
";

#[test]
fn hyperqueue_packs_the_bytes_of_a_local_build() {
    let test = "hyperqueue_packs_the_bytes_of_a_local_build";
    let python = PathBuf::from(SCRIPTS).join("../target/tools/hyperqueue/bin/python");
    if !python.exists() {
        return skip(test, "HyperQueue is not installed (scripts/test.sh installs it)");
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    fill(dir);
    for (n, format) in FORMATS.into_iter().enumerate() {
        let [plan, shards, image, local] = ["plan", "shards", "image", "local"].map(|name| format!("{name}{n}"));
        let options = ["root", "--format", format, "--shards", "5", "-q", "-o"];
        succeed(dir, &[&["build"], &options[..], &[&local]].concat());
        succeed(dir, &[&["plan"], &options[..], &[&plan]].concat());
        let mut cluster = Command::new(&python);
        cluster.args(["-c", HYPERQUEUE, env!("CARGO_BIN_EXE_packfs"), &plan, "5", &shards, &image]);
        let ran = cluster.current_dir(dir).output().unwrap();
        assert!(ran.status.success(), "{}", stderr(&ran));
        assert!(std::fs::read(dir.join(&image)).unwrap() == std::fs::read(dir.join(&local)).unwrap(), "{format}");
    }
}
