#!/usr/bin/env python3
"""Other kernels read the images of packfs: each Debian kernel named is started in a small virtual machine, mounts every
image that `packfs info` promises it can read, and digests all contents and attributes, which must be those of the source.

    scripts/guest-kernels.py                      5.10, 6.1, 6.12, 6.17 and the newest; as root, for trees with owners
    scripts/guest-kernels.py --quick 6.1          one kernel, fewer images
    scripts/guest-kernels.py --rejected DIR 6.18  what a kernel says about mutated images that check rejects
    scripts/guest-kernels.py --sealed 6.1 6.12    dm-verity with the trees of `packfs seal`: what is sound is read, a flipped
                                                  bit and another root hash are refused

Debian's packages are fetched with a private apt state and kept in target/guests, also where the suite is not that of the
system. The machines run in QEMU without KVM, whose guests hang on some hosts, so a kernel takes one to four minutes. Needs
qemu-system-x86, busybox-static, kmod, cpio, attr, tar and, for --sealed, cryptsetup-bin. Status 1: an image was read differently, or not at all.
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

KERNELS = ["5.10", "6.1", "6.12", "6.17", "7"]
SUITES = ["bullseye", "bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid"]
SECURITY = ["bullseye-security", "bookworm-security", "trixie-security"]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

TARGETS = ["5.4", "5.10", "5.15", "5.16", "6.1", "6.6", "6.12", "6.17", "7.0"]
EROFS = [
    "-c none",
    "-c none --chunk-size 8K",
    "-c none --features chunks,chunk-indexes --chunk-size 64K",
    "-c none --fs-block 512 --features extended-inodes",
    "-c lz4",
    "-c lz4 -b 4K",
    "-c lz4hc:9",
    "-c lz4hc:9 --features dedupe --rule 'size=1M.. -> no-fragment'",
    "-c lz4hc:4 -b 1M --features dedupe,^fragments",
    "-c lz4 -b 16K --features ztailpacking,full-index",
    "-c lz4 -b 128K --features all-fragments,dedupe,compressed-dirs",
    "-c lz4 --max-extent 64K --features ^inline-data",
    "-c lz4 --rule 'size=..64K -> codec=lz4hc:12' --rule 'glob=*.bin -> store'",
    "-c lz4 --xattr-prefix 'user.a longer ' --xattr-share 0",
    "-c lzma:3 -b 256K",
    "-c deflate:6 -b 64K --features dedupe",
    "-c deflate:1 -b 4K --features ztailpacking,dedupe",
    "-c zstd:3",
    "-c zstd:9 -b 1M --features dedupe,all-fragments",
    "-c zstd:3 -b 1M --features dedupe,^fragments",
    "-c lz4 --fs-block 1024 -b 8K --features dedupe",
    "-c lz4 --features 48bit,dedupe",
    "-c zstd:3 -b 128K --features 48bit,unaligned,dedupe",
    "-c zstd:3 --features 48bit,dot-omitted --metabox 16K,zstd:9",
    "-c lz4 --features 48bit --metabox 4K --inode-digest",
]
QUICK = [1, 5, 8, 11, 14, 17, 19, 22, 23]
SQUASHFS = [
    f"-c {codec} -b {size}"
    for codec, size in itertools.product(["none", "gzip", "xz", "lzo", "lz4", "zstd"], ["4K", "128K", "1M"])
] + ["-c zstd --fragments none", "-c gzip:9 --fragments small -b 64K"]

# Options of the kernel's configuration that decoders need; Linux has LZ4 wherever it has compression.
DECODERS = {
    "lzma": "CONFIG_EROFS_FS_ZIP_LZMA",
    "deflate": "CONFIG_EROFS_FS_ZIP_DEFLATE",
    "zstd": "CONFIG_EROFS_FS_ZIP_ZSTD",
}
# Findings of check on images of which a kernel reads everything, and why they are damage nevertheless.
STRICTER = {
}
MODULES = "virtio_pci virtio_blk loop squashfs erofs crc32c_generic libcrc32c lz4_decompress".split()
VERITY_MODULES = ["dm-mod", "dm-verity", "sha256_generic", "sha512_generic"]
# Each image begins at a multiple of this in the disk of the machine.
ALIGN = 64 << 10
# What a machine gets in seconds, on a host where much else runs.
PATIENCE = 1500

# The job of a machine is done with each image in turn, on a loop device.
INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /mnt /applets
/bin/busybox mount -t proc p /proc; /bin/busybox mount -t sysfs s /sys; /bin/busybox mount -t devtmpfs d /dev
# The shell of busybox would take its own tar.
export PATH=/bin:/applets TAR=/bin/tar
/bin/busybox --install -s /applets
for module in $(cat /modules); do modprobe $module 2>/dev/null; done
exec >/dev/ttyS1 2>/dev/ttyS0
echo "up $(cut -d' ' -f1 /proc/uptime) $(uname -r)"
while read -r number kind offset; do
    losetup -r -o $offset /dev/loop0 /dev/vda
    . /job
    losetup -d /dev/loop0
done </images
dmesg | grep -i -E 'erofs|squashfs|oops|bug|warn' | tail -60 >/dev/ttyS0
echo "end $(cut -d' ' -f1 /proc/uptime)"
poweroff -f
"""

# Digests a sound image, read ahead and page by page.
DIGEST_JOB = """
for ahead in 4096 0; do
    blockdev --setra $ahead /dev/loop0
    if mount -t $kind -o ro /dev/loop0 /mnt; then
        cd /mnt; set -- $(sh /digest | sha256sum); cd /; umount /mnt
        echo "image $number $ahead $1"
    else
        echo "image $number $ahead unmountable"
    fi
done
"""

# Tells whether all of a damaged image can be read. Sizes may be wrong by terabytes, hence the limit.
VERDICT_JOB = """
echo "next $number"
verdict=refused
if mount -t $kind -o ro /dev/loop0 /mnt 2>/dev/null; then
    cd /mnt; timeout 5 sh /digest >/dev/null 2>/errors; status=$?; cd /; umount /mnt
    if [ $status = 143 ]; then verdict=endless; elif [ -s /errors ]; then verdict=unreadable; else verdict=read; fi
fi
echo "image $number verdict $verdict"
"""

# Opens the tree at the end of an image by its root hash, mounts the image and digests it.
SEALED_JOB = """
set -- $(sed -n "s/^$number //p" /seals)
verdict=unopened
if veritysetup open /dev/loop0 sealed /dev/loop0 $1 --hash-offset=$2; then
    verdict=unmountable
    if mount -t $kind -o ro /dev/mapper/sealed /mnt; then
        cd /mnt; digest=$(sh /digest 2>/errors | sha256sum); cd /; umount /mnt
        if [ -s /errors ]; then verdict=unreadable; else verdict=${digest%% *}; fi
    fi
    veritysetup close sealed
fi
echo "image $number verdict $verdict"
"""

# Everything about a tree, as a stream, by the same programs here and in the machine. tar lists attributes in the order in
# which a file system has them, getfattr sorts them.
DIGEST = """
${TAR:-tar} --create --sort=name --format=posix --numeric-owner --pax-option='delete=atime,delete=ctime,exthdr.name=%f' .
find . -print0 | sort -z | xargs -0 getfattr -h -d -m - -e hex 2>/dev/null
"""


@dataclass
class Kernel:
    """An unpacked kernel."""

    version: str
    image: Path
    modules: Path
    config: str  # Empty if its packages do not have it, as from 6.19 on.

    def number(self):
        return numbers(self.version)

    def decodes(self, codec):
        return codec not in DECODERS or not self.config or f"{DECODERS[codec]}=y" in self.config


@dataclass
class Image:
    """An image, and what reads it according to packfs."""

    name: str
    path: Path
    kind: str
    needs: tuple
    codecs: list


def numbers(version):
    return tuple(int(n) for n in re.findall(r"\d+", version)[:2])


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, **options)


def say(text):
    print(text, file=sys.stderr, flush=True)


# --- kernels ---------------------------------------------------------------------------------------------------------


class Registry:
    """A private apt state with the kernels of several suites."""

    def __init__(self, folder):
        (folder / "parts").mkdir(parents=True, exist_ok=True)
        for name in ["lists/partial", "cache/archives/partial"]:
            (folder / name).mkdir(parents=True, exist_ok=True)
        known = self.targets()
        lines = [f"deb [signed-by={KEYRING}] {known[False]} {suite} main" for suite in SUITES]
        lines += [f"deb [signed-by={KEYRING}] {known[True]} {suite} main" for suite in SECURITY]
        (folder / "sources.list").write_text("\n".join(lines) + "\n")
        self.options = []
        for key, value in {
            "Dir::Etc::SourceList": folder / "sources.list",
            "Dir::Etc::SourceParts": folder / "parts",
            "Dir::State::Lists": folder / "lists",
            "Dir::Cache": folder / "cache",
            "APT::Sandbox::User": "root",
            "APT::Default-Release": "",
            "Acquire::Languages": "none",
        }.items():
            self.options += ["-o", f"{key}={value}"]
        say("reading the lists of Debian's suites")
        run("apt-get", *self.options, "update", "-qq")
        names = run("apt-cache", *self.options, "pkgnames", capture_output=True, text=True).stdout.split()
        self.names = set(names)

    @staticmethod
    def targets():
        """Returns the mirrors of the system: that of the release and that of its security updates."""
        wanted = run(
            "apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages",
            capture_output=True, text=True,
        ).stdout
        found = {}
        for line in wanted.splitlines():
            release, component, uri = line.split()
            if component == "main":
                found.setdefault("security" in release, uri)
        if False not in found:
            sys.exit("guest-kernels: no Debian mirror in the apt sources")
        found.setdefault(True, found[False].replace("/debian", "/debian-security"))
        return found

    def newest(self, wanted):
        """Returns the newest kernel whose version begins with the numbers wanted, and its packages."""
        found = []
        for name in self.names:
            match = re.fullmatch(r"linux-(image|binary)-(\d[^-]*.*-cloud-amd64)", name)
            if not match or not re.match(rf"{re.escape(wanted)}\.\d", match[2]):
                continue
            # From 6.19 on the image is only a name for two packages, of which a suite may have lost one.
            if match[1] == "binary" and f"linux-modules-{match[2]}" in self.names:
                found.append((match[2], [name, f"linux-modules-{match[2]}"]))
            elif match[1] == "image" and numbers(match[2]) < (6, 19):
                found.append((match[2], [name]))
        if not found:
            sys.exit(f"guest-kernels: no suite has a kernel {wanted}")
        return max(found, key=lambda kernel: [int(n) for n in re.findall(r"\d+", kernel[0])])

    def fetch(self, wanted, folder):
        """Downloads and unpacks a kernel; returns it."""
        version, packages = self.newest(wanted)
        place = folder / version
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            say(f"fetching Linux {version}")
            run("apt-get", *self.options, "download", "-qq", *packages, cwd=place)
            for package in place.glob("*.deb"):
                run("dpkg-deb", "-x", package, place)
                package.unlink()
            (place / "complete").touch()
        return unpacked(place, version)


def unpacked(place, version):
    """Returns the kernel in a folder, wherever its packages have put it."""
    modules = next(place.glob(f"**/lib/modules/{version}"))
    if modules.parts[-4] == "usr":
        # depmod and modprobe expect it there.
        (place / "lib").mkdir(exist_ok=True)
        if not (place / "lib/modules").exists():
            (place / "lib/modules").symlink_to("../usr/lib/modules")
    image = next(itertools.chain(place.glob(f"boot/vmlinuz-{version}"), place.glob("**/vmlinuz")))
    config = place / f"boot/config-{version}"
    text = config.read_text() if config.exists() else ""
    return Kernel(version, image, place / "lib/modules" / version, text)


def add_modules(kernel, root, modules):
    """Copies the modules that the machine needs, uncompressed, because busybox cannot decompress them all."""
    place = kernel.modules.parents[2]
    run("depmod", "-b", place, kernel.version, stderr=subprocess.DEVNULL)
    wanted = set()
    for module in modules:
        shown = subprocess.run(
            ["modprobe", "-d", place, "-S", kernel.version, "--show-depends", module], capture_output=True, text=True,
        ).stdout
        wanted.update(line.split()[1] for line in shown.splitlines() if line.startswith("insmod"))
    target = root / "lib/modules" / kernel.version
    for file in map(Path, sorted(wanted)):
        inside = target / file.resolve().relative_to(kernel.modules.resolve())
        inside.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".xz":
            inside.with_suffix("").write_bytes(run("xz", "-dc", file, capture_output=True).stdout)
        elif file.suffix == ".zst":
            inside.with_suffix("").write_bytes(run("zstd", "-dc", file, capture_output=True).stdout)
        else:
            shutil.copy(file, inside)
    # Not every package has them, and depmod only complains.
    for file in kernel.modules.glob("modules.[bo]*"):
        shutil.copy(file, target)
    run("depmod", "-b", root, kernel.version, stderr=subprocess.DEVNULL)


def add_program(name, root):
    """Copies a program with its libraries."""
    program = Path(shutil.which(name) or sys.exit(f"guest-kernels: {name} is not installed"))
    shutil.copy(program.resolve(), root / "bin" / name)
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+) \(0x", listed):
        inside = root / library.lstrip("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(library).resolve(), inside)


# --- the tree --------------------------------------------------------------------------------------------------------


def words(generator, length):
    """Returns bytes that every codec halves."""
    known = [generator.randbytes(12) for _ in range(64)]
    return b"".join(generator.choice(known) + generator.randbytes(4) for _ in range(length // 16 + 1))[:length]


def make_tree(tree):
    """Makes a small tree with everything that both formats hold. Its large files share stretches at odd offsets."""
    generator = random.Random(20261126)
    noise = generator.randbytes(1_300_000)
    text = words(generator, 900_000)
    wave = b"".join(words(generator, 4001) + generator.randbytes(3001) for _ in range(90))
    large = {
        "noise": noise,
        # A raw cluster that is longer than Linux reads, if it is shared as a whole.
        "noise again": noise[:1_100_000] + text[:50_000],
        # Two extents of one cluster in one folio of the page cache.
        "noise twice": noise[:195_123] + noise[:299_008] + text[:20_000],
        "text": text,
        "text inside": noise[:777] + text[100_001:800_000] + noise[-4096:],
        "wave": wave,
        "wave.bin": wave[50_000:] + text[:70_001] + wave[:300_000],
    }
    tree.mkdir()
    for name, content in large.items():
        (tree / name).write_bytes(content)
    with (tree / "holes").open("wb") as file:
        for at, length in [(0, 9), (1 << 20, 5000), (3 << 20, 70_000), ((4 << 20) + 13, 1)]:
            file.seek(at)
            file.write(text[:length])
    small = tree / "small"
    small.mkdir()
    for number, length in enumerate([0, 1, 40, 511, 512, 4095, 4096, 4097, 12_288, 65_535, 65_536, 65_537, 131_073]):
        (small / f"text {number}").write_bytes(text[number * 3 : number * 3 + length])
        (small / f"noise {number}").write_bytes(noise[number : number + length])
    wide = tree / "wide"
    wide.mkdir()
    for number in range(300):
        (wide / f"a name of a file, {number:04}").write_bytes(text[: number % 5])
    os.link(tree / "small/text 5", tree / "wide/linked")
    os.symlink("small/text 5", tree / "link")
    os.symlink("x/" * 500 + "end", tree / "long link")
    os.mkfifo(tree / "fifo")
    if os.geteuid() == 0:
        os.mknod(tree / "char", 0o020640, os.makedev(1, 3))
        os.mknod(tree / "block", 0o060600, os.makedev(259, 300))
    for number, path in enumerate(sorted(tree.rglob("*"))):
        if path.is_symlink():
            continue
        if os.geteuid() == 0:
            os.chown(path, number % 7 * 10_000, number % 3 * 70_000)
        os.chmod(path, [0o644, 0o755, 0o4711, 0o600][number % 4] if not path.is_dir() else 0o755)
        if number % 5 == 0 and (path.is_dir() or path.is_file()):
            os.setxattr(path, "user.number", str(number % 25).encode())
            os.setxattr(path, "user.a longer name than others", text[: 30 + number % 300])
            if os.geteuid() == 0:
                os.setxattr(path, "trusted.packfs", b"\0\1\2")
                os.setxattr(path, "security.packfs", noise[:60])
    for number, path in enumerate(sorted(tree.rglob("*"), reverse=True)):
        when = [0, 1_000_000_000, 2_147_483_648 + number, 4_294_967_295][number % 4]
        os.utime(path, (when, when), follow_symlinks=False)
    os.utime(tree, (1_000_000_000, 1_000_000_000))


def digest_of(tree):
    made = run("bash", "-ec", DIGEST, cwd=tree, capture_output=True).stdout
    return hashlib.sha256(made).hexdigest()


# --- images ----------------------------------------------------------------------------------------------------------


def build_images(packfs, tree, folder, quick):
    """Builds the tree with every set of options, for every target that accepts it. Equal images are kept once."""
    images = {}
    wanted = [("squashfs", options, None) for options in (SQUASHFS[1::3] if quick else SQUASHFS)]
    chosen = [EROFS[number] for number in QUICK] if quick else EROFS
    wanted += [("erofs", options, target) for options in chosen for target in TARGETS]
    refused = 0
    for kind, options, target in wanted:
        path = folder / f"image{len(images)}"
        named = options + (f" --target-kernel {target}" if target else "")
        built = subprocess.run(
            [packfs, "build", "-q", "-f", "--format", kind, *shlex.split(named), "-o", path, tree],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )
        if built.returncode != 0:
            # A target that is too old for the options; the newest ones accept them all.
            if not target or target == TARGETS[-1]:
                sys.exit(f"guest-kernels: packfs build {named}: {built.stderr}")
            refused += 1
            continue
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest in images:
            continue
        info = json.loads(run(packfs, "info", "--json", path, capture_output=True, text=True).stdout)
        needs, codecs = needs_of(info, kind, options)
        if target and needs > numbers(target):
            sys.exit(f"guest-kernels: packfs build {named}: the image needs Linux {needs}")
        images[digest] = Image(f"{kind} {named}", path, kind, needs, codecs)
    say(f"{len(images)} images, {refused} combinations of options refused for an old target")
    return list(images.values())


def needs_of(info, kind, options):
    """Returns the oldest kernel that reads an image, and the codecs that this kernel must have been built with."""
    codecs = [codec for codec in DECODERS if kind == "erofs" and codec in options]
    # SquashFS says nothing: the youngest codec, zstd, came with 4.14.
    return numbers(info.get("needs_linux", "4.14")), codecs


# --- machines --------------------------------------------------------------------------------------------------------


def start(kernel, images, job, work, modules=MODULES, programs=("tar", "getfattr"), files=None):
    """Has a kernel do a job with each image; returns what it says about them. The job finds the files, by name and text."""
    root = work / "root"
    shutil.rmtree(root, ignore_errors=True)
    (root / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    for program in programs:
        add_program(program, root)
    add_modules(kernel, root, modules)
    for name, text in (files or {}).items():
        (root / name).write_text(text)
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    (root / "job").write_text(job)
    (root / "digest").write_text(DIGEST)
    (root / "modules").write_text(" ".join(modules))
    disk, lines, at = work / "disk", [], 0
    with disk.open("wb") as file:
        for number, (kind, path) in enumerate(images):
            file.seek(at)
            content = path.read_bytes()
            file.write(content)
            lines.append(f"{number} {kind} {at}\n")
            at += -(-len(content) // ALIGN) * ALIGN
        file.truncate(max(at, ALIGN))
    (root / "images").write_text("".join(lines))
    names = run("find", ".", cwd=root, capture_output=True).stdout
    with (work / "initrd").open("wb") as file:
        run("cpio", "-o", "-H", "newc", "--quiet", cwd=root, input=names, stdout=file)
    console, results = work / "console", work / "results"
    command = [
        "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "1024", "-smp", "1", "-nodefaults", "-no-reboot",
        "-display", "none", "-serial", f"file:{console}", "-serial", f"file:{results}", "-kernel", kernel.image,
        "-initrd", work / "initrd", "-append", "console=ttyS0 quiet panic=-1 no_timer_check loglevel=3",
        "-drive", f"if=virtio,format=raw,file={disk},readonly=on",
    ]
    begun = time.monotonic()
    try:
        subprocess.run(["nice", *map(str, command)], timeout=PATIENCE, stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired:
        say(f"Linux {kernel.version}: still running after {PATIENCE} s")
    said = results.read_text(errors="replace").replace("\r", "") if results.exists() else ""
    booted = re.search(r"^up (\S+)", said, re.M)
    say(f"Linux {kernel.version}: {len(images)} images in {time.monotonic() - begun:.0f} s, "
        f"of which {booted[1] if booted else '?'} to boot")
    return said


def judge(images, want, said):
    """Compares what a machine said with what it must say."""
    if not re.search(r"^end ", said, re.M):
        return [f"it did not finish; its last words are {said[-300:]!r}"]
    got = {(int(n), ahead): digest for n, ahead, digest in re.findall(r"^image (\d+) (\d+) (\S+)$", said, re.M)}
    wrong = []
    for number, image in enumerate(images):
        for ahead in ["4096", "0"]:
            digest = got.get((number, ahead), "missing")
            if digest != want:
                how = "another tree" if len(digest) == 64 else digest
                wrong.append(f"{image.name}: {how} (read-ahead {ahead}; {image.path})")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", default=KERNELS, help="beginnings of versions, such as 6.12")
    parser.add_argument("--packfs", default="target/release/packfs")
    parser.add_argument("--quick", action="store_true", help="fewer images")
    parser.add_argument("--cache", default="target/guests", type=Path, help="where kernels are kept")
    parser.add_argument("--rejected", type=Path, help="a folder of scripts/mutate.sh: judge the images there instead")
    parser.add_argument("--sealed", action="store_true", help="judge sealed images instead")
    parser.add_argument("--keep", type=Path, help="keep the images in this folder")
    options = parser.parse_args()
    cache = options.cache.absolute()
    packfs = Path(options.packfs).absolute()
    registry = Registry(cache / "apt")
    kernels = [registry.fetch(wanted, cache / "kernels") for wanted in options.kernels]
    if options.rejected:
        judge_rejected(kernels, options.rejected)
    if options.sealed:
        judge_sealed(kernels, packfs)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        tree = work / "tree"
        make_tree(tree)
        want = digest_of(tree)
        images_in = options.keep or work / "images"
        images_in.mkdir(parents=True, exist_ok=True)
        images = build_images(packfs, tree, images_in.absolute(), options.quick)
        wrong = []
        for kernel in kernels:
            readable = [i for i in images if i.needs <= kernel.number() and all(map(kernel.decodes, i.codecs))]
            said = start(kernel, [(image.kind, image.path) for image in readable], DIGEST_JOB, work)
            found = judge(readable, want, said)
            if found:
                say((work / "console").read_text(errors="replace")[-6000:])
            wrong += [f"Linux {kernel.version}: {line}" for line in found]
    for line in wrong:
        print(line)
    sys.exit(1 if wrong else 0)


def judge_rejected(kernels, folder):
    """Prints what `check` calls damage although a kernel reads all of the image, by finding; fails if that is not in the
    list of what check is meant to be stricter about."""
    images = sorted(path for path in folder.iterdir() if path.suffix in [".squashfs", ".erofs"])
    unknown = False
    for kernel in kernels:
        with tempfile.TemporaryDirectory() as work:
            said = start(kernel, [(path.suffix[1:], path) for path in images], VERDICT_JOB, Path(work))
        if not re.search(r"^end ", said, re.M):
            last = re.findall(r"^next (\d+)$", said, re.M)
            sys.exit(f"guest-kernels: it did not finish: {images[int(last[-1])] if last else 'it did not begin'}")
        verdicts = {int(n): verdict for n, verdict in re.findall(r"^image (\d+) verdict (\S+)$", said, re.M)}
        read = {}
        for number, path in enumerate(images):
            if verdicts.get(number) in ["read", "endless"]:
                field, finding = path.with_suffix(".txt").read_text().split("\n", 1)
                read.setdefault(reason_of(finding) or re.sub(r"\d+", "N", finding.strip()), []).append((field, path.name))
        agreed = sum(1 for verdict in verdicts.values() if verdict not in ["read", "endless"])
        print(f"Linux {kernel.version} fails on {agreed} of {len(images)} images that check rejects")
        for reason, found in sorted(read.items(), key=lambda item: -len(item[1])):
            known = reason in STRICTER.values()
            unknown |= not known
            print(f"{len(found):6} {'' if known else 'UNKNOWN: '}{reason} (such as {found[0][0]}, {found[0][1]})")
    sys.exit(1 if unknown else 0)


def judge_sealed(kernels, packfs):
    """Has dm-verity read sealed images, sound and damaged; fails unless it reads the former, and nothing of the latter."""
    wrong = []
    for kernel in kernels:
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            make_tree(work / "tree")
            want = digest_of(work / "tree")
            cases = seal_images(packfs, work)
            lines = [f"{number} {case.root_hash} {case.hash_offset}\n" for number, case in enumerate(cases)]
            said = start(
                kernel, [(case.kind, case.path) for case in cases], SEALED_JOB, work, MODULES + VERITY_MODULES,
                ("tar", "getfattr", "veritysetup"), {"seals": "".join(lines)},
            )
            console = (work / "console").read_text(errors="replace")
        verdicts = {int(n): verdict for n, verdict in re.findall(r"^image (\d+) verdict (\S+)$", said, re.M)}
        before = len(wrong)
        for number, case in enumerate(cases):
            verdict = verdicts.get(number, "missing")
            if verdict not in ([want] if case.is_sound else ["unopened", "unmountable", "unreadable"]):
                wrong.append(f"Linux {kernel.version}: {case.name}: {verdict}")
        if len(wrong) > before:
            say(console[-6000:])
        print(f"Linux {kernel.version}: " + ", ".join(
            f"{case.name} {'read' if verdicts.get(number) == want else verdicts.get(number, 'missing')}"
            for number, case in enumerate(cases)
        ))
    for line in wrong:
        print(line)
    sys.exit(1 if wrong else 0)


@dataclass
class SealedCase:
    """An image with its tree at the end, and what must become of it."""

    name: str
    path: Path
    kind: str
    root_hash: str
    hash_offset: int
    is_sound: bool


def seal_images(packfs, work):
    """Builds and seals the tree in both formats, by both algorithms; adds damaged copies of each."""
    cases = []
    for kind, codec, algorithm in [("squashfs", "zstd", "sha256"), ("erofs", "lz4", "sha256"), ("erofs", "lz4", "sha512")]:
        name = f"{kind}-{algorithm}"
        plain, sealed = work / name, work / f"{name}.sealed"
        run(packfs, "build", "-q", "--format", kind, "-c", codec, work / "tree", "-o", plain, stdin=subprocess.DEVNULL)
        told = json.loads(run(
            packfs, "seal", plain, "--append", "-o", sealed, "--algorithm", algorithm, "--json", "-q",
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        ).stdout)
        root_hash, hash_offset = told["root_hash"], told["hash_offset"]
        cases.append(SealedCase(name, sealed, kind, root_hash, hash_offset, True))
        damaged = work / f"{name}.damaged"
        content = bytearray(sealed.read_bytes())
        content[hash_offset // 2] ^= 1
        damaged.write_bytes(content)
        cases.append(SealedCase(f"{name} with a flipped bit", damaged, kind, root_hash, hash_offset, False))
        other = ("1" if root_hash[0] == "0" else "0") + root_hash[1:]
        cases.append(SealedCase(f"{name} by another root hash", sealed, kind, other, hash_offset, False))
    return cases


def reason_of(finding):
    """Returns why a finding is damage although Linux reads the image; nothing if it is not meant to be."""
    return next((reason for pattern, reason in STRICTER.items() if re.search(pattern, finding)), None)


main()
