"""Lists a SquashFS image as scripts/third-party-readers.py wants it, through a library for Python:
list.py PySquashfsImage|dissect.squashfs IMAGE. A line of JSON an entry: path, type, and SHA-256 of a file."""
import hashlib
import json
import stat
import sys

KINDS = {
    stat.S_IFDIR: "d",
    stat.S_IFREG: "f",
    stat.S_IFLNK: "l",
    stat.S_IFCHR: "c",
    stat.S_IFBLK: "b",
    stat.S_IFIFO: "p",
    stat.S_IFSOCK: "s",
}


def entry(path, kind, data=None, target=None):
    out = {"path": path, "kind": kind}
    if data is not None:
        out |= {"size": len(data), "sha": hashlib.sha256(data).hexdigest()}
    if target is not None:
        out["target"] = target
    print(json.dumps(out))


def pysquashfsimage(image):
    from PySquashfsImage import SquashFsImage

    with SquashFsImage.from_file(image) as root:
        for node in root:
            kind = KINDS[stat.S_IFMT(node.mode)]
            entry(
                node.path.strip("/") or ".",
                kind,
                node.read_bytes() if kind == "f" else None,
                node.readlink() if kind == "l" else None,
            )


def dissect(image):
    from dissect.squashfs import SquashFS

    def visit(path, node):
        kind = KINDS[stat.S_IFMT(node.mode)]
        entry(path or ".", kind, node.open().read() if kind == "f" else None, node.link if kind == "l" else None)
        if kind == "d":
            for name, child in node.listdir().items():
                if name not in (".", ".."):
                    visit(f"{path}/{name}".strip("/"), child)

    with open(image, "rb") as file:
        visit("", SquashFS(file).root)


{"PySquashfsImage": pysquashfsimage, "dissect.squashfs": dissect}[sys.argv[1]](sys.argv[2])
