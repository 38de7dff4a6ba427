"""A review's text without markup, entities, and what shows nothing.

`<br>` ends a sentence, "<expected" is not a tag: only names of HTML's elements are. Texts are
untrusted, so every step is linear in their length: each regular expression consumes what it scanned
or gives up after a bounded number of characters.
"""

import html
import re
from html.entities import html5

# Decoded before markup is looked for: many exports escape the tags too. One pass, so "&amp;lt;"
# becomes "&lt;" and no more. Unlike html.unescape this needs the semicolon ("AT&T", "?a=1&copy=2").
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
# Inside a tag the scan ends at the next "<" or after 300 characters, inside a comment at the next
# "<!--", inside CDATA at the next one. So each character is scanned a bounded number of times.
_MARKUP = re.compile(
    r"<!--(?:[^<-]|-(?!->)|<(?!!--))*+-->"
    r"|<!\[CDATA\[(?P<data>(?:[^<\]]|\](?!\]>)|<(?!!\[CDATA\[))*+)\]\]>"
    r"|<(?P<kind>[/!]?)(?P<name>[a-zA-Z][a-zA-Z0-9:]{0,15})(?P<rest>[^<>]{0,300})>"
)
# Reviews also write "<expected and ...>", "<a bit> more" and "<mail@example.org>". So a tag has the
# name of an element, and after it nothing or attributes, of which the first has a value. Some
# without a value may come before it.
_ATTRIBUTES = re.compile(
    r"(?:\s+(?:async|autoplay|checked|controls|disabled|hidden|loop|muted|noshade|nowrap)(?=[\s/]|$))*"
    r"(?:\s*/?|\s+[a-z_:][a-z0-9_:.-]*=.*)",
    re.DOTALL | re.IGNORECASE,
)
_BLOCKS = "br p div li ul ol tr table hr blockquote h1 h2 h3 h4 h5 h6"
_OTHERS = """
    a abbr acronym address applet area article aside audio b base basefont bdi bdo bgsound big blink
    body button canvas caption center cite code col colgroup data datalist dd del details dfn dialog
    dir dl dt em embed fieldset figcaption figure font footer form frame frameset head header hgroup
    html i iframe img input ins kbd label legend link main map mark marquee menu menuitem meta meter
    nav nobr noembed noframes noscript object optgroup option output param picture plaintext pre
    progress q rb rp rt rtc ruby s samp script search section select slot small source span strike
    strong style sub summary sup svg tbody td template textarea tfoot th thead time title track tt u
    var video wbr xmp o:p
"""  # HTML's, also those of the past, and the paragraph mark of texts out of Word
_BLOCK_ELEMENTS = frozenset(_BLOCKS.split())
_ELEMENTS = _BLOCK_ELEMENTS.union(_OTHERS.split())
# What these contain is no text. The end is searched for once; without one they are tags.
_CODE = re.compile(r"<(?P<name>script|style)(?=[\s>])[^<>]{0,300}>", re.IGNORECASE)
_CODE_END = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style")}
# C1 controls are characters of Windows-1252 in a text that was decoded as Latin-1. C0 controls that
# are no line breaks are blanks, characters without width are nothing, and half of a pair of
# surrogates is a character that was lost.
_CONTROLS = dict.fromkeys((*range(9), *range(14, 28), *range(127, 160)), " ")
_CONTROLS |= {
    byte: text for byte in range(128, 160) if (text := bytes([byte]).decode("cp1252", "ignore"))
}
_CONTROLS |= dict.fromkeys((0x200B, 0x2060, 0xFEFF), "")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x9f\u200b\u2060\ufeff\ud800-\udfff]")
_LOST = "\ufffd"


def clean(text: str) -> str:
    """`text` without entities, markup and invisible characters; blank lines end sentences."""
    # Most texts have none of it, and one look for a character takes less than a search for what
    # begins with it.
    if "&" in text:
        text = _ENTITY.sub(_character, text)
    if "<" in text:
        text = _MARKUP.sub(_without_markup, _without_code(text))
    return _CONTROL.sub(lambda found: _CONTROLS.get(ord(found[0]), _LOST), text)


def _without_code(text: str) -> str:
    """Without scripts and styles, but those without an end."""
    parts, at = [], 0
    ends: dict[str, int] = {}
    for found in _CODE.finditer(text):
        name = found["name"].lower()
        if found.start() < at or ends.get(name) == -1:
            continue
        end = _CODE_END[name].search(text, found.end())
        close = ends[name] = -1 if end is None else text.find(">", end.end())
        if close >= 0:
            parts.append(text[at : found.start()])
            at = close + 1
    return "".join(parts) + text[at:]


def _character(entity: re.Match[str]) -> str:
    """The character of an entity; html.unescape would find `&not;` in `&nothing;`."""
    name = entity[0][1:]
    return html.unescape(entity[0]) if name.startswith("#") else html5.get(name, entity[0])


def _without_markup(found: re.Match[str]) -> str:
    """Nothing or a blank line for a comment or a tag, `found` itself for plain text."""
    if found["name"] is None:
        return found["data"] or ""
    name = found["name"].lower()
    if found["kind"] == "!":
        return "" if name == "doctype" else found[0]
    if name not in _ELEMENTS or not _ATTRIBUTES.fullmatch(found["rest"]):
        return found[0]
    return "\n\n" if name in _BLOCK_ELEMENTS else ""
