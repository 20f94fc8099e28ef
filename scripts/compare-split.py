#!/usr/bin/env python3
"""How fast packfs splits and joins: compare-split.py [--rounds N] [--packfs PATH] [--nsplit PATH] [--dir DIR] [CASE...]

Cases: sinks (1 to 8 outputs of 50 MB/s each, data that does not shrink, raw and snappy), uneven (three of 50 MB/s and
one of 200), memory (data like a machine's memory to two files: lz4, snappy), zeros (60 % of the pages are zero), join.
Outputs with a speed are pipes whose reader takes so many bytes a second. DIR should be a tmpfs with 6 GB (default
/dev/shm). Runs are interleaved; the table has medians. --nsplit is the program of the same name, compiled.
"""
import argparse
import fcntl
import json
import os
import random
import shlex
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

MB = 1_000_000
PIPE = 1 << 20
F_SETPIPE_SZ = 1031


class Sink(threading.Thread):
    """Reads a pipe at a constant speed."""

    def __init__(self, path, speed):
        super().__init__(daemon=True)
        self.path, self.speed = path, speed
        os.mkfifo(path)
        self.start()

    def run(self):
        with open(self.path, "rb", buffering=0) as pipe:
            fcntl.fcntl(pipe, F_SETPIPE_SZ, PIPE)
            begun, got, buffer = None, 0, bytearray(PIPE)
            while n := pipe.readinto(buffer):
                begun = begun or time.monotonic()
                got += n
                ahead = got / self.speed - (time.monotonic() - begun)
                if ahead > 0:
                    time.sleep(ahead)


def run(command):
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)}: status {done.returncode}\n{done.stderr}")
    return time.monotonic() - begun, done.stdout


class Bench:
    def __init__(self, args):
        self.args, self.rows = args, []
        self.dir = tempfile.mkdtemp(prefix="packfs-split-", dir=args.dir)

    def at(self, name):
        return os.path.join(self.dir, name)

    def data(self, name, length, shares):
        if not os.path.exists(self.at(name)):
            run([self.args.packfs, "bench", "memory", str(length), "-o", self.at(name), "--seed", "1", "--shares", shares])
        return self.at(name)

    def outputs(self, speeds):
        """New outputs: pipes with these speeds, or files where a speed is None."""
        shutil.rmtree(self.at("out"), ignore_errors=True)
        os.mkdir(self.at("out"))
        paths = [os.path.join(self.at("out"), f"{n}.part") for n in range(len(speeds))]
        sinks = [Sink(path, speed * MB) for path, speed in zip(paths, speeds) if speed]
        return paths, sinks

    def split(self, source, speeds, *options):
        paths, sinks = self.outputs(speeds)
        parts = [word for path in paths for word in ("-o", path)]
        force = ["--force"] if sinks else []
        seconds, out = run([self.args.packfs, "split", source, *parts, "-q", "--json", *force, *options])
        for sink in sinks:
            sink.join()
        return seconds, json.loads(out)

    def rounds(self, jobs):
        """Median seconds of each job, the jobs taking turns in an order of their own each round."""
        times = {name: [] for name in jobs}
        for _ in range(self.args.rounds):
            for name in random.sample(list(jobs), len(jobs)):
                times[name].append(jobs[name]())
        return {name: statistics.median(seconds) for name, seconds in times.items()}

    def row(self, *cells):
        self.rows.append(cells)
        print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)

    def speeds(self, source, codec, threads):
        """Bytes a second of a codec in memory: encoding, decoding."""
        words = ["bench", "codecs", "--data", source, "--codecs", codec, "--blocks", "256K", "--policy", "raw",
                 "-j", str(threads), "--json", "-o", self.at(f"{codec}.jsonl")]
        cells = json.loads(run([self.args.packfs, *words])[1])["results"]
        cell = next(cell for cell in cells if cell["threads"] == threads and cell["codec"].startswith(codec))
        return cell["encode_speed"] * MB, cell["decode_speed"] * MB

    def sinks(self):
        for count in range(1, 9):
            length = count * 50 * MB * 4
            source = self.data(f"random{count}", length, "random=100")
            jobs = {codec: lambda codec=codec: self.split(source, [50] * count, "--codec", codec)[0]
                    for codec in ("raw", "snappy")}
            for codec, seconds in self.rounds(jobs).items():
                speed = length / seconds / MB
                self.row(f"{count} outputs of 50 MB/s, {codec}", f"{speed:.0f} MB/s", f"{speed / (50 * count):.2f}")
            os.remove(source)

    def uneven(self):
        length, speeds = 1400 * MB, [50, 50, 50, 200]
        source = self.data("random", length, "random=100")
        seconds = self.rounds({"": lambda: self.split(source, speeds, "--codec", "raw")[0]})[""]
        static = length / len(speeds) / (min(speeds) * MB)
        self.row("outputs of 50, 50, 50, 200 MB/s, raw", f"{length / seconds / MB:.0f} MB/s",
                 f"{static / seconds:.2f} times static ranges")
        os.remove(source)

    def memory(self):
        source = self.data("memory", 1000 * MB, "zero=10,same=5,text=25,pointers=20,code=25,random=15")
        size = os.path.getsize(source)
        reports = {}

        def ours(codec):
            seconds, reports[codec] = self.split(source, [None] * 2, "--codec", codec)
            return seconds

        jobs = {codec: lambda codec=codec: ours(codec) for codec in ("lz4", "snappy")}
        if self.args.nsplit:
            def theirs():
                paths, _ = self.outputs([None] * 2)
                return run([self.args.nsplit, "-s", source, *paths])[0]
            jobs["nsplit -s"] = theirs
        for name, seconds in self.rounds(jobs).items():
            if name in reports:
                limit = self.speeds(source, name, 2)[0]
                more = f"{size / seconds / limit:.2f} of the codec in memory, {reports[name]['peak_memory'] >> 20} MiB"
            else:
                more = ""
            self.row(f"like memory to two files, {name}", f"{size / seconds / MB:.0f} MB/s", more)

    def zeros(self):
        shares = "zero=60,text=15,pointers=10,code=10,random=5"
        with_zeros = self.data("zeros", 1500 * MB, shares)
        without = self.data("nonzero", 600 * MB, shares.replace("zero=60,", ""))
        times = self.rounds({"with": lambda: self.split(with_zeros, [None] * 2)[0],
                             "without": lambda: self.split(without, [None] * 2)[0]})
        self.row("1500 MB of which 60 % are zeros, lz4", f"{times['with']:.2f} s",
                 f"{times['with'] / times['without']:.2f} of the time of the other 600 MB alone")

    def join(self):
        source = self.data("memory", 1000 * MB, "zero=10,same=5,text=25,pointers=20,code=25,random=15")
        self.split(source, [None] * 2)
        parts = [os.path.join(self.at("out"), f"{n}.part") for n in range(2)]
        limit = self.speeds(source, "lz4", 2)[1]
        size = os.path.getsize(source)

        def job(target):
            return run([self.args.packfs, "join", *parts, "-o", target, "--force", "-q"])[0]

        copied = run(["cp", source, self.at("copy")])[0]
        os.remove(self.at("copy"))
        seconds = self.rounds({"": lambda: job(self.at("back"))})[""]
        self.row("join, lz4, to a file", f"{size / seconds / MB:.0f} MB/s",
                 f"{size / seconds / limit:.2f} of the codec in memory, cp: {size / copied / MB:.0f} MB/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--packfs", default="target/release/packfs")
    parser.add_argument("--nsplit")
    parser.add_argument("--dir", default="/dev/shm")
    cases = ["sinks", "uneven", "memory", "zeros", "join"]
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(cases))
    args = parser.parse_args()
    if unknown := set(args.cases) - set(cases):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    bench = Bench(args)
    try:
        bench.row("work", "speed", "")
        bench.row("---", "---", "---")
        for case in args.cases or cases:
            getattr(bench, case)()
    finally:
        shutil.rmtree(bench.dir, ignore_errors=True)


if __name__ == "__main__":
    main()
