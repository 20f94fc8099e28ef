#!/usr/bin/env python3
"""Measures the Python package beside other ways to read many small files from Python.

  usage: python-bench.py [--rounds N] [--only CASE,...] [--entries N] DIRECTORY

Reads all regular files of DIRECTORY from images, by PySquashfsImage and from LMDB with zstd a file: each by its path in one
thread, and in shuffled batches of 256. Images have the default block size, and for shuffled batches also one of 16 KiB. Lists the names and sizes of an image of N files. Each measurement is a process of its own, opening
included, with warm page cache; rounds are interleaved. The table shows medians of bytes per second of processor time, which
other work on the machine disturbs less than the time of a clock, and of the peak memory.

Needs, in the Python that runs it: packfs, PySquashfsImage, zstandard, lmdb. Compare only figures of one machine.
"""

import argparse
import importlib
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile

BATCH = 256
LEVEL = 3
COLUMNS = "{:34} {:>12} {:>9} {:>9}"


def files_below(directory):
    """Paths of the regular files, as an image has them."""
    found = []
    for top, directories, names in os.walk(directory):
        directories.sort()
        for name in sorted(names):
            path = os.path.join(top, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found.append(os.path.relpath(path, directory))
    return found


def prepare(directory, place, entries):
    """Makes the images and the database."""
    import lmdb
    import packfs
    import zstandard

    names = files_below(directory)
    packfs.build(f"{place}/set.sqfs", directory, codec=f"zstd:{LEVEL}")
    packfs.build(f"{place}/set.erofs", directory, codec=f"zstd:{LEVEL}", kernel=(6, 10))
    packfs.build(f"{place}/set16.sqfs", directory, codec=f"zstd:{LEVEL}", block_size=16 << 10)
    packfs.build(f"{place}/set16.erofs", directory, codec=f"zstd:{LEVEL}", kernel=(6, 10), block_size=16 << 10)
    packfs.build(f"{place}/many.sqfs", ((f"{n // 1000:04}/{n:07}.txt", b"") for n in range(entries)), codec="zstd:1")
    database = lmdb.open(f"{place}/lmdb", map_size=1 << 36)
    with database.begin(write=True) as transaction:
        for name in names:
            with open(os.path.join(directory, name), "rb") as file:
                data = zstandard.ZstdCompressor(LEVEL).compress(file.read())
            # Keys of LMDB have at most 511 bytes.
            transaction.put(name.encode()[:511], data)
    # A copy without the pages that LMDB keeps free.
    os.mkdir(f"{place}/compact")
    database.copy(f"{place}/compact", compact=True)
    database.close()
    with open(f"{place}/names", "w") as file:
        json.dump(names, file)


def names_of(place):
    with open(f"{place}/names") as file:
        return json.load(file)


def shuffled_batches(names):
    names = list(names)
    random.Random(1).shuffle(names)
    return [names[first : first + BATCH] for first in range(0, len(names), BATCH)]


def read_packfs(place, image):
    import packfs

    opened = packfs.open(f"{place}/{image}")
    return sum(len(opened.read(name)) for name in names_of(place))


def read_many_packfs(place, image):
    import packfs

    opened = packfs.open(f"{place}/{image}")
    return sum(len(opened.read_many(batch, threads=1).data) for batch in shuffled_batches(names_of(place)))


def read_pysquashfsimage(place):
    from PySquashfsImage import SquashFsImage

    with SquashFsImage.from_file(f"{place}/set.sqfs") as image:
        return sum(len(image.select("/" + name).read_bytes()) for name in names_of(place))


def read_lmdb(place, names):
    import lmdb
    import zstandard

    decoder = zstandard.ZstdDecompressor()
    with lmdb.open(f"{place}/compact", readonly=True, lock=False).begin(buffers=True) as transaction:
        return sum(len(decoder.decompress(transaction.get(name.encode()[:511]))) for name in names)


def read_lmdb_shuffled(place):
    return read_lmdb(place, [name for batch in shuffled_batches(names_of(place)) for name in batch])


def list_packfs(place):
    import packfs

    image = packfs.open(f"{place}/many.sqfs")
    return sum(int(size) for size in image.sizes().tolist()) + sum(1 for _ in image.names())


CASES = {
    "read, packfs, SquashFS": lambda place: read_packfs(place, "set.sqfs"),
    "read, packfs, EROFS": lambda place: read_packfs(place, "set.erofs"),
    "read, PySquashfsImage": read_pysquashfsimage,
    "read, LMDB with zstd": lambda place: read_lmdb(place, names_of(place)),
    "read_many, packfs, SquashFS": lambda place: read_many_packfs(place, "set.sqfs"),
    "read_many, packfs, EROFS": lambda place: read_many_packfs(place, "set.erofs"),
    "read_many, packfs, SquashFS 16 KiB": lambda place: read_many_packfs(place, "set16.sqfs"),
    "read_many, packfs, EROFS 16 KiB": lambda place: read_many_packfs(place, "set16.erofs"),
    "shuffled, LMDB with zstd": read_lmdb_shuffled,
    "names and sizes, packfs": list_packfs,
}


def measure_here(place, case):
    """Runs a case in this process, and prints bytes, processor seconds and peak memory in MiB."""
    # Loaded before, because programs that read for long load them once.
    for module in ("packfs",) if "packfs" in case else ("zstandard", "lmdb" if "LMDB" in case else "PySquashfsImage"):
        importlib.import_module(module)
    before = resource.getrusage(resource.RUSAGE_SELF)
    amount = CASES[case](place)
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # Not ru_maxrss, in which a new program begins with the peak of the one that started it.
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(json.dumps([amount, seconds, peak / 1024]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="cases that begin with one of these words, separated by commas")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        return measure_here(args.directory, args.case)
    with tempfile.TemporaryDirectory(prefix="python-bench-") as place:
        prepare(args.directory, place, args.entries)
        only = tuple(args.only.split(",")) if args.only else ("",)
        cases = [case for case in CASES if case.startswith(only)]
        results = {case: [] for case in cases}
        for _ in range(args.rounds):
            for case in random.sample(cases, len(cases)):
                command = [sys.executable, __file__, "--case", case, place]
                results[case].append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
        for name in ("set.sqfs", "set.erofs", "set16.sqfs", "set16.erofs", "compact/data.mdb"):
            print(f"{name}: {os.path.getsize(os.path.join(place, name)) / 1e6:.1f} MB")
        print(COLUMNS.format("case", "MB/CPU s", "CPU s", "peak MiB"))
        for case, measured in results.items():
            amount = measured[0][0]
            seconds = statistics.median(one[1] for one in measured)
            rate = "-" if case.startswith("names") else f"{amount / 1e6 / seconds:.0f}"
            print(COLUMNS.format(case, rate, f"{seconds:.3f}", f"{statistics.median(one[2] for one in measured):.0f}"))


if __name__ == "__main__":
    main()
