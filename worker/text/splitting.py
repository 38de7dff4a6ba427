"""From a review's text to its sentences.

nupunkt (the Punkt algorithm with a trained model) decides where sentences end. Reviews need some
preprocessing, all of it here: `<br>` ends a line, "<expected" is no tag, a sentence never spans
lines, "days.Seller" lacks a blank, Chinese and Japanese write none, and "!!!" is not a sentence.

Texts are untrusted, so every step is linear in their length: each regular expression consumes what
it scanned or gives up after a bounded number of characters, and nupunkt, which is quadratic in the
length of a word, sees only the end of a long one. A sentence id is the sentence's number, so the
result must be a pure function of the text and `SPLITTER`, which the state records.
"""

import html
import re
from collections.abc import Iterable
from functools import cache
from html.entities import html5
from importlib.metadata import version
from typing import Protocol

SPLITTER = f"nupunkt-{version('nupunkt')}/reviews-3"
"""Splitter, its version, and the version of this module's rules: raise it with any change of
results.
"""

# One pass, so "&amp;lt;" becomes "&lt;" and no more. Unlike html.unescape this needs the semicolon
# ("AT&T", "?a=1&copy=2").
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
# Inside a tag the scan ends at the next "<" or after 300 characters, inside a comment at the next
# "<!--". So each character is scanned a bounded number of times.
_MARKUP = re.compile(
    r"<!--(?:[^<-]|-(?!->)|<(?!!--))*+-->"
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
# C0 and C1 controls that are no line breaks, lone surrogates, and characters that show nothing
# (byte order mark, ...).
_INVISIBLE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200b\u2060\ufeff\ud800-\udfff]")
_CJK_END = re.compile("[。！？｡]+[”’」』）】》\"')]*")
_GLUED = re.compile(r"(?<=\w)[.!?…]+(?=\w)")
_LONG_WORD = re.compile(r"\S{48,}|(?:\. ){24,}")
_WORD_END = 24
_ADDRESS_MARKS = ("/", "@", "www", "WWW", "\\")
_TOP_DOMAINS = frozenset({"com", "net", "org"})


def split_sentences(text: str, max_chars: int) -> list[str]:
    """The sentences of `text` in reading order, each of 1 to `max_chars` characters, not blank.

    Markup is removed, whitespace becomes single blanks, everything else stays. Signs without a
    letter or digit ("!!!", ":)") belong to the sentence before them; without one, or cut off by the
    cap, they are dropped. Accepts any string, in linear time.

    >>> text = "Sharp display &amp; light.<br>The battery lasts for days.Dr. Smith likes it!!! :)"
    >>> split_sentences(text, max_chars=2000)
    ['Sharp display & light.', 'The battery lasts for days.', 'Dr. Smith likes it!!! :)']
    """
    pieces: list[list[str]] = []
    for line in _clean(text).splitlines():
        for sentence in _line_sentences(" ".join(line.split())):
            if says_something(sentence):
                pieces.append([sentence])
            elif pieces:
                pieces[-1].append(sentence)
    return [
        part
        for piece in pieces
        for part in cap_sentence(" ".join(piece), max_chars)
        if says_something(part)
    ]


def cap_sentence(text: str, max_chars: int) -> list[str]:
    """`text` itself if it has at most `max_chars` characters, otherwise pieces; nothing if blank.

    Cuts at the last blank in the second half of the cap, or at the cap.

    >>> cap_sentence("It was a very long stay.", max_chars=10)
    ['It was a', 'very long', 'stay.']
    """
    if max_chars < 1:
        raise ValueError(f"a sentence's cap must be at least 1 character, not {max_chars}")
    if len(text) <= max_chars:
        return [text] if text.strip() else []
    pieces = []
    start, end = 0, len(text)
    while start < end:
        stop = min(start + max_chars, end)
        if stop < end and not text[stop].isspace():
            blank = text.rfind(" ", start + max_chars // 2, stop)
            stop = blank if blank > start else stop
        piece = text[start:stop].strip()
        if piece:
            pieces.append(piece)
        start = stop
    return pieces


def says_something(text: str) -> bool:
    """Whether it has a letter or digit of any script (Unicode categories L and N).

    >>> says_something("很好"), says_something("½"), says_something("!!! 👍")
    (True, True, False)
    """
    return any(character.isalnum() for character in text)


def _clean(text: str) -> str:
    """`text` without markup, entities and invisible characters; block tags become line breaks."""
    # Most texts have none of it, and one look for a character takes less than a search for what
    # begins with it.
    if "<" in text:
        text = _MARKUP.sub(_without_markup, text)
    if "&" in text:
        text = _ENTITY.sub(_character, text)
    text = _INVISIBLE.sub(" ", text)
    if not text.isascii():
        text = _CJK_END.sub(lambda end: end[0] + "\n", text)
    return _GLUED.sub(_with_blank, text)


def _character(entity: re.Match[str]) -> str:
    """The character of an entity; html.unescape would find `&not;` in `&nothing;`."""
    name = entity[0][1:]
    return html.unescape(entity[0]) if name.startswith("#") else html5.get(name, entity[0])


def _without_markup(found: re.Match[str]) -> str:
    """Nothing or a line break for a comment or a tag, `found` itself for plain text."""
    if found["name"] is None:
        return ""
    name = found["name"].lower()
    if found["kind"] == "!":
        return "" if name == "doctype" else found[0]
    if name not in _ELEMENTS or not _ATTRIBUTES.fullmatch(found["rest"]):
        return found[0]
    return "\n" if name in _BLOCK_ELEMENTS else ""


def _with_blank(end: re.Match[str]) -> str:
    """The sentence end `end` inside a word, with a blank if a sentence starts after it:
    "days.Seller".

    nupunkt still decides whether it is one ("St.Louis"); this only excludes addresses,
    abbreviations and names.
    """
    text, start, stop = end.string, end.start(), end.end()
    capital, after = text[stop], text[stop + 1 : stop + 2]
    starts = capital.isupper() and (after.islower() or after in {" ", "'", "’"})
    ends = text[start - 1].islower() or text[start - 1].isdigit()
    if not starts or not ends or text[start - 2 : start - 1] == ".":
        return end[0]
    before = text[max(0, start - 64) : start].split()[-1:]
    behind = text[stop : stop + 64].split()[:1]
    word = "".join(before + behind)
    if (
        any(mark in word for mark in _ADDRESS_MARKS)
        or text[stop : stop + 3].lower() in _TOP_DOMAINS
    ):
        return end[0]
    return end[0] + " "


def _line_sentences(line: str) -> Iterable[str]:
    """The sentences of one line whose whitespace is single blanks."""
    masked = _LONG_WORD.sub(_word_end, line)
    return [
        line[start:stop].strip()
        for start, stop in _punkt().span_tokenize(masked)
        if line[start:stop].strip()
    ]


def _word_end(word: re.Match[str]) -> str:
    """A mask of `word`'s length with its first character (as a letter) and its last few."""
    shown = word[0]
    first = shown[0] if shown[0].isalnum() else "x"
    return first + " " * (len(shown) - 1 - _WORD_END) + shown[-_WORD_END:]


class _Punkt(Protocol):
    def span_tokenize(self, text: str) -> Iterable[tuple[int, int]]:
        """Start and end of every sentence."""


@cache
def _punkt() -> _Punkt:
    """The trained tokenizer, created at first use; nupunkt's shared one could be changed by others.

    Thread-safe: it only caches decisions, which are pure functions of the words.
    """
    from nupunkt.models import load_default_model

    tokenizer: _Punkt = load_default_model()
    return tokenizer
