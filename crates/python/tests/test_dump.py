"""Splitting and joining: compared with the command line program, in both directions."""

import fcntl
import io
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import threading

import packfs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def parts_in(directory, count):
    return [directory / f"{number}.part" for number in range(count)]


@pytest.fixture
def dump(tmp_path):
    """A file of zeros, a repeated pattern, text and noise."""
    noise = random.Random(3)
    text = b"".join(b"line %d\n" % n for n in range(100_000))
    content = bytes(700_000) + b"pattern!" * 50_000 + text + noise.randbytes(1_500_001) + bytes(300_000)
    (tmp_path / "dump").write_bytes(content)
    return tmp_path / "dump"


@pytest.fixture
def program():
    found = shutil.which("packfs")
    if found is None:
        pytest.skip("the program packfs is not in PATH")
    return found


CODECS = ["raw", "lz4", "zstd", "zstd:3", "gzip", "xz", "lzo"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_bytes_come_back(tmp_path, data):
    pieces = data.draw(st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 3000)), max_size=8))
    content = b"".join(piece * times for piece, times in pieces)
    (tmp_path / "any").write_bytes(content)
    count = data.draw(st.integers(1, 4))
    parity = data.draw(st.integers(0, count - 1))
    options = {
        "codec": data.draw(st.sampled_from(CODECS)),
        "chunk_size": data.draw(st.sampled_from([4096, 65536])),
        "threads": data.draw(st.sampled_from([0, 1, 3])),
        "dedup": data.draw(st.booleans()),
    }
    parts = parts_in(tmp_path, count)
    summary = packfs.dump.split(tmp_path / "any", parts, parity=parity, force=True, **options)
    assert (summary.size, summary.problems) == (len(content), [])
    assert [part.path for part in summary.parts] == [os.fspath(part) for part in parts]
    left = data.draw(st.permutations(parts))[parity:]
    target = io.BytesIO()
    joined = packfs.dump.join(left, target, threads=data.draw(st.sampled_from([0, 2])))
    assert target.getvalue() == content and joined.size == len(content) and joined.lost == []
    packfs.dump.join(left, tmp_path / "back", force=True)
    assert (tmp_path / "back").read_bytes() == content


@pytest.mark.parametrize("codec", CODECS)
def test_the_program_joins_what_was_split_here_and_the_reverse(dump, tmp_path, program, codec):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    packfs.dump.split(dump, parts_in(here, 3), codec=codec, parity=1, chunk_size=65536, threads=2)
    chosen = ["--codec", codec, "--parity", "1", "--chunk", "64K", "-j", "2", "-q"]
    outputs = [argument for part in parts_in(there, 3) for argument in ("-o", part)]
    subprocess.run([program, "split", dump, *outputs, *chosen], check=True)
    described = []
    for place in (here, there):
        told = subprocess.run([program, "info", *parts_in(place, 3), "--json"], check=True, capture_output=True).stdout
        told = json.loads(told)
        described.append({key: value for key, value in told.items() if key in ("codec", "chunk_size", "parity", "size", "format")})
        # Without the first part.
        subprocess.run([program, "join", *parts_in(place, 3)[1:], "-o", place / "program", "-q"], check=True)
        restored = packfs.dump.join(parts_in(place, 3)[1:], place / "package").restored
        assert restored == [] or restored[0].path is None
        assert (place / "program").read_bytes() == (place / "package").read_bytes() == dump.read_bytes()
    assert described[0] == described[1] and len(described[0]) == 5
    # Each finds in the parts of the other that nothing is left to do, for which all options have to be the same.
    done = packfs.dump.split(dump, parts_in(there, 3), codec=codec, parity=1, chunk_size=65536, threads=2, resume=True)
    assert done.resumed_bytes == done.size == dump.stat().st_size
    outputs = [argument for part in parts_in(here, 3) for argument in ("-o", part)]
    subprocess.run([program, "split", dump, *outputs, *chosen, "--resume"], check=True)


def test_lost_bytes_are_an_error_or_listed(dump, tmp_path):
    parts = parts_in(tmp_path, 2)
    packfs.dump.split(dump, parts, codec="raw", chunk_size=65536, memory=64 << 20)
    target = tmp_path / "back"
    content = dump.read_bytes()
    # Whichever part was free took the next segment: on a busy machine one of them may have all of the data.
    needed = [part for part in parts if part.stat().st_size > len(content) // 10]
    assert needed
    for number, part in enumerate(parts, 1):
        if part not in needed:
            continue
        left = [other for other in parts if other != part]
        for given in (target, io.BytesIO()):
            with pytest.raises(packfs.Incomplete, match="of the dump are lost"):
                packfs.dump.join(left, given)
        assert not target.exists()
        joined = packfs.dump.join(left, target, partial=True)
        back = target.read_bytes()
        at = 0
        for start, end, why in [*joined.lost, packfs.dump.LostRange(len(content), len(content), "")]:
            assert back[at:start] == content[at:start] and back[start:end] == bytes(end - start)
            at = end
        assert joined.lost and all(f"part {number}" in lost.why for lost in joined.lost)
        target.unlink()


def test_parity_restores_a_damaged_part(dump, tmp_path):
    parts = parts_in(tmp_path, 3)
    packfs.dump.split(dump, parts, codec="raw", parity=1)
    restored = []
    for part in parts:
        sound = part.read_bytes()
        # All segments: whichever part was free took the next, so that one of them may have parity only.
        part.write_bytes(sound[:5000] + bytes(len(sound) - 10_000) + sound[-5000:])
        target = io.BytesIO()
        joined = packfs.dump.join(parts, target)
        assert target.getvalue() == dump.read_bytes()
        assert {one.path for one in joined.restored} <= {os.fspath(part)}
        restored += joined.restored
        part.write_bytes(sound)
    assert restored and all(one.size > 0 for one in restored)


def test_parts_and_targets_are_private_and_never_replaced_unasked(dump, tmp_path):
    parts = parts_in(tmp_path, 2)
    packfs.dump.split(dump, parts)
    packfs.dump.join(parts, tmp_path / "back")
    assert {stat.S_IMODE(path.stat().st_mode) for path in [*parts, tmp_path / "back"]} == {0o600}
    with pytest.raises(packfs.Exists) as exists:
        packfs.dump.split(dump, parts)
    assert exists.value.path == os.fspath(parts[0]) and isinstance(exists.value, FileExistsError)
    with pytest.raises(packfs.Exists):
        packfs.dump.join(parts, tmp_path / "back")
    with pytest.raises(packfs.InvalidArgument, match="one of the parts"):
        packfs.dump.join(parts, parts[0], force=True)
    packfs.dump.split(dump, parts, force=True)
    packfs.dump.join(parts, tmp_path / "back", force=True)
    assert (tmp_path / "back").read_bytes() == dump.read_bytes()


def test_wrong_use_is_named(dump, tmp_path):
    parts = parts_in(tmp_path, 2)
    for wrong in ({"codec": "unknown"}, {"codec": "zstd:99"}, {"chunk_size": 5000}, {"parity": 2}, {"memory": 1 << 20}):
        with pytest.raises(packfs.InvalidArgument):
            packfs.dump.split(dump, parts, **wrong)
    with pytest.raises(packfs.InvalidArgument):
        packfs.dump.split(dump, [])
    with pytest.raises(packfs.NotFound):
        packfs.dump.split(tmp_path / "nowhere", parts)
    with pytest.raises(packfs.InvalidArgument):
        packfs.dump.split(tmp_path, parts)
    with pytest.raises(packfs.NotFound):
        packfs.dump.join(parts, tmp_path / "back")
    with pytest.raises(packfs.Damaged):
        packfs.dump.join([dump], tmp_path / "back")
    assert os.listdir(tmp_path) == ["dump"]


def test_a_part_that_fails_is_an_error_with_all_data_in_the_others(dump, tmp_path):
    parts = [tmp_path / "a.part", tmp_path / "fifo"]
    os.mkfifo(parts[1])

    def leave():
        # Less than a part without data has: its writer is still busy when this reader leaves.
        with open(parts[1], "rb") as reader:
            fcntl.fcntl(reader, 1031, 4096)  # F_SETPIPE_SZ, which Python 3.9 does not name.

    reader = threading.Thread(target=leave)
    reader.start()
    with pytest.raises(packfs.Incomplete, match="fifo: abandoned") as raised:
        packfs.dump.split(dump, parts, codec="raw")
    reader.join()
    assert raised.value.summary.size == dump.stat().st_size
    target = io.BytesIO()
    packfs.dump.join(parts[:1], target)
    assert target.getvalue() == dump.read_bytes()


def test_progress_is_reported_and_its_exception_ends_the_work(dump, tmp_path):
    seen = []
    parts = parts_in(tmp_path, 2)
    packfs.dump.split(dump, parts, progress=lambda *counters: seen.append(counters))
    packfs.dump.join(parts, io.BytesIO(), progress=lambda *counters: seen.append(counters))
    size = dump.stat().st_size
    assert [counters for counters in seen if counters[0] == "done"] == [("done", size, size)] * 2


def endless_pipe(path, then):
    """Feeds a FIFO until its reader leaves; calls `then` after a while."""
    with open(path, "wb", buffering=0) as pipe:
        threading.Timer(0.3, then).start()
        try:
            while True:
                pipe.write(os.urandom(1 << 16))
        except BrokenPipeError:
            pass


def test_ctrl_c_ends_a_split_and_what_is_written_can_be_read(tmp_path):
    fifo, parts = tmp_path / "fifo", parts_in(tmp_path, 2)
    os.mkfifo(fifo)
    feeder = threading.Thread(target=endless_pipe, args=(fifo, lambda: os.kill(os.getpid(), signal.SIGINT)))
    feeder.start()
    with pytest.raises(KeyboardInterrupt):
        packfs.dump.split(fifo, parts, codec="raw", chunk_size=4096)
    feeder.join()
    joined = packfs.dump.join(parts, tmp_path / "back", partial=True)
    assert joined.open_end is not None and joined.size > 0


def test_exceptions_of_a_target_come_through(dump, tmp_path):
    class Broken(Exception):
        pass

    class BrokenFile(io.RawIOBase):
        def write(self, data):
            raise Broken("no more")

    parts = parts_in(tmp_path, 1)
    packfs.dump.split(dump, parts)
    with pytest.raises(Broken, match="no more"):
        packfs.dump.join(parts, BrokenFile())

    def stop(phase, done, total):
        raise KeyboardInterrupt

    class SlowFile(io.RawIOBase):
        def write(self, data):
            threading.Event().wait(0.05)
            return min(len(data), 1000)

    with pytest.raises(KeyboardInterrupt):
        packfs.dump.join(parts, SlowFile(), progress=stop)
