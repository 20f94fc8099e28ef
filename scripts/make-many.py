#!/usr/bin/env python3
"""Makes a tree of many entries without data, to measure scans and plans: make-many.py DIRECTORY ENTRIES [--data BYTES]

The tree has directories of 100 files, 100 of them in each directory above, as trees of data sets have. With --data, each
file has so many bytes, of which no two are alike.
"""
import argparse
import os

FILES = 100


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("entries", type=int)
    parser.add_argument("--data", type=int, default=0)
    args = parser.parse_args()
    for number in range(0, args.entries, FILES):
        at = os.path.join(args.directory, f"group-{number // FILES**2:06}", f"set-{number // FILES % FILES:04}")
        os.makedirs(at)
        handle = os.open(at, os.O_RDONLY)
        for file in range(number, min(number + FILES, args.entries)):
            new = os.open(f"file-{file:09}", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=handle)
            if args.data:
                os.write(new, f"{file:012}".encode() * (args.data // 12) + b"." * (args.data % 12))
            os.close(new)
        os.close(handle)


if __name__ == "__main__":
    main()
