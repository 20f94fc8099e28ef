//! Every command under limits of the process: memory, threads, open files, file sizes. It ends with the right result, or with
//! status 1 and a message that names the limit; never by a signal, with a panic, or not at all.
//!
//! `PACKFS_LIMITS=full` runs every command under every limit; otherwise each command meets some of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::common::{have, packfs, skip, stderr, succeed};
use crate::server::Server;
use packfs_blocks::testing::noise;

/// Seconds after which a command counts as hanging. The slowest, `delta`, takes 13 on two processors, and eight times as long
/// while something is compiled.
const DEADLINE: &str = "300";
/// An owner without any other process, because the limit of processes counts them all.
const USER: &str = "64123";
/// Another one, which has a name: fusermount3 asks for it.
const NAMED_USER: &str = "65534";

/// A limit, as an argument of `prlimit`, but with units.
struct Limit {
    argument: &'static str,
    /// Part of the message of a command that fails because of it.
    names: &'static str,
}

impl Limit {
    /// Returns the argument in bytes: `prlimit` reads no units.
    fn in_bytes(&self) -> String {
        let (argument, shift) = match self.argument.strip_suffix('M') {
            Some(argument) => (argument, 20),
            None => self.argument.strip_suffix('G').map_or((self.argument, 0), |argument| (argument, 30)),
        };
        let (option, number) = argument.split_once('=').unwrap();
        format!("{option}={}", number.parse::<u64>().unwrap() << shift)
    }
}

const fn limit(argument: &'static str, names: &'static str) -> Limit {
    Limit { argument, names }
}

/// In an order in which neighbours differ: commands that meet only some limits take consecutive ones.
const LIMITS: &[Limit] = &[
    limit("--nproc=1", "ulimit -u"),
    limit("--as=64M", "ulimit -v"),
    limit("--nofile=8", "ulimit -n"),
    limit("--fsize=0", "ulimit -f"),
    limit("--data=24M", "ulimit -d"),
    limit("--nproc=3", "ulimit -u"),
    limit("--as=128M", "ulimit -v"),
    limit("--nofile=16", "ulimit -n"),
    limit("--fsize=65536", "ulimit -f"),
    limit("--data=48M", "ulimit -d"),
    limit("--nproc=2", "ulimit -u"),
    limit("--as=96M", "ulimit -v"),
    limit("--nofile=12", "ulimit -n"),
    limit("--as=200M", "ulimit -v"),
    limit("--data=96M", "ulimit -d"),
    limit("--nproc=5", "ulimit -u"),
    limit("--as=300M", "ulimit -v"),
    limit("--nofile=9", "ulimit -n"),
    limit("--data=200M", "ulimit -d"),
    limit("--nproc=8", "ulimit -u"),
    limit("--as=600M", "ulimit -v"),
    limit("--nofile=32", "ulimit -n"),
    limit("--fsize=1500000", "ulimit -f"),
    limit("--as=1G", "ulimit -v"),
    limit("--nofile=10", "ulimit -n"),
];

/// Stands for the address of a server that has the images.
const SERVER: &str = "SERVER";

/// A command line, whose inputs lie in `../in`.
struct Case {
    line: &'static str,
    /// File for standard input.
    input: Option<&'static str>,
    /// True if its output is the same each time.
    repeats: bool,
}

const fn case(line: &'static str) -> Case {
    Case { line, input: None, repeats: true }
}

const CASES: &[Case] = &[
    case("build ../in/src -o o.sqfs -q -j 8"),
    case("build ../in/src -o o.sqfs -q -j 8 -c xz -b 1M"),
    case("build ../in/src -o o.sqfs -q -j 8 -c gzip:12"),
    case("build ../in/src -o o.sqfs -q -j 8 -c gzip:9"),
    case("build ../in/src -o o.sqfs -q -j 8 -c zstd:22 -b 1M"),
    case("build ../in/src -o o.sqfs -q -j 8 -c lzo -b 64K"),
    case("build ../in/src -o o.sqfs -q -j 8 --preset small"),
    case("build ../in/src -o o.sqfs -q -j 8 --order similar --index"),
    case("build ../in/src -o o.erofs --format erofs -q -j 8"),
    case("build ../in/src -o o.erofs --format erofs -q -j 8 -c lzma -b 1M --target-kernel 6.12"),
    case("build ../in/src -o o.erofs --format erofs -q -j 8 -c zstd --features dedupe,fragments --target-kernel 6.12"),
    case("build ../in/src -o o.erofs --format erofs -q -j 8 -c deflate --target-kernel 6.12"),
    case("build ../in/src -o o.erofs --format erofs -q -j 8 --preset small"),
    case("build ../in/a.tar -o o.sqfs -q -j 8"),
    case("build ../in/a.tar.xz -o o.sqfs -q -j 8"),
    case("build ../in/a.tar.zst -o o.erofs --format erofs -q -j 8 --spool"),
    Case { input: Some("a.tar.gz"), ..case("build - -o o.sqfs -q -j 8") },
    case("build ../in/a.sqfs -o o.erofs --format erofs -q -j 8"),
    Case { repeats: false, ..case("build ../in/src --dry-run -o o.sqfs -j 8") },
    case("extract ../in/a.sqfs -C o -q -j 8"),
    case("extract ../in/a.erofs -C o -q -j 8"),
    case("extract ../in/xz.sqfs -C o -q -j 8"),
    case("tar ../in/a.sqfs -o o.tar -q -j 8"),
    case("tar ../in/a.sqfs -o o.tar.xz -q -j 8"),
    case("tar ../in/a.erofs -o o.tar.zst -q -j 8 --compress zstd:19"),
    case("tar ../in/a.erofs -o o.tar.gz -q -j 8"),
    case("tar ../in/a.erofs -o o.tar.bz2 -q -j 8"),
    case("tar ../in/a.erofs -o - -q -j 8"),
    case("list --long ../in/a.sqfs"),
    case("cat ../in/a.erofs text noise"),
    case("info ../in/a.sqfs"),
    case("info --stats ../in/a.erofs"),
    case("check ../in/a.sqfs -q -j 8"),
    case("check ../in/a.erofs -q -j 8"),
    case("check ../in/xz.sqfs -q -j 8 --against ../in/src"),
    case("delta ../in/a.sqfs ../in/xz.sqfs -o o.patch -q -j 8"),
    case("seal ../in/a.sqfs -o o.sqfs -q -j 8"),
    case("seal ../in/a.erofs --for containerd -o o.erofs -q -j 8"),
    case("diff ../in/a.sqfs ../in/a.erofs -j 8"),
    case("diff ../in/a.sqfs ../in/xz.sqfs -j 8 --update-size"),
    case("diff ../in/src ../in/xz.sqfs -j 8"),
    Case { repeats: false, ..case("split ../in/a.tar -o x -o y -q -j 8") },
    case("join ../in/x.part ../in/y.part -o o -q -j 8"),
    case("check ../in/x.part ../in/y.part -q -j 8"),
    Case { repeats: false, ..case("plan ../in/src -o o.plan --shards 2 -q -j 8") },
    Case { repeats: false, ..case("shard ../in/a.plan 0 -o o -q -j 8") },
    case("assemble ../in/a.plan ../in/shards -o o.sqfs -q -j 8"),
    case("status ../in/a.plan ../in/shards"),
    case("explore ../in/a.sqfs -o o.html -q -j 8"),
    case("list --long SERVER/a.sqfs"),
    case("cat SERVER/a.erofs text noise"),
    case("extract SERVER/a.sqfs -C o -q -j 8"),
    case("completions bash"),
    case("man --dir o"),
    Case { repeats: false, ..case("bench memory -o o 4M") },
    Case {
        repeats: false,
        ..case(
            "bench codecs --data ../in/src/text -c lz4,lz4hc -b 128K --sample 1M -j 8 --runs 1 --least 1 -o o.jsonl -q",
        )
    },
    Case {
        repeats: false,
        ..case("bench build ../in/src -c lz4 -j 8 --runs 1 --features plain --scratch . -o o.jsonl -q")
    },
    Case { repeats: false, ..case("bench report ../in/runs.jsonl -o o.html") },
    Case { repeats: false, ..case("tune ../in/src --format squashfs -c lz4,xz -b 128K -j 8 -q") },
    Case { repeats: false, ..case("as mksquashfs ../in/src o.sqfs -processors 8 -no-progress") },
    Case { repeats: false, input: Some("a.tar"), ..case("as sqfstar -processors 8 -no-progress o.sqfs") },
    Case { repeats: false, ..case("as unsquashfs -processors 8 -no-progress -d o ../in/a.sqfs") },
    case("as sqfscat ../in/a.sqfs text"),
    Case { repeats: false, ..case("as mkfs.erofs -zlz4hc o.erofs ../in/src") },
    Case { repeats: false, ..case("as fsck.erofs --extract=o ../in/a.erofs") },
    case("as dump.erofs -s ../in/a.erofs"),
    Case { repeats: false, input: Some("a.tar"), ..case("as tar2sqfs -q -j 8 o.sqfs") },
    Case { repeats: false, ..case("as gensquashfs -q -j 8 -D ../in/src o.sqfs") },
    case("as rdsquashfs -l / ../in/a.sqfs"),
    case("as rdsquashfs -q -u / -p o ../in/a.sqfs"),
    case("as sqfs2tar ../in/a.sqfs"),
    case("as sqfsdiff -a ../in/a.sqfs -b ../in/a.sqfs"),
    case("oci convert ../in/a.tar o -q -j 8"),
];

/// Makes the inputs: a tree with a file that needs several blocks, one that does not shrink, and twelve levels; images and
/// archives of it; parts and a plan.
fn make_inputs(dir: &Path) {
    let src = dir.join("src");
    let deep = src.join("1/2/3/4/5/6/7/8/9/10/11/12");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("deep"), "the deepest file\n").unwrap();
    let text: String = (0..60_000).map(|n| format!("line {n} of many, {}\n", n * 7919 % 1009)).collect();
    fs::write(src.join("text"), &text).unwrap();
    fs::write(src.join("noise"), noise(700_000, 1)).unwrap();
    for n in 0..40 {
        let sub = src.join(format!("dir{n}"));
        fs::create_dir(&sub).unwrap();
        fs::write(sub.join("small"), format!("small file {n}\n").repeat(n * 13)).unwrap();
        fs::hard_link(sub.join("small"), sub.join("again")).unwrap();
    }
    let made: &[&[&str]] = &[
        &["build", "src", "-o", "a.sqfs"],
        &["build", "src", "-o", "xz.sqfs", "-c", "xz", "-b", "1M"],
        &["build", "src", "-o", "a.erofs", "--format", "erofs"],
        &["tar", "a.sqfs", "-o", "a.tar"],
        &["tar", "a.sqfs", "-o", "a.tar.gz"],
        &["tar", "a.sqfs", "-o", "a.tar.xz"],
        &["tar", "a.sqfs", "-o", "a.tar.zst"],
        &["split", "a.tar", "-o", "x.part", "-o", "y.part"],
        &[
            "bench",
            "codecs",
            "--data",
            "src/text",
            "-c",
            "lz4",
            "--sample",
            "1M",
            "--runs",
            "1",
            "--least",
            "1",
            "-o",
            "runs.jsonl",
        ],
    ];
    for line in made {
        succeed(dir, &[line, &["-q"][..]].concat());
    }
    let open_for_all = |path: &Path| {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    };
    walk(dir).iter().for_each(|path| open_for_all(path));
    // Last: a file whose attributes change afterwards is not packed.
    succeed(dir, &["plan", "src", "-o", "a.plan", "--shards", "2", "-q"]);
    for shard in ["0", "1"] {
        succeed(dir, &["shard", "a.plan", shard, "-o", "shards", "-q"]);
    }
    open_for_all(&dir.join("a.plan"));
    open_for_all(&dir.join("shards"));
    walk(&dir.join("shards")).iter().for_each(|path| open_for_all(path));
}

/// Returns everything below a directory.
fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

/// Contents of the files that a command left, by their paths.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = walk(dir).into_iter().filter(|path| path.is_file());
    files.map(|path| (path.strip_prefix(dir).unwrap().to_owned(), fs::read(&path).unwrap())).collect()
}

/// Returns a command that runs others until the deadline and under a limit, as `user` if this is root.
fn limited(user: &str, limit: Option<&Limit>) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", DEADLINE]);
    if rustix::process::geteuid().is_root() {
        command.args(["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]);
    }
    if let Some(limit) = limit {
        command.args(["prlimit", &limit.in_bytes()]);
    }
    command
}

/// Runs a command in `dir` under a limit.
fn run(case: &Case, limit: Option<&Limit>, dir: &Path, server: &Server) -> Output {
    let mut command = limited(USER, limit);
    let line = case.line.replace(SERVER, server.url("").trim_end_matches('/'));
    let program = packfs(line.split(' '));
    command.arg(program.get_program()).args(program.get_args());
    let input = case.input.map_or(Stdio::null(), |name| File::open(dir.join("../in").join(name)).unwrap().into());
    command.stdin(input).env_remove("SOURCE_DATE_EPOCH").env("LC_ALL", "C");
    // A cache outside the directory whose files are compared, and no way through a proxy.
    command.env("XDG_CACHE_HOME", dir.with_extension("cache")).env("http_proxy", "").env("no_proxy", "*");
    command.current_dir(dir).output().unwrap()
}

/// Returns what is wrong with the end of a command; `None` if nothing is.
fn fault(
    case: &Case,
    limit: &Limit,
    output: &Output,
    dir: &Path,
    usual: &(Vec<u8>, BTreeMap<PathBuf, Vec<u8>>),
) -> Option<String> {
    let messages = stderr(output);
    let told = |what: &str| Some(format!("{} {}: {what}: {}", limit.argument, case.line, messages.trim_end()));
    for word in ["panicked", "memory allocation of", "overflowed"] {
        if messages.contains(word) {
            return told(word);
        }
    }
    match output.status.code() {
        Some(0) if !case.repeats => None,
        Some(0) if output.stdout != usual.0 => told("other output"),
        Some(0) if contents(dir) != usual.1 => told("other files"),
        Some(0) => None,
        Some(1) if messages.contains(limit.names) => None,
        // Of several files, each has its own reason.
        Some(1) if limit.names == "ulimit -f" && messages.contains("File too large") => None,
        Some(1) => told("status 1, and the message does not name the limit"),
        // The kernel maps the program before it runs: some limits do not leave room even for that.
        Some(127) if messages.contains("error while loading shared libraries") => None,
        status => told(&format!("status {status:?}")),
    }
}

#[test]
fn every_command_keeps_within_limits_or_names_them() {
    let test = "every_command_keeps_within_limits_or_names_them";
    if !["prlimit", "timeout"].iter().all(|tool| have(test, tool)) {
        return;
    }
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip(test, "limits of processes: the processes of a user with others are not known");
    } else if !have(test, "setpriv") {
        return;
    }
    let full = std::env::var_os("PACKFS_LIMITS").is_some_and(|value| value == "full");
    let only = std::env::var("PACKFS_LIMITS_ONLY").unwrap_or_default();
    let work = tempfile::tempdir().unwrap();
    fs::set_permissions(work.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let inputs = work.path().join("in");
    fs::create_dir(&inputs).unwrap();
    make_inputs(&inputs);
    fs::set_permissions(&inputs, PermissionsExt::from_mode(0o755)).unwrap();

    let server = Server::start();
    for image in ["a.sqfs", "a.erofs"] {
        server.give(&format!("/{image}"), fs::read(inputs.join(image)).unwrap());
    }
    let next = AtomicUsize::new(0);
    let faults = Mutex::new(Vec::new());
    let try_cases = || {
        while let Some((index, case)) = {
            let index = next.fetch_add(1, Relaxed);
            CASES.get(index).map(|case| (index, case))
        } {
            let fresh = |name: String| {
                let dir = work.path().join(name);
                fs::create_dir(&dir).unwrap();
                fs::set_permissions(&dir, PermissionsExt::from_mode(0o777)).unwrap();
                dir
            };
            let dir = fresh(format!("{index}"));
            let output = run(case, None, &dir, &server);
            if !output.status.success() {
                faults.lock().unwrap().push(format!("{}: {:?}: {}", case.line, output.status, stderr(&output)));
                continue;
            }
            let usual = (output.stdout, contents(&dir));
            let chosen = LIMITS.iter().enumerate().filter(|(at, limit)| {
                let is_possible = is_root || !limit.argument.starts_with("--nproc");
                // Every seventh limit, beginning with another one for each command: three or four of different kinds.
                is_possible && (full || (at + index) % 7 == 0) && limit.argument.contains(&only)
            });
            for (at, limit) in chosen {
                let dir = fresh(format!("{index}-{at}"));
                let output = run(case, Some(limit), &dir, &server);
                faults.lock().unwrap().extend(fault(case, limit, &output, &dir, &usual));
                fs::remove_dir_all(dir).unwrap();
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(try_cases);
        try_cases();
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Starts `packfs serve` under a limit, asks for a file twice, ends it.
#[cfg(feature = "serve")]
#[test]
fn a_server_under_limits_answers_or_says_why_not() {
    let test = "a_server_under_limits_answers_or_says_why_not";
    if !["prlimit", "timeout", "curl", "setpriv"].iter().all(|tool| have(test, tool)) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skip(test, "limits of processes: the processes of a user with others are not known");
    }
    let work = tempfile::tempdir().unwrap();
    make_inputs(work.path());
    fs::set_permissions(work.path(), PermissionsExt::from_mode(0o755)).unwrap();
    for limit in LIMITS.iter().filter(|limit| !limit.argument.starts_with("--fsize")) {
        let mut command = limited(USER, Some(limit));
        command.args([env!("CARGO_BIN_EXE_packfs"), "serve", "a.sqfs", "--listen", "127.0.0.1:0"]);
        let command = command.current_dir(work.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        let mut answers = Vec::new();
        if !address.is_empty() {
            for _ in 0..2 {
                let url = format!("{}files/text", address.trim_end());
                let got = Command::new("curl").args(["-sSf", "--noproxy", "*", "-m", "30", &url]).output().unwrap();
                answers.push(got);
            }
            // To the server itself: `timeout` has only this child.
            let server = Command::new("pkill").args(["-TERM", "-P", &child.id().to_string()]).status().unwrap();
            assert!(server.success() || limit.argument.starts_with("--as"), "{}", limit.argument);
        }
        let output = child.wait_with_output().unwrap();
        let messages = stderr(&output);
        assert!(!messages.contains("panicked"), "{}: {messages}", limit.argument);
        match output.status.code() {
            Some(0) => {
                let text = fs::read(work.path().join("src/text")).unwrap();
                let wrong = answers.iter().find(|got| !got.status.success() || got.stdout != text);
                assert!(wrong.is_none(), "{}: {}: {messages}", limit.argument, stderr(wrong.unwrap()));
            }
            Some(1) => assert!(messages.contains(limit.names), "{}: {messages}", limit.argument),
            status => panic!("{}: {status:?}: {messages}", limit.argument),
        }
    }
}

/// Ends `packfs serve` while connections take up descriptors. Waiting for the next client takes one, too: with the right
/// number of connections it is the last, and ending must not need another.
#[cfg(feature = "serve")]
#[test]
fn a_server_ends_even_if_no_descriptor_is_left() {
    let test = "a_server_ends_even_if_no_descriptor_is_left";
    if !["prlimit", "timeout", "pkill"].iter().all(|tool| have(test, tool)) {
        return;
    }
    let work = tempfile::tempdir().unwrap();
    make_inputs(work.path());
    for descriptors in 8..=10 {
        for connections in 0..=3 {
            let mut command = Command::new("timeout");
            command.args(["-s", "KILL", DEADLINE, "prlimit", &format!("--nofile={descriptors}")]);
            command.args([env!("CARGO_BIN_EXE_packfs"), "serve", "a.sqfs", "--listen", "127.0.0.1:0"]);
            let mut child = command.current_dir(work.path()).stdout(Stdio::piped()).spawn().unwrap();
            let mut address = String::new();
            BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
            let host = address.trim_start_matches("http://").trim_end().trim_end_matches('/');
            let held: Vec<_> = (0..connections).map(|_| std::net::TcpStream::connect(host).unwrap()).collect();
            // Until it has taken them and waits for another. Without this pause the test would only find less.
            std::thread::sleep(std::time::Duration::from_millis(150));
            let told = Command::new("pkill").args(["-TERM", "-P", &child.id().to_string()]).status().unwrap();
            assert!(told.success());
            let status = child.wait().unwrap();
            assert!(status.success(), "{descriptors} descriptors, {} connections: {status}", held.len());
        }
    }
}

/// Mounts an image under a limit, reads a file twice, unmounts it under the same limit.
#[cfg(feature = "mount")]
#[test]
fn a_mount_under_limits_is_read_or_says_why_not() {
    let test = "a_mount_under_limits_is_read_or_says_why_not";
    if !["prlimit", "timeout", "setpriv", "fusermount3", "mountpoint"].iter().all(|tool| have(test, tool)) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skip(test, "limits of processes: the processes of a user with others are not known");
    }
    let work = tempfile::tempdir().unwrap();
    make_inputs(work.path());
    fs::set_permissions(work.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let text = fs::read(work.path().join("src/text")).unwrap();
    let in_work = |mut command: Command, args: &[&str]| {
        command.args(args).current_dir(work.path()).stdin(Stdio::null()).output().unwrap()
    };
    for (number, limit) in LIMITS.iter().filter(|limit| !limit.argument.starts_with("--fsize")).enumerate() {
        let what = limit.argument;
        let point = format!("mount{number}");
        let mut made = limited(NAMED_USER, None);
        assert!(made.args(["mkdir", &point]).current_dir(work.path()).status().unwrap().success());
        let mounted =
            in_work(limited(NAMED_USER, Some(limit)), &[env!("CARGO_BIN_EXE_packfs"), "mount", "a.sqfs", &point]);
        let is_mounted = in_work(limited(NAMED_USER, None), &["mountpoint", "-q", &point]).status.success();
        let messages = stderr(&mounted);
        assert!(!messages.contains("panicked"), "{what}: {messages}");
        assert_eq!(is_mounted, mounted.status.success(), "{what}: {messages}");
        match mounted.status.code() {
            Some(0) => {}
            Some(1) => {
                assert!(messages.contains(limit.names), "{what}: {messages}");
                continue;
            }
            status => panic!("{what}: {status:?}: {messages}"),
        }
        for _ in 0..2 {
            let read = in_work(limited(NAMED_USER, None), &["cat", &format!("{point}/text")]);
            assert!(read.stdout == text, "{what}: {}", stderr(&read));
        }
        let ended = in_work(limited(NAMED_USER, Some(limit)), &[env!("CARGO_BIN_EXE_packfs"), "umount", &point]);
        let messages = stderr(&ended);
        match ended.status.code() {
            Some(0) => {}
            Some(1) if messages.contains(limit.names) => {
                let ended = in_work(limited(NAMED_USER, None), &[env!("CARGO_BIN_EXE_packfs"), "umount", &point]);
                assert!(ended.status.success(), "{what}: {}", stderr(&ended));
            }
            status => panic!("{what}: umount: {status:?}: {messages}"),
        }
        assert!(!in_work(limited(NAMED_USER, None), &["mountpoint", "-q", &point]).status.success(), "{what}");
    }
}

/// Whatever starts a thread elsewhere would panic, or forget to fall back, where no thread can be had.
#[test]
fn threads_are_started_in_one_place() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let starts = ["thread::spawn(", "thread::Builder", "scope.spawn("];
    let mut elsewhere = Vec::new();
    for path in walk(&crates) {
        let text = path.to_string_lossy();
        let is_source = text.contains("/src/") && text.ends_with(".rs");
        let is_test = text.ends_with("tests.rs")
            || text.contains("/tests/")
            || text.contains("/testing/")
            || text.ends_with("lzo/oracle.rs");
        if !is_source || is_test || text.ends_with("blocks/src/threads.rs") {
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        elsewhere.extend(
            lines.filter(|line| starts.iter().any(|start| line.contains(start))).map(|line| format!("{text}: {line}")),
        );
    }
    assert!(elsewhere.is_empty(), "{}", elsewhere.join("\n"));
}
