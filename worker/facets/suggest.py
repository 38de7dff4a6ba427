"""Suggestions of facets: the subjects of English reviews, as a file of definitions for people to
edit.

A term is a word in all its forms. The words beside it say what it is: a noun comes after an
article or before a verb, an adjective after "very" or "was". Terms of similar sentences are a
facet. `suggest.toml` has the lists of words. The same reviews and vectors in the same order give
the same file.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from statistics import fmean
from tomllib import loads
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.coversumm.fixed_point import quantize
from worker.facets.definitions import PRESET, Polarity, read_definitions
from worker.facets.polarity import Direction
from worker.facets.words import fold

WORDS_OF_A_PHRASE: Final = range(3, 13)
"""Shorter sentences name no subject, longer ones often several."""
PHRASE_CHARS: Final = 200
SAMPLE: Final = 100  # sentences of a term that are embedded
FEWEST: Final = 5  # reviews with a term
TERM_SHARE: Final = 0.006  # of all reviews, those with a term
FACET_SHARE: Final = 0.015  # and those with a term of a facet
OFTEN: Final = 0.25  # of a term's uses, as a noun
SELDOM: Final = 0.3  # and as anything else
NAMES: Final = 0.5  # of its uses within a clause, those with a capital
LOWER: Final = 0.7  # stars of the reviews with a verb that complains below those of all
SIMILARITY: Final = 0.5  # from which a term joins a facet
MAX_TERMS: Final = 8  # of a facet
_CLAUSES: Final = re.compile('[.,;:!?()"“”/\n…]+|\\s[-–—&]+\\s')
_WORDS: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")

Vectors = NDArray[np.float32]
Embed = Callable[[list[str]], Vectors]


class ReviewTexts(NamedTuple):
    """A live review of an entity."""

    entity: str
    rating: float | None
    sentences: Sequence[str]


class Suggestion(NamedTuple):
    """A subject: the reviews that have one of its words, and real sentences about it."""

    name: str
    words: Sequence[str]
    review_count: int
    phrase: str
    complaint: str | None


@dataclass(slots=True)
class _Term:
    """The uses of a word in all its forms. `texts`: its phrases, with the ratings of reviews."""

    forms: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    reviews: set[int] = field(default_factory=set)
    entities: set[str] = field(default_factory=set)
    texts: dict[str, float | None] = field(default_factory=dict)

    def share(self, kind: str, of: str = "uses") -> float:
        return self.kinds[kind] / max(self.kinds[of], 1)

    @property
    def name(self) -> str:
        return max(self.forms, key=lambda form: (self.forms[form], form))


@cache
def _lists() -> Mapping[str, frozenset[str]]:
    text = (files("worker.facets") / "suggest.toml").read_text("utf-8")
    lists = {name: frozenset(words) for name, words in loads(text).items()}
    grammar = frozenset().union(*(lists[name] for name in lists.keys() - {"evaluative", "heads"}))
    return lists | {"grammar": grammar, "all": frozenset().union(*lists.values())}


def suggest(reviews: Sequence[ReviewTexts], embed: Embed, facets: int) -> list[Suggestion]:
    """At most `facets` suggestions, the most mentioned first. `embed`: texts to (m, D) vectors."""
    counted = [
        (len(set().union(*(term.reviews for term in group))), group)
        for group in _groups(_terms(reviews), embed)
    ]
    counted.sort(key=lambda pair: -pair[0])
    chosen = [pair for pair in counted[:facets] if pair[0] >= FACET_SHARE * len(reviews)]
    polarity = read_definitions(PRESET + "stays").polarity or Polarity()
    good, bad = polarity.good or (), polarity.bad or ()
    direction = Direction(Polarity(good, bad), quantize(embed([*good, *bad])))
    found = []
    for count, group in chosen:
        others = [other[0] for _, other in chosen if other is not group]
        phrase, complaint = _phrases(group[0], others, embed, direction)
        words = [form for term in group for form, _ in term.forms.most_common()]
        found.append(Suggestion(group[0].name, words, count, phrase, complaint))
    return found


def _terms(reviews: Sequence[ReviewTexts]) -> list[_Term]:
    """The terms that are subjects, that of most reviews first."""
    found: dict[str, _Term] = defaultdict(_Term)
    for number, review in enumerate(reviews):
        for text in review.sentences:
            clauses = _CLAUSES.split(text)
            for base in {base for clause in clauses for base in _counted(clause, found)}:
                term = found[base]
                term.reviews.add(number)
                term.entities.add(review.entity)
                if len(text) <= PHRASE_CHARS and len(text.split()) in WORDS_OF_A_PHRASE:
                    term.texts.setdefault(text, review.rating)
    ratings = [review.rating for review in reviews]
    low = _mean(ratings) - LOWER
    fewest = max(FEWEST, TERM_SHARE * len(reviews))
    entities = min(2, len({review.entity for review in reviews}))
    chosen = []
    for base, term in found.items():
        is_frequent = len(term.reviews) >= fewest and len(term.entities) >= entities
        if not is_frequent or not term.texts or term.share("name", "inside") >= NAMES:
            continue
        is_noun = term.share("noun") >= OFTEN and term.kinds["before verb"] > 1
        if term.share("verb") < SELDOM:
            is_subject = is_noun or term.share("predicate") >= SELDOM
        else:
            is_subject = _mean(ratings[at] for at in term.reviews) <= low
        if is_subject:
            chosen.append(base)
    return [found[base] for base in sorted(chosen, key=lambda of: (-len(found[of].reviews), of))]


def _counted(clause: str, terms: Mapping[str, _Term]) -> Iterator[str]:
    """Count the uses of words in a clause; the terms that it has."""
    lists = _lists()
    written = _WORDS.findall(clause)
    words = ["", *map(fold, written), ""]
    for at, (before, word, after) in enumerate(zip(words, words[1:], words[2:], strict=False)):
        base = singular(word)
        if len(word) < 3 or "'" in word or {word, base} & lists["all"]:
            continue
        term = terms[base]
        term.forms[word] += 1
        is_end = not after or after in lists["grammar"]
        begins = before in lists["before_nouns"] or before in lists["evaluative"]
        kinds = {
            "uses": True,
            "inside": at > 0,
            "name": at > 0 and written[at].istitle(),
            "noun": (is_end and begins) or after in lists["after_nouns"],
            "before verb": after in lists["after_nouns"],
            "predicate": before in lists["before_adjectives"],
            "verb": before in lists["before_verbs"],
        }
        term.kinds.update(kind for kind in kinds if kinds[kind])
        yield base


def singular(word: str) -> str:
    """The word without the end of an English plural."""
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _groups(terms: Sequence[_Term], embed: Embed) -> list[list[_Term]]:
    """Terms of similar sentences and meanings, each group with its leader first."""
    if not terms:
        return []
    texts = list(dict.fromkeys(text for term in terms for text in _sample(term.texts)))
    rows = {text: row for row, text in enumerate(texts)}
    vectors = _unit(embed(texts))
    means = [vectors[[rows[text] for text in _sample(term.texts)]].mean(axis=0) for term in terms]
    contexts = _unit(np.array(means) - vectors.mean(axis=0))
    meanings = _unit(embed([f"The {term.name}." for term in terms]))
    similar = (contexts @ contexts.T + meanings @ meanings.T) / 2
    groups: list[list[int]] = []
    for row in range(len(terms)):
        nearest = max(groups, key=lambda group: similar[row, group[0]], default=[row])
        if nearest != [row] and similar[row, nearest[0]] >= SIMILARITY:
            nearest.append(row)
        else:
            groups.append([row])
    return [[terms[row] for row in group[:MAX_TERMS]] for group in groups]


def _sample(texts: Iterable[str]) -> list[str]:
    found = list(texts)
    return found[:: -(-len(found) // SAMPLE) or 1]


def _phrases(
    leader: _Term, others: Sequence[_Term], embed: Embed, direction: Direction
) -> tuple[str, str | None]:
    """The most central sentences without the words of others: one that does not complain, and one
    that does, None without any.
    """
    own = [text for text in leader.texts if not any(text in other.texts for other in others)]
    texts = _sample(own or leader.texts)
    vectors = embed(texts)
    unit = _unit(vectors)
    order = np.argsort(-(unit @ unit.mean(axis=0)), kind="stable").tolist()
    signs = direction.signs(quantize(vectors)).tolist()
    first = next((row for row in order if signs[row] >= 0), order[0])
    ratings = [direction.of_rating(leader.texts[text]) for text in texts]
    complaints = (texts[row] for row in order if signs[row] < 0 and ratings[row] <= 0)
    return texts[first], next(complaints, None)


def _mean(ratings: Iterable[float | None]) -> float:
    known = [rating for rating in ratings if rating is not None]
    return fmean(known) if known else 0.0


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)


def definitions_file(suggestions: Iterable[Suggestion], of: str) -> str:
    """The suggestions as a TOML file that `read_definitions` accepts. `of`: their reviews."""
    lines = [
        f"# Facets suggested from {of}.",
        "# For a person to edit before any use: rename or remove facets, correct their words, and",
        "# give each a sentence of praise and one of complaint. Then look at what they quote:",
        "#   coversumm-worker summarize FILE --facets THIS_FILE --view facets --pretty",
    ]
    for found in suggestions:
        complaints = [] if found.complaint is None else [found.complaint]
        lines += [
            f"\n# {found.review_count:,} reviews mention it.",
            *([] if complaints else ["# No complaint was found: add one to the phrases."]),
            f"[[facet]]\nname = {_quoted(found.name)}",
            f"phrases = [{', '.join(map(_quoted, [found.phrase, *complaints]))}]",
            f'words = [{", ".join(map(_quoted, found.words))}]\nquotes = "words"',
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    # a string of JSON is one of TOML, but for this character
    return json.dumps(" ".join(text.split()), ensure_ascii=False).replace("\x7f", "\\u007f")
