"""Exceptions. All are :class:`Error`; those with a counterpart in Python are that, too."""

from __future__ import annotations

import errno as errno_codes
import os
from typing import Any, Optional


class Error(Exception):
    """Anything that packfs refuses or cannot do.

    ``path`` is the file or entry concerned, and ``request`` the number of the request in a call that had many.
    """

    path: Optional[str] = None
    request: Optional[int] = None


class Damaged(Error, ValueError):
    """An image is damaged: ``structure`` and ``offset`` say where, if a structure of the format is."""

    structure: Optional[str] = None
    offset: Optional[int] = None


class NoImage(Error, ValueError):
    """The file is neither a SquashFS nor an EROFS image."""


class NotFound(Error, FileNotFoundError):
    """The image has no such path."""


class NotADirectory(Error, NotADirectoryError):
    """The path leads to something that is no directory."""


class WrongType(Error, OSError):
    """The path leads to something that is no regular file, or no symbolic link."""


class LinkLoop(Error, OSError):
    """Symbolic links form a loop."""


class Exists(Error, FileExistsError):
    """The target exists, and must not be replaced."""


class Unsupported(Error, NotImplementedError):
    """The image needs a feature that this build lacks."""


class Changed(Error):
    """A file changed while it was read, or between two times it was opened."""


class Incomplete(Error, ValueError):
    """A dump is not whole: bytes are lost, or a part was abandoned. ``summary`` is that of the split, which went on."""

    summary: Any = None


class LimitExceeded(Error, ValueError):
    """An entry does not fit in the format."""


class InvalidArgument(Error, ValueError):
    """An option or argument with a value that is not valid."""


class Cancelled(Error):
    """The operation was cancelled."""


class OutOfMemory(Error, MemoryError):
    """The files to read do not fit in memory, or exceed the ``read_limit`` with which the image was opened."""


class SystemFailure(Error, OSError):
    """The system refused an operation on a file, or a server one on an object; ``errno`` says why."""


class PermissionDenied(SystemFailure, PermissionError):
    """The file or object may not be read, or the target not be written."""


# Exceptions that an error of the system becomes.
_CLASSES = {
    errno_codes.ENOENT: NotFound,
    errno_codes.ENOTDIR: NotADirectory,
    errno_codes.EEXIST: Exists,
    errno_codes.EACCES: PermissionDenied,
    errno_codes.EPERM: PermissionDenied,
}
# What OSError has to be told, by class.
_ERRNO = {
    "PermissionDenied": errno_codes.EACCES,
    "NotFound": errno_codes.ENOENT,
    "NotADirectory": errno_codes.ENOTDIR,
    "WrongType": errno_codes.EINVAL,
    "LinkLoop": errno_codes.ELOOP,
    "Exists": errno_codes.EEXIST,
    "SystemFailure": errno_codes.EIO,
}


def make(
    kind: str,
    message: str,
    path: Optional[bytes] = None,
    structure: Optional[str] = None,
    offset: Optional[int] = None,
    errno: Optional[int] = None,
    request: Optional[int] = None,
) -> Error:
    """Makes the exception of a kind; the compiled part calls it."""
    made = globals()[kind]
    if issubclass(made, OSError):
        code = errno or _ERRNO[kind]
        error: Error = (_CLASSES.get(code, made) if errno else made)(code, message)
    else:
        error = made(message)
    if path is not None:
        error.path = os.fsdecode(path)
    if isinstance(error, Damaged):
        error.structure = structure
        error.offset = offset
    error.request = request
    return error
