"""Batches as arrays: without a copy, and in memory as long as anybody uses them."""

import gc
import tracemalloc

import packfs
import pytest

numpy = pytest.importorskip("numpy")

LEN = 5_000_000


class Given:
    """Something that gives away one capsule, again and again."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **_):
        return self.capsule

    def __dlpack_device__(self):
        return (1, 0)


@pytest.fixture
def large(tmp_path):
    packfs.build(tmp_path / "a.sqfs", [(f"{n:02}", bytes([n]) * (LEN // 50)) for n in range(50)])
    return packfs.open(tmp_path / "a.sqfs")


def is_large_in_memory():
    """Returns true if Python has memory for a batch."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] > LEN


@pytest.fixture
def traced():
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_arrays_share_the_memory_of_the_batch(image, contents):
    names = ["large.txt", "empty", "small/007.txt"]
    batch = image.read_many(names)
    array = numpy.from_dlpack(batch)
    assert (array.dtype, array.shape) == (numpy.uint8, (len(batch.data),))
    assert array.tobytes() == bytes(batch.data) == contents["large.txt"] + contents["small/007.txt"]
    assert numpy.shares_memory(array, numpy.frombuffer(batch.data, numpy.uint8))
    batch.data[0] ^= 1
    assert array[0] == batch.data[0] == batch[0][0] == contents["large.txt"][0] ^ 1
    assert batch.__dlpack_device__() == (1, 0)
    # Of a buffer of the caller as well.
    out = bytearray(len(array) + 100)
    array = numpy.from_dlpack(image.read_many(names, out=out))
    out[0] = 77
    assert array[0] == 77 and len(array) == len(batch.data)
    assert numpy.from_dlpack(image.read_many(["empty"])).shape == (0,)
    # As the guide says.
    writable = numpy.frombuffer(batch.data, numpy.uint8)
    writable[1] ^= 1
    assert batch.data[1] == contents["large.txt"][1] ^ 1


def test_memory_stays_with_the_array_and_goes_with_it(large, traced):
    capsule = large.read_many(range(50)).__dlpack__()
    assert is_large_in_memory()
    array = numpy.from_dlpack(Given(capsule))
    del capsule
    assert is_large_in_memory()
    part = array[LEN // 50 * 30 :]
    del array
    assert is_large_in_memory() and (part[: LEN // 50] == 30).all()
    del part
    assert not is_large_in_memory()


def test_a_capsule_that_nobody_takes_releases_the_memory(large, traced):
    batch = large.read_many(range(50))
    capsules = [batch.__dlpack__() for _ in range(3)]
    del batch
    assert is_large_in_memory()
    while capsules:
        assert is_large_in_memory()
        capsules.pop()
    assert not is_large_in_memory()


def test_a_capsule_is_taken_once(large, traced):
    given = Given(large.read_many(range(50)).__dlpack__())
    array = numpy.from_dlpack(given)
    with pytest.raises(Exception, match="(?i)dltensor|capsule"):
        numpy.from_dlpack(given)
    del given
    assert is_large_in_memory() and array[-1] == 49
    del array
    assert not is_large_in_memory()


def test_memory_of_a_taken_batch_cannot_be_resized(image):
    batch = image.read_many(["large.txt"])
    data = batch.data
    capsule = batch.__dlpack__()
    del batch
    gc.collect()
    with pytest.raises(BufferError):
        data.clear()
    del capsule
    gc.collect()
    data.clear()


def test_what_is_asked_for_in_vain_is_refused(image):
    batch = image.read_many(["large.txt"])
    for wrong in ({"stream": 1}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError):
            batch.__dlpack__(**wrong)
    copied = numpy.from_dlpack(Given(batch.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=True)))
    assert copied.tobytes() == bytes(batch.data)
    assert not numpy.shares_memory(copied, numpy.frombuffer(batch.data, numpy.uint8))
