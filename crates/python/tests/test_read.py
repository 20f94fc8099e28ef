"""Reading: every way gives the same bytes."""

import errno
import glob
import http.server
import io
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time

import packfs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def test_every_way_of_reading_gives_the_bytes(image, contents):
    for name, expected in contents.items():
        assert image.read(name) == expected
        assert image.read("/" + name) == expected
        buffer = bytearray(b"?" * (len(expected) + 2))
        assert image.readinto(name, buffer) == len(expected)
        assert buffer == expected + b"??"
        with image.open(name) as file:
            assert isinstance(file, io.BufferedReader)
            assert file.read() == expected
        with image.open(name, buffering=0) as file:
            assert isinstance(file, io.RawIOBase)
            assert file.readall() == expected
    assert image.open("small/001.txt", "r").read() == contents["small/001.txt"].decode()
    assert image.read("link") == contents["small/001.txt"]


def test_names_and_sizes_are_those_of_the_regular_files(image, contents):
    names = image.names()
    assert sorted(names) == sorted([*contents, "attributes"])
    assert len(names) == len(image) == len(image.sizes())
    assert [int(size) for size in image.sizes()] == [len(image.read(name)) for name in names]
    assert list(names) == [names[n] for n in range(len(names))] and names[-1] == list(names)[-1]
    assert names[1:3] == list(names)[1:3]
    for wrong in (len(names), -len(names) - 1):
        with pytest.raises(IndexError):
            names[wrong]
    assert [image[n] for n in range(len(image))] == [image.read(name) for name in names]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_many_reads_equal_single_ones(image, data):
    numbers = data.draw(st.lists(st.integers(-len(image), len(image) - 1), max_size=80))
    batch = image.read_many(numbers, threads=data.draw(st.sampled_from([None, 0, 1, 2, 5])))
    assert [bytes(view) for view in batch] == [image[n] for n in numbers]
    assert len(batch) == len(numbers) and batch.offsets[len(numbers)] == len(batch.data)
    assert [bytes(view) for view in image.__getitems__(numbers)] == [image[n] for n in numbers]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_ranges_and_seeks_equal_slices(image, contents, data):
    name = data.draw(st.sampled_from(sorted(contents)))
    expected = contents[name]
    ends = st.integers(0, len(expected) + 100)
    spans = [sorted(span) for span in data.draw(st.lists(st.tuples(ends, ends), max_size=6))]
    batch = image.read_ranges([(name, start, end) for start, end in spans])
    assert [bytes(view) for view in batch] == [expected[start:end] for start, end in spans]
    with image.open(name) as file:
        for start, end in spans:
            assert file.seek(start) == start
            assert file.read(end - start) == expected[start:end]
            assert file.tell() == max(start, min(end, len(expected)))


def test_read_many_fills_a_buffer_of_the_caller(image, contents):
    names = ["large.txt", "empty", "small/007.txt", "large.txt"]
    expected = b"".join(contents[name] for name in names)
    out = bytearray(len(expected) + 5)
    batch = image.read_many(names, out=out)
    assert out[: len(expected)] == expected and bytes(batch[2]) == contents["small/007.txt"]
    assert image.read_many(["empty"], out=bytearray()).data == b""
    with pytest.raises(packfs.InvalidArgument):
        image.read_many(names, out=bytearray(10))
    with pytest.raises(TypeError):
        image.read_many(names, out=bytes(len(expected)))


def test_directories_and_attributes(image, contents):
    assert image.listdir("small")[:2] == ["000.txt", "001.txt"]
    walked = {os.path.join(top, name).lstrip("/") for top, _, names in image.walk() for name in names}
    assert walked == {*contents, "attributes", "link", "bad-link"}
    kinds = {entry.name: (entry.is_file(), entry.is_dir(), entry.is_symlink()) for entry in image.scandir()}
    assert kinds["small"] == (False, True, False)
    assert kinds["link"] == (True, False, True)
    assert kinds["bad-link"] == (False, False, True)
    status = image.stat("attributes")
    assert (status.st_mode, status.st_uid, status.st_gid) == (stat.S_IFREG | 0o640, 7, 8)
    assert (status.st_size, status.st_mtime_ns) == (1, 10**18)
    assert image.xattrs("attributes") == {"user.a": b"1"}
    assert image.readlink("link") == "small/001.txt"
    assert stat.S_ISLNK(image.stat("link", follow_symlinks=False).st_mode)
    assert image.exists("empty") and not image.exists("gone") and not image.exists("bad-link")
    assert image.glob("small/00[12].txt") == ["small/001.txt", "small/002.txt"]
    assert image.glob("**/x") == image.glob("small/**/er/**/x") == ["small/deep/er/x"]
    assert image.glob("*/deep") == ["small/deep"] and image.glob("gone/*") == image.glob("empty/*") == []
    tops = [top for top, _, _ in image.walk()]
    assert tops == ["/", "/small", "/small/deep", "/small/deep/er"] == [top for top, _, _ in image.walk(topdown=False)][::-1]
    assert set(image.glob("**")) >= set(contents)


def test_walk_and_glob_treat_links_and_slashes_as_python_does(tmp_path, monkeypatch):
    tree = tmp_path / "tree"
    (tree / "a/b/c").mkdir(parents=True)
    (tree / "a/b/file").touch()
    (tree / "file").touch()
    for name, target in (("a/to-b", "b"), ("a/up", ".."), ("to-a", "a"), ("to-file", "file"), ("bad", "gone")):
        (tree / name).symlink_to(target)
    packfs.build(tmp_path / "tree.sqfs", tree)
    image = packfs.open(tmp_path / "tree.sqfs")

    def sorted_walk(walked, top):
        return sorted((os.path.relpath(base, top), sorted(dirs), sorted(others)) for base, dirs, others in walked)

    for topdown in (True, False):
        assert sorted_walk(image.walk("/", topdown), "/") == sorted_walk(os.walk(tree, topdown), tree)
    pruned = [directories.remove("b") or base for base, directories, _ in image.walk("/a") if "b" in directories]
    assert pruned == ["/a"]
    monkeypatch.chdir(tree)
    for pattern in ("*/", "a/*/", "*/*/", "to-a/*", "to-a/to-b/", "*", "file/", "gone/", "a//b/*"):
        assert sorted(image.glob(pattern)) == sorted(os.path.normpath(path) + "/" * path.endswith("/")
                                                     for path in glob.glob(pattern)), pattern
    assert image.glob("**/") == ["a/", "a/b/", "a/b/c/"]


def test_errors_are_those_of_python_too(image, image_path, tmp_path):
    with pytest.raises(FileNotFoundError) as gone:
        image.read("gone")
    assert isinstance(gone.value, packfs.NotFound) and gone.value.errno == errno.ENOENT
    assert gone.value.path == "gone"
    with pytest.raises(NotADirectoryError):
        image.listdir("empty")
    for directory in (image.read, image.open):
        with pytest.raises(packfs.WrongType):
            directory("small")
    with pytest.raises(packfs.NoImage):
        packfs.open(b"text" * 2000)
    with pytest.raises(packfs.NotFound) as gone:
        packfs.open(tmp_path / "gone.sqfs")
    assert gone.value.path == os.fspath(tmp_path / "gone.sqfs")
    with pytest.raises(packfs.SystemFailure):
        packfs.open("http://127.0.0.1:1/no.sqfs")
    with pytest.raises(NotADirectoryError):
        image.scandir("empty")
    with pytest.raises(FileExistsError):
        packfs.build(image_path, [("a", b"")])
    with pytest.raises(packfs.NotFound) as gone:
        image.read_many(["empty", "gone"])
    with pytest.raises(ValueError):
        image.open("empty", "w")


def test_damage_says_which_request_met_it(tmp_path):
    for name, codec in (("a.sqfs", "zstd"), ("a.sqfs", "gzip"), ("a.erofs", "lz4")):
        # Every codec shortens it, so that damage shows; and its data is most of the image.
        words = [f"{n * n:x} ".encode() for n in range(1000, 1100)]
        pick = random.Random(1)
        files = {f"{n:02}": b"".join(pick.choices(words, k=10_000)) for n in range(30)}
        packfs.build(tmp_path / name, files.items(), codec=codec, force=True)
        data = bytearray((tmp_path / name).read_bytes())
        third = len(data) // 3
        data[third : 2 * third] = b"\xff" * third
        image = packfs.open(data)
        failed = []
        for number in range(len(image)):
            try:
                assert image[number] == files[image.names()[number]]
            except packfs.Damaged as error:
                assert error.request is None
                failed.append(number)
        assert 0 < len(failed) < len(image)
        named = set()
        for threads in (1, 3):
            with pytest.raises(packfs.Damaged) as damaged:
                image.read_many(range(len(image)), threads=threads)
            named.add(damaged.value.request)
            assert pickle.loads(pickle.dumps(damaged.value)).request == damaged.value.request
        # A file that shares a damaged unit may still be read: no file before the named one fails.
        (first,) = named
        assert first in failed
        assert [bytes(view) for view in image.read_many(range(first))] == [files[name] for name in image.names()[:first]]
        assert any(finding.severity == "damage" for finding in image.check())


def test_wrong_arguments_are_said_to_be_wrong(image):
    calls = [
        lambda: image["empty"],
        lambda: image[1.0],
        lambda: image.read_many([0, 1.0]),
        lambda: image.read_many("empty"),
        lambda: image.read_many(b"empty"),
        lambda: image.prefetch("empty"),
        lambda: image.read_ranges("empty"),
        lambda: packfs.open(None),
        lambda: packfs.open(5),
        lambda: packfs.dump.split("source", "parts"),
        lambda: packfs.dump.join("parts", "target"),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()


def test_missing_files_say_which_request_they_were(image):
    reads = [
        lambda: image.read_many(["empty", 0, "gone"]),
        lambda: image.read_many(["empty", 0, "gone"], out=bytearray(9)),
        lambda: image.read_ranges([("empty", 0, 1), (0, 0, 1), ("gone", 0, 1)]),
    ]
    for read in reads:
        with pytest.raises(packfs.NotFound) as gone:
            read()
        assert (gone.value.request, gone.value.path) == (2, "gone")
    with pytest.raises(IndexError) as beyond:
        image.read_many([0, len(image)])
    assert beyond.value.request == 1


def test_a_file_object_may_be_closed_by_its_owner(image_path, contents, tmp_path):
    own, other = os.fspath(tmp_path / "own"), os.fspath(tmp_path / "other")
    shutil.copy(image_path, own)
    with open(other, "wb") as file:
        file.truncate(os.path.getsize(own))
    for buffering in (-1, 0):
        with open(own, "rb", buffering) as file:
            opened = packfs.open(file, cache=0)
        with open(other, "rb"):
            assert opened.read("large.txt") == contents["large.txt"]
        opened.close()
        with pytest.raises(ValueError, match="closed"):
            opened.read("large.txt")
        assert repr(opened) == "<packfs.Image in a file object>"
        with pytest.raises(TypeError):
            pickle.dumps(opened)
    assert own not in [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]


class ShortReads(io.BytesIO):
    """A stream that returns fewer bytes than it is asked for, as raw streams may."""

    def read(self, size=-1):
        return super().read(min(size, 777) if size > 0 else size)


def test_file_objects_may_return_less_than_they_are_asked_for(image_path, contents):
    with open(image_path, "rb") as file:
        opened = packfs.open(ShortReads(file.read()), cache=0)
    assert opened.read("large.txt") == contents["large.txt"]
    assert not [finding for finding in opened.check() if finding.severity == "damage"]


class Broken(Exception):
    pass


class BreakingFile(io.BytesIO):
    raised = None

    def read(self, size=-1):
        if self.raised is not None:
            raise self.raised
        return super().read(size)


def test_exceptions_of_file_objects_come_through(image_path, contents, tmp_path):
    with open(image_path, "rb") as file:
        data = file.read()
    file = BreakingFile(data)
    opened = packfs.open(file, cache=0)
    calls = [
        lambda: opened.read("large.txt"),
        lambda: opened.read_many(range(len(opened))),
        lambda: opened.open("large.txt").read(),
        lambda: packfs.build(tmp_path / "again.sqfs", opened),
        lambda: packfs.open(file),
    ]
    opened.names()
    errors = [Broken("no"), OSError(5, "no"), MemoryError("no"), InterruptedError("no")]
    for raised in (*errors, KeyboardInterrupt(), SystemExit(3)):
        file.raised = raised
        for call in calls:
            with pytest.raises(type(raised)) as caught:
                call()
            assert caught.value is raised
    file.raised = None
    assert opened.read("large.txt") == contents["large.txt"]
    with pytest.raises(TypeError):
        packfs.open(io.StringIO("text"))


@pytest.fixture
def silent_server(tmp_path):
    """The address of an image that a server offers until the event is set; then it takes requests and never answers."""
    # Each file more than what is read ahead.
    packfs.build(tmp_path / "a.sqfs", [(f"{n}", random.Random(n).randbytes(3 << 20)) for n in range(6)], codec="lz4")
    data = (tmp_path / "a.sqfs").read_bytes()
    is_silent = threading.Event()
    ended = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if is_silent.is_set():
                ended.wait(60)
                self.close_connection = True
                return
            first, _, last = self.headers["Range"].partition("=")[2].partition("-")
            # Without a first, the last so many.
            start = int(first) if first else max(len(data) - int(last), 0)
            part = data[start : int(last) + 1 if first and last else len(data)]
            self.send_response(206)
            self.send_header("ETag", '"1"')
            self.send_header("Content-Range", f"bytes {start}-{start + len(part) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield is_silent, f"http://127.0.0.1:{server.server_address[1]}/image"
    ended.set()
    server.shutdown()
    server.server_close()


def test_ctrl_c_ends_waiting_for_a_server(silent_server):
    is_silent, address = silent_server
    first = packfs.open(address, cache=0)
    expected = random.Random(0).randbytes(3 << 20)
    assert first.read("0") == expected
    assert [bytes(view) for view in first.read_many(["0", 0])] == [expected, expected]
    assert first.readinto("0", bytearray(20)) == 20
    with pytest.raises(packfs.NotFound) as gone:
        first.read_many([0, "gone"])
    assert gone.value.request == 1
    # Another one, which has read nothing ahead.
    opened = packfs.open(address, cache=0)
    is_silent.set()
    calls = [
        lambda: packfs.open(address),
        lambda: opened.read("2"),
        lambda: opened.read_many(["3"]),
        lambda: opened.readinto("5", bytearray(1000)),
    ]
    for call in calls:
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            call()
        timer.join()
        assert time.monotonic() - begun < 20


EXITING = """
import sys, threading, time, packfs

class File:
    def __init__(self, path):
        self.file = open(path, "rb")
    def seek(self, *at):
        return self.file.seek(*at)
    def read(self, size):
        return self.file.read(size)

path, kind = sys.argv[1:]
image = packfs.open(File(path) if kind == "object" else path, cache=0)

def work():
    while True:
        if kind == "errors":
            try:
                image.read("gone")
            except packfs.NotFound:
                pass
        elif kind == "check":
            image.check()
        elif kind == "many":
            image.read_many(range(len(image)))
        else:
            image.read("small/005.txt")

image.names()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""


@pytest.mark.parametrize("kind", ["read", "many", "check", "errors", "object"])
def test_the_interpreter_exits_while_daemon_threads_read(tmp_path, contents, kind):
    packfs.build(tmp_path / "a.sqfs", contents.items())
    for _ in range(4):
        command = [sys.executable, "-c", EXITING, tmp_path / "a.sqfs", kind]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (ended.returncode, ended.stderr) == (0, "")


def test_a_closed_image_says_so(image_path):
    with packfs.open(image_path) as image:
        file = image.open("large.txt")
        assert file.read(5) == b"line "
    with pytest.raises(ValueError, match="closed"):
        image.read("large.txt")
    assert pickle.loads(pickle.dumps(image)).read("empty") == b""


def test_trees_deeper_than_the_stack_are_walked(tmp_path):
    depth = 2 * sys.getrecursionlimit()
    packfs.build(tmp_path / "a.sqfs", [("d/" * depth + "x", b"deep")])
    image = packfs.open(tmp_path / "a.sqfs")
    assert len(list(image.walk())) == len(list(image.walk(topdown=False))) == depth + 1
    assert image.glob("**/x") == list(image.names())
    assert image[0] == b"deep"


def test_every_source_is_the_same_image(image, image_path, tmp_path):
    with open(image_path, "rb") as file:
        data = file.read()
    shifted = tmp_path / "shifted"
    shifted.write_bytes(bytes(8192) + data)
    sources = [
        packfs.open(data),
        packfs.open(bytearray(data)),
        packfs.open(io.BytesIO(data)),
        packfs.open(open(image_path, "rb")),
        packfs.open(shifted, offset=8192),
        packfs.open(bytes(100) + data, offset=100),
        packfs.open(image_path, cache=0),
    ]
    for other in sources:
        assert image.diff(other) == []
        assert bytes(other.read_many(range(len(image))).data) == bytes(image.read_many(range(len(image))).data)


def test_pickles_open_the_same_image_again(image, image_path, tmp_path):
    copy = tmp_path / "copy.img"
    with open(image_path, "rb") as file:
        copy.write_bytes(file.read())
    opened = packfs.open(copy)
    again = pickle.loads(pickle.dumps(opened))
    assert again.read("large.txt") == image.read("large.txt")
    assert pickle.loads(pickle.dumps(packfs.open(copy.read_bytes()))).names()[0] == image.names()[0]
    pickled = pickle.dumps(opened)
    copy.write_bytes(copy.read_bytes() + b"more")
    with pytest.raises(packfs.Changed):
        pickle.loads(pickled)
    with pytest.raises(TypeError):
        pickle.dumps(packfs.open(io.BytesIO(b"".join([copy.read_bytes()]))))


def test_a_forked_child_reads_while_the_parent_does(image, contents):
    stop = threading.Event()

    def keep_reading():
        while not stop.is_set():
            image.read_many(range(len(image)))

    threads = [threading.Thread(target=keep_reading) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                batch = image.read_many(["large.txt", "noise.bin"])
                os._exit(0 if bytes(batch.data) == contents["large.txt"] + contents["noise.bin"] else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes_read(image, contents, method):
    names = ["large.txt", "noise.bin", "empty"]
    numbers = [list(image.names()).index(name) for name in names]
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(image.read, names) == [contents[name] for name in names]
        assert pool.map(image.__getitems__, [numbers]) == [[contents[name] for name in names]]
        with pytest.raises(packfs.NotFound):
            pool.map(image.read, ["gone"])


def test_threads_share_an_image(image, contents):
    names = sorted(contents)
    wrong = []

    def read_all(shift):
        for n in range(len(names)):
            name = names[(n + shift) % len(names)]
            if image.read(name) != contents[name]:
                wrong.append(name)

    threads = [threading.Thread(target=read_all, args=(shift * 31,)) for shift in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("ending", ["sqfs", "erofs"])
def test_a_small_image_of_holes_takes_no_memory(tmp_path, ending):
    source = tmp_path / "source"
    source.mkdir()
    with open(source / "hole", "wb") as file:
        file.write(b"beginning")
        file.truncate(3 << 30)
    path = tmp_path / f"image.{ending}"
    packfs.build(path, source)
    assert path.stat().st_size < 3 << 20
    image = packfs.open(path)
    reads = [
        lambda image: image.read("hole"),
        lambda image: image[0],
        lambda image: image.read_many(["hole"]),
        lambda image: image.__getitems__([0]),
        lambda image: image.open("hole", buffering=0).readall(),
        lambda image: image.open("hole").read(),
    ]
    for read in reads:
        with pytest.raises(packfs.OutOfMemory, match="3221225472 bytes in memory, more than the limit of 1073741824") as raised:
            read(image)
        assert isinstance(raised.value, MemoryError)
    assert image.read_ranges([("hole", 4, 12)]).data == b"nning\0\0\0"
    assert image.readinto("hole", bytearray(7)) == 7
    # A pickle and a fork keep the limit.
    small = packfs.open(path, read_limit=7)
    for opened in (small, pickle.loads(pickle.dumps(small))):
        assert opened.read_ranges([("hole", 0, 7)]).data == b"beginni"
        with pytest.raises(packfs.OutOfMemory) as raised:
            opened.read_ranges([("hole", 0, 4), ("hole", 0, 4)])
        assert raised.value.request == 1


def test_prefetched_batches_equal_those_read_at_once(image, contents):
    numbers = list(range(len(image)))
    random.Random(2).shuffle(numbers)
    batches = [numbers[first : first + 50] for first in range(0, len(numbers), 50)]
    pending = [image.prefetch(iter(batch)) for batch in batches]
    for batch, future in zip(batches, pending):
        assert [bytes(view) for view in future.result(timeout=60)] == [image[n] for n in batch]
    assert [bytes(view) for view in image.prefetch(["empty", "large.txt"], threads=1).result()] == [b"", contents["large.txt"]]
    assert len(image.prefetch([]).result()) == 0
    # The error comes with the result, as of the call itself.
    wanted = [0, "nowhere"]
    future = image.prefetch(wanted)
    wanted.clear()
    with pytest.raises(packfs.NotFound):
        future.result(timeout=60)
    # A batch that was asked for before the image is closed is read, or says that it is closed.
    last = image.prefetch(numbers)
    image.close()
    try:
        assert len(last.result(timeout=60)) == len(numbers)
    except ValueError as error:
        assert "closed" in str(error)
    with pytest.raises(ValueError, match="closed"):
        image.prefetch([0])


def _prefetch_in_child(image, expected):
    os._exit(0 if bytes(image.prefetch([0]).result(timeout=60)[0]) == expected else 1)


def test_a_forked_child_prefetches_on_its_own(image):
    expected = image[0]
    assert bytes(image.prefetch([0]).result()[0]) == expected
    child = multiprocessing.get_context("fork").Process(target=_prefetch_in_child, args=(image, expected))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    pickled = pickle.loads(pickle.dumps(image))
    assert bytes(pickled.prefetch([0]).result()[0]) == expected
