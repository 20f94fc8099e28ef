#!/usr/bin/env python3
"""Measures mounts of images: packfs, squashfuse_ll, erofsfuse and the kernel.

  usage: bench-mount.py --packfs PROGRAM --peers DIRECTORY [--rounds N] [--only CASE,...] IMAGE...

An image's name says what it is read for: one that begins with `big` has a file `file`, which is read at random and from
its start to its end; of any other all files are read, and everything is listed. Each round runs every program once in
random order, with a fresh mount: what the kernel keeps of a file system is gone, what it keeps of the image is not. The
tables show medians of the wall time, with the range, the processor time of readers and of the program that serves, and that
program's peak memory. Takes root, `fio`, and images on a tmpfs so that nobody waits for a disk.
"""

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

TICK = os.sysconf("SC_CLK_TCK")


def commands(args, image):
    """The ways to mount an image: name, and command line with {image} and {dir}."""
    ways = {"packfs": [args.packfs, "mount", "--foreground", "{image}", "{dir}"]}
    if image.endswith(".erofs"):
        ways["erofsfuse"] = [f"{args.peers}/erofsfuse", "-f", "{image}", "{dir}"]
        ways["kernel"] = ["mount", "-t", "erofs", "-o", "loop,ro", "{image}", "{dir}"]
    else:
        ways["squashfuse_ll"] = [f"{args.peers}/squashfuse_ll", "-f", "{image}", "{dir}"]
        ways["kernel"] = ["mount", "-t", "squashfs", "-o", "loop,ro", "{image}", "{dir}"]
    return {name: way for name, way in ways.items() if not args.programs or name in args.programs.split(",")}


def cases(image):
    """The readings of an image: name, and shell command in the mount, which may print its own time."""
    if os.path.basename(image).startswith("big"):
        fio = "fio --name=r --filename=file --readonly --rw=randread --bs=4k --ioengine=psync --invalidate=0 " \
            "--fadvise_hint=random --allow_file_create=0 --thread --randrepeat=1 --group_reporting " \
            "--output-format=terse --terse-version=3"
        # The time of reading, in milliseconds: fio itself takes half a second to start.
        time = "cut -d';' -f9"
        return {
            "sequential": "cat file >/dev/null",
            "random 4K, 1 reader": f"{fio} --number_ios=4000 | {time}",
            "random 4K, 8 readers": f"{fio} --numjobs=8 --number_ios=1000 | {time}",
        }
    return {
        "read all, 1 reader": "find . -type f -print0 | xargs -0 -n 200 cat >/dev/null",
        "read all, 4 readers": "find . -type f -print0 | xargs -0 -P 4 -n 200 cat >/dev/null",
        "find -ls, cold and warm": "find . -ls >/dev/null && find . -ls >/dev/null",
    }


class Mount:
    """A mount by one of the programs; the kernel's has no process."""

    def __init__(self, way, image):
        self.dir = tempfile.mkdtemp(prefix="bench-mount-")
        line = [word.format(image=image, dir=self.dir) for word in way]
        self.process = None
        if way[0] == "mount":
            subprocess.run(line, check=True)
        else:
            self.process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while not os.path.ismount(self.dir):
                time.sleep(0.002)
                if self.process.poll() is not None:
                    sys.exit(f"{line}: it ended")

    def used(self):
        """Processor time in seconds, and peak memory in bytes."""
        if not self.process:
            return 0, 0
        pid = self.process.pid
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        status = open(f"/proc/{pid}/status").read()
        peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
        return (int(fields[11]) + int(fields[12])) / TICK, peak

    def end(self):
        subprocess.run(["umount", self.dir], check=True)
        if self.process:
            self.process.wait()
        os.rmdir(self.dir)


def measure(way, image, command):
    mount = Mount(way, image)
    try:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begun = time.monotonic()
        done = subprocess.run(["bash", "-c", command], cwd=mount.dir, check=True, stdout=subprocess.PIPE, text=True)
        wall = float(done.stdout) / 1000 if done.stdout else time.monotonic() - begun
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        reader = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        server, peak = mount.used()
    finally:
        mount.end()
    return wall, reader, server, peak


def table(image, case, samples):
    print(f"\n### {os.path.basename(image)}: {case}\n")
    print("| program | wall s (min-max) | reader CPU s | server CPU s | peak MiB | wall of packfs's | CPU of packfs's |")
    print("|---|---|---|---|---|---|---|")
    middle = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in samples.items()}
    mine = middle.get("packfs")
    for name, rows in samples.items():
        walls = [row[0] for row in rows]
        wall, reader, server, peak = middle[name]
        of_wall, of_cpu = (wall / mine[0], (reader + server) / (mine[1] + mine[2])) if mine else (1, 1)
        print(f"| {name} | {wall:.3f} ({min(walls):.3f}-{max(walls):.3f}) | {reader:.2f} | {server:.2f} "
              f"| {peak / 2**20:.0f} | {of_wall:.2f} | {of_cpu:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packfs", default="target/release/packfs")
    parser.add_argument("--peers", default="/opt/peers/bin")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose names begin with one of these")
    parser.add_argument("--programs", default="", help="only these programs")
    parser.add_argument("images", nargs="+")
    args = parser.parse_args()
    for image in args.images:
        for case, command in cases(image).items():
            if args.only and not any(case.startswith(word) for word in args.only.split(",")):
                continue
            samples = {name: [] for name in commands(args, image)}
            for _ in range(args.rounds):
                ways = list(commands(args, image).items())
                random.shuffle(ways)
                for name, way in ways:
                    samples[name].append(measure(way, image, command))
            table(image, case, samples)


main()
