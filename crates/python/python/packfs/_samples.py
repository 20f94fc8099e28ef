"""Samples of a data set: files of one stem, in an order for training.

The samples of an image are listed once, and cut into chunks of adjacent ones. An epoch puts the chunks in an order, of which
each shard takes a part, and reads several chunks in one call: files that share blocks are read together.
"""

from __future__ import annotations

import os
import random
import sys
from array import array
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from ._errors import Error, InvalidArgument
from ._image import Batch, Image
from ._image import open as open_image

#: Bytes that are read in one call, unless told otherwise.
DEFAULT_BUFFER = 32 << 20
# Chunks in a buffer. With more of them a shuffle mixes better, and more blocks lie at the border of two chunks, so that
# they are decoded twice: of chunks of 4 MiB and blocks of 128 KiB it is one in 32.
_CHUNKS_IN_BUFFER = 8
# Samples in a chunk, at most: their files are requests of one call, which take memory even if the files are empty.
_CHUNK_SAMPLES = 4096


class _SampleList(NamedTuple):
    """The samples of an image. Chunks, and the files of samples, are given by their ends."""

    #: Numbers of files, those of a sample one after the other.
    files: "array[int]"
    sample_ends: "array[int]"
    chunk_ends: "array[int]"

    def files_of(self, sample: int) -> "array[int]":
        return self.files[self.sample_ends[sample - 1] if sample else 0 : self.sample_ends[sample]]


class _Chunk(NamedTuple):
    """Adjacent samples of an image, or some of them."""

    image: int
    first: int
    end: int


class _ReadSample(NamedTuple):
    """A sample whose files are in a batch, from position ``first`` on."""

    image: int
    files: "array[int]"
    batch: Batch
    first: int


def _key_and_extension(path: str) -> Tuple[str, str]:
    """Cuts a path at the first dot of the name. Hidden files and names without a dot have no key."""
    directory, slash, name = path.rpartition("/")
    stem, dot, extension = name.partition(".")
    return (directory + slash + stem, extension.lower()) if stem and dot else ("", "")


def _list_samples(image: Image, chunk_bytes: int) -> _SampleList:
    names, _, sizes = image._regular_files()
    listed = _SampleList(array("Q"), array("Q"), array("Q"))
    # Samples to which files may yet come: those of "a" come before and after those of a directory "a.d".
    unfinished: List[Tuple[str, List[int]]] = []
    chunk_len = chunk_samples = 0

    def finish_last() -> None:
        nonlocal chunk_len, chunk_samples
        numbers = unfinished.pop()[1]
        listed.files.extend(numbers)
        listed.sample_ends.append(len(listed.files))
        chunk_len += sum(sizes[number] for number in numbers)
        chunk_samples += 1
        if chunk_len >= chunk_bytes or chunk_samples == _CHUNK_SAMPLES:
            listed.chunk_ends.append(len(listed.sample_ends))
            chunk_len = chunk_samples = 0

    for number, name in enumerate(names):
        key, _ = _key_and_extension(name)
        while unfinished and unfinished[-1][0] != key and not name.startswith(unfinished[-1][0] + "."):
            finish_last()
        if not key:
            continue
        if unfinished and unfinished[-1][0] == key:
            unfinished[-1][1].append(number)
        else:
            unfinished.append((key, [number]))
    while unfinished:
        finish_last()
    if chunk_samples:
        listed.chunk_ends.append(len(listed.sample_ends))
    return listed


class SampleDataset:
    """The samples of one or more images, as WebDataset has them: files that share a stem are one sample.

    A sample is a dictionary: the bytes of each file by its extension, which is everything behind the first dot of its name,
    in lower case; and the path before that dot as "__key__". Files without an extension, and hidden ones, are left out.

    ``images`` is an image, or a list of images; each is an :class:`Image` or anything that :func:`open` takes. ``shard`` is
    ``(index, count)``: of ``count`` shards, whose sizes differ by one at most, this is number ``index``, from 0. With a
    ``seed``, chunks of adjacent samples come in random order, and eight at a time are mixed; the order is another in every
    epoch, and always the same for one seed, epoch and shard. ``buffer`` is the number of bytes that are read in one call, on
    ``threads`` threads, while those read before are used; so twice as many are in memory.

    It is an iterable data set of PyTorch if that was imported before. Its worker processes divide the shard among them.

    >>> import packfs
    >>> packfs.build("samples.sqfs", [(f"{n}.{end}", b"%d" % n) for n in range(3) for end in ("txt", "cls")]).files
    6
    >>> for sample in packfs.SampleDataset("samples.sqfs", shard=(1, 2)):
    ...     print(sample)
    {'__key__': '1', 'cls': b'1', 'txt': b'1'}
    {'__key__': '2', 'cls': b'2', 'txt': b'2'}
    """

    def __init__(
        self,
        images: Any,
        *,
        shard: Tuple[int, int] = (0, 1),
        seed: Optional[int] = None,
        buffer: int = DEFAULT_BUFFER,
        threads: Optional[int] = None,
    ) -> None:
        index, count = shard
        if not 0 <= index < count:
            raise InvalidArgument(f"shard {index} of {count}: the index is from 0 to {count - 1}")
        is_one = isinstance(images, (str, bytes, bytearray, memoryview, os.PathLike, Image)) or hasattr(images, "read")
        self._images = [
            image if isinstance(image, Image) else open_image(image) for image in ([images] if is_one else images)
        ]
        self._shard = (index, count)
        self._seed = seed
        self._buffer = buffer
        self._threads = threads
        self._epoch = 0
        self._listed: Optional[List[_SampleList]] = None
        self._register_with_torch()

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the next epoch; every iteration adds one. Worker processes that live for one epoch only do not
        know how many there were, so that a training loop with a ``seed`` calls this before each epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        """Returns the number of samples of the shard."""
        first, end = self._span(*self._shard)
        return end - first

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        epoch = self._epoch
        self._epoch += 1
        return self._iterate(epoch)

    def __repr__(self) -> str:
        return f"<packfs.SampleDataset of {len(self._images)} images, shard {self._shard[0]} of {self._shard[1]}>"

    def _register_with_torch(self) -> None:
        """A loader asks for the class by which it recognises iterables; who did not import PyTorch has no loader."""
        iterable = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", None)
        if iterable is not None and not isinstance(self, iterable):
            iterable.register(type(self))

    def _lists(self) -> List[_SampleList]:
        if self._listed is None:
            chunk_bytes = max(self._buffer // _CHUNKS_IN_BUFFER, 1)
            self._listed = [_list_samples(image, chunk_bytes) for image in self._images]
        return self._listed

    def _span(self, index: int, count: int) -> Tuple[int, int]:
        """Returns which samples of the whole order a shard has."""
        total = sum(len(listed.sample_ends) for listed in self._lists())
        return total * index // count, total * (index + 1) // count

    def _shard_here(self) -> Tuple[int, int]:
        """Returns the shard of this process, which may be one of several workers of a loader."""
        index, count = self._shard
        torch_data = sys.modules.get("torch.utils.data")
        worker = None if torch_data is None else torch_data.get_worker_info()
        if worker is None:
            return index, count
        return index * worker.num_workers + worker.id, count * worker.num_workers

    def _iterate(self, epoch: int) -> Iterator[Dict[str, Any]]:
        index, count = self._shard_here()
        mixer = None if self._seed is None else random.Random(f"{self._seed} {epoch} {index}/{count}")
        chunks = self._chunks_of_shard(epoch, index, count)
        with ThreadPoolExecutor(1, "packfs-samples") as reader:

            def begin() -> "Optional[Future[List[_ReadSample]]]":
                group = list(islice(chunks, _CHUNKS_IN_BUFFER))
                return reader.submit(self._read, group) if group else None

            pending = begin()
            while pending is not None:
                following = begin()
                samples = pending.result()
                if mixer is not None:
                    mixer.shuffle(samples)
                for sample in samples:
                    yield self._sample(sample)
                pending = following

    def _chunks_of_shard(self, epoch: int, index: int, count: int) -> Iterator[_Chunk]:
        chunks = []
        for image, listed in enumerate(self._lists()):
            first = 0
            for end in listed.chunk_ends:
                chunks.append(_Chunk(image, first, end))
                first = end
        if self._seed is not None:
            # Alike in all shards: together they have every sample once.
            random.Random(f"{self._seed} {epoch}").shuffle(chunks)
        shard_first, shard_end = self._span(index, count)
        at = 0
        for image, first, end in chunks:
            begin, stop = max(shard_first - at, 0), min(shard_end - at, end - first)
            if begin < stop:
                yield _Chunk(image, first + begin, first + stop)
            at += end - first

    def _read(self, group: Iterable[_Chunk]) -> List[_ReadSample]:
        """Reads some chunks: with one call for each image."""
        samples_of: Dict[int, List[int]] = {}
        for image, first, end in group:
            samples_of.setdefault(image, []).extend(range(first, end))
        read = []
        for image, samples in samples_of.items():
            listed = self._lists()[image]
            files = [listed.files_of(sample) for sample in samples]
            batch = self._read_files(self._images[image], [number for numbers in files for number in numbers])
            first = 0
            for numbers in files:
                read.append(_ReadSample(image, numbers, batch, first))
                first += len(numbers)
        return read

    def _read_files(self, image: Image, numbers: List[int]) -> Batch:
        try:
            return image.read_many(numbers, threads=self._threads)
        except Error as error:
            if error.request is not None:
                error.path = image.names()[numbers[error.request]]
            raise

    def _sample(self, read: _ReadSample) -> Dict[str, Any]:
        names = self._images[read.image].names()
        sample: Dict[str, Any] = {}
        for position, number in enumerate(read.files, read.first):
            name = names[number]
            key, extension = _key_and_extension(name)
            sample["__key__"] = key
            if extension in sample:
                raise InvalidArgument(f"{name}: another file of the sample has this extension")
            # Bytes, and not views, which would keep the whole buffer in memory, and which loaders cannot send.
            sample[extension] = bytes(read.batch[position])
        return sample
