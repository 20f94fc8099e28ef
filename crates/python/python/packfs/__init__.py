"""Reads and builds SquashFS and EROFS images; splits dumps over several disks and joins them.

>>> import packfs
>>> packfs.build("docs.sqfs", [("a.txt", b"one"), ("b/c.txt", b"two")])
BuildSummary(files=2, image_bytes=295)
>>> image = packfs.open("docs.sqfs")
>>> image.read("a.txt")
b'one'
>>> image.listdir("/")
['a.txt', 'b']
>>> image.glob("**/*.txt")
['a.txt', 'b/c.txt']
"""

from __future__ import annotations

import atexit as _atexit

from . import dump
from ._build import Attributes, BuildSummary, build, convert
from ._errors import (
    Cancelled,
    Changed,
    Damaged,
    Error,
    Exists,
    Incomplete,
    InvalidArgument,
    LimitExceeded,
    LinkLoop,
    NoImage,
    NotADirectory,
    NotFound,
    OutOfMemory,
    PermissionDenied,
    SystemFailure,
    Unsupported,
    WrongType,
)
from ._image import Batch, Difference, DirEntry, Finding, Image, Names, open
from ._packfs import prepare_exit as _prepare_exit
from ._packfs import version as _version
from ._samples import SampleDataset

__version__ = _version()
_atexit.register(_prepare_exit)

__all__ = [
    "Attributes",
    "Batch",
    "BuildSummary",
    "Cancelled",
    "Changed",
    "Damaged",
    "Difference",
    "DirEntry",
    "Error",
    "Exists",
    "Finding",
    "Image",
    "Incomplete",
    "InvalidArgument",
    "LimitExceeded",
    "LinkLoop",
    "Names",
    "NoImage",
    "NotADirectory",
    "NotFound",
    "OutOfMemory",
    "PermissionDenied",
    "SampleDataset",
    "SystemFailure",
    "Unsupported",
    "WrongType",
    "build",
    "convert",
    "dump",
    "open",
]
