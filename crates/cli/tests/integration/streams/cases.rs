//! The table of command lines.

/// Kind of the lines that a command prints on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrintedOutput {
    /// The result of the command.
    Result,
    /// Remarks.
    Remarks,
    Nothing,
}

/// A command line, and how it behaves with usual streams. `IN/` stands for the directory of inputs, PORT for a free
/// port and PACKFS for the program. It runs in a directory of its own.
#[derive(Debug)]
pub(crate) struct StreamCase {
    /// Command of packfs, joined by `-`, or drop-in name.
    pub(crate) name: &'static str,
    /// Words separated by blanks.
    pub(crate) line: &'static str,
    pub(crate) stdout: PrintedOutput,
    pub(crate) status: i32,
    /// Input that it reads from standard input.
    pub(crate) stdin: Option<&'static str>,
    /// Script that makes the files that the run needs.
    pub(crate) prepare: &'static str,
    /// Script that examines the results of the run and writes its findings to files.
    pub(crate) inspect: &'static str,
    /// True if the result is printed on standard error.
    pub(crate) result_on_stderr: bool,
    /// True if it takes seconds.
    pub(crate) slow: bool,
    pub(crate) mounts: bool,
    pub(crate) needs_root: bool,
}

const fn case(name: &'static str, line: &'static str, stdout: PrintedOutput) -> StreamCase {
    StreamCase {
        name,
        line,
        stdout,
        status: 0,
        stdin: None,
        prepare: "",
        inspect: "",
        result_on_stderr: false,
        slow: false,
        mounts: false,
        needs_root: false,
    }
}

const fn result(name: &'static str, line: &'static str) -> StreamCase {
    case(name, line, PrintedOutput::Result)
}

const fn remarks(name: &'static str, line: &'static str) -> StreamCase {
    case(name, line, PrintedOutput::Remarks)
}

const fn silent(name: &'static str, line: &'static str) -> StreamCase {
    case(name, line, PrintedOutput::Nothing)
}

impl StreamCase {
    /// The same with status 1, as there are findings.
    const fn with_findings(self) -> StreamCase {
        StreamCase { status: 1, ..self }
    }

    const fn reads(self, input: &'static str) -> StreamCase {
        StreamCase { stdin: Some(input), ..self }
    }

    const fn slow(self) -> StreamCase {
        StreamCase { slow: true, ..self }
    }
}

const fn mount(name: &'static str, line: &'static str) -> StreamCase {
    let inspect = "ls m/etc > seen && PACKFS umount m";
    StreamCase { prepare: "mkdir m", inspect, mounts: true, ..silent(name, line) }
}

/// Programs that mount print help and version on standard error.
const fn version_on_stderr(name: &'static str, line: &'static str) -> StreamCase {
    StreamCase { result_on_stderr: true, ..silent(name, line) }
}

pub(crate) static CASES: &[StreamCase] = &[
    result("packfs", "--help"),
    result("packfs", "--version"),
    silent("build", "build IN/root -o image"),
    silent("build", "build IN/root -o image --format erofs -j 2"),
    remarks("build", "build IN/root -o image --list"),
    remarks("build", "build IN/root -o image --format erofs --list"),
    remarks("build", "build IN/root -o image --percentage"),
    result("build", "build IN/root -o image --json"),
    result("build", "build IN/root -o image --dry-run"),
    result("build", "build IN/root -o -"),
    result("build", "build IN/root -o - --format erofs"),
    result("build", "build IN/root -o - --stream"),
    result("build", "build --codec help"),
    result("build", "build --help"),
    silent("build", "build - -o image").reads("root.tar"),
    silent("build", "build --files-from - -o image").reads("list"),
    silent("extract", "extract IN/squashfs -C out"),
    remarks("extract", "extract IN/erofs -C out --percentage"),
    result("extract", "extract IN/squashfs -C out --dry-run"),
    silent("extract", "extract IN/squashfs -C out --paths-from - --ignore-missing").reads("list"),
    result("tar", "tar IN/squashfs"),
    result("tar", "tar IN/erofs --format pseudo"),
    result("tar", "tar IN/squashfs --compress zstd"),
    silent("tar", "tar IN/squashfs -o a.tar"),
    result("list", "list IN/squashfs"),
    result("list", "list IN/erofs --long"),
    result("list", "list IN/squashfs --json"),
    result("list", "list IN/squashfs --tree"),
    result("list", "list IN/squashfs --pack-list=."),
    result("cat", "cat IN/squashfs usr/share/doc/text"),
    result("cat", "cat IN/p0 IN/p1"),
    result("info", "info IN/squashfs"),
    result("info", "info IN/erofs --json"),
    result("info", "info IN/squashfs --stats"),
    result("info", "info IN/squashfs --inode etc/motd"),
    result("info", "info IN/p0 IN/p1"),
    silent("check", "check IN/squashfs"),
    result("check", "check IN/erofs --json"),
    result("check", "check IN/damaged.squashfs").with_findings(),
    result("check", "check IN/damaged.erofs --json").with_findings(),
    result("check", "check IN/squashfs --against IN/other").with_findings(),
    result("check", "check IN/p0").with_findings(),
    result("diff", "diff IN/squashfs IN/other").with_findings(),
    result("diff", "diff IN/squashfs IN/other --json").with_findings(),
    silent("diff", "diff IN/squashfs IN/root"),
    silent("delta", "delta IN/squashfs IN/erofs -o patch"),
    result("delta", "delta IN/erofs IN/squashfs -o patch --json"),
    StreamCase { prepare: "PACKFS delta IN/erofs IN/squashfs -o p -q", ..silent("apply", "apply IN/erofs p -o new") },
    StreamCase {
        prepare: "PACKFS delta IN/erofs IN/squashfs -o p -q",
        ..result("apply", "apply IN/erofs p -o new --json")
    },
    StreamCase {
        prepare: "PACKFS build IN/root -o i --delta-index zsync -q",
        ..silent("update", "update i.zsync --from i -o new")
    },
    StreamCase {
        prepare: "PACKFS build IN/root -o i --delta-index zsync -q",
        ..result("update", "update i.zsync --from i -o new --json")
    },
    silent("seal", "seal IN/squashfs -o sealed"),
    result("seal", "seal IN/erofs -o sealed --append --json"),
    result("seal", "seal IN/squashfs --root-hash-only"),
    result("seal", "seal IN/squashfs --fs-verity"),
    StreamCase { prepare: "PACKFS seal IN/erofs -o app.raw -q", ..silent("verify", "verify app.raw --as systemd") },
    result("verify", "verify IN/squashfs --as systemd").with_findings(),
    result("verify", "verify IN/squashfs --as containerd --json").with_findings(),
    StreamCase { prepare: "PACKFS tar IN/squashfs -o a.tar -q", ..silent("oci", "oci convert a.tar converted") },
    StreamCase {
        prepare: "PACKFS tar IN/squashfs -o a.tar -q",
        ..result("oci-convert", "oci convert a.tar converted --json")
    },
    StreamCase {
        prepare: "PACKFS tar IN/squashfs -o a.tar -q; PACKFS oci convert a.tar converted -q",
        ..silent("oci", "oci export converted exported")
    },
    StreamCase {
        prepare: "PACKFS tar IN/squashfs -o a.tar -q; PACKFS oci convert a.tar converted -q",
        ..result("oci-export", "oci export converted exported --json")
    },
    StreamCase {
        prepare: "PACKFS tar IN/squashfs -o a.tar -q",
        ..result("oci-cache", "oci cache a.tar cached --json")
    },
    silent("oci", "oci merge IN/erofs -o merged"),
    result("oci-merge", "oci merge IN/erofs -o merged --json"),
    silent("split", "split IN/dump -o p0"),
    result("split", "split IN/dump -o p0 --json"),
    silent("split", "split - -o p0").reads("dump"),
    silent("join", "join IN/p0 IN/p1 -o back"),
    result("join", "join IN/p0 IN/p1 -o back --json"),
    result("join", "join IN/p0 IN/p1 -o -"),
    mount("mount", "mount IN/squashfs m"),
    StreamCase {
        prepare: "mkdir m && PACKFS mount IN/erofs m && ls m > /dev/null",
        inspect: "rmdir m",
        ..mount("umount", "umount m")
    },
    remarks("serve", "serve IN/squashfs --listen 127.0.0.1:PORT"),
    remarks("serve", "serve IN/squashfs --nbd socket"),
    result("explore", "explore IN/squashfs"),
    silent("explore", "explore IN/erofs -o page.html"),
    result("bench", "bench --quick IN/root").slow(),
    result("bench-codecs", "bench codecs --data IN/root --codecs lz4 --blocks 16K --sample 20K --runs 1 --least 0"),
    result("bench-codecs", "bench codecs --data IN/root --codecs lz4 --blocks 16K --sample 20K --runs 1 --json"),
    result("bench-build", "bench build IN/root --codecs lz4 --jobs 0 --runs 1 --scratch .").slow(),
    StreamCase { needs_root: true, ..result("bench-read", "bench read IN/squashfs --runs 1 --scratch .").slow() },
    result("bench-split", "bench split --size 1M --runs 1 --codecs lz4 --outputs 1 --scratch .").slow(),
    result("bench-report", "bench report IN/results.jsonl"),
    silent("bench-report", "bench report IN/results.jsonl -o report.html"),
    result("bench-memory", "bench memory 64K"),
    silent("bench-memory", "bench memory 64K -o memory"),
    result("tune", "tune IN/root --codecs lz4 --blocks 64K --format squashfs").slow(),
    result("tune", "tune IN/root --codecs lz4 --blocks 64K --format squashfs --chart page.html --json").slow(),
    StreamCase {
        needs_root: true,
        ..silent("trace", "trace -o traced --mount IN/root -- cmp IN/root/etc/motd IN/root/etc/issue")
    },
    result("as", "as --list"),
    result("as", "as --show mksquashfs IN/root b"),
    remarks("as", "as --install ."),
    silent("plan", "plan IN/root -o job.plan --shards 2"),
    result("plan", "plan IN/root -o job.plan --shards 2 --json"),
    result("plan", "plan IN/root -o job.plan --shards 2 --for slurm"),
    result("plan", "plan IN/root -o part --scan 0/2 --json"),
    silent("shard", "shard IN/job.plan 0 -o shards"),
    result("shard", "shard IN/job.plan 1 -o shards --json"),
    silent("assemble", "assemble IN/job.plan IN/shards -o image"),
    result("assemble", "assemble IN/job.plan IN/shards -o image --json"),
    result("status", "status IN/job.plan IN/shards"),
    result("status", "status IN/job.plan IN/shards --json"),
    result("status", "status IN/job.plan IN/other").with_findings(),
    result("completions", "completions bash"),
    result("man", "man build"),
    silent("man", "man --dir ."),
    result("help", "help build"),
    result("help", "help codecs"),
    //
    silent("mksquashfs", "as mksquashfs IN/root image -noappend"),
    remarks("mksquashfs", "as mksquashfs IN/root image -noappend -info"),
    remarks("mksquashfs", "as mksquashfs IN/root image -noappend -percentage"),
    result("mksquashfs", "as mksquashfs IN/root - -stream"),
    result("mksquashfs", "as mksquashfs -version"),
    result("mksquashfs", "as mksquashfs -help"),
    silent("mksquashfs", "as mksquashfs - image -cpiostyle -noappend").reads("list"),
    silent("sqfstar", "as sqfstar image").reads("root.tar"),
    remarks("sqfstar", "as sqfstar -info image").reads("root.tar"),
    silent("tar2sqfs", "as tar2sqfs image").reads("root.tar"),
    silent("gensquashfs", "as gensquashfs -D IN/root image"),
    result("gensquashfs", "as gensquashfs --version"),
    silent("mkfs.erofs", "as mkfs.erofs image IN/root"),
    silent("mkfs.erofs", "as mkfs.erofs --tar=f image").reads("root.tar"),
    result("mkfs.erofs", "as mkfs.erofs --help"),
    remarks("unsquashfs", "as unsquashfs -d out IN/squashfs"),
    remarks("unsquashfs", "as unsquashfs -i -d out IN/squashfs"),
    result("unsquashfs", "as unsquashfs -ll IN/squashfs"),
    result("unsquashfs", "as unsquashfs -s IN/squashfs"),
    result("unsquashfs", "as unsquashfs -cat IN/squashfs usr/share/doc/text"),
    result("unsquashfs", "as unsquashfs -pf - IN/squashfs"),
    result("unsquashfs", "as unsquashfs -mkfs-time IN/squashfs"),
    result("sqfscat", "as sqfscat IN/squashfs usr/share/doc/text etc/motd"),
    result("sqfscat", "as sqfscat -no-exit-code IN/squashfs usr/share/doc/text etc/motd"),
    silent("fsck.erofs", "as fsck.erofs IN/erofs"),
    silent("fsck.erofs", "as fsck.erofs --extract=out IN/erofs"),
    result("fsck.erofs", "as fsck.erofs IN/damaged.erofs").with_findings(),
    result("dump.erofs", "as dump.erofs IN/erofs"),
    result("dump.erofs", "as dump.erofs -S IN/erofs"),
    result("dump.erofs", "as dump.erofs --path=/usr/share --ls IN/erofs"),
    result("dump.erofs", "as dump.erofs --cat --path=/usr/share/doc/text IN/erofs"),
    result("rdsquashfs", "as rdsquashfs -l usr/share IN/squashfs"),
    result("rdsquashfs", "as rdsquashfs -d IN/squashfs"),
    result("rdsquashfs", "as rdsquashfs -s etc/motd IN/squashfs"),
    result("rdsquashfs", "as rdsquashfs -c usr/share/doc/text IN/squashfs"),
    silent("rdsquashfs", "as rdsquashfs -u / -p out IN/squashfs"),
    result("sqfs2tar", "as sqfs2tar IN/squashfs"),
    result("sqfsdiff", "as sqfsdiff --old IN/squashfs --new IN/other.squashfs").with_findings(),
    mount("squashfuse", "as squashfuse IN/squashfs m"),
    version_on_stderr("squashfuse", "as squashfuse --version"),
    mount("squashfuse_ll", "as squashfuse_ll IN/squashfs m"),
    version_on_stderr("squashfuse_ll", "as squashfuse_ll --version"),
    mount("erofsfuse", "as erofsfuse IN/erofs m"),
    version_on_stderr("erofsfuse", "as erofsfuse --version"),
];
