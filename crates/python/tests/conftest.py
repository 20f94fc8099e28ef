"""Trees and images that the tests share."""

import os
import random

import packfs
import pytest


@pytest.fixture(scope="session")
def contents():
    """Names and contents of files: text, noise, an empty one, one of many blocks."""
    noise = random.Random(37)
    files = {f"small/{n:03}.txt": f"file {n}\n".encode() * (n * 7 % 300) for n in range(200)}
    files["noise.bin"] = noise.randbytes(300_000)
    files["large.txt"] = b"".join(b"line %d of a large file\n" % n for n in range(60_000))
    files["holes"] = b"a" * 5000 + bytes(2_000_000) + b"b"
    files["empty"] = b""
    files["small/deep/er/x"] = b"x"
    return files


@pytest.fixture(scope="session", params=[("sqfs", "zstd"), ("sqfs", "gzip"), ("erofs", "lz4")], ids="-".join)
def image_path(request, contents, tmp_path_factory):
    ending, codec = request.param
    path = tmp_path_factory.mktemp("images") / f"image.{ending}"
    entries = [*contents.items(), ("link", None, {"kind": "symlink", "target": "small/001.txt"})]
    entries.append(("bad-link", None, {"kind": "symlink", "target": "nowhere"}))
    entries.append(("attributes", b"!", packfs.Attributes(mode=0o640, uid=7, gid=8, mtime_ns=10**18, xattrs={"user.a": b"1"})))
    packfs.build(path, entries, codec=codec)
    return os.fspath(path)


@pytest.fixture
def image(image_path):
    return packfs.open(image_path)
