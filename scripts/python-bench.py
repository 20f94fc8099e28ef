#!/usr/bin/env python3
"""Measures the Python package beside other ways to read many small files from Python.

  usage: python-bench.py [--rounds N] [--only CASE,...] [--entries N] [--photos N] [--results FILE] DIRECTORY

Reads all regular files of DIRECTORY from images, by PySquashfsImage and from LMDB with zstd a file: each by its path in
one thread, and in shuffled batches of 256, by number from images and by key from LMDB. Images have the default block size, and for shuffled batches also one of
16 KiB. Lists the names and sizes of an image of N files.

Then a loader as those of training programs: 8 worker processes read N photos of 5 to 50 KB, random bytes, in shuffled
batches of 256; from an image, through `packfs mount` of it, from LMDB, and from HDF5.

Each measurement is a process of its own, opening included, with warm page cache; rounds are interleaved. The table shows
medians: for one process, bytes per second of processor time, which other work on the machine disturbs less than the time
of a clock; for loaders, the time of a clock. All samples go to the file of --results, of which scripts/report-peers.py
makes the table of docs/benchmarking.md.

Needs, in the Python that runs it: packfs, PySquashfsImage, zstandard, lmdb, h5py; and the program packfs. Compare only
figures of one machine.
"""

import argparse
import importlib
import importlib.metadata
import json
import multiprocessing
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

BATCH = 256
LEVEL = 3
WORKERS = 8
COLUMNS = "{:34} {:>12} {:>9} {:>9} {:>9}"


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
    packfs.build(f"{place}/alone.sqfs", directory, codec=f"zstd:{LEVEL}", fragments=False)
    packfs.build(f"{place}/alone.erofs", directory, codec=f"zstd:{LEVEL}", kernel=(6, 10), fragments=False)
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


def photos(count):
    """Names and contents of files that do not compress. One pool of bytes is enough: nothing here looks for repetition
    at any offset."""
    rng = random.Random(count)
    pool = rng.randbytes(64 << 20)
    for n in range(count):
        length = rng.randrange(5_000, 50_000)
        begin = rng.randrange(len(pool) - length)
        yield f"{n // 1000:03}/{n:06}.jpg", pool[begin : begin + length]


def prepare_photos(place, count):
    """Makes what loaders read: the files as they are, in each container."""
    import h5py
    import lmdb
    import numpy
    import packfs

    packfs.build(f"{place}/photos.sqfs", photos(count), codec="none")
    database = lmdb.open(f"{place}/photos.lmdb", map_size=1 << 36)
    with database.begin(write=True) as transaction:
        for n, (_, data) in enumerate(photos(count)):
            transaction.put(f"{n:06}".encode(), data, append=True)
    database.close()
    with h5py.File(f"{place}/photos.h5", "w") as file:
        stored = file.create_dataset("photos", (count,), dtype=h5py.vlen_dtype(numpy.uint8))
        for n, (_, data) in enumerate(photos(count)):
            stored[n] = numpy.frombuffer(data, numpy.uint8)
    with open(f"{place}/photos.names", "w") as file:
        json.dump([name for name, _ in photos(count)], file)


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
    return sum(sum(map(len, opened.read_many(batch, threads=1))) for batch in shuffled_batches(range(len(opened))))


def read_pysquashfsimage(place):
    from PySquashfsImage import SquashFsImage

    with SquashFsImage.from_file(f"{place}/set.sqfs") as image:
        return sum(len(image.select("/" + name).read_bytes()) for name in names_of(place))


def read_lmdb(place, batches):
    """Decodes all files of a batch before it goes on to the next one, as `read_many` does."""
    import lmdb
    import zstandard

    decoder = zstandard.ZstdDecompressor()
    amount = 0
    with lmdb.open(f"{place}/compact", readonly=True, lock=False).begin(buffers=True) as transaction:
        for batch in batches:
            amount += sum(map(len, [decoder.decompress(transaction.get(name.encode()[:511])) for name in batch]))
    return amount


def list_packfs(place):
    import packfs

    image = packfs.open(f"{place}/many.sqfs")
    return sum(int(size) for size in image.sizes().tolist()) + sum(1 for _ in image.names())


class LoaderPackfs:
    """Reads batches from an image."""

    def __init__(self, place):
        import packfs

        self.image = packfs.open(f"{place}/photos.sqfs")
        # Every loader asks a data set for its length first.
        len(self.image)

    def read(self, numbers):
        return self.image.read_many(numbers)


class LoaderLmdb:
    """Reads batches from LMDB; a copy of each file, as a program needs it after the transaction."""

    def __init__(self, place):
        import lmdb

        self.database = lmdb.open(f"{place}/photos.lmdb", readonly=True, lock=False)

    def read(self, numbers):
        with self.database.begin() as transaction:
            return [transaction.get(f"{n:06}".encode()) for n in numbers]


class LoaderHdf5:
    """Reads batches from a data set of arrays of any length."""

    def __init__(self, place):
        import h5py

        self.stored = h5py.File(f"{place}/photos.h5", "r")["photos"]

    def read(self, numbers):
        return [self.stored[n] for n in numbers]


class LoaderMount:
    """Reads files of a mounted image."""

    def __init__(self, place):
        self.place = place
        with open(f"{place}/photos.names") as file:
            self.names = json.load(file)

    def read(self, numbers):
        batch = []
        for n in numbers:
            with open(f"{self.place}/mounted/{self.names[n]}", "rb", buffering=0) as file:
                batch.append(file.read())
        return batch


def run_worker(loader, place, batches, everyone, answers):
    """Reads batches when all workers are ready; starting interpreters is not what is measured. All files of a batch are in
    memory at the same time, because they are learned from together."""
    opened = loader(place)
    everyone.wait()
    before = processor_seconds()
    amount = sum(sum(map(len, opened.read(batch))) for batch in batches)
    answers.put({"bytes": amount, "cpu": processor_seconds() - before, "peak_mib": own_peak()})


def load(place, loader):
    """Reads all photos with workers; gives what all took together, and the peak memory of the largest."""
    with open(f"{place}/photos.names") as file:
        count = len(json.load(file))
    batches = shuffled_batches(range(count))
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    everyone = context.Barrier(WORKERS + 1)
    workers = [context.Process(target=run_worker, args=(loader, place, batches[first::WORKERS], everyone, answers))
               for first in range(WORKERS)]
    for worker in workers:
        worker.start()
    everyone.wait()
    begin = time.perf_counter()
    answered = [answers.get() for _ in workers]
    wall = time.perf_counter() - begin
    for worker in workers:
        worker.join()
    sums = {key: sum(one[key] for one in answered) for key in ("bytes", "cpu")}
    return sums | {"wall": wall, "peak_mib": max(one["peak_mib"] for one in answered)}


def load_mount(place):
    os.makedirs(f"{place}/mounted", exist_ok=True)
    subprocess.run(["packfs", "mount", f"{place}/photos.sqfs", f"{place}/mounted"], check=True)
    try:
        return load(place, LoaderMount)
    finally:
        subprocess.run(["packfs", "umount", f"{place}/mounted"], check=True)


LOADERS = {
    "loader, packfs": lambda place: load(place, LoaderPackfs),
    "loader, packfs mount": load_mount,
    "loader, LMDB": lambda place: load(place, LoaderLmdb),
    "loader, HDF5": lambda place: load(place, LoaderHdf5),
}

CASES = {
    "read, packfs, SquashFS": lambda place: read_packfs(place, "set.sqfs"),
    "read, packfs, EROFS": lambda place: read_packfs(place, "set.erofs"),
    "read, PySquashfsImage": read_pysquashfsimage,
    "read, LMDB with zstd": lambda place: read_lmdb(place, ([name] for name in names_of(place))),
    "read_many, packfs, SquashFS": lambda place: read_many_packfs(place, "set.sqfs"),
    "read_many, packfs, EROFS": lambda place: read_many_packfs(place, "set.erofs"),
    "read_many, packfs, SquashFS 16 KiB": lambda place: read_many_packfs(place, "set16.sqfs"),
    "read_many, packfs, EROFS 16 KiB": lambda place: read_many_packfs(place, "set16.erofs"),
    "read_many, packfs, SquashFS alone": lambda place: read_many_packfs(place, "alone.sqfs"),
    "read_many, packfs, EROFS alone": lambda place: read_many_packfs(place, "alone.erofs"),
    "shuffled, LMDB with zstd": lambda place: read_lmdb(place, shuffled_batches(names_of(place))),
    "names and sizes, packfs": list_packfs,
}


def own_peak():
    """Peak memory of this process in MiB. Not ru_maxrss, in which a new program begins with the peak of the one that
    started it."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure_alone(place, case):
    """Runs a case in this process."""
    # Loaded before, because programs that read for long load them once.
    for module in ("packfs",) if "packfs" in case else ("zstandard", "lmdb" if "LMDB" in case else "PySquashfsImage"):
        importlib.import_module(module)
    begin = time.perf_counter()
    before = processor_seconds()
    amount = CASES[case](place)
    return {"bytes": amount, "cpu": processor_seconds() - before, "wall": time.perf_counter() - begin, "peak_mib": own_peak()}


def sizes(place):
    """The sizes of images and databases, by name."""
    found = {}
    for name in ("set.sqfs", "set.erofs", "set16.sqfs", "set16.erofs", "alone.sqfs", "alone.erofs", "compact/data.mdb",
                 "photos.sqfs", "photos.lmdb/data.mdb", "photos.h5"):
        path = os.path.join(place, name)
        if os.path.exists(path):
            # Of a map that is larger than what it holds, what it holds.
            found[name] = os.stat(path).st_blocks * 512 if name.startswith("photos.lmdb") else os.path.getsize(path)
    return found


def session(args, place):
    versions = {name: importlib.metadata.version(name) for name in ("packfs", "PySquashfsImage", "zstandard", "lmdb", "h5py")}
    versions["Python"] = sys.version.split()[0]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, cwd=os.path.dirname(__file__))
    with open(f"{place}/names") as file:
        count = len(json.load(file))
    return {"kind": "session", "packfs_python": 1, "date": time.strftime("%Y-%m-%d"), "commit": commit.stdout.strip(),
            "versions": versions, "machine": {"cores": os.cpu_count(), "kernel": os.uname().release}, "files": count,
            "photos": args.photos, "rounds": args.rounds, "sizes": sizes(place)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="cases that begin with one of these words, separated by commas")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--photos", type=int, default=200_000, help="number of photos for loaders; 0 for none [200000]")
    parser.add_argument("--results", help="file for all samples, as docs/results/python.jsonl")
    parser.add_argument("--tmp", help="where images and databases go, about 20 GB [the folder for temporary files]")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        place = args.directory
        print(json.dumps(LOADERS[args.case](place) if args.case in LOADERS else measure_alone(place, args.case)))
        return
    with tempfile.TemporaryDirectory(prefix="python-bench-", dir=args.tmp) as place:
        prepare(args.directory, place, args.entries)
        if args.photos:
            prepare_photos(place, args.photos)
        known = [*CASES, *(LOADERS if args.photos else ())]
        only = tuple(args.only.split(",")) if args.only else ("",)
        cases = [case for case in known if case.startswith(only)]
        results = {case: [] for case in cases}
        for _ in range(args.rounds):
            for case in random.sample(cases, len(cases)):
                command = [sys.executable, __file__, "--case", case, place]
                results[case].append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
        about = session(args, place)
    if args.results:
        with open(args.results, "w") as file:
            for record in [about, *({"kind": "case", "case": case, "samples": samples} for case, samples in results.items())]:
                file.write(json.dumps(record) + "\n")
    for name, size in about["sizes"].items():
        print(f"{name}: {size / 1e6:.1f} MB")
    print(COLUMNS.format("case", "MB/CPU s", "CPU s", "s", "peak MiB"))
    for case, samples in results.items():
        cpu, wall, peak = (statistics.median(one[key] for one in samples) for key in ("cpu", "wall", "peak_mib"))
        rate = "-" if case.startswith("names") else f"{samples[0]['bytes'] / 1e6 / cpu:.0f}"
        print(COLUMNS.format(case, rate, f"{cpu:.3f}", f"{wall:.3f}", f"{peak:.0f}"))


if __name__ == "__main__":
    main()
