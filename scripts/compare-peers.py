#!/usr/bin/env python3
"""Measures packfs against its peers: the tables of docs/benchmarking.md.

    compare-peers.py --data DIR [--packfs PROGRAM] [--peers DIR] [--rounds N] [--out DIR] [CASE ...]

Each case does the same work with several programs, in N interleaved rounds in random order after one that
is not counted, everything in a tmpfs with the source in the page cache, and prints medians of wall time
with their spread, CPU time, peak memory, size, and time and size against the fastest peer. `--list` names the cases.
Data is made by bench-data.py, newer peers by build-peers.sh; a peer that is missing is said to be. The cases are in
peercases/.
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

from peercases import erofs, names, squashfs

SCRIPTS = os.path.dirname(os.path.abspath(__file__))


def run(line, env, reports=False):
    """Runs a shell line; gives wall, CPU seconds and the peak memory in KiB of the program itself. What `reports` its
    own time is believed."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(["/bin/sh", "-c", "exec " + line], env=env, stdout=printed, stderr=subprocess.PIPE)
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{line}: exit {process.returncode}: {errors.decode(errors='replace').strip()}")
        if reports:
            printed.seek(0)
            wall = float(printed.read())
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def clean(case, tmp):
    """Every run writes anew: what runs before left behind goes, outside the measured time."""
    for name in ("p.dir", "m.dir"):
        shutil.rmtree(os.path.join(tmp, name), ignore_errors=True)
    for step in case.steps.values():
        if step.output and not step.reports and os.path.exists(step.output):
            os.remove(step.output)


def measure(name, case, rounds, env, tmp):
    print(f"\n### {name}: {case.what}\n", flush=True)
    missing = [label for label, step in case.steps.items() if not shutil.which(step.program, path=env["PATH"])]
    steps = {label: step for label, step in case.steps.items() if label not in missing}
    for line in case.prepare:
        run(line, env)
    seen = {label: [] for label in steps}
    sizes = {}
    for turn in range(rounds + 1):
        for label in random.sample(list(steps), len(steps)):
            clean(case, tmp)
            if case.before:
                run(case.before, env)
            step = steps[label]
            figures = run(step.line, env, step.reports)
            if step.output:
                sizes[label] = os.path.getsize(step.output)
            if turn:
                seen[label].append(figures)
    report(seen, sizes, missing)


def report(seen, sizes, missing):
    wall = {label: statistics.median(f[0] for f in figures) for label, figures in seen.items()}
    peer = min((label for label in wall if not label.startswith("packfs")), key=wall.get, default=None)
    print("| program | wall s (min-max) | CPU s | peak MiB | bytes | time, size of the fastest peer's |")
    print("|---|---|---|---|---|---|")
    for label, figures in seen.items():
        walls = [f[0] for f in figures]
        size = f"{sizes[label]:,}" if label in sizes else ""
        against = f"{wall[label] / wall[peer]:.2f}" if peer else ""
        if peer in sizes and label in sizes:
            against += f", {sizes[label] / sizes[peer] * 100 - 100:+.2f} %"
        print(f"| {label} | {wall[label]:.3f} ({min(walls):.3f}-{max(walls):.3f}) "
              f"| {statistics.median(f[1] for f in figures):.2f} | {max(f[2] for f in figures) / 1024:.0f} "
              f"| {size} | {against} |", flush=True)
    for label in missing:
        print(f"| {label} | not installed | | | | |")


def versions(env):
    for program, option in [("packfs", "--version"), ("mksquashfs", "-version"), ("tar2sqfs", "--version"),
                            ("unsquashfs", "-version"), ("sqfs2tar", "--version"), ("mkfs.erofs", "-V"),
                            ("fsck.erofs", "-V")]:
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
    data = os.path.abspath(args.data)
    every = lambda tmp: {**squashfs.cases(data, tmp), **erofs.cases(data, tmp), **names.cases(data, tmp)}
    if args.list:
        for name, case in every("").items():
            print(f"{name:24} {case.what}")
        return
    path = [os.path.dirname(os.path.abspath(args.packfs)), args.peers, SCRIPTS, os.environ["PATH"]]
    env = dict(os.environ, PATH=":".join(filter(None, path)))
    with tempfile.TemporaryDirectory(dir=args.tmp, prefix="packfs-bench-") as tmp:
        known = every(tmp)
        unknown = [name for name in args.cases if name not in known]
        if unknown:
            sys.exit(f"no case {', '.join(unknown)}; there are: {', '.join(known)}")
        versions(env)
        for name in args.cases or [name for name, case in known.items() if case.usual]:
            measure(name, known[name], args.rounds, env, tmp)


if __name__ == "__main__":
    main()
