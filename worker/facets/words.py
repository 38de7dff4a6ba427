"""Words of facets: which facets the sentences of a review mention.

A pattern is a word, `clean*` for every word that begins so, or several of these for a run of words.
A word is a run of letters, digits and apostrophes within it. Scripts without blanks have no such
words: a pattern with one of their characters is a substring. Case is folded, accents are not.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from unicodedata import normalize

from worker.text.language import UNKNOWN, language_code

MAX_PATTERNS: Final = 500  # of a facet in a language
MAX_PATTERN_CHARS: Final = 2000
# Combining marks belong to a word: Indic vowels, Hebrew and Arabic points.
_MARKS: Final = (
    "\u0300-\u036f\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
)
_WORD: Final = rf"[\w'{_MARKS}]"
# an apostrophe at an end of a word is a quotation mark
_WORDS: Final = re.compile(rf"[\w{_MARKS}]+(?:'+[\w{_MARKS}]+)*")
_PARTS: Final = re.compile(rf"({_WORD}+)(\*?)")
_STRAY_STAR: Final = re.compile(rf"(?<!{_WORD})\*|\*(?={_WORD})")
_LANGUAGE: Final = re.compile("[a-z]{2,8}")
# Han, Kana, Thai, Lao, Myanmar, Khmer
_WITHOUT_BLANKS: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035"
    "\u3038-\u303b\u3041-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua9e0-\ua9ff"
    "\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)
_WIDTHS: Final = re.compile("[\uff01-\uff9f]+")
_FACETS: Final = 64
_CACHED_WORDS: Final = 2**14
_CACHED_CHARS: Final = 40  # of a word: longer ones hardly come again

Part = tuple[str, bool]  # a word, and whether every word that begins so matches
Meaning = tuple[int, Sequence[tuple[Sequence[Part], int]]]
"""Of a word: its facets, and those of each run that it begins, after the rest of it."""


class _Hit(NamedTuple):
    """The matches of a word of a text: slots, and the rest of runs that it begins."""

    slots: int
    runs: tuple[tuple[tuple[Part, ...], int], ...]

    def joined(self, other: "_Hit") -> "_Hit":
        return _Hit(self.slots | other.slots, self.runs + other.runs)


_NO_HIT: Final = _Hit(0, ())


class Words:
    """The words of facets, compiled. All languages are looked up at once: a facet's words in one
    language are a slot, a bit of an integer, and the review's language chooses among the slots.
    """

    def __init__(self, words: Sequence[Sequence[str] | Mapping[str, Sequence[str]] | None]) -> None:
        """`words`: by facet number, at most 64, its patterns for all languages, or those of each
        language. Raises ValueError that names the pattern.
        """
        if len(words) > _FACETS:
            raise ValueError(f"{len(words)} facets, at most {_FACETS} are allowed")
        self._exact: dict[str, _Hit] = {}
        self._prefixes: dict[str, _Hit] = {}
        self._substrings: dict[str, int] = {}
        self._shifts: dict[str, int] = {}  # of a language's slots; the first are of no language
        self._first = 0  # slots of the first language of a facet
        for facet, given in enumerate(words):
            if isinstance(given, Mapping):
                for at, (language, patterns) in enumerate(given.items()):
                    slot = 1 << facet + self._shift(language)
                    self._first |= 0 if at else slot
                    self._add(patterns, slot)
            else:
                self._add(given or (), 1 << facet)
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})
        self._known: dict[str, _Hit] = {}

    def __bool__(self) -> bool:
        """True if a facet has words."""
        return bool(self._exact or self._prefixes or self._substrings)

    def bits(self, texts: Iterable[str], language: str | None) -> int:
        """The facets that a review mentions, a bit for each: those with a pattern in a sentence.

        Args:
            texts: its sentences; a run of words is in one of them.
            language: a tag of the review's. Without one that names a language a facet's first list
                counts.
        """
        slots = 0
        known = self._known
        for text in texts:
            folded = fold(text)
            if not folded.isascii() and _WITHOUT_BLANKS.search(folded) is not None:
                for substring, slot in self._substrings.items():
                    if substring in folded:
                        slots |= slot
                folded = _WITHOUT_BLANKS.sub(" ", folded)
            words = _WORDS.findall(folded)
            for at, word in enumerate(words):
                hit = known.get(word)
                if hit is None:
                    hit = self._look_up(word)
                if hit is not _NO_HIT:
                    slots |= hit.slots
                    for rest, slot in hit.runs:
                        if _follows(rest, words, at + 1):
                            slots |= slot
        return self._of_language(slots, language) if slots else 0

    def meaning(self, word: str, language: str | None) -> Meaning:
        """The facets of a folded word, and of the rest of each run that it begins."""
        hit = self._look_up(word)
        runs = [(rest, self._of_language(slot, language)) for rest, slot in hit.runs]
        return self._of_language(hit.slots, language), runs

    def _shift(self, language: str) -> int:
        if not _LANGUAGE.fullmatch(language) or language == UNKNOWN:
            raise ValueError(f"{language!r} is no language: give a primary subtag, as 'en'")
        return self._shifts.setdefault(language, _FACETS * (len(self._shifts) + 1))

    def _add(self, patterns: Sequence[str], slot: int) -> None:
        if len(patterns) > MAX_PATTERNS:
            raise ValueError(f"{len(patterns)} words, at most {MAX_PATTERNS} are allowed")
        for pattern in patterns:
            parts = _parse(pattern)
            if isinstance(parts, str):
                self._substrings[parts] = self._substrings.get(parts, 0) | slot
                continue
            (first, is_prefix), rest = parts[0], tuple(parts[1:])
            hits = self._prefixes if is_prefix else self._exact
            hit = _Hit(0, ((rest, slot),)) if rest else _Hit(slot, ())
            hits[first] = hits.get(first, _NO_HIT).joined(hit)

    def _look_up(self, word: str) -> _Hit:
        """The matches of the word, from a cache."""
        hit = self._exact.get(word, _NO_HIT)
        for length in self._lengths:
            if length > len(word):
                break
            of_prefix = self._prefixes.get(word[:length])
            if of_prefix is not None:
                hit = hit.joined(of_prefix)
        if len(word) <= _CACHED_CHARS:
            if len(self._known) >= _CACHED_WORDS:
                self._known.clear()
            self._known[word] = hit
        return hit

    def _of_language(self, slots: int, language: str | None) -> int:
        """The facets of these slots."""
        bits = slots
        if code := language_code(language):
            bits |= slots >> self._shifts.get(code, 0)
        else:
            for shift in self._shifts.values():
                bits |= (slots & self._first) >> shift
        return bits & (1 << _FACETS) - 1


def fold(text: str) -> str:
    """The text without case; both apostrophes, all forms of a letter, and letters of full and half
    width become the same. The Turkish capital of i is an i.
    """
    if text.isascii():
        return text.lower().replace("_", " ")
    text = _WIDTHS.sub(lambda found: normalize("NFKC", found[0]), text)
    folded = normalize("NFC", normalize("NFD", text).casefold().replace("i\u0307", "i"))
    return folded.replace("’", "'").replace("_", " ")


def words_of(text: str) -> list[str]:
    """The words of a text, folded, as patterns match them."""
    return _WORDS.findall(fold(text))


def words_and_signs(text: str) -> tuple[list[str], int]:
    """The same, and how many characters of scripts without blanks stand beside them."""
    folded = fold(text)
    signs = 0 if folded.isascii() else len(_WITHOUT_BLANKS.findall(folded))
    return _WORDS.findall(_WITHOUT_BLANKS.sub(" ", folded) if signs else folded), signs


def _parse(pattern: str) -> str | list[Part]:
    """A substring, or a run of words. Raises ValueError."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ValueError(f"{pattern[:40]!r}...: longer than {MAX_PATTERN_CHARS:,} characters")
    folded = fold(pattern).strip()
    if not folded:
        raise ValueError(f"{pattern!r} is blank")
    if _WITHOUT_BLANKS.search(folded) is not None:
        substring = folded.removesuffix("*")  # it matches wherever it is
        if "*" in substring:
            raise ValueError(f"{pattern!r}: a star is allowed only at the end")
        return substring
    if _STRAY_STAR.search(folded) is not None:
        raise ValueError(f"{pattern!r}: a star is allowed only at the end of a word")
    found = ((word.lstrip("'"), star == "*") for word, star in _PARTS.findall(folded))
    parts = [(word if is_prefix else word.rstrip("'"), is_prefix) for word, is_prefix in found]
    parts = [part for part in parts if part[0]]
    if not parts:
        raise ValueError(f"{pattern!r} has no letter or digit")
    return parts


def _follows(rest: tuple[Part, ...], words: list[str], at: int) -> bool:
    """True if the words from `at` on begin with these."""
    if at + len(rest) > len(words):
        return False
    for number, (part, is_prefix) in enumerate(rest, at):
        word = words[number]
        if not (word.startswith(part) if is_prefix else word == part):
            return False
    return True
