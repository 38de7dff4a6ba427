"""The words of facets by their definition, slowly: each pattern at each place of each sentence."""

import unicodedata

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
    return [word for word in (one.strip("'") for one in found) if word]


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
