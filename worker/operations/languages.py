"""The languages of the reviews of a run, beside those that its model reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from worker.errors import SetupError
from worker.text.declared import unread_note
from worker.text.language import OTHERS, UNKNOWN, LanguageDetector


class _Review(msgspec.Struct):
    """A review, as events of the contract and bare reviews have it."""

    text: str | None = None
    language: str | None = None


_review = msgspec.json.Decoder(_Review).decode


class Languages:
    """Counts the reviews of each language, by their tags, else by their texts if the extra
    `language` is there.
    """

    def __init__(self, model: Sequence[str]) -> None:
        """`model`: the languages that it reads."""
        self._model = tuple(model)
        self._reviews, self._others = 0, Counter[str]()
        self._detector: LanguageDetector | None
        try:
            self._detector = LanguageDetector((*OTHERS, *model))
        except SetupError:
            self._detector = None

    def add(self, value: bytes | None) -> None:
        """Count a review; anything else is none."""
        try:
            review = _review(value or b"")
        except msgspec.DecodeError:
            return
        if review.text is None or self._detector is None:
            return
        self._reviews += 1
        found = self._detector.language_of(review.text, review.language)
        if found != UNKNOWN and found not in self._model:
            self._others[found] += 1

    @property
    def warning(self) -> str | None:
        """The line about reviews that the model does not read; None if they are few."""
        note = unread_note(self._others, self._reviews, "reviews", self._model)
        if note is None:
            return None
        return (
            f"warning: {note}, so facets miss most of them. docs/vectors.md names models of more "
            "languages"
        )
