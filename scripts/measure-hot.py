#!/usr/bin/env python3
"""Measures a cold start with and without --hot: measure-hot.py PACKFS ROOT WORK [--rate MB] [--rounds N] -- COMMAND...

Packs ROOT plainly in both formats, traces COMMAND in a chroot of the mounted image, packs ROOT again with the list, and
then reads every file of the list, in its order, from fresh mounts on loop devices whose reads a control group (version 1)
holds to RATE MB/s. Plain and hot take turns. Prints times, and bytes and requests that the device saw. Needs root; WORK
should be in memory, so that only the held rate counts.
"""

import argparse
import os
import statistics
import subprocess
import time

GROUP = "/sys/fs/cgroup/blkio/packfs-hot"
FORMATS = {"sqfs": ("squashfs", ["-c", "zstd:3"]), "erofs": ("erofs", ["-c", "lz4hc:9"])}


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


def said(*command):
    return run(*command, stdout=subprocess.PIPE, text=True).stdout.strip()


class Mounted:
    """An image on a loop device of its own, nothing of it cached."""

    def __init__(self, image, kind, at):
        self.at, self.device = at, said("losetup", "-f", "--show", "-r", image)
        run("blockdev", "--flushbufs", self.device)
        with open("/proc/sys/vm/drop_caches", "w") as drop:
            drop.write("3")
        run("mount", "-t", kind, "-o", "ro", self.device, at)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        run("umount", "-R", self.at)
        run("losetup", "-d", self.device)

    def read(self):
        """Requests completed and bytes read so far."""
        with open(f"/sys/block/{os.path.basename(self.device)}/stat") as stat:
            requests, _, sectors, *_ = map(int, stat.read().split())
            return requests, sectors * 512


def trace(packfs, image, kind, at, listing, command):
    with Mounted(image, kind, at):
        for name, how in (("proc", ["-t", "proc", "proc"]), ("dev", ["--bind", "/dev"]), ("tmp", ["-t", "tmpfs", "tmp"])):
            run("mount", *how, os.path.join(at, name))
        traced = [packfs, "trace", "-f", "-o", listing, "--mount", at, "--", "chroot", at, *command]
        subprocess.run(traced, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def read(at, paths):
    """Reads files as a fresh process of the group does; returns seconds and bytes."""
    total, begun = 0, time.monotonic()
    for path in paths:
        path = at.encode() + path
        if os.path.isdir(path):
            os.listdir(path)
            continue
        with open(path, "rb", buffering=0) as file:
            while block := file.read(1 << 17):
                total += len(block)
    return time.monotonic() - begun, total


def cold(image, kind, at, paths, rate):
    with Mounted(image, kind, at) as mounted:
        number = os.stat(mounted.device).st_rdev
        with open(f"{GROUP}/blkio.throttle.read_bps_device", "w") as limit:
            limit.write(f"{os.major(number)}:{os.minor(number)} {rate * 1_000_000}")
        before, (there, here) = mounted.read(), os.pipe()
        child = os.fork()
        if child == 0:
            with open(f"{GROUP}/cgroup.procs", "w") as procs:
                procs.write("0")
            os.write(here, repr(read(at, paths)).encode())
            os._exit(0)
        os.waitpid(child, 0)
        seconds, total = eval(os.read(there, 100))
        os.close(there), os.close(here)
        requests, taken = (after - earlier for after, earlier in zip(mounted.read(), before))
        return seconds, taken, requests, total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packfs"), parser.add_argument("root"), parser.add_argument("work")
    parser.add_argument("--rate", type=int, default=100), parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    at, listing = os.path.join(args.work, "mnt"), os.path.join(args.work, "hot.list")
    os.makedirs(at, exist_ok=True), os.makedirs(GROUP, exist_ok=True)
    for number, (ending, (kind, options)) in enumerate(FORMATS.items()):
        images = {name: os.path.join(args.work, f"{name}.{ending}") for name in ("plain", "hot")}
        build = [args.packfs, "build", args.root, "-q", "-f", *options]
        run(*build, "-o", images["plain"])
        if number == 0:
            trace(args.packfs, images["plain"], kind, at, listing, args.command)
        run(*build, "-o", images["hot"], "--hot", listing)
        with open(listing, "rb") as file:
            paths = file.read().splitlines()
        taken = {name: [] for name in images}
        for _ in range(args.rounds):
            for name, image in images.items():
                taken[name].append(cold(image, kind, at, paths, args.rate))
        for name, rounds in taken.items():
            times = sorted(seconds for seconds, *_ in rounds)
            _, taken, requests, total = rounds[0]
            print(
                f"{ending} {name}: {os.path.getsize(images[name])} bytes; {len(paths)} paths, {total} bytes; from the device"
                f" {taken} bytes in {requests} requests; {statistics.median(times):.2f} s ({times[0]:.2f} to {times[-1]:.2f})"
            )
        for image in images.values():
            os.remove(image)


main()
