"""A deployment's declaration of its model: languages, prefix and threshold, in a JSON file."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta, Struct

from worker.errors import many
from worker.text.engine import EmbeddingEngine, EngineError, reads_all

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST: Final = 0.05  # of all texts, those that are worth a line
FILE: Final = "coversumm.json"  # in the model's folder


Cosine = Annotated[float, Meta(ge=0, le=1)]


class Answering(Struct, frozen=True, forbid_unknown_fields=True):
    """Cosines of sentences to a question, of a model.

    Attributes:
        near: from it on a sentence answers if it has the question's rare words.
        about: from it on nine in ten sentences speak of what is asked.
        sure: from it on a sentence answers.
    """

    near: Cosine
    about: Cosine
    sure: Cosine

    def __post_init__(self) -> None:
        if not self.near <= self.about <= self.sure:
            raise ValueError("answering: near, about and sure must ascend")


class ModelFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """The file's fields.

    Attributes:
        languages: primary subtags of the languages that the model embeds; None: not declared.
        prefix: what the model needs before each text, with its blank: `query: `.
        threshold: lowest cosine to a phrase, of facets that give none; None: the usual one.
        answering: cosines to questions; None: not declared, so nothing is said to answer.
    """

    languages: (
        Annotated[tuple[Annotated[str, Meta(pattern="^[a-z]{2,3}$")], ...], Meta(min_length=1)]
        | None
    ) = None
    prefix: Annotated[str, Meta(max_length=200)] = ""
    threshold: Cosine | None = None
    answering: Answering | None = None


NOTHING: Final = ModelFacts()
MINILM: Final = ModelFacts(languages=("en",), answering=Answering(0.45, 0.5, 0.55))


def facts_of(engine: EmbeddingEngine | None) -> ModelFacts:
    """The declared facts of the engine's model."""
    found: ModelFacts = getattr(engine, "facts", NOTHING)
    return found


def read_facts(path: Path) -> ModelFacts:
    """The file's content. Raises EngineError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ModelFacts)
    except OSError as error:
        raise EngineError(f"cannot read {path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EngineError(f"{path}: {str(error).replace('`', '')}") from error


def unread_note(unread: Counter[str], count: int, of: str, reads: Sequence[str]) -> str | None:
    """A line about texts, `of` what, in languages that the model does not read, if these are at
    least 5 % of the `count`.
    """
    if not unread or unread.total() < FEWEST * count:
        return None
    named = ", ".join(code for code, _ in unread.most_common(4))
    some = f"{unread.total():,} of {many(count, of)}"
    return f"{some} are in {named}; the model reads {', '.join(reads)}"


class DeclaredEngine:
    """An engine with what its file declares: it embeds each text with the prefix before it.

    With another prefix a model gives other vectors, so the prefix is part of its name.
    """

    def __init__(self, engine: EmbeddingEngine, facts: ModelFacts) -> None:
        self.facts = facts
        self.model = engine.model
        self.dimension = engine.dimension
        self.libraries: Sequence[str] = getattr(engine, "libraries", ())
        self._engine = engine
        self._reads_all = reads_all(engine)
        if facts.prefix:
            name, _, weights = engine.model.rpartition("@")
            both = hashlib.sha256(f"{weights}\n{facts.prefix}".encode()).hexdigest()
            self.model = f"{name}@{both[:12]}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, `(len(texts), dimension)`."""
        return self._engine.embed([self._prefixed(text) for text in texts])

    def reads_all(self, text: str) -> bool:
        """True if the model reads the text to its end, with the prefix before it."""
        return self._reads_all(self._prefixed(text))

    def _prefixed(self, text: str) -> str:
        return self.facts.prefix + text.strip() if self.facts.prefix else text
