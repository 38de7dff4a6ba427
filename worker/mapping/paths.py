"""Dotted paths into a record, as closures: `after.title`, `key.product_id`, `ce.type`, `header:v`.

The first part chooses the root: `key`, `ce` (attributes of a CloudEvent), `header:NAME`, `item` (a
member of the list of a rule with `each`), else the value. A part in quotes is a member's name as it
stands: `"key".id` is the member `key` of the value, `after."a.b"` has a dot in its name. A part of
digits also counts the items of an array.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn

from worker.events.inputs import Record
from worker.events.reasons import BadEvent, Reason

VALUE, KEY, CE, HEADERS, ITEM = range(5)
"""Where paths begin, as places in `Roots`."""
UNAVAILABLE: Final = "__debezium_unavailable_value"
"""Debezium's placeholder for a large column that an update did not change."""


class Roots(NamedTuple):
    """A record decoded: its value and key, the attributes of its CloudEvent, its headers, the
    member of a list that a rule is at, and the schemas in its envelopes, by root.
    """

    value: Any
    key: Any
    ce: dict[str, Any]
    headers: dict[str, bytes | None]
    item: Any
    record: Record
    schemas: dict[int, Any]


class Unavailable(BadEvent):
    """A value that exists, and that the record does not have: no other one may stand for it."""


Get = Callable[[Roots], Any]
"""What a record has there; None if nothing."""

_PART: Final = re.compile(r"""(?:"([^"]+)"|'([^']+)'|([^."'\s]+))(?:\.(?=.)|$)""")
_SEVERAL: Final = re.compile(r"^\*$|\[(?:\*|[0-9]+)\]", re.ASCII)
"""A wildcard or an index as JSONPath and jq write them."""
_HEADER: Final = "header:"
_NOTHING: Final = object()


class Path(NamedTuple):
    """A parsed path: its text, root, and the names below it."""

    text: str
    root: int
    names: tuple[str, ...]


def parse_path(text: str, has_items: bool = False) -> Path:
    """The path in `text`; `item` is a root where a rule `has_items`. Raises ValueError with what is
    wrong.
    """
    if text.startswith(_HEADER):
        if not (name := text.removeprefix(_HEADER)):
            raise ValueError(f"{text!r} names no header")
        return Path(text, HEADERS, (name,))
    names: list[str] = []
    at, is_bare = 0, False
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            break
        if found := _SEVERAL.search(part[3] or ""):
            raise ValueError(
                f"{text!r} has a {found[0]} at character {at + found.start() + 1}: a path leads to "
                "one member, items.0.text"
            )
        is_bare = is_bare or (not names and part[3] is not None)
        names.append(part[1] or part[2] or part[3])
        at = part.end()
    if at < len(text) or not names:
        raise ValueError(f"{text!r} is not a path like after.title")
    if is_bare and names[0] == "key":
        return Path(text, KEY, tuple(names[1:]))
    if is_bare and names[0] == "item" and has_items:
        return Path(text, ITEM, tuple(names[1:]))
    if is_bare and names[0] == "ce":
        if len(names) == 1:
            raise ValueError("'ce' needs the name of an attribute, like ce.type")
        return Path(text, CE, tuple(names[1:]))
    return Path(text, VALUE, tuple(names))


def getter(path: Path) -> Get:
    """The value of a record at the path."""
    root, names = path.root, path.names
    if root == HEADERS:
        return _header(names[0])
    if not names:
        return lambda roots: roots[root]
    if any(name.isdecimal() for name in names):
        return _steps(path)
    *above, last = names

    def get(roots: Roots) -> Any:
        node: Any = roots[root]
        for name in above:
            if type(node) is not dict:
                return _nothing(node, path)
            node = node.get(name)
        value = node.get(last) if type(node) is dict else None
        return _nothing(node, path) if value is None else value

    return get


def is_there(path: Path, roots: Roots) -> bool:
    """True if the record has the member, possibly null."""
    if path.root == HEADERS:
        return path.names[0] in roots.headers
    node: Any = roots[path.root]
    for name in path.names:
        node = step(node, name, _NOTHING)
    return node is not _NOTHING


def _header(name: str) -> Get:
    def get(roots: Roots) -> str | None:
        raw = roots.headers.get(name)
        return None if raw is None else text_of(raw, f"header:{name}")

    return get


def text_of(raw: bytes, what: str) -> str:
    """The text in a header or a key. Raises BadEvent."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise BadEvent(Reason.BAD_FIELD, f"{what}: not UTF-8") from None


def _steps(path: Path) -> Get:
    def get(roots: Roots) -> Any:
        node: Any = roots[path.root]
        for name in path.names:
            if (below := step(node, name, None)) is None:
                return _nothing(node, path)
            node = below
        return node

    return get


def _nothing(node: Any, path: Path) -> None:
    """None for a member that `node` lacks. Raises BadEvent if the source left out the column."""
    if node == UNAVAILABLE or (type(node) in (dict, list) and UNAVAILABLE in node):
        unavailable(path.text)


def unavailable(what: str) -> NoReturn:
    """Raise Unavailable for a value that Debezium left out."""
    raise Unavailable(
        Reason.BAD_FIELD,
        f"{what}: the source left out an unchanged column ({UNAVAILABLE}): "
        "set REPLICA IDENTITY FULL on its table",
    )


def step(node: Any, name: str, otherwise: object) -> Any:
    """The value of a node under a name or at a place in a list."""
    if type(node) is dict:
        return node.get(name, otherwise)
    if type(node) is list and name.isdecimal() and len(name) < 10 and int(name) < len(node):
        return node[int(name)]
    return otherwise
