"""Quotable sentences: those that say something of a subject without the sentences around them.

A sentence is quotable if it has 5 to 32 words, at most 500 characters, three words that are not
generic, no mark of a template and no profane word, and does not begin with a word that refers to
what was said before. Where a facets file hides names it has none of a person either. It is a
function of the sentence and of its review's language. The words are in `quotable.toml`.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from tomllib import loads
from typing import Final

from worker.facets.words import words_and_signs
from worker.text.language import language_code

FEWEST_WORDS, MOST_WORDS, FEWEST_SPECIFIC, MOST_CHARS = 5, 32, 3, 500
SIGNS_OF_A_WORD: Final = 2  # in scripts without blanks
# Boxes and bullets, tags of forums and HTML, bytes read as another encoding, addresses.
_TEMPLATE: Final = re.compile(
    "[\u2500-\u25ff\u2610-\u2612\ufffd]|\\[/?[a-z0-9*]+[\\]=]|</?[a-z]+[ />]|â€|Ã[\u0080-\u00bf]"
    "|https?:|www\\.",
    re.IGNORECASE,
)
_LETTERS: Final = re.compile(r"[^\W\d_]+")


class _List:
    """Words, and the beginnings of words."""

    def __init__(self, patterns: Iterable[str]) -> None:
        given = list(patterns)
        self._words = frozenset(pattern for pattern in given if not pattern.endswith("*"))
        self._prefixes = tuple(pattern[:-1] for pattern in given if pattern.endswith("*"))

    def __contains__(self, word: str) -> bool:
        return word in self._words or word.startswith(self._prefixes)


@cache
def _lists() -> Mapping[str, Mapping[str, _List]]:
    text = (files("worker.facets") / "quotable.toml").read_text("utf-8")
    return {
        kind: {language: _List(words) for language, words in by_language.items()}
        for kind, by_language in loads(text).items()
    }


def has_template(text: str) -> bool:
    """True if the sentence has a mark of a template."""
    return _TEMPLATE.search(text) is not None


def is_quotable(text: str, language: str | None) -> bool:
    """True if the sentence can stand by itself. `language`: a tag of its review's; without one that
    names a language it is English.
    """
    if len(text) > MOST_CHARS or has_template(text):
        return False
    words, signs = words_and_signs(text)
    count = len(words) + signs // SIGNS_OF_A_WORD
    if not FEWEST_WORDS <= count <= MOST_WORDS:
        return False
    lists, code = _lists(), language_code(language) or "en"
    if words and words[0] in lists["dangling"].get(code, ()):
        return False
    if any(word in profane for profane in lists["profane"].values() for word in words):
        return False
    generic = lists["generic"].get(code, ())
    return count - sum(word in generic for word in words) >= FEWEST_SPECIFIC


def has_personal_name(text: str) -> bool:
    """True if a word with a capital follows a title or is a frequent first name. Rare first names,
    and surnames by themselves, are missed.
    """
    lists, before = _lists()["personal"], ""
    for word in _LETTERS.findall(text):
        folded = word.casefold()
        if word[0].isupper() and (
            before in lists["title"] or (folded in lists["first"] and before not in lists["saint"])
        ):
            return True
        before = folded
    return False
