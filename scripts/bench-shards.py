#!/usr/bin/env python3
"""Measures a build in shards beside a local one: bench-shards.py PACKFS DIRECTORY SCRATCH [--shards N ...] [OPTION ...]

Prints processor and wall time of plan, of all shards one after the other, and of assembly, for each number of shards, in
relation to `packfs build`; the sizes; and the time of assembly beside `cp` of the image. Each OPTION is one of packfs
build. The image of one shard, and those of `build --shards N`, must have the same bytes. SCRATCH should be on a tmpfs.
"""
import argparse
import filecmp
import os
import shutil
import subprocess
import sys
import time


def run(*command):
    """Processor seconds, wall seconds and peak MiB of a command, which has to succeed."""
    begun = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"failed: {' '.join(command)}")
    return used.ru_utime + used.ru_stime, time.monotonic() - begun, used.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packfs")
    parser.add_argument("directory")
    parser.add_argument("scratch")
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 16])
    args, options = parser.parse_known_args()
    packfs, source = args.packfs, args.directory
    at = lambda name: os.path.join(args.scratch, name)
    os.makedirs(args.scratch, exist_ok=True)
    quiet = ["--quiet", "--force"]
    cpu, wall, memory = run(packfs, "build", source, "-o", at("local"), *options, *quiet)
    size = os.path.getsize(at("local"))
    print(f"local build          {cpu:8.2f} s CPU {wall:8.2f} s {memory:6.0f} MiB {size:>14,} bytes")
    for shards in args.shards:
        shutil.rmtree(at("shards"), ignore_errors=True)
        os.mkdir(at("shards"))
        steps = {"plan": run(packfs, "plan", source, "-o", at("plan"), f"--shards={shards}", *options, *quiet)}
        each = [run(packfs, "shard", at("plan"), str(n), "-o", at("shards"), "--quiet") for n in range(shards)]
        steps["shards"] = (sum(one[0] for one in each), sum(one[1] for one in each), max(one[2] for one in each))
        steps["assemble"] = run(packfs, "assemble", at("plan"), at("shards"), "-o", at("image"), *quiet)
        for name, (seconds, elapsed, peak) in steps.items():
            print(f"{shards:4} shards, {name:8} {seconds:8.2f} s CPU {elapsed:8.2f} s {peak:6.0f} MiB")
        run(packfs, "build", source, "-o", at("same"), f"--shards={shards}", *options, *quiet)
        if not filecmp.cmp(at("image"), at("same"), shallow=False):
            sys.exit("the assembled image differs from the local one with the same cut")
        if shards == 1 and not filecmp.cmp(at("image"), at("local"), shallow=False):
            sys.exit("one shard differs from no shards")
        size, whole = os.path.getsize(at("image")), os.path.getsize(at("local"))
        _, copy, _ = run("cp", "--reflink=never", at("image"), at("copy"))
        print(f"{shards:4} shards: {sum(step[0] for step in steps.values()) / cpu:.3f} of the processor time, "
              f"{100 * (size / whole - 1):+.2f} % of the size, assembly {steps['assemble'][1] / copy:.1f} times cp")


main()
