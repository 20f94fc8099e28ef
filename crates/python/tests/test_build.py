"""Building, and what images become again: compared with tarfile, zipfile and the kernel."""

import io
import os
import random
import signal
import subprocess
import tarfile
import threading
import time
import zipfile

import packfs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20).filter(
    lambda name: name not in (".", "..") and len(name.encode()) < 200
)


def read_all(image):
    return dict(zip(image.names(), map(bytes, image.read_many(range(len(image))))))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(NAMES, st.binary(max_size=5000), min_size=1, max_size=12))
@pytest.mark.parametrize("format", ["squashfs", "erofs"])
def test_any_files_come_back(tmp_path, format, files):
    target = tmp_path / "any.img"
    packfs.build(target, files.items(), format=format, codec="lz4", force=True)
    image = packfs.open(target)
    assert read_all(image) == files
    assert not [finding for finding in image.check() if finding.severity == "damage"]


def make_tar(contents):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    stream.seek(0)
    return stream


def test_tar_zip_and_directory_give_the_same_files(tmp_path, contents):
    stream = make_tar(contents)
    zipped = tmp_path / "a.zip"
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    for name, data in contents.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "a.tar").write_bytes(stream.getvalue())
    sources = [
        stream,
        tarfile.open(tmp_path / "a.tar"),
        tmp_path / "a.tar",
        zipped,
        zipfile.ZipFile(zipped),
        tmp_path / "tree",
        ((name, io.BytesIO(data)) for name, data in contents.items()),
    ]
    for number, source in enumerate(sources):
        target = tmp_path / f"{number}.sqfs"
        packfs.build(target, source)
        image = packfs.open(target)
        assert read_all(image) == contents, source
        if source is zipped:
            of_path = image
        elif isinstance(source, zipfile.ZipFile):
            assert image.diff(of_path) == []


def test_tar_and_extract_give_the_files_back(image, contents, tmp_path):
    written = io.BytesIO()
    image.tar(written)
    image.tar(tmp_path / "a.tar")
    assert written.getvalue() == (tmp_path / "a.tar").read_bytes()
    written.seek(0)
    with tarfile.open(fileobj=written) as archive:
        members = {member.name: member for member in archive}
        for name, data in contents.items():
            assert archive.extractfile(members[name]).read() == data
        assert members["link"].linkname == "small/001.txt"
        assert (members["attributes"].mode, members["attributes"].uid) == (0o640, 7)
    image.extract(tmp_path / "out")
    for name, data in contents.items():
        assert (tmp_path / "out" / name).read_bytes() == data


def test_the_same_input_gives_the_same_bytes(tmp_path, contents):
    for threads in (1, 2, 5):
        packfs.build(tmp_path / f"{threads}.erofs", contents.items(), threads=threads)
    images = [(tmp_path / f"{threads}.erofs").read_bytes() for threads in (1, 2, 5)]
    assert images[0] == images[1] == images[2]


def test_differences_are_listed(tmp_path):
    packfs.build(tmp_path / "a.sqfs", [("same", b"1"), ("other", b"1"), ("gone", b"")])
    packfs.build(tmp_path / "b.sqfs", [("same", b"1"), ("other", b"2")])
    found = packfs.open(tmp_path / "a.sqfs").diff(packfs.open(tmp_path / "b.sqfs"))
    assert {(one.path, one.aspect) for one in found} == {("other", "content"), ("gone", "entry")}


class Broken(Exception):
    pass


def failing_entries():
    yield "a", b"1"
    raise Broken("in the middle")


class FailingStream(io.RawIOBase):
    def readable(self):
        return True

    def read(self, size=-1):
        raise Broken("in a stream")


def test_exceptions_of_sources_come_through_and_leave_nothing(tmp_path):
    target = tmp_path / "a.sqfs"
    with pytest.raises(Broken, match="in the middle"):
        packfs.build(target, failing_entries())
    with pytest.raises(Broken, match="in a stream"):
        packfs.build(target, [("a", FailingStream(), {"size": 5})])
    with pytest.raises(packfs.InvalidArgument, match="unknown"):
        packfs.build(target, [("a", b"", {"kind": "unknown"})])
    with pytest.raises(packfs.InvalidArgument):
        packfs.build(target, [("a", b"")], format="zip")
    with pytest.raises(packfs.InvalidArgument, match="unknown"):
        packfs.build(target, [("a", b"")], codec="unknown")
    assert os.listdir(tmp_path) == []


def test_progress_ends_a_build_by_an_exception(tmp_path):
    seen = []
    packfs.build(tmp_path / "a.sqfs", [("a", b"1")], progress=lambda *counters: seen.append(counters))
    assert seen[-1][0] == "done"

    def stop(phase, done, total):
        raise KeyboardInterrupt

    def endless():
        n = 0
        while True:
            yield f"{n}", b"x" * 1000
            n += 1

    with pytest.raises(KeyboardInterrupt):
        packfs.build(tmp_path / "b.sqfs", endless(), progress=stop)
    assert os.listdir(tmp_path) == ["a.sqfs"]


def test_ctrl_c_ends_long_calls_and_leaves_nothing(tmp_path):
    def endless():
        yield "first", b"1"
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        n = 0
        while True:
            yield f"{n}", b"x" * 1000
            n += 1

    class SlowFile(io.RawIOBase):
        written = 0

        def write(self, data):
            if self.written == 0:
                os.kill(os.getpid(), signal.SIGINT)
            # Of a block of any size, a byte at a time: the call ends before the block does.
            self.written += 1
            time.sleep(0.01)
            return 1

    with pytest.raises(KeyboardInterrupt):
        packfs.build(tmp_path / "a.sqfs", endless())
    assert os.listdir(tmp_path) == []
    packfs.build(tmp_path / "a.sqfs", [(f"{n}", b"x" * 1000) for n in range(100)])
    slow = SlowFile()
    with pytest.raises(KeyboardInterrupt):
        packfs.open(tmp_path / "a.sqfs").tar(slow)
    assert 0 < slow.written < 1000


def test_the_kernel_reads_the_same(image_path, contents, tmp_path):
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-o", "loop,ro", image_path, mounted], capture_output=True).returncode:
        pytest.skip("images cannot be mounted here")
    try:
        image = packfs.open(image_path)
        for name, batch in zip(image.names(), image.read_many(range(len(image)))):
            assert (mounted / name).read_bytes() == bytes(batch), name
    finally:
        subprocess.run(["umount", mounted], check=True)


@pytest.mark.parametrize("ending", ["sqfs", "erofs"])
def test_convert_keeps_everything(image_path, contents, tmp_path, ending):
    converted = tmp_path / f"converted.{ending}"
    reports = []
    summary = packfs.convert(image_path, converted, codec="lz4", progress=lambda *report: reports.append(report))
    before, after = packfs.open(image_path), packfs.open(converted)
    assert summary.files == len(before) == len(after)
    assert before.diff(after) == []
    assert reports[-1][0] == "done"
    # Python's own reader of tar archives finds the same in both.
    members = []
    for image in (before, after):
        archive = io.BytesIO()
        image.tar(archive)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as tar:
            files = {member.name: tar.extractfile(member).read() for member in tar if member.isreg()}
            archive.seek(0)
            members.append([(m.name.rstrip("/"), m.type, m.mode, m.uid, m.gid, m.mtime, m.linkname) for m in tar.getmembers()])
        assert {name.lstrip("./"): data for name, data in files.items()} == {**contents, "attributes": b"!"}
    assert members[0] == members[1]


def test_convert_takes_what_open_takes(tmp_path):
    first = tmp_path / "first.sqfs"
    packfs.build(first, [("d/a", b"one" * 9000), ("d/b", None, {"kind": "symlink", "target": "a"})])
    image = packfs.open(first)
    sources = [os.fspath(first), first, first.read_bytes(), io.BytesIO(first.read_bytes()), image]
    built = []
    for number, source in enumerate(sources):
        target = tmp_path / f"{number}.erofs"
        packfs.convert(source, target)
        built.append(target.read_bytes())
    assert built.count(built[0]) == len(sources)
    # An image of the caller stays open, and build takes one too.
    assert image.read("d/b") == b"one" * 9000
    packfs.build(tmp_path / "again.erofs", image)
    assert (tmp_path / "again.erofs").read_bytes() == built[0]
    with pytest.raises(packfs.Exists):
        packfs.convert(image, tmp_path / "again.erofs")
    with pytest.raises(packfs.NoImage):
        packfs.convert(b"no image", tmp_path / "none.erofs")
    image.close()
    with pytest.raises(ValueError):
        packfs.convert(image, tmp_path / "none.erofs")
    assert not (tmp_path / "none.erofs").exists()


def test_damage_ends_a_conversion_and_leaves_nothing(tmp_path):
    noise = random.Random(1).randbytes(300_000)
    packfs.build(tmp_path / "a.sqfs", [("a", noise.hex().encode())], codec="zstd")
    damaged = bytearray((tmp_path / "a.sqfs").read_bytes())
    damaged[1000:200_000] = bytes(199_000)
    with pytest.raises(packfs.Damaged):
        packfs.convert(bytes(damaged), tmp_path / "b.erofs")
    assert os.listdir(tmp_path) == ["a.sqfs"]
