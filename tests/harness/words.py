"""The words of facets by their definition, slowly: each pattern at each place of each sentence."""

import tomllib
import unicodedata
from importlib.resources import files

from worker.text.language import language_code

WITHOUT_BLANKS = ("CJK UNIFIED", "HIRAGANA", "KATAKANA", "THAI", "KHMER", "LAO", "MYANMAR")


def has_no_blanks(char):
    return unicodedata.name(char, "").startswith(WITHOUT_BLANKS)


def plain(text):
    narrow = "".join(
        unicodedata.normalize("NFKC", char) if "\uff01" <= char <= "\uff5e" else char
        for char in text
    )
    decomposed = unicodedata.normalize("NFD", narrow).casefold().replace("i\u0307", "i")
    return unicodedata.normalize("NFC", decomposed).replace("’", "'")


def tokens(text):
    """The words of a folded text, one character after another; quotation marks are no part."""
    found, word = [], ""
    for char in text + " ":
        belongs = char.isalnum() or char == "'" or unicodedata.category(char)[0] == "M"
        if belongs and not has_no_blanks(char):
            word += char
        elif word:
            found.append(word)
            word = ""
    return [word for word in (word.strip("'") for word in found) if word]


def naive(pattern, text):
    """The definition, slowly: every place, every part."""
    pattern, text = plain(pattern).strip(), plain(text)
    if any(map(has_no_blanks, pattern)):
        return pattern.removesuffix("*") in text
    parts = [
        (tokens(part)[0] + ("'" * (len(bare) - len(bare.rstrip("'"))) if star else ""), star)
        for part in pattern.replace("-", " ").split(" ")
        if tokens(part)
        for star, bare in [(part.endswith("*"), part.removesuffix("*"))]
    ]
    words = tokens(text)
    return any(
        all(
            word.startswith(part) if star else word == part
            for (part, star), word in zip(parts, words[at:], strict=False)
        )
        for at in range(len(words) - len(parts) + 1)
    )


def patterns_for(given_words, language):
    """A facet's patterns that count in a language."""
    if not isinstance(given_words, dict):
        return given_words or ()
    if code := language_code(language):
        return given_words.get(code, ())
    return next(iter(given_words.values()), ())


LISTS = tomllib.loads((files("worker.facets") / "quotable.toml").read_text())
MARKS = ("https:", "http:", "www.", "â€", "\ufffd", "☐", "■", "[b]", "[/b]", "[h1]", "<br", "</")
"""Of templates; the texts of tests have no others."""


def can_be_quoted(text, language):
    """Five to 32 words, three that are not generic, none profane, none of a template, and a
    beginning that needs no sentence before it.
    """
    found = tokens(plain(text))
    language = language_code(language) or "en"

    def is_in(kind, word, languages=(language,)):
        return any(
            word.startswith(pattern[:-1]) if pattern.endswith("*") else word == pattern
            for code in languages
            for pattern in LISTS[kind].get(code, ())
        )

    count = len(found) + sum(map(has_no_blanks, plain(text))) // 2
    return (
        5 <= count <= 32
        and len(text) <= 500
        and sum(is_in("generic", word) for word in found) <= count - 3
        and not any(is_in("profane", word, LISTS["profane"]) for word in found)
        and not any(mark in text.lower() for mark in MARKS)
        and not (found and is_in("dangling", found[0]))
    )


def names_a_person(text):
    """A capital after a title, or a listed first name with one that follows no saint."""
    words = "".join(char if char.isalpha() else " " for char in text).split()
    titles, saints, names = (LISTS["personal"][kind] for kind in ("title", "saint", "first"))
    return any(
        word[0] == word[0].upper() != word[0].lower()
        and (before.lower() in titles or (word.lower() in names and before.lower() not in saints))
        for before, word in zip(["", *words], words, strict=False)
    )
