"""Which files are meant: those that are named, that a pattern matches, or that a folder holds."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from worker.errors import SurroundingsError
from worker.operations.files.opened import STDIN

_OTHERS: Final = """
    .7z .avsc .cfg .conf .crc .doc .docx .gif .html .ini .ipynb .jar .jpeg .jpg .lock .log .md .md5 .ods .odt .part .pdf .pickle
    .pkl .png .ppt .pptx .py .rar .rst .rtf .sh .sha1 .sha256 .sql .svg .tar .tex .tgz .tmp .toml .xls .xlsx .xml .yaml .yml .zip
"""
"""Endings of files that lie beside reviews, and are none."""
_OTHER_ENDINGS: Final = frozenset(_OTHERS.split())
_OTHER_NAMES: Final = frozenset({"changelog", "license", "makefile", "notice", "readme", "sha256sums"})


class Found(NamedTuple):
    """Files in the order they are to be read, and those of folders that were passed over."""

    paths: list[str]
    skipped: list[str]


def find_files(named: Iterable[str]) -> Found:
    """The files that names, patterns (`*`, `?`, `[...]`, `**`) and folders stand for.

    A pattern's and a folder's files are in order of their paths, those of inner folders too. Passed over in folders is what is
    hidden (`.name`, `_name`), behind a link to a folder, or obviously something else by its name.

    Raises SurroundingsError where a name stands for no file, or two names for one.
    """
    paths: list[str] = []
    skipped: list[str] = []
    for name in named:
        found = list(_files(name, skipped))
        if not found:
            raise SurroundingsError(f"there are no files of reviews in {name}{_told(skipped)}")
        paths.extend(found)
    _check_once(paths)
    return Found(paths, skipped)


def _files(name: str, skipped: list[str]) -> Iterator[str]:
    if name == STDIN or (Path(name).exists() and not Path(name).is_dir()):
        yield name
    elif Path(name).is_dir():
        yield from _of_folder(name, skipped)
    elif matched := glob.glob(name, recursive=True):
        for path in sorted(matched, key=_parts):
            # A folder that ** matches is there for the files in it, which it matches too.
            if not Path(path).is_dir():
                yield path
            elif not name.endswith("**"):
                yield from _of_folder(path, skipped)
    else:
        what = "matches no file" if glob.has_magic(name) else "does not exist"
        raise SurroundingsError(f"{name} {what}")


def _of_folder(folder: str, skipped: list[str]) -> Iterator[str]:
    found: list[str] = []
    for parent, folders, files in os.walk(folder):
        for name in list(folders):
            path = os.path.join(parent, name)
            if _is_hidden(name) or os.path.islink(path):
                folders.remove(name)
                skipped.append(os.path.join(path, ""))
        for name in files:
            (skipped if _is_other(name) else found).append(os.path.join(parent, name))
    skipped.sort(key=_parts)
    return iter(sorted(found, key=_parts))


def _parts(path: str) -> tuple[str, ...]:
    return Path(path).parts


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _is_other(name: str) -> bool:
    path = Path(name.lower())
    return _is_hidden(name) or path.suffix in _OTHER_ENDINGS or path.name in _OTHER_NAMES


def _check_once(paths: list[str]) -> None:
    """Raise SurroundingsError where a file is among them twice: its reviews would be read twice."""
    seen: dict[str, str] = {}
    for path in paths:
        real = path if path == STDIN else os.path.realpath(path)
        if real in seen:
            also = "" if seen[real] == path else f", also as {seen[real]}"
            raise SurroundingsError(f"{path} is named twice{also}: name each file once")
        seen[real] = path


def _told(skipped: list[str]) -> str:
    return f" (passed over by their names: {', '.join(skipped[:5])})" if skipped else ""
