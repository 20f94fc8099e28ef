"""Runs the command line program, which is installed separately: ``python -m packfs info image.sqfs``."""

import os
import shutil
import sys


def main() -> None:
    program = shutil.which("packfs")
    if program is None:
        sys.exit("python -m packfs runs the program packfs, which is not in PATH; the wheel has only the library")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
