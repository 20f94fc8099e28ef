"""Building, and what images become again: compared with tarfile, zipfile and the kernel."""

import array
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


@pytest.mark.parametrize("format", ["squashfs", "erofs"])
def test_without_fragments_each_small_file_is_compressed_alone(tmp_path, format):
    # They compress only together.
    common = random.Random(1).randbytes(3000)
    files = {f"{n:03}": common + b"%d" % n for n in range(100)}
    together = packfs.build(tmp_path / "together", files.items(), format=format)
    alone = packfs.build(tmp_path / "alone", files.items(), format=format, fragments=False)
    again = packfs.convert(tmp_path / "together", tmp_path / "again", format=format, fragments=False)
    assert alone.image_bytes == again.image_bytes > 10 * together.image_bytes
    assert read_all(packfs.open(tmp_path / "alone")) == read_all(packfs.open(tmp_path / "together")) == files


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


def test_wrong_entries_are_named(tmp_path):
    wrong = [
        (("a", 5), TypeError, "a: data: bytes are needed, not int"),
        (("a", True), TypeError, "a: data: bytes are needed, not bool"),
        (("a", None), TypeError, "a: data: bytes are needed, not NoneType"),
        (("a", [1, 2]), TypeError, "a: data: bytes are needed, not list"),
        (("a", "text"), TypeError, "a: data: bytes are needed, not str"),
        (("a", tmp_path), TypeError, "a: data: bytes are needed"),
        (("a", b"", {"xattrs": {"user.x": 3}}), TypeError, "a: user.x: bytes are needed, not int"),
        (("a", b"", {"target": "b"}), packfs.InvalidArgument, "a: target"),
        (("a", None, {"kind": "dir", "target": "b"}), packfs.InvalidArgument, "a: target"),
        (("a", b"", {"mode": 0o10644}), packfs.InvalidArgument, "a: mode: 4516"),
        (("a", b"", {"kind": "unknown"}), packfs.InvalidArgument, "a: kind: 'unknown'"),
        (("a", b"", {"kind": 5}), packfs.InvalidArgument, "a: kind: 5"),
        (("a", b"", {"mode": -1}), packfs.InvalidArgument, "a: mode: -1"),
        (("a", b"", {"mode": "644"}), TypeError, "a: mode: 'str'"),
        (("a", b"", {"uid": 1 << 32}), packfs.InvalidArgument, "a: uid: 4294967296"),
        (("a", b"", {"gid": -1}), packfs.InvalidArgument, "a: gid: -1"),
        (("a", b"", {"mtime_ns": 1.5}), TypeError, "a: mtime_ns: 'float'"),
        (("a", b"", {"mtime_ns": 1 << 99}), packfs.InvalidArgument, "a: mtime_ns"),
        (("a", io.BytesIO(), {"size": -1}), packfs.InvalidArgument, "a: size: -1"),
    ]
    for entry, raised, message in wrong:
        with pytest.raises(raised, match=message):
            packfs.build(tmp_path / "a.sqfs", [entry])
    for name, value in (("block_size", "4096"), ("threads", 1.5), ("kernel", 6), ("codec", 3), ("block_size", -1), ("fragments", "none")):
        with pytest.raises((TypeError, OverflowError), match=f"{name}: "):
            packfs.build(tmp_path / "a.sqfs", [], **{name: value})
    assert os.listdir(tmp_path) == []
    data = [b"12", bytearray(b"12"), memoryview(b"1_2_")[::2], array.array("B", b"12")]
    packfs.build(tmp_path / "a.sqfs", [(f"{n}", value, {"xattrs": {"user.x": value}}) for n, value in enumerate(data)])
    image = packfs.open(tmp_path / "a.sqfs")
    assert [image[n] for n in range(4)] == [image.xattrs(f"{n}")["user.x"] for n in range(4)] == [b"12"] * 4


def test_members_of_tarfile_keep_what_the_archive_has(tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, time_of in (("a", "1600000000.123456789"), ("before", "-1.5")):
            member = tarfile.TarInfo(name)
            member.mode = 0o4755
            member.pax_headers = {"mtime": time_of, "SCHILY.xattr.user.k": "v\u00e9\udcff"}
            archive.addfile(member)
    packfs.build(tmp_path / "a.erofs", path)
    expected = packfs.open(tmp_path / "a.erofs")
    for mode in ("r", "r|"):
        with tarfile.open(path, mode) as archive:
            packfs.build(tmp_path / "b.erofs", archive, force=True)
        found = packfs.open(tmp_path / "b.erofs")
        assert expected.diff(found) == []
        assert found.stat("a").st_mtime_ns == 1600000000123456789
        assert found.xattrs("a") == {"user.k": "v\u00e9".encode() + b"\xff"}


def test_a_zip_archive_without_dates_is_read(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        member = zipfile.ZipInfo("a")
        member.date_time = (1980, 0, 0, 0, 0, 0)
        archive.writestr(member, b"1")
    packfs.build(tmp_path / "a.sqfs", path)
    packfs.build(tmp_path / "b.sqfs", zipfile.ZipFile(path))
    assert packfs.open(tmp_path / "a.sqfs").diff(packfs.open(tmp_path / "b.sqfs")) == []


def test_archives_that_cannot_be_read_are_refused(tmp_path):
    # Without files, whose data would be missed anyway.
    with tarfile.open(tmp_path / "a.tar", "w") as tar, zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        member = tarfile.TarInfo("d")
        member.type = tarfile.DIRTYPE
        tar.addfile(member)
        zipped.writestr("d/", b"")
        for archive in (tar, zipped):
            with pytest.raises(packfs.InvalidArgument, match="not open for reading"):
                packfs.build(tmp_path / "a.sqfs", archive)
    with tarfile.open(tmp_path / "a.tar") as tar, zipfile.ZipFile(tmp_path / "a.zip") as zipped:
        tar.getmembers()
    for archive in (tar, zipped):
        with pytest.raises(packfs.InvalidArgument, match="not open for reading"):
            packfs.build(tmp_path / "a.sqfs", archive)
    assert sorted(os.listdir(tmp_path)) == ["a.tar", "a.zip"]


@pytest.mark.parametrize("ending", ["sqfs", "erofs"])
def test_the_path_of_an_image_is_a_source(tmp_path, ending):
    source = tmp_path / f"source.{ending}"
    packfs.build(source, [("d/a", b"one" * 9000)])
    before = source.read_bytes()
    packfs.build(tmp_path / "target.erofs", source)
    assert packfs.open(source).diff(packfs.open(tmp_path / "target.erofs")) == []
    packfs.build(source, source, force=True)
    assert packfs.open(source).read("d/a") == b"one" * 9000 and len(source.read_bytes()) == len(before)


def test_tar_keeps_a_file_that_exists(image, tmp_path):
    target = tmp_path / "a.tar"
    target.write_bytes(b"mine")
    with pytest.raises(packfs.Exists) as raised:
        image.tar(target)
    assert (raised.value.path, target.read_bytes()) == (os.fspath(target), b"mine")
    with pytest.raises(packfs.NotFound):
        image.tar(tmp_path / "gone" / "a.tar")


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
