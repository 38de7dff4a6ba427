"""HTML from untrusted texts: everything that is put in is shown as text."""

from html import escape
from typing import NewType

import msgspec

Html = NewType("Html", str)
"""Markup in which every foreign text is escaped."""

VOID = frozenset({"input", "meta"})


def text(value: object) -> Html:
    """The value as text, escaped and `printable`."""
    return Html(escape(printable(str(value))))


def printable(value: str) -> str:
    """The value with a replacement character for each control and format character."""
    return "".join(
        one if one.isprintable() or one in _ALLOWED else "\N{REPLACEMENT CHARACTER}"
        for one in value
    )


def data(value: object, **attributes: object) -> Html:
    """A value as JSON in an element that no browser executes; without `<`, so that no text of it
    can end the element.
    """
    encoded = msgspec.json.encode(value).decode().replace("<", "\\u003c")
    return element("script", Html(encoded), type_="application/json", **attributes)


def element(name: str, /, *content: Html, **attributes: object) -> Html:
    """An element. In the names of attributes `_` stands for `-`, and at the end for nothing. True
    means an attribute without a value, None and False mean no attribute.
    """
    given = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    end = "" if name in VOID else f"</{name}>"
    return Html(f"<{name}{given}>{''.join(content)}{end}")


def foreign(value: object) -> Html:
    """A foreign text; its writing direction does not affect what is around it."""
    return element("bdi", text(value))


# These join emoji and shape scripts; all other format characters are replaced.
_ALLOWED = "\n\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{text(value)}"'
