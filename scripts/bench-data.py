#!/usr/bin/env python3
"""Creates the data for docs/benchmarking.md: bench-data.py DIRECTORY (as root; needs debootstrap).

debroot    a Debian 11 root file system (minbase), about 170 MB, and debroot.tar with the same
twice      that root in two folders
small40k   40,000 different files of 1,000 bytes
many57k    57,000 entries: small files, nested directories, symlinks
repeating  eight releases of one tree of text, each of which changes every file a little, 130 MB
"""
import os
import random
import shutil
import subprocess
import sys

WORDS = (
    "alpha beta gamma delta kernel module driver config value path image block inode table cache index offset "
    "length super entry symlink device mount option system library version package static dynamic return struct "
    "const void include define error warning notice debug trace level count total size"
).split()
TIME = 1_700_000_000


def text(rng, length):
    """Lines that compress about as configuration files do, never twice the same."""
    lines, have = [], 0
    while have < length:
        key = "_".join(rng.choices(WORDS, k=2))
        line = f"{rng.getrandbits(32):08x} {key} = {' '.join(rng.choices(WORDS, k=rng.randint(3, 9)))}\n"
        lines.append(line)
        have += len(line)
    return "".join(lines)[: length - 1] + "\n"


def put(path, data):
    with open(path, "w", encoding="ascii") as file:
        file.write(data)
    os.utime(path, (TIME, TIME))


def small40k(root):
    rng = random.Random(40000)
    for d in range(40):
        folder = os.path.join(root, f"d{d:02}")
        os.makedirs(folder)
        for n in range(1000):
            put(os.path.join(folder, f"f{n:04}.txt"), text(rng, 1000))


def many57k(root):
    rng = random.Random(57000)
    os.makedirs(root)
    folders, depth = [root], {root: 0}
    while len(folders) < 2400:
        parent = rng.choice(folders)
        if depth[parent] >= 9:
            continue
        folder = os.path.join(parent, f"{rng.choice(WORDS)}{len(folders)}")
        os.mkdir(folder)
        folders.append(folder)
        depth[folder] = depth[parent] + 1
    files = []
    for n in range(51000):
        ending = rng.choice(["txt", "c", "h", "conf", "so.1"])
        path = os.path.join(rng.choice(folders), f"{rng.choice(WORDS)}-{n:05}.{ending}")
        put(path, text(rng, rng.randint(100, 600)))
        files.append(path)
    for n in range(3600):
        folder = rng.choice(folders)
        link = os.path.join(folder, f"ln-{n:05}")
        os.symlink(os.path.relpath(rng.choice(files), folder), link)
        os.utime(link, (TIME, TIME), follow_symlinks=False)
    for folder in reversed(folders):
        os.utime(folder, (TIME, TIME))


def repeating(root):
    rng = random.Random(8)
    names = [f"d{n % 20:02}/f{n:03}.txt" for n in range(80)]
    files = {name: text(rng, rng.randint(20_000, 400_000)).splitlines(keepends=True) for name in names}
    for release in range(8):
        for name, lines in files.items():
            for _ in range(len(lines) // 400 + 1):
                lines.insert(rng.randrange(len(lines)), text(rng, 80))
            path = os.path.join(root, f"release-{release}", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            put(path, "".join(lines))


def debroot(root):
    subprocess.run(["debootstrap", "--variant=minbase", "bullseye", root], check=True, stdout=sys.stderr)
    shutil.rmtree(os.path.join(root, "var/cache/apt/archives"), ignore_errors=True)
    os.makedirs(os.path.join(root, "var/cache/apt/archives"))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    base = os.path.abspath(sys.argv[1])
    os.makedirs(base, exist_ok=True)

    def once(name, make):
        path = os.path.join(base, name)
        if not os.path.exists(path):
            print(f"making {path}", file=sys.stderr)
            make(path)

    root = os.path.join(base, "debroot")
    once("debroot", debroot)
    tar = ["tar", "--sort=name", "--numeric-owner", "--xattrs", "-C", root]
    once("debroot.tar", lambda path: subprocess.run([*tar, "-cf", path, "."], check=True))
    once("small40k", small40k)
    once("many57k", many57k)
    once("repeating", repeating)

    def twice(path):
        os.makedirs(path)
        for copy in "ab":
            subprocess.run(["cp", "-a", root, os.path.join(path, copy)], check=True)

    once("twice", twice)


if __name__ == "__main__":
    main()
