"""HTML from texts that nobody vouches for: whatever is put in comes out as text."""

from html import escape
from typing import NewType

Html = NewType("Html", str)
"""Markup of ours, with nothing of anybody else in it that is not escaped."""

VOID = frozenset({"input", "meta"})


def text(value: object) -> Html:
    """The value as text. Characters that are no text (control characters) are shown as such."""
    shown = "".join(
        one if one.isprintable() or one in _ALLOWED else "\N{REPLACEMENT CHARACTER}"
        for one in str(value)
    )
    return Html(escape(shown))


def element(name: str, /, *content: Html, **attributes: object) -> Html:
    """An element. An attribute's `_` is `-`, one at its end is dropped; True: without a value;
    None, False: no attribute.
    """
    given = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    end = "" if name in VOID else f"</{name}>"
    return Html(f"<{name}{given}>{''.join(content)}{end}")


def foreign(value: object) -> Html:
    """Somebody's words or id, whose direction of writing ends where they do."""
    return element("bdi", text(value))


# Emoji are joined by the one, and scripts shaped by the others; no other format characters are let
# through.
_ALLOWED = "\n\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{text(value)}"'
