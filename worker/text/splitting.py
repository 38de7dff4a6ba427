"""From a review's text to its sentences.

nupunkt (the Punkt algorithm with a trained model) decides where sentences end. Reviews need some
preprocessing, besides that of `cleaning`: a text may be wrapped or have one statement on each line,
"days.Seller" lacks a blank, Chinese and Japanese write none, nupunkt knows full stops of few
scripts, and "!!!" is not a sentence.

Texts are untrusted, so every step is linear in their length: each regular expression consumes what
it scanned or gives up after a bounded number of characters, and nupunkt, which is quadratic in the
length of a word, sees only the end of a long one. A sentence id is the sentence's number, so the
result must be a pure function of the text and `SPLITTER`, which the state records.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from typing import Protocol
from unicodedata import category, combining

from worker.text.abbreviations import marked
from worker.text.cleaning import clean

SPLITTER = f"nupunkt-{version('nupunkt')}/reviews-5"
"""Splitter, its version, and the version of this module's rules: raise it with any change of
results.
"""

# Unicode's Sentence_Terminal without those of ASCII, which nupunkt knows.
_ENDS = (
    "\u0589\u061d-\u061f\u06d4\u0700-\u0702\u07f9\u0837\u0839\u083d\u083e\u0964\u0965\u104a\u104b\u1362"
    "\u1367\u1368\u166e\u1735\u1736\u17d4\u17d5\u1803\u1809\u1944\u1945\u1aa8-\u1aab\u1b5a\u1b5b\u1b5e"
    "\u1b5f\u1b7d\u1b7e\u1c3b\u1c3c\u1c7e\u1c7f\u203c\u203d\u2047-\u2049\u2e2e\u2e3c\u2e53\u2e54\u3002\ua4ff"
    "\ua60e\ua60f\ua6f3\ua6f7\ua876\ua877\ua8ce\ua8cf\ua92f\ua9c8\ua9c9\uaa5d-\uaa5f\uaaf0\uaaf1\uabeb"
    "\ufe52\ufe56\ufe57\uff01\uff0e\uff1f\uff61\U00010a56\U00010a57\U00010f55-\U00010f59"
    "\U00010f86-\U00010f89\U00011047\U00011048\U000110be-\U000110c1\U00011141-\U00011143\U000111c5"
    "\U000111c6\U000111cd\U000111de\U000111df\U00011238\U00011239\U0001123b\U0001123c\U000112a9"
    "\U0001144b\U0001144c\U000115c2\U000115c3\U000115c9-\U000115d7\U00011641\U00011642"
    "\U0001173c-\U0001173e\U00011944\U00011946\U00011a42\U00011a43\U00011a9b\U00011a9c\U00011c41"
    "\U00011c42\U00011ef7\U00011ef8\U00016a6e\U00016a6f\U00016af5\U00016b37\U00016b38\U00016b44"
    "\U00016e98\U0001bc9f\U0001da88"
)
_CLOSING = "\ufe0f”’»」』）】》\"')"
_WIDE = "\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003134f"
# "「…。」と言った" goes on: after a quotation a particle follows.
_QUOTED = re.compile(
    "[」』）】》](?:(?:って|なんて|など|を)|と(?!ても|っ|に|こ|り|く|き)|[がは](?!っ|い|じ|や)|の(?!ん|ど)"
    "|に(?!ぎ)|で(?!も|は|す|き))"
)
# Faces, hearts, hands: they comment on the sentence before them. Signs that may begin a line of a
# list, or point to what follows, are none of them.
_EMOJI = (
    "\u200d\u263a\u2639\u2665\u270a-\u270c\u2763\u2764\ufe0f\U0001f3fb-\U0001f3ff\U0001f44a-\U0001f450"
    "\U0001f493-\U0001f49f\U0001f4aa\U0001f4af\U0001f595\U0001f596\U0001f5a4\U0001f600-\U0001f64f"
    "\U0001f90c-\U0001f91f\U0001f920-\U0001f92f\U0001f970-\U0001f97a\U0001f9d0\U0001f9e1"
    "\U0001fa75-\U0001fa77\U0001fae0-\U0001fae9\U0001faf0-\U0001faf8"
)
_EMOJIS = f"(?: {{0,3}}[{_EMOJI}]++)"
_EMOJI_END = re.compile(rf"[.!?…][{_CLOSING}]*+{_EMOJIS}++(?=\s|\w)")
# A full stop of full width between digits is a point. In text of full width !? need no blank.
_OTHER_END = re.compile(
    rf"(?:(?!\uff0e[0-9\uff10-\uff19])[{_ENDS}])[!?{_ENDS}]*[{_CLOSING}]*{_EMOJIS}*+"
    rf"|(?<=[{_WIDE}])[!?]+[{_CLOSING}]*(?=[{_WIDE}])"
)
# One look for a character outside of Latin, Greek, Cyrillic and their signs saves most searches.
_RARE = re.compile("[^\x00-\u0588\u2010-\u2027]")
_ENDS_SENTENCE = re.compile(rf"[.!?…:{_ENDS}][{_CLOSING}]*$")
_WRAPPED_CHARS = 60  # a line of at least so many characters is likely to be wrapped where it ends
_GLUED = re.compile(r"(?<=\w)[.!?…]+(?=\w)")
_LONG_WORD = re.compile(r"\S{48,}|(?:\. ){24,}")
_WORD_END = 24
_ADDRESS_MARKS = ("/", "@", "www", "WWW", "\\")
_TOP_DOMAINS = frozenset({"com", "net", "org"})


def split_sentences(text: str, max_chars: int, language: str | None = None) -> list[str]:
    """The sentences of `text` in reading order, each of 1 to `max_chars` characters, not blank.

    Markup is removed, whitespace becomes single blanks, everything else stays. Signs without a
    letter or digit ("!!!", ":)") belong to the sentence before them; without one, or cut off by the
    cap, they are dropped. The abbreviations are those of the `language`, a primary subtag, or
    English ones. Accepts any string, in linear time.

    >>> text = "Sharp display &amp; light.<br>The battery lasts for days.Dr. Smith likes it!!! :)"
    >>> split_sentences(text, max_chars=2000)
    ['Sharp display & light.', 'The battery lasts for days.', 'Dr. Smith likes it!!! :)']
    """
    pieces: list[list[str]] = []
    for line in _unwrapped(_with_ends(clean(text))):
        for sentence in _line_sentences(line, language):
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

    Cuts at the last blank in the second half of the cap, or at the cap, before a character that
    does not combine with the one before it.

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
            stop = blank if blank > start else _before_base(text, start, stop)
        piece = text[start:stop].strip()
        if piece:
            pieces.append(piece)
        start = stop
    return pieces


def _before_base(text: str, start: int, stop: int) -> int:
    """The last place up to `stop` where a character as people see it begins; `stop` if there is
    none nearby.
    """
    for at in range(stop, max(start, stop - 64), -1):
        if not _continues(text, at):
            return at
    return stop


def _continues(text: str, at: int) -> bool:
    """True if the code point belongs to the one before it: marks, conjuncts of Indic scripts,
    vowels and final consonants of Hangul, emoji that are joined or have a tone, flags.
    """
    char, before = text[at], text[at - 1]
    if category(char) in ("Mn", "Me", "Mc") or "\u200d" in (char, before):
        return True
    if _JOINED.match(text, at - 1) or (combining(before) == _VIRAMA and category(char) == "Lo"):
        return True
    if not "\U0001f1e6" <= char <= "\U0001f1ff":
        return False
    flags = _FLAGS_BEFORE.search(text, max(0, at - 64), at)
    return flags is not None and len(flags[0]) % 2 == 1


_FLAGS_BEFORE = re.compile("[\U0001f1e6-\U0001f1ff]+$")
_VIRAMA = 9  # the combining class of signs that join consonants
_JOINED = re.compile(
    "[\u1100-\u115f\ua960-\ua97c][\u1100-\u115f\ua960-\ua97c\uac00-\ud7a3]|.[\u0e33\u0eb3"
    "\u1160-\u11ff\u200c\ud7b0-\ud7fb\uff9e\uff9f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
    "|[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd\U000111c2\U000111c3"
    "\U0001193f\U00011941\U00011a84-\U00011a89\U00011d46]."
)
"""Two characters of one syllable or emoji, neither of which is a mark."""


def read_whole(text: str, reads_all: Callable[[str], bool]) -> list[str]:
    """`text` if a model reads it to its end, otherwise its halves, halved again if need be.

    Cuts at the blank, or after the comma of a script without blanks, that is nearest to the middle;
    if there is none in the half around it, before a character that does not combine.

    >>> read_whole("It was a very long stay.", lambda text: len(text.split()) <= 4)
    ['It was a very', 'long stay.']
    """
    if len(text) < 2 or reads_all(text):
        return [text]
    middle, quarter = len(text) // 2, len(text) // 4
    places = [found.start() for found in _GAP.finditer(text, quarter, len(text) - quarter)]
    at = min(places, key=lambda place: abs(place - middle), default=0)
    at = at or _before_base(text, 0, middle)
    halves = text[:at].strip(), text[at:].strip()
    return [piece for half in halves if half for piece in read_whole(half, reads_all)]


_GAP = re.compile(r"\s|(?<=[、，；])")


def says_something(text: str) -> bool:
    """True if it has a letter or digit of any script (Unicode categories L and N).

    >>> says_something("很好"), says_something("½"), says_something("!!! 👍")
    (True, True, False)
    """
    return any(character.isalnum() for character in text)


def _with_ends(text: str) -> str:
    """`text` with a blank line after each end of a sentence that nupunkt does not know."""
    if _RARE.search(text):
        text = _OTHER_END.sub(_with_end, _EMOJI_END.sub(r"\g<0>\n\n", text))
    return _GLUED.sub(_with_blank, text)


def _with_end(end: re.Match[str]) -> str:
    """`end` with a blank line, unless it ends a quotation and the sentence goes on."""
    return end[0] if _QUOTED.match(end.string, end.end() - 1) else end[0] + "\n\n"


def _unwrapped(text: str) -> Iterator[str]:
    """The lines of a text whose whitespace is single blanks; those of running text as one.

    A line goes on in the next one if that begins with a small letter, and the text looks like
    running text: the line ends with a comma or is long, or the last one of the paragraph ends with
    a full stop. Small letters begin other lines too: people write one statement on each.
    """
    for paragraph in _paragraphs(text):
        whole = paragraph[0]
        is_text = len(paragraph) > 1 and _ENDS_SENTENCE.search(paragraph[-1]) is not None
        for line, following in pairwise(paragraph):
            goes_on = _begins_within(following) and not _ENDS_SENTENCE.search(line)
            if goes_on and (is_text or line[-1] == "," or len(line) >= _WRAPPED_CHARS):
                whole = f"{whole} {following}"
            else:
                yield whole
                whole = following
        yield whole


def _paragraphs(text: str) -> Iterator[list[str]]:
    """The lines between blank ones."""
    lines: list[str] = []
    for line in text.splitlines():
        if single := " ".join(line.split()):
            lines.append(single)
        elif lines:
            yield lines
            lines = []
    if lines:
        yield lines


def _begins_within(line: str) -> bool:
    """True if its first letter may be in the middle of a sentence: a small one, or one of a script
    that has no capitals and writes blanks.
    """
    first = line[0]
    if first.islower():
        return True
    return first.isalpha() and first.lower() == first.upper() and not _WIDE_LETTER.match(first)


_WIDE_LETTER = re.compile(f"[{_WIDE}]")


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


def _line_sentences(line: str, language: str | None) -> Iterable[str]:
    """The sentences of one line whose whitespace is single blanks."""
    masked = marked(_LONG_WORD.sub(_word_end, line), language)
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
