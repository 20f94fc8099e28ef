"""Samples: compared with the package webdataset, and with all orders and shards."""

import collections.abc
import io
import pickle
import random
import sys
import tarfile
import types

import packfs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def by_key(samples):
    found = {}
    for sample in samples:
        assert sample["__key__"] not in found
        found[sample["__key__"]] = {name: data for name, data in sample.items() if not name.startswith("__")}
    return found


def files_of(count, size=500):
    noise = random.Random(count)
    for n in range(count):
        yield f"{n // 100:03}/{n:06}.jpg", noise.randbytes(size)
        yield f"{n // 100:03}/{n:06}.cls", b"%d" % n


@pytest.fixture(scope="module")
def sample_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("samples") / "set.sqfs"
    packfs.build(path, files_of(1000))
    return path


PARTS = st.text("ab._-", min_size=1, max_size=4).filter(lambda part: part not in (".", ".."))
EXTENSIONS = st.sampled_from(["jpg", "JSON", "seg.png", "x", ""])
# Names with any dots, and directories whose names begin as those of files do.
PATHS = st.builds(lambda parts, name, end: "/".join([*parts, f"{name}.{end}"]), st.lists(PARTS, max_size=2), PARTS, EXTENSIONS)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(PATHS, st.binary(max_size=50), min_size=1, max_size=25), seed=st.none() | st.integers(0, 3))
def test_samples_are_those_of_webdataset(tmp_path, files, seed):
    webdataset = pytest.importorskip("webdataset")
    # What is a directory here cannot be a file, and webdataset has its own idea of hidden files.
    directories = {"/".join(name.split("/")[:end]) for name in files for end in range(1, name.count("/") + 1)}
    files = {name: data for name, data in files.items() if name not in directories and not name.split("/")[-1].startswith(".")}
    lower = {name.rsplit("/", 1)[-1].partition(".")[2].lower() and name.lower() for name in files}
    if len(lower) != len(files) or not files:
        return
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        # webdataset groups only files that follow each other.
        for name in sorted(files, key=lambda name: (name.rpartition("/")[0], name.rpartition("/")[2].partition("."))):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            archive.addfile(member, io.BytesIO(files[name]))
    packfs.build(tmp_path / "a.sqfs", tmp_path / "a.tar", force=True)
    expected = by_key(webdataset.WebDataset([str(tmp_path / "a.tar")], shardshuffle=False))
    assert by_key(packfs.SampleDataset(tmp_path / "a.sqfs", seed=seed, buffer=400)) == expected


@settings(max_examples=30, deadline=None)
@given(count=st.integers(1, 9), seed=st.none() | st.integers(0, 5), buffer=st.sampled_from([1, 20_000, 1 << 20]))
def test_shards_have_every_sample_once(sample_path, count, seed, buffer):
    whole = packfs.SampleDataset(sample_path, buffer=buffer)
    expected = [sample["__key__"] for sample in whole]
    assert expected == sorted(expected) and len(expected) == len(whole) == 1000
    keys = []
    for index in range(count):
        shard = packfs.SampleDataset(sample_path, shard=(index, count), seed=seed, buffer=buffer)
        own = [sample["__key__"] for sample in shard]
        assert len(own) == len(shard) and len(own) in (1000 // count, -(-1000 // count))
        keys += own
    assert sorted(keys) == expected
    assert (keys == expected) == (seed is None)


def test_the_order_depends_on_seed_and_epoch_only(sample_path):
    def keys(samples):
        return [sample["__key__"] for sample in samples]

    first, again = (packfs.SampleDataset(sample_path, seed=1, buffer=100_000) for _ in range(2))
    epochs = [keys(first) for _ in range(3)]
    assert [keys(again) for _ in range(3)] == epochs
    assert len({tuple(order) for order in epochs}) == 3
    assert keys(packfs.SampleDataset(sample_path, seed=2, buffer=100_000)) not in epochs
    again.set_epoch(1)
    assert keys(pickle.loads(pickle.dumps(again))) == keys(again) == epochs[1]
    # Samples move far: a shuffle of one buffer alone would keep them near.
    moved = [abs(position - sorted(epochs[0]).index(key)) for position, key in enumerate(epochs[0])]
    assert sum(moved) / len(moved) > 200


def test_samples_of_many_images(tmp_path):
    files = list(files_of(300))
    for number in range(3):
        packfs.build(tmp_path / f"{number}.sqfs", files[number * 200 : number * 200 + 200])
    images = [tmp_path / "0.sqfs", packfs.open(tmp_path / "1.sqfs"), (tmp_path / "2.sqfs").read_bytes()]
    expected = {name.partition(".")[0]: {} for name, _ in files}
    for name, data in files:
        key, _, extension = name.partition(".")
        expected[key][extension] = data
    for seed in (None, 7):
        assert by_key(packfs.SampleDataset(images, seed=seed, buffer=9000)) == expected
    assert len(packfs.SampleDataset(images, shard=(1, 3))) == 100
    assert list(packfs.SampleDataset([])) == []


class CountedFile(io.BytesIO):
    amount = 0

    def read(self, size=-1):
        data = super().read(size)
        CountedFile.amount += len(data)
        return data


@pytest.mark.parametrize("seed", [None, 3])
def test_each_block_is_read_once(tmp_path, seed):
    words = random.Random(1)
    files = [(f"{n:05}.txt", b" ".join(b"%d" % words.randrange(10**6) for _ in range(150))) for n in range(10_000)]
    packfs.build(tmp_path / "a.sqfs", files, codec="zstd")
    # Without a cache, so that what is read twice is counted twice.
    image = packfs.open(CountedFile((tmp_path / "a.sqfs").read_bytes()), cache=0)
    samples = packfs.SampleDataset(image, buffer=16 << 20, seed=seed)
    assert len(samples) == len(files)
    CountedFile.amount = 0
    image.read_many(range(len(files)))
    at_once, CountedFile.amount = CountedFile.amount, 0
    assert sum(len(sample["txt"]) for sample in samples) == sum(len(data) for _, data in files)
    # Blocks at the border of two chunks are read for both.
    assert CountedFile.amount < 1.05 * at_once


def test_errors_name_the_file(tmp_path, sample_path):
    for wrong in ((1, 1), (-1, 2), (0, 0)):
        with pytest.raises(packfs.InvalidArgument):
            packfs.SampleDataset(sample_path, shard=wrong)
    packfs.build(tmp_path / "a.sqfs", [("a.jpg", b""), ("a.JPG", b"")])
    with pytest.raises(packfs.InvalidArgument, match="a.jpg"):
        list(packfs.SampleDataset(tmp_path / "a.sqfs"))
    text = b"".join(b"%d " % (n * n) for n in range(100_000))
    packfs.build(tmp_path / "b.sqfs", [("a.txt", text), ("b.txt", text[::-1])], codec="zstd")
    damaged = bytearray((tmp_path / "b.sqfs").read_bytes())
    third = len(damaged) // 3
    damaged[third * 2 : third * 2 + 50_000] = bytes(50_000)
    with pytest.raises(packfs.Damaged) as raised:
        list(packfs.SampleDataset(bytes(damaged)))
    assert raised.value.path in ("a.txt", "b.txt")


def test_an_iteration_may_be_left(sample_path):
    samples = packfs.SampleDataset(sample_path, buffer=20_000)
    iteration = iter(samples)
    first = next(iteration)
    iteration.close()
    assert next(iter(samples)) == first


@pytest.fixture
def torch_data(monkeypatch):
    """What loaders of PyTorch ask for: the class of iterables, and the worker of the process."""
    module = types.ModuleType("torch.utils.data")

    class IterableDataset(collections.abc.Iterable):
        pass

    module.IterableDataset = IterableDataset
    module.worker = None
    module.get_worker_info = lambda: module.worker
    monkeypatch.setitem(sys.modules, "torch.utils.data", module)
    return module


def test_workers_of_a_loader_divide_the_shard(torch_data, sample_path):
    samples = packfs.SampleDataset(sample_path, shard=(1, 2), seed=4)
    assert isinstance(samples, torch_data.IterableDataset)
    whole = sorted(sample["__key__"] for sample in samples)
    assert len(whole) == len(samples) == 500
    keys = []
    for number in range(3):
        torch_data.worker = types.SimpleNamespace(id=number, num_workers=3)
        samples.set_epoch(0)
        keys += [sample["__key__"] for sample in samples]
        assert len(samples) == 500
    assert sorted(keys) == whole


def test_a_loader_of_pytorch_takes_them(sample_path):
    torch = pytest.importorskip("torch")
    samples = packfs.SampleDataset(sample_path, seed=1)
    for workers in (0, 2):
        loader = torch.utils.data.DataLoader(samples, batch_size=10, num_workers=workers)
        batches = list(loader)
        assert len(batches) == len(loader) == 100
        keys = sorted(key for batch in batches for key in batch["__key__"])
        assert len(set(keys)) == 1000 and batches[0]["cls"][0].isdigit()
