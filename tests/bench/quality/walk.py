"""From a ranking to a summary of 75 words, as the authors' published code (rouge.py) walks down it.

Nearest first; a sentence too like one that is taken is skipped (cosine of TF-IDF vectors of at
least 0.75, English stop words left out), and so is one that has fewer than two words or does not
fit: the walk goes on behind it. So what is scored is not the raw set of k.
"""

from collections.abc import Sequence

from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer

WORDS = 75
MIN_WORDS = 2
TOO_LIKE = 0.75


def vectorizer(sentences: Sequence[str]) -> TfidfVectorizer:
    """Fitted on the sentences of all entities."""
    return TfidfVectorizer(decode_error="replace", stop_words="english").fit(sentences)


def walk(
    ranked: Sequence[int], sentences: Sequence[str], tfidf: csr_array, words: int = WORDS
) -> list[int]:
    """The rows that are taken, in the order of the ranking. `tfidf` has a row a sentence."""
    if not ranked:
        return []
    likeness = (tfidf[ranked] @ tfidf[ranked].T).toarray()
    taken: list[int] = []  # places in the ranking
    left = words
    for place, row in enumerate(ranked):
        count = len(sentences[row].split())
        if MIN_WORDS <= count <= left and not (likeness[place, taken] >= TOO_LIKE).any():
            taken.append(place)
            left -= count
    return [ranked[place] for place in taken]


def text_of(rows: Sequence[int], sentences: Sequence[str]) -> str:
    """The sentences as one text."""
    return " ".join(sentences[row] for row in rows)
