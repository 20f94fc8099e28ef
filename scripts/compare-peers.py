#!/usr/bin/env python3
"""Measures packfs against its peers: the tables of docs/benchmarking.md.

    compare-peers.py --data DIR [--packfs PROGRAM] [--peers DIR] [--rounds N] [--out DIR] [CASE ...]

Each case does the same work with several programs, in N interleaved rounds in random order after one that
is not counted, everything in a tmpfs with the source in the page cache, and prints medians of wall time
with their spread, CPU time, peak memory, size, and the ratio to the fastest peer. `--list` names the cases.
Data is made by bench-data.py, newer peers by build-peers.sh; a peer that is missing is said to be.
"""
import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

QUIET = "-noappend -quiet -no-progress -processors 2"


def cases(data, tmp):
    """Name -> what it is, then programs: label -> (program, arguments, output whose size counts)."""
    root, tar, image = f"{data}/debroot", f"{data}/debroot.tar", f"{tmp}/%s.image"
    build = lambda source, codec, more="": ("packfs", f"build {source} -o {image % 'p'} -f -q -j 2 -c {codec} {more}", image % "p")
    mk = lambda source, how: ("mksquashfs", f"{source} {image % 'm'} {QUIET} {how}", image % "m")
    ng = lambda how: ("tar2sqfs", f"-q -f -j 2 {how} {image % 'n'} < {tar}", image % "n")
    gen = lambda how: ("gensquashfs", f"-q -f -k -j 2 -D {root} {how} {image % 'g'}", image % "g")
    out = {}
    for codec, more, how in [
        ("gzip", "", "-comp gzip -Xcompression-level 9"),
        ("zstd", ":15", "-comp zstd -Xcompression-level 15"),
        ("xz", "", "-comp xz"),
        ("lzo", "", "-comp lzo"),
        ("lz4", "", "-comp lz4"),
    ]:
        out[f"build-{codec}"] = (f"Debian root to SquashFS, {codec}", {
            "packfs": build(root, codec + more),
            "packfs (tar)": build(tar, codec + more),
            "mksquashfs": mk(root, how),
            "gensquashfs": gen(f"-c {codec}"),
            "tar2sqfs": ng(f"-c {codec}"),
        })
    plain = "-noI -noD -noF -noX"
    out["build-none"] = ("Debian root to SquashFS, uncompressed", {
        "packfs": build(root, "none"), "packfs (tar)": build(tar, "none"), "mksquashfs": mk(root, plain)})
    out["small-files"] = ("40,000 files of 1,000 bytes, uncompressed", {
        "packfs": build(f"{data}/small40k", "none"), "mksquashfs": mk(f"{data}/small40k", plain)})
    out["twice"] = ("the same root twice, zstd 15", {
        "packfs, once": build(root, "zstd:15"),
        "packfs, twice": ("packfs", f"build {data}/twice -o {tmp}/t.image -f -q -j 2 -c zstd:15", f"{tmp}/t.image")})
    for codec in ["gzip", "zstd", "xz", "lz4"]:
        made = f"{tmp}/{codec}.sqfs"
        prepare = f"packfs build {root} -o {made} -f -q -c {codec}"
        out[f"tar-{codec}"] = (f"image to tar, {codec}", {
            "prepare": prepare,
            "packfs": ("packfs", f"tar {made} -o {tmp}/p.tar -f -q -j 2", f"{tmp}/p.tar"),
            "sqfs2tar": ("sqfs2tar", f"{made} > {tmp}/n.tar", f"{tmp}/n.tar")})
        out[f"extract-{codec}"] = (f"image to a directory, {codec}", {
            "prepare": prepare,
            "packfs": ("packfs", f"extract {made} -C {tmp}/p.dir -q -j 2", None),
            "unsquashfs": ("unsquashfs", f"-q -n -p 2 -d {tmp}/m.dir {made}", None)})
    many = f"{tmp}/many.sqfs"
    out["list"] = ("long listing of 57,000 entries", {
        "prepare": f"packfs build {data}/many57k -o {many} -f -q -c gzip",
        "packfs": ("packfs", f"list -l {many} > {tmp}/p.txt", None),
        "unsquashfs": ("unsquashfs", f"-q -n -lls {many} > {tmp}/m.txt", None)})
    return out


def run(line, env):
    """Runs a shell line; gives wall, CPU seconds and the peak memory in KiB of the program itself."""
    begin = time.perf_counter()
    process = subprocess.Popen(["/bin/sh", "-c", "exec " + line], env=env, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{line}: exit {process.returncode}: {errors.decode(errors='replace').strip()}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def clean(tmp):
    """Every run writes anew: what extraction left behind goes, outside the measured time."""
    for name in ("p.dir", "m.dir"):
        shutil.rmtree(os.path.join(tmp, name), ignore_errors=True)


def measure(name, what, programs, rounds, env, tmp):
    programs = dict(programs)
    prepare = programs.pop("prepare", None)
    missing = [label for label, (program, *_) in programs.items() if not shutil.which(program, path=env["PATH"])]
    for label in missing:
        programs.pop(label)
    if prepare:
        run(prepare, env)
    seen = {label: [] for label in programs}
    for turn in range(rounds + 1):
        for label in random.sample(list(programs), len(programs)):
            program, args, _ = programs[label]
            clean(tmp)
            figures = run(f"{program} {args}", env)
            if turn:
                seen[label].append(figures)
    peers = [statistics.median(f[0] for f in seen[label]) for label in seen if not label.startswith("packfs")]
    print(f"\n### {name}: {what}\n")
    print("| program | wall s (min-max) | CPU s | peak MiB | bytes | of the fastest peer |\n|---|---|---|---|---|---|")
    for label, figures in seen.items():
        walls = [f[0] for f in figures]
        output = programs[label][2]
        size = f"{os.path.getsize(output):,}" if output else ""
        ratio = f"{statistics.median(walls) / min(peers):.2f}" if peers else ""
        print(f"| {label} | {statistics.median(walls):.3f} ({min(walls):.3f}-{max(walls):.3f}) "
              f"| {statistics.median(f[1] for f in figures):.2f} | {max(f[2] for f in figures) / 1024:.0f} "
              f"| {size} | {ratio} |", flush=True)
    for label in missing:
        print(f"| {label} | not installed | | | | |")


def versions(env):
    for program, option in [("packfs", "--version"), ("mksquashfs", "-version"), ("tar2sqfs", "--version"),
                            ("unsquashfs", "-version"), ("sqfs2tar", "--version")]:
        if shutil.which(program, path=env["PATH"]):
            shown = subprocess.run([program, option], env=env, capture_output=True, text=True, check=False)
            print(f"- {(shown.stdout or shown.stderr).splitlines()[0]}")
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    print(f"- {os.cpu_count()} cores of {model}, Linux {os.uname().release}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="directory made by bench-data.py")
    parser.add_argument("--packfs", default="target/release/packfs", help="the program [target/release/packfs]")
    parser.add_argument("--peers", default="", help="directory of newer peers, before PATH")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tmp", default="/dev/shm", help="where images go: a tmpfs [/dev/shm]")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    if args.list:
        for name, (what, _) in cases(args.data, "").items():
            print(f"{name:14} {what}")
        return
    path = [os.path.dirname(os.path.abspath(args.packfs)), args.peers, os.environ["PATH"]]
    env = dict(os.environ, PATH=":".join(filter(None, path)))
    with tempfile.TemporaryDirectory(dir=args.tmp, prefix="packfs-bench-") as tmp:
        known = cases(os.path.abspath(args.data), tmp)
        unknown = [name for name in args.cases if name not in known]
        if unknown:
            sys.exit(f"no case {', '.join(unknown)}; there are: {', '.join(known)}")
        versions(env)
        for name in args.cases or known:
            what, programs = known[name]
            measure(name, what, programs, args.rounds, env, tmp)


if __name__ == "__main__":
    main()
