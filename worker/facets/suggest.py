"""Suggestions of facets: clusters of short sentences, as a file of definitions for people to edit.

Everything is deterministic: the same sentences and vectors in the same order give the same file.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from worker.facets import PRESETS
from worker.facets.definitions import PRESET, read_definitions
from worker.facets.words import words_of

WORDS_OF_A_SENTENCE: Final = range(3, 13)
"""Shorter sentences name no subject, longer ones often several."""
MAX_CHARS: Final = 200  # of a short sentence; scripts without blanks have no words to count
PER_FACET: Final = 10  # least different sentences for each facet asked for
SAMPLES: Final = 5  # sentences shown of a cluster
MAX_WORDS: Final = 12  # suggested of a cluster
WORD_CHARS: Final = range(2, 31)  # of a suggested word
RATIO: Final = 4.0  # least ratio of a word's frequency in the cluster to that outside
MAJORITY: Final = 0.5  # least share of the sentences with a suggested word that are in the cluster
LEAST_SHARE: Final = 0.02  # of the cluster's sentences that have a suggested word
LEAST_COUNT: Final = 3  # sentences of the cluster that have a suggested word
SEED: Final = 1
STARTS: Final = 5  # runs of k-means, of which the best is taken
ROUNDS: Final = 50  # at most, of a run
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A cluster of sentences as a facet. `share` is of all sentences, `samples` are ordered from
    the most central outwards, `words` by how much they tell the cluster from the rest. `is_junk`:
    the phrase is general praise, a complaint or a plan, rather than about a subject.
    """

    name: str
    phrase: str
    count: int
    share: float
    samples: Sequence[str]
    words: Sequence[str]
    is_junk: bool


class ShortSentences:
    """Different sentences, each with its entities.

    Attributes:
        texts: in the order given.
        weights: (m,) how often each occurs.
        entity_count: entities that have one.
    """

    def __init__(self, entities_of: Mapping[str, Counter[str]]) -> None:
        """`entities_of`: by text, how often each entity has it."""
        self.texts = list(entities_of)
        self._entities = list(entities_of.values())
        self._words = [
            frozenset(word for word in words_of(text) if len(word) in WORD_CHARS and word[0] != "'")
            for text in self.texts
        ]
        self.weights = np.array([of.total() for of in self._entities], np.float32)
        self.entity_count = len(set().union(*self._entities))

    def telling_words(self, rows: Sequence[int]) -> list[str]:
        """The words that are much more frequent in these rows than in all others, the best first.
        A word of one entity alone is left out, if there are several: it may be a name.
        """
        inside, everywhere = self._word_counts(rows), self._all_words
        size = sum(self.weights[rows].tolist())
        rest = max(float(self.weights.sum()) - size, 1.0)
        entities: dict[str, set[str]] = {}
        for row in rows:
            for word in self._words[row]:
                entities.setdefault(word, set()).update(self._entities[row])
        scores = {}
        for word, count in inside.items():
            ratio = (count / size) / ((everywhere[word] - count + 0.5) / rest)
            is_frequent = count >= max(LEAST_COUNT, LEAST_SHARE * size)
            is_telling = ratio >= RATIO and count >= MAJORITY * everywhere[word]
            if is_frequent and is_telling and len(entities[word]) >= min(2, self.entity_count):
                scores[word] = count * math.log(ratio)
        return sorted(scores, key=lambda word: (-scores[word], word))[:MAX_WORDS]

    @cached_property
    def _all_words(self) -> Counter[str]:
        return self._word_counts(range(len(self.texts)))

    def _word_counts(self, rows: Sequence[int]) -> Counter[str]:
        counts: Counter[str] = Counter()
        for row in rows:
            for word in self._words[row]:
                counts[word] += int(self.weights[row])
        return counts


def is_short(text: str) -> bool:
    """True if the sentence is of the length that clusters are made of."""
    return len(text) <= MAX_CHARS and len(text.split()) in WORDS_OF_A_SENTENCE


@cache
def reference_phrases() -> tuple[tuple[str, ...], int]:
    """The phrases of all presets, and how many at the beginning are those of hidden facets: general
    praise and complaints.
    """
    facets = [facet for name in PRESETS for facet in read_definitions(PRESET + name).facets]
    hidden = dict.fromkeys(p for facet in facets if facet.hidden for p in facet.phrases or ())
    others = dict.fromkeys(p for facet in facets if not facet.hidden for p in facet.phrases or ())
    return (*hidden, *others), len(hidden)


def suggest(
    sentences: ShortSentences, vectors: Vectors, references: Vectors, facets: int
) -> list[Suggestion]:
    """At most `facets` suggestions, the largest cluster first.

    `vectors`: (m, D) of the texts; `references`: those of `reference_phrases`.
    """
    unit, weights = _unit(vectors), sentences.weights
    labels, cosines = k_means(unit, weights, facets)
    is_general = (unit @ _unit(references).T).argmax(axis=1) < reference_phrases()[1]
    clusters = [rows for number in range(facets) if len(rows := np.flatnonzero(labels == number))]
    clusters.sort(key=lambda rows: -weights[rows].sum())
    found: list[Suggestion] = []
    for rows in clusters:
        ranked = rows[np.argsort(-cosines[rows], kind="stable")].tolist()
        count = int(weights[rows].sum())
        words = sentences.telling_words(ranked)
        taken = {suggestion.name for suggestion in found}
        name = next((word for word in words if word not in taken), f"cluster {len(found) + 1}")
        # the middles of as many parts of equal size
        places = [(2 * at + 1) * len(ranked) // (2 * SAMPLES) for at in range(SAMPLES)]
        chosen = [ranked[at] for at in dict.fromkeys([0, *places])]
        phrase, *samples = [_line(sentences.texts[row]) for row in chosen]
        is_junk = bool(is_general[ranked[0]])
        share = count / float(weights.sum())
        found.append(Suggestion(name, phrase, count, share, samples, words, is_junk))
    return found


def k_means(unit: Vectors, weights: Vectors, k: int) -> tuple[NDArray[np.int64], Vectors]:
    """The cluster of each row of (m, D), from 0 to k - 1, and its cosine to the cluster's mean.

    Rows have length one; clusters are by cosine, and some may be empty.
    """
    random = np.random.default_rng(SEED)
    runs = [_run(unit, weights, _spread(unit, weights, k, random)) for _ in range(STARTS)]
    return max(runs, key=lambda run: float(weights @ run[1]))


def _spread(unit: Vectors, weights: Vectors, k: int, random: np.random.Generator) -> Vectors:
    """k rows, each drawn the rather the farther it is from those before it (k-means++)."""
    chances, rows = weights.astype(np.float64), []
    nearest = np.full(len(unit), -1.0, np.float32)
    for _ in range(k):
        rows.append(int(random.choice(len(unit), p=chances / chances.sum())))
        nearest = np.maximum(nearest, unit @ unit[rows[-1]])
        chances = weights * np.clip(1.0 - nearest, 1e-9, None)
    return unit[rows]


def _run(unit: Vectors, weights: Vectors, centers: Vectors) -> tuple[NDArray[np.int64], Vectors]:
    labels = np.full(len(unit), -1)
    for _ in range(ROUNDS):
        cosines = unit @ centers.T
        found = cosines.argmax(axis=1)
        if (found == labels).all():
            break
        labels = found
        members = (labels == np.arange(len(centers))[:, None]) * weights
        sums = members @ unit
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        centers = np.where(lengths > 0, sums / np.maximum(lengths, 1e-12), centers)
    return labels, cosines[np.arange(len(unit)), labels]


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)


def _line(text: str) -> str:
    """The text on one line that a comment may have."""
    return " ".join(_CONTROL.sub(" ", text).split())


# ---- the file


def definitions_file(suggestions: Sequence[Suggestion], of: str) -> str:
    """The suggestions as a TOML file that `read_definitions` accepts. `of` says what they are
    of.
    """
    return "\n".join(_file_lines(suggestions, of)) + "\n"


def _file_lines(suggestions: Sequence[Suggestion], of: str) -> Iterator[str]:
    yield f"# Facets suggested from {_line(of)}."
    yield "# For a person to edit before any use: name each facet, give it a good and a bad phrase,"
    yield "# correct its words, and remove or hide those without a subject. Then look at it:"
    yield "#   coversumm-worker summarize FILE --facets THIS_FILE --view facets --pretty"
    all_junk = all(
        suggestion.is_junk for suggestion in suggestions
    )  # a file must show at least one facet
    for suggestion in suggestions:
        yield ""
        share = f"{100 * suggestion.share:.0f} %"
        yield f"# {suggestion.count:,} sentences, {share}; from the middle outwards:"
        yield from (f"#   {sample}" for sample in suggestion.samples)
        yield "[[facet]]"
        yield f"name = {_quoted(suggestion.name)}"
        if suggestion.is_junk:
            yield "# likely junk: the phrase is general praise, a complaint or a plan"
            yield "# hidden = true" if all_junk else "hidden = true"
        yield f"phrases = [{_quoted(suggestion.phrase)}]"
        if suggestion.words and not suggestion.is_junk:
            yield f"words = [{', '.join(map(_quoted, suggestion.words))}]"


def _quoted(text: str) -> str:
    # a string of JSON is one of TOML, but for this character
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
