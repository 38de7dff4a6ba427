"""The lines of a TOML file on which its tables and keys stand, and near names, for messages."""

import tomllib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any, Final

MAX_DEPTH: Final = 100
"""Deepest nesting of tables and arrays: what follows may recurse."""
Place = tuple[str | int, ...]
"""Keys and, for arrays of tables, indices from the root: `("topic", "reviews", "rule", 0)`."""


def positions(text: str) -> dict[Place, int]:
    """Line numbers, from 1, by place in valid TOML; places inside a value have the value's line."""
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    lines, at = text.replace("\r\n", "\n").split("\n"), 0
    while at < len(lines):
        end, parsed = _statement(lines, at)
        if parsed and lines[at].lstrip().startswith("["):
            table = _table(parsed, counts)
            found.setdefault(table, at + 1)
        elif parsed:
            for place in _keys(parsed):
                found.setdefault(table + place, at + 1)
        at = end
    return found


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML file. Raises ValueError with one line that says what is wrong."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:  # of int(), which names a setting of Python
        raise ValueError("a number has too many digits") from None
    level: list[Any] = [content]
    for _ in range(MAX_DEPTH):
        level = [inner for table in level for inner in _inside(table)]
        if not level:
            return content
    raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")


def near(name: object, names: Iterable[str], ask: str = ", did you mean") -> str:
    """The end of a message about an unknown name: the most similar of these, if one is similar."""
    found = get_close_matches(str(name), list(names), 1)
    return f"{ask} {found[0]}?" if found else ""


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def line_of(found: dict[Place, int], place: Place) -> int:
    """The line of a place, or of the nearest one around it."""
    while place and place not in found:
        place = place[:-1]
    return found.get(place, 1)


def _statement(lines: list[str], start: int) -> tuple[int, dict[str, Any]]:
    """The statement that begins on a line: the line after it, and its content."""
    for end in range(start + 1, len(lines) + 1):
        try:
            return end, tomllib.loads("\n".join(lines[start:end]))
        except tomllib.TOMLDecodeError:
            continue  # a value of several lines
    return len(lines), {}


def _table(parsed: dict[str, Any], counts: dict[Place, int]) -> Place:
    """The place of a header, which `parsed` holds as tables in tables; counts arrays of tables."""
    place: Place = ()
    node: Any = parsed
    while node and isinstance(node, dict):
        ((name, node),) = node.items()
        place += (name,)
        if isinstance(node, list):  # the header of one more table of an array
            counts[place] = counts.get(place, 0) + 1
        if place in counts:
            place += (counts[place] - 1,)
    return place


def _keys(parsed: dict[str, Any]) -> Iterator[Place]:
    for name, value in parsed.items():
        yield (name,)
        if isinstance(value, dict):
            yield from ((name, *place) for place in _keys(value))
