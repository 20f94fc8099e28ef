#!/usr/bin/env python3
"""Compares predictions of `packfs tune` with builds: check-tune.py SOURCE [--packfs PROGRAM] [--rounds N]

In each round tune predicts with another sample, then each codec builds the source, so that both see the same machine.
Printed are the error of each predicted size, and of the median of the predicted times against that of the builds.
"""
import argparse
import json
import statistics
import subprocess
import tempfile

WAYS = {
    "squashfs": (["lz4", "gzip:6", "zstd:3", "zstd:9", "zstd:15", "lz4hc:12", "xz:6"], "128K"),
    "erofs": (["lz4hc:12", "lzma:6"], "64K"),
}


def asked(*words):
    return json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)


def predicted(packfs, source, seed):
    found = {}
    for form, (codecs, block) in WAYS.items():
        told = asked(packfs, "tune", source, "--goal", "size", "--format", form, "--codecs", ",".join(codecs),
                     "--blocks", block, "--seed", str(seed), "--json", "-q")
        for one in told["predictions"]:
            found[form, one["codec"]] = (one["size"], one["seconds"])
    return found


def built(packfs, source, folder):
    found = {}
    for form, (codecs, block) in WAYS.items():
        for codec in codecs:
            told = asked(packfs, "build", source, "-o", f"{folder}/image", "--format", form, "-c", codec, "-b", block,
                         "--force", "--json", "-q")
            found[form, codec] = (told["image_bytes"], told["seconds"])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--packfs", default="target/release/packfs")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    guesses, builds = [], []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        # What nobody has read yet takes longer, whoever is first.
        asked(options.packfs, "build", options.source, "-o", f"{folder}/image", "-c", "lz4", "--json", "-q")
        for seed in range(1, options.rounds + 1):
            guesses.append(predicted(options.packfs, options.source, seed))
            builds.append(built(options.packfs, options.source, folder))
    print("| | bytes | size predicted | s (min-max) | time predicted |\n|---|---|---|---|---|")
    for way in guesses[0]:
        size = builds[0][way][0]
        sizes = ", ".join(f"{100 * guess[way][0] / size - 100:+.1f} %" for guess in guesses)
        times = [build[way][1] for build in builds]
        median = statistics.median(times)
        off = 100 * statistics.median(guess[way][1] for guess in guesses) / median - 100
        seconds = f"{median:.2f} ({min(times):.2f}-{max(times):.2f})"
        print(f"| {' '.join(way)} | {size:,} | {sizes} | {seconds} | {off:+.0f} % |")


main()
