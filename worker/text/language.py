"""The language of a review, by its event's tag or from its text; an extra with py3langid.

The answer is stored with a review and decides which facets it counts in, so it must be the same on
every machine. py3langid adds floats in an order that depends on the processor. Here the same model
is added in integers: its weights are multiples of 1/512, and logarithms of counts are rounded
before they are multiplied.
"""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from math import log1p
from pathlib import Path
from typing import Any, Final
from unicodedata import normalize

import numpy as np

from worker.errors import SetupError
from worker.extras import install_command

UNKNOWN: Final = "und"  # ISO 639's code of an undetermined language
LEAST_BYTES: Final = 12
"""Letters, in bytes of UTF-8, of the shortest text whose language is detected. Of Airbnb's reviews
3 % are shorter; of those above, one in 1,200 is given to a wrong language.
"""
_OTHERS: Final = "ar cs da de el en es fr he hi id it ja ko nl no pl pt ro ru sv th tr uk vi zh"
OTHERS: Final = tuple(_OTHERS.split())
"""What a text may be besides the languages asked for: otherwise Italian would be taken for French.
"""
RULES: Final = "reviews-2"
"""Version of this module and of `abbreviations`: raise it with any change of results."""
_WEIGHT_BITS: Final = 9  # the model's weights are 16-bit floats between 2 and 16 in size
_LOG_BITS: Final = 12
_LOGS: Final = tuple(round(log1p(count) * 2**_LOG_BITS) for count in range(4096))
"""By the number of times that a text has a feature; more count as the last. None is near enough to
a half for the last bit of a logarithm to matter.
"""


def primary_subtag(tag: str) -> str:
    """`pt` of `pt-BR`."""
    return tag.replace("_", "-").partition("-")[0].lower()


class LanguageDetector:
    """Decides among `languages`: primary subtags as `en`. It is pure and callable from any thread.

    A language that py3langid does not know is found by tags alone. Raises SetupError without the
    extra `language`. Uses some 100 MB.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        self.languages = frozenset(languages)
        model = _model()
        wanted = {*OTHERS, *languages}
        columns = [i for i, name in enumerate(model.names) if name in wanted]
        self._names = [model.names[i] for i in columns]
        self._weights = _scaled(model.weights[:, columns], _WEIGHT_BITS).astype(np.int16)
        self._priors = _scaled(model.priors[columns], _WEIGHT_BITS + _LOG_BITS)
        self._model = model

    @property
    def identity(self) -> str:
        """Detectors with one identity give one review the same language, and the same sentences."""
        asked = ",".join(sorted(self.languages))
        return f"py3langid-{version('py3langid')}/{RULES}/{asked}"

    def language_of(self, text: str, tag: str | None = None) -> str:
        """One of `languages`, or UNKNOWN: another one, or a text too short to decide.

        `tag`: the event's `language`, as `pt-BR`; if it has one, the text is not looked at.
        """
        found = primary_subtag(tag) if tag else self._detected(text)
        return found if found in self.languages else UNKNOWN

    def _detected(self, text: str) -> str:
        if not _says_enough(text):
            return UNKNOWN
        counts = self._model.visits(text)
        if not counts:
            return UNKNOWN
        logs = np.array([_LOGS[min(count, len(_LOGS) - 1)] for count in counts.values()])
        scores = logs @ self._weights[list(counts)] + self._priors
        found: str = self._names[int(scores.argmax())]
        return found


def _says_enough(text: str) -> bool:
    size = 0
    for character in text:
        size += len(character.encode()) if character.isalpha() else 0
        if size >= LEAST_BYTES:
            return True
    return False


def _scaled(numbers: Any, bits: int) -> Any:
    """int64: exact, as multiplying by a power of two and rounding are."""
    return np.rint(numbers.astype(np.float64) * 2**bits).astype(np.int64)


class _Model:
    """py3langid's: an automaton over the bytes of a text, whose states find features."""

    def __init__(self) -> None:
        try:
            from py3langid.langid import MODEL_DIR, MODEL_FILE, visit_counts
            from py3langid.modelio import load_model
        except ImportError as error:
            raise SetupError(
                f"languages of reviews need the extra `language`: {install_command('language')}"
            ) from error
        self.weights, self.priors, self.names, self._next, rows, self._found = load_model(
            Path(MODEL_DIR) / MODEL_FILE
        )
        self._rows = [row << 8 for row in rows]
        self._count = visit_counts

    def visits(self, text: str) -> dict[int, int] | None:
        """Counts of features in the text; prepared as the texts that the model learned."""
        cased = text.lower() if text.isupper() else text
        letters = normalize("NFC", cased).encode("utf-8", "surrogatepass")
        counts: dict[int, int] | None = self._count(self._next, self._rows, self._found, letters)
        return counts


_model = cache(_Model)
