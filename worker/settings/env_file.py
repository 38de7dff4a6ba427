"""Files of variables, one `NAME=VALUE` a line, as Docker and systemd read them.

    # a comment                     lines of their own, and behind quoted values
    export NAME=VALUE               `export` may stand before it, so that a shell can read the file too
    NAME='VALUE'  NAME="VALUE"      taken without its quotes; \\" and \\\\ between double quotes are " and \\

Nothing is expanded. A ` #` in a value without quotes is refused: Docker and systemd take it for a part of the value, others for
a comment.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from worker.errors import SurroundingsError

_LINE: Final = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)")
_SINGLE: Final = re.compile(r"'(?P<text>[^']*)'\s*(?:#.*)?")
_DOUBLE: Final = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_ESCAPED: Final = re.compile(r'\\(["\\$`])')


class Line(NamedTuple):
    """A variable and its value, and where it stands: `file:line`."""

    name: str
    value: str
    place: str


def read_env_file(path: str) -> list[Line]:
    """The variables of a file, in order; of a name that stands there twice the last one counts.

    Raises:
        SurroundingsError: the file cannot be read, or a line is none of the above. The message names file and line, never what
            the line says: it may be a secret.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as cause:
        raise SurroundingsError(f"--env-file {path} cannot be read: {cause.strerror}") from cause
    except UnicodeDecodeError as cause:
        raise SurroundingsError(f"--env-file {path} is not UTF-8: write it as such") from cause
    lines = enumerate((line.strip() for line in text.split("\n")), start=1)
    return [_parse(line, f"{path}:{number}") for number, line in lines if line and line[0] not in "#;"]


def _parse(line: str, place: str) -> Line:
    match = _LINE.fullmatch(line)
    if match is None or "\0" in line:
        raise SurroundingsError(f"{place}: not of the form NAME=VALUE; a comment begins with #")
    return Line(match["name"], _value(match["value"].strip(), f"{place}: {match['name']}"), place)


def _value(text: str, what: str) -> str:
    if text[:1] not in ("'", '"'):
        if re.search(r"\s#", text):
            raise SurroundingsError(
                f"{what}: put the value in quotes, or the comment behind it on a line of its own"
            )
        return text
    match = (_SINGLE if text[0] == "'" else _DOUBLE).fullmatch(text)
    if match is None:
        raise SurroundingsError(f"{what}: the value begins with a quote and does not end with it")
    return match["text"] if text[0] == "'" else _ESCAPED.sub(r"\1", match["text"])
