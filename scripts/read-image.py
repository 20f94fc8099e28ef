#!/usr/bin/env python3
"""Reads a mounted EROFS or SquashFS image: read-image.py sequential|parallel|again|random|page|stat IMAGE [PROGRAM]

Mounts IMAGE anew, by the kernel or by PROGRAM (packfs, squashfuse_ll or erofsfuse), reads, and prints the seconds that
reading alone took. What is read, and in which order, follows from the tree alone, so images of the same tree are
comparable. Takes root.

sequential  every file from start to end, in the order of their paths
parallel    the same by 4 processes, which take turns
again       the same a second time, from the page cache
random      20,000 pages of 4 KiB, anywhere in the tree's data
page        one page of 4 KiB anywhere in the tree's data, when no page of its file is cached: the mean of 300
stat        attributes of every entry, as `find -ls` does
"""
import contextlib
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time

PAGE = 4096
PAGES = 20_000
# As many as blocks of 1 MiB with xz decode in a few seconds.
LONE_PAGES = 300
PIECE = 1 << 20
READERS = 4


def entries(root):
    """All paths, directories before what is in them, in a fixed order."""
    for folder, folders, files in os.walk(root):
        folders.sort()
        yield folder
        for name in sorted(files):
            yield os.path.join(folder, name)


def regular(root):
    """Regular files and their sizes."""
    for path in entries(root):
        if os.path.isfile(path) and not os.path.islink(path):
            yield path, os.path.getsize(path)


def read_all(paths):
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(PIECE):
                pass


def sequential(root):
    paths = [path for path, _ in regular(root)]
    begin = time.perf_counter()
    read_all(paths)
    return time.perf_counter() - begin


def parallel(root):
    paths = [path for path, _ in regular(root)]
    shares = [paths[reader::READERS] for reader in range(READERS)]
    begin = time.perf_counter()
    with multiprocessing.Pool(READERS) as pool:
        pool.map(read_all, shares, chunksize=1)
    return time.perf_counter() - begin


def again(root):
    sequential(root)
    return sequential(root)


def random_pages(root, count):
    """Descriptors and offsets of `count` pages. Opening is not what is measured; few files have many pages."""
    rng = random.Random(count)
    files = [(path, size) for path, size in regular(root) if size]
    chosen = rng.choices(files, weights=[size for _, size in files], k=count)
    descriptors = {path: os.open(path, os.O_RDONLY) for path in dict(chosen)}
    return [(descriptors[path], rng.randrange(size) // PAGE * PAGE) for path, size in chosen]


def close_all(pages):
    for descriptor in {descriptor for descriptor, _ in pages}:
        os.close(descriptor)


def many_pages(root):
    pages = random_pages(root, PAGES)
    begin = time.perf_counter()
    for descriptor, offset in pages:
        os.pread(descriptor, PAGE, offset)
    spent = time.perf_counter() - begin
    close_all(pages)
    return spent


def lone_page(root):
    pages = random_pages(root, LONE_PAGES)
    spent = 0
    for descriptor, offset in pages:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        # Without it the kernel reads ahead, into blocks that nobody asked for.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        begin = time.perf_counter()
        os.pread(descriptor, PAGE, offset)
        spent += time.perf_counter() - begin
    close_all(pages)
    return spent / len(pages)


def stat(root):
    begin = time.perf_counter()
    for path in entries(root):
        os.lstat(path)
    return time.perf_counter() - begin


@contextlib.contextmanager
def mounted(image, program):
    """A directory where `program` has mounted the image; the processor time of a program counts as this one's children's."""
    with open(image, "rb") as file:
        kind = "squashfs" if file.read(4) == b"hsqs" else "erofs"
    with tempfile.TemporaryDirectory() as root:
        server = None
        if program == "kernel":
            subprocess.run(["mount", "-t", kind, "-o", "loop,ro", image, root], check=True)
        else:
            line = [program, "mount", "--foreground"] if program == "packfs" else [program, "-f"]
            server = subprocess.Popen([*line, image, root], stdout=subprocess.DEVNULL)
            while not os.path.ismount(root):
                time.sleep(0.002)
                if server.poll() is not None:
                    sys.exit(f"{program} ended with {server.returncode}")
        try:
            yield root
        finally:
            subprocess.run(["umount", root], check=True)
            if server:
                server.wait()


def main():
    modes = {"sequential": sequential, "parallel": parallel, "again": again, "random": many_pages, "page": lone_page,
             "stat": stat}
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in modes:
        sys.exit(__doc__)
    mode, image, program = [*sys.argv[1:], "kernel"][:3]
    with mounted(image, program) as root:
        print(modes[mode](root))


if __name__ == "__main__":
    main()
