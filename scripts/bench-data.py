#!/usr/bin/env python3
"""Creates the data for docs/benchmarking.md: bench-data.py DIRECTORY [NAME ...] (as root; needs debootstrap).

debroot    a Debian 11 root file system (minbase), about 170 MB, and debroot.tar with the same
twice      that root in two folders
small40k   40,000 different files of 1,000 bytes
mixed40k   40,000 different files of 0 to 4,095 bytes
many57k    57,000 entries: small files, nested directories, symlinks
repeating  eight releases of one tree of text, each of which changes every file a little, 130 MB
desktop    an Xfce desktop of Debian 12, unpacked and not configured, 0.7 GB (needs mmdebstrap)
source     the source of Linux 6.1 as Debian has it, 1.3 GB
million    1,000,000 files of up to 4 KiB in 10,000 directories, 2 GB (only if named)
flat       as many in one directory (only if named)
"""
import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile

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


def mixed40k(root):
    rng = random.Random(40001)
    for d in range(40):
        folder = os.path.join(root, f"d{d:02}")
        os.makedirs(folder)
        for n in range(1000):
            length = rng.randrange(4096)
            put(os.path.join(folder, f"f{n:04}.txt"), text(rng, length) if length > 1 else "")


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


def million(root, folders=10_000):
    """Each file is another stretch of one long text: making up each would take minutes."""
    rng = random.Random(folders)
    pool = text(rng, 16 << 20)
    for folder in range(folders):
        place = os.path.join(root, f"d{folder % 100:02}", f"d{folder // 100:02}") if folders > 1 else root
        os.makedirs(place)
        for n in range(1_000_000 // folders):
            length, begin = rng.randrange(4097), rng.randrange(len(pool) - 4096)
            put(os.path.join(place, f"{rng.choice(WORDS)}-{n:06}.txt"), pool[begin : begin + length])


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


def debroot_tar(path):
    tar = ["tar", "--sort=name", "--numeric-owner", "--xattrs", "-C", path.removesuffix(".tar")]
    subprocess.run([*tar, "-cf", path, "."], check=True)


def desktop(root):
    subprocess.run(["mmdebstrap", "--quiet", "--variant=extract", "--include=task-xfce-desktop", "bookworm", root], check=True)


def source(root):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(root)) as place:
        subprocess.run(["apt-get", "--quiet", "download", "linux-source-6.1"], check=True, cwd=place, stdout=sys.stderr)
        package, = os.listdir(place)
        subprocess.run(["dpkg-deb", "--extract", package, "."], check=True, cwd=place)
        subprocess.run(["tar", "-xf", "usr/src/linux-source-6.1.tar.xz"], check=True, cwd=place)
        os.rename(os.path.join(place, "linux-source-6.1"), root)


def twice(root):
    os.makedirs(root)
    for copy in "ab":
        subprocess.run(["cp", "-a", os.path.join(root, "../debroot"), os.path.join(root, copy)], check=True)


USUAL = {"debroot": debroot, "debroot.tar": debroot_tar, "small40k": small40k, "mixed40k": mixed40k, "many57k": many57k,
         "repeating": repeating, "twice": twice, "desktop": desktop, "source": source}
LARGE = {"million": million, "flat": lambda root: million(root, folders=1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="DIRECTORY", help="where to put it; what is there already is kept")
    parser.add_argument("names", metavar="NAME", nargs="*", help="only these")
    args = parser.parse_args()
    every = USUAL | LARGE
    unknown = [name for name in args.names if name not in every]
    if unknown:
        parser.error(f"no data {', '.join(unknown)}; there are: {', '.join(every)}")
    base = os.path.abspath(args.directory)
    os.makedirs(base, exist_ok=True)
    names = args.names or list(USUAL)
    if {"debroot.tar", "twice"} & set(names):
        names = ["debroot", *names]
    for name in names:
        path = os.path.join(base, name)
        if not os.path.exists(path):
            print(f"making {path}", file=sys.stderr)
            every[name](path)


if __name__ == "__main__":
    main()
