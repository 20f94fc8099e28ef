"""Open images."""

from __future__ import annotations

import ctypes
import fnmatch
import io
import multiprocessing
import operator
import os
import re
import stat as stat_bits
import threading
import weakref
from collections.abc import Sequence as SequenceABC
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _errors, _packfs

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Report = Callable[[str, int, int], Any]

#: Bytes of decoded data that an image keeps, unless told otherwise.
DEFAULT_CACHE = 32 << 20
#: Bytes that a buffered file reads ahead: a block of most images.
READ_AHEAD = 128 << 10
#: Names that are decoded at a time: few enough to be no memory beside the names themselves.
_NAMES_AT_A_TIME = 4096
_END = (1 << 64) - 1
_TYPE_BITS = {
    "d": stat_bits.S_IFDIR,
    "f": stat_bits.S_IFREG,
    "l": stat_bits.S_IFLNK,
    "c": stat_bits.S_IFCHR,
    "b": stat_bits.S_IFBLK,
    "p": stat_bits.S_IFIFO,
    "s": stat_bits.S_IFSOCK,
}


class Finding(NamedTuple):
    """Something wrong ("damage") or unusual ("remark") in an image."""

    severity: str
    structure: str
    offset: Optional[int]
    text: str


class Difference(NamedTuple):
    """A difference between two images; ``None`` is absent."""

    path: str
    aspect: str
    first: Optional[str]
    second: Optional[str]


class Batch(SequenceABC):  # type: ignore[type-arg]
    """The bytes of many files in one buffer: ``data``, of which file ``n`` is ``offsets[n]`` to ``offsets[n + 1]``.

    As a sequence it has a :class:`memoryview` for each file, which copies nothing. Array libraries take ``data`` without a
    copy, as one dimension of bytes: ``numpy.from_dlpack(batch)``, ``torch.from_dlpack(batch)``.
    """

    __slots__ = ("data", "offsets", "_view")

    def __init__(self, data: Any, offsets: memoryview) -> None:
        self.data = data
        self.offsets = offsets
        self._view = memoryview(data).cast("B")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        number = _position(number, len(self))
        return self._view[self.offsets[number] : self.offsets[number + 1]]

    def __iter__(self) -> Iterator[memoryview]:
        # Half the time of what Python makes of __getitem__.
        view = self._view
        begin = 0
        for end in self.offsets[1:]:
            yield view[begin:end]
            begin = end

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        """Returns ``data`` as a DLPack capsule, which keeps it in memory."""
        if stream is not None:
            raise BufferError("main memory has no streams")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError("the bytes are in main memory")
        view = memoryview(bytearray(self._view)) if copy else self._view
        held, address = _hold(view)
        return _packfs.dlpack_capsule(held, address, len(view))

    def __dlpack_device__(self) -> Tuple[int, int]:
        """Returns the number that DLPack has for main memory."""
        return (1, 0)

    def __repr__(self) -> str:
        return f"<packfs.Batch of {len(self)} files, {self.offsets[-1]} bytes>"


class Names(SequenceABC):  # type: ignore[type-arg]
    """The paths of all regular files, ascending in the order of a walk. A name is decoded when it is taken."""

    __slots__ = ("_paths", "_ends")

    def __init__(self, paths: bytes, ends: memoryview) -> None:
        # Each path is followed by NUL, so that many are split in one call.
        self._paths = paths
        self._ends = ends

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        number = _position(number, len(self))
        return os.fsdecode(self._paths[self._start(number) : self._ends[number]])

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _NAMES_AT_A_TIME):
            last = min(first + _NAMES_AT_A_TIME, len(self)) - 1
            yield from os.fsdecode(self._paths[self._start(first) : self._ends[last]]).split("\0")

    def _start(self, number: int) -> int:
        return self._ends[number - 1] + 1 if number else 0

    def __repr__(self) -> str:
        return f"<packfs.Names of {len(self)} files>"


def _position(number: Any, count: int) -> int:
    position = operator.index(number)
    if not -count <= position < count:
        raise IndexError(f"{position} of {count} files")
    return position + count if position < 0 else position


class DirEntry:
    """An entry of a directory, as of :func:`os.scandir`."""

    __slots__ = ("name", "path", "_image", "_nid", "_letter")

    def __init__(self, image: "Image", name: str, path: str, nid: int, letter: str) -> None:
        self._image = image
        self.name = name
        self.path = path
        self._nid = nid
        self._letter = letter

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._is("d", follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._is("f", follow_symlinks)

    def is_symlink(self) -> bool:
        return self._letter == "l"

    def _is(self, letter: str, follow_symlinks: bool) -> bool:
        if self._letter != "l" or not follow_symlinks:
            return self._letter == letter
        try:
            return stat_bits.S_IFMT(self._image.stat(self.path).st_mode) == _TYPE_BITS[letter]
        except (FileNotFoundError, NotADirectoryError, _errors.LinkLoop):
            return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        if self._letter == "l" and follow_symlinks:
            return self._image.stat(self.path)
        return _stat_result(self._image._reader().attributes(self._nid))

    def inode(self) -> int:
        return self.stat(follow_symlinks=False).st_ino

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<packfs.DirEntry {self.name!r}>"


def _stat_result(attributes: Any) -> os.stat_result:
    letter, size, ino, mode, uid, gid, mtime_ns, nlink, _, device = attributes
    mtime = mtime_ns // 1_000_000_000
    fields = (mode | _TYPE_BITS[letter], ino, 0, nlink, uid, gid, size, mtime, mtime, mtime)
    exact = {
        "st_atime": mtime_ns / 1e9,
        "st_mtime": mtime_ns / 1e9,
        "st_ctime": mtime_ns / 1e9,
        "st_atime_ns": mtime_ns,
        "st_mtime_ns": mtime_ns,
        "st_ctime_ns": mtime_ns,
        "st_rdev": os.makedev(*device),
    }
    return os.stat_result(fields, exact)


class _RawFile(io.RawIOBase):
    """An open regular file of an image."""

    def __init__(self, image: "Image", nid: int, size: int, name: str) -> None:
        self._image = image
        self._nid = nid
        self._size = size
        self._at = 0
        self.name = name
        self.mode = "rb"

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def _take(self, size: int) -> bytes:
        self._check_open()
        end = min(self._at + size, self._size)
        if end <= self._at:
            return b""
        data = self._image._reader().read_range(self._nid, self._at, end)
        self._at += len(data)
        return data

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def readinto(self, buffer: Any) -> int:
        self._check_open()
        view = memoryview(buffer).cast("B")
        end = min(self._at + len(view), self._size)
        if end <= self._at:
            return 0
        self._image._fill(view, [(self._nid, self._at, end)], 1)
        got = end - self._at
        self._at = end
        return got

    def read(self, size: Optional[int] = -1) -> bytes:
        return self._take(self._size if size is None or size < 0 else size)

    def readall(self) -> bytes:
        return self._take(self._size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._check_open()
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}
        if whence not in bases:
            raise ValueError(f"invalid whence: {whence}")
        at = bases[whence] + offset
        if at < 0:
            raise ValueError(f"negative seek position {at}")
        self._at = at
        return at

    def tell(self) -> int:
        self._check_open()
        return self._at


class _FileBytes:
    """Bytes of a file object at any offset, for any thread."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._lock = threading.Lock()
        with self._lock:
            self.size = file.seek(0, io.SEEK_END)
        # A file of the system is read without moving its position, which a child process shares.
        raw = getattr(file, "raw", file)
        self._descriptor: Optional[int] = None
        if isinstance(raw, io.FileIO):
            # One of its own: that of the file belongs to another file once the caller has closed it.
            self._descriptor = os.dup(raw.fileno())
            weakref.finalize(self, os.close, self._descriptor).atexit = False

    def read_at(self, offset: int, size: int) -> bytes:
        if self._descriptor is not None:
            descriptor = self._descriptor
            return _read_all(lambda at, size: os.pread(descriptor, size, offset + at), size)
        with self._lock:
            self._file.seek(offset)
            return _read_all(lambda _, size: self._file.read(size), size)

    def renew_lock(self) -> None:
        """Forgets who held the lock: in a child process, that thread does not run."""
        self._lock = threading.Lock()


def _read_all(read: Callable[[int, int], Any], size: int) -> bytes:
    """Reads until all bytes are there or the file ends; one call may return fewer. ``read`` takes a position and a size."""
    pieces = []
    at = 0
    while at < size:
        piece = read(at, size - at)
        if not piece:
            break
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def _is_address(source: Any) -> bool:
    return isinstance(source, str) and _packfs.is_address(source)


def _identity(path: bytes) -> Tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError as error:
        message = f"cannot open {os.fsdecode(path)}: {error.strerror}"
        raise _errors.make("SystemFailure", message, path, errno=error.errno) from None
    return status.st_size, status.st_mtime_ns


def _reopen(source: Any, settings: Dict[str, Any], identity: Optional[Tuple[int, int]]) -> "Image":
    """Opens a pickled image again; a file must be the one it was."""
    if identity is not None and _identity(source) != identity:
        raise _errors.Changed(f"{os.fsdecode(source)}: it is not the file that was pickled: size or time differ")
    return Image(source, **settings, _is_path=identity is not None)


_open_images: "weakref.WeakSet[Image]" = weakref.WeakSet()
# Readers of a parent process. Their locks may be held by threads that a child does not have, so they are never dropped.
_abandoned_readers: List[Any] = []


def _forget_readers() -> None:
    _packfs.forget_threads()
    for image in list(_open_images):
        _abandoned_readers.append(image._opened)
        image._opened = None
        image._lock = threading.Lock()
        # Its thread does not run in a child.
        image._prefetcher = None
        if isinstance(image._source, _FileBytes):
            image._source.renew_lock()


os.register_at_fork(after_in_child=_forget_readers)


def open(
    source: Any, *, cache: int = DEFAULT_CACHE, offset: int = 0, read_limit: Optional[int] = None
) -> "Image":
    """Opens the image in ``source``, which begins at byte ``offset`` of it.

    ``source`` is a path, an address (http, https, s3, oci), bytes, or a binary file object that can seek. A str is a path or an
    address. ``cache`` is the number of bytes of decoded data to keep. ``read_limit`` is the maximum number of bytes that one
    call returns, because a small image may declare files, mostly holes, that fill any memory; by default 1 GiB, or 16 times
    the length of the image if that is more. It does not apply to buffers of the caller.
    """
    return Image(source, cache=cache, offset=offset, read_limit=read_limit)


class Image:
    """An open image. Threads may share it; it survives a fork, and a pickle opens it again.

    It is a map-style data set of its regular files: ``len(image)`` and ``image[n]``, the bytes of the file
    ``image.names()[n]``; loaders that fetch whole batches call ``image.__getitems__``.
    """

    def __init__(
        self,
        source: Any,
        *,
        cache: int = DEFAULT_CACHE,
        offset: int = 0,
        read_limit: Optional[int] = None,
        _is_path: bool = False,
    ) -> None:
        self._source = source
        self._settings = {"offset": offset, "cache": cache, "read_limit": read_limit}
        self._lock = threading.Lock()
        self._opened: Optional[_packfs.Reader] = None
        self._files: Optional[Tuple[Names, memoryview, memoryview]] = None
        self._prefetcher: Optional[ThreadPoolExecutor] = None
        self._is_closed = False
        self._is_file = False
        self._is_path = _is_path or (isinstance(source, (str, os.PathLike)) and not _is_address(source))
        self._pinned: Optional[Tuple[int, int]] = None
        if self._is_path:
            self._source = os.path.abspath(os.fsencode(source))
        elif isinstance(source, (bytes, bytearray, memoryview)):
            self._source = bytes(source)
        elif not isinstance(source, str):
            if not (hasattr(source, "read") and hasattr(source, "seek")):
                raise TypeError(f"a path, an address, bytes or a binary file is needed, not {type(source).__name__}")
            self._source = _FileBytes(source)
            self._is_file = True
        self._reader()
        _open_images.add(self)

    def _reader(self) -> _packfs.Reader:
        opened = self._opened
        if opened is not None:
            return opened
        with self._lock:
            if self._is_closed:
                raise ValueError("the image is closed")
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _open(self) -> _packfs.Reader:
        source, settings = self._source, self._settings
        if self._is_path:
            # Taken before the file is opened: if another one comes between, it is noticed when it is opened again.
            identity = _identity(source)
            if self._pinned not in (None, identity):
                raise _errors.Changed(f"{os.fsdecode(source)}: it changed since it was opened")
            self._pinned = identity
            return _packfs.Reader.open_path(source, settings)
        if isinstance(source, bytes):
            return _packfs.Reader.open_bytes(source, settings)
        if isinstance(source, str):
            return _packfs.Reader.open_address(source, settings)
        return _packfs.Reader.open_object(source, source.size, settings)

    def __reduce__(self) -> Any:
        if self._is_file:
            raise TypeError("an image in a file object cannot be pickled: open it by its path")
        return _reopen, (self._source, self._settings, self._pinned)

    def close(self) -> None:
        """Releases the cache, and the file once no thread reads from it any more. Reading from the image then fails."""
        with self._lock:
            self._is_closed = True
            self._opened = None
            if self._is_file:
                # Threads that still read have it, and its descriptor.
                self._source = None
            prefetcher, self._prefetcher = self._prefetcher, None
        if prefetcher is not None:
            prefetcher.shutdown(wait=False)

    def __enter__(self) -> "Image":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._is_path:
            shown = os.fsdecode(self._source)
        elif isinstance(self._source, str):
            shown = _packfs.clean_address(self._source)
        else:
            shown = "in memory" if isinstance(self._source, bytes) else "in a file object"
        return f"<packfs.Image {shown}>"

    # Single files

    def read(self, path: Path) -> bytes:
        """Returns the bytes of a regular file; symbolic links are followed within the image."""
        return self._reader().read(os.fsencode(path))

    def readinto(self, path: Path, buffer: Any) -> int:
        """Fills a writable buffer with the beginning of a file. Returns the number of bytes."""
        view = memoryview(buffer).cast("B")
        nid = self._reader().inode(os.fsencode(path))
        return self._fill(view, [(nid, 0, len(view))], 1)[-1]

    def open(self, path: Path, mode: str = "rb", buffering: int = -1, encoding: Optional[str] = None) -> Any:
        """Opens a regular file: for bytes ("rb"), or for text ("r"). It can seek; ``buffering=0`` is unbuffered."""
        if mode not in ("rb", "r", "rt"):
            raise ValueError(f"mode {mode!r}: files of an image can only be read")
        reader = self._reader()
        nid = reader.inode(os.fsencode(path))
        attributes = reader.attributes(nid)
        if attributes[0] != "f":
            raise _errors.make("WrongType", f"{os.fsdecode(path)}: not a regular file", os.fsencode(path))
        raw = _RawFile(self, nid, attributes[1], os.fsdecode(path))
        if mode == "rb" and buffering == 0:
            return raw
        buffered = io.BufferedReader(raw, READ_AHEAD if buffering < 2 else buffering)
        return buffered if mode == "rb" else io.TextIOWrapper(buffered, encoding=encoding)

    # Directories and attributes

    def exists(self, path: Path) -> bool:
        """Returns true if the path leads to a file of any type."""
        return self._reader().exists(os.fsencode(path))

    def stat(self, path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        """Returns the attributes that a path leads to; all three times are that of the last modification."""
        reader = self._reader()
        encoded = os.fsencode(path)
        if follow_symlinks:
            return _stat_result(reader.attributes(reader.inode(encoded)))
        return _stat_result(reader.entry_attributes(encoded))

    def readlink(self, path: Path) -> str:
        """Returns the target of a symbolic link."""
        target = self._reader().entry_attributes(os.fsencode(path))[8]
        if target is None:
            raise _errors.make("WrongType", f"{os.fsdecode(path)}: not a symbolic link", os.fsencode(path))
        return os.fsdecode(target)

    def xattrs(self, path: Path) -> Dict[str, bytes]:
        """Returns the extended attributes by their full names."""
        return {os.fsdecode(name): value for name, value in self._reader().xattrs(os.fsencode(path))}

    def listdir(self, path: Path = "/") -> List[str]:
        """Returns the names in a directory, ascending by their bytes."""
        return [os.fsdecode(name) for name, _, _ in self._reader().entries(os.fsencode(path))]

    def scandir(self, path: Path = "/") -> Iterator[DirEntry]:
        """Returns the entries of a directory."""
        base = os.fsdecode(path)
        entries = self._reader().entries(os.fsencode(path))

        def entry(name: bytes, nid: int, letter: str) -> DirEntry:
            decoded = os.fsdecode(name)
            return DirEntry(self, decoded, os.path.join(base, decoded), nid, letter)

        return (entry(*found) for found in entries)

    def walk(self, top: Path = "/", topdown: bool = True) -> Iterator[Tuple[str, List[str], List[str]]]:
        """Walks a directory as :func:`os.walk` does: links to directories are listed as such, and not followed."""
        # Without recursion: an image may be deeper than Python's stack.
        pending: List[Any] = [os.fsdecode(top)]
        while pending:
            base = pending.pop()
            if isinstance(base, tuple):
                yield base
                continue
            directories: List[str] = []
            others: List[str] = []
            links = set()
            for entry in self.scandir(base):
                (directories if entry.is_dir() else others).append(entry.name)
                if entry.is_symlink():
                    links.add(entry.name)
            if topdown:
                yield base, directories, others
            else:
                pending.append((base, directories, others))
            # Afterwards: the caller may have removed some.
            pending.extend(os.path.join(base, name) for name in reversed(directories) if name not in links)

    def glob(self, pattern: str) -> List[str]:
        """Returns the paths that a pattern matches: ``*``, ``?`` and ``[...]`` within a name, ``**`` for any directories.

        A pattern that ends with ``/`` matches only directories, and so do the paths end. Unlike the shell, names with a
        leading dot match as others do.
        """
        parts = [part for part in pattern.split("/") if part]
        ending = "/" if pattern.endswith("/") else ""
        found = [""] if parts else []
        for number, part in enumerate(parts):
            with_files = number == len(parts) - 1 and not ending
            if part == "**":
                matches = (below for base in found for below in self._below(base, with_files))
            else:
                matches = (match for base in found for match in self._matching(base, part, with_files))
            found = list(dict.fromkeys(matches))
        return [path + ending for path in found if path]

    def _below(self, base: str, with_files: bool) -> Iterator[str]:
        """Returns everything below a directory; or it and the directories below it."""
        if not with_files:
            yield base
        pending = [base]
        while pending:
            top = pending.pop()
            directories = []
            for entry in self.scandir("/" + top):
                path = f"{top}/{entry.name}" if top else entry.name
                # Links are not followed: they may lead up.
                if entry.is_dir(follow_symlinks=False):
                    directories.append(path)
                elif not with_files:
                    continue
                yield path
            pending.extend(reversed(directories))

    def _matching(self, base: str, part: str, with_files: bool) -> Iterator[str]:
        """Returns the entries of a directory that match; or only those that lead to directories."""
        is_match = re.compile(fnmatch.translate(part)).match
        for entry in self.scandir("/" + base):
            if is_match(entry.name) and (with_files or entry.is_dir()):
                yield f"{base}/{entry.name}" if base else entry.name

    # All regular files, by number

    def _regular_files(self) -> Tuple[Names, memoryview, memoryview]:
        if self._files is None:
            paths, ends, nids, sizes = self._reader().regular_files()
            names = Names(paths, memoryview(ends).cast("Q"))
            self._files = names, memoryview(nids).cast("Q"), memoryview(sizes).cast("Q")
        return self._files

    def names(self) -> Names:
        """Returns the paths of all regular files, without a leading slash. Their positions are their numbers."""
        return self._regular_files()[0]

    def sizes(self) -> Any:
        """Returns the sizes of all regular files: a NumPy array if NumPy is installed, else a memoryview of 64-bit numbers."""
        sizes = self._regular_files()[2]
        try:
            import numpy
        except ImportError:
            return sizes
        return numpy.frombuffer(sizes, dtype=numpy.uint64)

    def __len__(self) -> int:
        return len(self._regular_files()[1])

    def __getitem__(self, number: Any) -> bytes:
        nids = self._regular_files()[1]
        return self._reader().read_range(nids[_position(number, len(nids))], 0, _END)

    def __getitems__(self, numbers: Iterable[Any]) -> List[bytes]:
        # Bytes as of __getitem__, and not views: loaders send what they get to another process.
        return [bytes(view) for view in self.read_many(numbers)]

    def _nid(self, item: Any) -> int:
        if isinstance(item, (str, bytes, os.PathLike)):
            return self._reader().inode(os.fsencode(item))
        nids = self._regular_files()[1]
        return nids[_position(item, len(nids))]

    def read_many(self, items: Iterable[Any], out: Any = None, *, threads: Optional[int] = None) -> Batch:
        """Reads many files, given by number or path, into one buffer, in the order given.

        The image is read in the order of its blocks, each of which is decoded once, on ``threads`` threads and without
        Python's lock. By default these are all cores, but one in a process of :mod:`multiprocessing`, beside which others
        read. With ``out``, a writable buffer, the bytes are put there.
        If a file cannot be read, the exception's ``request`` is its position in ``items``.
        """
        return self._read_requests(((item, 0, _END) for item in _listed(items)), out, threads)

    def prefetch(self, items: Iterable[Any], *, threads: Optional[int] = None) -> "Future[Batch]":
        """Begins to read many files, as :meth:`read_many` does, and returns at once: ``result()`` waits for the batch.

        The next batch is read while the program works on this one. What is asked for first is read first.

        >>> import packfs
        >>> packfs.build("set.sqfs", [(f"{n}.txt", b"%d" % n) for n in range(4)]).files
        4
        >>> image = packfs.open("set.sqfs")
        >>> batches = [[2, 0], [3, 1]]
        >>> pending = image.prefetch(batches[0])
        >>> for following in [*batches[1:], []]:
        ...     batch, pending = pending.result(), image.prefetch(following)
        ...     print([bytes(view) for view in batch])
        [b'2', b'0']
        [b'3', b'1']
        """
        # A list is taken now: the caller may change it, and an iterator may belong to this thread.
        wanted = list(_listed(items))
        with self._lock:
            if self._is_closed:
                raise ValueError("the image is closed")
            if self._prefetcher is None:
                # One thread: `read_many` uses all cores itself, and two batches at a time would only compete for the cache.
                self._prefetcher = ThreadPoolExecutor(1, "packfs-prefetch")
            return self._prefetcher.submit(self.read_many, wanted, threads=threads)

    def read_ranges(
        self, ranges: Iterable[Tuple[Any, int, int]], out: Any = None, *, threads: Optional[int] = None
    ) -> Batch:
        """Reads many ranges ``(number or path, start, end)``, as :meth:`read_many` does files."""
        return self._read_requests(_listed(ranges), out, threads)

    def _read_requests(self, wanted: Iterable[Tuple[Any, int, int]], out: Any, threads: Optional[int]) -> Batch:
        requests = []
        for item, start, end in wanted:
            try:
                requests.append((self._nid(item), start, end))
            except (_errors.Error, IndexError) as error:
                error.request = len(requests)  # type: ignore[union-attr]
                raise
        threads = _default_threads() if threads is None else threads
        if out is None:
            data, offsets = self._reader().read_many(requests, threads)
            return Batch(data, memoryview(offsets).cast("Q"))
        view = memoryview(out).cast("B")
        filled = self._fill(view, requests, threads)
        return Batch(view[: filled[-1]], filled)

    def _fill(self, view: memoryview, requests: List[Tuple[int, int, int]], threads: int) -> memoryview:
        """Reads into a writable view of bytes. Returns where each request begins, and the end of the last."""
        held, address = _hold(view)
        offsets = self._reader().read_many_into(requests, address, len(view), threads)
        del held
        return memoryview(offsets).cast("Q")

    # The whole image

    def check(self, *, threads: Optional[int] = None, progress: Optional[Report] = None) -> List[Finding]:
        """Verifies everything. An image without a finding of severity "damage" is sound."""
        return [Finding(*found) for found in self._reader().check(threads, progress)]

    def extract(self, target: Path, *, progress: Optional[Report] = None) -> int:
        """Extracts everything into a directory, which is made. Returns the number of files."""
        return self._reader().extract(os.fsencode(target), progress)

    def tar(self, target: Any, *, progress: Optional[Report] = None) -> None:
        """Writes everything as a tar archive to a binary file object, or to a path at which nothing is yet."""
        if hasattr(target, "write"):
            self._reader().write_tar(target, progress)
            return
        reader = self._reader()
        try:
            file = io.open(target, "xb")
        except OSError as error:
            message = f"cannot create {os.fsdecode(target)}: {error.strerror}"
            raise _errors.make("SystemFailure", message, os.fsencode(target), errno=error.errno) from None
        try:
            # Also the end of the archive, which closing writes.
            with file:
                reader.write_tar(file, progress)
        except BaseException:
            os.unlink(target)
            raise

    def diff(self, other: "Image") -> List[Difference]:
        """Returns what differs between this image, the first, and another, the second."""
        found = self._reader().diff(other._reader())
        return [Difference(os.fsdecode(path), *rest) for path, *rest in found]


def _listed(items: Any) -> Any:
    """Returns what has to be many things. A path would be as many as it has letters."""
    if isinstance(items, (str, bytes)):
        raise TypeError(f"a list is needed, not {type(items).__name__}")
    return items


def _hold(view: memoryview) -> Tuple[Any, int]:
    """Returns the address of a writable view of bytes, and an object while which exists the memory stays there."""
    if not len(view):
        return None, 0
    held = ctypes.c_char.from_buffer(view)
    return held, ctypes.addressof(held)


def _default_threads() -> int:
    return 1 if multiprocessing.parent_process() is not None else len(os.sched_getaffinity(0))
