#!/usr/bin/env python3
"""Measures how packfs and its peers scale with threads, within a given time: docs/scaling.md.

    measure-scaling.py --programs DIR --out DIR [--seconds N] [--jobs 1,2,4,8,12,16] [--scale F] [--rounds N] [--only TEXT]

DIR holds static programs (scripts/pack-scaling.sh puts them there), so that nothing has to be installed. The data are
files that the machine has anyway: Python packages, shared libraries and headers, copied to memory (--scale 1: 2 GB).
Rounds run until the time is used up or N rounds are complete; in a round every cell runs once, in random order. Slow
cells take part in every other round only, because their spread is small. What fails is written down, and the rest runs.

Results: OUT/scaling.jsonl has builds as `packfs bench` writes them, so that `packfs bench report` draws them;
OUT/scaling-reads.jsonl has extraction, archives, checks, splits and joins. Each line also has the user and system time,
the context switches and the page faults of its process.
"""
import argparse
import dataclasses
import hashlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# Where data come from, in this order: what a machine with Python on it has.
ORIGINS = ["/opt/torch/.venv/lib", "/usr/lib/python3", "/usr/lib/x86_64-linux-gnu", "/usr/include", "/usr/share", "/usr/lib"]
# Longer files would make a subset consist of a few libraries.
LONGEST_FILE = 48 << 20
# Bytes of each subset at --scale 1. A codec gets the one that one thread takes 2 to 6 seconds for: long enough for 16
# threads to have work, short enough for several rounds in a few minutes.
SUBSETS = {"small": 64 << 20, "medium": 192 << 20, "large": 768 << 20, "huge": 2048 << 20}
# A cell that took longer than this runs in every other round.
SLOW_SECONDS = 2.5
BLOCK = 131072
TAILS = "fragments,dedupe"


@dataclasses.dataclass(frozen=True)
class Cell:
    """One thing to measure: a program, its work, and the number of threads."""
    work: str
    tool: str
    format: str
    codec: str
    features: str
    subset: str
    threads: int

    def __str__(self):
        return f"{self.tool} {self.work} {self.format} {self.codec} {self.features or 'plain'} {self.threads}"


@dataclasses.dataclass
class Run:
    """What one run of a process took."""
    wall: float
    user: float
    system: float
    voluntary_switches: int
    involuntary_switches: int
    minor_faults: int
    peak_memory: int
    printed: bytes


def run(line, stdin=None, drop_output=False):
    """Runs a command and returns what it took. Raises RuntimeError with its messages if it fails."""
    source = open(stdin, "rb") if stdin else subprocess.DEVNULL
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        process = subprocess.Popen(line, stdin=source,
                                   stdout=subprocess.DEVNULL if drop_output else printed, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        errors.seek(0)
        if process.returncode:
            raise RuntimeError(f"{' '.join(line)}: exit {process.returncode}: {errors.read()[-300:].decode(errors='replace')}")
        return Run(wall, usage.ru_utime, usage.ru_stime, usage.ru_nvcsw, usage.ru_nivcsw, usage.ru_minflt,
                   usage.ru_maxrss * 1024, printed.read())


def collect(scratch, scale):
    """Copies files of this machine into one directory a subset. Each is a prefix of the next larger one in an order that
    depends on names only, so that all kinds of files are in each."""
    found = []
    for origin in ORIGINS:
        for folder, _, names in os.walk(origin):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.islink(path) and 0 < os.path.getsize(path) <= LONGEST_FILE:
                    found.append(path)
    found = list(dict.fromkeys(found))
    found.sort(key=lambda path: hashlib.sha256(os.path.basename(path).encode()).digest())
    subsets = {}
    for subset, wanted in SUBSETS.items():
        root, size, count = os.path.join(scratch, subset), 0, 0
        digest = hashlib.sha256()
        for path in found:
            if size >= wanted * scale:
                break
            target = root + path
            os.makedirs(os.path.dirname(target), exist_ok=True)
            try:
                shutil.copyfile(path, target)
            except OSError:
                continue
            size += os.path.getsize(target)
            count += 1
            digest.update(f"{path} {os.path.getsize(target)}\n".encode())
        subsets[subset] = {"path": root, "bytes": size, "files": count, "digest": digest.hexdigest()[:16]}
        print(f"{subset}: {count} files, {size / 1e6:.0f} MB", flush=True)
    return subsets


def build_line(cell, programs, source, image):
    """The command line of a build and the file to read on standard input. All programs do the same work; the options are
    those of crates/bench/src/build/tool.rs."""
    name, _, level = cell.codec.partition(":")
    program = os.path.join(programs, cell.tool)
    tails = cell.features == TAILS
    if cell.tool == "packfs":
        line = [program, "build", source["path"], "-o", image, "--quiet", "--json", "--format", cell.format, "--codec",
                cell.codec, "--block-size", str(BLOCK), "--jobs", str(cell.threads)]
        if cell.format == "squashfs":
            line += ["--fragments", "tails" if tails else "none"]
        elif name != "none":
            line += ["--features", "fragments,dedupe" if tails else "^fragments,^dedupe"]
            line += ["--target-kernel", "6.10"] if name == "zstd" else []
        return (line if tails else line + ["--no-dedup"]), None
    if cell.tool == "mksquashfs":
        line = [program, source["path"], image, "-noappend", "-no-progress", "-quiet", "-b", str(BLOCK), "-processors",
                str(cell.threads)]
        line += ["-always-use-fragments"] if tails else ["-no-fragments", "-no-duplicates"]
        if name == "none":
            return line + ["-no-compression"], None
        line += ["-comp", name.removesuffix("hc")] + (["-Xhc"] if name == "lz4hc" else [])
        return line + (["-Xcompression-level", level] if level and name in ("gzip", "zstd") else []), None
    if cell.tool == "tar2sqfs":
        extra = ["-X", "hc"] if name == "lz4hc" else ["-X", f"level={level}"] if level and name in ("gzip", "zstd") else []
        return [program, "-q", "-f", "-c", name.removesuffix("hc"), "-b", str(BLOCK), "-j", str(cell.threads), *extra,
                image], source["tar"]
    line = [program, "--quiet", f"--workers={cell.threads}"]
    if name != "none":
        line += [f"-z{name}" + (f",level={level}" if level else ""), f"-C{BLOCK}"] + (["-E" + TAILS] if tails else [])
    return line + [image, source["path"]], None


def read_line(cell, programs, source, image, target):
    """The command line of work on an image, on a stream, or on its parts."""
    program = os.path.join(programs, cell.tool)
    jobs = ["--jobs", str(cell.threads)]
    parts = [f"{image}.{n}" for n in range(4)]
    lines = {
        ("packfs", "extract"): [program, "extract", image, "-C", target, "--quiet", *jobs],
        ("packfs", "tar"): [program, "tar", image, "--quiet", *jobs],
        ("packfs", "check"): [program, "check", image, "--quiet", *jobs],
        ("packfs", "split"): [program, "split", source["tar"], *(f"-o{target}.{n}" for n in range(4)), "--codec", cell.codec,
                              "--quiet", *jobs],
        ("packfs", "join"): [program, "join", *parts, "-o", target, "--quiet", *jobs],
        ("unsquashfs", "extract"): [program, "-q", "-n", "-no-xattrs", "-processors", str(cell.threads), "-d", target, image],
        ("sqfs2tar", "tar"): [program, image],
        ("fsck.erofs", "extract"): [program, f"--extract={target}", "--no-preserve", image],
    }
    return lines[cell.tool, cell.work]


def cells(jobs):
    """All cells. `serial` (0 threads) is packfs without a pool: the reference that one thread is compared with. `processes`
    are as many processes of one thread each, which share nothing: what the machine itself loses with more threads."""
    every = [Cell("processes", "packfs", "squashfs", "zstd:15", TAILS, "small", n) for n in jobs]
    some = [n for n in jobs if n in (1, 4, 8, 16)]
    few = [n for n in jobs if n in (1, 8, 16)]
    most = [max(jobs)]
    squashfs = [("none", "huge"), ("lz4", "huge"), ("lz4hc", "medium"), ("gzip:6", "medium"), ("zstd:3", "large"),
                ("zstd:15", "small"), ("xz", "small"), ("lzo", "small")]
    quick = ("none", "lz4", "gzip:6", "zstd:3")
    for codec, subset in squashfs:
        every += [Cell("build", "packfs", "squashfs", codec, TAILS, subset, n) for n in [0, *jobs]]
        # mksquashfs packs fragments with one thread; without them it does the same work as packfs.
        plain = few if codec in quick else most
        every += [Cell("build", tool, "squashfs", codec, "", subset, n) for n in plain for tool in ("packfs", "mksquashfs")]
        if codec != "none":
            every += [Cell("build", "tar2sqfs", "squashfs", codec, TAILS, subset, n) for n in plain]
    for codec, features, subset in [("lz4", "", "huge"), ("lz4", TAILS, "huge"), ("lz4hc:9", TAILS, "medium"),
                                    ("zstd:3", TAILS, "large")]:
        every += [Cell("build", "packfs", "erofs", codec, features, subset, n) for n in jobs]
    for codec, subset in [("none", "huge"), ("zstd:3", "large")]:
        every += [Cell("build", "packfs", "erofs", codec, "", subset, n) for n in few]
    for codec, subset, counts in [("none", "huge", few), ("lz4", "huge", few), ("zstd:3", "large", most)]:
        every += [Cell("build", "mkfs.erofs", "erofs", codec, "", subset, n) for n in counts]
    for form, codec in [("squashfs", "lz4"), ("squashfs", "zstd:3"), ("erofs", "lz4")]:
        for work in ("extract", "tar", "check"):
            every += [Cell(work, "packfs", form, codec, TAILS, "large", n) for n in some]
    for codec in ("lz4", "zstd:3"):
        every += [Cell("extract", "unsquashfs", "squashfs", codec, TAILS, "large", n) for n in few]
        every.append(Cell("tar", "sqfs2tar", "squashfs", codec, TAILS, "large", 1))
        for work in ("split", "join"):
            every += [Cell(work, "packfs", "stream", codec, "4 outputs", "huge", n) for n in some]
    return every


class Bench:
    """Runs cells on the collected data and writes a line for each result."""

    def __init__(self, programs, out, scratch, subsets):
        self.programs, self.scratch, self.subsets = programs, scratch, subsets
        self.session = f"{int(time.time())}-{os.getpid()}"
        self.builds = open(os.path.join(out, "scaling.jsonl"), "w", encoding="utf-8")
        self.reads = open(os.path.join(out, "scaling-reads.jsonl"), "w", encoding="utf-8")
        self.walls = {}
        self.failed = {}

    def describe(self, rounds):
        """Writes the line of the session: the machine and the versions of all programs."""
        info = open("/proc/cpuinfo", encoding="utf-8").read()
        model = next((line.split(":")[1].strip() for line in info.splitlines() if line.startswith("model name")), "unknown")
        version = {}
        for program, option in [("packfs", "--version"), ("mksquashfs", "-version"), ("tar2sqfs", "--version"),
                                ("mkfs.erofs", "-V"), ("unsquashfs", "-version"), ("sqfs2tar", "--version")]:
            path = os.path.join(self.programs, program)
            if os.path.exists(path):
                shown = subprocess.run([path, option], capture_output=True, text=True, check=False)
                version[program] = (shown.stdout or shown.stderr).splitlines()[0]
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        settings = {name: f"{one['files']} files, {one['bytes']} bytes" for name, one in self.subsets.items()}
        settings["images"] = "in memory (tmpfs)"
        machine = {"cpu": model, "processors": os.cpu_count(), "governor": None, "memory": memory,
                   "kernel": f"Linux {os.uname().release} {os.uname().machine}"}
        session = {"packfs_bench": 1, "kind": "session", "session": self.session, "time": int(time.time()),
                   "program": version.get("packfs", "packfs ?").split()[1], "machine": machine, "libraries": version,
                   "settings": settings, "seed": 1, "runs": rounds}
        for file in (self.builds, self.reads):
            print(json.dumps(session), file=file, flush=True)

    def measure(self, cell):
        """Runs a cell once. A failure is kept, and its cell does not run again."""
        source = self.subsets[cell.subset]
        image = os.path.join(self.scratch, "image")
        target = os.path.join(self.scratch, "target")
        try:
            if cell.work == "processes":
                self.record_read(cell, source, self.run_processes(cell, source, image))
            elif cell.work == "build":
                line, stdin = build_line(cell, self.programs, source, image)
                self.record_build(cell, source, run(line, stdin), os.path.getsize(image))
            else:
                line = read_line(cell, self.programs, source, self.prepared(cell, source), target)
                self.record_read(cell, source, run(line, drop_output=cell.work == "tar"))
        except (RuntimeError, OSError, KeyError) as error:
            self.failed[cell] = str(error)
            print(f"FAILED {cell}: {error}", flush=True)
        finally:
            for name in os.listdir(self.scratch):
                if name.startswith(("image", "target")):
                    path = os.path.join(self.scratch, name)
                    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

    def run_processes(self, cell, source, image):
        """Runs as many serial builds at once as the cell has threads; returns the time until the last one ends."""
        serial = dataclasses.replace(cell, work="build", threads=0)
        begin = time.perf_counter()
        builds = [subprocess.Popen(build_line(serial, self.programs, source, f"{image}.{n}")[0], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL) for n in range(cell.threads)]
        user, system = 0.0, 0.0
        for build in builds:
            _, status, usage = os.wait4(build.pid, 0)
            build.returncode = os.waitstatus_to_exitcode(status)
            user += usage.ru_utime
            system += usage.ru_stime
        if any(build.returncode for build in builds):
            raise RuntimeError("a serial build failed")
        return Run(time.perf_counter() - begin, user, system, 0, 0, 0, 0, b"")

    def prepared(self, cell, source):
        """The image, or the parts, that a cell reads; made once."""
        made = os.path.join(self.scratch, f"made-{cell.format}-{cell.codec.replace(':', '-')}-{cell.subset}")
        program = os.path.join(self.programs, "packfs")
        if cell.format == "stream":
            if cell.work == "join" and not os.path.exists(made + ".0"):
                run([program, "split", source["tar"], *(f"-o{made}.{n}" for n in range(4)), "--codec", cell.codec, "--quiet"])
        elif not os.path.exists(made):
            run(build_line(dataclasses.replace(cell, work="build", tool="packfs", threads=os.cpu_count()), self.programs,
                           source, made)[0])
        return made

    def record_build(self, cell, source, taken, made):
        key = {"source": cell.subset, "digest": source["digest"], "tool": cell.tool, "format": cell.format,
               "codec": cell.codec, "block": BLOCK, "features": cell.features, "threads": cell.threads}
        stages = json.loads(taken.printed)["stages"] if cell.tool == "packfs" else {}
        self.record(self.builds, "build", cell, key, source, taken, {"made": made, "stages": stages})

    def record_read(self, cell, source, taken):
        self.record(self.reads, cell.work, cell, dataclasses.asdict(cell), source, taken, {})

    def record(self, file, kind, cell, key, source, taken, more):
        nanoseconds = {"wall": int(taken.wall * 1e9), "cpu": int((taken.user + taken.system) * 1e9), "passes": 1}
        line = {"packfs_bench": 1, "kind": kind, "session": self.session, **key, "time": nanoseconds,
                "bytes": source["bytes"], "peak_memory": taken.peak_memory, **more, "user": taken.user,
                "system": taken.system, "voluntary_switches": taken.voluntary_switches,
                "involuntary_switches": taken.involuntary_switches, "minor_faults": taken.minor_faults}
        print(json.dumps(line), file=file, flush=True)
        self.walls.setdefault(cell, []).append(taken.wall)


def summary(bench):
    """Prints a line for each cell, with the efficiency against one thread of the same program."""
    medians = {cell: statistics.median(walls) for cell, walls in bench.walls.items()}
    for cell in sorted(medians, key=dataclasses.astuple):
        single = medians.get(dataclasses.replace(cell, threads=1))
        efficiency = f"{single / medians[cell] / max(cell.threads, 1) * 100:4.0f} %" if single else ""
        walls = bench.walls[cell]
        print(f"{str(cell):70} {medians[cell]:7.3f} s ({min(walls):.3f}-{max(walls):.3f}, {len(walls)}) {efficiency}")
    for cell, why in bench.failed.items():
        print(f"FAILED {cell}: {why}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True, help="directory of static programs")
    parser.add_argument("--out", required=True, help="directory for the results")
    parser.add_argument("--seconds", type=float, default=420, help="time for everything, copying of data included [420]")
    parser.add_argument("--rounds", type=int, default=5, help="rounds at most [5]")
    parser.add_argument("--jobs", default="1,2,4,8,12,16", help="numbers of threads [1,2,4,8,12,16]")
    parser.add_argument("--scale", type=float, default=1.0, help="length of the data: 1 for 2 GB [1]")
    parser.add_argument("--only", default="", help="cells whose description contains one of these texts, by commas")
    parser.add_argument("--memory", default="/dev/shm", help="a tmpfs with four times the room of the data [/dev/shm]")
    args = parser.parse_args()
    deadline = time.monotonic() + args.seconds
    jobs = [int(number) for number in args.jobs.split(",")]
    os.makedirs(args.out, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.memory, prefix="packfs-scaling-") as scratch:
        subsets = collect(scratch, args.scale)
        packfs = os.path.join(args.programs, "packfs")
        for one in subsets.values():
            one["tar"] = one["path"] + ".tar"
            run(["tar", "-C", one["path"], "--sort=name", "-cf", one["tar"], "."])
        every = [cell for cell in cells(jobs) if any(text in str(cell) for text in args.only.split(","))]
        bench = Bench(args.programs, args.out, scratch, subsets)
        bench.describe(args.rounds)
        # Not counted: loads programs and data.
        run([packfs, "check", bench.prepared(Cell("build", "packfs", "squashfs", "lz4", TAILS, "large", 1), subsets["large"])])
        random.seed(1)
        complete = 0
        for turn in range(args.rounds):
            for cell in random.sample(every, len(every)):
                slow = bench.walls.get(cell, [0])[-1] > SLOW_SECONDS
                if cell in bench.failed or slow and turn % 2:
                    continue
                # The last run has to end in time; that of a new cell takes at most a few times SLOW_SECONDS.
                if time.monotonic() + max(bench.walls.get(cell, [SLOW_SECONDS])) > deadline:
                    continue
                bench.measure(cell)
            complete += time.monotonic() < deadline
        summary(bench)
        print(f"{complete} of {args.rounds} rounds complete")
        missing = [str(cell) for cell in every if cell not in bench.walls and cell not in bench.failed]
        if missing:
            print("NOT MEASURED, no time: " + "; ".join(missing))
        sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
