"""ROUGE of a text against one reference, and the two protocols that make one score of several
references.

By the library rouge-score, with its stemmer, in percent (F1). Protocols differ by up to ten points,
so a score without its protocol says nothing:

- `mean`: the mean over the references;
- `jackknife`: for each reference that is left out the best of the others, and the mean of these, as
  ROUGE-1.5.5 has it for its option that takes the best reference.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import DefaultTokenizer, Tokenizer


class Rouge(NamedTuple):
    """ROUGE-1, ROUGE-2 and ROUGE-L, F1 in percent."""

    r1: float
    r2: float
    rl: float


class _Remembering(Tokenizer):
    """The library's own tokens; a text is looked at once."""

    def __init__(self) -> None:
        self._tokens = cache(DefaultTokenizer(use_stemmer=True).tokenize)

    def tokenize(self, text: str) -> list[str]:
        return self._tokens(text)


_TOKENIZER = _Remembering()
_SCORER = RougeScorer(["rouge1", "rouge2", "rougeL"], tokenizer=_TOKENIZER)


def tokens(text: str) -> list[str]:
    """What is counted: stemmed words in lower case."""
    return _TOKENIZER.tokenize(text)


@cache
def rouge(text: str, reference: str) -> Rouge:
    """Of one text against one reference."""
    scores = _SCORER.score(reference, text)
    return Rouge(*(100.0 * scores[name].fmeasure for name in ("rouge1", "rouge2", "rougeL")))


def average(scores: Iterable[Rouge]) -> Rouge:
    """The mean of scores, of which there is at least one."""
    columns = list(zip(*scores, strict=True))
    return Rouge(*(sum(column) / len(column) for column in columns))


def mean(scores: Sequence[Rouge]) -> Rouge:
    """The mean over a text's references."""
    return average(scores)


def jackknife(scores: Sequence[Rouge]) -> Rouge:
    """The mean, over the references left out, of the best of the others; one reference is its own
    best.
    """
    if len(scores) == 1:
        return scores[0]
    return average(
        Rouge(*(max(column) for column in zip(*(scores[:i] + scores[i + 1 :]), strict=True)))
        for i in range(len(scores))
    )


PROTOCOLS: dict[str, Callable[[Sequence[Rouge]], Rouge]] = {"mean": mean, "jackknife": jackknife}
NAMES = {"mean": "mean of the references", "jackknife": "jackknife of the best reference"}


def scored(text: str, references: Sequence[str]) -> dict[str, Rouge]:
    """A text's score by each protocol."""
    scores = [rouge(text, reference) for reference in references]
    return {name: of(scores) for name, of in PROTOCOLS.items()}


def rounded(score: Rouge) -> list[float]:
    """For a record."""
    return [round(value, 2) for value in score]
