"""Checks that the native code of a wheel loads with glibc 2.17: `make wheel`."""

import re
import sys
import zipfile

NEWEST = (2, 17)


def needed(wheel: str) -> tuple[int, int]:
    """The newest version of glibc that the modules of a wheel need."""
    with zipfile.ZipFile(wheel) as opened:
        modules = [opened.read(name) for name in opened.namelist() if name.endswith(".so")]
    found = [re.findall(rb"GLIBC_(\d+)\.(\d+)", module) for module in modules]
    return max((int(major), int(minor)) for versions in found for major, minor in versions)


if __name__ == "__main__":
    if (version := needed(sys.argv[1])) > NEWEST:
        sys.exit(f"{sys.argv[1]} needs glibc {version}, not {NEWEST}: was deploy/zig-linker used?")
