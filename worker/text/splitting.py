"""From a review's text to its sentences.

nupunkt (the Punkt algorithm with a trained model) decides where sentences end. Reviews need more
than prose does: `<br>` is a line, a line is never part of two sentences' worth of context,
"days.Seller" lacks a blank, Chinese and Japanese write none, "!!!" is not a sentence. That is the
preprocessing here, and it is the only one.

The text comes from strangers, so every step is linear in its length: each regular expression either
consumes what it scanned or gives up after a bounded number of characters, and nupunkt, which is
quadratic in the length of a word, sees only the end of a long one. A sentence id is the sentence's
number, hence the result is a pure function of the text and `SPLITTER`, which the state records.
"""

import html
import re
from collections.abc import Iterable
from functools import cache
from html.entities import html5
from importlib.metadata import version
from typing import Protocol

SPLITTER = f"nupunkt-{version('nupunkt')}/reviews-1"
"""Splitter, its version, and the version of the rules in this module: raise it with any change of
the result.
"""

# One pass, so "&amp;lt;" becomes "&lt;" and no more. Unlike html.unescape this needs the semicolon
# ("AT&T", "?a=1&copy=2").
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
# A letter must follow "<", so "I <3 it, 5 > 4" stays; the scan ends at the next "<" or after 300
# characters.
_TAG = re.compile(r"<[/!]?([a-zA-Z][a-zA-Z0-9]{0,15})\b[^<>]{0,300}>")
_BLOCK_TAGS = frozenset(
    [
        "br",
        "p",
        "div",
        "li",
        "ul",
        "ol",
        "tr",
        "table",
        "hr",
        "blockquote",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
    ]
)
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
    """The sentences of `text` in reading order: no blank ones, each of 1 to `max_chars` characters.

    Markup goes, whitespace becomes single blanks, everything else stays. Signs without a letter or
    digit ("!!!", ":)") belong to the sentence before them. Takes any string, in time linear in its
    length.

    >>> split_sentences("Sharp display &amp; light.<br>The battery lasts for days.Dr. Smith likes it!!! :)", max_chars=2000)
    ['Sharp display & light.', 'The battery lasts for days.', 'Dr. Smith likes it!!! :)']
    """
    pieces: list[list[str]] = []
    for line in _clean(text).splitlines():
        for sentence in _line_sentences(" ".join(line.split())):
            if pieces and not _says_something(sentence):
                pieces[-1].append(sentence)
            else:
                pieces.append([sentence])
    return [part for piece in pieces for part in cap_sentence(" ".join(piece), max_chars)]


def cap_sentence(text: str, max_chars: int) -> list[str]:
    """`text` itself if it has at most `max_chars` characters, else pieces that have; nothing if it
    is blank.

    Cuts at the last blank in the second half of the cap; where there is none, at the cap.

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


def _clean(text: str) -> str:
    """`text` without markup, entities and invisible characters, and with a line break after every
    block of markup.
    """
    # Most texts have none of it, and one look for a character takes less than a search for what
    # begins with it.
    if "<" in text:
        text = _TAG.sub(_without_tag, text)
    if "&" in text:
        text = _ENTITY.sub(_character, text)
    text = _INVISIBLE.sub(" ", text)
    if not text.isascii():
        text = _CJK_END.sub(lambda end: end[0] + "\n", text)
    return _GLUED.sub(_with_blank, text)


def _character(entity: re.Match[str]) -> str:
    """What an entity stands for, or itself where it is none: html.unescape would find `&not;` in
    `&nothing;`.
    """
    name = entity[0][1:]
    return html.unescape(entity[0]) if name.startswith("#") else html5.get(name, entity[0])


def _without_tag(tag: re.Match[str]) -> str:
    return "\n" if tag[1].lower() in _BLOCK_TAGS else ""


def _with_blank(end: re.Match[str]) -> str:
    """The sentence end `end` found inside a word, with a blank after it if a sentence starts there:
    "days.Seller".

    nupunkt still decides whether it is one ("St.Louis"); here only addresses, abbreviations and
    names are kept whole.
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


def _says_something(sentence: str) -> bool:
    return any(character.isalnum() for character in sentence)


def _line_sentences(line: str) -> Iterable[str]:
    """The sentences of one line whose whitespace is single blanks."""
    masked = _LONG_WORD.sub(_word_end, line)
    return [
        line[start:stop].strip()
        for start, stop in _punkt().span_tokenize(masked)
        if line[start:stop].strip()
    ]


def _word_end(word: re.Match[str]) -> str:
    """As many characters as `word` has, of which only the first (as a letter) and the last few are
    shown to nupunkt.
    """
    shown = word[0]
    first = shown[0] if shown[0].isalnum() else "x"
    return first + " " * (len(shown) - 1 - _WORD_END) + shown[-_WORD_END:]


class _Punkt(Protocol):
    def span_tokenize(self, text: str) -> Iterable[tuple[int, int]]:
        """Start and end of every sentence."""


@cache
def _punkt() -> _Punkt:
    """The trained tokenizer: made when first used, and not nupunkt's shared one, which anybody may
    change.

    Threads may use it together: it only remembers decisions, and a decision is a pure function of
    the words.
    """
    from nupunkt.models import load_default_model

    tokenizer: _Punkt = load_default_model()
    return tokenizer
