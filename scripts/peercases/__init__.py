"""The cases of compare-peers.py: a module a format.

A case is a name, what it is, and what it does: label -> Step. All steps of a case do the same work; those whose
label begins with `packfs` are ours, the others the peers they are compared with.
"""
from dataclasses import dataclass


@dataclass
class Step:
    """A shell line to measure, and the file whose size counts."""

    line: str
    output: str = ""
    # Whether it prints the seconds that count.
    reports: bool = False

    @property
    def program(self):
        return self.line.split()[0]


@dataclass
class Case:
    """What is measured, by label; `prepare` runs once before, `before` before each run, outside the measured time."""

    what: str
    steps: dict
    prepare: tuple = ()
    before: str = ""
    # Whether it runs without being named.
    usual: bool = True
    # Whether it is recorded which Linux the images need.
    kernels: bool = False
