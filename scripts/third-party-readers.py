#!/usr/bin/env python3
"""Other people's readers on our images: third-party-readers.py [--packfs PROGRAM] [--dir DIR] [WORD...] (as root).

Packs one tree into SquashFS and EROFS images with each codec and option, has every reader go through each whole image,
and compares types, contents and link targets with the source. Prints a table a format in Markdown, those of
docs/formats, and below it what was said where it was not read. With WORDs, only images whose names have one of them.

Readers are installed into DIR (target/third-party): Debian packages (these into the system), a virtual environment of
Python, crates and Go modules. One that does not install is left out; it is named at once, with the reason. Crates need
Rust and Go modules need Go 1.25; both are expected to be there, as Debian's are older.
"""
import argparse
import hashlib
import json
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

SQUASHFS = [
    ("gzip", "-c gzip"),
    ("xz", "-c xz"),
    ("xz, bcj=auto", "-c xz:bcj=auto"),
    ("lzo", "-c lzo"),
    ("lz4", "-c lz4"),
    ("lz4hc", "-c lz4hc"),
    ("zstd", "-c zstd"),
    ("none", "-c none"),
    ("gzip, 4K blocks", "-c gzip -b 4K"),
    ("gzip, 1M blocks", "-c gzip -b 1M"),
    ("gzip, no fragments", "-c gzip --fragments none"),
    ("gzip, fragments small", "-c gzip --fragments small"),
    ("gzip, no sparse, no dedup", "-c gzip --no-sparse --no-dedup"),
    ("gzip, plain metadata", "-c gzip --plain-metadata"),
    ("gzip, no xattrs, no export", "-c gzip --no-xattrs --no-export"),
]

EROFS = [
    ("none", "-c none"),
    ("none, chunks", "-c none --features chunks"),
    ("none, 512 byte blocks", "-c none --fs-block 512 --target-kernel 6.4"),
    ("lz4, for Linux 5.4", "-c lz4 -b 4K --target-kernel 5.4"),
    ("lz4, no fragments", "-c lz4 --features ^fragments"),
    ("lz4", "-c lz4"),
    ("lz4hc (default)", ""),
    ("lz4hc, dedupe", "--features dedupe"),
    ("lz4hc, all-fragments", "--features all-fragments"),
    ("lz4hc, ztailpacking", "--features ^fragments,ztailpacking"),
    ("lzma", "-c lzma:6"),
    ("deflate", "-c deflate --target-kernel 6.6"),
    ("zstd", "-c zstd --target-kernel 6.10"),
    ("zstd, 48bit", "-c zstd --target-kernel 6.18 --features 48bit"),
    ("zstd, unaligned", "-c zstd --target-kernel 6.18 --features 48bit,unaligned"),
]


class Unread(Exception):
    """The reader did not read the image; why, in its words."""


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, timeout=120, **more)
    if done.returncode:
        raise Unread(said(done.stderr + done.stdout) or f"status {done.returncode}")
    return done.stdout


def said(output):
    """The line that says what is wrong: the last that speaks of an error, or the last."""
    lines = output.decode(errors="replace").strip().splitlines()
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [""])[-1].strip()


# --- what there is to read ---------------------------------------------------


def make_tree(root):
    """Files around the edges of blocks, whatever else there is beside them."""
    rng = random.Random(1)
    root.mkdir()

    def text(size):
        return b"".join(b"line %d of a text that compresses\n" % n for n in range(size // 30 + 1))[:size]

    for size in [0, 1, 4095, 4096, 4097, 131071, 131073]:
        (root / f"text-{size}").write_bytes(text(size))
        (root / f"noise-{size}").write_bytes(rng.randbytes(size))
        (root / f"mixed-{size}").write_bytes((text(2000) + rng.randbytes(2000)) * (size // 4000) + text(size % 4000))
    (root / "large").write_bytes(text(300_000) + rng.randbytes(50_000) + text(50_000))
    with open(root / "sparse", "wb") as file:
        file.write(text(5000))
        file.seek(400_000)
        file.write(text(5000))
        file.truncate(600_001)
    (root / "twice").write_bytes((root / "text-131073").read_bytes())
    for folder in ["wide", "deep/1/2/3/4/5/6/7", "empty"]:
        (root / folder).mkdir(parents=True)
    for n in range(60):
        (root / "wide" / f"entry number {n}").write_bytes(text(n * 30))
    (root / "deep/1/2/3/4/5/6/7/bottom").write_bytes(text(10))
    (root / "name with späce").write_bytes(text(10))
    (root / ("n" * 255)).write_bytes(text(10))
    (root / "link").symlink_to("text-4096")
    (root / "long link").symlink_to("/".join(["somewhere"] * 25))
    os.link(root / "text-4097", root / "wide" / "hard link")
    os.mkfifo(root / "fifo")
    if os.geteuid() == 0:
        os.mknod(root / "char", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        os.mknod(root / "block", 0o600 | stat.S_IFBLK, os.makedev(8, 1))
    try:
        os.setxattr(root / "text-4095", "user.name", b"value")
    except OSError:
        pass


KINDS = {stat.S_IFREG: "f", stat.S_IFDIR: "d", stat.S_IFLNK: "l", stat.S_IFCHR: "c", stat.S_IFBLK: "b",
         stat.S_IFIFO: "p", stat.S_IFSOCK: "s"}


def list_tree(root):
    """Path: type, and size and SHA-256 of a file, or the target of a link."""
    out = {}

    def visit(path, name):
        try:
            found = os.lstat(path)
        except OSError as error:
            out[name] = ("?", error.strerror)
            return
        kind = KINDS[stat.S_IFMT(found.st_mode)]
        if kind == "f":
            out[name] = ("f", found.st_size, hashlib.sha256(Path(path).read_bytes()).hexdigest())
        elif kind == "l":
            out[name] = ("l", os.readlink(path))
        else:
            out[name] = (kind,)
        if kind == "d":
            for entry in sorted(os.listdir(path)):
                visit(os.path.join(path, entry), entry if name == "." else f"{name}/{entry}")

    visit(root, ".")
    return out


def listed(text):
    out = {}
    for line in text.decode().splitlines():
        entry = json.loads(line)
        kind = entry["kind"]
        if kind == "f":
            out[entry["path"]] = ("f", entry.get("size", 0), entry["sha"])
        elif kind == "l":
            out[entry["path"]] = ("l", entry.get("target", ""))
        else:
            out[entry["path"]] = (kind,)
    return out


# --- who reads it --------------------------------------------------------------


class Readers:
    def __init__(self, place):
        self.place = place
        self.python = place / "venv/bin/python"

    def attempt(self, what, *command, **more):
        """Runs a step of the installation; one that fails is named, and what it was for left out."""
        done = None
        try:
            done = subprocess.run([str(word) for word in command], capture_output=True, **more)
        except OSError as error:
            why = f"{error.filename}: {error.strerror}"
        if done and done.returncode:
            why = said(done.stderr + done.stdout) or f"status {done.returncode}"
        if not done or done.returncode:
            print(f"not installed: {what}: {why}", file=sys.stderr)
        return done is not None and not done.returncode

    def debian(self, *packages):
        known = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Status}\n", *packages], capture_output=True, text=True)
        there = {line.split()[0] for line in known.stdout.splitlines() if line.endswith(" installed")}
        missing = [package for package in packages if package not in there]
        # The lists of a new machine are empty or old.
        if missing and self.attempt("lists of packages", "apt-get", "update", "-qq"):
            for package in missing:
                self.attempt(package, "apt-get", "install", "-y", "-qq", "--no-install-recommends", package,
                             env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})

    def install(self):
        self.debian("squashfs-tools", "squashfuse", "7zip", "grub-common", "erofs-utils", "erofsfuse", "fuse3",
                    # To build python-lzo, and what the readers in Python link.
                    "python3-venv", "python3-dev", "build-essential", "liblzo2-dev", "zlib1g-dev")
        if not self.python.exists():
            self.attempt("Python's environment", sys.executable, "-m", "venv", self.place / "venv")
        for package in ["PySquashfsImage", "dissect.squashfs", "ratarmount", "python-lzo", "lz4", "zstandard"]:
            self.attempt(package, self.python, "-m", "pip", "install", "-q", package)
        if not (self.place / "bin/unsquashfs-backhand").exists():
            self.attempt("backhand", "cargo", "install", "--quiet", "--root", self.place, "backhand-cli")
        if not (self.place / "go/list").exists():
            (self.place / "go").mkdir(exist_ok=True)
            shutil.copy(HERE / "third-party/main.go", self.place / "go/main.go")
            (self.place / "go/go.mod").write_text("module list\n\ngo 1.25\n")
            for command in [["go", "mod", "tidy"], ["go", "build", "-o", "list", "."]]:
                if not self.attempt("go-diskfs and go-erofs", *command, cwd=self.place / "go"):
                    break

    # Each takes an image and an empty directory, and returns what it found.

    def extracted(self, *command):
        def read(image, out):
            run(*[str(word).replace("IMAGE", str(image)).replace("OUT", str(out / "out")) for word in command])
            return list_tree(out / "out")
        return read

    def mounted(self, *command, leave=("fusermount3", "-u")):
        def read(image, out):
            words = [str(word).replace("IMAGE", str(image)).replace("OUT", str(out)) for word in command]
            # Servers that stay in the foreground end when their mount does.
            server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            try:
                for _ in range(300):
                    if os.path.ismount(out):
                        return list_tree(out)
                    try:
                        server.wait(0.1)
                    except subprocess.TimeoutExpired:
                        continue
                    if not os.path.ismount(out):
                        raise Unread(said(server.stdout.read()) or f"status {server.returncode}")
                raise Unread("it did not mount within 30 s")
            finally:
                subprocess.run([*leave, str(out)], capture_output=True)
                try:
                    server.wait(10)
                except subprocess.TimeoutExpired:
                    server.kill()
        return read

    def lists(self, *command):
        return lambda image, _: listed(run(*command, image))

    def squashfs(self):
        yield "Linux", self.mounted("mount", "-t", "squashfs", "-o", "loop,ro", "IMAGE", "OUT", leave=("umount",))
        yield "unsquashfs", self.extracted("unsquashfs", "-no-progress", "-quiet", "-d", "OUT", "IMAGE")
        yield "squashfuse", self.mounted("squashfuse", "-f", "IMAGE", "OUT")
        yield "7-Zip", self.extracted("7zz", "x", "-snld", "-y", "-oOUT", "IMAGE")
        yield "GRUB", self.mounted("grub-mount", "IMAGE", "OUT")
        yield "backhand", self.extracted(self.place / "bin/unsquashfs-backhand", "--quiet", "-d", "OUT", "IMAGE")
        yield "go-diskfs", self.lists(self.place / "go/list", "go-diskfs")
        yield "PySquashfsImage", self.lists(self.python, HERE / "third-party/list.py", "PySquashfsImage")
        yield "dissect.squashfs", self.lists(self.python, HERE / "third-party/list.py", "dissect.squashfs")
        yield "ratarmount", self.mounted(self.place / "venv/bin/ratarmount", "-f", "--index-file", ":memory:", "IMAGE", "OUT")

    def erofs(self):
        yield "Linux", self.mounted("mount", "-t", "erofs", "-o", "loop,ro", "IMAGE", "OUT", leave=("umount",))
        yield "fsck.erofs", self.extracted("fsck.erofs", "--extract=OUT", "IMAGE")
        yield "fsck.erofs of Debian 12", self.extracted("/usr/bin/fsck.erofs", "--extract=OUT", "IMAGE")
        yield "erofsfuse", self.mounted("erofsfuse", "-f", "IMAGE", "OUT")
        yield "go-erofs", self.lists(self.place / "go/list", "go-erofs")


def verdict(want, got):
    """A word for the table, and what there is to add to it."""
    if got == want:
        return "yes", ""
    special = {path for path, entry in want.items() if entry[0] in "cbps"}
    wrong = sorted(path for path in want.keys() | got.keys() if want.get(path) != got.get(path))
    if set(wrong) <= special:
        return "yes, but special files", ""
    links = {path for path, entry in want.items() if entry[0] == "l"}
    if set(wrong) <= special | links:
        return "yes, but links", f"{wrong[0]}: {got.get(wrong[0])}"
    path = next(path for path in wrong if path not in special)
    return "wrong", f"{len(wrong)} of {len(want)} entries, such as /{path}: {got.get(path)} for {want.get(path)}"


def table(title, images, readers, want):
    names, rows, notes = [name for name, _ in readers], [], []
    for label, image in images:
        row = []
        for name, read in readers:
            out = Path(tempfile.mkdtemp())
            try:
                word, note = verdict(want, read(image, out))
            except FileNotFoundError as error:
                word, note = "-", f"not installed: {error.filename}"
            except (Unread, subprocess.TimeoutExpired, OSError) as error:
                word, note = "no", str(error)
            shutil.rmtree(out, ignore_errors=True)
            row.append(word)
            if note:
                notes.append(f"- {name}, {label}: {note}")
        print(f"{title} {label}: {', '.join(f'{name} {word}' for name, word in zip(names, row))}", file=sys.stderr)
        rows.append((label, row))
    print(f"\n### {title}\n\n| image | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for label, row in rows:
        print(f"| {label} | {' | '.join(row)} |")
    print("\n" + "\n".join(notes), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packfs", default="target/release/packfs")
    parser.add_argument("--dir", type=Path, default=Path("target/third-party"))
    parser.add_argument("word", nargs="*")
    args = parser.parse_args()
    place = args.dir.absolute()
    place.mkdir(parents=True, exist_ok=True)
    readers = Readers(place)
    readers.install()
    with tempfile.TemporaryDirectory(dir=place) as work:
        tree = Path(work) / "tree"
        make_tree(tree)
        want = list_tree(tree)

        def images(kind, rows):
            for n, (label, options) in enumerate(rows):
                if not args.word or any(word in f"{kind} {label}" for word in args.word):
                    image = Path(work) / f"{n}.{kind}"
                    run(args.packfs, "build", "-q", tree, "-o", image, *options.split())
                    yield label, image

        table("SquashFS", list(images("sqfs", SQUASHFS)), list(readers.squashfs()), want)
        table("EROFS", list(images("erofs", EROFS)), list(readers.erofs()), want)


main()
