#!/usr/bin/env python3
"""Makes a changed copy of a tree for measuring rebuilds: change-tree.py SOURCE TARGET [SEED].

TARGET becomes a copy by hard links, on the same file system, in which one of a hundred files is replaced by a changed
one. Of these, half have 64 bytes overwritten in the middle, a quarter has 100 bytes inserted, a quarter is rewritten.
Owners, modes and times stay. The same seed picks the same files.
"""

import os
import random
import stat
import subprocess
import sys


def files_of_one_name(root):
    """Regular files that are not empty and have one name within the tree, in order."""
    found, names = [], {}
    for directory, directories, entries in os.walk(root):
        directories.sort()
        for name in sorted(entries):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and status.st_size > 0:
                names[status.st_ino] = names.get(status.st_ino, 0) + 1
                found.append((path, status))
    return [(path, status) for path, status in found if names[status.st_ino] == 1]


def changed(data, kind, rng):
    """The bytes of a changed file."""
    if kind < 2:
        middle = len(data) // 2
        return data[:middle] + rng.randbytes(min(64, len(data) - middle)) + data[middle + 64 :]
    if kind == 2:
        at = rng.randrange(len(data) + 1)
        return data[:at] + rng.randbytes(100) + data[at:]
    return bytes(rng.choices(b"abcdefghij\n ", k=len(data)))


def replace(path, status, data):
    """Puts a new file in the place of a link."""
    os.unlink(path)
    with open(path, "wb") as file:
        file.write(data)
    os.chown(path, status.st_uid, status.st_gid)
    os.chmod(path, stat.S_IMODE(status.st_mode))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    source, target = sys.argv[1:3]
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) == 4 else 13)
    if os.path.exists(target):
        sys.exit(f"{target} exists")
    subprocess.run(["cp", "-al", source, target], check=True)
    files = files_of_one_name(target)
    picked = sorted(rng.sample(files, len(files) // 100), key=lambda file: file[0])
    total = 0
    for n, (path, status) in enumerate(picked):
        with open(path, "rb") as file:
            data = file.read()
        replace(path, status, changed(data, n % 4, rng))
        total += len(data)
    print(f"{len(files)} files, {len(picked)} of them changed, which had {total} bytes")


main()
