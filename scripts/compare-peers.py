#!/usr/bin/env python3
"""Measures packfs against its peers: the results of which scripts/report-peers.py makes tables.

    compare-peers.py --data DIR [--packfs PROGRAM] [--peers DIR] [--rounds N] [--results FILE] [CASE ...]

Each case does the same work with several programs, in N interleaved rounds in random order, everything in a tmpfs with
the source in the page cache. A round before them warms the caches and does not count, unless it is long. A case ends
early if it takes longer than --seconds. Medians go to standard output, all samples to FILE, which is replaced. `--list`
names the cases. Data is made by bench-data.py, newer peers by build-peers.sh; a peer that is missing is said to be. GNU
time is needed. The cases are in peercases/.
"""
import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from peercases import choice, dumps, erofs, mounts, names, shards, squashfs, trees

MODULES = (squashfs, erofs, names, mounts, dumps, shards, choice, trees)
SCRIPTS = os.path.dirname(os.path.abspath(__file__))


def run(line, env, reports=False):
    """Runs a shell line; gives wall, CPU seconds and the peak memory in KiB of the program itself. What `reports` its
    own time is believed.

    GNU time starts the program: the kernel counts what a process had before `exec` as its own, and this one has 17 MiB."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as printed, tempfile.NamedTemporaryFile() as peak:
        timed = ["time", "--quiet", "-f", "%M", "-o", peak.name, "/bin/sh", "-c", "exec " + line]
        process = subprocess.Popen(timed, env=env, stdout=printed, stderr=subprocess.PIPE)
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{line}: exit {process.returncode}: {errors.decode(errors='replace').strip()}")
        if reports:
            printed.seek(0)
            wall = float(printed.read())
        return wall, usage.ru_utime + usage.ru_stime, int(peak.read())


def clean(step, tmp):
    """Every run writes anew: what its run before left behind goes, outside the measured time."""
    for name in ("p.dir", "m.dir"):
        shutil.rmtree(os.path.join(tmp, name), ignore_errors=True)
    if step.output and not step.reports and os.path.exists(step.output):
        os.remove(step.output)


def measure(name, case, args, env):
    """Runs a case; returns a record for each program, with a value a round."""
    print(f"\n### {name}: {case.what}\n", flush=True)
    missing = [label for label, step in case.steps.items() if not shutil.which(step.program, path=env["PATH"])]
    steps = {label: step for label, step in case.steps.items() if label not in missing}
    for line in case.prepare:
        run(line, env)
    seen = {label: [] for label in steps}
    sizes = {}
    begun = time.monotonic()
    for turn in range(args.rounds + 1):
        if turn and time.monotonic() - begun > args.seconds and all(seen.values()):
            break
        turn_begun = time.monotonic()
        samples = {}
        for label in random.sample(list(steps), len(steps)):
            step = steps[label]
            clean(step, args.tmp)
            if case.before:
                run(case.before, env)
            samples[label] = run(step.line, env, step.reports)
            if step.output:
                sizes[label] = os.path.getsize(step.output)
        # What takes long does not become faster with warm caches.
        if turn or time.monotonic() - turn_begun > args.seconds / (args.rounds + 1):
            for label, sample in samples.items():
                seen[label].append(sample)
    report(seen, sizes, missing)
    needs = {label: needs_linux(step.output, env) for label, step in steps.items()} if case.kernels else {}
    return [{
        "kind": "case", "case": name, "what": case.what, "program": label, "wall": [sample[0] for sample in seen[label]],
        "cpu": [sample[1] for sample in seen[label]], "peak_kib": max(sample[2] for sample in seen[label]),
        "bytes": sizes.get(label), **({"needs_linux": needs[label]} if label in needs else {}),
    } for label in seen]


def needs_linux(image, env):
    """The oldest Linux that reads an image."""
    said = subprocess.run(["packfs", "info", "--json", image], env=env, capture_output=True, check=True)
    return json.loads(said.stdout)["needs_linux"]


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


def version(program, option, env):
    """The line in which a program says its version, or None if there is no such program."""
    if not shutil.which(program, path=env["PATH"]):
        return None
    shown = subprocess.run([program, option], env=env, capture_output=True, text=True, check=False)
    return next((line for line in (shown.stdout + shown.stderr).splitlines() if re.search(r"\d\.\d", line)), None)


def session(args, env):
    """What all cases have in common."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "?")
    programs = [("packfs", "--version"), ("mksquashfs", "-version"), ("unsquashfs", "-version"), ("tar2sqfs", "--version"),
                ("sqfs2tar", "--version"), ("mkfs.erofs", "-V"), ("fsck.erofs", "-V"),
                ("squashfuse_ll", "--version"), ("makedumpfile", "-v")]
    built_at = os.path.dirname(os.path.abspath(args.packfs))
    commit = subprocess.run(["git", "-C", built_at, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    found = {program: version(program, option, env) for program, option in programs}
    return {
        "kind": "session", "packfs_peers": 1, "date": time.strftime("%Y-%m-%d"), "commit": commit.stdout.strip(),
        "versions": {program: version for program, version in found.items() if version},
        "machine": {"cpu": model, "cores": os.cpu_count(), "kernel": os.uname().release}, "rounds": args.rounds,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="directory made by bench-data.py")
    parser.add_argument("--packfs", default="target/release/packfs", help="the program [target/release/packfs]")
    parser.add_argument("--peers", default="", help="directory of newer peers, before PATH")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=120, help="about as long may a case take [120]")
    parser.add_argument("--results", help="file for all samples, as docs/results/peers.jsonl")
    parser.add_argument("--tmp", default="/dev/shm", help="where images go: a tmpfs [/dev/shm]")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    data = os.path.abspath(args.data)
    every = lambda tmp: {name: case for module in MODULES for name, case in module.cases(data, tmp).items()}
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
        args.tmp = tmp
        about = session(args, env)
        print("\n".join(f"- {version}" for version in about["versions"].values()))
        records = [about]
        for name in args.cases or [name for name, case in known.items() if case.usual]:
            records += measure(name, known[name], args, env)
            if args.results:
                with open(args.results, "w", encoding="utf-8") as file:
                    file.writelines(json.dumps(record) + "\n" for record in records)


if __name__ == "__main__":
    main()
