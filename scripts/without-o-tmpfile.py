#!/usr/bin/env python3
"""Runs a program as on a file system without O_TMPFILE: without-o-tmpfile.py PROGRAM [ARGUMENT...]

A seccomp filter answers EOPNOTSUPP wherever a file without a name is asked for. It stays with the process, which becomes
PROGRAM: a signal sent to it is one to PROGRAM. For x86-64 and arm64.
"""
import ctypes
import os
import platform
import struct
import sys

# <linux/filter.h>, <linux/seccomp.h>, <linux/prctl.h>
LOAD, JUMP_IF_EQUAL, JUMP_IF_ANY, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NUMBER_AT, ARGUMENTS_AT = 0, 16
NO_NEW_PRIVS, SET_SECCOMP, FILTER = 38, 22, 2
EOPNOTSUPP = 95
TMPFILE = 0o20000000
# Number of the call, and which argument has the flags.
CALLS = {"x86_64": [(2, 1), (257, 2)], "aarch64": [(56, 2)]}


def instruction(code, value, if_true=0, if_false=0):
    return struct.pack("=HBBI", code, if_true, if_false, value)


def program():
    out = b""
    for number, argument in CALLS[platform.machine()]:
        out += instruction(LOAD, NUMBER_AT)
        out += instruction(JUMP_IF_EQUAL, number, 0, 3)
        out += instruction(LOAD, ARGUMENTS_AT + 8 * argument)
        out += instruction(JUMP_IF_ANY, TMPFILE, 0, 1)
        out += instruction(RETURN, ERRNO | EOPNOTSUPP)
    return out + instruction(RETURN, ALLOW)


class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


libc = ctypes.CDLL(None, use_errno=True)
code = program()
filter = Program(len(code) // 8, code)
for call in [(NO_NEW_PRIVS, 1, 0, 0, 0), (SET_SECCOMP, FILTER, ctypes.byref(filter), 0, 0)]:
    if libc.prctl(*call):
        sys.exit(f"no filter of system calls: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
